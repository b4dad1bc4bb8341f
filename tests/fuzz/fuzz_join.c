/* fuzz_join.c -- any placements: ranks that say whatever they like of a tensor, joined and judged.
 *
 * The first byte picks the part: bytes as sections MESH and PLACEMENT, or a job of two to four ranks whose meshes,
 * placements, counts and numbers the bytes decide.  The files are real, so that everything behind them is.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "store/block.h"
#include "store/placement.h"
#include "store/replicas.h"
#include "store/run.h"
#include "tensortap_tools.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct feed {
    const uint8_t *at, *end;
} feed;

static uint32_t take(feed *f, uint32_t most)
{
    return f->at < f->end ? *f->at++ % (most + 1) : 0;
}

/* A number of elements, or something that none can be. */
static int64_t take_count(feed *f)
{
    static const int64_t odd[] = { INT64_MAX, INT64_C(1) << 40, -1, 0, 1 };
    uint32_t x = take(f, 255);
    return x < 5 ? odd[x] : x % 17;
}

/* ---- sections ----------------------------------------------------------------- */

static void try_sections(const uint8_t *data, size_t size)
{
    tt_tap tap = { 0 };
    unsigned char *bytes = malloc(size + 8);
    if (bytes == NULL)
        return;
    memcpy(bytes + 8, data, size);
    tt_put_u64(bytes, tt_block_hash(data, size)); /* else no mesh gets further */
    tt_cursor mesh = tt_cursor_over(bytes, size + 8), placement = tt_cursor_over(data, size);
    (void)tt_mesh_read(&tap, &mesh);
    if (tt_placement_read(&tap, &placement) == TT_OK) {
        const tt_placement *p = &tap.placements[0].known->placement;
        for (int32_t i = 0; i < p->box_count; i++)
            for (int32_t d = 0; d < p->ndim; d++)
                MUST(p->boxes[i].offset[d] + p->boxes[i].size[d] <= p->shape[d]);
    }
    tt_placements_sort(&tap);
    free(tap.meshes);
    free(tap.placements);
    free((void *)tap.known);
    tt_arena_free(&tap.texts);
    free(bytes);
}

/* ---- jobs -------------------------------------------------------------------------- */

enum { RANKS_MOST = 4, STEPS_MOST = 3, SITES = 3 };
static const char *const names[SITES] = { "parameter/w", "loss/a.py:1", "gradient_norm" };

static void place(feed *f, tt_recorder *rec, int32_t rank, int32_t ranks, int32_t site)
{
    int32_t all[RANKS_MOST * RANKS_MOST];
    tt_mesh mesh = { .ndim = (int32_t)take(f, 1) + 1, .name = { "dp", "tp" }, .ranks = all };
    for (int32_t d = 0; d < mesh.ndim; d++) {
        mesh.size[d] = (int32_t)take(f, RANKS_MOST - 1) + 1;
        mesh.coordinate[d] = (d == 0 ? rank : (int32_t)take(f, 3)) % mesh.size[d];
    }
    for (int32_t i = 0; i < RANKS_MOST * RANKS_MOST; i++)
        all[i] = (i + (int32_t)take(f, 1)) % ranks;
    tt_placement p = { .mesh_ndim = mesh.ndim, .ndim = (int32_t)take(f, 3) - 1 };
    if (tt_recorder_mesh(rec, &mesh, &p.mesh) < 0)
        return;
    p.mesh += take(f, 15) == 15; /* one that nobody knows */
    for (int32_t d = 0; d < p.mesh_ndim; d++) {
        p.on[d].spread = (tt_spread)take(f, TT_SPREAD_COUNT_ - 1);
        p.on[d].factor = (int32_t)take(f, 3);
    }
    for (int32_t d = 0; d < p.ndim; d++)
        p.shape[d] = take(f, 9) == 9 ? INT64_MAX / 2 : (int64_t)take(f, 12);
    p.step = (int64_t)take(f, STEPS_MOST) - 1;
    (void)tt_recorder_place(rec, site, &p);
}

static void add_point(feed *f, tt_recorder *rec, int32_t site, int64_t step)
{
    static float elements[16];
    tt_tensor t;
    int64_t shape[2] = { take(f, 4), take(f, 4) };
    double size = take(f, 7) == 7 ? (double)NAN : (double)take(f, 200) / 7;
    tt_stats s = {
        .count = take_count(f), .min = -size, .max = size, .mean = size / 3, .sumsq = size * size
    };
    s.nan = take(f, 15) == 15 ? take_count(f) : 0;
    const tt_digest digest = { take(f, 3), 0 };
    uint32_t kind = take(f, 7);
    if (tt_tensor_describe(&t, elements, TT_F32, (int32_t)take(f, 2), shape, NULL, NULL) < 0)
        return;
    (void)tt_recorder_add(rec, &(tt_event){ .site = site,
                                            .step = step,
                                            .call = take(f, 7) == 7,
                                            .tensor = &t,
                                            .stats = kind != 1 ? &s : NULL,
                                            .scalar = kind < 2 ? &size : NULL,
                                            .digest = kind == 2 ? &digest : NULL });
}

static void write_rank(feed *f, const char *folder, int32_t rank, int32_t ranks)
{
    tt_recorder *rec;
    if (tt_recorder_open(folder, &(tt_recorder_options){ .rank = rank }, &rec, NULL) < 0)
        return;
    for (int i = 0; i < SITES; i++) {
        int32_t site;
        if (take(f, 15) == 15 || tt_recorder_site(rec, names[i], &site, NULL) < 0)
            continue;
        if (take(f, 7) != 7)
            place(f, rec, rank, ranks, site);
        for (int64_t step = 0; step < STEPS_MOST; step++)
            if (take(f, 15) != 15)
                add_point(f, rec, site, step);
    }
    (void)tt_recorder_close(rec, 10, NULL);
}

/* What was joined is whole, or it is not there.  What one rank alone has is shown as its file says. */
static void check_site(tt_run *run, int32_t site)
{
    const tt_joined_site *j = tt_run_joined(run, site);
    tt_point p;
    MUST(j != NULL && j->ranks <= RANKS_MOST && j->points == (int64_t)tt_run_points(run, 0, site));
    for (int64_t i = 0; i < j->points; i++)
        if (tt_run_point(run, 0, site, i, &p, NULL) == TT_OK && j->ranks > 1 && j->parts > 1 &&
            j->unplaced == 0)
            MUST(p.stats.nan <= p.stats.count && p.stats.count >= 0);
}

static void try_job(feed *f)
{
    char folder[] = "/tmp/fuzz_join.XXXXXX", path[64];
    int32_t ranks = (int32_t)take(f, RANKS_MOST - 2) + 2;
    if (mkdtemp(folder) == NULL)
        return;
    for (int32_t r = 0; r < ranks; r++)
        write_rank(f, folder, r, ranks);
    tt_run *run = NULL, *joined = NULL;
    if (tt_run_open(folder, &run, NULL) == TT_OK && tt_run_join(run, &joined, NULL) == TT_OK) {
        tt_findings *findings = NULL;
        tt_replicas replicas;
        tt_diff *diff;
        if (take(f, 1) == 1)
            tt_run_join_all(joined);
        for (int32_t site = 0; site < tt_run_site_count(run); site++)
            check_site(joined, site);
        if (tt_replicas_find(run, &replicas) == TT_OK)
            for (size_t i = 0; i < replicas.count; i++)
                MUST(replicas.odd[i].count > 0 &&
                     (int32_t)replicas.odd[i].count <= replicas.odd[i].replicas);
        tt_replicas_free(&replicas);
        if (tt_health(joined, NULL, &findings, NULL) == TT_OK)
            tt_findings_free(findings);
        const tt_diff_options all = { .first_step = INT64_MIN, .last_step = INT64_MAX };
        if (tt_diff_compute(joined, joined, &all, &diff, NULL) == TT_OK) {
            MUST(diff->verdict == TT_DIFF_SAME);
            tt_diff_free(diff);
        }
    }
    tt_run_close(joined);
    tt_run_close(run);
    for (int32_t r = 0; r < ranks; r++) {
        (void)snprintf(path, sizeof path, "%s/rank%d.tap", folder, (int)r);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096)
        return 0;
    if (data[0] % 4 == 0)
        try_sections(data + 1, size - 1);
    else
        try_job(&(feed){ data + 1, data + size });
    return 0;
}
