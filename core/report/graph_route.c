/* graph_route.c -- the arrows of a large chart.
 *
 * Exists because an arrow that runs across a table makes both hard to read.
 * Between two columns there is a gutter and above and below the page there is
 * room: arrows leave a table at its right side, enter at its header, and change
 * their height in gutters only.  Those that skip a column go along above or
 * below the page; all that start at one table share a lane, and its colour.  Of
 * those that would skip more only the end is drawn, with the name of the start.
 *
 *       ┌────────────────────────┐        lanes, one for each such table
 *     ┌─┴─┐   ┌───┐   ┌───┐   ┌─▼─┐
 *     │ a ├──►│ b ├┐  │ d │   │ e │
 *     └─┬─┘   └───┘│  └─▲─┘   └───┘
 *       ▼          └────┘ gutter
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/graph_place.h"

#include <math.h>

enum {
    TIP = 9,        /* length of an arrow's head that points down ... */
    SIDE_TIP = 8,   /* ... and to a side */
    HEADER = 13,    /* from a table's upper edge to the middle of its name */
    ROUND = 8,      /* radius of a corner */
    INNER = 12,     /* from a column to the nearest arrow in its gutter */
    INNER_STEP = 5, /* the longer the way, the farther out */
    INNER_MOST = 40,
    STUB = 74,  /* from a column to where an arrow begins that only ends there */
    OUTER = 46, /* from a column to the lanes in its gutter */
    OUTER_STEP = 5,
    OUTER_COUNT = 7,
};

static tt_graph_point point(double x, double y)
{
    return (tt_graph_point){ x, y };
}

static tt_graph_point between(tt_graph_point a, tt_graph_point b, double part)
{
    return point(a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part);
}

/* ---- curves -------------------------------------------------------------- */

static void curve_to(tt_graph_curve *curve, tt_graph_point a, tt_graph_point b, tt_graph_point end)
{
    curve->point[curve->count++] = a;
    curve->point[curve->count++] = b;
    curve->point[curve->count++] = end;
}

static void line_to(tt_graph_curve *curve, tt_graph_point end)
{
    tt_graph_point start = curve->point[curve->count - 1];
    curve_to(curve, between(start, end, 1.0 / 3), between(start, end, 2.0 / 3), end);
}

static double distance(tt_graph_point a, tt_graph_point b)
{
    return hypot(a.x - b.x, a.y - b.y);
}

/* Straight from corner to corner, which are rounded. */
static tt_graph_curve through(const tt_graph_point *corners, size_t count)
{
    tt_graph_curve curve = { .point = { corners[0] }, .count = 1 };
    for (size_t i = 1; i + 1 < count; i++) {
        double before = distance(corners[i - 1], corners[i]),
               after = distance(corners[i], corners[i + 1]);
        double radius = fmin(ROUND, fmin(before, after) / 2);
        if (radius < 0.1)
            continue;
        tt_graph_point in = between(corners[i], corners[i - 1], radius / before),
                       out = between(corners[i], corners[i + 1], radius / after);
        line_to(&curve, in);
        curve_to(&curve, between(in, corners[i], 0.55), between(out, corners[i], 0.55), out);
    }
    line_to(&curve, corners[count - 1]);
    return curve;
}

/* ---- ways ---------------------------------------------------------------- */

/* Down to the next table of the column. */
static tt_graph_curve way_down(const tt_graph_place *place, size_t from, size_t to)
{
    const tt_graph_spot *a = &place->spots[from], *b = &place->spots[to];
    double start = a->y + place->sizes[from].height / 2, end = b->y - place->sizes[to].height / 2;
    tt_graph_curve curve = { .point = { point(a->x, start) }, .count = 1, .tip = point(b->x, end) };
    curve_to(&curve, point(a->x, start + (end - start) / 3), point(b->x, end - TIP - 1),
             point(b->x, end - TIP));
    return curve;
}

/* Around those between, in the gutter on the right. */
static tt_graph_curve way_around(const tt_graph_place *place, size_t from, size_t to)
{
    const tt_graph_spot *a = &place->spots[from], *b = &place->spots[to];
    double x1 = a->x + place->sizes[from].width / 2, x2 = b->x + place->sizes[to].width / 2;
    double outer = a->right + fmin(INNER + INNER_STEP * (double)(to - from - 2), INNER_MOST);
    double y2 = b->y - place->sizes[to].height / 2 + HEADER;
    tt_graph_curve curve = through((tt_graph_point[]){ point(x1, a->y), point(outer, a->y),
                                                       point(outer, y2), point(x2 + SIDE_TIP, y2) },
                                   4);
    curve.tip = point(x2, y2);
    return curve;
}

/* To the next column: to the edge of this one, over the gutter, on to the table. */
static tt_graph_curve way_over(const tt_graph_place *place, size_t from, size_t to)
{
    const tt_graph_spot *a = &place->spots[from], *b = &place->spots[to];
    double x1 = a->x + place->sizes[from].width / 2, x2 = b->x - place->sizes[to].width / 2;
    double y2 = b->y - place->sizes[to].height / 2 + HEADER;
    double left = fmin(b->left, x2 - SIDE_TIP), middle = (a->right + left) / 2;
    tt_graph_curve curve = { .point = { point(x1, a->y) }, .count = 1, .tip = point(x2, y2) };
    line_to(&curve, point(a->right, a->y));
    curve_to(&curve, point(middle, a->y), point(middle, y2), point(left, y2));
    line_to(&curve, point(x2 - SIDE_TIP, y2));
    return curve;
}

/* To a column farther away: over or under the page. */
static tt_graph_curve way_far(const tt_graph_place *place, size_t from, size_t to)
{
    const tt_graph_spot *a = &place->spots[from], *b = &place->spots[to];
    double x1 = a->x + place->sizes[from].width / 2, x2 = b->x - place->sizes[to].width / 2;
    double y2 = b->y - place->sizes[to].height / 2 + HEADER;
    double aside = OUTER + OUTER_STEP * (double)(a->lane % OUTER_COUNT);
    bool is_above = a->y + y2 < 2 * place->page.height - a->y - y2;
    double lane = TT_GRAPH_MARGIN + TT_GRAPH_LANE * (double)a->lane;
    double y = is_above ? -lane : place->page.height + lane;
    double up = a->right + aside, down = b->left - TT_GRAPH_GUTTER + aside;
    tt_graph_curve curve =
        through((tt_graph_point[]){ point(x1, a->y), point(up, a->y), point(up, y), point(down, y),
                                    point(down, y2), point(x2 - SIDE_TIP, y2) },
                6);
    curve.tip = point(x2, y2);
    curve.lane = a->lane + 1;
    return curve;
}

/* From the gutter into the table. */
static tt_graph_curve way_in(const tt_graph_place *place, size_t to)
{
    const tt_graph_spot *b = &place->spots[to];
    double x2 = b->x - place->sizes[to].width / 2;
    double y2 = b->y - place->sizes[to].height / 2 + HEADER;
    tt_graph_curve curve = { .point = { point(b->left - STUB, y2) }, .count = 1, .is_stub = true };
    line_to(&curve, point(x2 - SIDE_TIP, y2));
    curve.tip = point(x2, y2);
    return curve;
}

tt_graph_curve tt_graph_place_curve(const tt_graph_place *place, size_t from, size_t to)
{
    size_t left = place->spots[from].column, right = place->spots[to].column;
    if (left == right)
        return to == from + 1 ? way_down(place, from, to) : way_around(place, from, to);
    if (right > left + TT_GRAPH_FAR)
        return way_in(place, to);
    return right == left + 1 ? way_over(place, from, to) : way_far(place, from, to);
}
