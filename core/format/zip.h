/* zip.h -- an uncompressed zip archive, written from front to back.
 *
 *     tt_zip zip = { .align = 64 };
 *     tt_zip_add(&zip, "a/version", "3\n", 2, out);
 *     tt_zip_begin(&zip, "a/data", bytes, out);     // `out` ends where the bytes go
 *     ... the bytes go somewhere else, not through `out` ...
 *     tt_zip_end(&zip, crc, out);                   // out goes on behind them
 *     tt_zip_finish(&zip, out);
 *
 * No time, no owner, no random number: the same content gives the same bytes.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_ZIP_H
#define TT_FORMAT_ZIP_H

#include "base/wire.h"

enum { TT_ZIP_ENTRIES = 8 };

typedef struct tt_zip_entry {
    const char *name; /* borrowed until finish */
    uint64_t bytes, at;
    uint32_t crc;
} tt_zip_entry;

typedef struct tt_zip {
    uint32_t align; /* of the bytes of every entry in the file */
    uint32_t count;
    uint64_t elsewhere; /* bytes of the file that did not go through out */
    tt_zip_entry entry[TT_ZIP_ENTRIES];
} tt_zip;

void tt_zip_begin(tt_zip *zip, const char *name, uint64_t bytes, tt_buf *out);
void tt_zip_end(tt_zip *zip, uint32_t crc, tt_buf *out);
void tt_zip_add(tt_zip *zip, const char *name, const void *bytes, size_t n, tt_buf *out);
void tt_zip_finish(tt_zip *zip, tt_buf *out);
uint32_t tt_crc32(uint32_t crc, const void *bytes, size_t n); /* starts with 0 */

#endif
