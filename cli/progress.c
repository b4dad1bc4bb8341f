/* progress.c -- shows that something goes on.
 *
 * Exists apart from what it is about: a thread of its own, so that the library need
 * not call back.  It says how long it has taken, which is all that it knows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <pthread.h>
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
};

static void *show(void *arg)
{
    tt_progress *p = arg;
    struct timespec until, start;
    enum { WIDTH = 24 };
    clock_gettime(CLOCK_REALTIME, &start);
    until = start;
    until.tv_sec += 1;
    pthread_mutex_lock(&p->lock);
    bool is_shown = false;
    for (unsigned turn = 0; !p->is_done; turn++) {
        (void)pthread_cond_timedwait(&p->ended, &p->lock, &until);
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        if (p->is_done || now.tv_sec < start.tv_sec + 1)
            continue;
        char bar[WIDTH + 1];
        unsigned at = turn % (2 * (WIDTH - 4));
        at = at < WIDTH - 4 ? at : 2 * (WIDTH - 4) - at;
        for (unsigned i = 0; i < WIDTH; i++)
            bar[i] = i >= at && i < at + 4 ? '=' : ' ';
        bar[WIDTH] = '\0';
        fprintf(stderr, "\r%s [%s] %ld s", p->words, bar, (long)(now.tv_sec - start.tv_sec));
        is_shown = true;
        until = now;
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
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
