/* out_file.c -- a file that appears under its name only when it is whole.
 *
 * Exists so that a full disk or an interrupt leaves no half file that another tool
 * would take for a whole one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/out_file.h"

#include "tensor/walk.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

tt_status tt_out_open(tt_out_file *out, const char *path, tt_error *err)
{
    size_t len = strlen(path);
    struct stat about;
    /* A device or a pipe is written to as it is, never replaced. */
    bool is_special = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
    *out = (tt_out_file){ .path = malloc(len + 1), .part = malloc(len + 6) };
    tt_status st = out->path != NULL && out->part != NULL ? TT_OK : TT_ENOMEM;
    if (st == TT_OK) {
        memcpy(out->path, path, len + 1);
        memcpy(out->part, path, len);
        memcpy(out->part + len, is_special ? "" : ".part", is_special ? 1 : 6);
        out->file = fopen(out->part, "wbe");
        st = out->file != NULL ? TT_OK : TT_EIO;
    }
    if (st < 0) {
        (void)tt_fail(err, st, "%.180s: %s", path, st == TT_EIO ? strerror(errno) : tt_status_text(st));
        free(out->path);
        free(out->part);
        *out = (tt_out_file){ 0 };
    }
    return st;
}

tt_status tt_out_elements(tt_out_file *out, const tt_tensor *t, bool widens)
{
    alignas(32) char buffer[TT_TILE_BYTES];
    float wide[TT_TILE];
    tt_walk walk;
    const void *run;
    size_t item = tt_dtype_size(t->dtype);
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0;) {
        for (size_t i = 0; widens && i < n; i++)
            wide[i] = (float)tt_element_f64(t->dtype, (const char *)run + i * item);
        const void *from = widens ? (const void *)wide : run;
        if (fwrite(from, widens ? sizeof *wide : item, n, out->file) != n)
            return TT_EIO;
    }
    return TT_OK;
}

tt_status tt_out_close(tt_out_file *out, tt_status st, tt_error *err)
{
    if (out->file == NULL)
        return st;
    bool was_fine = st == TT_OK, has_part = strcmp(out->part, out->path) != 0;
    if (fclose(out->file) != 0 && st == TT_OK)
        st = TT_EIO;
    if (st == TT_OK && has_part && rename(out->part, out->path) < 0)
        st = TT_EIO;
    if (st == TT_EIO)
        (void)tt_fail(err, st, "%.180s: %s", out->path,
                      errno != 0 ? strerror(errno) : tt_status_text(st));
    else if (st < 0 && was_fine)
        (void)tt_fail(err, st, "%.180s: %s", out->path, tt_status_text(st));
    if (st < 0 && has_part)
        (void)remove(out->part);
    free(out->path);
    free(out->part);
    *out = (tt_out_file){ 0 };
    return st;
}
