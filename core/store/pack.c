/* pack.c -- histograms and samples as bytes of the run file, and back.
 *
 * Exists because a histogram in memory is large and mostly empty: the bins are
 * fixed, so a code of two or three bytes names one.  All slices of a sample share
 * their row and column indices, which are packed once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/pack.h"

#include "base/wire.h"
#include "summary/hist.h"
#include "summary/sample.h"

#include <stdlib.h>

size_t tt_hist_pack_bound(const tt_hist *hist)
{
    return 30 + tt_hist_bins(hist, NULL, 0) * 13;
}

size_t tt_hist_pack(const tt_hist *hist, void *out)
{
    unsigned char *at = out;
    at = tt_put_varint(at, (uint64_t)tt_hist_nan(hist));
    at = tt_put_varint(at, (uint64_t)tt_hist_posinf(hist));
    at = tt_put_varint(at, (uint64_t)tt_hist_neginf(hist));
    for (tt_hist_cursor c = { 0 }; tt_hist_find(hist, &c); c.position++) {
        at = tt_put_varint(at, c.code);
        at = tt_put_varint(at, (uint64_t)c.count);
    }
    return (size_t)(at - (unsigned char *)out);
}

tt_status tt_hist_unpack(const void *bytes, size_t len, tt_hist_bin *bins, size_t cap, size_t *count)
{
    tt_cursor cursor = tt_cursor_over(bytes, len);
    for (int i = 0; i < 3; i++)
        (void)tt_cursor_varint(&cursor);
    size_t n = 0;
    for (; tt_cursor_left(&cursor) > 0; n++) {
        uint64_t code = tt_cursor_varint(&cursor), of_bin = tt_cursor_varint(&cursor);
        if (cursor.is_bad || code > TT_HIST_CODES || of_bin > INT64_MAX)
            return TT_EFORMAT;
        if (n < cap)
            bins[n] = tt_hist_bin_of((uint32_t)code, (int64_t)of_bin);
    }
    if (cursor.is_bad)
        return TT_EFORMAT;
    *count = n;
    return TT_OK;
}

/* ---- samples ----------------------------------------------------------------- */

enum { LABEL_MAX = 1 << 11, ELEMENTS_MAX = 1 << 22 };

size_t tt_sample_pack_bound(const tt_sample *sample, tt_dtype dtype)
{
    size_t bytes = 50;
    if (sample->count == 0)
        return bytes;
    const tt_sample_slice *first = &sample->slices[0];
    bytes += (size_t)(first->rows + first->cols) * 10;
    for (size_t i = 0; i < sample->count; i++)
        bytes += 10 + strlen(sample->slices[i].label);
    return bytes + sample->count * (size_t)(first->rows * first->cols) * tt_dtype_size(dtype);
}

static unsigned char *put_indices(unsigned char *at, const int64_t *indices, int64_t count)
{
    int64_t before = 0;
    for (int64_t i = 0; i < count; i++) {
        at = tt_put_varint(at, (uint64_t)(indices[i] - before));
        before = indices[i];
    }
    return at;
}

size_t tt_sample_pack(const tt_sample *sample, tt_dtype dtype, void *out)
{
    unsigned char *at = out;
    int64_t rows = sample->count > 0 ? sample->slices[0].rows : 0;
    int64_t cols = sample->count > 0 ? sample->slices[0].cols : 0;
    at = tt_put_varint(at, (uint64_t)dtype);
    at = tt_put_varint(at, sample->is_partial);
    at = tt_put_varint(at, sample->count);
    at = tt_put_varint(at, (uint64_t)rows);
    at = tt_put_varint(at, (uint64_t)cols);
    if (sample->count > 0) {
        at = put_indices(at, sample->slices[0].row, rows);
        at = put_indices(at, sample->slices[0].col, cols);
    }
    size_t bytes = (size_t)(rows * cols) * tt_dtype_size(dtype);
    for (size_t i = 0; i < sample->count; i++) {
        size_t len = strlen(sample->slices[i].label);
        at = tt_put_varint(at, len);
        memcpy(at, sample->slices[i].label, len);
        at += len;
        if (bytes > 0)
            memcpy(at, sample->slices[i].values, bytes);
        at += bytes;
    }
    return (size_t)(at - (unsigned char *)out);
}

static void take_indices(tt_cursor *cursor, int64_t *out, uint64_t count)
{
    uint64_t x = 0;
    for (uint64_t i = 0; i < count; i++)
        out[i] = (int64_t)((x += tt_cursor_varint(cursor)) & INT64_MAX);
}

tt_status tt_sample_unpack(const void *bytes, size_t len, tt_sample **out, tt_dtype *dtype)
{
    tt_cursor cursor = tt_cursor_over(bytes, len);
    uint64_t type = tt_cursor_varint(&cursor), is_partial = tt_cursor_varint(&cursor);
    uint64_t count = tt_cursor_varint(&cursor);
    uint64_t rows = tt_cursor_varint(&cursor), cols = tt_cursor_varint(&cursor);
    /* Each slice, row and column takes at least a byte: so much keeps memory small. */
    size_t item = tt_dtype_size((tt_dtype)type);
    if (cursor.is_bad || type >= TT_DTYPE_COUNT_ || count > len || rows > len || cols > len ||
        rows * cols > ELEMENTS_MAX || (count > 0 && rows * cols * item > len))
        return TT_EFORMAT;
    tt_sample *sample = tt_sample_alloc(count, rows, cols, item, len + count);
    if (sample == NULL)
        return TT_ENOMEM;
    sample->is_partial = is_partial != 0;
    take_indices(&cursor, sample->row, count > 0 ? rows : 0);
    take_indices(&cursor, sample->col, count > 0 ? cols : 0);
    char *label = sample->labels;
    for (uint64_t i = 0; i < count && !cursor.is_bad; i++) {
        uint64_t label_len = tt_cursor_varint(&cursor);
        const unsigned char *text = tt_cursor_take(&cursor, label_len);
        const unsigned char *values = tt_cursor_take(&cursor, sample->value_bytes);
        if (values == NULL || label_len > LABEL_MAX) {
            cursor.is_bad = true;
            break;
        }
        memcpy(label, text, label_len);
        label[label_len] = '\0';
        memcpy(sample->values + i * sample->value_bytes, values, sample->value_bytes);
        sample->slices[i].label = label;
        label += label_len + 1;
    }
    if (cursor.is_bad || tt_cursor_left(&cursor) > 0) {
        free(sample);
        return TT_EFORMAT;
    }
    *out = sample;
    *dtype = (tt_dtype)type;
    return TT_OK;
}
