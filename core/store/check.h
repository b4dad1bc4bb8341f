/* check.h -- what the two looks at a file that `check` takes have in common.
 * For store only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_CHECK_H
#define TT_STORE_CHECK_H

#include "store/run.h"

/* TT_EFORMAT: the file was not closed, has grown since, or is not whole. */
tt_status tt_tap_check_bytes(const tt_tap *tap, tt_check *out);

#endif
