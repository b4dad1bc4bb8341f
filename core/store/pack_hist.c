/* pack_hist.c -- histograms as bytes of the run file, and back.
 *
 * Exists because a histogram in memory is large and mostly empty: the bins are
 * fixed, so a code of two or three bytes names one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/pack_hist.h"

#include "store/wire.h"

#include <stdlib.h>

enum { FEW = 256, CODE_SHIFT = 50, CODES = 1 << 14 };

size_t tt_hist_pack_bound(const tt_hist *hist)
{
    return 30 + tt_hist_bins(hist, NULL, 0) * 13;
}

static uint64_t code_of(const tt_hist_bin *bin)
{
    double edge = bin->high <= 0 && bin->low < 0 ? bin->high : bin->low; /* nearest to zero */
    if (bin->low == 0 && bin->high == 0)
        return 0;
    uint64_t bits;
    memcpy(&bits, &edge, sizeof bits);
    uint64_t code = bits >> CODE_SHIFT;
    if (bin->low < 0)
        code |= CODES / 2; /* also where that edge is zero */
    return code + 1;
}

size_t tt_hist_pack(const tt_hist *hist, void *out)
{
    tt_hist_bin few[FEW], *bins = few, *many = NULL;
    size_t count = tt_hist_bins(hist, few, FEW);
    if (count > FEW) { /* values spread over more than 60 powers of two: rare */
        many = malloc(count * sizeof *many);
        if (many != NULL)
            (void)tt_hist_bins(hist, bins = many, count);
        else
            count = FEW;
    }
    unsigned char *at = out;
    at = tt_put_varint(at, (uint64_t)tt_hist_nan(hist));
    at = tt_put_varint(at, (uint64_t)tt_hist_posinf(hist));
    at = tt_put_varint(at, (uint64_t)tt_hist_neginf(hist));
    for (size_t i = 0; i < count; i++) {
        at = tt_put_varint(at, code_of(&bins[i]));
        at = tt_put_varint(at, (uint64_t)bins[i].count);
    }
    free(many);
    return (size_t)(at - (unsigned char *)out);
}

static double edge_of(uint64_t code)
{
    uint64_t bits = code << CODE_SHIFT;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

tt_status tt_hist_unpack(const void *bytes, size_t len, tt_hist_bin *bins, size_t cap, size_t *count)
{
    tt_cursor cursor = tt_cursor_over(bytes, len);
    for (int i = 0; i < 3; i++)
        (void)tt_cursor_varint(&cursor);
    size_t n = 0;
    for (; tt_cursor_left(&cursor) > 0; n++) {
        uint64_t code = tt_cursor_varint(&cursor), of_bin = tt_cursor_varint(&cursor);
        if (cursor.is_bad || code > CODES || of_bin > INT64_MAX)
            return TT_EFORMAT;
        tt_hist_bin bin = { .count = (int64_t)of_bin };
        if (code > 0) {
            double near = edge_of(code - 1), far = edge_of(code);
            bool is_negative = code - 1 >= CODES / 2;
            bin.low = is_negative ? far : near;
            bin.high = is_negative ? near + 0.0 : far; /* no minus zero */
        }
        if (n < cap)
            bins[n] = bin;
    }
    if (cursor.is_bad)
        return TT_EFORMAT;
    *count = n;
    return TT_OK;
}
