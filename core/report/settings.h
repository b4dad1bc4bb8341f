/* settings.h -- what the program of a run had set, and where its code is.  For report, health and page.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_SETTINGS_H
#define TT_REPORT_SETTINGS_H

#include "tensortap_tools.h"

/* The setting that says how many steps the first optimizer had done before the run. */
#define TT_STEPS_BEFORE "optimizer/steps_before"

/* Which elements of a batch the recorder makes a digest of. */
#define TT_BATCH_DIGEST "tensortap/batch_digest"

/* The value of a setting; NULL: there is none. */
const char *tt_settings_find(const tt_settings *settings, const char *key);
/* Says where the code of an answer's first site is: "Linear in Block.forward (model.py:94)", if the run knows. */
void tt_answers_set_code(tt_answers *answers, tt_answer *of, const tt_run *run);
/* Adds settings and code that differ between two runs; ignore: a glob of keys, or NULL; rename: or NULL. */
tt_status tt_settings_compare(const tt_run *a, const tt_run *b, const char *ignore,
                              const tt_rename *rename, tt_answers *out);

#endif
