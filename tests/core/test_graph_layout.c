/* test_graph_layout.c -- a large chart is a page that is read column by column.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "report/graph.h"

#include "alloc_fail.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 200 };

typedef struct page {
    tt_graph_node nodes[NODES];
    tt_graph_size sizes[NODES];
    tt_graph graph;
    tt_graph_layout place;
} page;

/* A loop of four lines, its tables of several heights. */
static page *make_page(size_t count)
{
    page *p = calloc(1, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < count; i++) {
        p->nodes[i] =
            (tt_graph_node){ .id = i + 1, .name = "x", .dtype = "f", .line = 10 + (int)(i % 4) };
        p->sizes[i] = (tt_graph_size){ 200 + 30.0 * (double)(i % 3), 90 + 40.0 * (double)(i % 4) };
    }
    p->graph = (tt_graph){ .nodes = p->nodes, .node_count = count };
    assert_int_equal(tt_graph_layout_make(&p->place, &p->graph, p->sizes), TT_OK);
    return p;
}

static void free_page(page *p)
{
    tt_graph_layout_free(&p->place);
    free(p);
}

static void two_hundred_nodes_are_as_wide_as_a_screen(void **state)
{
    (void)state;
    page *p = make_page(NODES);
    double shape = p->place.page.width / p->place.page.height;
    assert_true(shape > 1.1 && shape < 2.0);
    free_page(p);
}

static void time_goes_down_a_column_and_on_in_the_next(void **state)
{
    (void)state;
    page *p = make_page(NODES);
    const tt_graph_spot *spots = p->place.spots;
    for (size_t i = 1; i < NODES; i++) {
        if (spots[i].column == spots[i - 1].column) {
            assert_true(spots[i].x == spots[i - 1].x && spots[i].y > spots[i - 1].y);
        } else {
            assert_int_equal(spots[i].column, spots[i - 1].column + 1);
            assert_true(spots[i].x > spots[i - 1].x);
        }
    }
    free_page(p);
}

static void no_two_tables_touch(void **state)
{
    (void)state;
    page *p = make_page(NODES);
    for (size_t a = 0; a < NODES; a++)
        for (size_t b = a + 1; b < NODES; b++) {
            const tt_graph_spot *one = &p->place.spots[a], *two = &p->place.spots[b];
            double apart_x = fabs(one->x - two->x) - (p->sizes[a].width + p->sizes[b].width) / 2;
            double apart_y = fabs(one->y - two->y) - (p->sizes[a].height + p->sizes[b].height) / 2;
            assert_true(apart_x >= 20 || apart_y >= 20);
        }
    free_page(p);
}

static void a_turn_of_a_loop_is_not_cut(void **state)
{
    (void)state;
    page *p = make_page(NODES);
    for (size_t i = 1; i < NODES; i++)
        if (p->place.spots[i].column != p->place.spots[i - 1].column)
            assert_int_equal(p->nodes[i].line, 10);
    free_page(p);
}

static void arrows_end_at_the_edge_of_their_table(void **state)
{
    (void)state;
    page *p = make_page(NODES);
    for (size_t from = 0; from < NODES; from += 7)
        for (size_t to = from + 1; to < NODES; to += 13) {
            p->place.spots[from].lane = from;
            tt_graph_curve curve = tt_graph_layout_curve(&p->place, from, to);
            const tt_graph_spot *spot = &p->place.spots[to];
            double x = fabs(curve.tip.x - spot->x) - p->sizes[to].width / 2;
            double y = fabs(curve.tip.y - spot->y) - p->sizes[to].height / 2;
            assert_true(fabs(fmax(x, y)) < 0.01); /* on the edge, not inside or outside */
            size_t apart = spot->column - p->place.spots[from].column;
            assert_true((curve.lane > 0) == (apart == TT_GRAPH_FAR));
            assert_true(curve.is_stub == (apart > TT_GRAPH_FAR)); /* none goes around the page */
        }
    free_page(p);
}

static double bezier(double a, double b, double c, double d, double t)
{
    double s = 1 - t;
    return s * s * s * a + 3 * s * s * t * b + 3 * s * t * t * c + t * t * t * d;
}

static bool is_inside(const page *p, size_t node, double x, double y)
{
    const tt_graph_spot *spot = &p->place.spots[node];
    return fabs(x - spot->x) < p->sizes[node].width / 2 - 0.5 &&
           fabs(y - spot->y) < p->sizes[node].height / 2 - 0.5;
}

static void no_arrow_crosses_a_table(void **state)
{
    (void)state;
    page *p = make_page(NODES);
    tt_graph_edge edges[NODES];
    size_t count = 0;
    for (size_t from = 0; from + 1 < NODES; from += 3)
        edges[count++] = (tt_graph_edge){ from + 1, from + 2 + from * 7 % (NODES - 1 - from) };
    p->graph.edges = edges;
    p->graph.edge_count = count;
    tt_graph_layout_free(&p->place);
    assert_int_equal(tt_graph_layout_make(&p->place, &p->graph, p->sizes), TT_OK);
    for (size_t i = 0; i < count; i++) {
        tt_graph_curve c = tt_graph_layout_curve(&p->place, edges[i].from - 1, edges[i].to - 1);
        assert_true(c.count % 3 == 1 && c.count <= TT_GRAPH_CURVE);
        for (size_t k = 0; k + 3 < c.count; k += 3)
            for (double t = 0; t <= 1; t += 1.0 / 64) {
                const tt_graph_point *q = &c.point[k];
                double x = bezier(q[0].x, q[1].x, q[2].x, q[3].x, t),
                       y = bezier(q[0].y, q[1].y, q[2].y, q[3].y, t);
                for (size_t node = 0; node < NODES; node++)
                    assert_false(is_inside(p, node, x, y));
            }
    }
    free_page(p);
}

static void a_frame_holds_its_tables(void **state)
{
    (void)state;
    page *p = make_page(40);
    for (size_t i = 0; i < 40; i++) {
        p->nodes[i].frame = 1 + i / 5 % 2;
        p->nodes[i].function = "f";
    }
    tt_graph_layout_free(&p->place);
    assert_int_equal(tt_graph_layout_make(&p->place, &p->graph, p->sizes), TT_OK);
    size_t covered = 0;
    for (size_t i = 0; i < 40; i++) {
        if (!p->place.spots[i].is_start)
            continue;
        tt_graph_point low, high;
        size_t end = tt_graph_layout_run(&p->place, &p->graph, i, &low, &high);
        for (size_t k = i; k < end; k++, covered++) {
            assert_int_equal(p->nodes[k].frame, p->nodes[i].frame);
            assert_true(p->place.spots[k].y - p->sizes[k].height / 2 > low.y);
            assert_true(p->place.spots[k].y + p->sizes[k].height / 2 < high.y);
        }
        if (end < 40 && p->place.spots[end].column == p->place.spots[i].column)
            assert_true(p->place.spots[end].y - p->sizes[end].height / 2 - 20 > high.y - 1);
    }
    assert_int_equal(covered, 40);
    free_page(p);
}

static void the_text_gives_every_place(void **state)
{
    (void)state;
    page *p = make_page(20);
    tt_graph_edge edges[] = { { 1, 2 }, { 1, 20 }, { 7, 99 } };
    p->graph.edges = edges;
    p->graph.edge_count = 3;
    tt_buf out = { 0 };
    assert_int_equal(tt_graph_dot_placed(&p->graph, p->sizes, &out), TT_OK);
    assert_int_equal(tt_buf_append(&out, "", 1), TT_OK);
    size_t places = 0;
    for (const char *at = out.data; (at = strstr(at, "pos=\"")) != NULL; at++)
        places++;
    assert_int_equal(places, 20 + 2);
    assert_non_null(strstr(out.data, "  n1 -> n20 [pos=\"e,"));
    tt_buf_free(&out);
    free_page(p);
}

static tt_status write_placed(const void *with, tt_buf *out)
{
    const page *p = with;
    return tt_graph_dot_placed(&p->graph, p->sizes, out);
}

static void no_allocation_that_fails_leaks_or_breaks(void **state)
{
    (void)state;
    page *p = make_page(20);
    alloc_fail_each(write_placed, p);
    free_page(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_nodes_are_as_wide_as_a_screen),
        cmocka_unit_test(time_goes_down_a_column_and_on_in_the_next),
        cmocka_unit_test(no_two_tables_touch),
        cmocka_unit_test(a_turn_of_a_loop_is_not_cut),
        cmocka_unit_test(arrows_end_at_the_edge_of_their_table),
        cmocka_unit_test(no_arrow_crosses_a_table),
        cmocka_unit_test(a_frame_holds_its_tables),
        cmocka_unit_test(the_text_gives_every_place),
        cmocka_unit_test(no_allocation_that_fails_leaks_or_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
