/* filter.c -- which runs of a list are shown, and in which order.
 *
 * web/list.js reads the same conditions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/filter.h"
#include "words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- conditions ---------------------------------------------------------------- */

/* Longer ones first: "<=" begins with "<". */
static const char *const operations[] = { "<=", ">=", "==", "!=", "<", ">", "=", "~" };
enum { LEAST_OR_EQUAL, MOST_OR_EQUAL, SAME, OTHER, LESS, MORE, EQUAL, LIKE, OPERATIONS };

/* Columns that a run has whatever it recorded. */
static const char *const columns[] = { "run",   "state",  "verdict", "started", "steps",
                                       "size",  "points", "ranks",   "loss",    "lr",
                                       "batch", "stride", "command" };
enum {
    RUN,
    STATE,
    VERDICT,
    STARTED,
    STEPS,
    SIZE,
    POINTS,
    RANKS,
    LOSS,
    LR,
    BATCH,
    STRIDE,
    COMMAND,
    COLUMNS
};

static int column_of(const char *key)
{
    int column = 0;
    while (column < COLUMNS && strcmp(columns[column], key) != 0)
        column++;
    return column;
}

void tt_filter_free(tt_filter *filter)
{
    for (size_t i = 0; i < filter->text_count; i++)
        free(filter->texts[i]);
    *filter = (tt_filter){ 0 };
}

/* Notes that a key is asked for. */
static void want(tt_filter *filter, const char *key)
{
    int column = column_of(key);
    filter->needs_verdict |= column == VERDICT;
    bool is_there = column < COLUMNS;
    for (size_t i = 0; i < filter->key_count; i++)
        is_there |= strcmp(filter->keys[i], key) == 0;
    if (!is_there)
        filter->keys[filter->key_count++] = key;
}

static char *copy_of(tt_filter *filter, const char *text)
{
    return filter->texts[filter->text_count++] = strdup(text);
}

/* Cuts blanks off both ends. */
static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (size_t len = strlen(text); len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t');)
        text[--len] = '\0';
    return text;
}

static double number_in(const char *text)
{
    char *end = NULL;
    double x = strtod(text, &end);
    return end != text && *end == '\0' ? x : (double)NAN;
}

bool tt_filter_where(tt_filter *filter, const char *text)
{
    size_t at = strcspn(text, "<>=!~");
    int operation = 0;
    while (operation < OPERATIONS &&
           strncmp(text + at, operations[operation], strlen(operations[operation])) != 0)
        operation++;
    if (at == 0 || operation == OPERATIONS || filter->count == TT_FILTERS_MOST)
        return false;
    char *copy = copy_of(filter, text);
    if (copy == NULL)
        return false;
    char *operand = trimmed(copy + at + strlen(operations[operation]));
    copy[at] = '\0';
    char *key = trimmed(copy);
    if (*key == '\0' || *operand == '\0')
        return false;
    filter->conditions[filter->count].key = key;
    filter->conditions[filter->count].operation = operation == SAME ? EQUAL : operation;
    filter->conditions[filter->count].operand = operand;
    filter->conditions[filter->count++].number = number_in(operand);
    want(filter, key);
    return true;
}

bool tt_filter_sort(tt_filter *filter, const char *text)
{
    filter->is_descending = *text == '-';
    char *key = filter->sort == NULL ? copy_of(filter, text + filter->is_descending) : NULL;
    if (key == NULL || *key == '\0')
        return false;
    filter->sort = key;
    want(filter, key);
    return true;
}

/* ---- values --------------------------------------------------------------------- */

/* What a run has under a key; text NULL: nothing. */
typedef struct seen {
    const char *text;
    double number;
    bool is_number;
} seen;

static seen of_value(const tt_runs_value *value)
{
    return (seen){ value->text, value->number, value->is_number };
}

static seen of_count(int64_t count)
{
    return (seen){ tt_screen_text("%lld", (long long)count), (double)count, true };
}

static seen of_column(const tt_runs_entry *e, int column)
{
    switch (e->is_readable || column == RUN ? column : COLUMNS) {
    case RUN:
        return (seen){ .text = e->path };
    case STATE:
        return (seen){ .text = tt_state_text(e->state) };
    case VERDICT: /* errors before warnings */
        return (seen){ e->verdict, 1000 * (double)e->errors + (double)e->warnings, false };
    case STARTED:
        return (seen){ .text = tt_screen_time(e->started), (double)e->started, false };
    case STEPS:
        return of_count(tt_overview_steps(&e->totals));
    case SIZE:
        return of_count(e->totals.bytes);
    case POINTS:
        return of_count(e->totals.points);
    case RANKS:
        return of_count(e->ranks);
    case LOSS:
        return of_value(&e->usual[TT_RUNS_LOSS]);
    case LR:
        return of_value(&e->usual[TT_RUNS_LR]);
    case BATCH:
        return of_value(&e->usual[TT_RUNS_BATCH]);
    case STRIDE:
        return of_count(e->stride);
    case COMMAND:
        return (seen){ .text = e->command.data };
    default:
        return (seen){ 0 };
    }
}

static seen look_up(const tt_filter *filter, const tt_runs_entry *e, const char *key)
{
    int column = column_of(key);
    if (column < COLUMNS)
        return of_column(e, column);
    for (size_t i = 0; i < filter->key_count && i < e->value_count; i++)
        if (strcmp(filter->keys[i], key) == 0)
            return of_value(&e->values[i]);
    return (seen){ 0 };
}

/* ---- filtering -------------------------------------------------------------------- */

static bool holds(int operation, seen value, const char *operand, double number)
{
    bool are_numbers = value.is_number && !isnan(number);
    int order =
        are_numbers ? (value.number > number) - (value.number < number) : strcmp(value.text, operand);
    bool is_nan = value.is_number && isnan(value.number); /* is above and below nothing */
    if (operation == LIKE)
        return tt_glob_match(operand, value.text);
    if (operation == EQUAL || operation == OTHER)
        return ((is_nan ? strcasecmp(value.text, operand) == 0 : order == 0)) == (operation == EQUAL);
    return !is_nan && (order == 0  ? operation == LEAST_OR_EQUAL || operation == MOST_OR_EQUAL
                       : order < 0 ? operation == LEAST_OR_EQUAL || operation == LESS
                                   : operation == MOST_OR_EQUAL || operation == MORE);
}

/* Does an entry pass all conditions? */
static tt_status test(const tt_filter *filter, const tt_runs_entry *e, bool *passes, bool *lacks,
                      tt_error *err)
{
    *passes = true;
    *lacks = false;
    for (size_t i = 0; i < filter->count; i++) {
        const char *key = filter->conditions[i].key, *operand = filter->conditions[i].operand;
        int operation = filter->conditions[i].operation;
        seen value = look_up(filter, e, key);
        bool is_order = operation != EQUAL && operation != OTHER && operation != LIKE;
        if (value.text == NULL) {
            *passes = false;
            *lacks = true;
            continue;
        }
        if (is_order && value.is_number && isnan(filter->conditions[i].number))
            return tt_fail(err, TT_EINVAL,
                           "--where: %.80s is a number (%.40s in %.150s), '%.80s' is none", key,
                           value.text, e->path, operand);
        *passes &= holds(operation, value, operand, filter->conditions[i].number);
    }
    return TT_OK;
}

/* ---- sorting ----------------------------------------------------------------------- */

typedef struct placed {
    const tt_filter *filter;
    const tt_runs_entry *entry;
    size_t order; /* it had */
} placed;

/* Runs that lack the value come last, whatever the direction; then those that have NaN. */
static int rank_of(seen value)
{
    return value.text == NULL ? 2 : isnan(value.number) && value.is_number;
}

static int by_value(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    const tt_filter *filter = x->filter;
    seen p = look_up(filter, x->entry, filter->sort), q = look_up(filter, y->entry, filter->sort);
    int order = rank_of(p) - rank_of(q);
    if (order != 0 || p.text == NULL)
        return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
    bool are_counts = column_of(filter->sort) == VERDICT || (p.is_number && q.is_number);
    order = are_counts                   ? (p.number > q.number) - (p.number < q.number)
            : p.is_number != q.is_number ? q.is_number - p.is_number
                                         : strcmp(p.text, q.text);
    if (order == 0)
        return (x->order > y->order) - (x->order < y->order);
    return filter->is_descending ? -order : order;
}

static tt_status sort(const tt_filter *filter, tt_runs *runs)
{
    placed *order = calloc(runs->count + 1, sizeof *order);
    tt_runs_entry *sorted = calloc(runs->count + 1, sizeof *sorted);
    if (order == NULL || sorted == NULL) {
        free(order);
        free(sorted);
        return TT_ENOMEM;
    }
    for (size_t i = 0; i < runs->count; i++)
        order[i] = (placed){ filter, &runs->entries[i], i };
    qsort(order, runs->count, sizeof *order, by_value);
    for (size_t i = 0; i < runs->count; i++)
        sorted[i] = *order[i].entry;
    free(order);
    free(runs->entries);
    runs->entries = sorted;
    runs->cap = runs->count + 1;
    return TT_OK;
}

/* ---- names that were probably meant ------------------------------------------------ */

enum { NEAR = 3, RUNS_ASKED = 50 };

typedef struct nearest {
    const char *key;
    char *names[NEAR]; /* owned */
    size_t distances[NEAR];
    size_t count;
} nearest;

/* The end of a name behind a '/', which is what people remember. */
static size_t distance_to(const char *key, const char *name)
{
    const char *slash = strrchr(name, '/'), *end = slash != NULL ? slash + 1 : name;
    size_t whole = tt_words_distance(key, strlen(key), name, strlen(name)),
           last = tt_words_distance(key, strlen(key), end, strlen(end));
    if (strstr(name, key) != NULL)
        return 1;
    return whole < last ? whole : last;
}

static tt_status compare_name(void *self, const char *name, int32_t site, const char *setting)
{
    nearest *n = self;
    size_t distance = distance_to(n->key, name), at = n->count;
    (void)site, (void)setting;
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->names[i], name) == 0)
            return TT_OK;
    if (distance > 2 + strlen(n->key) / 4)
        return TT_OK;
    while (at > 0 && n->distances[at - 1] > distance)
        at--;
    if (at == NEAR)
        return TT_OK;
    char *copy = strdup(name);
    if (copy == NULL)
        return TT_ENOMEM;
    if (n->count == NEAR)
        free(n->names[--n->count]);
    for (size_t i = n->count++; i > at; i--) {
        n->names[i] = n->names[i - 1];
        n->distances[i] = n->distances[i - 1];
    }
    n->names[at] = copy;
    n->distances[at] = distance;
    return TT_OK;
}

static tt_status no_key(const tt_runs *runs, const char *key, tt_error *err)
{
    nearest near = { .key = key };
    tt_buf text = { 0 };
    for (size_t i = 0; i < runs->count && i < RUNS_ASKED; i++) {
        tt_run *run = NULL;
        tt_settings settings = { 0 };
        if (!runs->entries[i].is_readable || tt_run_open(runs->entries[i].path, &run, NULL) < 0)
            continue;
        if (tt_settings_read(run, &settings) == TT_OK)
            (void)tt_runs_value_each(run, &settings, compare_name, &near);
        tt_settings_free(&settings);
        tt_run_close(run);
    }
    for (int i = 0; i < COLUMNS; i++)
        (void)compare_name(&near, columns[i], -1, "");
    for (size_t i = 0; i < near.count; i++) {
        (void)tt_buf_printf(&text, "%s'%.100s'", i > 0 ? ", " : "", near.names[i]);
        free(near.names[i]);
    }
    tt_status st =
        near.count > 0
            ? tt_fail(err, TT_EINVAL,
                      "no run has a setting or a logged number '%.80s'; the nearest: %.400s", key,
                      text.data)
            : tt_fail(
                  err, TT_EINVAL,
                  "no run has a setting or a logged number '%.80s'; 'tensortap show RUN --settings' and "
                  "'tensortap show RUN' list them",
                  key);
    tt_buf_free(&text);
    return st;
}

static bool has_value(const tt_filter *filter, const tt_runs *runs, const char *key)
{
    bool is_there = runs->count == 0;
    for (size_t i = 0; !is_there && i < runs->count; i++)
        is_there = look_up(filter, &runs->entries[i], key).text != NULL;
    return is_there;
}

tt_status tt_filter_apply(const tt_filter *filter, tt_runs *runs, size_t *lacking, tt_error *err)
{
    size_t kept = 0;
    *lacking = 0;
    for (size_t i = 0; i < filter->key_count; i++)
        if (!has_value(filter, runs, filter->keys[i]))
            return no_key(runs, filter->keys[i], err);
    for (size_t i = 0; i < runs->count; i++) {
        bool passes = false, lacks = false;
        tt_status st = test(filter, &runs->entries[i], &passes, &lacks, err);
        if (st < 0)
            return st;
        *lacking += lacks;
        if (passes && kept != i) {
            tt_runs_entry swap = runs->entries[kept];
            runs->entries[kept] = runs->entries[i];
            runs->entries[i] = swap;
        }
        kept += passes;
    }
    for (size_t i = kept; i < runs->count; i++)
        tt_runs_entry_free(&runs->entries[i]);
    runs->count = kept;
    return filter->sort != NULL ? sort(filter, runs) : TT_OK;
}
