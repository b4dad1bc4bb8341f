/* json.h -- the rest of the JSON writer of tensortap_tools.h, for the core.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_JSON_H
#define TT_BASE_JSON_H

#include "base/buf.h"

void tt_json_f32(tt_json *json, const char *name, float x);
void tt_json_u64(tt_json *json, const char *name, uint64_t x);

#endif
