/* encode.c -- bytes and numbers as text inside a page.
 *
 * Exists because a page that opens from disk can load nothing else: its data are in it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/encode.h"

#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL = 6 };

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

static tt_status put_base64(tt_buf *out, const unsigned char *bytes, size_t n)
{
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

tt_status tt_page_put_block(tt_buf *out, const char *name, const void *bytes, size_t n)
{
    struct libdeflate_compressor *deflate = libdeflate_alloc_compressor(LEVEL); /* owned */
    size_t most = deflate != NULL ? libdeflate_deflate_compress_bound(deflate, n) : 0;
    unsigned char *packed = most > 0 ? malloc(most) : NULL; /* owned */
    if (packed == NULL) {
        out->st = TT_ENOMEM;
    } else {
        size_t len = libdeflate_deflate_compress(deflate, bytes, n, packed, most);
        (void)tt_buf_printf(out, "<script type=\"text/plain\" data-name=\"%s\">", name);
        (void)put_base64(out, packed, len);
        (void)tt_buf_text(out, "</script>\n");
    }
    free(packed);
    libdeflate_free_compressor(deflate);
    return out->st;
}

tt_status tt_page_put_floats(tt_buf *out, const char *name, const float *x, size_t n, size_t bytes)
{
    unsigned char *planes = malloc(n * bytes + 1); /* owned */
    if (planes == NULL)
        return out->st = TT_ENOMEM;
    const uint32_t half = bytes < 4 ? UINT32_C(1) << (8 * (4 - bytes) - 1) : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
        bits = is_nan ? UINT32_C(0x7fc00000) : bits + half; /* rounded to the nearest */
        if (!is_nan && (bits & 0x7f800000) == 0x7f800000)
            bits -= half + (half > 0); /* not up to infinity */
        for (size_t b = 0; b < bytes; b++)
            planes[b * n + i] = (unsigned char)(bits >> (24 - 8 * b));
    }
    (void)tt_page_put_block(out, name, planes, n * bytes);
    free(planes);
    return out->st;
}
