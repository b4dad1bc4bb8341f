/* clock.h -- the time, and times to wait until.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include "tensortap_tools.h"

#include <time.h>

int64_t tt_clock_now(void);    /* ns since 1970: the time that people read */
int64_t tt_clock_thread(void); /* ns of processor time of this thread */
/* CLOCK_MONOTONIC so many seconds from now; a negative or absurd number is brought into range. */
struct timespec tt_clock_in(double seconds);

#endif
