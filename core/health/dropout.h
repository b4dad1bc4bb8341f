/* dropout.h -- ranks with rows of their own that drop the same units.
 *
 * For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_DROPOUT_H
#define TT_HEALTH_DROPOUT_H

#include "report/answer.h"
#include "store/run.h"

/* Adds a note if ranks with other rows of the batch had one random state.  run: of files, not joined. */
tt_status tt_dropout_note(tt_run *run, tt_answers *notes);

#endif
