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

/* ---- the pickle: protocol 2, no memo ------------------------------------- */

static void put_op(tt_buf *out, char op)
{
    tt_buf_append(out, &op, 1);
}

static void put_global(tt_buf *out, const char *module, const char *name)
{
    put_op(out, 'c');
    tt_buf_text(out, module);
    put_op(out, '\n');
    tt_buf_text(out, name);
    put_op(out, '\n');
}

static void put_text(tt_buf *out, const char *text)
{
    put_op(out, 'X');
    tt_buf_fixed(out, strlen(text), 4);
    tt_buf_text(out, text);
}

/* The shortest of pickle's forms; never negative. */
static void put_int(tt_buf *out, uint64_t n)
{
    size_t len = 0;
    while (len < 8 && n >> 8 * len > 0)
        len++;
    if (n < 1u << 8) {
        put_op(out, 'K'); /* BININT1 */
        len = 1;
    } else if (n < 1u << 16) {
        put_op(out, 'M'); /* BININT2 */
    } else if (n < 1u << 31) {
        put_op(out, 'J'); /* BININT */
        len = 4;
    } else {
        len += n >> (8 * len - 1) != 0; /* it has a sign */
        put_op(out, '\x8a');            /* LONG1 */
        put_op(out, (char)len);
    }
    tt_buf_fixed(out, n, len);
}

static void put_tuple(tt_buf *out, const int64_t *numbers, int32_t count)
{
    static const char small[] = { ')', '\x85', '\x86', '\x87' };
    if (count > 3)
        put_op(out, '('); /* MARK */
    for (int32_t i = 0; i < count; i++)
        put_int(out, (uint64_t)numbers[i]);
    put_op(out, count > 3 ? 't' : small[count]);
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

static void put_pickle(const tt_content *content, tt_buf *out)
{
    const char *storage = content->dtype_name == NULL ? tt_type_words_of[content->dtype].storage : NULL;
    const char *name = content->dtype_name != NULL ? content->dtype_name : tt_dtype_name(content->dtype);
    int64_t stride[TT_MAX_DIM];
    fill_strides(content, stride);
    tt_buf_text(out, "\x80\x02"); /* PROTO 2 */
    put_global(out, "torch._utils", storage != NULL ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    tt_buf_text(out, "((");
    put_text(out, "storage");
    if (storage != NULL)
        put_global(out, "torch", storage);
    else
        put_global(out, "torch.storage", "UntypedStorage");
    put_text(out, "0");
    put_text(out, "cpu");
    put_int(out, storage != NULL ? content->bytes / tt_dtype_size(content->dtype) : content->bytes);
    tt_buf_text(out, "tQ"); /* TUPLE, BINPERSID */
    put_int(out, 0);
    put_tuple(out, content->shape, content->ndim);
    put_tuple(out, stride, content->ndim);
    put_op(out, '\x89'); /* NEWFALSE: requires no gradient */
    put_global(out, "collections", "OrderedDict");
    tt_buf_text(out, ")R");
    if (storage == NULL)
        put_global(out, "torch", name);
    tt_buf_text(out, "tR.");
}

/* ---- the archive ---------------------------------------------------------- */

/* Everything up to the tensor's bytes, which are not in out. */
static void begin(const tt_content *content, tt_zip *zip, tt_buf *out)
{
    tt_buf pickle = { 0 };
    *zip = (tt_zip){ .align = 64 };
    put_pickle(content, &pickle);
    if (pickle.st < 0)
        out->st = pickle.st;
    tt_zip_add(zip, "archive/data.pkl", pickle.data, pickle.len, out);
    tt_zip_add(zip, "archive/.format_version", "1", 1, out);
    tt_zip_add(zip, "archive/.storage_alignment", "64", 2, out);
    tt_zip_add(zip, "archive/byteorder", "little", 6, out);
    tt_zip_begin(zip, "archive/data/0", content->bytes, out);
    tt_buf_free(&pickle);
}

tt_status tt_pt_head(const tt_content *content, tt_buf *out, tt_error *err)
{
    tt_zip zip;
    begin(content, &zip, out);
    return tt_fail_plain(err, out->st);
}

tt_status tt_pt_tail(const tt_content *content, uint32_t crc, tt_buf *out)
{
    tt_zip zip;
    tt_buf head = { 0 }; /* made again: it says where everything is */
    char id[41];         /* torch's is a hash of names and CRCs too: the same for the same tensor */
    begin(content, &zip, &head);
    zip.elsewhere = head.len + content->bytes - out->len;
    (void)snprintf(id, sizeof id, "%020u%020u", 0u, (unsigned)crc);
    tt_zip_end(&zip, crc, out);
    tt_zip_add(&zip, "archive/version", "3\n", 2, out);
    tt_zip_add(&zip, "archive/.data/serialization_id", id, 40, out);
    tt_zip_finish(&zip, out);
    tt_status st = head.st < 0 ? head.st : out->st;
    tt_buf_free(&head);
    return st;
}
