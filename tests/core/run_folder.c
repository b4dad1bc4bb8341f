/* run_folder.c -- a fresh folder for each test, and events that can be told apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "run_folder.h"
#include "tensortap_tools.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const char *run_folder_new(void)
{
    static char folder[256];
    const char *root = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder - 16, "%s/tt-run-XXXXXX", root != NULL ? root : "/tmp");
    if (mkdtemp(folder) == NULL)
        abort();
    strcat(folder, "/run");
    return folder;
}

void run_folder_remove(const char *folder)
{
    char path[600];
    DIR *list = opendir(folder);
    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    if (list != NULL)
        (void)closedir(list);
    (void)rmdir(folder);
    (void)snprintf(path, sizeof path, "%s", folder);
    *strrchr(path, '/') = '\0';
    (void)rmdir(path);
}

tt_stats stats_of(int32_t site, int64_t step)
{
    double x = (double)site * 1000 + (double)step / 3;
    return (tt_stats){
        .count = 512,
        .zeros = step % 7,
        .min = -(float)x,
        .max = (float)x,
        .absmax = (float)x,
        .sum = x * 512,
        .mean = x,
        .m2 = x / 7,
        .l1 = x * 511,
        .sumsq = x * x * 512,
        .dtype = TT_F32,
    };
}

tt_recorder *begin_run(const char *folder, const tt_recorder_options *options)
{
    tt_error err;
    tt_recorder *rec;
    if (tt_recorder_open(folder, options, &rec, &err) < 0)
        fail_msg("%s", err.text);
    return rec;
}

void finish_run(tt_recorder *rec)
{
    tt_error err;
    if (tt_recorder_close(rec, 30, &err) < 0)
        fail_msg("%s", err.text);
}

tt_run *read_run(const char *folder)
{
    tt_error err;
    tt_run *run;
    if (tt_run_open(folder, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

int32_t site_of(tt_recorder *rec, const char *name)
{
    tt_error err;
    int32_t site;
    assert_int_equal(tt_recorder_site(rec, name, &site, &err), 0);
    return site;
}

void assert_whole(tt_run *run)
{
    tt_error err;
    tt_check about;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        if (tt_run_check(run, f, &about, &err) < 0)
            fail_msg("%s", err.text);
        if (about.damaged_bytes != 0)
            fail_msg("%s", about.first);
    }
}

tt_run *finish_and_read(tt_recorder *rec, const char *folder)
{
    finish_run(rec);
    tt_run *run = read_run(folder);
    assert_whole(run);
    return run;
}
