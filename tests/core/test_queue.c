/* test_queue.c -- what a ring that begins anew owes to those who write into it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "record/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

enum { SLOTS = 1024, SOME = SLOTS / 10, MOST = SLOTS / 4 };

static void open_queue(tt_queue *queue)
{
    assert_int_equal(tt_queue_open(queue, SLOTS * TT_SLOT, NULL, NULL), TT_OK);
    assert_int_equal(queue->slots, SLOTS);
}

static uint64_t put(tt_queue *queue, uint32_t slots)
{
    uint64_t at;
    tt_record *record = tt_queue_reserve(queue, slots, &at);
    assert_non_null(record);
    *record = (tt_record){ .slots = slots, .kind = TT_RECORD_NOTE };
    tt_queue_commit(queue, at);
    return at;
}

/* Takes everything from a position on; returns where to go on. */
static uint64_t take(tt_queue *queue, uint64_t at)
{
    for (const tt_record *record; (record = tt_queue_peek(queue, at)) != NULL;)
        at += record->slots;
    tt_queue_release(queue, at);
    return at;
}

static void after_a_rewind_the_whole_ring_is_free(void **state)
{
    (void)state;
    tt_queue queue;
    open_queue(&queue);
    (void)put(&queue, SOME);
    uint64_t at = take(&queue, 0), none;
    assert_int_equal(at, SOME);
    at = tt_queue_rewind(&queue, at);
    assert_int_equal(at, SLOTS);
    for (uint32_t i = 0; i < SLOTS / MOST; i++)
        assert_int_equal(put(&queue, MOST), SLOTS + i * MOST);
    assert_null(tt_queue_reserve(&queue, 1, &none));
    assert_int_equal(take(&queue, at), 2 * SLOTS);
    tt_queue_close(&queue);
}

static void nothing_is_rewound_while_somebody_fills_slots(void **state)
{
    (void)state;
    tt_queue queue;
    uint64_t place;
    open_queue(&queue);
    (void)put(&queue, SOME);
    tt_record *record = tt_queue_reserve(&queue, SOME, &place);
    uint64_t at = take(&queue, 0);
    assert_int_equal(tt_queue_rewind(&queue, at), at);
    *record = (tt_record){ .slots = SOME, .kind = TT_RECORD_NOTE };
    tt_queue_commit(&queue, place);
    assert_int_equal(take(&queue, at), 2 * SOME);
    tt_queue_close(&queue);
}

static void *reserve_most(void *of)
{
    uint64_t at;
    return tt_queue_reserve(of, MOST, &at);
}

/* The consumer stops between moving head and moving tail. */
static void a_ring_that_only_looks_full_while_it_is_rewound_is_not(void **state)
{
    (void)state;
    tt_queue queue;
    pthread_t producer;
    void *record = NULL;
    open_queue(&queue);
    pthread_mutex_lock(&queue.worker.lock);
    atomic_store(&queue.tail, SOME);
    atomic_store(&queue.head, SLOTS);
    assert_int_equal(pthread_create(&producer, NULL, reserve_most, &queue), 0);
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    atomic_store(&queue.tail, SLOTS);
    pthread_mutex_unlock(&queue.worker.lock);
    assert_int_equal(pthread_join(producer, &record), 0);
    assert_non_null(record);
    tt_queue_close(&queue);
}

/* Whoever closes or flushes may call just before the writer lies down. */
static void sleep_for(tt_queue *queue, double seconds)
{
    pthread_mutex_lock(&queue->worker.lock);
    (void)tt_worker_sleep(&queue->worker, seconds);
    pthread_mutex_unlock(&queue->worker.lock);
}

static void a_call_that_comes_before_the_sleep_is_heard_once(void **state)
{
    (void)state;
    tt_queue queue;
    struct timespec before, between, after;
    open_queue(&queue);
    tt_queue_wake(&queue);
    clock_gettime(CLOCK_MONOTONIC, &before);
    sleep_for(&queue, 60);
    clock_gettime(CLOCK_MONOTONIC, &between);
    sleep_for(&queue, 0.01);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(between.tv_sec - before.tv_sec < 30);
    assert_true((after.tv_sec - between.tv_sec) * 1000000000 + after.tv_nsec - between.tv_nsec > 5000000);
    tt_queue_close(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_comes_before_the_sleep_is_heard_once),
        cmocka_unit_test(after_a_rewind_the_whole_ring_is_free),
        cmocka_unit_test(nothing_is_rewound_while_somebody_fills_slots),
        cmocka_unit_test(a_ring_that_only_looks_full_while_it_is_rewound_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
