/* status.h -- how the core reports failure.  For every folder of the core.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H

#include "tensortap.h"

/* Writes the detail (if err is not NULL) and returns st, so that a failure is
 * one line: return tt_fail(err, TT_EIO, "%s: %s", path, strerror(errno)); */
tt_status tt_fail(tt_error *err, tt_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
