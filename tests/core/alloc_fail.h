/* alloc_fail.h -- lets a test make the Nth allocation of the core fail.
 *
 * The linker sends the malloc, calloc and realloc of everything linked into a
 * test program here (-Wl,--wrap), so that the core itself carries no hook.
 *
 *     for (long nth = 1;; nth++) {
 *         alloc_fail_at(nth);
 *         tt_status st = the_thing();
 *         bool was_hit = alloc_fail_stop();
 *         if (!was_hit) { assert_int_equal(st, TT_OK); break; }
 *         assert_int_equal(st, TT_ENOMEM);
 *     }
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_TEST_ALLOC_FAIL_H
#define TT_TEST_ALLOC_FAIL_H

#include "base/buf.h"

#include <stdbool.h>

void alloc_fail_at(long nth); /* the nth allocation from now fails, once */
bool alloc_fail_stop(void);   /* no more; true if one did fail */
long alloc_count(void);       /* allocations so far */
size_t alloc_largest(void);   /* bytes of the largest malloc since alloc_fail_at */

/* The loop above, for what fills a buffer: `with` goes to `write` as it is. */
void alloc_fail_each(tt_status (*write)(const void *with, tt_buf *out), const void *with);

#endif
