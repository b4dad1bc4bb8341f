/* progress.c -- shows that the program is working.
 *
 * A thread of its own draws, so that the library never waits for a terminal.  It shows how much
 * is done, or how long it has taken if the total is unknown.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/progress.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool is_started;
    pthread_t thread;
    int ends[2]; /* of a pipe: the thread ends when the second one is closed */
    const char *words;
    _Atomic int64_t done, total; /* written by the worker; total 0: not known */
} bar;

enum { WIDTH = 24, MARK = 4 };

/* Draws a bar that fills, or a mark that moves to and fro. */
static void draw(unsigned turn, long seconds)
{
    char text[WIDTH + 1];
    int64_t total = atomic_load(&bar.total), done = atomic_load(&bar.done);
    double share = total > 0 ? (double)done / (double)total : 0;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    unsigned from = 0, to = (unsigned)(share * WIDTH);
    if (total <= 0) {
        from = turn % (2 * (WIDTH - MARK));
        from = from < WIDTH - MARK ? from : 2 * (WIDTH - MARK) - from;
        to = from + MARK;
    }
    for (unsigned i = 0; i < WIDTH; i++)
        text[i] = i >= from && i < to ? '=' : ' ';
    text[WIDTH] = '\0';
    if (total > 0)
        fprintf(stderr, "\r%s [%s] %3.0f%%", bar.words, text, share * 100);
    else
        fprintf(stderr, "\r%s [%s] %ld s", bar.words, text, seconds);
}

static void *show(void *unused)
{
    time_t start = time(NULL), now = start;
    for (unsigned turn = 0; poll(&(struct pollfd){ .fd = bar.ends[0] }, 1, 100 /* ms */) <= 0; turn++)
        if ((now = time(NULL)) > start)
            draw(turn, (long)(now - start));
    if (now > start)
        fputs("\r\x1b[K", stderr);
    return unused;
}

void tt_progress_start(const char *words)
{
    bar.words = words;
    bar.is_started = isatty(STDERR_FILENO) == 1 && pipe(bar.ends) == 0 &&
                     pthread_create(&bar.thread, NULL, show, NULL) == 0;
}

void tt_progress_tell(int64_t done, int64_t total)
{
    atomic_store(&bar.done, done);
    atomic_store(&bar.total, total);
}

void tt_progress_end(void)
{
    if (!bar.is_started)
        return;
    bar.is_started = false;
    (void)close(bar.ends[1]);
    (void)pthread_join(bar.thread, NULL);
    (void)close(bar.ends[0]);
}
