/* cmd_top.c -- tensortap top RUN
 *
 * A live view: what was written since the last look, twice a second.  The terminal
 * is put back whatever ends the program.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "header.h"
#include "json_out.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { ONCE = 256, LOOK_MS = 500 };

typedef struct arguments {
    tt_arguments shared;
    bool is_once;
} arguments;

static volatile sig_atomic_t is_asked_to_end; /* by a signal; the only thing a handler touches */

static void on_signal(int number)
{
    (void)number;
    is_asked_to_end = 1;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case ONCE:
        args->is_once = true;
        return 0;
    default:
        return tt_arguments_parse(&args->shared, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "once", ONCE, NULL, 0, "Print one picture and end", 0 },
    { "json", TT_ARGUMENTS_JSON, NULL, 0, "Print one picture as JSON and end", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN",
    .doc = "Watch a training while it runs: steps a second, what watching costs, the sites that change "
           "most.  q leaves.\v"
           "For example: tensortap top runs/today",
};

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

static double size_of(const tt_point *p)
{
    if ((p->products & TT_PRODUCT_STATS) == 0)
        return p->scalar;
    return (p->stats.nan | p->stats.posinf | p->stats.neginf) != 0 ? NAN : tt_stats_rms(&p->stats);
}

/* A tensor without elements has no size: that is not the NaN one looks for. */
static bool is_undefined(const tt_point *p)
{
    const tt_stats *s = &p->stats;
    return (p->products & TT_PRODUCT_STATS) != 0 && (s->nan | s->posinf | s->neginf) == 0 &&
           isnan(tt_stats_rms(s));
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
        tt_latest sight;
        int64_t index = -1;
        if (!tt_site_is_shown(tt_run_site_name(run, site), NULL) || !tt_run_has_points(run, site))
            continue;
        tt_status st = tt_run_look(run, site, &(tt_look){ .rank = -1 }, &sight, err);
        if (st == TT_OK)
            st = tt_run_previous(run, site, &sight, &index, err);
        if (st == TT_OK && index >= 0)
            st = tt_run_point(run, sight.file, site, index, &before, err);
        if (st < 0)
            return st;
        if (index < 0 || is_undefined(&before) || is_undefined(&sight.latest))
            continue;
        change c = { .file = sight.file, .site = site, .phases = sight.phases, .now = sight.latest };
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

static tt_status print_json(const char *path, tt_run *run, tt_error *err)
{
    size_t count = 0;
    change *changes = calloc((size_t)tt_run_site_count(run) + 1, sizeof *changes);
    tt_status st = changes != NULL ? list_changes(run, changes, &count, err) : TT_ENOMEM;
    if (st < 0) {
        free(changes);
        return st;
    }
    tt_json_out json = { 0 };
    tt_totals totals;
    tt_overview_totals(run, &totals);
    tt_json_open(&json, NULL, '{');
    tt_json_words(&json, "run", path);
    tt_json_words(&json, "state", tt_overview_state_text(tt_overview_state(run)));
    tt_json_whole(&json, "first_step", totals.first_step);
    tt_json_whole(&json, "last_step", totals.last_step);
    tt_json_number(&json, "steps_per_second",
                   count > 0 ? step_rate(run, changes[0].file, changes[0].site) : NAN);
    tt_json_number(&json, "cost", cost_of(run));
    tt_json_open(&json, "sites", '[');
    for (size_t i = 0; i < count; i++) {
        tt_json_open(&json, NULL, '{');
        tt_json_words(&json, "site", tt_run_site_name(run, changes[i].site));
        tt_json_number(&json, "change", changes[i].by);
        tt_json_open(&json, "latest", '{');
        tt_json_point(&json, &changes[i].now);
        tt_json_close(&json, '}');
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, ']');
    tt_json_close(&json, '}');
    free(changes);
    return TT_OK;
}

static tt_status draw(const char *path, tt_run *run, const tt_screen *screen, bool is_watched,
                      tt_error *err)
{
    size_t count = 0;
    change *changes = calloc((size_t)tt_run_site_count(run) + 1, sizeof *changes);
    tt_table *table = NULL;
    tt_buf text = { 0 };
    tt_status st = changes != NULL ? list_changes(run, changes, &count, err) : TT_ENOMEM;
    int lines = tt_header_print(path, run, screen);
    double rate = count > 0 ? step_rate(run, changes[0].file, changes[0].site) : NAN, cost = cost_of(run);
    char number[TT_NUMBER_TEXT];
    if (rate >= 100 && rate < 1e15)
        (void)tt_screen_count((int64_t)(rate + 0.5), number);
    else
        (void)snprintf(number, sizeof number, "%.3g", rate);
    if (isnan(rate))
        fputs("speed not known", stdout);
    else
        printf("%s steps a second", number);
    if (!isnan(cost))
        printf("; watching takes %.1f%% of the time", cost * 100);
    if (is_watched)
        printf("%s; q leaves%s", tt_header_ink(screen, TT_MOOD_FAINT),
               tt_header_ink(screen, TT_MOOD_PLAIN));
    fputs("\n\n", stdout);
    if (st == TT_OK)
        st = tt_table_create(&screen->style, &table);
    static const char *const titles[] = { "CHANGES MOST", "STEP", "RMS", "CHANGE", "OVER STEPS" };
    for (size_t c = 0; st == TT_OK && c < 5; c++)
        st = tt_table_column(table, titles[c], c > 0 && c < 4, c == 0 ? -16 : 0);
    size_t most = screen->rows > lines + 6 ? (size_t)(screen->rows - lines - 5) : 10;
    for (size_t i = 0; st == TT_OK && i < count && i < most; i++) {
        const change *c = &changes[i];
        tt_buf trend = { 0 };
        char step[TT_NUMBER_TEXT], size[TT_NUMBER_TEXT], by[TT_NUMBER_TEXT];
        bool is_number = (c->now.products & TT_PRODUCT_STATS) == 0;
        (void)tt_number_short(size_of(&c->now), size);
        (void)snprintf(by, sizeof by, isnan(c->by) ? "not finite" : "%.1f%%", c->by * 100);
        st = tt_trend_append(run, c->file, c->site, is_number ? TT_FIELD_SCALAR : TT_FIELD_RMS, c->phases,
                             16, &screen->style, &trend, NULL, err);
        const char *cells[] = { tt_run_site_name(run, c->site), tt_screen_count(c->now.step, step), size,
                                by, trend.len > 0 ? trend.data : "" };
        for (size_t k = 0; st == TT_OK && k < 5; k++)
            st = tt_table_cell(table,
                               isnan(c->by) && k > 1 ? TT_MOOD_ALARM
                               : k == 4              ? TT_MOOD_SPARK
                                                     : TT_MOOD_PLAIN,
                               cells[k]);
        tt_buf_free(&trend);
    }
    if (st == TT_OK)
        st = tt_table_render(table, true, &text);
    tt_table_free(table);
    free(changes);
    return tt_screen_print(&text, st, err);
}

/* Waits for a key; true: leave. */
static bool wants_to_leave(void)
{
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    char key = '\0';
    int ready = poll(&in, 1, LOOK_MS);
    if (is_asked_to_end)
        return true;
    return ready > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == 3);
}

static tt_exit watch(const char *path, tt_run *run, tt_error *err)
{
    struct termios before;
    bool has_keys = tcgetattr(STDIN_FILENO, &before) == 0;
    if (has_keys) {
        struct termios raw = before;
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stop would leave our screen in the shell */
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    struct sigaction action = { .sa_handler = on_signal };
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    fputs("\x1b[?1049h\x1b[?25l", stdout); /* a screen of its own, without a cursor */
    tt_status st = TT_OK;
    do {
        tt_screen screen;
        tt_screen_look(&screen); /* it may have been resized */
        fputs("\x1b[H\x1b[2J", stdout);
        st = draw(path, run, &screen, true, err);
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
    return st < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
}

tt_exit tt_cmd_top(int argc, char **argv, tt_error *err)
{
    arguments args = { .shared = { .least = 1, .most = 1 } };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    tt_run *run = NULL;
    tt_exit code = tt_overview_open(args.shared.run, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    if (args.shared.is_json)
        code = print_json(args.shared.run, run, err) < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
    else if (args.is_once || !screen.is_terminal) /* a pipe gets one picture */
        code = draw(args.shared.run, run, &screen, false, err) < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
    else
        code = watch(args.shared.run, run, err);
    tt_run_close(run);
    return code;
}
