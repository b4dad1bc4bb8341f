/* sample.c -- a few elements that stand for the whole, as tables.
 *
 * Exists because a person reads a small table, not a tensor.  Every element is
 * found by address arithmetic, so that the cost depends on the table and never
 * on the tensor.  All slices share their row and column indices; the sample is
 * one piece of memory:
 *
 *     tt_sample | slices | row indices | column indices | values | labels
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/sample.h"

#include "tensor/walk.h"
#include "tensortap_tools.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CROWD = 4,       /* more slices than this are ... */
    CROWD_LIMIT = 4, /* ... shown with at most so many rows and columns */
    VALUE_ALIGN = 16,
    INDEX_BYTES = 20, /* of a label: a comma and 19 digits; the bracket and the NUL come on top */
};

/* One indexed axis of the table: `shown` of `size` indices. */
typedef struct axis {
    int64_t size, shown;
} axis;

static axis axis_of(int64_t size, int64_t limit)
{
    return (axis){ .size = size, .shown = size < limit ? size : limit };
}

__extension__ typedef __int128 int128;

/* Index k of m is floor(k * (n - 1) / (m - 1)).  No two are equal, as m <= n. */
static int64_t index_of(axis a, int64_t k)
{
    if (a.shown == a.size || a.shown < 2)
        return k;
    return (int64_t)((int128)k * (a.size - 1) / (a.shown - 1)); /* 64 bits may not hold the product */
}

static void fill_indices(int64_t *out, axis a)
{
    for (int64_t k = 0; k < a.shown; k++)
        out[k] = index_of(a, k);
}

/* What is going to be shown, before any memory is taken. */
typedef struct layout {
    axis slice, row, col;
    int32_t leading;    /* dimensions before rows and columns */
    size_t label_bytes; /* room for each label and its NUL */
} layout;

/* Of more than two leading dimensions all but two stay at their middle. */
static int64_t middle(const tt_tensor *t, int32_t d)
{
    return t->shape[d] / 2;
}

static axis slice_axis(const tt_tensor *t, int32_t leading, int64_t limit)
{
    int64_t size = 1;
    for (int32_t d = 0; d < leading - 2; d++)
        if (t->shape[d] == 0)
            return (axis){ 0 };
    for (int32_t d = leading > 2 ? leading - 2 : 0; d < leading; d++)
        size *= t->shape[d];
    return axis_of(size, limit);
}

static layout lay_out(const tt_tensor *t, const tt_sample_options *options)
{
    layout l = { .leading = t->ndim > 2 ? t->ndim - 2 : 0 };
    l.slice = slice_axis(t, l.leading, options->max_slices);
    int64_t limit = options->max_matrix;
    if (l.slice.shown > CROWD && limit > CROWD_LIMIT)
        limit = CROWD_LIMIT;
    l.row = t->ndim > 1 ? axis_of(t->shape[t->ndim - 2], limit) : (axis){ 1, 1 };
    l.col = t->ndim > 1    ? axis_of(t->shape[t->ndim - 1], limit)
            : t->ndim == 1 ? axis_of(t->shape[0], options->max_vector)
                           : (axis){ 1, 1 };
    l.label_bytes = l.leading > 0 ? 2 + (size_t)l.leading * INDEX_BYTES : 0;
    return l;
}

/* Takes room for so many items at the end of the sample's memory; false: there cannot be so much. */
static bool add_room(size_t *bytes, size_t *at, size_t align, size_t count, size_t item)
{
    size_t some;
    *at = (*bytes + align - 1) & ~(align - 1);
    return !__builtin_mul_overflow(count, item, &some) && !__builtin_add_overflow(*at, some, bytes) &&
           *bytes < SIZE_MAX / 4;
}

tt_sample *tt_sample_alloc(size_t slices, size_t rows, size_t cols, size_t item, size_t label_bytes)
{
    size_t bytes = sizeof(tt_sample), table, slices_at, rows_at, cols_at, values_at, labels_at;
    if (__builtin_mul_overflow(rows, cols, &table) || __builtin_mul_overflow(table, item, &table) ||
        !add_room(&bytes, &slices_at, VALUE_ALIGN, slices, sizeof(tt_sample_slice)) ||
        !add_room(&bytes, &rows_at, sizeof(int64_t), rows, sizeof(int64_t)) ||
        !add_room(&bytes, &cols_at, sizeof(int64_t), cols, sizeof(int64_t)) ||
        !add_room(&bytes, &values_at, VALUE_ALIGN, slices, table) ||
        !add_room(&bytes, &labels_at, 1, label_bytes, 1))
        return NULL;
    char *memory = malloc(bytes);
    if (memory == NULL)
        return NULL;
    tt_sample *sample = (tt_sample *)(void *)memory;
    *sample = (tt_sample){ .count = slices,
                           .slices = (tt_sample_slice *)(void *)(memory + slices_at),
                           .row = (int64_t *)(void *)(memory + rows_at),
                           .col = (int64_t *)(void *)(memory + cols_at),
                           .values = memory + values_at,
                           .value_bytes = table,
                           .labels = memory + labels_at };
    for (size_t i = 0; i < slices; i++)
        sample->slices[i] = (tt_sample_slice){ .label = "",
                                               .rows = (int64_t)rows,
                                               .cols = (int64_t)cols,
                                               .row = sample->row,
                                               .col = sample->col,
                                               .values = sample->values + i * table };
    return sample;
}

/* Copies the chosen elements of one matrix.  One loop a size, so that the
 * compiler sees constant-size moves; memcpy because they may be unaligned. */
#define COPY_TABLE(bytes)                                               \
    case bytes:                                                         \
        for (int64_t r = 0; r < slice->rows; r++) {                     \
            const char *line = from + slice->row[r] * row_stride;       \
            for (int64_t c = 0; c < slice->cols; c++, to += (bytes))    \
                memcpy(to, line + slice->col[c] * col_stride, (bytes)); \
        }                                                               \
        break

static void copy_table(char *to, const char *from, const tt_tensor *t, const tt_sample_slice *slice)
{
    int64_t col_stride = t->ndim > 0 ? t->stride[t->ndim - 1] : 0;
    int64_t row_stride = t->ndim > 1 ? t->stride[t->ndim - 2] : 0;
    switch (tt_dtype_size(t->dtype)) {
        COPY_TABLE(1);
        COPY_TABLE(2);
        COPY_TABLE(4);
        COPY_TABLE(8);
        COPY_TABLE(16);
    }
}

/* Writes the label of slice `flat` and returns the address of its matrix. */
static const char *place_slice(const tt_tensor *t, const layout *l, int64_t flat, char *label)
{
    const char *from = t->data;
    for (int32_t d = 0; d < l->leading; d++) {
        int64_t index = flat;
        if (d < l->leading - 2)
            index = middle(t, d);
        else if (d == l->leading - 2)
            index = flat / t->shape[d + 1];
        else if (l->leading > 1)
            index = flat % t->shape[d];
        label += sprintf(label, "%c%" PRId64, d == 0 ? '[' : ',', index);
        if (t->count > 0) /* strides of an empty tensor were never checked */
            from += index * t->stride[d];
    }
    if (l->leading > 0)
        memcpy(label, "]", 2);
    return from;
}

static tt_status check_option(int64_t value, const char *name, tt_error *err)
{
    if (value >= 1)
        return TT_OK;
    return tt_fail(err, TT_EINVAL, "%s is %" PRId64 "; at least 1 is needed", name, value);
}

static tt_status check_options(const tt_sample_options *options, tt_error *err)
{
    tt_status st = check_option(options->max_vector, "max_vector", err);
    if (st == TT_OK)
        st = check_option(options->max_matrix, "max_matrix", err);
    if (st == TT_OK)
        st = check_option(options->max_slices, "max_slices", err);
    return st;
}

tt_status tt_sample_create(const tt_tensor *t, const tt_sample_options *options, tt_sample **out,
                           tt_error *err)
{
    tt_status st = check_options(options, err);
    if (st < 0)
        return st;
    layout l = lay_out(t, options);
    size_t item = tt_dtype_size(t->dtype), slices = (size_t)l.slice.shown, labels;
    tt_sample *sample =
        __builtin_mul_overflow(slices, l.label_bytes, &labels)
            ? NULL
            : tt_sample_alloc(slices, (size_t)l.row.shown, (size_t)l.col.shown, item, labels);
    if (sample == NULL)
        return tt_fail(err, TT_ENOMEM,
                       "no memory for a sample of %" PRId64 " slices of %" PRId64 " x %" PRId64
                       " elements",
                       l.slice.shown, l.row.shown, l.col.shown);
    sample->is_partial = l.leading > 2 || l.slice.shown < l.slice.size || l.row.shown < l.row.size ||
                         l.col.shown < l.col.size;
    fill_indices(sample->row, l.row);
    fill_indices(sample->col, l.col);
    size_t unit = item / (tt_dtype_kind(t->dtype) == TT_KIND_COMPLEX ? 2 : 1);
    for (size_t i = 0; i < slices; i++) {
        char *values = sample->values + i * sample->value_bytes,
             *label = sample->labels + i * l.label_bytes;
        const char *from = place_slice(t, &l, index_of(l.slice, (int64_t)i), label);
        if (l.leading > 0)
            sample->slices[i].label = label;
        if (t->count > 0)
            copy_table(values, from, t, &sample->slices[i]);
        if (t->is_swapped)
            tt_swap_bytes(values, sample->value_bytes, unit);
    }
    *out = sample;
    return TT_OK;
}

tt_sample *tt_sample_share(tt_sample *sample)
{
    if (sample != NULL)
        sample->others++;
    return sample;
}

void tt_sample_free(tt_sample *sample)
{
    if (sample != NULL && sample->others > 0)
        sample->others--;
    else
        free(sample);
}

size_t tt_sample_count(const tt_sample *sample)
{
    return sample->count;
}

const tt_sample_slice *tt_sample_at(const tt_sample *sample, size_t i)
{
    return i < sample->count ? &sample->slices[i] : NULL;
}

bool tt_sample_is_partial(const tt_sample *sample)
{
    return sample->is_partial;
}
