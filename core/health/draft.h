/* draft.h -- findings while they are collected.  For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_DRAFT_H
#define TT_HEALTH_DRAFT_H

#include "health/rule.h"

typedef struct tt_draft {
    tt_findings public; /* first: tt_findings_free gets its address */
    tt_arena texts;
    size_t item_cap, unchecked_cap;
    int32_t ranks; /* that the run has */
} tt_draft;

/* Runs one rule over all files. */
tt_status tt_draft_apply(tt_draft *draft, const tt_rule *rule, const tt_history *histories, int32_t count,
                         const tt_history *baseline);
/* Drops what follows from something else and what the baseline has too; puts the heaviest first. */
tt_status tt_draft_settle(tt_draft *draft, const tt_draft *baseline);

#endif
