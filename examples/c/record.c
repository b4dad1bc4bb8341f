/* record.c -- a training loop in C that records itself, and then asks its run.
 *
 *     cc record.c -o record $(pkg-config --static --cflags --libs tensortap)
 *     ./record runs/from_c && tensortap show runs/from_c
 *
 * It fits y = w x + b by gradient descent, with a learning rate that is too large.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <tensortap.h>

enum { ROWS = 64, STEPS = 400 };

static int fail(const tt_error *err)
{
    fprintf(stderr, "record: %s\n", err->text);
    return 1;
}

/* Records the statistics of an array under its name. */
static tt_status record(tt_recorder *rec, int32_t site, int64_t step, const float *data, int64_t n)
{
    tt_tensor tensor;
    tt_status st = tt_tensor_describe(&tensor, data, TT_F32, 1, &n, NULL, NULL);
    if (st < 0)
        return st;
    tt_stats stats;
    tt_stats_compute(&tensor, &stats);
    const tt_event event = { .site = site, .step = step, .tensor = &tensor, .stats = &stats };
    return tt_recorder_add(rec, &event);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "runs/from_c";
    tt_error err = { "" };
    tt_recorder *rec = NULL;
    int32_t output, weight, loss;
    const tt_recorder_options options = { .info = (const char *[]){ "program", "record.c", NULL } };
    if (tt_recorder_open(folder, &options, &rec, &err) < 0)
        return fail(&err);
    if (tt_recorder_site(rec, "activation/line", &output, &err) < 0 ||
        tt_recorder_site(rec, "parameter/line", &weight, &err) < 0 ||
        tt_recorder_site(rec, "loss", &loss, &err) < 0)
        return fail(&err);

    float w[2] = { 0, 0 }, y[ROWS];
    for (int64_t step = 0; step < STEPS; step++) {
        float sum = 0, slope[2] = { 0, 0 };
        for (int i = 0; i < ROWS; i++) {
            float x = (float)i / ROWS, wanted = 3 * x - 1;
            y[i] = w[0] * x + w[1];
            sum += (y[i] - wanted) * (y[i] - wanted);
            slope[0] += 2 * (y[i] - wanted) * x;
            slope[1] += 2 * (y[i] - wanted);
        }
        (void)record(rec, output, step, y, ROWS);
        (void)record(rec, weight, step, w, 2);
        (void)tt_recorder_scalar(rec, loss, step, sum / ROWS);
        w[0] -= 1.2F * slope[0] / ROWS;
        w[1] -= 1.2F * slope[1] / ROWS;
    }
    if (tt_recorder_close(rec, 10, &err) < 0)
        return fail(&err);

    tt_run *run;
    if (tt_run_open(folder, &run, &err) < 0)
        return fail(&err);
    tt_run_file file;
    tt_run_file_get(run, 0, &file);
    printf("%lld points of %lld steps in %s\n", (long long)file.points, (long long)file.last_step + 1,
           file.path);
    tt_run_close(run);
    return 0;
}
