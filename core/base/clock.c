/* clock.c -- the time, and times to wait until.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

enum { LONGEST = 1000000 /* s: as good as for ever */ };

static int64_t in_ns(struct timespec time)
{
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

int64_t tt_clock_thread(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t tt_clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return in_ns(now);
}

double tt_clock_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)in_ns(now) * 1e-9;
}

struct timespec tt_clock_in(double seconds)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    double wait = seconds > 0 ? seconds : 0; /* NaN too */
    int64_t ns = in_ns(now) + (int64_t)((wait < LONGEST ? wait : LONGEST) * 1e9);
    return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}
