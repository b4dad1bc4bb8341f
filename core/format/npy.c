/* npy.c -- writes one tensor as NumPy's .npy file (format version 1.0).
 *
 * Exists because numpy.load is what everybody has.  NumPy has no bfloat16 and no
 * 8-bit floats: those are written as float32, which holds each of their values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "format/out_file.h"

#include <inttypes.h>

/* What NumPy calls the type; NULL: it has none. */
static const char *descr_of(tt_dtype dtype)
{
    switch (dtype) {
    case TT_F64:
        return "<f8";
    case TT_F32:
        return "<f4";
    case TT_F16:
        return "<f2";
    case TT_I8:
        return "|i1";
    case TT_I16:
        return "<i2";
    case TT_I32:
        return "<i4";
    case TT_I64:
        return "<i8";
    case TT_U8:
        return "|u1";
    case TT_U16:
        return "<u2";
    case TT_U32:
        return "<u4";
    case TT_U64:
        return "<u8";
    case TT_BOOL:
        return "|b1";
    case TT_C64:
        return "<c8";
    case TT_C128:
        return "<c16";
    case TT_BF16:
    case TT_F8_E4M3FN:
    case TT_F8_E5M2:
    case TT_F8_E4M3FNUZ:
    case TT_F8_E5M2FNUZ:
    case TT_DTYPE_COUNT_:
        break;
    }
    return NULL;
}

tt_status tt_npy_save(const char *path, const tt_tensor *t, tt_error *err)
{
    enum { PREFIX = 10, ALIGN = 64 };
    const char *descr = descr_of(t->dtype);
    tt_buf header = { 0 };
    tt_out_file out = { 0 };
    tt_status st = tt_buf_printf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                                 descr != NULL ? descr : "<f4");
    for (int32_t d = 0; st == TT_OK && d < t->ndim; d++)
        st = tt_buf_printf(&header, "%" PRId64 "%s", t->shape[d],
                           t->ndim == 1      ? ","
                           : d + 1 < t->ndim ? ", "
                                             : "");
    if (st == TT_OK)
        st = tt_buf_text(&header, "), }");
    while (st == TT_OK && (PREFIX + header.len + 1) % ALIGN != 0)
        st = tt_buf_text(&header, " ");
    if (st == TT_OK)
        st = tt_buf_text(&header, "\n");
    if (st < 0) {
        (void)tt_fail(err, st, "%s", tt_status_text(st));
        goto out;
    }
    st = tt_out_open(&out, path, err);
    if (st < 0)
        goto out;
    const unsigned char prefix[PREFIX] = { 0x93,
                                           'N',
                                           'U',
                                           'M',
                                           'P',
                                           'Y',
                                           1,
                                           0,
                                           (unsigned char)(header.len & 255),
                                           (unsigned char)(header.len >> 8) };
    if (fwrite(prefix, 1, PREFIX, out.file) != PREFIX ||
        fwrite(header.data, 1, header.len, out.file) != header.len)
        st = TT_EIO;
    if (st == TT_OK)
        st = tt_out_elements(&out, t, descr == NULL);
    st = tt_out_close(&out, st, err);
out:
    tt_buf_free(&header);
    return st;
}
