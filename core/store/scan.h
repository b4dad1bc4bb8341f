/* scan.h -- finds the blocks of a run file and builds its index.
 *
 * For store only.  tt_scan_open makes an index the quickest way there is: from
 * the footer; else from the latest index block and what follows it; else from
 * everything.  tt_scan_follow adds what was written since.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_SCAN_H
#define TT_STORE_SCAN_H

#include "store/block.h"
#include "store/index.h"

typedef struct tt_scan {
    int fd;            /* borrowed */
    int64_t size;      /* of the file, when last looked at */
    int64_t end;       /* behind the last whole block */
    uint32_t id;       /* of the file; 0: not known yet */
    uint64_t sequence; /* of the next block */
    bool is_closed;
    int64_t damaged;     /* bytes stepped over */
    int64_t search_left; /* bytes that may still be searched for a block after damage */
    tt_index *index;     /* borrowed */
    tt_buf body;         /* of the latest block loaded; owned */
} tt_scan;

enum { TT_SCAN_SEARCH = 256 << 20 };

/* index must be empty. */
tt_status tt_scan_open(tt_scan *scan, int fd, tt_index *index);
tt_status tt_scan_follow(tt_scan *scan);
void tt_scan_free(tt_scan *scan);

/* Finds the next whole block at or behind *at, which moves there.  False: there is none (the
 * rest is torn or being written). *skipped (may be NULL): bytes that were stepped over. */
bool tt_scan_next(tt_scan *scan, int64_t *at, tt_block_head *head, int64_t *skipped);
/* Is there the header of a block of this file, which ends in it? */
bool tt_scan_is_block(const tt_scan *scan, int64_t at, tt_block_head *head);
/* Loads and checks the body into scan->body. */
tt_status tt_scan_body(tt_scan *scan, int64_t at, const tt_block_head *head);
/* Loads the body of the block of this kind at `at`; *head (may be NULL) is its header. */
tt_status tt_scan_load(tt_scan *scan, int64_t at, tt_block_kind kind, tt_block_head *head);

#endif
