/* top.c -- tensortap top RUN
 *
 * A live view: what was written since the last look, twice a second.  The terminal
 * is put back whatever ends the program.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "output/json.h"
#include "runs/overview.h"
#include "words.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { LOOK_MS = 500, MOST_FINDINGS = 5 };

static bool is_once; /* --once */
static int64_t rank; /* main.c opens it */

/* What changed at a site between its last two points, relative to its size. */
typedef struct change {
    int32_t file, site;
    tt_phases phases;
    double by;
    tt_point now;
} change;

static int by_change(const void *a, const void *b)
{
    const change *x = a, *y = b;
    bool is_bad_x = isnan(x->by), is_bad_y = isnan(y->by); /* not finite: first */
    if (is_bad_x != is_bad_y)
        return is_bad_x ? -1 : 1;
    return x->by > y->by ? -1 : x->by < y->by ? 1 : (x->site > y->site) - (x->site < y->site);
}

static bool is_finite(const tt_point *p)
{
    return (p->stats.nan | p->stats.posinf | p->stats.neginf) == 0;
}

/* The root mean square; NaN: not finite. */
static double size_of(const tt_point *p)
{
    if ((p->products & TT_PRODUCT_STATS) == 0)
        return p->scalar;
    return is_finite(p) ? tt_stats_rms(&p->stats) : NAN;
}

/* A tensor without elements has no size: that is not the NaN one looks for. */
static bool is_undefined(const tt_point *p)
{
    return (p->products & TT_PRODUCT_STATS) != 0 && is_finite(p) && isnan(size_of(p));
}

/* Steps a second over the last points of the site recorded most. */
static double step_rate(tt_run *run, int32_t file, int32_t site)
{
    tt_point first, last;
    int64_t n = (int64_t)tt_run_points(run, file, site), back = n < 50 ? n : 50;
    if (n < 2 || tt_run_point(run, file, site, -1, &last, NULL) < 0 ||
        tt_run_point(run, file, site, -back, &first, NULL) < 0 || last.time <= first.time)
        return NAN;
    return ((double)last.step - (double)first.step) / (((double)last.time - (double)first.time) / 1e9);
}

static tt_status list_changes(tt_run *run, change *changes, size_t *count, tt_error *err)
{
    *count = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        tt_point before;
        tt_latest found;
        int64_t index = -1;
        if (!tt_site_is_shown(tt_run_site_name(run, site), NULL) || !tt_run_has_points(run, site))
            continue;
        tt_status st = tt_run_look(run, site, &(tt_look){ .rank = -1 }, &found, err);
        if (st == TT_OK)
            st = tt_run_latest(run, found.file, site, found.phases, found.index, &index, err);
        if (st == TT_OK && index >= 0)
            st = tt_run_point(run, found.file, site, index, &before, err);
        if (st < 0)
            return st;
        if (index < 0 || is_undefined(&before) || is_undefined(&found.latest))
            continue;
        change c = { .file = found.file, .site = site, .phases = found.phases, .now = found.latest };
        double x = size_of(&before), y = size_of(&c.now);
        c.by = x == y ? 0 : fabs(y - x) / fmax(fabs(x), fabs(y));
        changes[(*count)++] = c;
    }
    if (*count > 0)
        qsort(changes, *count, sizeof *changes, by_change);
    return TT_OK;
}

/* The share of the time that watching takes; NaN: not known. */
static double cost_of(tt_run *run)
{
    int32_t cost = tt_run_find(run, "tensortap/cost");
    tt_point share;
    bool is_known = cost >= 0 && tt_run_points(run, 0, cost) > 0 &&
                    tt_run_point(run, 0, cost, -1, &share, NULL) == TT_OK;
    return is_known ? share.scalar : NAN;
}

/* What both pictures show. */
typedef struct view {
    change *changes; /* owned */
    size_t count;
    double rate, cost; /* steps a second, share of the time; NaN: not known */
} view;

/* What the rules found, and what they have seen. */
static struct {
    tt_findings *findings; /* owned */
    tt_histories *seen;    /* owned */
} rules;

static tt_status ask_rules(const char *path, tt_run *run, tt_error *err)
{
    tt_findings_free(rules.findings);
    rules.findings = NULL;
    return tt_health(run, &(tt_health_options){ .seen = &rules.seen, .path = path }, &rules.findings,
                     err);
}

static tt_status look(tt_run *run, view *out, tt_error *err)
{
    out->changes = calloc((size_t)tt_run_site_count(run) + 1, sizeof *out->changes);
    tt_status st = out->changes != NULL ? list_changes(run, out->changes, &out->count, err) : TT_ENOMEM;
    out->rate = out->count > 0 ? step_rate(run, out->changes[0].file, out->changes[0].site) : NAN;
    out->cost = cost_of(run);
    return st;
}

static tt_status print_json(const char *path, tt_run *run, tt_run *whole, tt_error *err)
{
    view v = { 0 };
    tt_status st = look(whole, &v, err);
    if (st == TT_OK)
        st = ask_rules(path, whole, err);
    if (st < 0)
        goto out;
    tt_json *json = tt_json_begin_schema(NULL);
    const tt_totals totals = tt_run_totals(run);
    tt_json_text(json, "run", path);
    tt_json_text(json, "state", tt_state_text(tt_run_state(run)));
    tt_json_i64(json, "first_step", totals.first_step);
    tt_json_i64(json, "last_step", totals.last_step);
    tt_json_f64(json, "steps_per_second", v.rate);
    tt_json_f64(json, "cost", v.cost);
    tt_findings_json(json, rules.findings);
    tt_json_open(json, "sites", '[');
    for (size_t i = 0; i < v.count; i++) {
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "site", tt_run_site_name(run, v.changes[i].site));
        tt_json_f64(json, "change", v.changes[i].by);
        tt_json_point(json, "latest", &v.changes[i].now);
        tt_json_close(json);
    }
    st = tt_json_end(st);
out:
    free(v.changes);
    return st;
}

static tt_status draw(const char *path, tt_run *run, tt_run *whole, bool is_watched, tt_error *err)
{
    static const tt_table_column columns[] = {
        { "CHANGES MOST", .least = -16 }, { "STEP", .is_right = true }, { "RMS", .is_right = true },
        { "CHANGE", .is_right = true },   { .title = "OVER STEPS" },
    };
    view v = { 0 };
    tt_status st = look(whole, &v, err);
    int lines = tt_overview_print(path, run);
    if (st == TT_OK)
        st = ask_rules(path, whole, err);
    if (st == TT_OK)
        for (size_t i = 0; i < rules.findings->count && i < MOST_FINDINGS; i++)
            lines += tt_answer_print(&rules.findings->items[i], TT_EXTENT_SENTENCE);
    if (isnan(v.rate))
        fputs("speed not known", stdout);
    else
        printf("%s steps a second", v.rate >= 100 && v.rate < 1e15
                                        ? tt_screen_count((int64_t)(v.rate + 0.5))
                                        : tt_screen_text("%.3g", v.rate));
    if (!isnan(v.cost))
        printf("; watching takes %.1f%% of the time", v.cost * 100);
    if (is_watched)
        tt_screen_say(TT_MOOD_FAINT, "; q leaves");
    fputs("\n\n", stdout);
    tt_table *table = tt_table_create(&tt_terminal.style, columns, sizeof columns / sizeof *columns);
    size_t most = tt_terminal.rows > lines + 6 ? (size_t)(tt_terminal.rows - lines - 5) : 10;
    for (size_t i = 0; st == TT_OK && i < v.count && i < most; i++) {
        const change *c = &v.changes[i];
        tt_buf trend = { 0 };
        bool is_number = (c->now.products & TT_PRODUCT_STATS) == 0;
        tt_mood mood = isnan(c->by) ? TT_MOOD_ALARM : TT_MOOD_PLAIN;
        st = tt_trend_append(whole, c->file, c->site, is_number ? TT_FIELD_SCALAR : TT_FIELD_RMS,
                             c->phases, 16, &tt_terminal.style, &trend, NULL, err);
        tt_table_cell(table, TT_MOOD_PLAIN, tt_run_site_name(run, c->site));
        tt_table_cell(table, TT_MOOD_PLAIN, tt_screen_count(c->now.step));
        tt_table_cell(table, mood, tt_screen_number(size_of(&c->now)));
        tt_table_cell(table, mood, isnan(c->by) ? "not finite" : tt_screen_text("%.1f%%", c->by * 100));
        tt_table_cell(table, isnan(c->by) ? mood : TT_MOOD_SPARK, trend.len > 0 ? trend.data : "");
        tt_buf_free(&trend);
    }
    free(v.changes);
    return tt_screen_table(table, st);
}

/* Draws all ranks as one, if they can be joined: anew each time, for what one lacked may be there now. */
static tt_status show_once(const char *path, tt_run *run, bool is_json, bool is_watched, tt_error *err)
{
    tt_run *joined = tt_overview_join(run), *whole = joined != NULL ? joined : run; /* owned */
    tt_status st = is_json ? print_json(path, run, whole, err) : draw(path, run, whole, is_watched, err);
    tt_run_close(joined);
    return st;
}

/* Waits for a key; true: leave. */
static bool wants_to_leave(void)
{
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    char key = '\0';
    int ready = poll(&in, 1, LOOK_MS);
    if (tt_screen_is_over())
        return true;
    return ready > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == 3);
}

static tt_status watch(const char *path, tt_run *run, tt_error *err)
{
    struct termios before;
    bool has_keys = tcgetattr(STDIN_FILENO, &before) == 0;
    if (has_keys) {
        struct termios raw = before;
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stop would leave our screen in the shell */
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    tt_screen_catch_end();
    fputs("\x1b[?1049h\x1b[?25l", stdout); /* a screen of its own, without a cursor */
    tt_status st = TT_OK;
    do {
        tt_screen_look(); /* it may have been resized */
        fputs("\x1b[H\x1b[2J", stdout);
        st = show_once(path, run, false, true, err);
        fflush(stdout);
        if (ferror(stdout) != 0 || wants_to_leave())
            break;
        if (st == TT_OK)
            st = tt_run_refresh(run, err);
    } while (st == TT_OK);
    fputs("\x1b[?25h\x1b[?1049l", stdout);
    fflush(stdout);
    if (has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return st;
}

static tt_exit top(tt_call *call)
{
    tt_run *run = call->runs[0];
    bool is_single = is_once || !tt_terminal.is_terminal; /* a pipe gets one picture */
    tt_status st = call->is_json || is_single
                       ? show_once(call->path, run, call->is_json, false, call->err)
                       : watch(call->path, run, call->err);
    tt_findings_free(rules.findings);
    tt_histories_free(rules.seen);
    return tt_cmd_exit(st, call->err);
}

static const tt_option options[] = {
    { "once", NULL, "Print one picture and end", .to = &is_once },
    TT_RANK_OPTION(&rank),
};

const tt_cmd tt_cmd_top = {
    TT_CMD("top", "RUN", "a live view of a training"),
    .doc = "Watch a training while it runs: steps a second, what watching costs, the sites that change "
           "most.  q leaves.\v"
           "For example: tensortap top runs/today",
    TT_OPTIONS(options),
    .json = "Print one picture as JSON and end",
    TT_CMD_ONE_RUN,
    .run = top,
};
