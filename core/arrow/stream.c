/* stream.c -- tables over runs, as streams of Arrow's C interface.
 *
 * Exists so that DuckDB, Polars, pyarrow and pandas read runs without a library of ours in between.  A stream opens
 * each run when it comes to it and shares nothing with anybody, so it may be read and released in any thread, and
 * outlive whoever asked for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrow/walk.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tt_arrow_kind *const kinds[] = { &tt_arrow_points,  &tt_arrow_histograms, &tt_arrow_runs,
                                              &tt_arrow_sites,   &tt_arrow_notes,      &tt_arrow_settings,
                                              &tt_arrow_findings };
enum { KINDS = sizeof kinds / sizeof *kinds };

/* What was asked for.  Never changes, but for the counts. */
struct tt_arrow {
    _Atomic int users;
    _Atomic int64_t lost_runs, lost_points, lost_bytes;
    _Atomic int failures; /* the first one writes `err`, then sets has_err */
    _Atomic bool has_err;
    tt_error err;
    const tt_arrow_kind *kind;
    char **paths; /* owned, each; of runs, path_count of them, then their names */
    size_t path_count;
    char *glob; /* owned */
    int64_t first_step, last_step;
    int32_t *ranks; /* owned; NULL: joined */
    size_t rank_count;
    char **columns; /* owned, each; NULL: all */
    size_t column_count;
    bool is_partial;
};

/* ---- what there is ---------------------------------------------------------------- */

const char *tt_arrow_table(size_t table, const char **about)
{
    if (table < KINDS)
        *about = kinds[table]->about;
    return table < KINDS ? kinds[table]->name : NULL;
}

const char *tt_arrow_table_column(size_t table, size_t column, const char **type, const char **about)
{
    static const char *const types[] = {
        [TT_ARROW_INT] = "int64",       [TT_ARROW_FLOAT] = "float64", [TT_ARROW_TIME] = "timestamp",
        [TT_ARROW_BOOL] = "bool",       [TT_ARROW_TEXT] = "text",     [TT_ARROW_WORD] = "text",
        [TT_ARROW_DIGEST] = "16 bytes",
    };
    if (table >= KINDS || column >= kinds[table]->count)
        return NULL;
    const tt_arrow_field *field = &kinds[table]->fields[column];
    *type = types[field->type];
    *about = field->about;
    return field->name;
}

static tt_status find_kind(const char *name, const tt_arrow_kind **out, tt_error *err)
{
    tt_buf all = { 0 };
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            *out = kinds[i];
            tt_buf_free(&all);
            return TT_OK;
        }
        (void)tt_buf_printf(&all, "%s%s", i > 0 ? ", " : "", kinds[i]->name);
    }
    tt_status st = tt_fail(err, TT_EINVAL, "there is no table %.60s; there are %s", name,
                           all.data != NULL ? all.data : "none");
    tt_buf_free(&all);
    return st;
}

/* ---- what was asked for ------------------------------------------------------------- */

void tt_arrow_free(tt_arrow *arrow)
{
    if (arrow == NULL || --arrow->users > 0)
        return;
    for (size_t i = 0; arrow->paths != NULL && i < 2 * arrow->path_count; i++)
        free(arrow->paths[i]);
    for (size_t i = 0; arrow->columns != NULL && i < arrow->column_count; i++)
        free(arrow->columns[i]);
    free(arrow->paths);
    free(arrow->columns);
    free(arrow->glob);
    free(arrow->ranks);
    free(arrow);
}

/* Copies texts; *out is an array of so many, the first of which are there after a failure too. */
static tt_status copy_texts(char **out, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = strdup(texts[i]);
        if (out[i] == NULL)
            return TT_ENOMEM;
    }
    return TT_OK;
}

static tt_status copy_options(tt_arrow *arrow, const tt_arrow_options *options)
{
    const char *const *names = options->names != NULL ? options->names : options->paths;
    tt_status st = TT_OK;
    arrow->first_step = options->first_step;
    arrow->last_step = options->last_step;
    arrow->is_partial = options->is_partial;
    arrow->path_count = options->path_count;
    arrow->paths = calloc(2 * options->path_count + 1, sizeof *arrow->paths);
    arrow->glob = strdup(options->glob != NULL ? options->glob : "*");
    if (arrow->paths == NULL || arrow->glob == NULL)
        return TT_ENOMEM;
    st = copy_texts(arrow->paths, options->paths, options->path_count);
    if (st == TT_OK)
        st = copy_texts(arrow->paths + options->path_count, names, options->path_count);
    if (st == TT_OK && options->ranks != NULL) {
        arrow->ranks = malloc((options->rank_count + 1) * sizeof *arrow->ranks);
        arrow->rank_count = options->rank_count;
        if (arrow->ranks == NULL)
            return TT_ENOMEM;
        memcpy(arrow->ranks, options->ranks, options->rank_count * sizeof *arrow->ranks);
    }
    if (st == TT_OK && options->columns != NULL) {
        arrow->columns = calloc(options->column_count + 1, sizeof *arrow->columns);
        arrow->column_count = options->column_count;
        st = arrow->columns != NULL ? copy_texts(arrow->columns, options->columns, options->column_count)
                                    : TT_ENOMEM;
    }
    return st;
}

static tt_status open_batch(const tt_arrow *arrow, tt_arrow_batch *batch, tt_error *err)
{
    return tt_arrow_batch_open(batch, arrow->kind->fields, arrow->kind->count,
                               (const char *const *)arrow->columns, arrow->column_count, err);
}

tt_status tt_arrow_create(const tt_arrow_options *options, tt_arrow **out, tt_error *err)
{
    tt_arrow *arrow = calloc(1, sizeof *arrow);
    tt_arrow_batch batch = { 0 };
    if (arrow == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    arrow->users = 1;
    tt_status st = find_kind(options->table, &arrow->kind, err);
    if (st == TT_OK)
        st = tt_fail_plain(err, copy_options(arrow, options));
    if (st == TT_OK)
        st = open_batch(arrow, &batch, err); /* are there such columns? */
    tt_arrow_batch_free(&batch);
    if (st == TT_OK)
        *out = arrow;
    else
        tt_arrow_free(arrow);
    return st;
}

tt_arrow_losses tt_arrow_lost(const tt_arrow *arrow)
{
    return (tt_arrow_losses){ arrow->lost_runs, arrow->lost_points, arrow->lost_bytes };
}

const char *tt_arrow_error(const tt_arrow *arrow)
{
    return arrow->has_err ? arrow->err.text : NULL;
}

/* ---- the walk through a run ------------------------------------------------------------ */

static tt_arrow_walk walk_of(const tt_arrow *arrow, size_t i)
{
    return (tt_arrow_walk){ .name = arrow->paths[arrow->path_count + i],
                            .glob = arrow->glob,
                            .first_step = arrow->first_step,
                            .last_step = arrow->last_step,
                            .ranks = arrow->ranks,
                            .rank_count = arrow->rank_count,
                            .is_partial = arrow->is_partial,
                            .is_done = true };
}

static void end_walk(tt_arrow_walk *walk)
{
    tt_run_close(walk->whole);
    tt_run_close(walk->run);
    tt_arrow_modules_free(&walk->modules);
    free(walk->sites);
    free(walk->cells);
    free(walk->marks);
    tt_buf_free(&walk->bytes);
    tt_points_free(&walk->points);
    *walk = (tt_arrow_walk){ .is_done = true };
}

/* Blocks that the reader had to step over may have held points. */
static tt_status check_damage(const tt_arrow *arrow, tt_arrow_walk *walk, tt_error *err)
{
    walk->lost.bytes = tt_run_totals(walk->run).damaged_bytes;
    if (walk->lost.bytes == 0 || arrow->is_partial || arrow->kind->wants_damaged)
        return TT_OK;
    return tt_fail(
        err, TT_EFORMAT,
        "%lld bytes of %.100s are damaged; 'tensortap check' says where, --partial (partial=True) "
        "reads the rest",
        (long long)walk->lost.bytes, walk->name);
}

static int by_name(const void *a, const void *b)
{
    const tt_arrow_site *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static tt_status list_sites(tt_arrow_walk *walk)
{
    const tt_run *run = tt_arrow_walk_run(walk);
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        const char *name = tt_run_site_name(run, site);
        if (!tt_site_is_shown(name, walk->glob))
            continue;
        if (tt_grow(&walk->sites, &walk->sites_cap, walk->site_count + 1, sizeof *walk->sites) < 0)
            return TT_ENOMEM;
        walk->sites[walk->site_count++] = (tt_arrow_site){ name, site };
    }
    if (walk->site_count > 1)
        qsort(walk->sites, walk->site_count, sizeof *walk->sites, by_name);
    return TT_OK;
}

static tt_status begin_walk(const tt_arrow *arrow, size_t i, tt_arrow_walk *walk, tt_error *err)
{
    end_walk(walk);
    *walk = walk_of(arrow, i);
    tt_status st = tt_run_open(arrow->paths[i], &walk->run, &walk->why);
    if (st == TT_OK && walk->ranks == NULL && tt_run_file_count(walk->run) > 1) {
        st = tt_run_join(walk->run, &walk->whole, &walk->why);
        st = st == TT_EMISMATCH ? TT_OK : st;
    }
    if (st == TT_OK)
        st = tt_arrow_modules_read(tt_arrow_walk_run(walk), &walk->modules);
    if (st == TT_OK)
        st = list_sites(walk);
    walk->is_done = st < 0;
    bool is_bearable = st != TT_ENOMEM && (arrow->is_partial || arrow->kind->wants_damaged);
    if (st < 0 && !is_bearable)
        return tt_fail(err, st, "%s", walk->why.text[0] != '\0' ? walk->why.text : tt_status_text(st));
    if (st < 0 && arrow->kind->wants_damaged)
        walk->is_done = false;
    walk->lost.runs = st < 0;
    return st < 0 ? TT_OK : check_damage(arrow, walk, err);
}

bool tt_arrow_walk_has_rank(const tt_arrow_walk *walk, int32_t rank)
{
    bool has_it = walk->ranks == NULL || walk->rank_count == 0;
    for (size_t i = 0; i < walk->rank_count && !has_it; i++)
        has_it = walk->ranks[i] == rank;
    return has_it;
}

/* A site that could not be joined is read rank by rank. */
static tt_run *run_of(const tt_arrow_walk *walk, int32_t site)
{
    return walk->whole != NULL && tt_run_has_points(walk->whole, site) ? walk->whole : walk->run;
}

bool tt_arrow_walk_next(tt_arrow_walk *walk, tt_arrow_stretch *out)
{
    for (; walk->site < walk->site_count; walk->site++, walk->file = 0) {
        const tt_arrow_site *site = &walk->sites[walk->site];
        tt_run *run = run_of(walk, site->number);
        for (; walk->file < run->count; walk->file++, walk->chunk = 0) {
            const tt_tap *tap = run->taps[walk->file];
            if (!tt_arrow_walk_has_rank(walk, tap->rank))
                continue;
            const tt_index_site *row = tt_run_row(run, walk->file, site->number);
            while (row != NULL && walk->chunk < row->count) {
                const tt_index_chunk *entry = &row->chunks[walk->chunk++];
                if (entry->last_step < walk->first_step || entry->first_step > walk->last_step)
                    continue;
                *out = (tt_arrow_stretch){ site->name, run == walk->whole ? -1 : tap->rank, tap, row,
                                           entry };
                return true;
            }
        }
    }
    return false;
}

tt_status tt_arrow_walk_fail(tt_arrow_walk *walk, const tt_arrow_stretch *stretch, tt_status st,
                             tt_error *err)
{
    if (st == TT_EFORMAT && walk->is_partial) {
        walk->lost.points += stretch->entry->n;
        return TT_OK;
    }
    return tt_tap_fail(stretch->tap, st, err, "points %lld and on of %.60s",
                       (long long)stretch->entry->first, stretch->site);
}

/* ---- the stream ------------------------------------------------------------------------- */

typedef struct stream {
    tt_arrow *arrow; /* a share */
    tt_arrow_walk walk;
    size_t next; /* run */
    tt_arrow_batch batch;
    tt_arrow_places *places; /* a share */
    tt_error err;
} stream;

static int errno_of(stream *s, tt_status st)
{
    if (st < 0 && s->err.text[0] == '\0')
        (void)tt_fail_plain(&s->err, st);
    return st >= 0 ? 0 : st == TT_ENOMEM ? ENOMEM : st == TT_EINVAL ? EINVAL : EIO;
}

static int get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    stream *s = self->private_data;
    return errno_of(s, tt_arrow_schema_export(&s->batch, out));
}

static int get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    stream *s = self->private_data;
    tt_status st = TT_OK;
    while (st == TT_OK && s->batch.rows < TT_ARROW_ROWS) {
        if (s->walk.is_done && s->next == s->arrow->path_count)
            break;
        if (s->walk.is_done)
            st = begin_walk(s->arrow, s->next++, &s->walk, &s->err);
        if (st == TT_OK && !s->walk.is_done)
            st = s->arrow->kind->fill(&s->walk, &s->batch, &s->err);
        if (st == TT_OK)
            st = s->batch.st;
        s->arrow->lost_runs += s->walk.lost.runs;
        s->arrow->lost_points += s->walk.lost.points;
        s->arrow->lost_bytes += s->walk.lost.bytes;
        s->walk.lost = (tt_arrow_losses){ 0 };
    }
    *out = (struct ArrowArray){ 0 }; /* released: the end of the stream */
    if (st == TT_OK && s->batch.rows > 0)
        st = tt_arrow_batch_export(&s->batch, s->places, out);
    int code = errno_of(s, st);
    if (st < 0 && s->arrow->failures++ == 0) {
        s->arrow->err = s->err;
        s->arrow->has_err = true;
    }
    if (st < 0) { /* nothing follows a failure */
        s->next = s->arrow->path_count;
        s->walk.is_done = true;
        s->batch.rows = 0;
    }
    return code;
}

static const char *get_last_error(struct ArrowArrayStream *self)
{
    stream *s = self->private_data;
    return s->err.text[0] != '\0' ? s->err.text : NULL;
}

static void free_stream(stream *s)
{
    if (s == NULL)
        return;
    end_walk(&s->walk);
    tt_arrow_batch_free(&s->batch);
    tt_arrow_places_drop(s->places);
    tt_arrow_free(s->arrow);
    free(s);
}

static void release_stream(struct ArrowArrayStream *self)
{
    free_stream(self->private_data);
    self->private_data = NULL;
    self->release = NULL;
}

static tt_status make_stream(tt_arrow *arrow, struct ArrowArrayStream *out, tt_error *err)
{
    stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    s->arrow = arrow;
    arrow->users++;
    s->walk.is_done = true;
    s->places = tt_arrow_places_create();
    tt_status st = s->places != NULL ? open_batch(arrow, &s->batch, err) : tt_fail_plain(err, TT_ENOMEM);
    if (st < 0) {
        free_stream(s);
        return st;
    }
    *out = (struct ArrowArrayStream){ .get_schema = get_schema,
                                      .get_next = get_next,
                                      .get_last_error = get_last_error,
                                      .release = release_stream,
                                      .private_data = s };
    return TT_OK;
}

void tt_arrow_stream_free(struct ArrowArrayStream *made)
{
    if (made != NULL && made->release != NULL)
        made->release(made);
    free(made);
}

tt_status tt_arrow_stream_new(tt_arrow *arrow, struct ArrowArrayStream **out, tt_error *err)
{
    struct ArrowArrayStream *made = malloc(sizeof *made);
    tt_status st = made != NULL ? make_stream(arrow, made, err) : tt_fail_plain(err, TT_ENOMEM);
    if (st == TT_OK)
        *out = made;
    else
        free(made);
    return st;
}
