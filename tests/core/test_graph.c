/* test_graph.c -- what charts look like, to the byte.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "report/graph.h"

#include "alloc_fail.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const tt_sample_options options = { .max_vector = 32, .max_matrix = 8, .max_slices = 6 };

/* A node and what it points to. */
typedef struct drawn {
    tt_graph_node node;
    tt_tensor tensor;
    tt_stats stats;
    tt_sample *sample; /* owned */
} drawn;

static void make(drawn *d, uint64_t id, const char *name, const void *data, tt_dtype dtype, int32_t ndim,
                 const int64_t *shape)
{
    assert_int_equal(tt_tensor_describe(&d->tensor, data, dtype, ndim, shape, NULL, NULL), TT_OK);
    tt_stats_compute(&d->tensor, &d->stats);
    assert_int_equal(tt_sample_create(&d->tensor, &options, &d->sample, NULL), TT_OK);
    d->node = (tt_graph_node){ .id = id,
                               .name = name,
                               .file = "a.py",
                               .code = "code",
                               .line = (int32_t)id,
                               .dtype = tt_dtype_name(dtype),
                               .shape = d->tensor.shape,
                               .ndim = ndim,
                               .stats = &d->stats,
                               .sample = d->sample };
}

typedef tt_status writer(const tt_graph *graph, tt_buf *out);

static char *written(writer *write, const tt_graph *graph)
{
    tt_buf out = { 0 };
    assert_int_equal(write(graph, &out), TT_OK);
    return out.data;
}

static char *dot_of_one(const drawn *d)
{
    return written(tt_graph_dot, &(tt_graph){ .nodes = &d->node, .node_count = 1 });
}

#define FONT "fontname=\"Helvetica,Arial,DejaVu Sans,sans-serif\""
#define HEAD                                                                \
    "digraph {\n  graph [" FONT "]\n  node [" FONT "]\n  edge [" FONT "]\n" \
    "  graph [rankdir=TB, nodesep=0.3, ranksep=0.45]\n"                     \
    "  graph [bgcolor=white, pad=0.2, fontsize=11]\n"                       \
    "  node [shape=plain, fontsize=11]\n"                                   \
    "  edge [color=\"#486581\", arrowsize=0.8, penwidth=1.2]\n"

static void a_small_chart_is_this_text(void **state)
{
    (void)state;
    drawn a, b;
    make(&a, 1, "x", (float[]){ 1, -2 }, TT_F32, 1, (int64_t[]){ 2 });
    make(&b, 2, "y", (float[]){ 0.5f }, TT_F32, 0, NULL);
    a.node.is_source = true;
    a.node.code = "x (source)";
    b.node.code = "y = x.mean()";
    tt_graph graph = { .nodes = (tt_graph_node[]){ a.node, b.node },
                       .node_count = 2,
                       .edges = (tt_graph_edge[]){ { 1, 2 }, { 7, 2 } },
                       .edge_count = 2 };
    char *dot = written(tt_graph_dot, &graph);
    assert_string_equal(
        dot, HEAD
        "  n1 [id=n1, tooltip=\"x\\na.py:1\\nx (source)\\n\", label=<"
        "<table border=\"1\" color=\"#90a4ae\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\" "
        "bgcolor=\"white\" style=\"dashed\">"
        "<tr><td bgcolor=\"#eceff1\" align=\"left\"><table border=\"0\" cellborder=\"0\" "
        "cellspacing=\"0\" "
        "cellpadding=\"3\"><tr><td align=\"left\"><font point-size=\"14\" "
        "color=\"#102a43\"><b>x</b></font>"
        "&#160;&#160;<font color=\"#334e68\">float32&#160;&#160;2</font></td><td align=\"right\">"
        "<font color=\"#52606d\">&#160;&#160;line&#160;1</font></td></tr></table></td></tr>"
        "<tr><td align=\"left\" balign=\"left\"><font face=\"monospace\" point-size=\"10\" "
        "color=\"#243b53\">x&#160;(source)</font></td></tr>"
        "<tr><td align=\"left\"><font point-size=\"10\" color=\"#334e68\">min&#160;-2&#160;&#160;"
        "max&#160;1&#160;&#160;mean&#160;-0.5&#160;&#160;std&#160;2.121&#160;&#160;</font></td></tr>"
        "<tr><td align=\"left\"><font point-size=\"10\"><table border=\"0\" cellborder=\"0\" "
        "cellspacing=\"0\" cellpadding=\"3\"><tr><td align=\"left\" valign=\"top\"><table border=\"0\" "
        "cellborder=\"0\" cellspacing=\"1\" cellpadding=\"2\"><tr>"
        "<td align=\"right\"><font color=\"#829ab1\">0</font></td>"
        "<td align=\"right\"><font color=\"#829ab1\">1</font></td></tr><tr>"
        "<td align=\"right\" bgcolor=\"#fee4c3\">1</td><td align=\"right\" bgcolor=\"#9fcff7\">-2</td>"
        "</tr></table></td></tr></table></font></td></tr></table>>]\n"
        "  n2 [id=n2, tooltip=\"y\\na.py:2\\ny = x.mean()\\n\", label=<"
        "<table border=\"1\" color=\"#486581\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\" "
        "bgcolor=\"white\">"
        "<tr><td bgcolor=\"#dfe8f5\" align=\"left\"><table border=\"0\" cellborder=\"0\" "
        "cellspacing=\"0\" "
        "cellpadding=\"3\"><tr><td align=\"left\"><font point-size=\"14\" "
        "color=\"#102a43\"><b>y</b></font>"
        "&#160;&#160;<font color=\"#334e68\">float32&#160;&#160;scalar</font></td><td align=\"right\">"
        "<font color=\"#52606d\">&#160;&#160;line&#160;2</font></td></tr></table></td></tr>"
        "<tr><td align=\"left\" balign=\"left\"><font face=\"monospace\" point-size=\"10\" "
        "color=\"#243b53\">y&#160;=&#160;x.mean()</font></td></tr>"
        "<tr><td align=\"left\"><font point-size=\"10\" color=\"#334e68\">min&#160;0.5&#160;&#160;"
        "max&#160;0.5&#160;&#160;mean&#160;0.5&#160;&#160;</font></td></tr>"
        "<tr><td align=\"left\"><font point-size=\"10\"><table border=\"0\" cellborder=\"0\" "
        "cellspacing=\"0\" cellpadding=\"3\"><tr><td align=\"left\"><table border=\"0\" cellborder=\"0\" "
        "cellspacing=\"1\" cellpadding=\"4\"><tr><td align=\"right\" bgcolor=\"#fcc987\">0.5000</td>"
        "</tr></table></td></tr></table></font></td></tr></table>>]\n"
        "  n1 -> n2\n"
        "}\n");
    free(dot);
    tt_sample_free(a.sample);
    tt_sample_free(b.sample);
}

static void json_has_the_keys_of_the_api_and_exact_integers(void **state)
{
    (void)state;
    drawn a;
    make(&a, 5, "n", (int64_t[]){ INT64_MIN, 1 }, TT_I64, 2, (int64_t[]){ 1, 2 });
    tt_graph graph = { .nodes = &a.node,
                       .node_count = 1,
                       .edges = (tt_graph_edge[]){ { 5, 5 }, { 5, 6 } },
                       .edge_count = 2 };
    char *json = written(tt_graph_json, &graph);
    const char *head =
        "{\"nodes\": [{\"id\": 5, \"name\": \"n\", \"file\": \"a.py\", \"line\": 5, \"code\": \"code\", "
        "\"shape\": [1, 2], \"dtype\": \"int64\", \"device\": \"cpu\", \"stats\": {\"shape\": [1, 2], "
        "\"dtype\": \"int64\", \"count\": 2, \"nan\": 0, \"posinf\": 0, \"neginf\": 0, \"zeros\": 0, "
        "\"min\": -9223372036854775808, \"max\": 1, \"absmax\": 9223372036854775808, "
        "\"sum\": -9223372036854775807,";
    const char *tail =
        "\"slices\": [{\"label\": \"\", \"rows\": [0], \"cols\": [0, 1], "
        "\"data\": [[-9223372036854775808, 1]]}], \"sampled\": false}], \"edges\": [[5, 5]]}";
    assert_int_equal(strncmp(json, head, strlen(head)), 0);
    assert_string_equal(strstr(json, "\"slices\""), tail);
    free(json);
    tt_sample_free(a.sample);
}

static void json_writes_nan_bool_and_complex(void **state)
{
    (void)state;
    drawn a, b, c;
    make(&a, 1, "f", (float[]){ NAN, -INFINITY, 0.1f }, TT_F32, 1, (int64_t[]){ 3 });
    make(&b, 2, "b", (unsigned char[]){ 1, 0 }, TT_BOOL, 1, (int64_t[]){ 2 });
    make(&c, 3, "c", (double[]){ 1, -2.5 }, TT_C128, 0, NULL);
    char *json = written(tt_graph_json, &(tt_graph){ .nodes = (tt_graph_node[]){ a.node, b.node, c.node },
                                                     .node_count = 3 });
    assert_non_null(strstr(json, "\"data\": [[\"NaN\", \"-Infinity\", 0.1]]"));
    assert_non_null(strstr(json, "\"data\": [[true, false]]"));
    assert_non_null(strstr(json, "\"data\": [[[1.0, -2.5]]]"));
    assert_non_null(strstr(json, "\"mean\": [1.0, -2.5]"));
    free(json);
    tt_sample_free(a.sample);
    tt_sample_free(b.sample);
    tt_sample_free(c.sample);
}

static void foreign_text_cannot_leave_its_place(void **state)
{
    (void)state;
    drawn a;
    make(&a, 1, "<b>&\"x\"\x1b[2J\\", (float[]){ 1 }, TT_F32, 0, NULL);
    a.node.code = "s = '</td>\\'\n\x01 \"]; evil [label=\"\xff";
    char *dot = dot_of_one(&a);
#define TWO "\\\\"
    assert_non_null(strstr(dot, "tooltip=\"&lt;b&gt;&amp;&quot;x&quot;" TWO TWO "x1b[2J" TWO TWO
                                "\\na.py:1\\ns = '&lt;/td&gt;" TWO TWO "'\\n" TWO TWO
                                "x01 &quot;]; evil [label=&quot;"));
    assert_non_null(strstr(dot, "<b>&lt;b&gt;&amp;&quot;x&quot;" TWO "x1b[2J" TWO "</b>"));
    assert_non_null(strstr(dot, "&lt;/td&gt;"));
    assert_null(strstr(dot, "\x1b"));
    assert_null(strstr(dot, "\xff"));
    free(dot);
    a.node.code = "\xef\xbf\xbe\xef\xbf\xbf"; /* U+FFFE and U+FFFF: no XML can hold them */
    dot = dot_of_one(&a);
    assert_non_null(strstr(dot, TWO "ufffe" TWO "uffff"));
    free(dot);
    tt_sample_free(a.sample);
}

static void nan_and_inf_stand_out(void **state)
{
    (void)state;
    drawn a;
    make(&a, 1, "x", (float[]){ NAN, INFINITY, 2.5f }, TT_F32, 1, (int64_t[]){ 3 });
    char *dot = dot_of_one(&a);
    assert_non_null(strstr(dot, "bgcolor=\"#c62828\"><font color=\"white\"><b>NaN</b></font></td>"));
    assert_non_null(strstr(dot, "bgcolor=\"#6a1b9a\"><font color=\"white\"><b>Inf</b></font></td>"));
    assert_non_null(strstr(dot, "<b>1&#160;NaN</b>"));
    assert_non_null(strstr(dot, "<b>1&#160;Inf</b>"));
    free(dot);
    tt_sample_free(a.sample);
}

static void numbers_of_a_table_have_the_same_decimals(void **state)
{
    (void)state;
    drawn a, b, c;
    make(&a, 1, "x", (float[]){ 12.345f, -0.5f, 1e-7f }, TT_F32, 1, (int64_t[]){ 3 });
    make(&b, 2, "y", (double[]){ 1e30, 0.25 }, TT_F64, 1, (int64_t[]){ 2 });
    make(&c, 3, "z", (float[]){ 3, -4 }, TT_F32, 1, (int64_t[]){ 2 });
    char *dot = dot_of_one(&a);
    assert_non_null(strstr(dot, ">12.35<")); /* 12.345f is above 12.345 */
    assert_non_null(strstr(dot, ">-0.50<"));
    assert_non_null(strstr(dot, ">1e-07<")); /* not zero */
    free(dot);
    dot = dot_of_one(&b);
    assert_non_null(strstr(dot, ">1e+30<"));
    assert_non_null(strstr(dot, ">0.25<"));
    free(dot);
    dot = dot_of_one(&c);
    assert_non_null(strstr(dot, ">3<"));
    assert_non_null(strstr(dot, ">-4<"));
    free(dot);
    tt_sample_free(a.sample);
    tt_sample_free(b.sample);
    tt_sample_free(c.sample);
}

static void a_fraction_is_seen_beside_a_large_number(void **state)
{
    (void)state;
    drawn a;
    make(&a, 1, "x", (float[]){ 65504, 1.5f, 0.04f }, TT_F32, 1, (int64_t[]){ 3 });
    char *dot = dot_of_one(&a);
    assert_non_null(strstr(dot, ">65504.0<"));
    assert_non_null(strstr(dot, ">1.5<"));
    assert_non_null(strstr(dot, ">4e-02<"));
    free(dot);
    tt_sample_free(a.sample);
}

static void a_shape_that_is_not_known_is_no_scalar(void **state)
{
    (void)state;
    tt_graph_node node = { .id = 1, .name = "ragged", .dtype = "float32", .ndim = -1, .note = "nested" };
    tt_graph graph = { .nodes = &node, .node_count = 1 };
    char *dot = written(tt_graph_dot, &graph), *json = written(tt_graph_json, &graph);
    assert_null(strstr(dot, "scalar"));
    assert_non_null(strstr(dot, "shape&#160;not&#160;known"));
    assert_non_null(strstr(json, "\"shape\": null, \"dtype\": \"float32\""));
    free(dot);
    free(json);
}

static void what_cannot_be_read_says_why(void **state)
{
    (void)state;
    tt_graph_node node = { .id = 1,
                           .name = "m",
                           .dtype = "float32",
                           .shape = (int64_t[]){ 3 },
                           .ndim = 1,
                           .device = "cuda:0",
                           .note = "meta" };
    tt_graph graph = { .nodes = &node, .node_count = 1 };
    char *dot = written(tt_graph_dot, &graph), *json = written(tt_graph_json, &graph);
    assert_non_null(strstr(dot, "values not read:&#160;meta"));
    assert_non_null(strstr(dot, "cuda:0"));
    assert_non_null(strstr(json, "\"file\": null, \"line\": 0, \"code\": null,"));
    assert_non_null(
        strstr(json, "\"device\": \"cuda:0\", \"stats\": null, \"slices\": [], \"sampled\": false"));
    free(dot);
    free(json);
}

static void long_code_is_wrapped_and_whole_in_the_tooltip(void **state)
{
    (void)state;
    drawn a;
    char code[400] = "x = f(";
    for (size_t i = 0; i < 40; i++)
        strcat(code, "abc, ");
    strcat(code, "last)");
    make(&a, 1, "x", (float[]){ 1 }, TT_F32, 0, NULL);
    a.node.code = code;
    char *dot = dot_of_one(&a);
    char *label = strstr(dot, "label=<");
    *label = '\0';
    assert_non_null(strstr(dot, code));
    assert_null(strstr(label + 1, "last"));
    assert_non_null(strstr(label + 1, "<br/>…"));
    free(dot);
    tt_sample_free(a.sample);
}

enum { LINKS = 40 };

static void nodes_without_arrows_are_stacked(void **state)
{
    (void)state;
    tt_graph_node nodes[LINKS];
    for (size_t i = 0; i < LINKS; i++)
        nodes[i] = (tt_graph_node){ .id = i + 1, .name = "x", .dtype = "float32" };
    tt_graph graph = { .nodes = nodes, .node_count = LINKS };
    size_t *above = tt_graph_stack(&graph);
    assert_non_null(above);
    for (size_t i = 0; i < LINKS; i++)
        assert_true(above[i] == (i % 6 == 0 ? SIZE_MAX : i - 1));
    free(above);
}

static void a_small_chart_is_left_to_graphviz(void **state)
{
    (void)state;
    tt_graph_node nodes[LINKS];
    tt_graph_edge edges[LINKS];
    for (size_t i = 0; i < LINKS; i++) {
        nodes[i] = (tt_graph_node){ .id = i + 1, .name = "x", .dtype = "float32" };
        edges[i] = (tt_graph_edge){ i + 1, i + 2 };
    }
    tt_graph graph = { .nodes = nodes, .node_count = 15, .edges = edges };
    assert_string_equal(tt_graph_engine(&graph), "dot");
    graph.node_count = 16;
    assert_string_equal(tt_graph_engine(&graph), "nop2");
    graph.node_count = 6;
    graph.edge_count = 9; /* some name no node */
    assert_string_equal(tt_graph_engine(&graph), "dot");
    graph.node_count = 7; /* of a chain are a strip */
    assert_string_equal(tt_graph_engine(&graph), "nop2");
    graph.node_count = 4;
    nodes[1].frame = nodes[2].frame = 7;
    nodes[1].function = nodes[2].function = nodes[3].function = "f";
    assert_string_equal(tt_graph_engine(&graph), "dot");
    nodes[3].frame = 8; /* a second call */
    assert_string_equal(tt_graph_engine(&graph), "nop2");
}

static void nodes_of_a_function_stand_in_a_frame(void **state)
{
    (void)state;
    tt_graph_node nodes[] = { { .id = 1, .name = "a", .dtype = "f", .frame = 1, .function = "<module>" },
                              { .id = 2, .name = "b", .dtype = "f", .frame = 2, .function = "f\"" },
                              { .id = 3, .name = "c", .dtype = "f", .frame = 1, .function = "<module>" },
                              { .id = 4, .name = "d", .dtype = "f", .frame = 2, .function = "f\"" } };
    char *dot = written(tt_graph_dot, &(tt_graph){ .nodes = nodes, .node_count = 4 });
    const char *frame = strstr(dot, "subgraph cluster_2 {");
    assert_non_null(frame);
    assert_non_null(strstr(frame, "label=\"f&quot;\""));
    assert_true(strstr(dot, "  n4 [") < strstr(frame, "  }\n"));
    assert_true(strstr(dot, "  n3 [") > strstr(frame, "  }\n"));
    assert_null(strstr(dot, "cluster_1"));
    free(dot);
}

static tt_status write_dot(const void *graph, tt_buf *out)
{
    return tt_graph_dot(graph, out);
}

static tt_status write_json(const void *graph, tt_buf *out)
{
    return tt_graph_json(graph, out);
}

static double seconds_for_dot(size_t nodes)
{
    tt_graph_node *all = calloc(nodes, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < nodes; i++)
        all[i] = (tt_graph_node){ .id = i,
                                  .name = "x",
                                  .file = "a.py",
                                  .code = "code",
                                  .function = "forward",
                                  .frame = 1 + i / 2,
                                  .dtype = "float32",
                                  .ndim = 0 };
    clock_t start = clock();
    free(written(tt_graph_dot, &(tt_graph){ .nodes = all, .node_count = nodes }));
    clock_t end = clock();
    free(all);
    return (double)(end - start) / CLOCKS_PER_SEC;
}

static void ten_times_the_frames_take_about_ten_times_as_long(void **state)
{
    (void)state;
    double small = seconds_for_dot(6000), large = seconds_for_dot(60000);
    assert_true(large < 40 * small + 0.1); /* by squares: 100 */
}

static void no_allocation_that_fails_leaks_or_breaks(void **state)
{
    (void)state;
    drawn a, b;
    make(&a, 1, "x", (float[]){ 1, -2 }, TT_F32, 1, (int64_t[]){ 2 });
    make(&b, 2, "y", (float[]){ 1, -2 }, TT_F32, 1, (int64_t[]){ 2 });
    tt_graph graph = { .nodes = (tt_graph_node[]){ a.node, b.node },
                       .node_count = 2,
                       .edges = &(tt_graph_edge){ 1, 2 },
                       .edge_count = 1 };
    alloc_fail_each(write_dot, &graph);
    alloc_fail_each(write_json, &graph);
    tt_sample_free(a.sample);
    tt_sample_free(b.sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_chart_is_this_text),
        cmocka_unit_test(json_has_the_keys_of_the_api_and_exact_integers),
        cmocka_unit_test(json_writes_nan_bool_and_complex),
        cmocka_unit_test(foreign_text_cannot_leave_its_place),
        cmocka_unit_test(nan_and_inf_stand_out),
        cmocka_unit_test(numbers_of_a_table_have_the_same_decimals),
        cmocka_unit_test(a_fraction_is_seen_beside_a_large_number),
        cmocka_unit_test(a_shape_that_is_not_known_is_no_scalar),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(long_code_is_wrapped_and_whole_in_the_tooltip),
        cmocka_unit_test(nodes_without_arrows_are_stacked),
        cmocka_unit_test(a_small_chart_is_left_to_graphviz),
        cmocka_unit_test(nodes_of_a_function_stand_in_a_frame),
        cmocka_unit_test(ten_times_the_frames_take_about_ten_times_as_long),
        cmocka_unit_test(no_allocation_that_fails_leaks_or_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
