/* join.c -- a run of many ranks as a run of one.
 *
 * For each step and call of a site, the ranks' points are put into classes by their placements: ranks of one
 * class hold the same part, and one of them stands for it; the classes together hold the whole tensor.  Counts,
 * sums, squares, extremes and histograms of the parts are combined in the order of the mesh, so that the result
 * does not depend on who wrote first.  parts.h says which file does what.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/join.h"

#include <stdlib.h>
#include <string.h>

void tt_join_free(tt_join *join)
{
    if (join == NULL)
        return;
    free(join->site);
    free(join->is_made);
    tt_buf_free(&join->bytes);
    free(join);
}

/* ---- the run -------------------------------------------------------------------------- */

static bool has_placements(const tt_run *run)
{
    for (int32_t f = 0; f < run->count; f++)
        if (run->taps[f]->placement_count > 0)
            return true;
    return false;
}

/* What the files say of themselves: that of the lowest rank, and the notes and modules of all. */
static tt_status copy_texts(const tt_run *parts, tt_tap *tap)
{
    const tt_tap *first = parts->taps[0];
    tt_status st = TT_OK;
    size_t pairs = (size_t)first->info_count * 2;
    tap->info = calloc(pairs + 1, sizeof *tap->info);
    if (tap->info == NULL)
        return TT_ENOMEM;
    memcpy((void *)tap->info, (const void *)first->info, pairs * sizeof *tap->info);
    tap->info_count = first->info_count;
    st = tt_grow(&tap->settings, &tap->setting_cap, (size_t)first->setting_count, sizeof *tap->settings);
    if (st == TT_OK && first->setting_count > 0) {
        memcpy(tap->settings, first->settings, (size_t)first->setting_count * sizeof *tap->settings);
        tap->setting_count = first->setting_count;
    }
    for (int32_t f = 0; st == TT_OK && f < parts->count; f++) {
        const tt_tap *from = parts->taps[f];
        for (int32_t i = 0; st == TT_OK && i < from->note_count; i++) {
            bool is_known = false;
            for (int32_t k = 0; k < tap->note_count && !is_known; k++)
                is_known = strcmp(tap->notes[k].text, from->notes[i].text) == 0;
            if (is_known)
                continue;
            st = tt_grow(&tap->notes, &tap->note_cap, (size_t)tap->note_count + 1, sizeof *tap->notes);
            if (st == TT_OK)
                tap->notes[tap->note_count++] = from->notes[i];
        }
        for (int32_t i = 0; st == TT_OK && i < from->module_count; i++) {
            bool is_known = false;
            for (int32_t k = 0; k < tap->module_count && !is_known; k++)
                is_known = strcmp(tap->modules[k].path, from->modules[i].path) == 0;
            if (is_known)
                continue;
            st = tt_grow(&tap->modules, &tap->module_cap, (size_t)tap->module_count + 1,
                         sizeof *tap->modules);
            if (st == TT_OK)
                tap->modules[tap->module_count++] = from->modules[i];
        }
    }
    return st;
}

/* Bytes, steps and losses are those of all files. */
static void copy_totals(const tt_run *parts, tt_tap *tap)
{
    tap->index.steps = TT_SPAN_NONE;
    tap->scan.is_closed = true;
    for (int32_t f = 0; f < parts->count; f++) {
        const tt_tap *from = parts->taps[f];
        if (from->index.steps.last >= from->index.steps.first)
            tt_span_add(&tap->index.steps, from->index.steps.first, from->index.steps.last);
        tap->scan.size += from->scan.size;
        tap->scan.damaged += from->scan.damaged;
        tap->scan.is_closed &= from->scan.is_closed;
        tap->index.lost_events += from->index.lost_events;
    }
}

static tt_status make_tap(tt_run *parts, tt_run *run)
{
    tt_tap *tap = calloc(1, sizeof *tap);
    tt_join *join = calloc(1, sizeof *join);
    run->taps = calloc(1, sizeof *run->taps);
    if (tap == NULL || join == NULL || run->taps == NULL) {
        free(tap);
        free(join);
        return TT_ENOMEM;
    }
    run->taps[0] = tap;
    run->count = 1;
    run->cap = 1;
    tap->fd = -1;
    tap->join = join;
    join->parts = parts;
    join->count = tt_run_site_count(parts);
    join->site = calloc((size_t)join->count + 1, sizeof *join->site);
    join->is_made = calloc((size_t)join->count + 1, sizeof *join->is_made);
    tap->path = strdup(parts->taps[0]->path);
    tap->rank = parts->taps[0]->rank;
    tt_status st = tt_sites_create(&tap->sites);
    tap->index.sites = tap->sites;
    if (st == TT_OK && (join->site == NULL || join->is_made == NULL || tap->path == NULL))
        st = TT_ENOMEM;
    if (st == TT_OK)
        st = tt_grow(&tap->local, &tap->local_cap, (size_t)join->count + 1, sizeof *tap->local);
    for (int32_t site = 0; st == TT_OK && site < join->count; site++) {
        const char *name = tt_run_site_name(parts, site);
        int32_t number;
        tap->local[site] = site;
        join->site[site].first_unequal = join->site[site].rank = -1;
        st = tt_sites_intern(run->sites, name, strlen(name), NULL, &number);
    }
    for (size_t site = (size_t)join->count; st == TT_OK && site < tap->local_cap; site++)
        tap->local[site] = -1;
    tt_index_site *last; /* all rows now: whoever has one must not lose it */
    if (st == TT_OK && join->count > 0)
        st = tt_index_row(&tap->index, join->count - 1, &last);
    if (st == TT_OK)
        st = copy_texts(parts, tap);
    copy_totals(parts, tap);
    return st;
}

tt_status tt_run_join(tt_run *parts, tt_run **out, tt_error *err)
{
    if (parts->count < 2 || !has_placements(parts))
        return tt_fail(err, TT_EMISMATCH, "%.180s: it has no placements of tensors over ranks",
                       parts->path);
    tt_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    run->points_at = -1;
    run->is_folder = parts->is_folder;
    run->path = strdup(parts->path);
    tt_status st = run->path != NULL ? tt_sites_create(&run->sites) : TT_ENOMEM;
    if (st == TT_OK)
        st = make_tap(parts, run);
    if (st < 0) {
        tt_run_close(run);
        return tt_fail_plain(err, st);
    }
    *out = run;
    return TT_OK;
}

static tt_join *join_of(const tt_run *run)
{
    return run->count == 1 ? run->taps[0]->join : NULL;
}

tt_run *tt_run_parts(tt_run *run)
{
    tt_join *join = join_of(run);
    return join != NULL ? join->parts : run;
}

void tt_run_join_all(tt_run *joined)
{
    tt_join *join = join_of(joined);
    if (join == NULL)
        return;
    tt_join_make_all(join, joined->taps[0]);
}

void tt_run_forget_parts(tt_run *joined)
{
    tt_join *join = join_of(joined);
    tt_run_join_all(joined);
    for (int32_t f = 0; join != NULL && f < join->parts->count; f++) {
        tt_tap *tap = join->parts->taps[f];
        tt_index_forget(&tap->index);
        tt_sites_clear(tap->sites);
        tap->placement_count = tap->placements_sorted = 0;
        free(tap->placements);
        tap->placements = NULL;
        tap->placement_cap = 0;
    }
}

const tt_joined_site *tt_run_joined(const tt_run *run, int32_t site)
{
    tt_join *join = join_of(run);
    if (join == NULL || site < 0 || site >= join->count)
        return NULL;
    tt_join_make(join, run->taps[0], site);
    return &join->site[site];
}
