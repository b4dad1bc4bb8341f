/* encode.h -- bytes and numbers as text inside a page.  For page only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_PAGE_ENCODE_H
#define TT_PAGE_ENCODE_H

#include "base/buf.h"

/* Appends JSON so that no text in it can end the element around it. */
tt_status tt_page_put_json(tt_buf *out, const tt_buf *json);
tt_status tt_page_put_base64(tt_buf *out, const void *data, size_t n);
/* Appends an element that holds the bytes, deflated, in base64. */
tt_status tt_page_put_block(tt_buf *out, const char *name, const tt_buf *bytes);
/* Appends numbers, of which so many bytes are kept (2: two digits, 3: four, 4: all that float32
 * has): those from `from` to `to` of each row of `room` numbers.  All first bytes come first, then
 * all second ones: they are alike. */
tt_status tt_page_put_floats(tt_buf *out, const float *x, size_t rows, size_t room, size_t from,
                             size_t to, size_t bytes);

#endif
