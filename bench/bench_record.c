/* bench_record.c -- how fast a run is written and read; each line is one claim.
 *
 *     numbers a second through the C call, until the last is in the file
 *     values of 1 MB against plain write() of the same bytes, taking turns
 *     opening a run of 10 million statistics, closed and killed; one series of it; the
 *     same of a run that was written in small blocks
 *
 *     bench_record FOLDER
 *
 * Prints one JSON line a row, as the scripts here do; bench_record.py builds and runs it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static tt_error err;

static void must(tt_status st)
{
    if (st < 0) {
        printf("failed: %s\n", err.text);
        exit(1);
    }
}

static void row(const char *what, double value, double bar, const char *unit, bool is_at_most)
{
    bool holds = is_at_most ? value <= bar : value >= bar;
    printf("{\"what\": \"%s\", \"value\": %.6g, \"bar\": %g, \"unit\": \"%s\", "
           "\"at_most\": %s, \"holds\": %s}\n",
           what, value, bar, unit, is_at_most ? "true" : "false", holds ? "true" : "false");
    (void)fflush(stdout);
}

static const char *fresh(const char *root, const char *name)
{
    static char path[4][256], command[300];
    static int turn;
    char *at = path[turn++ % 4];
    (void)snprintf(at, 256, "%s/%s", root, name);
    (void)snprintf(command, sizeof command, "rm -rf %s", at);
    if (system(command) != 0)
        exit(1);
    return at;
}

static void scalars(const char *root)
{
    enum { COUNT = 10000000 };
    tt_recorder *rec;
    int32_t sites[16];
    must(tt_recorder_open(fresh(root, "scalars"), NULL, &rec, &err));
    for (int i = 0; i < 16; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "loss%d", i);
        must(tt_recorder_site(rec, name, &sites[i], &err));
    }
    double start = now();
    for (int64_t i = 0; i < COUNT; i++)
        (void)tt_recorder_scalar(rec, sites[i & 15], i >> 4, (double)i * 0.001);
    must(tt_recorder_close(rec, 60, &err));
    row("numbers a second in C, until the file is closed", COUNT / (now() - start), 500000, "", false);
    (void)fresh(root, "scalars");
}

/* Seconds on the wall to append `count` different tensors to an open file: the plain way ... */
static double write_plain(int fd, char *data, size_t bytes, int count, int64_t *number)
{
    double start = now();
    for (int i = 0; i < count; i++) {
        memcpy(data, number, sizeof *number);
        ++*number;
        if (write(fd, data, bytes) != (ssize_t)bytes)
            exit(1);
    }
    return now() - start;
}

/* ... and ours, until the last is in the file. */
static double write_values(tt_recorder *rec, int32_t site, char *data, size_t bytes, int count,
                           int64_t *number)
{
    tt_tensor t;
    must(tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ (int64_t)bytes / 4 }, NULL, &err));
    double start = now();
    for (int i = 0; i < count; i++) {
        memcpy(data, number, sizeof *number);
        tt_event event = { .site = site, .step = ++*number, .tensor = &t, .has_value = true };
        must(tt_recorder_add(rec, &event));
    }
    must(tt_recorder_flush(rec, &err));
    return now() - start;
}

static void values(const char *root)
{
    enum { BYTES = 1 << 20, COUNT = 60, ROUNDS = 21 };
    char *data = malloc(BYTES);
    double best_plain = 1e9, best_recorded = 1e9; /* the best: we need two cores, and they may be taken */
    tt_recorder *rec;
    int32_t site;
    int64_t number = 0;
    int fd = open(fresh(root, "plain"), O_CREAT | O_WRONLY | O_APPEND, 0666);
    must(tt_recorder_open(fresh(root, "values"), NULL, &rec, &err));
    must(tt_recorder_site(rec, "w", &site, &err));
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 31 + i / 777);
    for (int round = -1; round < ROUNDS; round++) { /* the first warms up */
        double plain = write_plain(fd, data, BYTES, COUNT, &number);
        double recorded = write_values(rec, site, data, BYTES, COUNT, &number);
        if (round >= 0 && plain < best_plain)
            best_plain = plain;
        if (round >= 0 && recorded < best_recorded)
            best_recorded = recorded;
    }
    close(fd);
    must(tt_recorder_close(rec, 60, &err));
    row("values of 1 MB in C: speed as a part of plain write()", best_plain / best_recorded, 0.8, "",
        false);
    (void)fresh(root, "plain");
    (void)fresh(root, "values");
    free(data);
}

static void copy_cut(const char *from, const char *to, int64_t cut)
{
    char command[700];
    (void)snprintf(command, sizeof command, "mkdir -p %s && cp %s/rank0.tap %s/rank0.tap", to, from, to);
    if (system(command) != 0)
        exit(1);
    (void)snprintf(command, sizeof command, "%s/rank0.tap", to);
    struct stat about;
    if (stat(command, &about) < 0 || truncate(command, about.st_size - cut) < 0)
        exit(1);
}

static void read_times(const char *folder, const char *what)
{
    double best_open = 1e9, best_series = 1e9;
    size_t n = 0;
    for (int i = 0; i < 5; i++) {
        tt_run *run;
        double start = now();
        must(tt_run_open(folder, &run, &err));
        double took = now() - start;
        best_open = took < best_open ? took : best_open;
        int32_t site = tt_run_find(run, "activation/layers.42");
        size_t count = tt_run_points(run, 0, site);
        int64_t *steps = malloc(count * 8);
        double *means = malloc(count * 8);
        start = now();
        must(tt_run_series(run, 0, site, TT_FIELD_STD, steps, means, count, &n, &err));
        took = now() - start;
        best_series = took < best_series ? took : best_series;
        free(steps);
        free(means);
        tt_run_close(run);
    }
    char text[160];
    (void)snprintf(text, sizeof text, "open 10 M statistics in C, %s", what);
    row(text, best_open * 1e3, 50, "ms", true);
    (void)snprintf(text, sizeof text, "series of %zu out of 10 M statistics in C, %s", n, what);
    row(text, best_series * 1e3, 20, "ms", true);
}

static void ten_million(const char *root, int pause)
{
    enum { SITES = 100, STEPS = 100000 };
    const char *folder = fresh(root, "long");
    tt_recorder *rec;
    int32_t sites[SITES];
    must(tt_recorder_open(folder, NULL, &rec, &err));
    for (int i = 0; i < SITES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "activation/layers.%d", i);
        must(tt_recorder_site(rec, name, &sites[i], &err));
    }
    tt_stats s = { .count = 512, .dtype = TT_F32 };
    double start = now();
    for (int64_t step = 0; step < STEPS; step++) {
        for (int i = 0; i < SITES; i++) {
            double x = (double)(step * 7919 % 10007) * 0.01 + i;
            s.min = (float)-x, s.max = (float)x, s.absmax = (float)x, s.sum = x / 3, s.mean = x / 1536;
            s.m2 = x / 7, s.l1 = x / 11, s.sumsq = x / 13;
            (void)tt_recorder_add(rec, &(tt_event){ .site = sites[i], .step = step, .stats = &s });
        }
        if (pause > 0 && step % pause == 0)
            must(tt_recorder_flush(rec, &err));
    }
    must(tt_recorder_close(rec, 60, &err));
    double took = now() - start;
    row(pause > 0 ? "statistics a second in C, in small blocks" : "statistics a second in C",
        SITES * STEPS / took, 200000, "", false);
    read_times(folder, pause > 0 ? "closed, small blocks" : "closed");
    const char *killed = fresh(root, "killed");
    copy_cut(folder, killed, 4000);
    read_times(killed, pause > 0 ? "killed, small blocks" : "killed");
    (void)fresh(root, "killed");
    (void)fresh(root, "long");
}

int main(int argc, char **argv)
{
    const char *root = argc > 1 ? argv[1] : "/tmp/tt-bench";
    (void)mkdir(root, 0777);
    scalars(root);
    values(root);
    ten_million(root, 0);
    ten_million(root, 1000);
    return 0;
}
