/* assets.h -- the page of web/ around its data; web/embed.py makes the definitions.
 *
 * The page is start, where it may get data from, head, facts (JSON), middle, data, tail.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_PAGE_ASSETS_H
#define TT_PAGE_ASSETS_H

#include <stddef.h>

extern const char tt_page_start[], tt_page_head[], tt_page_middle[], tt_page_tail[];
extern const size_t tt_page_start_len, tt_page_head_len, tt_page_middle_len, tt_page_tail_len;

#endif
