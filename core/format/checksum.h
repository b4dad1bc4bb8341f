/* checksum.h -- the CRC-32 of a file's elements, by one thread or two.
 *
 *     the writer                              a thread with nothing to do
 *     tt_checksum_add(&sum, piece, n);
 *     write(piece);                           tt_checksum_help(&sum, data, ...);
 *     tt_checksum_add(&sum, piece, n);        // the rest
 *     write(piece);   // add does nothing now
 *     ...
 *     crc = tt_checksum_end(&sum);
 *
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_CHECKSUM_H
#define TT_FORMAT_CHECKSUM_H

#include "base/status.h"

#include <stdatomic.h>

/* { 0 } is the beginning. */
typedef struct tt_checksum {
    _Atomic uint64_t front; /* bytes the writer has done or begun; the top bit: nobody may take more */
    uint32_t front_crc;     /* the writer's */
    uint32_t rest_crc;      /* the helper's, until helper is DONE */
    uint64_t rest;          /* the helper's: bytes it took */
    _Atomic int helper;     /* none, at work, done */
} tt_checksum;

void tt_checksum_add(tt_checksum *sum, const void *bytes, size_t n);
/* The same, of n bytes whose CRC-32 is known. */
void tt_checksum_add_crc(tt_checksum *sum, uint32_t crc, size_t n);
/* Waits for the helper.  Also for failures: nobody can help any more. */
uint32_t tt_checksum_end(tt_checksum *sum);
/* Is there anything to help with? */
bool tt_checksum_is_alone(const tt_checksum *sum);
/* Does the rest, in memory that is being filled (see below). */
void tt_checksum_help(tt_checksum *sum, const char *data, size_t bytes, const _Atomic size_t *filled);
/* Of two pieces of which the second has so many bytes. */
uint32_t tt_checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes);
/* Waits until another thread has filled so many bytes.  NULL: they are there. */
void tt_checksum_wait_filled(const _Atomic size_t *filled, size_t bytes);

#endif
