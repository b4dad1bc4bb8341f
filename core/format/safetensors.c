/* safetensors.c -- writes tensors as a .safetensors file.
 *
 * Exists because it is what models are shared in: eight bytes of length, a JSON
 * header with names, types, shapes and places, then the bytes.  The header comes
 * first, so names and shapes must be known before the first tensor is read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "format/out_file.h"

#include <stdlib.h>
#include <string.h>

struct tt_safetensors {
    tt_out_file out;
    tt_dtype *dtypes; /* owned; of each entry */
    int64_t *counts;  /* owned; elements of each */
    size_t count, next;
    tt_status st; /* the first failure */
};

/* The format's word for a type; NULL: it has none. */
static const char *word_of(tt_dtype dtype)
{
    static const char *const words[TT_DTYPE_COUNT_] = {
        [TT_F64] = "F64",           [TT_F32] = "F32",         [TT_F16] = "F16",   [TT_BF16] = "BF16",
        [TT_F8_E4M3FN] = "F8_E4M3", [TT_F8_E5M2] = "F8_E5M2", [TT_I8] = "I8",     [TT_I16] = "I16",
        [TT_I32] = "I32",           [TT_I64] = "I64",         [TT_U8] = "U8",     [TT_U16] = "U16",
        [TT_U32] = "U32",           [TT_U64] = "U64",         [TT_BOOL] = "BOOL", [TT_C64] = "C64",
    };
    return words[dtype];
}

static tt_status make_header(const tt_entry *entries, size_t count, int64_t *counts, tt_buf *out,
                             tt_error *err)
{
    tt_json json;
    int64_t at = 0;
    tt_json_begin(&json, out);
    tt_json_object(&json);
    for (size_t i = 0; i < count; i++) {
        const tt_entry *e = &entries[i];
        if ((unsigned)e->dtype >= TT_DTYPE_COUNT_ || word_of(e->dtype) == NULL)
            return tt_fail(err, TT_EDTYPE, "%.100s: safetensors has no %s; export it to npy", e->name,
                           (unsigned)e->dtype < TT_DTYPE_COUNT_ ? tt_dtype_name(e->dtype) : "such type");
        tt_tensor t;
        tt_status st = tt_tensor_describe(&t, "", e->dtype, e->ndim, e->shape, NULL, err);
        if (st < 0)
            return st;
        counts[i] = t.count;
        tt_json_key(&json, e->name);
        tt_json_object(&json);
        tt_json_key(&json, "dtype");
        tt_json_text(&json, word_of(e->dtype));
        tt_json_key(&json, "shape");
        tt_json_array(&json);
        for (int32_t d = 0; d < e->ndim; d++)
            tt_json_i64(&json, e->shape[d]);
        tt_json_end(&json);
        tt_json_key(&json, "data_offsets");
        tt_json_array(&json);
        tt_json_i64(&json, at);
        at += t.count * (int64_t)tt_dtype_size(e->dtype);
        tt_json_i64(&json, at);
        tt_json_end(&json);
        tt_json_end(&json);
    }
    tt_json_end(&json);
    tt_status st = tt_json_finish(&json);
    while (st == TT_OK && out->len % 8 != 0)
        st = tt_buf_text(out, " "); /* so that the data begins aligned */
    return st < 0 ? tt_fail(err, st, "%s", tt_status_text(st)) : st;
}

tt_status tt_safetensors_create(const char *path, const tt_entry *entries, size_t count,
                                tt_safetensors **out, tt_error *err)
{
    tt_buf header = { 0 };
    tt_safetensors *file = calloc(1, sizeof *file);
    tt_status st = TT_OK;
    if (file != NULL) {
        file->dtypes = calloc(count + 1, sizeof *file->dtypes);
        file->counts = calloc(count + 1, sizeof *file->counts);
        file->count = count;
    }
    if (file == NULL || file->dtypes == NULL || file->counts == NULL)
        st = tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    if (st == TT_OK)
        st = make_header(entries, count, file->counts, &header, err);
    for (size_t i = 0; st == TT_OK && i < count; i++)
        file->dtypes[i] = entries[i].dtype;
    if (st == TT_OK)
        st = tt_out_open(&file->out, path, err);
    if (st == TT_OK) {
        unsigned char len[8];
        for (size_t i = 0; i < sizeof len; i++)
            len[i] = (unsigned char)(header.len >> 8 * i & 255);
        if (fwrite(len, 1, sizeof len, file->out.file) != sizeof len ||
            fwrite(header.data, 1, header.len, file->out.file) != header.len)
            st = tt_out_close(&file->out, TT_EIO, err);
    }
    tt_buf_free(&header);
    if (st == TT_OK) {
        *out = file;
    } else if (file != NULL) {
        free(file->dtypes);
        free(file->counts);
        free(file);
    }
    return st;
}

tt_status tt_safetensors_put(tt_safetensors *file, const tt_tensor *t, tt_error *err)
{
    if (file->next >= file->count || t->dtype != file->dtypes[file->next] ||
        t->count != file->counts[file->next])
        return tt_fail(err, file->st = TT_EMISMATCH, "not the tensor that the header promises");
    tt_status st = tt_out_elements(&file->out, t, false);
    if (st < 0)
        return tt_fail(err, file->st = st, "%.180s: %s", file->out.path, tt_status_text(st));
    file->next++;
    return TT_OK;
}

tt_status tt_safetensors_close(tt_safetensors *file, tt_error *err)
{
    if (file == NULL)
        return TT_OK;
    tt_status st = file->st < 0 ? file->st : file->next == file->count ? TT_OK : TT_EMISMATCH;
    st = tt_out_close(&file->out, st, err);
    free(file->dtypes);
    free(file->counts);
    free(file);
    return st;
}
