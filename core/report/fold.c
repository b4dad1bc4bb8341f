/* fold.c -- finds equal blocks that follow each other: h.0, h.1, ... are six times the same.
 *
 * The only rule for repeated layers: `show`, the page and `graph` fold the tree of a run by it, flow the
 * statements of a chart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include <assert.h>

/* Is `block` like the first, and another one than the block before it?  Lines of a loop come again with the
 * same numbers. */
static bool is_next(const tt_fold_item *first, const tt_fold_item *before, const tt_fold_item *block,
                    size_t length)
{
    bool is_other = false;
    for (size_t i = 0; i < length; i++) {
        if (block[i].kind != first[i].kind)
            return false;
        is_other = is_other || block[i].numbers != before[i].numbers;
    }
    return is_other;
}

size_t tt_fold_find(const tt_fold_item *items, size_t count, size_t at, size_t longest, size_t *times)
{
    assert(at < count);
    const tt_fold_item *first = items + at;
    size_t room = count - at, best = 0, length = 1;
    longest = longest < room / 2 ? longest : room / 2;
    while (length <= longest && first[length - 1].numbers == 0)
        length++; /* blocks of one list differ by a number */
    *times = 1;
    for (; length <= longest; length++) {
        size_t n = 1;
        while ((n + 1) * length <= room &&
               is_next(first, first + (n - 1) * length, first + n * length, length))
            n++;
        if ((n - 1) * length > (*times - 1) * best) {
            best = length;
            *times = n;
        }
    }
    return best;
}
