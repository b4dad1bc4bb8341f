/* encode.c -- bytes and numbers as text inside a page.
 *
 * Exists because a page that opens from disk can load nothing else: its data are in it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL = 6, LEVEL_SERVED = 1 };

tt_status tt_page_put_json(tt_buf *out, const tt_buf *json)
{
    if (json->st < 0)
        return out->st = json->st;
    for (const char *at = json->data, *end = at + json->len; at != NULL && at < end;) {
        const char *next = memchr(at, '<', (size_t)(end - at));
        (void)tt_buf_append(out, at, (size_t)((next != NULL ? next : end) - at));
        if (next != NULL)
            (void)tt_buf_text(out, "\\u003c");
        at = next != NULL ? next + 1 : end;
    }
    return out->st;
}

tt_status tt_page_put_base64(tt_buf *out, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    tt_status st = tt_buf_reserve(out, (n + 2) / 3 * 4);
    if (st < 0)
        return st;
    char *to = out->data + out->len;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        *to++ = digits[three >> 18];
        *to++ = digits[three >> 12 & 63];
        *to++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[three & 63] : '=';
    }
    *to = '\0';
    out->len += (n + 2) / 3 * 4;
    return TT_OK;
}

tt_status tt_page_put_block(tt_buf *out, const char *name, const tt_buf *bytes)
{
    struct libdeflate_compressor *deflate = libdeflate_alloc_compressor(LEVEL); /* owned */
    size_t most = deflate != NULL ? libdeflate_deflate_compress_bound(deflate, bytes->len) : 0;
    unsigned char *packed = most > 0 ? malloc(most) : NULL; /* owned */
    if (packed == NULL || bytes->st < 0) {
        out->st = bytes->st < 0 ? bytes->st : TT_ENOMEM;
    } else {
        size_t len = libdeflate_deflate_compress(deflate, bytes->data, bytes->len, packed, most);
        (void)tt_buf_printf(out, "<script type=\"text/plain\" data-name=\"%s\">", name);
        (void)tt_page_put_base64(out, packed, len);
        (void)tt_buf_text(out, "</script>\n");
    }
    free(packed);
    libdeflate_free_compressor(deflate);
    return out->st;
}

tt_status tt_page_gzip(const tt_buf *bytes, tt_buf *out)
{
    struct libdeflate_compressor *gzip = libdeflate_alloc_compressor(LEVEL_SERVED); /* owned */
    size_t most = gzip != NULL ? libdeflate_gzip_compress_bound(gzip, bytes->len) : 0;
    tt_status st = most > 0 ? tt_buf_reserve(out, most) : TT_ENOMEM;
    if (st == TT_OK)
        out->len += libdeflate_gzip_compress(gzip, bytes->data, bytes->len, out->data + out->len, most);
    libdeflate_free_compressor(gzip);
    return st;
}

tt_status tt_page_put_floats(tt_buf *out, const float *x, size_t rows, size_t room, size_t from,
                             size_t to, size_t bytes)
{
    size_t across = to - from, n = rows * across;
    tt_status st = tt_buf_reserve(out, n * bytes);
    if (st < 0)
        return st;
    unsigned char *planes = (unsigned char *)out->data + out->len;
    const uint32_t half = bytes < 4 ? UINT32_C(1) << (8 * (4 - bytes) - 1) : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i / across * room + from + i % across], sizeof bits);
        bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
        bits = is_nan ? UINT32_C(0x7fc00000) : bits + half; /* rounded to the nearest */
        if (!is_nan && (bits & 0x7f800000) == 0x7f800000)
            bits -= half + (half > 0); /* not up to infinity */
        for (size_t b = 0; b < bytes; b++)
            planes[b * n + i] = (unsigned char)(bits >> (24 - 8 * b));
    }
    out->len += n * bytes;
    return TT_OK;
}
