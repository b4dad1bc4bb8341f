/* damage.c -- says what of a run could not be read, and what to do about it.
 *
 * Exists so that whoever meets a damaged file is told the one command that helps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tt_status tt_tap_fail(const tt_tap *tap, tt_status st, tt_error *err, const char *format, ...)
{
    char what[96];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    /* Half a path is no command. */
    const char *path = strlen(tap->path) <= 80 ? tap->path : "RUN";
    if (st == TT_EFORMAT)
        return tt_fail(err, st,
                       "%s cannot be read, the file is damaged; save the rest with: "
                       "tensortap check --repair %s",
                       what, path);
    if (st == TT_ELIMIT)
        return tt_fail(err, st, "%.100s: %s claims more than a run can hold; it was refused", path, what);
    return tt_fail(err, st, "%.100s: %s: %s", tap->path, what, tt_status_text(st));
}
