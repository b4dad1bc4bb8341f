/* utf8.h -- characters out of bytes that may be anything.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_UTF8_H
#define TT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_UTF8_BYTES = 4 }; /* the longest character */
#define TT_UTF8_INVALID UINT32_MAX

/* Reads the character at the beginning of len > 0 bytes; returns its length.
 * Overlong forms, surrogates and numbers above U+10FFFF are invalid: *code is
 * TT_UTF8_INVALID and the length that of the part that cannot be continued, so
 * that as many U+FFFD come out as Unicode recommends and Python gives. */
size_t tt_utf8_read(const char *text, size_t len, uint32_t *code);
/* True of a control character (C0, DEL, C1), one that is invisible, and one that changes the
 * order in which others appear: what is escaped wherever text of somebody else is written. */
bool tt_utf8_is_treacherous(uint32_t code);

#endif
