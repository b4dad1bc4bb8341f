/* npy.c -- a tensor as numpy.save writes it (format version 1.0).
 *
 * NumPy has no bfloat16 and no 8-bit floats.  numpy.save makes nameless bytes of
 * the arrays ml_dtypes has of them, which numpy.load then cannot calculate with;
 * so they are written as float32, which holds each of their values exactly.
 * Types that the core itself does not know are bytes (void) of their size.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"

#include <inttypes.h>
#include <stdio.h>

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
    char text[MAGIC + 128 + 24 * TT_MAX_DIM] = "\x93NUMPY\x01";
    char *at = text + MAGIC, *end = text + sizeof text;
#define PRINT(...) at += snprintf(at, (size_t)(end - at), __VA_ARGS__)
    if (content->dtype_name != NULL)
        PRINT("{'descr': '|V%zu'", tt_dtype_size(content->dtype));
    else
        PRINT("{'descr': '%s'", tt_npy_widens(content) ? "<f4" : descriptions[content->dtype]);
    PRINT(", 'fortran_order': False, 'shape': (");
    for (int32_t i = 0; i < content->ndim; i++)
        PRINT(i > 0 ? ", %" PRId64 : "%" PRId64, content->shape[i]);
    PRINT(content->ndim == 1 ? ",), }" : "), }");
#undef PRINT
    while ((at - text + 1) % ALIGN != 0)
        *at++ = ' ';
    *at++ = '\n';
    size_t len = (size_t)(at - text) - MAGIC;
    text[MAGIC - 2] = (char)(len & 0xff);
    text[MAGIC - 1] = (char)(len >> 8);
    tt_status st = tt_buf_append(out, text, MAGIC + len);
    return st == TT_OK ? st : tt_fail(err, st, "%s", tt_status_text(st));
}
