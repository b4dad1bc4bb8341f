/* safetensors.c -- tensors as a .safetensors file, one or many.
 *
 * Exists because it is what models are shared in: eight bytes of length, a JSON
 * text with names, types, shapes and places, padded so that the elements are
 * aligned, then the elements.  The text comes first, so names and shapes must be
 * known before the first tensor is read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/wire.h"
#include "format/formats.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, LENGTH = 8 };

/* ---- the head --------------------------------------------------------------- */

/* Types that the core knows only by name.  F4 counts its numbers, torch the bytes that hold
 * two of them. */
static const struct {
    const char *name, *word;
    int64_t in_one;
} named[] = {
    { "float8_e8m0fnu", "F8_E8M0", 1 },
    { "float4_e2m1fn_x2", "F4", 2 },
};

/* NULL: the format has no word for it. */
static const char *word_of(const tt_content *content, int64_t *in_one)
{
    *in_one = 1;
    if (content->dtype_name == NULL)
        return tt_type_words_of[content->dtype].safetensors;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (strcmp(content->dtype_name, named[i].name) == 0 && content->ndim >= named[i].in_one - 1) {
            *in_one = named[i].in_one;
            return named[i].word;
        }
    }
    return NULL;
}

static void put_entry(tt_json *json, const char *name, const tt_content *content, uint64_t at)
{
    int64_t in_one;
    const char *word = word_of(content, &in_one);
    tt_json_open(json, name, '{');
    tt_json_text(json, "dtype", word);
    tt_json_open(json, "shape", '[');
    for (int32_t i = 0; i < content->ndim; i++)
        tt_json_i64(json, NULL, content->shape[i] * (i == content->ndim - 1 ? in_one : 1));
    tt_json_close(json);
    tt_json_ints(json, "data_offsets", (const int64_t[]){ (int64_t)at, (int64_t)(at + content->bytes) },
                 2);
    tt_json_close(json);
}

static bool has_word(const tt_content *content)
{
    int64_t in_one;
    return word_of(content, &in_one) != NULL;
}

static tt_status refuse(const char *name, const tt_content *content, tt_error *err)
{
    return tt_fail(err, TT_EDTYPE, "%.100s%ssafetensors has no %s; save it as pt or npy", name,
                   name[0] != '\0' ? ": " : "",
                   content->dtype_name != NULL ? content->dtype_name : tt_dtype_name(content->dtype));
}

/* Begins the text, with room for its length. */
static tt_json begin(tt_buf *out)
{
    tt_json json = { .out = out };
    (void)tt_buf_append(out, "\0\0\0\0\0\0\0", LENGTH);
    tt_json_open(&json, NULL, '{');
    return json;
}

static tt_status finish(tt_json *json, size_t at, tt_error *err)
{
    tt_buf *out = json->out;
    tt_json_close(json);
    tt_status st = tt_json_finish(json);
    while (st == TT_OK && (out->len - at) % ALIGN != 0)
        st = tt_buf_text(out, " ");
    if (st < 0)
        return tt_fail_plain(err, st);
    tt_put_u64((unsigned char *)out->data + at, out->len - at - LENGTH);
    return TT_OK;
}

tt_status tt_safetensors_head(const tt_content *content, tt_buf *out, tt_error *err)
{
    size_t at = out->len;
    if (!has_word(content))
        return refuse("", content, err);
    tt_json json = begin(out);
    put_entry(&json, "tensor", content, 0);
    return finish(&json, at, err);
}

/* ---- a file of many --------------------------------------------------------- */

struct tt_safetensors {
    tt_stream stream;
    tt_content *contents; /* owned; of each entry; the shapes are not kept */
    size_t count, next;
    tt_status st; /* the first failure */
};

static tt_status make_head(tt_safetensors *file, const tt_entry *entries, tt_error *err)
{
    tt_json json = begin(&file->stream.waiting);
    uint64_t at = 0;
    for (size_t i = 0; i < file->count; i++) {
        const tt_entry *e = &entries[i];
        tt_content *content = &file->contents[i];
        tt_tensor t;
        tt_status st = tt_tensor_describe(&t, "", e->dtype, e->ndim, e->shape, NULL, err);
        if (st < 0)
            return st;
        *content = (tt_content){ .dtype = e->dtype,
                                 .ndim = e->ndim,
                                 .shape = e->shape,
                                 .bytes = (uint64_t)t.count * tt_dtype_size(e->dtype) };
        if (!has_word(content))
            return refuse(e->name, content, err);
        put_entry(&json, e->name, content, at);
        at += content->bytes;
        content->shape = NULL;
    }
    return finish(&json, 0, err);
}

static void free_file(tt_safetensors *file)
{
    if (file == NULL)
        return;
    free(file->contents);
    free(file);
}

tt_status tt_safetensors_create(const char *path, const tt_entry *entries, size_t count,
                                tt_safetensors **out, tt_error *err)
{
    tt_safetensors *file = calloc(1, sizeof *file);
    if (file != NULL)
        *file = (tt_safetensors){ .contents = calloc(count + 1, sizeof *file->contents), .count = count };
    tt_status st = file != NULL && file->contents != NULL ? TT_OK : TT_ENOMEM;
    if (st < 0) {
        free_file(file);
        return tt_fail_plain(err, st);
    }
    st = tt_output_open(path, &file->stream.file, err);
    if (st == TT_OK)
        st = make_head(file, entries, err);
    if (st < 0) {
        (void)tt_stream_close(&file->stream, st, NULL);
        free_file(file);
        return st;
    }
    *out = file;
    return TT_OK;
}

tt_status tt_safetensors_put(tt_safetensors *file, const tt_tensor *t, tt_error *err)
{
    tt_content *content = file->next < file->count ? &file->contents[file->next] : NULL;
    if (content == NULL || t->dtype != content->dtype ||
        (uint64_t)t->count * tt_dtype_size(t->dtype) != content->bytes)
        return tt_fail(err, file->st = TT_EMISMATCH, "not the tensor that the header promises");
    tt_status st = tt_stream_tensor(&file->stream, t, NULL, err);
    if (st < 0)
        return file->st = st;
    file->next++;
    return TT_OK;
}

tt_status tt_safetensors_close(tt_safetensors *file, tt_error *err)
{
    if (file == NULL)
        return TT_OK;
    tt_status st = file->st < 0 ? file->st : file->next == file->count ? TT_OK : TT_EMISMATCH;
    if (st < 0)
        (void)tt_output_fail(err, st, file->stream.file->path, tt_status_text(st));
    st = tt_stream_close(&file->stream, st, err);
    free_file(file);
    return st;
}
