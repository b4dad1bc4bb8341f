/* point.c -- single points of a run: by number, by step, the first bad one.
 *
 * Exists apart from series.c because here a whole point is wanted.  The chunk read
 * last is kept, so that a walk over points unpacks each chunk once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/pack.h"
#include "store/run.h"

#include <string.h>

static tt_status describe(const tt_run *run, int32_t file, tt_status st, tt_error *err)
{
    return tt_tap_fail(run->taps[file], st, err, "a point");
}

/* Makes a chunk the one in run->points; histograms, samples and sketches only if it is to be whole. */
static tt_status load(tt_run *run, int32_t file, const tt_index_site *row, const tt_index_chunk *entry,
                      bool is_whole)
{
    if (run->points_at == entry->at && run->points_file == file && run->points_row == row &&
        run->points_first == entry->first && (run->points_are_whole || !is_whole))
        return run->points_st;
    tt_chunk chunk;
    run->points_at = -1;
    tt_status st = tt_run_chunk(run, run->taps[file], row, entry, &chunk);
    if (st == TT_OK) {
        tt_points_clear(&run->points);
        st = tt_chunk_unpack(
            &chunk, is_whole ? 0 : (uint32_t)TT_PRODUCT_HIST | TT_PRODUCT_SAMPLE | TT_PRODUCT_TOKENS,
            &run->points);
    }
    if (st == TT_OK || st == TT_EFORMAT) { /* whoever goes on with the next point asks again */
        run->points_st = st;
        run->points_file = file;
        run->points_at = entry->at;
        run->points_row = row;
        run->points_first = entry->first;
        run->points_are_whole = is_whole;
    }
    return st;
}

/* Loads the chunk of point number index; *i is its place in run->points. */
static tt_status load_index(tt_run *run, int32_t file, int32_t site, int64_t index, bool is_whole,
                            uint32_t *i, tt_error *err)
{
    if (file < 0 || file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    const tt_index_site *row = tt_run_row(run, file, site);
    if (row != NULL && index < 0)
        index += row->stored;
    if (row == NULL || index < 0 || index >= row->stored)
        return describe(run, file, TT_EINVAL, err);
    if (index == row->stored - 1 && row->latest_at > 0) {
        tt_index_chunk latest = {
            .at = row->latest_at, .first = row->points - 1, .len = row->latest_len, .n = 1
        };
        if (load(run, file, row, &latest, is_whole) == TT_OK) {
            *i = 0;
            return TT_OK;
        }
    }
    uint32_t k = 0;
    for (; index >= row->chunks[k].n; k++)
        index -= row->chunks[k].n;
    *i = (uint32_t)index;
    tt_status st = load(run, file, row, &row->chunks[k], is_whole);
    return st == TT_OK ? st : describe(run, file, st, err);
}

tt_status tt_run_point(tt_run *run, int32_t file, int32_t site, int64_t index, tt_point *out,
                       tt_error *err)
{
    uint32_t i;
    tt_status st = load_index(run, file, site, index, false, &i, err);
    if (st == TT_OK)
        tt_points_get(&run->points, i, out);
    return st;
}

tt_status tt_run_seek(tt_run *run, int32_t file, int32_t site, int64_t step, int64_t call,
                      uint32_t products, int64_t *index, tt_error *err)
{
    if (file < 0 || file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    const tt_index_site *row = tt_run_row(run, file, site);
    int64_t before = 0;
    for (uint32_t k = 0; row != NULL && k < row->count; before += row->chunks[k++].n) {
        if (step < row->chunks[k].first_step || step > row->chunks[k].last_step)
            continue;
        tt_status st = load(run, file, row, &row->chunks[k], false);
        if (st < 0)
            return describe(run, file, st, err);
        for (uint32_t i = 0; i < run->points.n; i++)
            if ((int64_t)run->points.cells[TT_COLUMN_STEP][i] == step &&
                (call < 0 || (int64_t)run->points.cells[TT_COLUMN_CALL][i] == call) &&
                (run->points.cells[TT_COLUMN_PRODUCTS][i] & products) == products) {
                *index = before + i;
                return TT_OK;
            }
    }
    *index = -1;
    return TT_OK;
}

tt_status tt_run_latest(tt_run *run, int32_t file, int32_t site, uint32_t phases, int64_t before,
                        int64_t *index, tt_error *err)
{
    const tt_index_site *row = file >= 0 && file < run->count ? tt_run_row(run, file, site) : NULL;
    int64_t end = row != NULL ? row->stored : 0;
    tt_status st = TT_OK;
    *index = -1;
    if (end > 0 && end <= before) { /* the footer may hold the latest: nothing is unpacked */
        uint32_t i;
        st = load_index(run, file, site, end - 1, false, &i, err);
        if (st == TT_OK && tt_phases_hold(phases, run->points.cells[TT_COLUMN_PHASE][i])) {
            *index = end - 1;
            return TT_OK;
        }
    }
    for (uint32_t k = row != NULL ? row->count : 0; st == TT_OK && *index < 0 && k-- > 0;) {
        const tt_index_chunk *entry = &row->chunks[k];
        const uint64_t *phase;
        end -= entry->n;
        if (end >= before)
            continue;
        st = tt_run_columns(run, run->taps[file], row, entry, &(tt_column){ TT_COLUMN_PHASE }, 1, &phase);
        for (uint32_t i = entry->n; st == TT_OK && *index < 0 && i-- > 0;)
            if (end + i < before && tt_phases_hold(phases, phase[i]))
                *index = end + i;
    }
    return st == TT_OK ? st : describe(run, file, st, err);
}

tt_status tt_run_first_nonfinite(tt_run *run, int32_t file, int32_t site, int64_t *index, tt_error *err)
{
    if (file < 0 || file >= run->count)
        return tt_fail(err, TT_EINVAL, "no such file");
    tt_index_site *row = tt_run_row(run, file, site);
    if (row == NULL) {
        *index = -1;
        return TT_OK;
    }
    for (uint32_t k = tt_index_from(row, row->scanned); row->nonfinite < 0 && k < row->count; k++) {
        const tt_index_chunk *entry = &row->chunks[k];
        tt_status st = load(run, file, row, entry, false);
        if (st < 0)
            return describe(run, file, st, err);
        int64_t at = tt_points_nonfinite(&run->points);
        row->nonfinite = at < 0 ? -1 : entry->first + at;
        row->scanned = entry->first + entry->n;
    }
    /* From the number in the site's life to the place among the points there are. */
    int64_t before = 0;
    *index = -1;
    for (uint32_t k = 0; row->nonfinite >= 0 && k < row->count; before += row->chunks[k++].n)
        if (row->nonfinite >= row->chunks[k].first &&
            row->nonfinite < row->chunks[k].first + row->chunks[k].n) {
            *index = before + (row->nonfinite - row->chunks[k].first);
            break;
        }
    return TT_OK;
}

/* What a point has in a column of bytes; valid until another point is asked for. */
static tt_status find_bytes(tt_run *run, int32_t file, int32_t site, int64_t index, tt_column column,
                            const char *what, const char **bytes, size_t *len, tt_error *err)
{
    uint32_t i;
    tt_status st = load_index(run, file, site, index, true, &i, err);
    if (st < 0)
        return st;
    *bytes = tt_points_bytes(&run->points, column, i, len);
    return *bytes != NULL ? TT_OK : tt_fail(err, TT_EMISMATCH, "this point has no %s", what);
}

tt_status tt_run_hist(tt_run *run, int32_t file, int32_t site, int64_t index, tt_hist_bin *bins,
                      size_t cap, size_t *count, tt_error *err)
{
    const char *bytes;
    size_t len;
    tt_status st = find_bytes(run, file, site, index, TT_COLUMN_HIST, "histogram", &bytes, &len, err);
    if (st < 0)
        return st;
    st = tt_hist_unpack(bytes, len, bins, cap, count);
    return st == TT_OK ? st : describe(run, file, st, err);
}

tt_status tt_run_sample(tt_run *run, int32_t file, int32_t site, int64_t index, tt_sample **out,
                        tt_dtype *dtype, tt_error *err)
{
    const char *bytes;
    size_t len;
    tt_status st = find_bytes(run, file, site, index, TT_COLUMN_SAMPLE, "sample", &bytes, &len, err);
    if (st < 0)
        return st;
    st = tt_sample_unpack(bytes, len, out, dtype);
    return st == TT_OK ? st : describe(run, file, st, err);
}

tt_status tt_run_tokens(tt_run *run, int32_t file, int32_t site, int64_t index, float *out, size_t cap,
                        size_t *count, tt_error *err)
{
    const char *bytes;
    size_t len;
    tt_status st =
        find_bytes(run, file, site, index, TT_COLUMN_TOKENS, "sketches of tokens", &bytes, &len, err);
    if (st < 0)
        return st;
    if (len % TT_SKETCH_BYTES != 0)
        return describe(run, file, TT_EFORMAT, err);
    *count = len / TT_SKETCH_BYTES;
    size_t fits = *count < cap ? *count : cap;
    if (fits > 0)
        memcpy(out, bytes, fits * TT_SKETCH_BYTES);
    return TT_OK;
}
