/* course.c -- how a point changes what is remembered of its series.
 *
 * Runs for every recorded point, also during a training: a few additions, no allocation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/course.h"

#include <math.h>
#include <string.h>

enum { EARLY = 8, WINSOR = 6 /* spreads; a jump does not move the level further */ };

tt_course_kind tt_course_kind_of(const char *name, const char **tail)
{
    static const char *const begins[] = {
#define X(name, text) [TT_COURSE_##name] = text,
        TT_COURSE_KIND_MAP(X)
#undef X
    };
    *tail = name;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) {
            *tail = name + strlen(begins[i]);
            return (tt_course_kind)i;
        }
    const char *colon = strrchr(name, ':'); /* "SGD2:learning_rate/0" */
    return strncmp(colon != NULL ? colon + 1 : name, "learning_rate", 13) == 0 ? TT_COURSE_RATE
                                                                               : TT_COURSE_OTHER;
}

static void smooth(double *level, double x, int64_t n)
{
    *level += (x - *level) / (double)(n < TT_COURSE_RECENT ? n : TT_COURSE_RECENT);
}

/* The level follows the value; a jump is compared with it before it does. */
static void follow(tt_course *c, const tt_sighting *p)
{
    double by = p->value - c->level;
    double least = fabs(c->level) * 1e-3; /* a series without noise is not without tolerance */
    double spread = c->spread > least ? c->spread : least;
    if (c->points > TT_COURSE_WARM && spread > 0) {
        double distance = by / spread;
        if (distance > c->jump.by) {
            c->jump.by = distance;
            c->jump.value = p->value;
            c->jump.level = c->level;
            c->jump.step = p->step;
        }
        double most = WINSOR * spread;
        by = by > most ? most : by < -most ? -most : by;
    }
    smooth(&c->level, c->level + by, c->points);
    smooth(&c->spread, fabs(by), c->points);
    if (c->points == 1)
        c->spread = 0;
    if (c->points == TT_COURSE_WARM)
        c->lowest = c->highest = c->level;
    if (c->level < c->lowest)
        c->lowest = c->level;
    if (c->level > c->highest)
        c->highest = c->level;
}

/* A module that is called several times in a step may be a layer of a loop. */
static void follow_calls(tt_course *c, const tt_sighting *p, bool is_same_step)
{
    if (!is_same_step) {
        if (c->calls > 1 && c->step_first > 0)
            smooth(&c->from_call_to_call, c->latest / c->step_first,
                   c->from_call_to_call == 0 ? 1 : TT_COURSE_RECENT);
        c->step_first = p->value;
        c->calls = 0;
    }
    c->calls++;
}

static void compare_marks(tt_course *c, const tt_sighting *p)
{
    if (c->points == 1)
        c->first_mark = p->mark;
    else if (p->mark != c->latest_mark)
        c->same_run = 0;
    else if (++c->same_run > c->same_longest) {
        c->same_longest = c->same_run;
        c->same_step = p->step;
    }
    c->latest_mark = p->mark;
    if (p->step >= 0 && (p->step & (p->step - 1)) == 0) {
        c->marked_step = p->step;
        c->step_mark = p->mark;
    }
}

void tt_course_add(tt_course *c, const tt_sighting *p)
{
    if (p->is_skipped) {
        c->skipped_points++;
        c->last_skipped_step = p->step;
        return;
    }
    if ((p->nan | p->inf) != 0 && !c->has_bad) {
        c->has_bad = true;
        c->bad = *p;
    }
    if (p->is_eval) {
        c->eval_points++;
        return;
    }
    if (c->points++ == 0)
        c->first_step = p->step;
    bool is_same_step = c->points > 1 && p->step == c->last_step;
    c->last_step = p->step;
    compare_marks(c, p);
    if (!p->has_value || !isfinite(p->value))
        return;
    follow_calls(c, p, is_same_step);
    bool is_zero = p->zeros == 1;
    c->zero_run = is_zero ? c->zero_run + 1 : 0;
    c->zero_points += is_zero;
    c->latest = p->value;
    if (c->points == 1)
        c->first = c->level = p->value;
    if (c->points <= EARLY)
        c->early += (p->value - c->early) / (double)c->points;
    c->recent[c->points % TT_COURSE_RECENT] = p->value;
    follow(c, p);
    smooth(&c->mean, p->mean, c->points);
    smooth(&c->zeros, p->zeros, c->points);
    if (p->absmax > c->absmax) {
        c->absmax = p->absmax;
        c->absmax_step = p->step;
    }
}

double tt_median(double *x, size_t n)
{
    for (size_t i = 1; i < n; i++) { /* they are few */
        double moved = x[i];
        size_t at = i;
        for (; at > 0 && x[at - 1] > moved; at--)
            x[at] = x[at - 1];
        x[at] = moved;
    }
    return n > 0 ? x[n / 2] : (double)NAN;
}

double tt_course_median(const tt_course *c)
{
    double latest[TT_COURSE_RECENT];
    int64_t n = c->points < TT_COURSE_RECENT ? c->points : TT_COURSE_RECENT;
    for (int64_t i = 0; i < n; i++)
        latest[i] = c->recent[(c->points - i) % TT_COURSE_RECENT];
    return tt_median(latest, (size_t)n);
}
