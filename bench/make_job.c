/* make_job.c -- writes the files of a job of many ranks for bench_job.py.
 *
 *     make_job FOLDER RANKS STEPS SITES WAY [ODD STEP]
 *
 * A third of the sites are parameters and a third gradients, with digests; the others are activations, of which each
 * rank has its part of the batch, and a loss.  WAY dp-tp: a mesh of data by tensor parallelism (8 ranks), parameters
 * sharded over tp, replicas over dp.  WAY fsdp: parameters are sharded over all ranks, so that none are replicas.
 * From STEP on, rank ODD holds another parameter than its replicas.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 1024, ROWS = 4096, BATCH = 16 };

typedef struct job {
    const char *folder;
    int ranks, tp, steps, sites, odd, odd_step;
    bool is_fsdp;
    int32_t *all; /* owned */
} job;

static double noise(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

static int kind_of(int site)
{
    return site % 3; /* 0 parameter, 1 gradient, 2 activation */
}

/* Statistics that only the seed decides, so that replicas are equal. */
static tt_stats make_stats(uint64_t seed, int64_t count, int site, int step)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    (void)noise(&state);
    double n = (double)count, size = exp(sin(site) + 0.05 * noise(&state)) * (1 + 0.2 * sin(step * 0.05));
    double mean = size * (noise(&state) - 0.5) * 0.1;
    tt_stats s = { .count = count,
                   .dtype = TT_F32,
                   .min = -size * (2 + noise(&state)),
                   .max = size * (2 + noise(&state)),
                   .mean = mean,
                   .sum = mean * n,
                   .m2 = size * size * (n - 1),
                   .l1 = size * n * 0.8,
                   .sumsq = (size * size + mean * mean) * n,
                   .zeros = (int64_t)(noise(&state) * 100) };
    s.absmax = fmax(-s.min, s.max);
    return s;
}

static int write_point(const job *j, tt_recorder *rec, int rank, int32_t number, int site, int step)
{
    bool is_part = kind_of(site) != 2;
    const int shards = j->is_fsdp ? j->ranks : j->tp;
    bool is_odd = rank == j->odd && step >= j->odd_step && site == 3;
    uint64_t whose = (uint64_t)(is_part ? rank % shards : rank / j->tp); /* replicas have the same */
    uint64_t seed = ((uint64_t)site << 32 | (uint64_t)step) * 4096 + whose;
    tt_stats s = make_stats(seed, is_part ? ROWS / shards * COLUMNS : BATCH * COLUMNS, site, step);
    tt_digest digest = { seed * UINT64_C(0x9e3779b97f4a7c15), ~seed };
    if (is_odd) { /* one unit in the last place of one weight */
        s.sum += 6e-8;
        s.mean = s.sum / (double)s.count;
        digest.low++;
    }
    const int64_t shape[] = { s.count / COLUMNS, COLUMNS };
    tt_tensor t;
    static float none[1];
    tt_error err;
    if (tt_tensor_describe(&t, none, TT_F32, 2, shape, NULL, &err) < 0)
        return 1;
    return tt_recorder_add(rec, &(tt_event){ .site = number,
                                             .step = step,
                                             .phase = TT_PHASE_TRAIN,
                                             .tensor = &t,
                                             .stats = &s,
                                             .digest = is_part ? &digest : NULL }) < 0;
}

static int place(const job *j, tt_recorder *rec, uint64_t mesh, int32_t number, int kind)
{
    const tt_spread data = kind == 2 ? TT_SPREAD_BATCH : j->is_fsdp ? TT_SPREAD_SHARD : TT_SPREAD_REPLICA;
    const tt_placement p = { .mesh = mesh,
                             .source = TT_PLACED_BY_WRAPPER,
                             .mesh_ndim = 2,
                             .on = { { .spread = data, .factor = 1 },
                                     { .spread = kind < 2 ? TT_SPREAD_SHARD : TT_SPREAD_REPLICA,
                                       .factor = 1 } },
                             .ndim = kind < 2 ? 2 : -1,
                             .shape = { ROWS, COLUMNS } };
    return tt_recorder_place(rec, number, &p) < 0;
}

static int write_rank(const job *j, int rank)
{
    static const char *const kinds[] = { "parameter", "gradient", "activation" };
    static const char *const parts[] = { "attn.query", "attn.key", "attn.value", "attn.out",
                                         "mlp.up",     "mlp.down", "norm1",      "norm2" };
    tt_error err = { "" };
    tt_recorder *rec;
    char world[16], host[16];
    (void)snprintf(world, sizeof world, "%d", j->ranks);
    (void)snprintf(host, sizeof host, "n%02d", rank / 8);
    const char *info[] = { "world_size", world, "host", host, NULL };
    const tt_recorder_options options = { .rank = rank, .info = info };
    if (tt_recorder_open(j->folder, &options, &rec, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const tt_mesh mesh = { .ndim = 2,
                           .name = { "dp", "tp" },
                           .size = { j->ranks / j->tp, j->tp },
                           .coordinate = { rank / j->tp, rank % j->tp },
                           .ranks = j->all };
    uint64_t id;
    int32_t loss, *number = calloc((size_t)j->sites + 1, sizeof *number);
    int failed = number == NULL || tt_recorder_mesh(rec, &mesh, &id) < 0 ||
                 tt_recorder_site(rec, "loss/train.py:34", &loss, &err) < 0 || place(j, rec, id, loss, 2);
    for (int i = 0; !failed && i < j->sites; i++) {
        char name[96];
        int kind = kind_of(i), of = i / 3;
        (void)snprintf(name, sizeof name, "%s/layers.%d.%s%s", kinds[kind], of / 8, parts[of % 8],
                       kind < 2 ? ".weight" : "");
        failed = tt_recorder_site(rec, name, &number[i], &err) < 0 || place(j, rec, id, number[i], kind);
    }
    for (int step = 0; !failed && step < j->steps; step++) {
        for (int i = 0; !failed && i < j->sites; i++)
            failed = write_point(j, rec, rank, number[i], i, step);
        uint64_t state = (uint64_t)(step * 4096 + rank / j->tp);
        float x = (float)(4 * exp(-step * 0.01) + 0.1 * noise(&state));
        tt_tensor t;
        tt_stats s;
        failed = failed || tt_tensor_describe(&t, &x, TT_F32, 0, NULL, NULL, &err) < 0;
        tt_stats_compute(&t, &s);
        failed = failed || tt_recorder_add(rec, &(tt_event){ .site = loss,
                                                             .step = step,
                                                             .phase = TT_PHASE_TRAIN,
                                                             .tensor = &t,
                                                             .stats = &s }) < 0;
    }
    free(number);
    return tt_recorder_close(rec, 300, &err) < 0 || failed;
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 8) {
        (void)fprintf(stderr, "make_job FOLDER RANKS STEPS SITES WAY [ODD STEP]\n");
        return 1;
    }
    job j = { .folder = argv[1],
              .ranks = atoi(argv[2]),
              .steps = atoi(argv[3]),
              .sites = atoi(argv[4]),
              .is_fsdp = strcmp(argv[5], "fsdp") == 0,
              .odd = argc == 8 ? atoi(argv[6]) : -1,
              .odd_step = argc == 8 ? atoi(argv[7]) : 0 };
    j.tp = !j.is_fsdp && j.ranks % 8 == 0 ? 8 : 1;
    j.all = calloc((size_t)j.ranks + 1, sizeof *j.all);
    for (int r = 0; j.all != NULL && r < j.ranks; r++)
        j.all[r] = r;
    int failed = j.all == NULL;
    for (int r = 0; !failed && r < j.ranks; r++)
        failed = write_rank(&j, r);
    free(j.all);
    return failed;
}
