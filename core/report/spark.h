/* spark.h -- a histogram as a few characters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_SPARK_H
#define TT_REPORT_SPARK_H

#include "base/buf.h"

enum { TT_SPARK_CELLS = 9 }; /* odd, so that a bell has its peak in the middle */

/* Shares the counts of logarithmic bins out among cells of one width that
 * cover min to max, which the bins must hold.  Counts within a bin are taken as
 * spread evenly.  is_whole: only whole numbers occur; there are then no more
 * cells than numbers.  Returns the number of cells; 0 where there is nothing to
 * draw: no two different values. */
size_t tt_spark_cells(const tt_hist_bin *bins, size_t count, double min, double max, bool is_whole,
                      double cells[TT_SPARK_CELLS]);

/* Draws them: the fullest cell is full, and one that is not empty looks so. */
tt_status tt_spark_append(const double *cells, size_t count, const tt_style *style, tt_buf *out);

#endif
