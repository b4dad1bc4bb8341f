/* verdict.h -- what may be said of a run in which nothing was found.
 *
 * For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_VERDICT_H
#define TT_HEALTH_VERDICT_H

#include "health/history.h"

enum {
    TT_SEEN_OPTIMIZER = 1u << 0,
    TT_SEEN_LOSS = 1u << 1,
    TT_SEEN_MODEL = 1u << 2,
    TT_SEEN_GRADIENT = 1u << 3,
};

/* What the rules could look at. */
typedef struct tt_seen {
    unsigned kinds; /* TT_SEEN_ */
    int64_t steps;
    const char *stopped;            /* borrowed; "stopped by ValueError: ..."; NULL: it was not */
    const char *gaps[TT_GAPS_MOST]; /* borrowed; "66 tensors could not be read: wrapper", each once */
    int32_t gap_count;
    int32_t unjoined;        /* sites that no rule saw: their parts could not be joined ... */
    unsigned unjoined_kinds; /* ... TT_SEEN_ */
} tt_seen;

tt_seen tt_seen_of(const tt_history *files, int32_t count);
/* Why a rule has no data; NULL: for no cause that is known. */
const char *tt_seen_reason(const tt_seen *seen, const tt_rule *rule);
/* Adds which rules were not checked, and why, to the notes. */
void tt_verdict_note_unchecked(tt_findings *findings);
/* Sets is_healthy, and appends the verdict. */
tt_status tt_verdict_make(tt_findings *findings, const tt_seen *seen, tt_buf *out);

#endif
