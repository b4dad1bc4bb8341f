/* progress.c -- shows that the program is working.
 *
 * A thread of its own draws, so that the library never waits for a terminal.  It shows how much
 * is done, or how long it has taken if the total is unknown.
 * SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct tt_progress {
    pthread_t thread;
    pthread_mutex_t lock; /* of is_done */
    pthread_cond_t ended;
    bool is_done;
    const char *words;
    _Atomic int64_t done, total; /* written by the worker; total 0: not known */
};

enum { WIDTH = 24, MARK = 4 };

/* Draws a bar that fills, or a mark that moves to and fro. */
static void draw(tt_progress *p, unsigned turn, long seconds)
{
    char bar[WIDTH + 1];
    int64_t total = atomic_load(&p->total), done = atomic_load(&p->done);
    double share = total > 0 ? (double)done / (double)total : 0;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    unsigned from = 0, to = (unsigned)(share * WIDTH);
    if (total <= 0) {
        from = turn % (2 * (WIDTH - MARK));
        from = from < WIDTH - MARK ? from : 2 * (WIDTH - MARK) - from;
        to = from + MARK;
    }
    for (unsigned i = 0; i < WIDTH; i++)
        bar[i] = i >= from && i < to ? '=' : ' ';
    bar[WIDTH] = '\0';
    if (total > 0)
        fprintf(stderr, "\r%s [%s] %3.0f%%", p->words, bar, share * 100);
    else
        fprintf(stderr, "\r%s [%s] %ld s", p->words, bar, seconds);
}

static void *show(void *arg)
{
    tt_progress *p = arg;
    struct timespec until, start;
    clock_gettime(CLOCK_REALTIME, &start);
    bool is_shown = false;
    pthread_mutex_lock(&p->lock);
    for (unsigned turn = 0; !p->is_done; turn++) {
        clock_gettime(CLOCK_REALTIME, &until);
        if ((is_shown = until.tv_sec > start.tv_sec))
            draw(p, turn, (long)(until.tv_sec - start.tv_sec));
        until.tv_sec += until.tv_nsec >= 900000000; /* 0.1 s later */
        until.tv_nsec = (until.tv_nsec + 100000000) % 1000000000;
        (void)pthread_cond_timedwait(&p->ended, &p->lock, &until);
    }
    pthread_mutex_unlock(&p->lock);
    if (is_shown)
        fputs("\r\x1b[K", stderr);
    return NULL;
}

tt_progress *tt_progress_start(const char *words)
{
    tt_progress *p = isatty(STDERR_FILENO) == 1 ? calloc(1, sizeof *p) : NULL;
    if (p == NULL)
        return NULL;
    p->words = words;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->ended, NULL);
    if (pthread_create(&p->thread, NULL, show, p) != 0) {
        free(p);
        return NULL;
    }
    return p;
}

void tt_progress_tell(tt_progress *p, int64_t done, int64_t total)
{
    if (p == NULL)
        return;
    atomic_store(&p->done, done);
    atomic_store(&p->total, total);
}

void tt_progress_end(tt_progress *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_done = true;
    pthread_cond_signal(&p->ended);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->ended);
    free(p);
}
