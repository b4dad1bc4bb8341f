/* formats.c -- the table of formats.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"

#include <string.h>

static const struct {
    const char *name;
    tt_format_row row;
} formats[] = {
    [TT_FORMAT_PT] = { "pt", { .head = tt_pt_head, .tail = tt_pt_tail } },
    [TT_FORMAT_NPY] = { "npy", { .head = tt_npy_head, .widens = tt_npy_widens } },
    [TT_FORMAT_SAFETENSORS] = { "safetensors", { .head = tt_safetensors_head } },
    [TT_FORMAT_BYTES] = { "bytes", { .head = NULL } },
};
_Static_assert(sizeof formats / sizeof *formats == TT_FORMAT_COUNT_, "describe every format");

const tt_format_row *tt_format_of(tt_format format)
{
    return &formats[format].row;
}

bool tt_format_find(const char *name, tt_format *out)
{
    for (int i = 0; i < TT_FORMAT_COUNT_; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            *out = (tt_format)i;
            return true;
        }
    }
    return false;
}
