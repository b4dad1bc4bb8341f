/* anomaly.c -- what is unusual about a site of a run.
 *
 * Exists so that a person sees trouble without reading a tree of a thousand lines.
 * Looks at the first and the latest point only: a run is not scanned for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/order.h"
#include "store/run.h"

#include <math.h>
#include <string.h>

static const double EXPLODES = 1000; /* times its first root mean square, and above 1 */

static const char *const texts[] = {
#define X(name, text) [TT_ANOMALY_##name] = text,
    TT_ANOMALY_MAP(X)
#undef X
};
_Static_assert(sizeof texts / sizeof *texts == TT_ANOMALY_COUNT_, "name every anomaly");

const char *tt_anomaly_text(tt_anomaly anomaly)
{
    return (unsigned)anomaly < TT_ANOMALY_COUNT_ ? texts[anomaly] : "";
}

bool tt_site_is_shown(const char *name, const char *glob)
{
    bool is_ours = tt_name_begins(name, "tensortap/");
    if (is_ours && (glob == NULL || !tt_name_begins(glob, "tensortap/")))
        return false;
    return glob == NULL || tt_glob_match(glob, name);
}

bool tt_look_has_file(const tt_look *look, const tt_run *run, int32_t file)
{
    return look->rank < 0 || run->taps[file]->rank == look->rank;
}

int32_t tt_run_shown_count(const tt_run *run, const char *glob)
{
    int32_t count = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++)
        count += tt_run_has_points(run, site) && tt_site_is_shown(tt_run_site_name(run, site), glob);
    return count;
}

/* The sums of the first point with statistics, in the first chunk; false: there is none. */
static tt_status read_first(tt_run *run, int32_t file, int32_t site, uint32_t phases, bool *found,
                            double *sum, double *sumsq)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    *found = false;
    if (row == NULL || row->count == 0)
        return TT_OK;
    tt_chunk chunk;
    const tt_column columns[] = { TT_COLUMN_PRODUCTS, TT_COLUMN_PHASE };
    tt_status st = tt_run_columns(run, run->taps[file], row, row->chunks, columns, 2, &chunk);
    if (st < 0)
        return st;
    uint32_t n = tt_chunk_entries(run->cells, chunk.n, TT_PRODUCT_STATS), entry = 0;
    for (uint32_t i = 0; i < chunk.n && !*found; i++) {
        bool has_stats = (run->cells[i] & TT_PRODUCT_STATS) != 0;
        *found = has_stats && tt_phases_hold(phases, run->cells[chunk.n + i]);
        entry += has_stats && !*found;
    }
    if (!*found)
        return TT_OK;
    st = tt_chunk_column(&chunk, TT_COLUMN_SUM, run->cells, n);
    memcpy(sum, run->cells + entry, sizeof *sum);
    if (st == TT_OK)
        st = tt_chunk_column(&chunk, TT_COLUMN_SUMSQ, run->cells, n);
    memcpy(sumsq, run->cells + entry, sizeof *sumsq);
    return st;
}

/* Finds what is unusual about the numbers of one file, except for NaN and Inf. */
static tt_status find_unusual(tt_run *run, int32_t site, tt_latest *found, tt_error *err)
{
    const tt_stats *s = &found->latest.stats;
    const char *name = tt_run_site_name(run, site);
    bool is_parameter = tt_name_begins(name, "parameter/"), has_first;
    double sum = 0, sumsq = 0;
    if ((found->latest.products & TT_PRODUCT_STATS) == 0 || tt_run_points(run, found->file, site) < 2)
        return TT_OK;
    tt_status st = read_first(run, found->file, site, found->phases, &has_first, &sum, &sumsq);
    if (st < 0)
        return tt_fail(err, st, "%.200s: %s", name, tt_status_text(st));
    int64_t n = tt_stats_finite(s);
    if (n > 0 && s->zeros == s->count)
        found->anomalies |= 1u << TT_ANOMALY_ALL_ZERO;
    else if (has_first && is_parameter && n > 0 && s->sum == sum && s->sumsq == sumsq)
        found->anomalies |= 1u << TT_ANOMALY_UNCHANGED;
    if (has_first && n > 0 && sumsq > 0 && s->sumsq > (double)n && s->sumsq > EXPLODES * EXPLODES * sumsq)
        found->anomalies |= 1u << TT_ANOMALY_EXPLODING;
    return TT_OK;
}

tt_status tt_run_look(tt_run *run, int32_t site, const tt_look *look, tt_latest *out, tt_error *err)
{
    const tt_phases either[] = { TT_PHASES_TRAIN, TT_PHASES_EVAL }, asked[] = { look->phases, 0 };
    const tt_phases *wanted = look->phases == 0 ? either : asked;
    tt_latest found = { .file = -1, .phases = wanted[0], .latest = { .ndim = -1, .scalar = NAN } };
    tt_status st = TT_OK;
    int64_t index = -1;
    for (int i = 0; i < 2 && wanted[i] != 0 && found.file < 0; i++)
        for (int32_t file = 0; st == TT_OK && file < run->count && found.file < 0; file++) {
            if (!tt_look_has_file(look, run, file) || tt_run_points(run, file, site) == 0)
                continue;
            st = tt_run_latest(run, file, site, wanted[i], INT64_MAX, &index, err);
            if (st == TT_OK && index >= 0) {
                found.index = index;
                found.file = file;
                found.phases = wanted[i];
            }
        }
    if (st == TT_OK && found.file >= 0)
        st = tt_run_point(run, found.file, site, found.index, &found.latest, err);
    if (st == TT_OK && found.file >= 0)
        st = find_unusual(run, site, &found, err);
    for (int32_t file = 0; st == TT_OK && found.file >= 0 && file < run->count; file++) {
        if (!tt_look_has_file(look, run, file))
            continue;
        st = tt_run_first_nonfinite(run, file, site, &index, err);
        if (st == TT_OK && index >= 0)
            found.anomalies |= 1u << TT_ANOMALY_NONFINITE;
    }
    if (st == TT_OK)
        *out = found;
    return st;
}

tt_status tt_run_previous(tt_run *run, int32_t site, const tt_latest *found, int64_t *index,
                          tt_error *err)
{
    return tt_run_latest(run, found->file, site, found->phases, found->index, index, err);
}

const char *tt_run_untrained(const tt_run *run)
{
    /* what runs/steps.py writes */
    static const char untrained[] = " require gradients but no optimizer updates them";
    static const char taken_back[] = "all parameters that require gradients are updated by an optimizer";
    const char *found = NULL;
    tt_note note;
    for (int32_t i = 0; tt_run_note(run, 0, i, &note) == TT_OK; i++) {
        size_t len = strlen(note.text);
        if (len > strlen(untrained) && strcmp(note.text + len - strlen(untrained), untrained) == 0)
            found = note.text;
        else if (strcmp(note.text, taken_back) == 0)
            found = NULL;
    }
    return found;
}
