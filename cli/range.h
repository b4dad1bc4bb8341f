/* range.h -- steps as people write them: 3, 3:7, 3:, :7, :.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_RANGE_H
#define TT_CLI_RANGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_range {
    int64_t first, last; /* both belong to it */
} tt_range;

#define TT_RANGE_ALL ((tt_range){ .first = INT64_MIN, .last = INT64_MAX })

/* False: not a range.  A:B is from A up to and with B. */
bool tt_range_parse(const char *text, tt_range *out);
/* A whole number that is not negative. */
bool tt_range_count(const char *text, int64_t *out);

#endif
