/* export_values.h -- writes what a run holds into files of other formats.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_EXPORT_VALUES_H
#define TT_CLI_EXPORT_VALUES_H

#include "progress.h"
#include "range.h"
#include "tensortap_tools.h"

typedef struct tt_export {
    tt_run *run;
    const char *glob, *out;
    tt_range steps;
    bool is_partial;  /* what cannot be read is left out and counted */
    tt_progress *bar; /* borrowed; NULL: none */
    int64_t *lost;    /* points and values that could not be read */
} tt_export;

/* Calls visit for each wanted point.  With is_partial, points that it returns TT_EFORMAT for, or
 * that cannot be read, are left out and counted. */
typedef tt_status tt_export_visit(const tt_export *what, int32_t file, int32_t site, int64_t index,
                                  const tt_point *p, void *context, tt_error *err);
tt_status tt_export_each(const tt_export *what, tt_export_visit *visit, void *context, tt_error *err);

/* Points, one a row.  "-": standard output. */
tt_status tt_export_csv(const tt_export *what, tt_error *err);
tt_status tt_export_json(const tt_export *what, tt_error *err);
/* Whether the values may be unpacked: TT_ELIMIT if they are far larger than the run. */
tt_status tt_export_weigh(const tt_export *what, tt_error *err);
/* Values: a folder with a file for each, or one file.  TT_EMISMATCH: none was kept. */
tt_status tt_export_npy(const tt_export *what, tt_error *err);
tt_status tt_export_safetensors(const tt_export *what, tt_error *err);

#endif
