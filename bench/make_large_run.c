/* make_large_run.c -- writes a run of so many sites and steps for bench_page.py.
 *
 *     make_large_run FOLDER SITES STEPS
 *
 * Activations, parameters and gradients of layers that repeat, with noise: numbers that do not
 * compress.  One NaN, in one site at one step.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double noise(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = { "activation", "parameter", "gradient" };
    static const char *const parts[] = { "attn.query", "attn.key", "attn.value", "attn.out",
                                         "mlp.up",     "mlp.down", "norm1",      "norm2" };
    enum { KINDS = 3, PARTS = 8 };
    tt_error err = { "" };
    tt_recorder *rec;
    if (argc != 4 || tt_recorder_open(argv[1], NULL, &rec, &err) < 0) {
        (void)fprintf(stderr, "make_large_run FOLDER SITES STEPS %s\n", err.text);
        return 1;
    }
    int sites = atoi(argv[2]), steps = atoi(argv[3]);
    int32_t *site = calloc((size_t)sites + 1, sizeof *site), loss = 0;
    uint64_t state = 1;
    if (site == NULL || tt_recorder_site(rec, "loss", &loss, &err) < 0)
        return 1;
    for (int i = 0; i < sites; i++) {
        char name[96];
        int layer = i / (KINDS * PARTS);
        (void)snprintf(name, sizeof name, "%s/layers.%d.%s%s", kinds[i / PARTS % KINDS], layer,
                       parts[i % PARTS], i / PARTS % KINDS == 0 ? "" : ".weight");
        if (tt_recorder_site(rec, name, &site[i], &err) < 0)
            return 1;
    }
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < sites; i++) {
            double size = exp(3 * sin(i) + 0.2 * noise(&state)) * (1 + 0.5 * sin(step * 0.01 + i));
            double mean = size * (noise(&state) - 0.5) * 0.1;
            tt_stats s = { .count = 4096,
                           .dtype = TT_F32,
                           .min = -size * (2 + noise(&state)),
                           .max = size * (2 + noise(&state)),
                           .mean = mean,
                           .sum = mean * 4096,
                           .m2 = size * size * 4095,
                           .l1 = size * 3000,
                           .sumsq = (size * size + mean * mean) * 4096,
                           .zeros = (int64_t)(noise(&state) * 100) };
            s.absmax = fmax(-s.min, s.max);
            s.nan = i == sites / 2 && step == steps / 2;
            if (tt_recorder_add(
                    rec, &(tt_event){
                             .site = site[i], .step = step, .phase = TT_PHASE_TRAIN, .stats = &s }) < 0)
                return 1;
        }
        (void)tt_recorder_scalar(rec, loss, step, 4 * exp(-step * 0.002) + 0.1 * noise(&state));
    }
    free(site);
    return tt_recorder_close(rec, 300, &err) < 0;
}
