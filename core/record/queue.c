/* queue.c -- the bounded ring between the users' threads and the writer.
 *
 * Exists so that recording costs the user's thread some tens of nanoseconds and
 * the recorder's memory never grows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/queue.h"

#include "os/os.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SLOTS_MIN = 1 << 10,
    REWIND_PART = 16, /* of the ring; 2 MB of 32: some steps of a small model */
};

tt_status tt_queue_open(tt_queue *queue, size_t bytes, void (*in_child)(void *owner), void *owner)
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
    if (ring == MAP_FAILED || queue->laps == NULL ||
        tt_worker_open(&queue->worker, in_child, owner) < 0) {
        if (ring != MAP_FAILED)
            (void)munmap(ring, slots * TT_SLOT);
        free((void *)queue->laps);
        return TT_ENOMEM;
    }
    /* Large pages halve the time of copying a tensor in. */
    tt_os_memory_is_large(ring, slots * TT_SLOT);
    queue->ring = ring;
    queue->slots = slots;
    queue->shift = shift;
    return TT_OK;
}

void tt_queue_close(tt_queue *queue)
{
    tt_worker_close(&queue->worker);
    (void)munmap(queue->ring, queue->slots * TT_SLOT);
    free((void *)queue->laps);
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
    if (atomic_load_explicit(&queue->worker.is_asleep, memory_order_relaxed) &&
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
    pthread_mutex_lock(&queue->worker.lock);
    tt_worker_wake(&queue->worker);
    pthread_mutex_unlock(&queue->worker.lock);
}

static bool fits(const tt_queue *queue, uint64_t head, uint64_t slots)
{
    return head + slots - atomic_load(&queue->tail) <= queue->slots;
}

bool tt_queue_has_room(const tt_queue *queue, uint64_t slots)
{
    return atomic_load(&queue->is_stopped) || fits(queue, atomic_load(&queue->head), slots);
}

bool tt_queue_wait(tt_queue *queue, uint64_t slots, double seconds)
{
    pthread_mutex_lock(&queue->worker.lock);
    bool has_room = tt_queue_has_room(queue, slots); /* head and tail belong together here */
    if (!has_room && seconds > 0) {
        tt_worker_wake(&queue->worker);
        tt_worker_wait(&queue->worker, seconds);
        has_room = tt_queue_has_room(queue, slots);
    }
    pthread_mutex_unlock(&queue->worker.lock);
    return has_room;
}

tt_record *tt_queue_reserve(tt_queue *queue, uint32_t n, uint64_t *at)
{
    assert(n > 0 && n <= queue->slots / 4);
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed), pad;
    for (;;) {
        uint64_t rest = queue->slots - (head & (queue->slots - 1));
        pad = rest < n ? rest : 0; /* a record lies in one piece */
        if (atomic_load_explicit(&queue->is_stopped, memory_order_relaxed))
            return NULL;
        if (!fits(queue, head, pad + n)) {
            if (!tt_queue_wait(queue, pad + n, 0))
                return NULL;
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
}

uint64_t tt_queue_rewind(tt_queue *queue, uint64_t at)
{
    uint64_t offset = at & (queue->slots - 1), start = at + queue->slots - offset, head = at;
    if (offset < queue->slots / REWIND_PART)
        return at;
    if (!atomic_compare_exchange_strong(&queue->head, &head, start))
        return at; /* somebody has reserved more */
    atomic_store(&queue->tail, start);
    return start;
}

void tt_queue_stop(tt_queue *queue)
{
    pthread_mutex_lock(&queue->worker.lock);
    atomic_store(&queue->is_stopped, true);
    tt_worker_tell(&queue->worker);
    pthread_mutex_unlock(&queue->worker.lock);
}

void tt_queue_after_fork(tt_queue *queue)
{
    atomic_store(&queue->tail, atomic_load(&queue->head));
    atomic_store(&queue->is_stopped, true);
}
