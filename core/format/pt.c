/* pt.c -- a tensor as torch.save writes it.
 *
 * A zip archive with the names and the order that torch itself uses, so that
 * torch.load finds everything by every way it has (weights_only, mmap,
 * calculated offsets).  data.pkl is a pickle that rebuilds the tensor:
 *
 *     torch._utils._rebuild_tensor_v2(
 *         persistent_load(("storage", torch.FloatStorage, "0", "cpu", count)),
 *         0, shape, stride, False, OrderedDict())
 *
 * Types that have no storage class of their own are bytes (torch.UntypedStorage)
 * and _rebuild_tensor_v3, which gets the type as its last argument.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"
#include "format/zip.h"

#include <stdio.h>
#include <string.h>

/* NULL: torch has no storage class for it. */
static const char *const storages[] = {
    [TT_F64] = "DoubleStorage",
    [TT_F32] = "FloatStorage",
    [TT_F16] = "HalfStorage",
    [TT_BF16] = "BFloat16Storage",
    [TT_F8_E4M3FN] = NULL,
    [TT_F8_E5M2] = NULL,
    [TT_F8_E4M3FNUZ] = NULL,
    [TT_F8_E5M2FNUZ] = NULL,
    [TT_I8] = "CharStorage",
    [TT_I16] = "ShortStorage",
    [TT_I32] = "IntStorage",
    [TT_I64] = "LongStorage",
    [TT_U8] = "ByteStorage",
    [TT_U16] = NULL,
    [TT_U32] = NULL,
    [TT_U64] = NULL,
    [TT_BOOL] = "BoolStorage",
    [TT_C64] = "ComplexFloatStorage",
    [TT_C128] = "ComplexDoubleStorage",
};
_Static_assert(sizeof storages / sizeof *storages == TT_DTYPE_COUNT_, "name every storage");

/* ---- the pickle: protocol 2, no memo ------------------------------------- */

typedef struct pickle {
    tt_buf *out;  /* borrowed */
    tt_status st; /* the first failure */
} pickle;

static void put(pickle *p, const void *bytes, size_t n)
{
    if (p->st == TT_OK)
        p->st = tt_buf_append(p->out, bytes, n);
}

static void put_op(pickle *p, char op)
{
    put(p, &op, 1);
}

static void put_global(pickle *p, const char *module, const char *name)
{
    put_op(p, 'c');
    put(p, module, strlen(module));
    put_op(p, '\n');
    put(p, name, strlen(name));
    put_op(p, '\n');
}

static void put_text(pickle *p, const char *text)
{
    uint8_t len[4] = { (uint8_t)strlen(text), 0, 0, 0 }; /* ours are short */
    put_op(p, 'X');
    put(p, len, sizeof len);
    put(p, text, len[0]);
}

/* The shortest of pickle's forms; never negative. */
static void put_int(pickle *p, uint64_t n)
{
    uint8_t bytes[9];
    size_t len = 0;
    for (uint64_t rest = n; len < 8 && (len == 0 || rest > 0); rest >>= 8)
        bytes[len++] = (uint8_t)rest;
    if (n < 1u << 8) {
        put_op(p, 'K'); /* BININT1 */
    } else if (n < 1u << 16) {
        put_op(p, 'M'); /* BININT2 */
    } else if (n < 1u << 31) {
        put_op(p, 'J'); /* BININT */
        for (; len < 4; len++)
            bytes[len] = 0;
    } else {
        if (bytes[len - 1] & 0x80)
            bytes[len++] = 0; /* it has a sign */
        put_op(p, '\x8a');    /* LONG1 */
        put_op(p, (char)len);
    }
    put(p, bytes, len);
}

static void put_tuple(pickle *p, const int64_t *numbers, int32_t count)
{
    static const char small[] = { ')', '\x85', '\x86', '\x87' };
    if (count > 3)
        put_op(p, '('); /* MARK */
    for (int32_t i = 0; i < count; i++)
        put_int(p, (uint64_t)numbers[i]);
    put_op(p, count > 3 ? 't' : small[count]);
}

/* Of a contiguous tensor, in elements; a dimension of 0 counts as 1, as torch has it. */
static void fill_strides(const tt_content *content, int64_t stride[TT_MAX_DIM])
{
    int64_t step = 1;
    for (int32_t i = content->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= content->shape[i] > 0 ? content->shape[i] : 1;
    }
}

static tt_status put_pickle(const tt_content *content, tt_buf *out)
{
    pickle p = { .out = out };
    const char *storage = content->dtype_name == NULL ? storages[content->dtype] : NULL;
    const char *name = content->dtype_name != NULL ? content->dtype_name : tt_dtype_name(content->dtype);
    int64_t stride[TT_MAX_DIM];
    fill_strides(content, stride);
    put(&p, "\x80\x02", 2); /* PROTO 2 */
    put_global(&p, "torch._utils", storage != NULL ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    put(&p, "((", 2);
    put_text(&p, "storage");
    if (storage != NULL)
        put_global(&p, "torch", storage);
    else
        put_global(&p, "torch.storage", "UntypedStorage");
    put_text(&p, "0");
    put_text(&p, "cpu");
    put_int(&p, storage != NULL ? content->bytes / tt_dtype_size(content->dtype) : content->bytes);
    put(&p, "tQ", 2); /* TUPLE, BINPERSID */
    put_int(&p, 0);
    put_tuple(&p, content->shape, content->ndim);
    put_tuple(&p, stride, content->ndim);
    put_op(&p, '\x89'); /* NEWFALSE: requires no gradient */
    put_global(&p, "collections", "OrderedDict");
    put(&p, ")R", 2);
    if (storage == NULL)
        put_global(&p, "torch", name);
    put(&p, "tR.", 3);
    return p.st;
}

/* ---- the archive ---------------------------------------------------------- */

/* Everything up to the tensor's bytes, which are not in out. */
static tt_status begin(const tt_content *content, tt_zip *zip, tt_buf *out)
{
    tt_buf text = { 0 };
    *zip = (tt_zip){ .align = 64 };
    tt_status st = put_pickle(content, &text);
    if (st == TT_OK)
        st = tt_zip_add(zip, "archive/data.pkl", text.data, text.len, out);
    if (st == TT_OK)
        st = tt_zip_add(zip, "archive/.format_version", "1", 1, out);
    if (st == TT_OK)
        st = tt_zip_add(zip, "archive/.storage_alignment", "64", 2, out);
    if (st == TT_OK)
        st = tt_zip_add(zip, "archive/byteorder", "little", 6, out);
    if (st == TT_OK)
        st = tt_zip_begin(zip, "archive/data/0", content->bytes, out);
    tt_buf_free(&text);
    return st;
}

tt_status tt_pt_head(const tt_content *content, tt_buf *out, tt_error *err)
{
    tt_zip zip;
    tt_status st = begin(content, &zip, out);
    return st == TT_OK ? st : tt_fail(err, st, "%s", tt_status_text(st));
}

tt_status tt_pt_tail(const tt_content *content, uint32_t crc, tt_buf *out)
{
    tt_zip zip;
    tt_buf head = { 0 }; /* made again: it is short, and says where everything is */
    char id[41];         /* torch's is a hash of names and CRCs too: the same for the same tensor */
    size_t before = out->len;
    tt_status st = begin(content, &zip, &head);
    zip.elsewhere = head.len + content->bytes - before;
    (void)snprintf(id, sizeof id, "%020u%020u", 0u, (unsigned)crc);
    if (st == TT_OK)
        st = tt_zip_end(&zip, crc, out);
    if (st == TT_OK)
        st = tt_zip_add(&zip, "archive/version", "3\n", 2, out);
    if (st == TT_OK)
        st = tt_zip_add(&zip, "archive/.data/serialization_id", id, 40, out);
    if (st == TT_OK)
        st = tt_zip_finish(&zip, out);
    tt_buf_free(&head);
    return st;
}
