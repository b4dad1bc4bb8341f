/* status.h -- how the core reports failure.  For every folder of the core.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H

#include "tensortap_tools.h" /* tt_fail */

#endif
