/* points.c -- the table of points: a row for each, with all its statistics.
 *
 * Columns are unpacked from the file into the memory that Arrow hands over.  Where the points of a chunk are alike,
 * as they mostly are, nothing is done for a single one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrow/walk.h"

#include "base/float_mode.h"
#include "summary/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Statistics that are columns of the file. */
#define STORED(X)                                                                   \
    X(COUNT, "count", INT, "elements")                                              \
    X(MIN, "min", FLOAT, "of the finite elements, like all statistics; null: none") \
    X(MAX, "max", FLOAT, "")                                                        \
    X(ABSMAX, "absmax", FLOAT, "largest magnitude")                                 \
    X(SUM, "sum", FLOAT, "of complex numbers its real part")                        \
    X(MEAN, "mean", FLOAT, "of complex numbers its real part")                      \
    X(L1, "l1", FLOAT, "sum of magnitudes")                                         \
    X(ZEROS, "zeros", INT, "elements that are 0")                                   \
    X(NAN, "nan", INT, "elements that are NaN")                                     \
    X(POSINF, "posinf", INT, "elements that are +Inf")                              \
    X(NEGINF, "neginf", INT, "elements that are -Inf")
/* Those of TT_STATS_DERIVED_MAP. */
#define DERIVED(X)                              \
    X(var, "unbiased; null below two elements") \
    X(std, "root of var")                       \
    X(l2, "root of the sum of squares")         \
    X(rms, "root of the mean square")

enum {
    RUN,
    RANK,
    SITE,
    KIND,
    MODULE,
    LAYER,
    TENSOR,
    STEP,
    CALL,
    PHASE,
    SKIPPED,
    TIME,
    DTYPE,
    SHAPE,
    VALUE,
#define X(name, text, type, about) AT_##name,
    STORED(X)
#undef X
#define X(name, about) AT_##name,
        DERIVED(X)
#undef X
            DIGEST,
    FIELDS
};

static const tt_arrow_field fields[] = {
    [RUN] = { "run", TT_ARROW_WORD, "the run, as it was named" },
    [RANK] = { "rank", TT_ARROW_INT, "the process; -1: the parts of all ranks, joined" },
    [SITE] = { "site", TT_ARROW_WORD, "whole name: gradient/h.3.mlp.weight" },
    [KIND] = { "kind", TT_ARROW_WORD, "before the first slash: activation, gradient ..." },
    [MODULE] = { "module", TT_ARROW_WORD, "path of the module: h.3.mlp" },
    [LAYER] = { "layer", TT_ARROW_INT, "first number in that path: 3" },
    [TENSOR] = { "tensor", TT_ARROW_WORD, "which of its tensors: weight; null: its only output" },
    [STEP] = { "step", TT_ARROW_INT, "training step" },
    [CALL] = { "call", TT_ARROW_INT, "which call of the module in the step, from 0" },
    [PHASE] = { "phase", TT_ARROW_WORD, "train or eval" },
    [SKIPPED] = { "skipped", TT_ARROW_BOOL, "GradScaler skipped the optimizer step" },
    [TIME] = { "time", TT_ARROW_TIME, "when it was recorded" },
    [DTYPE] = { "dtype", TT_ARROW_WORD, "type of the elements" },
    [SHAPE] = { "shape", TT_ARROW_WORD, "sizes: 768x64" },
    [VALUE] = { "value", TT_ARROW_FLOAT, "a number that the program logged; may be NaN or Inf" },
#define X(name, text, type, about) [AT_##name] = { text, TT_ARROW_##type, about },
    STORED(X)
#undef X
#define X(name, about) [AT_##name] = { #name, TT_ARROW_FLOAT, about },
        DERIVED(X)
#undef X
            [DIGEST] = { "digest", TT_ARROW_DIGEST, "hash of shape, type and elements" },
};
_Static_assert((int)FIELDS <= (int)TT_ARROW_COLUMNS_MAX, "room for every column");
_Static_assert(TT_FIELD_COUNT_ == 21, "every field of tt_field has a column, but thread and products");

static const struct {
    int field;
    tt_column column;
} stored[] = {
#define X(name, text, type, about) { AT_##name, TT_COLUMN_##name },
    STORED(X)
#undef X
};

/* A chunk on its way into a batch. */
typedef struct filling {
    tt_arrow_walk *walk;
    tt_arrow_batch *batch;
    const tt_chunk *chunk;
    size_t n;
    const uint64_t *products; /* of each point */
    uint32_t any, all;        /* products that some have, that all have */
    uint64_t *room;           /* n cells of scratch for each of SCRATCH columns */
} filling;

enum { SCRATCH_PRODUCTS, SCRATCH_ONE, SCRATCH_STATS, SCRATCH = SCRATCH_STATS + TT_STATS_DERIVED };

static uint64_t *scratch(const filling *f, size_t i)
{
    return f->room + i * f->n;
}

static tt_status unpack(const filling *f, tt_column column, uint64_t *out)
{
    return tt_chunk_column(f->chunk, column, f->products, out,
                           &tt_arrow_walk_run(f->walk)->points.scratch);
}

/* Where the rows of the chunk begin in a column of 8 bytes each. */
static uint64_t *cells_of(const filling *f, const tt_arrow_column *column)
{
    return (uint64_t *)(void *)column->data + f->batch->rows;
}

static int32_t *words_of(const filling *f, const tt_arrow_column *column)
{
    return (int32_t *)(void *)column->data + f->batch->rows;
}

/* Points without a product have no such number. */
static tt_status mark_missing(const filling *f, tt_arrow_column *column, uint32_t product)
{
    int64_t from = f->batch->rows, end = from + (int64_t)f->n;
    if ((f->all & product) != 0)
        return TT_OK;
    if ((f->any & product) == 0)
        return tt_arrow_make_null(column, from, end);
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < f->n; i++)
        if ((f->products[i] & product) == 0)
            st = tt_arrow_make_null(column, from + (int64_t)i, from + (int64_t)i + 1);
    return st;
}

static bool is_nonfinite(uint64_t bits)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52;
    return (bits & exponent) == exponent;
}

/* NaN and infinities of a statistic say that no element defines it, or that NaN was propagated: no number. */
static tt_status mark_nonfinite(const filling *f, tt_arrow_column *column)
{
    const uint64_t *cells = cells_of(f, column), one = UINT64_C(1) << 52;
    uint64_t found = 0;
    for (size_t i = 0; i < f->n; i++) /* an exponent of ones carries into the sign */
        found |= (cells[i] & ~(UINT64_C(1) << 63)) + one;
    tt_status st = TT_OK;
    for (size_t i = 0; found >> 63 != 0 && st == TT_OK && i < f->n; i++)
        if (is_nonfinite(cells[i]) && (f->products[i] & TT_PRODUCT_STATS) != 0)
            st = tt_arrow_make_null(column, f->batch->rows + (int64_t)i, f->batch->rows + (int64_t)i + 1);
    return st;
}

/* ---- the head: what all points of a chunk share -------------------------------- */

static tt_status fill_word(const filling *f, size_t field, const char *text, size_t len)
{
    tt_arrow_column *column = tt_arrow_column_of(f->batch, field);
    int32_t number = 0;
    if (column == NULL)
        return TT_OK;
    tt_status st = text != NULL
                       ? tt_arrow_word(column, text, len, &number)
                       : tt_arrow_make_null(column, f->batch->rows, f->batch->rows + (int64_t)f->n);
    int32_t *to = words_of(f, column);
    for (size_t i = 0; i < f->n; i++)
        to[i] = number;
    return st;
}

static void fill_int(const filling *f, size_t field, int64_t x)
{
    tt_arrow_column *column = tt_arrow_column_of(f->batch, field);
    uint64_t *to = column != NULL ? cells_of(f, column) : NULL;
    for (size_t i = 0; to != NULL && i < f->n; i++)
        to[i] = (uint64_t)x;
}

static tt_status fill_head(const filling *f, const tt_arrow_stretch *at)
{
    tt_arrow_name name = tt_arrow_name_parse(at->site, &f->walk->modules);
    tt_status st = fill_word(f, RUN, f->walk->name, strlen(f->walk->name));
    if (st == TT_OK)
        st = fill_word(f, SITE, at->site, strlen(at->site));
    if (st == TT_OK)
        st = fill_word(f, KIND, name.kind.text, name.kind.len);
    if (st == TT_OK)
        st = fill_word(f, MODULE, name.module.text, name.module.len);
    if (st == TT_OK)
        st = fill_word(f, TENSOR, name.tensor.text, name.tensor.len);
    fill_int(f, RANK, at->rank);
    fill_int(f, LAYER, name.layer);
    tt_arrow_column *layer = tt_arrow_column_of(f->batch, LAYER);
    if (st == TT_OK && layer != NULL && name.layer < 0)
        st = tt_arrow_make_null(layer, f->batch->rows, f->batch->rows + (int64_t)f->n);
    return st;
}

/* ---- when, and what ------------------------------------------------------------- */

static tt_status fill_times(const filling *f)
{
    tt_arrow_column *step = tt_arrow_column_of(f->batch, STEP),
                    *call = tt_arrow_column_of(f->batch, CALL),
                    *time = tt_arrow_column_of(f->batch, TIME);
    tt_status st = step != NULL ? unpack(f, TT_COLUMN_STEP, cells_of(f, step)) : TT_OK;
    if (st == TT_OK && call != NULL)
        st = unpack(f, TT_COLUMN_CALL, cells_of(f, call));
    if (st < 0 || time == NULL)
        return st;
    st = unpack(f, TT_COLUMN_TIME, cells_of(f, time));
    int64_t *ns = (int64_t *)(void *)cells_of(f, time);
    for (size_t i = 0; i < f->n; i++)
        ns[i] = ns[i] / 1000 - (ns[i] % 1000 < 0);
    return st;
}

static tt_status fill_phase(const filling *f)
{
    static const char *const texts[] = { [TT_PHASE_TRAIN] = "train", [TT_PHASE_EVAL] = "eval" };
    tt_arrow_column *phase = tt_arrow_column_of(f->batch, PHASE),
                    *skipped = tt_arrow_column_of(f->batch, SKIPPED);
    if (phase == NULL && skipped == NULL)
        return TT_OK;
    uint64_t *cells = scratch(f, SCRATCH_ONE);
    tt_status st = unpack(f, TT_COLUMN_PHASE, cells);
    for (size_t i = 0; skipped != NULL && i < f->n; i++)
        skipped->data[(size_t)f->batch->rows + i] = (cells[i] & TT_PHASE_SKIPPED) != 0;
    int32_t number = 0;
    for (size_t i = 0; st == TT_OK && phase != NULL && i < f->n; i++) {
        uint64_t which = cells[i] & 0xff;
        bool is_known = which == TT_PHASE_TRAIN || which == TT_PHASE_EVAL;
        if (is_known && (i == 0 || which != (cells[i - 1] & 0xff)))
            st = tt_arrow_word(phase, texts[which], strlen(texts[which]), &number);
        words_of(f, phase)[i] = is_known ? number : 0;
        if (!is_known && st == TT_OK)
            st = tt_arrow_make_null(phase, f->batch->rows + (int64_t)i, f->batch->rows + (int64_t)i + 1);
    }
    return st;
}

static tt_status fill_dtype(const filling *f)
{
    tt_arrow_column *dtype = tt_arrow_column_of(f->batch, DTYPE);
    uint64_t *cells = scratch(f, SCRATCH_ONE);
    tt_status st = dtype != NULL ? unpack(f, TT_COLUMN_DTYPE, cells) : TT_OK;
    int32_t number = 0;
    uint64_t before = UINT64_MAX;
    for (size_t i = 0; st == TT_OK && dtype != NULL && i < f->n; i++) {
        bool is_known = cells[i] < TT_DTYPE_COUNT_ && (f->products[i] & TT_PRODUCT_STATS) != 0;
        if (is_known && cells[i] != before) {
            const char *text = tt_dtype_name((tt_dtype)cells[i]);
            st = tt_arrow_word(dtype, text, strlen(text), &number);
            before = cells[i];
        }
        words_of(f, dtype)[i] = is_known ? number : 0;
        if (!is_known && st == TT_OK)
            st = tt_arrow_make_null(dtype, f->batch->rows + (int64_t)i, f->batch->rows + (int64_t)i + 1);
    }
    return st;
}

/* Writes "768x64"; false: the shape is not known. */
static bool write_shape(const char *bytes, size_t len, char *out, size_t room, size_t *out_len)
{
    tt_cursor cursor = tt_cursor_over(bytes, len);
    uint64_t ndim = len > 0 ? tt_cursor_varint(&cursor) : UINT64_MAX;
    size_t at = 0;
    out[0] = '\0';
    for (uint64_t d = 0; ndim <= TT_MAX_DIM && d < ndim; d++)
        at += (size_t)snprintf(out + at, room - at, "%s%" PRIu64, d > 0 ? "x" : "",
                               tt_cursor_varint(&cursor) & INT64_MAX);
    *out_len = at;
    return ndim <= TT_MAX_DIM && !cursor.is_bad;
}

static tt_status fill_shape(const filling *f)
{
    tt_arrow_column *shape = tt_arrow_column_of(f->batch, SHAPE);
    uint64_t *ends = scratch(f, SCRATCH_ONE);
    tt_buf *bytes = &f->walk->bytes;
    char text[TT_MAX_DIM * 21 + 1];
    size_t text_len = 0;
    if (shape == NULL)
        return TT_OK;
    tt_buf_clear(bytes);
    tt_status st = tt_chunk_bytes(f->chunk, TT_COLUMN_SHAPE, f->products, ends, bytes);
    int32_t number = 0;
    bool is_known = false;
    const char *before = "";
    for (size_t i = 0, before_len = SIZE_MAX; st == TT_OK && i < f->n; i++) {
        size_t from = i > 0 ? ends[i - 1] : 0, len = ends[i] - from;
        const char *now = bytes->data != NULL ? bytes->data + from : "";
        if (len != before_len || memcmp(now, before, len) != 0) {
            is_known = write_shape(now, len, text, sizeof text, &text_len);
            if (is_known)
                st = tt_arrow_word(shape, text, text_len, &number);
            before = now;
            before_len = len;
        }
        words_of(f, shape)[i] = is_known ? number : 0;
        if (!is_known && st == TT_OK)
            st = tt_arrow_make_null(shape, f->batch->rows + (int64_t)i, f->batch->rows + (int64_t)i + 1);
    }
    return st;
}

/* ---- numbers ---------------------------------------------------------------------- */

static tt_status fill_value(const filling *f)
{
    tt_arrow_column *value = tt_arrow_column_of(f->batch, VALUE);
    if (value == NULL)
        return TT_OK;
    tt_status st = unpack(f, TT_COLUMN_SCALAR, cells_of(f, value));
    return st == TT_OK ? mark_missing(f, value, TT_PRODUCT_SCALAR) : st;
}

static tt_status fill_digest(const filling *f)
{
    tt_arrow_column *digest = tt_arrow_column_of(f->batch, DIGEST);
    if (digest == NULL)
        return TT_OK;
    uint64_t *to = (uint64_t *)(void *)digest->data + 2 * f->batch->rows, *half = scratch(f, SCRATCH_ONE);
    static const tt_column halves[] = { TT_COLUMN_DIGEST_HI, TT_COLUMN_DIGEST_LO };
    tt_status st = TT_OK;
    if ((f->any & TT_PRODUCT_DIGEST) == 0)
        memset(to, 0, f->n * 16);
    for (size_t k = 0; st == TT_OK && (f->any & TT_PRODUCT_DIGEST) != 0 && k < 2; k++) {
        st = unpack(f, halves[k], half);
        for (size_t i = 0; i < f->n; i++)
            to[2 * i + k] = __builtin_bswap64(half[i]); /* in the order in which it is printed */
    }
    return st == TT_OK ? mark_missing(f, digest, TT_PRODUCT_DIGEST) : st;
}

static tt_status fill_stored(const filling *f)
{
    tt_status st = TT_OK;
    for (size_t k = 0; st == TT_OK && k < sizeof stored / sizeof *stored; k++) {
        tt_arrow_column *column = tt_arrow_column_of(f->batch, (size_t)stored[k].field);
        if (column == NULL)
            continue;
        st = unpack(f, stored[k].column, cells_of(f, column));
        if (st == TT_OK)
            st = mark_missing(f, column, TT_PRODUCT_STATS);
        if (st == TT_OK && column->type == TT_ARROW_FLOAT)
            st = mark_nonfinite(f, column);
    }
    return st;
}

/* A loop for each: the compiler leaves out what the formula does not need. */
#define X(name, expression)                                                        \
    static void derive_##name(const uint64_t *const *cells, size_t n, double *out) \
    {                                                                              \
        for (size_t i = 0; i < n; i++) {                                           \
            tt_stats of, *s = &of;                                                 \
            tt_stats_of_cells(cells, i, TT_STATS_DERIVED, s);                      \
            out[i] = (expression);                                                 \
        }                                                                          \
    }
TT_STATS_DERIVED_MAP(X)
#undef X

static tt_status fill_derived(const filling *f)
{
    static const struct {
        int field;
        void (*derive)(const uint64_t *const *cells, size_t n, double *out);
    } all[] = {
#define X(name, about) { AT_##name, derive_##name },
        DERIVED(X)
#undef X
    };
    static const tt_column columns[] = { TT_STATS_COLUMN_MAP(TT_STATS_COLUMN) };
    const uint64_t *cells[TT_STATS_DERIVED];
    bool is_wanted = false;
    tt_status st = TT_OK;
    (void)derive_mean_imag;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        is_wanted |= tt_arrow_column_of(f->batch, (size_t)all[k].field) != NULL;
    for (size_t k = 0; is_wanted && st == TT_OK && k < TT_STATS_DERIVED; k++) {
        const tt_arrow_column *known = NULL; /* it is unpacked already */
        for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
            if (stored[i].column == columns[k])
                known = tt_arrow_column_of(f->batch, (size_t)stored[i].field);
        cells[k] = known != NULL ? cells_of(f, known) : scratch(f, SCRATCH_STATS + k);
        if (known == NULL)
            st = unpack(f, columns[k], scratch(f, SCRATCH_STATS + k));
    }
    uint64_t mode = tt_float_mode_begin();
    for (size_t k = 0; is_wanted && st == TT_OK && k < sizeof all / sizeof *all; k++) {
        tt_arrow_column *column = tt_arrow_column_of(f->batch, (size_t)all[k].field);
        if (column == NULL)
            continue;
        all[k].derive(cells, f->n, (double *)(void *)cells_of(f, column));
        st = mark_missing(f, column, TT_PRODUCT_STATS);
        if (st == TT_OK)
            st = mark_nonfinite(f, column);
    }
    tt_float_mode_end(mode);
    return st;
}

/* ---- a chunk ---------------------------------------------------------------------- */

static tt_status read_products(filling *f)
{
    uint64_t *products = scratch(f, SCRATCH_PRODUCTS), any = 0, all = UINT64_MAX;
    tt_status st = unpack(f, TT_COLUMN_PRODUCTS, products); /* every point has them */
    for (size_t i = 0; st == TT_OK && i < f->n; i++) {
        any |= products[i];
        all &= products[i];
    }
    f->products = products;
    f->any = (uint32_t)any;
    f->all = (uint32_t)all;
    return st;
}

/* Of a chunk that is only partly among the steps that were asked for. */
static tt_status keep_steps(const filling *f, size_t *kept)
{
    tt_arrow_walk *walk = f->walk;
    uint64_t *steps = scratch(f, SCRATCH_ONE);
    tt_status st = unpack(f, TT_COLUMN_STEP, steps);
    if (st == TT_OK)
        st = tt_grow(&walk->marks, &walk->marks_cap, f->n, 1);
    *kept = 0;
    for (size_t i = 0; st == TT_OK && i < f->n; i++) {
        walk->marks[i] = (int64_t)steps[i] >= walk->first_step && (int64_t)steps[i] <= walk->last_step;
        *kept += walk->marks[i];
    }
    if (st == TT_OK && *kept < f->n)
        tt_arrow_keep(f->batch, f->n, walk->marks, *kept);
    return st;
}

static tt_status fill_chunk(tt_arrow_walk *walk, tt_arrow_batch *batch, const tt_arrow_stretch *at)
{
    tt_chunk chunk;
    size_t n = at->entry->n, kept = n;
    tt_status st = tt_run_chunk(tt_arrow_walk_run(walk), at->tap, at->row, at->entry, &chunk);
    if (st == TT_OK)
        st = tt_grow(&walk->cells, &walk->cells_cap, n * SCRATCH, sizeof *walk->cells);
    if (st == TT_OK)
        st = tt_arrow_reserve(batch, n);
    if (st < 0)
        return st;
    filling f = { .walk = walk, .batch = batch, .chunk = &chunk, .n = n, .room = walk->cells };
    st = read_products(&f);
    if (st == TT_OK)
        st = fill_head(&f, at);
    if (st == TT_OK)
        st = fill_times(&f);
    if (st == TT_OK)
        st = fill_phase(&f);
    if (st == TT_OK)
        st = fill_dtype(&f);
    if (st == TT_OK)
        st = fill_shape(&f);
    if (st == TT_OK)
        st = fill_value(&f);
    if (st == TT_OK)
        st = fill_stored(&f);
    if (st == TT_OK)
        st = fill_derived(&f);
    if (st == TT_OK)
        st = fill_digest(&f);
    bool is_whole = at->entry->first_step >= walk->first_step && at->entry->last_step <= walk->last_step;
    if (st == TT_OK && !is_whole)
        st = keep_steps(&f, &kept);
    if (st == TT_OK)
        batch->rows += (int64_t)kept;
    else
        tt_arrow_drop(batch);
    return st;
}

static tt_status fill(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err)
{
    tt_arrow_stretch at;
    tt_status st = TT_OK;
    while (st == TT_OK && batch->rows < TT_ARROW_ROWS) {
        if (!tt_arrow_walk_next(walk, &at)) {
            walk->is_done = true;
            break;
        }
        st = fill_chunk(walk, batch, &at);
        if (st < 0)
            st = tt_arrow_walk_fail(walk, &at, st, err);
    }
    return st;
}

const tt_arrow_kind tt_arrow_points =
    TT_ARROW_KIND("points", "what was recorded of one site at one step and call", fields, .fill = fill);
