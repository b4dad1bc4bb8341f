/* graph_json.c -- a chart as JSON, for programs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "report/graph_pen.h"

#include <string.h>

static bool is_exact(tt_dtype dtype)
{
    tt_kind kind = tt_dtype_kind(dtype);
    return kind == TT_KIND_INT || kind == TT_KIND_UINT || kind == TT_KIND_BOOL;
}

static void put_exact(tt_json *json, const tt_stats *s, int64_t value)
{
    if (s->count == 0)
        tt_json_null(json);
    else if (s->dtype == TT_U64)
        tt_json_u64(json, (uint64_t)value);
    else
        tt_json_i64(json, value);
}

static void put_pair(tt_json *json, double real, double imag)
{
    tt_json_array(json);
    tt_json_f64(json, real);
    tt_json_f64(json, imag);
    tt_json_end(json);
}

static void put_bound(tt_json *json, const char *key, const tt_stats *s, int64_t exact, double x)
{
    tt_json_key(json, key);
    if (is_exact((tt_dtype)s->dtype))
        put_exact(json, s, exact);
    else
        tt_json_f64(json, x);
}

static void put_absmax(tt_json *json, const tt_stats *s)
{
    tt_json_key(json, "absmax");
    if (!is_exact((tt_dtype)s->dtype)) {
        tt_json_f64(json, s->absmax);
    } else if (s->count == 0 || tt_dtype_kind((tt_dtype)s->dtype) != TT_KIND_INT) {
        put_exact(json, s, s->imax);
    } else {
        uint64_t low = s->imin < 0 ? 0 - (uint64_t)s->imin : (uint64_t)s->imin;
        uint64_t high = s->imax < 0 ? 0 - (uint64_t)s->imax : (uint64_t)s->imax;
        tt_json_u64(json, low > high ? low : high);
    }
}

static void put_sum(tt_json *json, const tt_stats *s)
{
    tt_json_key(json, "sum");
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX)
        put_pair(json, s->sum, s->sum_imag);
    else if (is_exact((tt_dtype)s->dtype) && s->isum_hi == 0)
        tt_json_u64(json, s->isum_lo);
    else if (is_exact((tt_dtype)s->dtype) && s->isum_hi == -1 && (int64_t)s->isum_lo < 0)
        tt_json_i64(json, (int64_t)s->isum_lo);
    else
        tt_json_f64(json, s->sum); /* beyond what readers of JSON can hold anyway */
}

static void put_shape(tt_json *json, const int64_t *shape, int32_t ndim)
{
    tt_json_key(json, "shape");
    if (ndim < 0) {
        tt_json_null(json);
        return;
    }
    tt_json_array(json);
    for (int32_t d = 0; d < ndim; d++)
        tt_json_i64(json, shape[d]);
    tt_json_end(json);
}

static void put_stats(tt_json *json, const tt_graph_node *node)
{
    const tt_stats *s = node->stats;
    tt_json_key(json, "stats");
    if (s == NULL) {
        tt_json_null(json);
        return;
    }
    const struct {
        const char *key;
        int64_t value;
    } counts[] = { { "count", s->count },
                   { "nan", s->nan },
                   { "posinf", s->posinf },
                   { "neginf", s->neginf },
                   { "zeros", s->zeros } };
    const struct {
        const char *key;
        double value;
    } norms[] = { { "var", tt_stats_var(s) },
                  { "std", tt_stats_std(s) },
                  { "l1", s->l1 },
                  { "l2", tt_stats_l2(s) },
                  { "rms", tt_stats_rms(s) } };
    tt_json_object(json);
    put_shape(json, node->shape, node->ndim);
    tt_json_key(json, "dtype");
    tt_json_text(json, tt_dtype_name((tt_dtype)s->dtype));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        tt_json_key(json, counts[i].key);
        tt_json_i64(json, counts[i].value);
    }
    put_bound(json, "min", s, s->imin, s->min);
    put_bound(json, "max", s, s->imax, s->max);
    put_absmax(json, s);
    put_sum(json, s);
    tt_json_key(json, "mean");
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX)
        put_pair(json, s->mean, tt_stats_mean_imag(s));
    else
        tt_json_f64(json, s->mean);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        tt_json_key(json, norms[i].key);
        tt_json_f64(json, norms[i].value);
    }
    tt_json_end(json);
}

static void put_element(tt_json *json, tt_dtype dtype, const char *at)
{
    int64_t wide;
    switch (tt_dtype_kind(dtype)) {
    case TT_KIND_BOOL:
        tt_json_bool(json, *(const unsigned char *)at != 0);
        return;
    case TT_KIND_COMPLEX: {
        tt_dtype half = dtype == TT_C64 ? TT_F32 : TT_F64;
        put_pair(json, tt_element_f64(half, at), tt_element_f64(half, at + tt_dtype_size(half)));
        return;
    }
    case TT_KIND_FLOAT:
        if (dtype == TT_F64)
            tt_json_f64(json, tt_element_f64(dtype, at));
        else
            tt_json_f32(json, (float)tt_element_f64(dtype, at)); /* exact: no other type is wider */
        return;
    case TT_KIND_INT:
    case TT_KIND_UINT:
        break;
    }
    if (tt_dtype_size(dtype) < sizeof wide)
        wide = (int64_t)tt_element_f64(dtype, at);
    else
        memcpy(&wide, at, sizeof wide);
    if (dtype == TT_U64)
        tt_json_u64(json, (uint64_t)wide);
    else
        tt_json_i64(json, wide);
}

static void put_indices(tt_json *json, const char *key, const int64_t *indices, int64_t count)
{
    tt_json_key(json, key);
    tt_json_array(json);
    for (int64_t i = 0; i < count; i++)
        tt_json_i64(json, indices[i]);
    tt_json_end(json);
}

static void put_slices(tt_json *json, const tt_graph_node *node)
{
    size_t count = node->sample != NULL && node->stats != NULL ? tt_sample_count(node->sample) : 0;
    tt_json_key(json, "slices");
    tt_json_array(json);
    for (size_t i = 0; i < count; i++) {
        const tt_sample_slice *slice = tt_sample_at(node->sample, i);
        const char *at = slice->values;
        tt_json_object(json);
        tt_json_key(json, "label");
        tt_json_text(json, slice->label);
        put_indices(json, "rows", slice->row, slice->rows);
        put_indices(json, "cols", slice->col, slice->cols);
        tt_json_key(json, "data");
        tt_json_array(json);
        for (int64_t r = 0; r < slice->rows; r++) {
            tt_json_array(json);
            for (int64_t c = 0; c < slice->cols; c++, at += tt_dtype_size((tt_dtype)node->stats->dtype))
                put_element(json, (tt_dtype)node->stats->dtype, at);
            tt_json_end(json);
        }
        tt_json_end(json);
        tt_json_end(json);
    }
    tt_json_end(json);
}

static void put_node(tt_json *json, const tt_graph_node *node)
{
    const struct {
        const char *key, *text;
    } place[] = { { "name", node->name }, { "file", node->file } };
    tt_json_object(json);
    tt_json_key(json, "id");
    tt_json_u64(json, node->id);
    for (size_t i = 0; i < 2; i++) {
        tt_json_key(json, place[i].key);
        tt_json_text(json, place[i].text);
    }
    tt_json_key(json, "line");
    tt_json_i64(json, node->line);
    tt_json_key(json, "code");
    tt_json_text(json, node->code);
    put_shape(json, node->shape, node->ndim);
    tt_json_key(json, "dtype");
    tt_json_text(json, node->dtype);
    tt_json_key(json, "device");
    tt_json_text(json, node->device != NULL ? node->device : "cpu");
    put_stats(json, node);
    put_slices(json, node);
    tt_json_key(json, "sampled");
    tt_json_bool(json, node->sample != NULL && tt_sample_is_partial(node->sample));
    tt_json_end(json);
}

tt_status tt_graph_json(const tt_graph *graph, tt_buf *out)
{
    tt_json json;
    tt_json_begin(&json, out);
    tt_json_object(&json);
    tt_json_key(&json, "nodes");
    tt_json_array(&json);
    for (size_t i = 0; i < graph->node_count; i++)
        put_node(&json, &graph->nodes[i]);
    tt_json_end(&json);
    tt_json_key(&json, "edges");
    tt_json_array(&json);
    for (size_t i = 0; i < graph->edge_count; i++) {
        const tt_graph_edge *edge = &graph->edges[i];
        if (tt_graph_find(graph, edge->from) == SIZE_MAX || tt_graph_find(graph, edge->to) == SIZE_MAX)
            continue;
        tt_json_array(&json);
        tt_json_u64(&json, edge->from);
        tt_json_u64(&json, edge->to);
        tt_json_end(&json);
    }
    tt_json_end(&json);
    tt_json_end(&json);
    return tt_json_finish(&json);
}
