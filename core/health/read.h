/* read.h -- points into courses: from the file, and from the program.  For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_READ_H
#define TT_HEALTH_READ_H

#include "health/history.h"

/* Reads every point of a run; *out has a history for each file.  Points that cannot be read because
 * the file is damaged are left out. */
tt_status tt_histories_read(tt_run *run, tt_history **out, int32_t *ranks, tt_error *err);
/* Takes in one event. */
void tt_history_see(tt_history *history, tt_course *course, const tt_event *event);

#endif
