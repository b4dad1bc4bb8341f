/* charts.c -- pictures that lie in the folder `charts` of a run: charts of tensortap.flow, graphs of
 * tensortap.spy, or any other.
 *
 * They are put into the page as images from data, in which a browser runs no script.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHARTS_MOST = 24, CHART_BYTES = 512 << 10, ALL_BYTES = 1 << 20 };

/* The type of a picture by its name; NULL: it is none. */
static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot == NULL || name[0] == '.' ? NULL
           : strcmp(dot, ".svg") == 0    ? "image/svg+xml"
           : strcmp(dot, ".png") == 0    ? "image/png"
                                         : NULL;
}

/* Reads a file of the folder that is none of the user's links; false: it cannot be, or is too large. */
static bool read_chart(int folder, const char *name, size_t most, tt_buf *out)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat about;
    bool is_fine = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
                   (uint64_t)about.st_size <= most && tt_buf_reserve(out, (size_t)about.st_size) == TT_OK;
    ssize_t n = is_fine ? read(fd, out->data, (size_t)about.st_size) : -1;
    if (n > 0)
        out->len = (size_t)n;
    if (fd >= 0)
        (void)close(fd);
    return n > 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_chart(const struct dirent *entry)
{
    return type_of(entry->d_name) != NULL;
}

tt_status tt_page_put_charts(tt_page *page, size_t number, tt_buf *out)
{
    tt_run_file file = { 0 };
    tt_json json = { .out = out, .is_compact = true };
    struct dirent **names = NULL; /* owned, each */
    tt_buf path = { 0 };
    size_t left = ALL_BYTES;
    (void)tt_run_file_get(page->sources[number].run, 0, &file);
    const char *slash = file.path != NULL ? strrchr(file.path, '/') : NULL;
    tt_status st = tt_buf_printf(&path, "%.*s/charts", slash != NULL ? (int)(slash - file.path) : 1,
                                 slash != NULL ? file.path : ".");
    int count = st == TT_OK ? scandir(path.data, &names, is_chart, by_name) : -1;
    int folder = count > 0 ? open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    tt_json_open(&json, NULL, '[');
    for (int i = 0; folder >= 0 && i < count && i < CHARTS_MOST; i++) {
        tt_buf bytes = { 0 }, source = { 0 };
        if (read_chart(folder, names[i]->d_name, left < CHART_BYTES ? left : CHART_BYTES, &bytes)) {
            left -= bytes.len;
            (void)tt_buf_printf(&source, "data:%s;base64,", type_of(names[i]->d_name));
            (void)tt_page_put_base64(&source, bytes.data, bytes.len);
        }
        tt_json_open(&json, NULL, '{');
        tt_json_text(&json, "name", names[i]->d_name);
        tt_json_text(&json, "source", source.st == TT_OK ? source.data : NULL); /* null: left out */
        tt_json_close(&json);
        tt_buf_free(&bytes);
        tt_buf_free(&source);
    }
    tt_json_close(&json);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    if (folder >= 0)
        (void)close(folder);
    tt_buf_free(&path);
    return st == TT_OK ? tt_json_finish(&json) : st;
}
