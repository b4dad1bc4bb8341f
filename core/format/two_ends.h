/* two_ends.h -- a file in memory that is written from both ends at once.
 *
 *     the writer                              a thread with nothing to do
 *     tt_ends_open(&ends, &about);
 *     while (tt_ends_claim(&ends, &at, &n))   tt_ends_help(&ends);
 *         write(at, n);                       // the last piece, the one before it ...
 *     tt_ends_close(&ends);                   // ... until they meet
 *
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_TWO_ENDS_H
#define TT_FORMAT_TWO_ENDS_H

#include "base/status.h"

#include <stdatomic.h>

/* What is to be in the file. */
typedef struct tt_ends_content {
    int fd;                       /* nobody else may have the file, and it can be read too */
    size_t head;                  /* bytes before them, the writer's to write; less than a piece */
    const char *data;             /* the elements, which somebody may still be filling in */
    size_t bytes;                 /* of them */
    const _Atomic size_t *filled; /* of these; NULL: all */
    bool has_sum;                 /* a CRC-32 is wanted of what the helper writes */
} tt_ends_content;

/* { 0 } is the beginning. */
typedef struct tt_ends {
    tt_ends_content about;
    uint32_t crc; /* of what the helper has written, when it is over */
    _Atomic uint64_t
        claims; /* pieces: the writer's from the front; in the top half, where the helper's begin */
    _Atomic int state; /* not yet, open, a helper at work, over */
} tt_ends;

void tt_ends_open(tt_ends *ends, const tt_ends_content *about);
/* Gives the writer its next elements: n bytes from index at on.  False: there are no more,
 * and what the helper took is in the file. */
bool tt_ends_claim(tt_ends *ends, size_t *at, size_t *n);
/* Whatever happened: no helper uses fd or data after that. */
void tt_ends_close(tt_ends *ends);
/* Is there anything to help with? */
bool tt_ends_is_open(const tt_ends *ends);
bool tt_ends_is_begun(const tt_ends *ends); /* open, or it was */
void tt_ends_help(tt_ends *ends);

#endif
