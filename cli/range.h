/* range.h -- steps as people write them: 3, 3:7, 3:, :7, :.  For tt_option.read.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_RANGE_H
#define TT_CLI_RANGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_range {
    int64_t first, last; /* both belong to it */
} tt_range;

#define TT_RANGE_ALL                          \
    {                                         \
        .first = INT64_MIN, .last = INT64_MAX \
    }

#define TT_RANGE_TAKES "A:B, A:, :B or A"

static inline bool tt_range_has(const tt_range *range, int64_t step)
{
    return step >= range->first && step <= range->last;
}

/* False: not a range.  A:B is from A up to and with B. */
bool tt_range_parse(const char *text, void *out); /* tt_range */
/* A whole number that is not negative. */
bool tt_range_count(const char *text, void *out); /* int64_t */

#endif
