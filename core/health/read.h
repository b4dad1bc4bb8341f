/* read.h -- points into courses: from the file, and from the program.  For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_READ_H
#define TT_HEALTH_READ_H

#include "health/history.h"

/* Reads the points of a run that have not been read; *histories is made if it is NULL.  Points that
 * cannot be read because the file is damaged are left out. */
tt_status tt_histories_read(tt_histories **histories, tt_run *run, tt_error *err);
/* Takes in one event. */
void tt_history_see(tt_history *history, tt_course *course, const tt_event *event);

#endif
