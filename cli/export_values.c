/* export_values.c -- the values of a run as npy and safetensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "export_values.h"

#include "overview.h"
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct kept {
    char *name; /* owned; of the site, and the step where there are several */
    tt_value value;
} kept;

typedef struct list {
    kept *items; /* owned */
    size_t count, cap;
    int64_t gone;  /* evicted values */
    int64_t bytes; /* of all values, unpacked */
} list;

static void free_list(list *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].name);
    free(all->items);
}

/* Reads a value; *bytes is owned by the caller. */
static tt_status read_value(const tt_export *what, const tt_value *value, void **bytes, tt_tensor *out,
                            tt_error *err)
{
    void *data = malloc((size_t)value->bytes + 1);
    if (data == NULL)
        return TT_ENOMEM;
    tt_status st = tt_run_value_read(what->run, value, data, err);
    if (st == TT_OK)
        st = tt_tensor_describe(out, data, value->dtype, value->ndim, value->shape, NULL, err);
    if (st == TT_OK && out->count * (int64_t)tt_dtype_size(out->dtype) != value->bytes)
        st = tt_fail(err, TT_EFORMAT,
                     "a value has not the size of its shape; 'tensortap check' says more");
    if (st == TT_OK)
        *bytes = data;
    else
        free(data);
    return st;
}

static tt_status add_value(const tt_export *what, int32_t file, int32_t site, int64_t index,
                           const tt_point *p, void *context, tt_error *err)
{
    list *all = context;
    (void)index;
    if (p->value_at <= 0)
        return TT_OK;
    if (tt_grow(&all->items, &all->cap, all->count + 1, sizeof *all->items) < 0)
        return TT_ENOMEM;
    kept *item = &all->items[all->count];
    tt_error why = { "" };
    tt_status st = tt_run_value_find(what->run, file, p->value_at, &item->value, &why);
    if (st == TT_EMISMATCH) {
        all->gone++;
        return TT_OK;
    }
    if (st == TT_OK && what->is_partial) { /* a list may name only what can be read */
        void *bytes = NULL;
        tt_tensor t;
        st = read_value(what, &item->value, &bytes, &t, &why);
        free(bytes);
    }
    if (st < 0)
        return tt_fail(err, st, "%s", why.text);
    bool has_files = tt_run_file_count(what->run) > 1;
    int rank = tt_overview_file(what->run, file).rank;
    if (asprintf(&item->name, "%s@%" PRId64 "%s%s", tt_run_site_name(what->run, site), p->step,
                 p->call > 0 ? tt_screen_text(".%u", p->call) : "",
                 has_files ? tt_screen_text("@rank%d", rank) : "") < 0)
        return TT_ENOMEM;
    all->count++;
    if (__builtin_add_overflow(all->bytes, item->value.bytes, &all->bytes))
        all->bytes = INT64_MAX;
    return TT_OK;
}

/* A few bytes of zstd, or one value that many points share, may unpack to any number of bytes.
 * Values that are so much larger than their run have to be exported in parts. */
static tt_status weigh(const tt_export *what, const list *all, tt_error *err)
{
    enum { FREE = 256 << 20, TIMES = 64 };
    tt_totals totals;
    tt_overview_totals(what->run, &totals);
    if (all->bytes <= FREE || all->bytes / TIMES <= totals.bytes)
        return TT_OK;
    return tt_fail(err, TT_ELIMIT,
                   "these values take %s, and the run only %s: refused; choose fewer of them with GLOB "
                   "and --step, or read one with tt.open(RUN).tensor()",
                   tt_screen_bytes(all->bytes), tt_screen_bytes(totals.bytes));
}

static tt_status list_values(const tt_export *what, list *all, tt_error *err)
{
    tt_status st = tt_export_each(what, add_value, all, err);
    if (st == TT_OK && all->count == 0)
        st = tt_fail(err, TT_EMISMATCH,
                     "no values were kept for these sites; record them with keep=\"value\", or export "
                     "statistics with --to csv");
    return st == TT_OK ? weigh(what, all, err) : st;
}

tt_status tt_export_weigh(const tt_export *what, tt_error *err)
{
    list all = { 0 };
    tt_status st = list_values(what, &all, err);
    free_list(&all);
    return st;
}

/* A name as a file name: nothing that leaves the folder, or hides, or is too long for
 * one; what is cut is the middle, because the step stands at the end. */
static void make_safe(char *name)
{
    enum { HEAD = 130, TAIL = 70 };
    for (char *at = name; *at != '\0'; at++)
        if (*at == '/' || (unsigned char)*at < 0x20 || *at == 0x7f || (at == name && *at == '.'))
            *at = '_';
    size_t len = strlen(name);
    if (len > HEAD + TAIL)
        memmove(name + HEAD, name + len - TAIL, TAIL + 1);
}

static int by_name(const void *a, const void *b)
{
    const kept *x = *(const kept *const *)a, *y = *(const kept *const *)b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Two may have the same name: a/b and a_b as files, those of a process and of its child.
 * The second gets a ~2. */
static tt_status make_unique(list *all)
{
    kept **sorted = calloc(all->count + 1, sizeof(kept *));
    if (sorted == NULL)
        return TT_ENOMEM;
    for (size_t i = 0; i < all->count; i++)
        sorted[i] = &all->items[i];
    if (all->count > 0)
        qsort(sorted, all->count, sizeof *sorted, by_name);
    tt_status st = TT_OK;
    for (size_t i = 1, first = 0; st == TT_OK && i < all->count; i++) {
        char *other = NULL;
        if (strcmp(sorted[i]->name, sorted[first]->name) != 0) {
            first = i;
        } else if (asprintf(&other, "%s~%zu", sorted[first]->name, i - first + 1) < 0) {
            st = TT_ENOMEM;
        } else {
            free(sorted[i]->name);
            sorted[i]->name = other;
        }
    }
    free(sorted);
    return st;
}

tt_status tt_export_values(const tt_export *what, tt_error *err)
{
    list all = { 0 };
    tt_entry *entries = NULL;    /* owned */
    tt_safetensors *file = NULL; /* owned; NULL: a file of its own for each value */
    tt_status st = list_values(what, &all, err);
    size_t len = strlen(what->out);
    bool is_npy = strcmp(what->format, "npy") == 0;
    bool is_file = !is_npy || (all.count == 1 && len > 4 && strcmp(what->out + len - 4, ".npy") == 0);
    if (st == TT_OK && !is_file && mkdir(what->out, 0777) < 0 && errno != EEXIST)
        st = tt_fail(err, TT_EIO, "%.150s: %s", what->out, strerror(errno));
    for (size_t i = 0; is_npy && i < all.count; i++)
        make_safe(all.items[i].name);
    if (st == TT_OK)
        st = make_unique(&all);
    if (st == TT_OK && (entries = calloc(all.count + 1, sizeof *entries)) == NULL)
        st = TT_ENOMEM;
    for (size_t i = 0; st == TT_OK && i < all.count; i++) {
        const tt_value *value = &all.items[i].value;
        entries[i] = (tt_entry){ all.items[i].name, value->dtype, value->ndim, value->shape };
    }
    if (st == TT_OK && !is_npy)
        st = tt_safetensors_create(what->out, entries, all.count, &file, err);
    for (size_t i = 0; st == TT_OK && i < all.count; i++) {
        void *bytes = NULL;
        tt_tensor t;
        char *path = NULL;
        if (asprintf(&path, is_file ? "%s" : "%s/%s.npy", what->out, all.items[i].name) < 0) {
            st = TT_ENOMEM;
            break;
        }
        st = read_value(what, &all.items[i].value, &bytes, &t, err);
        if (st == TT_OK)
            st = is_npy ? tt_file_save(path, TT_FORMAT_NPY, &t, NULL, err)
                        : tt_safetensors_put(file, &t, err);
        free(bytes);
        free(path);
        tt_progress_tell((int64_t)i + 1, (int64_t)all.count);
    }
    tt_error ignored;
    tt_status closed = tt_safetensors_close(file, st == TT_OK ? err : &ignored);
    st = st == TT_OK ? closed : st;
    if (st == TT_OK && all.gone > 0)
        fprintf(stderr, "tensortap: %" PRId64 " values were evicted to stay within max_bytes\n",
                all.gone);
    free(entries);
    free_list(&all);
    return st;
}
