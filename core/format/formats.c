/* formats.c -- the table of formats.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/formats.h"

#include <string.h>

static const struct {
    const char *name;
    tt_format_row row;
} formats[] = {
#define X(name, text, head, tail) [TT_FORMAT_##name] = { text, { head, tail } },
    X(PT, "pt", tt_pt_head, tt_pt_tail)
    X(NPY, "npy", tt_npy_head, NULL)
    X(SAFETENSORS, "safetensors", tt_safetensors_head, NULL)
    X(BYTES, "bytes", NULL, NULL)
#undef X
};
_Static_assert(sizeof formats / sizeof *formats == TT_FORMAT_COUNT_, "describe every format");

const tt_format_row *tt_format_of(tt_format format)
{
    return &formats[format].row;
}

const char *tt_format_name(tt_format format)
{
    return formats[format].name;
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
