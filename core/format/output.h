/* output.h -- what a tt_output is made of, and how formats write into it.
 * For format only; everyone else uses tensortap_tools.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_FORMAT_OUTPUT_H
#define TT_FORMAT_OUTPUT_H

#include "base/file.h"

struct tt_output {
    int fd;
    char *path;       /* owned; what it will be called */
    char *temporary;  /* owned; the name under which it is written; NULL: none, or path */
    bool is_nameless; /* until it is whole */
};

/* "path: why", with the end of a long path. */
tt_status tt_output_fail(tt_error *err, tt_status st, const char *path, const char *why);

#endif
