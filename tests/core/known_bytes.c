/* known_bytes.c -- a fresh folder for each test, and files in it whose bytes are known.
 * SPDX-License-Identifier: Apache-2.0 */
#include "known_bytes.h"

#include "run_folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

char known_bytes[KNOWN_BYTES];
static const char *folder;

int known_folder_make(void **state)
{
    (void)state;
    folder = run_folder_new();
    for (int i = 0; i < KNOWN_BYTES; i++)
        known_bytes[i] = (char)(i * 7);
    return mkdir(folder, 0777);
}

int known_folder_remove(void **state)
{
    (void)state;
    run_folder_remove(folder);
    return 0;
}

const char *known_folder(void)
{
    return folder;
}

const char *known_path(int i)
{
    static _Thread_local char path[300];
    (void)snprintf(path, sizeof path, "%s/%d", folder, i);
    return path;
}

tt_tensor known_tensor(int64_t count)
{
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, known_bytes, TT_U8, 1, &count, NULL, NULL), TT_OK);
    return t;
}

void assert_known_file(const char *path, size_t count)
{
    char *got = malloc(KNOWN_BYTES + 1);
    FILE *file = fopen(path, "rb");
    assert_non_null(got);
    assert_non_null(file);
    assert_int_equal(fread(got, 1, KNOWN_BYTES + 1, file), count);
    assert_memory_equal(got, known_bytes, count);
    (void)fclose(file);
    free(got);
}

int count_known_files(const char *beginning)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 strncmp(entry->d_name, beginning, strlen(beginning)) == 0;
    closedir(dir);
    return count;
}

static void save_until_killed(void)
{
    tt_saver *saver;
    tt_tensor t = known_tensor(KNOWN_BYTES);
    if (tt_saver_open(0, &saver, NULL) == TT_OK)
        for (int i = 0;; i++)
            (void)tt_saver_add(saver, known_path(i % 50), TT_FORMAT_BYTES, &t, NULL, NULL);
    _exit(1);
}

void killed_at_any_moment_every_file_is_whole(void **state)
{
    (void)state;
    int seen = 0;
    for (int turn = 0; turn < 8; turn++) {
        pid_t child = fork();
        if (child == 0)
            save_until_killed();
        for (int i = 0; i < 15000 && access(known_path(0), F_OK) != 0; i++)
            usleep(2000); /* a slow machine: not before the first file */
        usleep(1000 + 2500 * (unsigned)turn);
        kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        for (int i = 0; i < 50; i++) {
            if (access(known_path(i), F_OK) != 0)
                continue;
            assert_known_file(known_path(i), KNOWN_BYTES);
            seen++;
        }
    }
    assert_true(seen > 0);
}
