/* attention.c -- entropy, largest logit and sink mass of an attention, streamed.
 *
 * Exists because a length x length matrix is what nobody can afford to look
 * at.  For each (..., head), a block of queries is laid against one tile of
 * keys after the other:
 *
 *     queries (240) -> packed in sixes ----+
 *     keys (256) -> packed in panels (16) -+-> scores (6 x 256) -> sums of 6 rows
 *
 * so that memory is O(tile * head_dim).  Keys that the causal rule hides are
 * not looked at.  A row ends as H = log Z - W / Z.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/attention.h"

#include "base/float_mode.h"
#include "summary/exponential.h"
#include "tensor/walk.h"
#include "tensortap_tools.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, ROWS = TT_ATTENTION_ROWS, PANEL = TT_ATTENTION_PANEL, KEYS = TT_ATTENTION_KEYS };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* ---- what is asked for -------------------------------------------------- */

/* One call, checked: sizes, and where each operand lies after broadcasting. */
typedef struct operand {
    const char *data;
    tt_dtype dtype;
    bool is_swapped;
    int64_t lead[TT_MAX_DIM];       /* strides of the dimensions before the last two */
    int64_t row_stride, col_stride; /* of the last two; all 0 where broadcast */
} operand;

typedef struct plan {
    operand q, k, mask;
    bool has_mask, is_causal;
    bool is_wide;             /* computed in f64 */
    int32_t leads;            /* dimensions before (query, dim) */
    int64_t lead[TT_MAX_DIM]; /* their sizes, as in q */
    int64_t group;            /* heads that share a head of k */
    int64_t tables;           /* (..., head): the product of lead */
    int64_t queries, keys, dim;
    double scale;
    float *entropy, *max_logit, *sink; /* any may be NULL */
} plan;

/* Sizes are counted from the right, as broadcasting does; missing ones are 1. */
static int64_t size_from_right(const tt_tensor *t, int32_t back)
{
    return back < t->ndim ? t->shape[t->ndim - 1 - back] : 1;
}

/* Strides of t as if it had this shape; false: it does not broadcast to it. */
static bool broadcast(operand *out, const tt_tensor *t, int32_t ndim, const int64_t *shape)
{
    if (t->ndim > ndim)
        return false;
    int64_t stride[TT_MAX_DIM];
    for (int32_t d = 0; d < ndim; d++) {
        int32_t back = ndim - 1 - d;
        int64_t size = size_from_right(t, back);
        if (size != shape[d] && size != 1)
            return false;
        /* strides of an empty tensor were never checked, so never used */
        stride[d] = size == 1 || t->count == 0 ? 0 : t->stride[t->ndim - 1 - back];
    }
    out->data = t->data != NULL ? t->data : ""; /* so that adding 0 to it is defined */
    out->dtype = t->dtype;
    out->is_swapped = t->is_swapped;
    for (int32_t d = 0; d < ndim - 2; d++)
        out->lead[d] = stride[d];
    out->row_stride = stride[ndim - 2];
    out->col_stride = stride[ndim - 1];
    return true;
}

static tt_status check_types(const tt_tensor *q, const tt_tensor *k, const tt_tensor *mask, tt_error *err)
{
    if (q->dtype != TT_F32 && q->dtype != TT_F64 && q->dtype != TT_F16 && q->dtype != TT_BF16)
        return tt_fail(err, TT_EDTYPE,
                       "attention of %s; float32, float64, float16 and bfloat16 are supported",
                       tt_dtype_name(q->dtype));
    if (k->dtype != q->dtype)
        return tt_fail(err, TT_EMISMATCH, "q is %s but k is %s", tt_dtype_name(q->dtype),
                       tt_dtype_name(k->dtype));
    if (mask != NULL && tt_dtype_kind(mask->dtype) != TT_KIND_FLOAT && mask->dtype != TT_BOOL)
        return tt_fail(err, TT_EDTYPE, "the mask is %s; bool or a floating type is needed",
                       tt_dtype_name(mask->dtype));
    return TT_OK;
}

static tt_status check_heads(int64_t heads, int64_t kv_heads, tt_error *err)
{
    if (heads != kv_heads && (kv_heads == 0 || heads % kv_heads != 0))
        return tt_fail(err, TT_EMISMATCH,
                       "q has %" PRId64 " heads, which is no multiple of the %" PRId64 " of k", heads,
                       kv_heads);
    return TT_OK;
}

static tt_status begin(plan *p, const tt_tensor *q, const tt_tensor *k,
                       const tt_attention_options *options, tt_error *err)
{
    const tt_tensor *mask = options != NULL ? options->mask : NULL;
    if (q->ndim < 2 || k->ndim < 2)
        return tt_fail(err, TT_ESHAPE,
                       "q has %" PRId32 " and k %" PRId32
                       " dimensions; (..., heads, length, head_dim) is needed, two at least",
                       q->ndim, k->ndim);
    tt_status st = check_types(q, k, mask, err);
    if (st < 0)
        return st;
    int64_t heads = size_from_right(q, 2), kv_heads = size_from_right(k, 2);
    st = check_heads(heads, kv_heads, err);
    if (st < 0)
        return st;
    p->dim = size_from_right(q, 0);
    if (size_from_right(k, 0) != p->dim)
        return tt_fail(err, TT_EMISMATCH, "head_dim is %" PRId64 " in q but %" PRId64 " in k", p->dim,
                       size_from_right(k, 0));
    p->queries = size_from_right(q, 1);
    p->keys = size_from_right(k, 1);
    p->group = kv_heads > 0 ? heads / kv_heads : 1;

    int32_t ndim = q->ndim > 2 ? q->ndim : 3; /* a lone matrix is one head */
    int64_t shape[TT_MAX_DIM];
    p->leads = ndim - 2;
    p->tables = 1;
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = size_from_right(q, ndim - 1 - d);
        if (d < p->leads) {
            p->lead[d] = shape[d];
            p->tables *= shape[d];
        }
    }
    bool fits = broadcast(&p->q, q, ndim, shape);
    assert(fits);
    shape[ndim - 3] = kv_heads;
    shape[ndim - 2] = p->keys;
    fits = broadcast(&p->k, k, ndim, shape);
    if (!fits)
        return tt_fail(err, TT_EMISMATCH, "the leading sizes of k do not broadcast to those of q");
    p->has_mask = mask != NULL;
    shape[ndim - 3] = heads;
    shape[ndim - 2] = p->queries;
    shape[ndim - 1] = p->keys;
    if (mask != NULL && !broadcast(&p->mask, mask, ndim, shape))
        return tt_fail(err, TT_EMISMATCH,
                       "the mask does not broadcast to (..., %" PRId64 ", %" PRId64 ", %" PRId64 ")",
                       heads, p->queries, p->keys);
    p->is_causal = options != NULL && options->is_causal;
    p->is_wide = q->dtype == TT_F64;
    double scale = options != NULL ? options->scale : (double)NAN;
    p->scale = isnan(scale) ? 1.0 / sqrt((double)p->dim) : scale;
    return TT_OK;
}

/* ---- where the tiles live ----------------------------------------------- */

typedef struct scratch {
    char *queries;                  /* sixes of [dim][6] */
    char *keys;                     /* panels of [dim][16] */
    char *rows;                     /* one panel before packing: [16][dim] */
    char *scores;                   /* [6][KEYS] */
    double *mask;                   /* one row */
    char *run;                      /* the walk's buffer */
    struct tt_attention_row *state; /* of each query of the block */
} scratch;

static void *take(char *base, size_t *used, size_t bytes)
{
    char *at = base != NULL ? base + *used : NULL;
    *used += (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return at;
}

/* Lays the tiles out from base, or only counts their bytes where base is NULL.
 * 0: more than there can be. */
static size_t place(const plan *p, char *base, scratch *out)
{
    size_t used = 0, item = p->is_wide ? sizeof(double) : sizeof(float), depth;
    size_t queries = (size_t)round_up(least(p->queries, TT_ATTENTION_QUERIES), ROWS);
    size_t keys = (size_t)round_up(least(p->keys, KEYS), PANEL);
    if (__builtin_mul_overflow((size_t)p->dim, item, &depth) || depth > SIZE_MAX / 4096)
        return 0;
    out->queries = take(base, &used, queries * depth);
    out->keys = take(base, &used, keys * depth);
    out->rows = take(base, &used, PANEL * depth);
    out->scores = take(base, &used, ROWS * KEYS * item);
    out->mask = take(base, &used, KEYS * sizeof(double));
    out->run = take(base, &used, TT_TILE_BYTES);
    out->state = take(base, &used, queries * sizeof(struct tt_attention_row));
    return used;
}

/* ---- the work ----------------------------------------------------------- */

/* Everything about one (..., head). */
typedef struct table {
    const plan *plan;
    const tt_kernels *kernels;
    scratch at;
    size_t item;              /* bytes of an element of the tiles */
    const char *q, *k, *mask; /* where its part of each operand begins */
    tt_attention_pack_fn *pack;
    tt_attention_score_fn *score;
    tt_attention_fold_fn *fold;
} table;

/* Elements [row, row + rows) x [col, col + cols) of an operand, as f32 or f64. */
static void read_rows(const table *w, const operand *from, const char *data, int64_t row, int64_t rows,
                      int64_t col, int64_t cols, bool is_wide, char *to)
{
    tt_tensor t; /* not zeroed: it is large, and two dimensions are used */
    t.data = data + row * from->row_stride + col * from->col_stride;
    t.count = rows * cols;
    t.dtype = from->dtype;
    t.ndim = 2;
    t.is_swapped = from->is_swapped;
    t.shape[0] = rows, t.shape[1] = cols;
    t.stride[0] = from->row_stride, t.stride[1] = from->col_stride;
    tt_walk walk;
    tt_walk_begin(&walk, &t, TT_ORDER_LOGICAL);
    const void *run;
    for (size_t n; (n = tt_walk_next(&walk, w->at.run, TT_TILE, &run)) > 0;) {
        if (is_wide)
            w->kernels->convert_f64(from->dtype, run, (double *)(void *)to, n);
        else
            w->kernels->convert_f32(from->dtype, run, (float *)(void *)to, n);
        to += n * (is_wide ? sizeof(double) : sizeof(float));
    }
}

/* Rows [first, first + n) of q or k, packed `width` at a time. */
static void pack_rows(const table *w, const operand *from, const char *data, int64_t first, int64_t n,
                      int64_t width, char *to)
{
    int64_t dim = w->plan->dim;
    for (int64_t i = 0; i < n; i += width) {
        int64_t some = least(n - i, width);
        read_rows(w, from, data, first + i, some, 0, dim, w->plan->is_wide, w->at.rows);
        w->pack(w->at.rows, (size_t)some, (size_t)dim, (size_t)width, to);
        to += (size_t)(width * dim) * w->item;
    }
}

/* How many of n keys from `key` on a query sees. */
static int64_t seen_keys(const plan *p, int64_t query, int64_t key, int64_t n)
{
    if (!p->is_causal)
        return n;
    return query < key ? 0 : least(n, query - key + 1);
}

/* Folds one tile of keys into the rows of the block's queries. */
static void fold_tile(const table *w, int64_t query, int64_t queries, int64_t key, int64_t keys)
{
    const plan *p = w->plan;
    tt_attention_mask kind = !p->has_mask               ? TT_ATTENTION_NONE
                             : p->mask.dtype == TT_BOOL ? TT_ATTENTION_HIDE
                                                        : TT_ATTENTION_ADD;
    for (int64_t six = 0; six < queries; six += ROWS) {
        int64_t rows = least(queries - six, ROWS);
        int64_t most = seen_keys(p, query + six + rows - 1, key, keys);
        if (most == 0)
            continue;
        w->score(w->at.queries + (size_t)(six * p->dim) * w->item, w->at.keys, (size_t)p->dim,
                 (size_t)(round_up(most, PANEL) / PANEL), p->scale, w->at.scores);
        for (int64_t r = 0; r < rows; r++) {
            int64_t n = seen_keys(p, query + six + r, key, keys);
            if (n == 0)
                continue;
            if (p->has_mask)
                read_rows(w, &p->mask, w->mask, query + six + r, 1, key, n, true, (char *)w->at.mask);
            w->fold(w->at.scores + (size_t)(r * KEYS) * w->item, (size_t)n, kind, w->at.mask,
                    &w->at.state[six + r]);
        }
    }
}

/* Ends a row: what its sums mean.  z is NaN for NaN and for scores of +Inf,
 * where the softmax is NaN but the largest score is not. */
static void finish_row(const plan *p, const struct tt_attention_row *row, size_t at)
{
    double entropy = (double)NAN, max = row->has_nan ? (double)NAN : row->max, sink = (double)NAN;
    if (row->z == 0.0) { /* saw no key */
        entropy = sink = 0.0;
    } else if (!isnan(row->z)) {
        entropy = tt_log_positive(row->z) - row->w / row->z;
        sink = tt_exp_negative(row->first - row->max) / row->z;
    }
    if (p->entropy != NULL)
        p->entropy[at] = (float)entropy;
    if (p->max_logit != NULL)
        p->max_logit[at] = (float)max;
    if (p->sink != NULL)
        p->sink[at] = (float)sink;
}

static void run_table(table *w, int64_t number)
{
    const plan *p = w->plan;
    w->q = p->q.data;
    w->k = p->k.data;
    w->mask = p->has_mask ? p->mask.data : NULL;
    int64_t rest = number;
    for (int32_t d = p->leads - 1; d >= 0; d--) {
        int64_t index = rest % p->lead[d];
        rest /= p->lead[d];
        w->q += index * p->q.lead[d];
        w->k += (d == p->leads - 1 ? index / p->group : index) * p->k.lead[d];
        if (p->has_mask)
            w->mask += index * p->mask.lead[d];
    }
    for (int64_t query = 0; query < p->queries; query += TT_ATTENTION_QUERIES) {
        int64_t queries = least(p->queries - query, TT_ATTENTION_QUERIES);
        pack_rows(w, &p->q, w->q, query, queries, ROWS, w->at.queries);
        for (int64_t r = 0; r < queries; r++)
            w->at.state[r] = (struct tt_attention_row){ .max = -(double)INFINITY };
        int64_t seen = p->is_causal ? least(p->keys, query + queries) : p->keys;
        for (int64_t key = 0; key < seen; key += KEYS) {
            int64_t keys = least(seen - key, KEYS);
            pack_rows(w, &p->k, w->k, key, keys, PANEL, w->at.keys);
            fold_tile(w, query, queries, key, keys);
        }
        for (int64_t r = 0; r < queries; r++)
            finish_row(p, &w->at.state[r], (size_t)(number * p->queries + query + r));
    }
}

static tt_status run(const plan *p, tt_error *err)
{
    const tt_kernels *kernels = tt_kernels_get();
    table w = { .plan = p, .kernels = kernels };
    size_t bytes = place(p, NULL, &w.at);
    char *memory = bytes > 0 ? malloc(bytes + ALIGN) : NULL;
    if (memory == NULL)
        return tt_fail(err, TT_ENOMEM, "no memory for tiles of head_dim %" PRId64, p->dim);
    (void)place(p, memory + (ALIGN - (uintptr_t)memory % ALIGN) % ALIGN, &w.at);
    w.item = p->is_wide ? sizeof(double) : sizeof(float);
    w.pack = p->is_wide ? kernels->attention_pack_f64 : kernels->attention_pack_f32;
    w.score = p->is_wide ? kernels->attention_score_f64 : kernels->attention_score_f32;
    w.fold = p->is_wide ? kernels->attention_fold_f64 : kernels->attention_fold_f32;
    for (int64_t number = 0; number < p->tables; number++)
        run_table(&w, number);
    free(memory);
    return TT_OK;
}

tt_status tt_attention_compute(const tt_tensor *q, const tt_tensor *k,
                               const tt_attention_options *options, float *entropy, float *max_logit,
                               float *sink, tt_error *err)
{
    plan p;
    uint64_t mode = tt_float_mode_begin();
    tt_status st = begin(&p, q, k, options, err);
    p.entropy = entropy;
    p.max_logit = max_logit;
    p.sink = sink;
    if (st == TT_OK && p.tables > 0 && p.queries > 0)
        st = run(&p, err);
    tt_float_mode_end(mode);
    return st;
}
