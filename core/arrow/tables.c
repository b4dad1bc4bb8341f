/* tables.c -- the small tables: histograms, runs, sites, notes, settings, findings.
 *
 * Rows are put cell by cell, in the order of the fields above each function.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrow/walk.h"

#include "store/pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_part(tt_arrow_batch *batch, tt_arrow_part part)
{
    tt_arrow_text_of(batch, part.text, part.len);
}

/* A step or a number; -1: none. */
static void put_known(tt_arrow_batch *batch, int64_t x)
{
    if (x >= 0)
        tt_arrow_int(batch, x);
    else
        tt_arrow_null(batch);
}

/* ---- histograms -------------------------------------------------------------------- */

static const tt_arrow_field hist_fields[] = {
    { "run", TT_ARROW_WORD, "the run, as it was named" },
    { "rank", TT_ARROW_INT, "the process; -1: the parts of all ranks, joined" },
    { "site", TT_ARROW_WORD, "whole name" },
    { "step", TT_ARROW_INT, "training step" },
    { "call", TT_ARROW_INT, "which call of the module in the step, from 0" },
    { "low", TT_ARROW_FLOAT, "lower edge of the bin; low = high = 0: the zeros" },
    { "high", TT_ARROW_FLOAT, "upper edge of the bin" },
    { "count", TT_ARROW_INT, "elements in it" },
};

static tt_status put_bins(tt_arrow_walk *walk, tt_arrow_batch *batch, const tt_arrow_stretch *at,
                          uint32_t i)
{
    const tt_points *points = &walk->points;
    size_t len, count = 0;
    const char *bytes = tt_points_bytes(points, TT_COLUMN_HIST, i, &len);
    if (bytes == NULL)
        return TT_OK;
    tt_status st = tt_hist_unpack(bytes, len, NULL, 0, &count);
    tt_hist_bin *bins = st == TT_OK ? malloc((count + 1) * sizeof *bins) : NULL; /* owned */
    if (st == TT_OK)
        st = bins != NULL ? tt_hist_unpack(bytes, len, bins, count, &count) : TT_ENOMEM;
    for (size_t k = 0; st == TT_OK && k < count; k++) {
        tt_arrow_text(batch, walk->name);
        tt_arrow_int(batch, at->rank);
        tt_arrow_text(batch, at->site);
        tt_arrow_int(batch, (int64_t)points->cells[TT_COLUMN_STEP][i]);
        tt_arrow_int(batch, (int64_t)points->cells[TT_COLUMN_CALL][i]);
        tt_arrow_float(batch, bins[k].low);
        tt_arrow_float(batch, bins[k].high);
        tt_arrow_int(batch, bins[k].count);
        tt_arrow_end_row(batch);
    }
    free(bins);
    return st;
}

static tt_status fill_histograms(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err)
{
    tt_arrow_stretch at;
    tt_status st = TT_OK;
    while (st == TT_OK && batch->rows < TT_ARROW_ROWS) {
        tt_chunk chunk;
        if (!tt_arrow_walk_next(walk, &at)) {
            walk->is_done = true;
            break;
        }
        tt_points_clear(&walk->points);
        st = tt_run_chunk(tt_arrow_walk_run(walk), at.tap, at.row, at.entry, &chunk);
        if (st == TT_OK && chunk.columns[TT_COLUMN_HIST].at == NULL)
            continue;
        if (st == TT_OK)
            st = tt_chunk_unpack(&chunk, (uint32_t)TT_PRODUCT_SAMPLE | TT_PRODUCT_TOKENS, &walk->points);
        for (uint32_t i = 0; st == TT_OK && i < walk->points.n; i++) {
            int64_t step = (int64_t)walk->points.cells[TT_COLUMN_STEP][i];
            if (step >= walk->first_step && step <= walk->last_step)
                st = put_bins(walk, batch, &at, i);
        }
        if (st < 0)
            st = tt_arrow_walk_fail(walk, &at, st, err);
    }
    return st;
}

const tt_arrow_kind tt_arrow_histograms =
    TT_ARROW_KIND("histograms", "the bins of recorded histograms that hold something", hist_fields,
                  .fill = fill_histograms);

/* ---- runs --------------------------------------------------------------------------- */

static const tt_arrow_field run_fields[] = {
    { "run", TT_ARROW_TEXT, "the run, as it was named" },
    { "command", TT_ARROW_TEXT, "command line of the program" },
    { "start", TT_ARROW_TIME, "when it began" },
    { "state", TT_ARROW_WORD, "finished, live, crashed, stopped; unreadable" },
    { "stopped", TT_ARROW_TEXT, "the exception that ended it" },
    { "host", TT_ARROW_WORD, "machine" },
    { "cwd", TT_ARROW_TEXT, "folder in which it was started" },
    { "world_size", TT_ARROW_INT, "processes of the job" },
    { "ranks", TT_ARROW_INT, "processes that recorded" },
    { "device", TT_ARROW_WORD, "null: the CPU" },
    { "tensortap", TT_ARROW_WORD, "its version" },
    { "python", TT_ARROW_WORD, "its version" },
    { "torch", TT_ARROW_WORD, "its version" },
    { "numpy", TT_ARROW_WORD, "its version" },
    { "commit", TT_ARROW_TEXT, "of the repository in which it was started" },
    { "first_step", TT_ARROW_INT, "lowest step" },
    { "last_step", TT_ARROW_INT, "highest step" },
    { "sites", TT_ARROW_INT, "names that have points" },
    { "points", TT_ARROW_INT, "of all ranks" },
    { "bytes", TT_ARROW_INT, "of all files" },
    { "dropped", TT_ARROW_INT, "events lost because the disk was too slow" },
    { "damaged_bytes", TT_ARROW_INT, "that cannot be read" },
    { "error", TT_ARROW_TEXT, "why the run cannot be read" },
};

static void put_number(tt_arrow_batch *batch, const char *text)
{
    char *end = NULL;
    long long x = text != NULL ? strtoll(text, &end, 10) : 0;
    if (text != NULL && end != text && *end == '\0')
        tt_arrow_int(batch, x);
    else
        tt_arrow_null(batch);
}

static int64_t count_ranks(const tt_run *run)
{
    int64_t count = 0;
    for (int32_t f = 0; f < run->count; f++) /* files come by rank; a rank that forked has several */
        count += f == 0 || run->taps[f]->rank != run->taps[f - 1]->rank;
    return count;
}

static void put_unreadable(tt_arrow_walk *walk, tt_arrow_batch *batch)
{
    const size_t last = sizeof run_fields / sizeof *run_fields - 1;
    tt_arrow_text(batch, walk->name);
    tt_arrow_null(batch);
    tt_arrow_null(batch);
    tt_arrow_text(batch, "unreadable");
    for (size_t i = 4; i < last; i++)
        tt_arrow_null(batch);
    tt_arrow_text(batch, walk->why.text);
    tt_arrow_end_row(batch);
}

static tt_status fill_runs(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err)
{
    const tt_run *run = walk->run;
    (void)err;
    walk->is_done = true;
    if (run == NULL) {
        put_unreadable(walk, batch);
        return TT_OK;
    }
    const tt_totals totals = tt_run_totals(run);
    const bool has_steps = totals.last_step >= totals.first_step;
    tt_buf command = { 0 };
    tt_status st = tt_run_command(run, &command);
    tt_arrow_text(batch, walk->name);
    tt_arrow_text(batch, command.data);
    tt_arrow_time(batch, tt_run_started(run));
    tt_arrow_text(batch, tt_state_text(tt_run_state(run)));
    tt_arrow_text(batch, totals.stopped);
    tt_arrow_text(batch, tt_run_info(run, "host"));
    tt_arrow_text(batch, tt_run_info(run, "cwd"));
    put_number(batch, tt_run_info(run, "world_size"));
    tt_arrow_int(batch, count_ranks(run));
    static const char *const words[] = { "device", "tensortap", "python", "torch", "numpy", "commit" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        tt_arrow_text(batch, tt_run_info(run, words[i]));
    const int64_t steps[] = { totals.first_step, totals.last_step };
    for (size_t i = 0; i < 2; i++)
        if (has_steps)
            tt_arrow_int(batch, steps[i]);
        else
            tt_arrow_null(batch);
    tt_arrow_int(batch, tt_run_shown_count(run, NULL));
    tt_arrow_int(batch, totals.points);
    tt_arrow_int(batch, totals.bytes);
    tt_arrow_int(batch, totals.dropped_events);
    tt_arrow_int(batch, totals.damaged_bytes);
    tt_arrow_null(batch);
    tt_arrow_end_row(batch);
    tt_buf_free(&command);
    return st;
}

const tt_arrow_kind tt_arrow_runs =
    TT_ARROW_KIND("runs", "a row for each run", run_fields, .fill = fill_runs, .wants_damaged = true);

/* ---- sites -------------------------------------------------------------------------- */

static const tt_arrow_field site_fields[] = {
    { "run", TT_ARROW_WORD, "the run, as it was named" },
    { "site", TT_ARROW_WORD, "whole name: gradient/h.3.mlp.weight" },
    { "kind", TT_ARROW_WORD, "before the first slash: activation, gradient ..." },
    { "module", TT_ARROW_WORD, "path of the module: h.3.mlp" },
    { "layer", TT_ARROW_INT, "first number in that path: 3" },
    { "tensor", TT_ARROW_WORD, "which of its tensors: weight; null: its only output" },
    { "class", TT_ARROW_WORD, "class of the module: Linear" },
    { "points", TT_ARROW_INT, "that were recorded, of all ranks" },
    { "first_step", TT_ARROW_INT, "lowest step" },
    { "last_step", TT_ARROW_INT, "highest step" },
};

static tt_status fill_sites(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err)
{
    const tt_run *run = walk->run;
    (void)err;
    for (; walk->site < walk->site_count && batch->rows < TT_ARROW_ROWS; walk->site++) {
        const char *site = walk->sites[walk->site].name;
        tt_span steps = TT_SPAN_NONE;
        int64_t points = 0;
        for (int32_t f = 0; f < run->count; f++) {
            const tt_index_site *row = tt_run_row(run, f, walk->sites[walk->site].number);
            if (row == NULL || !tt_arrow_walk_has_rank(walk, run->taps[f]->rank))
                continue;
            points += row->stored;
            for (uint32_t k = 0; k < row->count; k++)
                tt_span_add(&steps, row->chunks[k].first_step, row->chunks[k].last_step);
        }
        if (points == 0)
            continue;
        tt_arrow_name name = tt_arrow_name_parse(site, &walk->modules);
        tt_arrow_text(batch, walk->name);
        tt_arrow_text(batch, site);
        put_part(batch, name.kind);
        put_part(batch, name.module);
        put_known(batch, name.layer);
        put_part(batch, name.tensor);
        tt_arrow_text(batch,
                      name.module.text != NULL
                          ? tt_arrow_modules_class(&walk->modules, name.module.text, name.module.len)
                          : NULL);
        tt_arrow_int(batch, points);
        tt_arrow_int(batch, steps.first);
        tt_arrow_int(batch, steps.last);
        tt_arrow_end_row(batch);
    }
    walk->is_done = walk->site >= walk->site_count;
    return TT_OK;
}

const tt_arrow_kind tt_arrow_sites =
    TT_ARROW_KIND("sites", "a row for each site of each run", site_fields, .fill = fill_sites);

/* ---- notes and settings ------------------------------------------------------------- */

static const tt_arrow_field note_fields[] = {
    { "run", TT_ARROW_WORD, "the run, as it was named" },
    { "rank", TT_ARROW_INT, "the process" },
    { "step", TT_ARROW_INT, "training step" },
    { "time", TT_ARROW_TIME, "when it was noted" },
    { "text", TT_ARROW_TEXT, "the remark" },
};

static tt_status fill_notes(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err)
{
    const tt_run *run = walk->run;
    (void)err;
    for (; walk->file < run->count; walk->file++, walk->next = 0) {
        tt_note note;
        if (!tt_arrow_walk_has_rank(walk, run->taps[walk->file]->rank))
            continue;
        while (tt_run_note(run, walk->file, (int32_t)walk->next, &note) == TT_OK) {
            if (batch->rows >= TT_ARROW_ROWS)
                return TT_OK;
            walk->next++;
            if (note.step < walk->first_step || note.step > walk->last_step)
                continue;
            tt_arrow_text(batch, walk->name);
            tt_arrow_int(batch, run->taps[walk->file]->rank);
            tt_arrow_int(batch, note.step);
            tt_arrow_time(batch, note.time);
            tt_arrow_text(batch, note.text);
            tt_arrow_end_row(batch);
        }
    }
    walk->is_done = true;
    return TT_OK;
}

const tt_arrow_kind tt_arrow_notes =
    TT_ARROW_KIND("notes", "remarks of the program and of the recorder", note_fields, .fill = fill_notes);

static const tt_arrow_field setting_fields[] = {
    { "run", TT_ARROW_WORD, "the run, as it was named" },
    { "step", TT_ARROW_INT, "from which on it was so" },
    { "key", TT_ARROW_WORD, "optimizer/lr, data/batch_size, module/h.3.mlp ..." },
    { "value", TT_ARROW_TEXT, "as text; empty: not set any more" },
};

static tt_status fill_settings(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err)
{
    tt_setting setting;
    (void)err;
    while (batch->rows < TT_ARROW_ROWS) {
        if (tt_run_setting(walk->run, 0, (int32_t)walk->next++, &setting) < 0) {
            walk->is_done = true;
            break;
        }
        tt_arrow_text(batch, walk->name);
        tt_arrow_int(batch, setting.step);
        tt_arrow_text(batch, setting.key);
        tt_arrow_text(batch, setting.value);
        tt_arrow_end_row(batch);
    }
    return TT_OK;
}

const tt_arrow_kind tt_arrow_settings =
    TT_ARROW_KIND("settings", "what the program had set, as its first rank says; a row a change",
                  setting_fields, .fill = fill_settings);

/* ---- findings ----------------------------------------------------------------------- */

static const tt_arrow_field finding_fields[] = {
    { "run", TT_ARROW_WORD, "the run, as it was named" },
    { "severity", TT_ARROW_WORD, "error, warning, note" },
    { "rule", TT_ARROW_WORD, "which rule of 'tensortap health' found it" },
    { "site", TT_ARROW_WORD, "the first to look at" },
    { "place", TT_ARROW_TEXT, "all sites, in a few words" },
    { "first_step", TT_ARROW_INT, "from which step on" },
    { "last_step", TT_ARROW_INT, "up to which step" },
    { "sentence", TT_ARROW_TEXT, "what was found" },
    { "remedy", TT_ARROW_TEXT, "what to do" },
    { "code", TT_ARROW_TEXT, "class and line of the program" },
};

static tt_status fill_findings(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err)
{
    tt_findings *found = NULL; /* owned */
    tt_status st = tt_health(tt_arrow_walk_run(walk), NULL, &found, err);
    for (size_t i = 0; st == TT_OK && i < found->count; i++) {
        const tt_answer *one = &found->items[i];
        tt_arrow_text(batch, walk->name);
        tt_arrow_text(batch, tt_severity_text(one->severity));
        tt_arrow_text(batch, one->rule);
        tt_arrow_text(batch, one->site_count > 0 ? one->names[0] : NULL);
        tt_arrow_text(batch, one->place);
        put_known(batch, one->first_step);
        put_known(batch, one->last_step);
        tt_arrow_text(batch, one->sentence);
        tt_arrow_text(batch, one->remedy);
        tt_arrow_text(batch, one->code);
        tt_arrow_end_row(batch);
    }
    if (st == TT_OK)
        walk->lost.points += found->unread;
    tt_findings_free(found);
    walk->is_done = true;
    return st;
}

const tt_arrow_kind tt_arrow_findings =
    TT_ARROW_KIND("findings", "what 'tensortap health' finds; every point of the runs is read",
                  finding_fields, .fill = fill_findings);
