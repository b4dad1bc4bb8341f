/* npy.c -- a tensor as numpy.save writes it (format version 1.0).
 *
 * NumPy has no bfloat16 and no 8-bit floats.  numpy.save makes nameless bytes of
 * the arrays ml_dtypes has of them, which numpy.load then cannot calculate with;
 * so they are written as float32, which holds each of their values exactly.
 * Types that the core itself does not know are bytes (void) of their size.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"

#include <inttypes.h>

/* NULL: NumPy has no such type. */
static const char *const descriptions[] = {
    [TT_F64] = "<f8",      [TT_F32] = "<f4",    [TT_F16] = "<f2",        [TT_BF16] = NULL,
    [TT_F8_E4M3FN] = NULL, [TT_F8_E5M2] = NULL, [TT_F8_E4M3FNUZ] = NULL, [TT_F8_E5M2FNUZ] = NULL,
    [TT_I8] = "|i1",       [TT_I16] = "<i2",    [TT_I32] = "<i4",        [TT_I64] = "<i8",
    [TT_U8] = "|u1",       [TT_U16] = "<u2",    [TT_U32] = "<u4",        [TT_U64] = "<u8",
    [TT_BOOL] = "|b1",     [TT_C64] = "<c8",    [TT_C128] = "<c16",
};
_Static_assert(sizeof descriptions / sizeof *descriptions == TT_DTYPE_COUNT_, "describe every type");

enum { ALIGN = 64, MAGIC = 10 /* bytes before the text: magic, version, length */ };

bool tt_npy_widens(const tt_content *content)
{
    return content->dtype_name == NULL && descriptions[content->dtype] == NULL;
}

tt_status tt_npy_head(const tt_content *content, tt_buf *out, tt_error *err)
{
    size_t at = out->len;
    tt_status st = tt_buf_append(out, "\x93NUMPY\x01\x00\0\0", MAGIC);
    if (st == TT_OK && content->dtype_name != NULL)
        st = tt_buf_printf(out, "{'descr': '|V%zu'", tt_dtype_size(content->dtype));
    else if (st == TT_OK)
        st = tt_buf_printf(out, "{'descr': '%s'",
                           tt_npy_widens(content) ? "<f4" : descriptions[content->dtype]);
    if (st == TT_OK)
        st = tt_buf_text(out, ", 'fortran_order': False, 'shape': (");
    for (int32_t i = 0; st == TT_OK && i < content->ndim; i++)
        st = tt_buf_printf(out, i > 0 ? ", %" PRId64 : "%" PRId64, content->shape[i]);
    if (st == TT_OK)
        st = tt_buf_text(out, content->ndim == 1 ? ",), }" : "), }");
    while (st == TT_OK && (out->len - at + 1) % ALIGN != 0)
        st = tt_buf_text(out, " ");
    if (st == TT_OK)
        st = tt_buf_text(out, "\n");
    if (st < 0)
        return tt_fail(err, st, "%s", tt_status_text(st));
    size_t len = out->len - at - MAGIC; /* 64 dimensions of 20 digits: far below 65536 */
    out->data[at + 8] = (char)(len & 0xff);
    out->data[at + 9] = (char)(len >> 8);
    return TT_OK;
}
