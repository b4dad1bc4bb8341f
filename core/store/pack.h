/* pack.h -- histograms and samples as bytes of the run file, and back.
 *
 * For store and record.  A histogram: NaN, +Inf, -Inf counts, then for each bin
 * its code (summary/hist.h) and its count, all varints.  A sample: dtype, slices; for each
 * slice its label, rows, columns, their indices, and the elements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_PACK_H
#define TT_STORE_PACK_H

#include "base/buf.h"

/* Bytes that are enough; the packing returns how many it took. */
size_t tt_hist_pack_bound(const tt_hist *hist);
size_t tt_hist_pack(const tt_hist *hist, void *out);
/* Returns TT_EFORMAT if the bytes make no sense; *count bins in all. */
tt_status tt_hist_unpack(const void *bytes, size_t len, tt_hist_bin *bins, size_t cap, size_t *count);
size_t tt_sample_pack_bound(const tt_sample *sample, tt_dtype dtype);
size_t tt_sample_pack(const tt_sample *sample, tt_dtype dtype, void *out);
tt_status tt_sample_unpack(const void *bytes, size_t len, tt_sample **out, tt_dtype *dtype);

#endif
