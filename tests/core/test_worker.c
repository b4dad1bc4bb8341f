/* test_worker.c -- a thread is woken, waited for, and not there in a forked child.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include "base/clock.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct counter {
    tt_worker worker;
    int wanted, done, times_over;
    bool is_closing;
    int in_child;
    bool is_busy;
    sigset_t mask;
} counter;

static void count_in_child(void *owner)
{
    ((counter *)owner)->in_child++;
}

static void *run(void *argument)
{
    counter *c = argument;
    pthread_mutex_lock(&c->worker.lock);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &c->mask);
    while (!c->is_closing) {
        while (c->done < c->wanted)
            c->done++;
        tt_worker_tell(&c->worker);
        if (!tt_worker_sleep(&c->worker, 60))
            c->times_over++;
    }
    pthread_mutex_unlock(&c->worker.lock);
    return NULL;
}

static void open_counter(counter *c)
{
    memset(c, 0, sizeof *c);
    assert_int_equal(tt_worker_open(&c->worker, count_in_child, c), TT_OK);
    assert_int_equal(tt_worker_start(&c->worker, run, NULL), TT_OK);
    assert_int_equal(tt_worker_start(&c->worker, run, NULL), TT_OK); /* twice is once */
}

static void close_counter(counter *c)
{
    pthread_mutex_lock(&c->worker.lock);
    c->is_closing = true;
    tt_worker_wake(&c->worker);
    pthread_mutex_unlock(&c->worker.lock);
    assert_true(tt_worker_join(&c->worker, 60));
    assert_int_equal(c->times_over, 0);
    tt_worker_close(&c->worker);
}

static void ask_and_wait(counter *c, int wanted)
{
    pthread_mutex_lock(&c->worker.lock);
    c->wanted = wanted;
    tt_worker_wake(&c->worker);
    while (c->done < wanted)
        tt_worker_wait(&c->worker, 60);
    pthread_mutex_unlock(&c->worker.lock);
}

static void the_thread_hears_every_call(void **state)
{
    (void)state;
    counter c;
    open_counter(&c);
    for (int i = 1; i <= 2000; i++) /* often before the thread has gone to sleep */
        ask_and_wait(&c, i);
    close_counter(&c);
}

static void the_thread_takes_no_signals(void **state)
{
    (void)state;
    counter c;
    open_counter(&c);
    ask_and_wait(&c, 1);
    assert_int_equal(sigismember(&c.mask, SIGINT), 1);
    assert_int_equal(sigismember(&c.mask, SIGTERM), 1);
    close_counter(&c);
}

static void a_sleep_ends_with_its_time(void **state)
{
    (void)state;
    tt_worker worker;
    assert_int_equal(tt_worker_open(&worker, NULL, NULL), TT_OK);
    pthread_mutex_lock(&worker.lock);
    assert_false(tt_worker_sleep(&worker, 0.001));
    tt_worker_wake(&worker); /* before it sleeps: it does not sleep at all */
    assert_true(tt_worker_sleep(&worker, 60));
    assert_false(tt_worker_sleep(&worker, 0));
    pthread_mutex_unlock(&worker.lock);
    tt_worker_close(&worker);
}

static void a_thread_that_does_not_end_in_time_is_left_alone(void **state)
{
    (void)state;
    static counter c; /* the thread outlives the test's frame */
    open_counter(&c);
    assert_false(tt_worker_join(&c.worker, 0.01));
}

static void a_forked_child_has_no_thread_and_a_free_lock(void **state)
{
    (void)state;
    counter c;
    open_counter(&c);
    pid_t child = fork();
    if (child == 0) {
        bool is_right = atomic_load(&c.worker.is_inherited) && !c.worker.has_thread && c.in_child == 1 &&
                        pthread_mutex_trylock(&c.worker.lock) == 0 &&
                        pthread_mutex_unlock(&c.worker.lock) == 0;
        tt_worker_close(&c.worker);
        _exit(is_right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(c.in_child, 0);
    ask_and_wait(&c, 1); /* the parent's thread works on */
    close_counter(&c);
}

static void *be_busy(void *argument)
{
    counter *c = argument;
    for (int i = 0; i < 200; i++) {
        tt_worker_begin(&c->worker);
        c->is_busy = true;
        (void)usleep(500);
        c->is_busy = false;
        tt_worker_end(&c->worker);
    }
    return NULL;
}

/* Without being asked to wait, the thread would hardly ever be found idle. */
static void a_fork_comes_between_two_pieces_of_work(void **state)
{
    (void)state;
    counter c = { 0 };
    assert_int_equal(tt_worker_open(&c.worker, NULL, &c), TT_OK);
    assert_int_equal(tt_worker_start(&c.worker, be_busy, NULL), TT_OK);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(c.is_busy || c.worker.is_busy ? 1 : 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_true(tt_worker_join(&c.worker, 60));
    tt_worker_close(&c.worker);
}

static void times_to_wait_until_are_in_range(void **state)
{
    (void)state;
    double now = tt_clock_seconds();
    static const double seconds[] = { -1, 0, 0.25, 1e300, NAN };
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        struct timespec until = tt_clock_in(seconds[i]);
        assert_in_range(until.tv_nsec, 0, 999999999);
        assert_true((double)until.tv_sec >= floor(now));
        assert_true((double)until.tv_sec <= now + 2000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_thread_hears_every_call),
        cmocka_unit_test(the_thread_takes_no_signals),
        cmocka_unit_test(a_sleep_ends_with_its_time),
        cmocka_unit_test(a_forked_child_has_no_thread_and_a_free_lock),
        cmocka_unit_test(a_fork_comes_between_two_pieces_of_work),
        cmocka_unit_test(times_to_wait_until_are_in_range),
        cmocka_unit_test(a_thread_that_does_not_end_in_time_is_left_alone),
    };
    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
