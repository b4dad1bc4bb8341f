/* utf8.c -- characters out of bytes that may be anything.
 *
 * Exists because names and notes come from users' programs, and a terminal or
 * a JSON reader must not choke on them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <assert.h>

size_t tt_utf8_read(const char *text, size_t len, uint32_t *code)
{
    assert(len > 0);
    const unsigned char *byte = (const unsigned char *)text;
    uint32_t c = byte[0];
    if (c < 0x80) {
        *code = c;
        return 1;
    }
    *code = TT_UTF8_INVALID;
    size_t need = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4)
        return 1;
    /* The second byte alone tells overlong forms, surrogates and what is too large. */
    unsigned low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    c &= 0xFFu >> (need + 1);
    for (size_t i = 1; i < need; i++) {
        if (i == len || byte[i] < low || byte[i] > high)
            return i;
        c = c << 6 | (byte[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *code = c;
    return need;
}

bool tt_utf8_is_treacherous(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200B || c == 0x200E ||
           c == 0x200F || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           c == 0xFFFE || c == 0xFFFF || (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
}
