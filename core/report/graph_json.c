/* graph_json.c -- a chart as JSON, for programs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "report/graph.h"

#include <string.h>

static bool is_exact(const tt_stats *s)
{
    tt_kind kind = tt_dtype_kind((tt_dtype)s->dtype);
    return kind == TT_KIND_INT || kind == TT_KIND_UINT || kind == TT_KIND_BOOL;
}

static void put_integer(tt_json *json, const char *name, tt_dtype dtype, int64_t value)
{
    if (dtype == TT_U64)
        tt_json_u64(json, name, (uint64_t)value);
    else
        tt_json_i64(json, name, value);
}

static void put_pair(tt_json *json, const char *name, double real, double imag)
{
    tt_json_open(json, name, '[');
    tt_json_f64(json, NULL, real);
    tt_json_f64(json, NULL, imag);
    tt_json_close(json);
}

static void put_bound(tt_json *json, const char *name, const tt_stats *s, int64_t exact, double x)
{
    if (!is_exact(s))
        tt_json_f64(json, name, x);
    else if (s->count == 0)
        tt_json_text(json, name, NULL);
    else
        put_integer(json, name, (tt_dtype)s->dtype, exact);
}

static void put_absmax(tt_json *json, const tt_stats *s)
{
    if (s->count == 0 || tt_dtype_kind((tt_dtype)s->dtype) != TT_KIND_INT) {
        put_bound(json, "absmax", s, s->imax, s->absmax);
        return;
    }
    uint64_t low = s->imin < 0 ? 0 - (uint64_t)s->imin : (uint64_t)s->imin;
    uint64_t high = s->imax < 0 ? 0 - (uint64_t)s->imax : (uint64_t)s->imax;
    tt_json_u64(json, "absmax", low > high ? low : high);
}

static void put_sum(tt_json *json, const tt_stats *s)
{
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX)
        put_pair(json, "sum", s->sum, s->sum_imag);
    else if (is_exact(s) && s->isum_hi == 0)
        tt_json_u64(json, "sum", s->isum_lo);
    else if (is_exact(s) && s->isum_hi == -1 && (int64_t)s->isum_lo < 0)
        tt_json_i64(json, "sum", (int64_t)s->isum_lo);
    else
        tt_json_f64(json, "sum", s->sum); /* beyond what readers of JSON can hold anyway */
}

/* count below 0: null */
static void put_indices(tt_json *json, const char *name, const int64_t *indices, int64_t count)
{
    if (count < 0)
        tt_json_text(json, name, NULL);
    else
        tt_json_ints(json, name, indices, count);
}

static void put_stats(tt_json *json, const tt_graph_node *node)
{
    const tt_stats *s = node->stats;
    if (s == NULL) {
        tt_json_text(json, "stats", NULL);
        return;
    }
    tt_json_open(json, "stats", '{');
    put_indices(json, "shape", node->shape, node->ndim);
    tt_json_text(json, "dtype", tt_dtype_name((tt_dtype)s->dtype));
    tt_json_i64(json, "count", s->count);
    tt_json_i64(json, "nan", s->nan);
    tt_json_i64(json, "posinf", s->posinf);
    tt_json_i64(json, "neginf", s->neginf);
    tt_json_i64(json, "zeros", s->zeros);
    put_bound(json, "min", s, s->imin, s->min);
    put_bound(json, "max", s, s->imax, s->max);
    put_absmax(json, s);
    put_sum(json, s);
    if (tt_dtype_kind((tt_dtype)s->dtype) == TT_KIND_COMPLEX)
        put_pair(json, "mean", s->mean, tt_stats_mean_imag(s));
    else
        tt_json_f64(json, "mean", s->mean);
    tt_json_f64(json, "var", tt_stats_var(s));
    tt_json_f64(json, "std", tt_stats_std(s));
    tt_json_f64(json, "l1", s->l1);
    tt_json_f64(json, "l2", tt_stats_l2(s));
    tt_json_f64(json, "rms", tt_stats_rms(s));
    tt_json_close(json);
}

static void put_element(tt_json *json, tt_dtype dtype, const char *at)
{
    switch (tt_dtype_kind(dtype)) {
    case TT_KIND_BOOL:
        tt_json_bool(json, NULL, *(const unsigned char *)at != 0);
        return;
    case TT_KIND_COMPLEX:
        put_pair(json, NULL, tt_graph_part(dtype, at, 0), tt_graph_part(dtype, at, 1));
        return;
    case TT_KIND_FLOAT:
        if (dtype == TT_F64)
            tt_json_f64(json, NULL, tt_element_f64(dtype, at));
        else
            tt_json_f32(json, NULL, (float)tt_element_f64(dtype, at)); /* exact: no type is wider */
        return;
    case TT_KIND_INT:
    case TT_KIND_UINT:
        put_integer(json, NULL, dtype, tt_graph_integer(dtype, at));
        return;
    }
}

static void put_slices(tt_json *json, const tt_graph_node *node)
{
    size_t count = node->sample != NULL && node->stats != NULL ? tt_sample_count(node->sample) : 0;
    tt_json_open(json, "slices", '[');
    for (size_t i = 0; i < count; i++) {
        const tt_sample_slice *slice = tt_sample_at(node->sample, i);
        const char *at = slice->values;
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "label", slice->label);
        put_indices(json, "rows", slice->row, slice->rows);
        put_indices(json, "cols", slice->col, slice->cols);
        tt_json_open(json, "data", '[');
        for (int64_t r = 0; r < slice->rows; r++) {
            tt_json_open(json, NULL, '[');
            for (int64_t c = 0; c < slice->cols; c++, at += tt_dtype_size((tt_dtype)node->stats->dtype))
                put_element(json, (tt_dtype)node->stats->dtype, at);
            tt_json_close(json);
        }
        tt_json_close(json);
        tt_json_close(json);
    }
    tt_json_close(json);
}

static void put_node(tt_json *json, const tt_graph_node *node)
{
    tt_json_open(json, NULL, '{');
    tt_json_u64(json, "id", node->id);
    tt_json_text(json, "name", node->name);
    tt_json_text(json, "file", node->file);
    tt_json_i64(json, "line", node->line);
    tt_json_text(json, "code", node->code);
    put_indices(json, "shape", node->shape, node->ndim);
    tt_json_text(json, "dtype", node->dtype);
    tt_json_text(json, "device", node->device != NULL ? node->device : "cpu");
    put_stats(json, node);
    put_slices(json, node);
    tt_json_bool(json, "sampled", node->sample != NULL && tt_sample_is_partial(node->sample));
    tt_json_close(json);
}

tt_status tt_graph_json(const tt_graph *graph, tt_buf *out)
{
    tt_json json = { .out = out };
    tt_json_open(&json, NULL, '{');
    tt_json_open(&json, "nodes", '[');
    for (size_t i = 0; i < graph->node_count; i++)
        put_node(&json, &graph->nodes[i]);
    tt_json_close(&json);
    tt_json_open(&json, "edges", '[');
    for (size_t i = 0, from, to; i < graph->edge_count; i++) {
        if (!tt_graph_ends(graph, i, &from, &to))
            continue;
        tt_json_open(&json, NULL, '[');
        tt_json_u64(&json, NULL, graph->edges[i].from);
        tt_json_u64(&json, NULL, graph->edges[i].to);
        tt_json_close(&json);
    }
    tt_json_close(&json);
    tt_json_close(&json);
    return tt_json_finish(&json);
}
