/* blackbox.c -- the black boxes in a run's folder: blackbox/stepN/rankN.safetensors.
 *
 * Only names and sizes: what is in them is for tensortap.blackbox.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number of a name that is `before`, digits and `after`; -1: it is another. */
static long long number_in(const char *name, const char *before, const char *after)
{
    size_t len = strlen(before);
    if (strncmp(name, before, len) != 0 || name[len] < '0' || name[len] > '9')
        return -1;
    char *end;
    long long number = strtoll(name + len, &end, 10);
    return strcmp(end, after) == 0 ? number : -1;
}

/* What a program that was killed while it wrote a file has left behind: .tensortap-XXXX/out. */
static void remove_unfinished(int step, const char *name)
{
    char file[NAME_MAX + 8];
    if (strncmp(name, ".tensortap-", strlen(".tensortap-")) != 0)
        return;
    (void)snprintf(file, sizeof file, "%s/out", name);
    (void)unlinkat(step, file, 0);
    (void)unlinkat(step, name, AT_REMOVEDIR);
}

static void visit_step(const char *path, long long step, bool removes, tt_blackboxes *out)
{
    DIR *folder = opendir(path);
    bool has_any = false;
    for (struct dirent *at; folder != NULL && (at = readdir(folder)) != NULL;) {
        struct stat about;
        if (removes)
            remove_unfinished(dirfd(folder), at->d_name);
        if (number_in(at->d_name, "rank", ".safetensors") < 0 ||
            fstatat(dirfd(folder), at->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(about.st_mode))
            continue;
        has_any = true;
        out->bytes += about.st_size;
        if (removes)
            (void)unlinkat(dirfd(folder), at->d_name, 0);
    }
    if (folder != NULL)
        (void)closedir(folder);
    if (has_any && (out->count++ == 0 || step < out->first_step))
        out->first_step = step;
    if (removes)
        (void)rmdir(path);
}

void tt_blackbox_visit(const char *run, bool removes, tt_blackboxes *out)
{
    char *path = NULL;
    DIR *folder = asprintf(&path, "%s/blackbox", run) >= 0 ? opendir(path) : NULL;
    *out = (tt_blackboxes){ 0 };
    for (struct dirent *at; folder != NULL && (at = readdir(folder)) != NULL;) {
        char *step = NULL;
        long long number = number_in(at->d_name, "step", "");
        if (number >= 0 && asprintf(&step, "%s/%s", path, at->d_name) >= 0)
            visit_step(step, number, removes, out);
        free(step);
    }
    if (folder != NULL) {
        (void)closedir(folder);
        if (removes)
            (void)rmdir(path);
    }
    free(path);
}
