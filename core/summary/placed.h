/* placed.h -- adds up digests that survive resharding (tt_placed_compute).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_PLACED_H
#define TT_SUMMARY_PLACED_H

#include "tensortap.h"

void tt_placed_add(tt_digest *into, const tt_digest *more);

#endif
