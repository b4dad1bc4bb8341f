/* bench_record.c -- how fast a run is written and read; each line is one claim.
 *
 *     scalars/s through the C call, sustained (until they are in the file)
 *     values of 1 MB against plain write() of the same bytes, interleaved
 *     opening a run of 10 million points, closed and killed; one series of it
 *
 *     bench_record [folder [letters of s v l m]]
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Processor time of a clock: a busy machine does not change it. */
static double cpu(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
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
    double pushed = now() - start;
    must(tt_recorder_close(rec, 60, &err));
    double written = now() - start;
    printf("scalars: %.2f M/s in the call, %.2f M/s until closed (%.0f ns a call)\n",
           COUNT / pushed * 1e-6, COUNT / written * 1e-6, pushed / COUNT * 1e9);
}

static void values(const char *root)
{
    enum { BYTES = 1 << 20, COUNT = 400, ROUNDS = 5 };
    char *data = malloc(BYTES);
    double best_write = 1e9, best_record = 1e9, cpu_write = 1e9, cpu_user = 1e9, cpu_writer = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BYTES; i++)
            data[i] = (char)(i * 31 + i / 777);
        const char *plain = fresh(root, "plain");
        double start = now(), spent = cpu(CLOCK_PROCESS_CPUTIME_ID);
        int fd = open(plain, O_CREAT | O_WRONLY | O_APPEND, 0666);
        for (int i = 0; i < COUNT; i++) {
            memcpy(data, &i, sizeof i);
            if (write(fd, data, BYTES) != BYTES)
                exit(1);
        }
        close(fd);
        double took = now() - start;
        best_write = took < best_write ? took : best_write;
        spent = cpu(CLOCK_PROCESS_CPUTIME_ID) - spent;
        cpu_write = spent < cpu_write ? spent : cpu_write;
        unlink(plain);
        tt_recorder *rec;
        int32_t site;
        tt_tensor t;
        const char *folder = fresh(root, "values");
        must(tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ BYTES / 4 }, NULL, &err));
        start = now();
        double all = cpu(CLOCK_PROCESS_CPUTIME_ID), user = cpu(CLOCK_THREAD_CPUTIME_ID);
        must(tt_recorder_open(folder, NULL, &rec, &err));
        must(tt_recorder_site(rec, "w", &site, &err));
        for (int i = 0; i < COUNT; i++) {
            memcpy(data, &i, sizeof i);
            (void)tt_recorder_add(
                rec, &(tt_event){ .site = site, .step = i, .tensor = &t, .has_value = true });
        }
        must(tt_recorder_close(rec, 60, &err));
        took = now() - start;
        best_record = took < best_record ? took : best_record;
        user = cpu(CLOCK_THREAD_CPUTIME_ID) - user;
        all = cpu(CLOCK_PROCESS_CPUTIME_ID) - all - user;
        cpu_user = user < cpu_user ? user : cpu_user;
        cpu_writer = all < cpu_writer ? all : cpu_writer;
        (void)fresh(root, "values");
    }
    printf("values of 1 MB: write %.0f MB/s, recorded %.0f MB/s, ratio %.2f\n", COUNT / best_write,
           COUNT / best_record, best_write / best_record);
    printf(
        "    processor time a MB: write %.0f us; recorded: caller %.0f us, writer %.0f us; ratio of the "
        "slower thread %.2f\n",
        cpu_write / COUNT * 1e6, cpu_user / COUNT * 1e6, cpu_writer / COUNT * 1e6,
        cpu_write / (cpu_user > cpu_writer ? cpu_user : cpu_writer));
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
    printf("%s: open %.1f ms, series of %zu %.1f ms\n", what, best_open * 1e3, n, best_series * 1e3);
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
    tt_run *run;
    must(tt_run_open(folder, &run, &err));
    tt_run_file about;
    must(tt_run_file_get(run, 0, &about));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("10 M points%s: %.2f M/s, %.1f bytes a point, peak memory %ld MB\n",
           pause ? " in small blocks" : "", SITES * STEPS / took * 1e-6,
           (double)about.bytes / (double)about.points, usage.ru_maxrss / 1024);
    tt_run_close(run);
    read_times(folder, "closed");
    copy_cut(folder, fresh(root, "killed"), 4000);
    read_times(fresh(root, "nothing") == NULL ? "" : folder, "closed again");
    char killed[300];
    (void)snprintf(killed, sizeof killed, "%s/killed", root);
    read_times(killed, "killed");
}

int main(int argc, char **argv)
{
    const char *root = argc > 1 ? argv[1] : "/tmp/tt-bench";
    (void)mkdir(root, 0777);
    const char *only = argc > 2 ? argv[2] : "svlm";
    if (strchr(only, 's') != NULL)
        scalars(root);
    if (strchr(only, 'v') != NULL)
        values(root);
    if (strchr(only, 'l') != NULL)
        ten_million(root, 0);
    if (strchr(only, 'm') != NULL)
        ten_million(root, 10);
    return 0;
}
