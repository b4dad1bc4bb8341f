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

enum { ALIGN = 64, MAGIC = 10 /* bytes before the text: magic, version, length */ };

bool tt_npy_widens(const tt_content *content)
{
    return content->dtype_name == NULL && tt_type_words_of[content->dtype].npy == NULL;
}

tt_status tt_npy_head(const tt_content *content, tt_buf *out, tt_error *err)
{
    char text[MAGIC + 128 + 24 * TT_MAX_DIM] = "\x93NUMPY\x01";
    char *at = text + MAGIC, *end = text + sizeof text;
#define PRINT(...) at += snprintf(at, (size_t)(end - at), __VA_ARGS__)
    if (content->dtype_name != NULL)
        PRINT("{'descr': '|V%zu'", tt_dtype_size(content->dtype));
    else
        PRINT("{'descr': '%s'", tt_npy_widens(content) ? "<f4" : tt_type_words_of[content->dtype].npy);
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
    return tt_fail_plain(err, st);
}
