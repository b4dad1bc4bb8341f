/* export.h -- writes what a run holds into files of other formats.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_EXPORT_H
#define TT_CLI_EXPORT_H

#include "tensortap_tools.h"
#include "words.h"

typedef struct tt_export {
    tt_run *run;
    const char *glob, *format, *out;
    tt_range steps;
    bool is_partial; /* what cannot be read is left out and counted */
    int64_t *lost;   /* points and values that could not be read */
} tt_export;

typedef tt_status tt_export_visitor(const tt_export *what, int32_t file, int32_t site, int64_t index,
                                    const tt_point *p, void *context, tt_error *err);
/* Calls visit for each wanted point.  With is_partial, points that cannot be read, or for which it
 * returns TT_EFORMAT, are left out and counted. */
tt_status tt_export_visit(const tt_export *what, tt_export_visitor *visit, void *context, tt_error *err);
/* Reads the bins of a point's histogram into memory that grows; the caller frees *bins. */
tt_status tt_export_bins(tt_run *run, int32_t file, int32_t site, int64_t index, tt_hist_bin **bins,
                         size_t *cap, size_t *count, tt_error *err);

/* Points as csv or json, one a row.  "-": standard output. */
tt_status tt_export_points(const tt_export *what, tt_error *err);
/* Points as an event file of TensorBoard, in a folder. */
tt_status tt_export_events(const tt_export *what, tt_error *err);
/* Whether points, or values, may be unpacked: TT_ELIMIT if they are far larger than the run. */
tt_status tt_export_weigh_points(const tt_export *what, tt_error *err);
tt_status tt_export_weigh_values(const tt_export *what, tt_error *err);
/* Values as npy (a folder with a file for each, or one file) or safetensors.  TT_EMISMATCH: none
 * was kept. */
tt_status tt_export_values(const tt_export *what, tt_error *err);

#endif
