/* queue.c -- the bounded ring between the users' threads and the writer.
 *
 * Exists so that recording costs the user's thread some tens of nanoseconds and
 * the recorder's memory never grows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    SLOTS_MIN = 1 << 10,
    REWIND_PART = 16, /* of the ring; 2 MB of 32: some steps of a small model */
};

static tt_status make_conditions(tt_queue *queue)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return TT_ENOMEM;
    /* Setting the clock must not stop the writer. */
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool is_made = pthread_mutex_init(&queue->lock, NULL) == 0 &&
                   pthread_cond_init(&queue->work, &attributes) == 0 &&
                   pthread_cond_init(&queue->space, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return is_made ? TT_OK : TT_ENOMEM;
}

tt_status tt_queue_open(tt_queue *queue, size_t bytes)
{
    memset(queue, 0, sizeof *queue);
    uint64_t slots = SLOTS_MIN;
    unsigned shift = 10;
    while (slots < bytes / TT_SLOT && slots < UINT64_C(1) << 31) {
        slots *= 2;
        shift++;
    }
    queue->laps = calloc(slots, sizeof *queue->laps);
    void *ring = mmap(NULL, slots * TT_SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED || queue->laps == NULL || make_conditions(queue) < 0) {
        if (ring != MAP_FAILED)
            (void)munmap(ring, slots * TT_SLOT);
        free((void *)queue->laps);
        return TT_ENOMEM;
    }
    /* Large pages halve the time of copying a tensor in. */
    (void)madvise(ring, slots * TT_SLOT, MADV_HUGEPAGE);
    queue->ring = ring;
    queue->slots = slots;
    queue->shift = shift;
    return TT_OK;
}

void tt_queue_close(tt_queue *queue)
{
    (void)munmap(queue->ring, queue->slots * TT_SLOT);
    free((void *)queue->laps);
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->space);
}

static tt_record *slot(const tt_queue *queue, uint64_t at)
{
    return (tt_record *)(void *)(queue->ring + (at & (queue->slots - 1)) * TT_SLOT);
}

void tt_queue_commit(tt_queue *queue, uint64_t at)
{
    atomic_store_explicit(&queue->laps[at & (queue->slots - 1)], (uint32_t)(at >> queue->shift) + 1,
                          memory_order_release);
    /* A quarter is enough work to get up for; less can wait for the clock. */
    if (atomic_load_explicit(&queue->is_asleep, memory_order_relaxed) &&
        at - atomic_load_explicit(&queue->tail, memory_order_relaxed) > queue->slots / 4)
        tt_queue_wake(queue);
}

void tt_queue_give_back(tt_queue *queue, uint32_t n, uint64_t at)
{
    tt_record *filler = slot(queue, at);
    filler->slots = n;
    filler->kind = TT_RECORD_PAD;
    tt_queue_commit(queue, at);
}

bool tt_queue_is_behind(const tt_queue *queue)
{
    return atomic_load_explicit(&queue->head, memory_order_relaxed) -
               atomic_load_explicit(&queue->tail, memory_order_relaxed) >
           queue->slots / 4;
}

void tt_queue_wake(tt_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_called = true;
    atomic_store(&queue->is_asleep, false);
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
}

static struct timespec deadline_in(double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = now.tv_nsec + (int64_t)(seconds * 1e9);
    return (struct timespec){ .tv_sec = now.tv_sec + ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

static bool has_room(tt_queue *queue, uint64_t head, uint64_t need)
{
    return head + need - atomic_load(&queue->tail) <= queue->slots;
}

/* Waits for the consumer to move on, or a moment. */
static void wait_for_space(tt_queue *queue, uint64_t need)
{
    struct timespec until = deadline_in(0.1);
    atomic_fetch_add(&queue->waiting, 1);
    pthread_mutex_lock(&queue->lock);
    atomic_store(&queue->is_asleep, false);
    pthread_cond_signal(&queue->work);
    if (!has_room(queue, atomic_load(&queue->head), need) && !atomic_load(&queue->is_stopped))
        pthread_cond_timedwait(&queue->space, &queue->lock, &until);
    pthread_mutex_unlock(&queue->lock);
    atomic_fetch_sub(&queue->waiting, 1);
}

tt_record *tt_queue_reserve(tt_queue *queue, uint32_t n, bool waits, uint64_t *at)
{
    assert(n > 0 && n <= queue->slots / 4);
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed), pad;
    uint32_t seen = 1; /* odd: not looked yet */
    for (;;) {
        uint64_t rest = queue->slots - (head & (queue->slots - 1));
        pad = rest < n ? rest : 0; /* a record lies in one piece */
        if (atomic_load_explicit(&queue->is_stopped, memory_order_relaxed))
            return NULL;
        if (!has_room(queue, head, pad + n)) {
            uint32_t now = atomic_load(&queue->moves);
            if (now == seen && now % 2 == 0) { /* else head and tail may not belong together */
                if (!waits)
                    return NULL;
                wait_for_space(queue, pad + n);
            }
            seen = now;
            head = atomic_load(&queue->head);
        } else if (atomic_compare_exchange_weak(&queue->head, &head, head + pad + n)) {
            break;
        }
    }
    if (pad > 0)
        tt_queue_give_back(queue, (uint32_t)pad, head);
    *at = head + pad;
    return slot(queue, *at);
}

tt_record *tt_queue_peek(const tt_queue *queue, uint64_t at)
{
    uint32_t lap = atomic_load_explicit(&queue->laps[at & (queue->slots - 1)], memory_order_acquire);
    return lap == (uint32_t)(at >> queue->shift) + 1 ? slot(queue, at) : NULL;
}

void tt_queue_release(tt_queue *queue, uint64_t upto)
{
    atomic_store(&queue->tail, upto);
    if (atomic_load(&queue->waiting) > 0) {
        pthread_mutex_lock(&queue->lock);
        pthread_cond_broadcast(&queue->space);
        pthread_mutex_unlock(&queue->lock);
    }
}

uint64_t tt_queue_rewind(tt_queue *queue, uint64_t at)
{
    uint64_t offset = at & (queue->slots - 1), start = at + queue->slots - offset, head = at;
    if (offset < queue->slots / REWIND_PART)
        return at;
    atomic_fetch_add(&queue->moves, 1);
    bool is_moved = atomic_compare_exchange_strong(&queue->head, &head, start);
    if (is_moved) /* else somebody has reserved more */
        atomic_store(&queue->tail, start);
    atomic_fetch_add(&queue->moves, 1);
    return is_moved ? start : at;
}

void tt_queue_sleep(tt_queue *queue, double seconds)
{
    struct timespec until = deadline_in(seconds);
    pthread_mutex_lock(&queue->lock);
    atomic_store(&queue->is_asleep, true);
    int got = 0;
    if (atomic_load(&queue->waiting) > 0 || queue->is_called) /* it came before we were asleep */
        atomic_store(&queue->is_asleep, false);
    while (atomic_load(&queue->is_asleep) && got == 0)
        got = pthread_cond_timedwait(&queue->work, &queue->lock, &until);
    queue->is_called = false;
    atomic_store(&queue->is_asleep, false);
    pthread_mutex_unlock(&queue->lock);
}

void tt_queue_stop(tt_queue *queue)
{
    atomic_store(&queue->is_stopped, true);
    pthread_mutex_lock(&queue->lock);
    pthread_cond_broadcast(&queue->space);
    pthread_mutex_unlock(&queue->lock);
}

void tt_queue_after_fork(tt_queue *queue)
{
    (void)make_conditions(queue);
    atomic_store(&queue->tail, atomic_load(&queue->head));
    atomic_store(&queue->waiting, 0);
    atomic_store(&queue->is_asleep, false);
    atomic_store(&queue->is_stopped, true);
}
