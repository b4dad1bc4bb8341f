/* glyph_width.h -- how many columns of a terminal a character takes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_GLYPH_WIDTH_H
#define TT_REPORT_GLYPH_WIDTH_H

#include <stdint.h>

/* 0: combining or invisible; 2: East Asian wide and emoji; else 1.  The same in
 * every locale, unlike wcwidth. */
int tt_glyph_width(uint32_t code);

#endif
