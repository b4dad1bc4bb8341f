/* hash.h -- makes one number of many, for tables that ask "is it the same as last time?".
 *
 * Not for files or other processes: the result may change with any version.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_HASH_H
#define TT_EXT_BASE_HASH_H

#include <stdint.h>

static inline uint64_t base_hash_mix(uint64_t hash, uint64_t part)
{
    hash = (hash + 0x9E3779B97F4A7C15u) ^ part;
    hash *= 0xD6E8FEB86659FD93u;
    return hash ^ hash >> 32;
}

#endif
