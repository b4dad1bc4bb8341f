/* name.c -- the name of a site in its parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrow/name.h"

#include <stdlib.h>
#include <string.h>

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_path(const void *a, const void *b)
{
    const tt_module *x = a, *y = b;
    return strcmp(x->path, y->path);
}

tt_status tt_arrow_modules_read(const tt_run *run, tt_arrow_modules *out)
{
    tt_arrow_modules found = { 0 };
    tt_module module;
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        for (int32_t i = 0; tt_run_module(run, f, i, &module) == TT_OK; i++) {
            if (tt_grow(&found.items, &found.cap, found.count + 1, sizeof module) < 0) {
                free(found.items);
                return TT_ENOMEM;
            }
            found.items[found.count++] = module;
        }
    if (found.count > 0)
        qsort(found.items, found.count, sizeof *found.items, by_path);
    *out = found;
    return TT_OK;
}

void tt_arrow_modules_free(tt_arrow_modules *modules)
{
    free(modules->items);
    *modules = (tt_arrow_modules){ 0 };
}

const char *tt_arrow_modules_class(const tt_arrow_modules *modules, const char *path, size_t len)
{
    size_t low = 0, high = modules->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const tt_module *at = &modules->items[middle];
        int order = compare(at->path, strlen(at->path), path, len);
        if (order == 0)
            return at->class_name;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return NULL;
}

static bool is_kind(tt_arrow_part kind, const char *word)
{
    return strlen(word) == kind.len && memcmp(kind.text, word, kind.len) == 0;
}

/* The first number that stands alone between dots: 3 of "model.layers.3.mlp". */
static int64_t find_layer(tt_arrow_part module)
{
    static const char digits[] = "0123456789", ends[] = ".[]:";
    const char *end = module.text + module.len;
    for (const char *at = module.text; at < end;) {
        const char *from = at;
        while (at < end && strchr(ends, *at) == NULL)
            at++;
        size_t len = (size_t)(at - from);
        if (len > 0 && len < 10 && strspn(from, digits) >= len)
            return strtoll(from, NULL, 10);
        at++;
    }
    return -1;
}

/* The module is the longest beginning of the rest that is one. */
static void split_output(tt_arrow_name *name, const char *rest, const tt_arrow_modules *modules)
{
    size_t len = strlen(rest), whole = len;
    name->module = (tt_arrow_part){ rest, len };
    while (modules->count > 0 && len > 0 && tt_arrow_modules_class(modules, rest, len) == NULL)
        for (len--; len > 0 && rest[len] != '.' && rest[len] != '[';)
            len--;
    if (len == 0 || len == whole || modules->count == 0)
        return; /* all of it, as far as anybody knows */
    name->module.len = len;
    name->tensor = (tt_arrow_part){ rest + len + (rest[len] == '.'), whole - len - (rest[len] == '.') };
}

/* The tensor is what stands behind the last dot. */
static void split_parameter(tt_arrow_name *name, const char *rest)
{
    static const char root[] = "(root)";
    const char *dot = strrchr(rest, '.'), *colon = strrchr(rest, ':');
    const char *end = dot != NULL ? dot : colon; /* "Generator:weight" */
    name->module = end != NULL ? (tt_arrow_part){ rest, (size_t)(end - rest) }
                               : (tt_arrow_part){ root, sizeof root - 1 };
    name->tensor.text = end != NULL ? end + 1 : rest;
    name->tensor.len = strlen(name->tensor.text);
}

tt_arrow_name tt_arrow_name_parse(const char *name, const tt_arrow_modules *modules)
{
    tt_arrow_name parts = { .layer = -1 };
    const char *slash = strchr(name, '/'), *rest = slash != NULL ? slash + 1 : name;
    if (slash != NULL)
        parts.kind = (tt_arrow_part){ name, (size_t)(slash - name) };
    if (slash != NULL && (is_kind(parts.kind, "activation") || is_kind(parts.kind, "input") ||
                          is_kind(parts.kind, "activation_gradient"))) {
        split_output(&parts, rest, modules);
    } else if (slash != NULL && (is_kind(parts.kind, "parameter") || is_kind(parts.kind, "gradient") ||
                                 is_kind(parts.kind, "buffer"))) {
        split_parameter(&parts, rest);
    } else {
        const char *colon = strrchr(rest, ':');
        bool is_line = slash != NULL && is_kind(parts.kind, "line") && colon != NULL;
        parts.tensor.text = is_line ? colon + 1 : rest;
        parts.tensor.len = strlen(parts.tensor.text);
    }
    if (parts.module.text != NULL)
        parts.layer = find_layer(parts.module);
    return parts;
}
