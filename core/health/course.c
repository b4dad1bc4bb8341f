/* course.c -- how a point changes what is remembered of its series.
 *
 * Runs for every recorded point, also during a training: a few additions, no allocation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/course.h"

#include <math.h>
#include <string.h>

enum {
    EARLY = 8,
    WINSOR = 6, /* spreads; a jump does not move the level further */
    OUTER = 4,  /* jumps that may be spikes, and say nothing about the tail */
    INNER = 4,  /* jumps that are enough to know it */
};
static const double STEEPEST = 20;                        /* exponent of a tail */
static const double BURST_TIMES = 10, BURST_SPREADS = 20; /* beyond all that a loss has been */
static const double BURST_EARLY = 1;                      /* at least, as long as it has no history */

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

/* Remembers the height of a rise above the level, if it is one of the largest. */
static void note_rise(tt_rises *rises, double distance)
{
    if (distance <= 1) {
        rises->now = 0; /* back in the noise */
        return;
    }
    int32_t at = rises->now > 0 ? rises->now - 1 : rises->count < TT_COURSE_TAIL ? rises->count++ : -1;
    if (at < 0) /* the smallest makes room */
        for (int32_t i = at = 0; i < TT_COURSE_TAIL; i++)
            at = rises->by[i] < rises->by[at] ? i : at;
    if (distance > (double)rises->by[at]) {
        rises->by[at] = (float)distance;
        rises->now = at + 1;
    }
}

/* The level follows the value; a jump is compared with it before it does. */
static void follow(tt_course *c, const tt_sighting *p)
{
    double by = p->value - c->level;
    double least = fabs(c->level) * 1e-3; /* a series without noise is not without tolerance */
    double spread = c->spread > least ? c->spread : least;
    if (c->values > TT_COURSE_WARM && spread > 0) {
        double distance = by / spread;
        if (c->kind != TT_COURSE_RATE)
            note_rise(&c->rises, distance);
        if (distance > c->jump.by) {
            c->jump.by = distance;
            c->jump.value = p->value;
            c->jump.level = c->level;
            c->jump.step = p->step;
        }
        double most = WINSOR * spread;
        by = by > most ? most : by < -most ? -most : by;
    }
    smooth(&c->level, c->level + by, c->values);
    smooth(&c->spread, fabs(by), c->values);
    if (c->values == 1)
        c->spread = 0;
    if (c->values == TT_COURSE_WARM)
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
        if (c->calls > 1 && c->step_first > 0) {
            double ratio = c->latest / c->step_first;
            c->calls_at_first = c->from_call_to_call == 0 ? ratio : c->calls_at_first;
            smooth(&c->from_call_to_call, ratio, c->from_call_to_call == 0 ? 1 : TT_COURSE_RECENT);
        }
        c->step_first = p->value;
        c->calls = 0;
    }
    c->calls++;
}

/* Steps from one to another.  A file may hold any: the most there are if they are more. */
static int64_t steps_from(int64_t before, int64_t step)
{
    if (before < 0 && step > INT64_MAX + before)
        return INT64_MAX;
    if (before > 0 && step < INT64_MIN + before)
        return INT64_MIN;
    return step - before;
}

/* gap: steps since the point before. */
static void compare_marks(tt_course *c, const tt_sighting *p, int64_t gap)
{
    if (gap > 0 && (c->least_gap == 0 || gap < c->least_gap))
        c->least_gap = gap;
    /* Of a long run some steps are not written: the same batch again may be that of the next epoch. */
    bool is_apart = c->kind == TT_COURSE_BATCH && gap > c->least_gap;
    if (c->points == 1)
        c->first_mark = p->mark;
    else if (p->mark != c->latest_mark || is_apart)
        c->same_run = 0;
    else if (++c->same_run > c->same_longest) {
        c->same_longest = c->same_run;
        c->same_step = p->step;
        c->same_since = c->same_from;
    }
    if (c->same_run == 0)
        c->same_from = p->step;
    c->latest_mark = p->mark;
    if (p->step >= 0 && (p->step & (p->step - 1)) == 0) {
        c->marked_step = p->step;
        c->step_mark = p->mark;
    }
}

/* Has a loss left all that it has been, and stays away?  One bad batch is a spike. */
static void watch_for_burst(tt_course *c, const tt_sighting *p)
{
    tt_burst *burst = &c->burst;
    if (burst->points == 0) {
        double base = fmax(fabs(c->level), fmax(fabs(c->first), fabs(c->early)));
        double far = fmax(BURST_TIMES * base, c->level + BURST_SPREADS * c->spread);
        if (c->values <= TT_COURSE_WARM) /* the first loss of a policy is 0 but for rounding */
            far = fmax(far, BURST_EARLY);
        if (c->values < 2 || base == 0 || p->value <= far)
            return;
        *burst = (tt_burst){ .from = c->level, .beyond = far, .step = p->step, .peak = p->value };
        burst->peak_step = p->step;
    }
    bool has_happened = burst->points >= TT_BURST_POINTS;
    if (p->value > burst->peak) {
        burst->peak = p->value;
        burst->peak_step = p->step;
    }
    if (!has_happened)
        burst->points = p->value > burst->beyond ? burst->points + 1 : 0;
}

/* Values at even distances: if there is no room, every second goes. */
static void keep(tt_course *c, const tt_sighting *p)
{
    tt_kept *kept = &c->kept;
    kept->every = kept->every > 0 ? kept->every : 1;
    if ((c->values - 1) % kept->every != 0)
        return;
    if (kept->count == TT_COURSE_KEPT) {
        for (int32_t i = 0; i < TT_COURSE_KEPT / 2; i++) {
            kept->values[i] = kept->values[2 * i];
            kept->steps[i] = kept->steps[2 * i];
        }
        kept->count = TT_COURSE_KEPT / 2;
        kept->every *= 2;
        if ((c->values - 1) % kept->every != 0)
            return;
    }
    kept->values[kept->count] = p->value;
    kept->steps[kept->count++] = p->step;
}

void tt_course_add(tt_course *c, const tt_sighting *p)
{
    if (p->is_skipped) {
        c->skipped_points++;
        c->last_skipped_step = p->step;
        return;
    }
    if ((p->nan | p->inf) != 0 && !p->is_masked && !c->has_bad) {
        c->has_bad = true;
        c->bad = *p;
    }
    if (p->is_masked && !c->has_masked) {
        c->has_masked = true;
        c->masked = *p;
        c->is_masked_later = c->points + c->eval_points > 0;
    }
    if (p->is_eval) {
        c->eval_points++;
        return;
    }
    if (c->points++ == 0)
        c->first_step = p->step;
    int64_t gap = c->points > 1 ? steps_from(c->last_step, p->step) : 0;
    bool is_same_step = c->points > 1 && gap == 0;
    c->last_step = p->step;
    compare_marks(c, p, gap);
    if (!p->has_value || !isfinite(p->value))
        return;
    c->values++;
    follow_calls(c, p, is_same_step);
    bool is_zero = p->zeros == 1;
    c->zero_run = is_zero ? c->zero_run + 1 : 0;
    if (c->zero_run == 1)
        c->zero_from = p->step;
    c->zero_points += is_zero;
    c->latest = p->value;
    if (c->values == 1)
        c->first = c->level = p->value;
    if (c->kind == TT_COURSE_LOSS || c->kind == TT_COURSE_OTHER)
        watch_for_burst(c, p);
    if (c->values <= EARLY)
        c->early += (p->value - c->early) / (double)c->values;
    c->recent[c->values % TT_COURSE_RECENT] = p->value;
    follow(c, p);
    if (c->kind == TT_COURSE_RATE)
        keep(c, p);
    smooth(&c->mean, p->mean, c->values);
    smooth(&c->zeros, p->zeros, c->values);
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
    int64_t n = c->values < TT_COURSE_RECENT ? c->values : TT_COURSE_RECENT;
    for (int64_t i = 0; i < n; i++)
        latest[i] = c->recent[(c->values - i) % TT_COURSE_RECENT];
    return tt_median(latest, (size_t)n);
}

double tt_course_kept_at(const tt_course *c, int64_t step)
{
    const tt_kept *kept = &c->kept;
    if (kept->count == 0)
        return (double)NAN;
    int32_t i = kept->count - 1;
    while (i > 0 && kept->steps[i] > step)
        i--;
    bool is_last = i + 1 == kept->count;
    int64_t from = kept->steps[i], to = is_last ? c->last_step : kept->steps[i + 1];
    double value = kept->values[i], next = is_last ? c->latest : kept->values[i + 1];
    if (to <= from || step <= from)
        return value;
    return step >= to
               ? next
               : value + (next - value) * ((double)step - (double)from) / ((double)to - (double)from);
}

/* A tail like c x^-a has logarithms of jumps with an exponential distribution of mean 1/a (Hill).  The largest of
 * OUTER that are beyond the next one is surprising if a power law with this exponent does not make it. */
double tt_course_surprise(const tt_course *c)
{
    double by[TT_COURSE_TAIL];
    int32_t n = c->rises.count;
    if (n < OUTER + INNER)
        return (double)INFINITY;
    for (int32_t i = 0; i < n; i++)
        by[i] = (double)c->rises.by[i];
    (void)tt_median(by, (size_t)n); /* sorts them, the smallest first */
    double logs = 0;
    for (int32_t i = 1; i < n - OUTER; i++)
        logs += log(by[i] / by[0]);
    double count = n - OUTER - 1;
    double exponent = logs > 0 && count / logs < STEEPEST ? count / logs : STEEPEST;
    return exponent * log(by[n - 1] / by[n - OUTER - 1]);
}
