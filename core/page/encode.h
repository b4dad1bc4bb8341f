/* encode.h -- bytes and numbers as text inside a page.  For page only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_PAGE_ENCODE_H
#define TT_PAGE_ENCODE_H

#include "base/buf.h"

/* Appends JSON so that no text in it can end the element around it. */
tt_status tt_page_put_json(tt_buf *out, const tt_buf *json);
/* Appends an element that holds the bytes, deflated, in base64. */
tt_status tt_page_put_block(tt_buf *out, const char *name, const void *bytes, size_t n);
/* The same for numbers, of which so many bytes are kept (2: two digits, 3: four, 4: all that
 * float32 has).  All first bytes come first, then all second ones: they are alike. */
tt_status tt_page_put_floats(tt_buf *out, const char *name, const float *x, size_t n, size_t bytes);

#endif
