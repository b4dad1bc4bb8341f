/* out_file.h -- a file that appears under its name only when it is whole.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_OUT_FILE_H
#define TT_FORMAT_OUT_FILE_H

#include "base/status.h"

#include <stdio.h>

typedef struct tt_out_file {
    FILE *file;        /* owned; NULL: not open */
    char *path, *part; /* owned; part: where it is written */
} tt_out_file;

tt_status tt_out_open(tt_out_file *out, const char *path, tt_error *err);
/* Elements in logical order, little-endian.  widens: as f32, for types that the
 * reader does not know. */
tt_status tt_out_elements(tt_out_file *out, const tt_tensor *t, bool widens);
/* Gives the file its name if st is TT_OK, else removes it; returns st or what failed. */
tt_status tt_out_close(tt_out_file *out, tt_status st, tt_error *err);

#endif
