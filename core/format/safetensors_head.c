/* safetensors_head.c -- a tensor as a .safetensors file that holds it alone.
 *
 * Its name in the file is "tensor".  Layout: the length of the JSON text (8
 * bytes), the text padded with spaces so that the elements are aligned, the
 * elements.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "format/formats.h"

#include <string.h>

/* NULL: the format has no name for it. */
static const char *const names[] = {
    [TT_F64] = "F64",   [TT_F32] = "F32",   [TT_F16] = "F16",
    [TT_BF16] = "BF16", [TT_F8_E4M3FN] = "F8_E4M3", [TT_F8_E5M2] = "F8_E5M2",
    [TT_F8_E4M3FNUZ] = "F8_E4M3FNUZ", [TT_F8_E5M2FNUZ] = "F8_E5M2FNUZ", [TT_I8] = "I8",
    [TT_I16] = "I16",   [TT_I32] = "I32",   [TT_I64] = "I64",
    [TT_U8] = "U8",     [TT_U16] = "U16",   [TT_U32] = "U32",
    [TT_U64] = "U64",   [TT_BOOL] = "BOOL", [TT_C64] = "C64",
    [TT_C128] = NULL,
};
_Static_assert(sizeof names / sizeof *names == TT_DTYPE_COUNT_, "name every type");

enum { ALIGN = 64, LENGTH = 8 };

tt_status tt_safetensors_head(const tt_content *content, tt_buf *out, tt_error *err)
{
    size_t at = out->len;
    bool is_known = content->dtype_name == NULL && names[content->dtype] != NULL;
    if (!is_known)
        return tt_fail(err, TT_EDTYPE, "safetensors has no %s; save it as pt or npy",
                       content->dtype_name != NULL ? content->dtype_name : tt_dtype_name(content->dtype));
    tt_status st = tt_buf_append(out, "\0\0\0\0\0\0\0", LENGTH);
    tt_json json;
    tt_json_begin(&json, out);
    if (st == TT_OK) {
        tt_json_object(&json);
        tt_json_key(&json, "tensor");
        tt_json_object(&json);
        tt_json_key(&json, "dtype");
        tt_json_text(&json, names[content->dtype]);
        tt_json_key(&json, "shape");
        tt_json_array(&json);
        for (int32_t i = 0; i < content->ndim; i++)
            tt_json_i64(&json, content->shape[i]);
        tt_json_end(&json);
        tt_json_key(&json, "data_offsets");
        tt_json_array(&json);
        tt_json_i64(&json, 0);
        tt_json_u64(&json, content->bytes);
        tt_json_end(&json);
        tt_json_end(&json);
        tt_json_end(&json);
        st = tt_json_finish(&json);
    }
    while (st == TT_OK && (out->len - at) % ALIGN != 0)
        st = tt_buf_text(out, " ");
    if (st < 0)
        return tt_fail(err, st, "%s", tt_status_text(st));
    size_t len = out->len - at - LENGTH;
    for (size_t i = 0; i < LENGTH; i++)
        out->data[at + i] = (char)(len >> (8 * i) & 0xff);
    return TT_OK;
}
