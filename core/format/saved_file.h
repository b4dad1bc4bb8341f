/* saved_file.h -- writes one tensor as a file that is there whole, or not at all.
 * For format only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_SAVED_FILE_H
#define TT_FORMAT_SAVED_FILE_H

#include "format/formats.h"

/* Where the elements come from: a tensor, or memory that another thread may still be filling. */
typedef struct tt_elements {
    const tt_tensor *tensor; /* NULL: data */
    const char *data;
    void (*wait)(void *context, size_t bytes); /* until so many are there; NULL: all are */
    void *context;
} tt_elements;

tt_status tt_saved_write(const char *path, tt_format format, const tt_content *content,
                         const tt_elements *elements, tt_error *err);
/* Of a tensor; shape is borrowed from it. */
tt_content tt_content_of(const tt_tensor *t, const char *dtype_name);

#endif
