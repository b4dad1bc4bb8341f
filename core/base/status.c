/* status.c -- texts and details of failures.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include <stdarg.h>
#include <stdio.h>

const char *tt_version(void)
{
    return TT_VERSION;
}

const char *tt_status_text(tt_status st)
{
    switch (st) {
#define X(name, code, text) \
    case TT_##name:         \
        return text;
        TT_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

tt_status tt_fail_plain(tt_error *err, tt_status st)
{
    return st < 0 ? tt_fail(err, st, "%s", tt_status_text(st)) : st;
}

tt_status tt_fail(tt_error *err, tt_status st, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return st;
}
