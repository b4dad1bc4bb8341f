/* value.h -- what a run has under a key: a setting, or the last of the numbers that it logged.
 *
 * For lists of runs, which sort and filter by it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_VALUE_H
#define TT_CLI_VALUE_H

#include "tensortap_tools.h"

typedef struct tt_runs_value {
    char *name;      /* owned; in full: "optimizer/lr"; NULL: the run has none */
    char *text;      /* owned; as people see it */
    double number;   /* of a text that is one */
    bool is_number;  /* NaN is one too */
    bool is_setting; /* else it was logged */
} tt_runs_value;

/* Those that every list shows. */
typedef enum tt_runs_usual {
    TT_RUNS_LOSS,
    TT_RUNS_LR,
    TT_RUNS_BATCH,
    TT_RUNS_USUAL_COUNT_,
} tt_runs_usual;

void tt_runs_value_free(tt_runs_value *value);
/* Sets the text, and the number in it if there is one.  Takes neither name nor text. */
tt_status tt_runs_value_set(tt_runs_value *out, const char *name, const char *text);
/* Finds a usual value of a run. */
tt_status tt_runs_value_usual(tt_run *run, const tt_settings *settings, tt_runs_usual which,
                              tt_runs_value *out);
/* Finds the value of a key: the name of a setting or of a logged number, or the end of one behind a '/'.
 * TT_EINVAL: it is the end of several. */
tt_status tt_runs_value_find(tt_run *run, const tt_settings *settings, const char *key,
                             tt_runs_value *out, tt_error *err);
/* Calls for every name that has a value. */
tt_status tt_runs_value_each(tt_run *run, const tt_settings *settings,
                             tt_status (*call)(void *self, const char *name, int32_t site,
                                               const char *setting),
                             void *self);
/* Reads the last number that was logged at a site; TT_EMISMATCH: it has none. */
tt_status tt_runs_value_read(tt_run *run, int32_t site, tt_runs_value *out);

#endif
