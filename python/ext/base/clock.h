/* clock.h -- the time of one of the system's clocks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_CLOCK_H
#define TT_EXT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t base_clock(clockid_t which) /* ns */
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
