/* glob.c -- does a name match a pattern such as `*.weight,loss`?
 *
 * Exists because fnmatch() treats '/' and '[' in ways our names cannot use.
 * After a mismatch only the latest star gives way, so the time is at most the
 * length of the pattern times that of the name; there is no blow-up.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

/* One alternative, from glob up to a comma or the end. */
static bool match_one(const char *glob, const char *name)
{
    const char *star = NULL, *resume = NULL; /* latest star; where it next stops eating */
    while (*name != '\0') {
        if (*glob == '*') {
            star = ++glob;
            resume = name;
        } else if (*glob != '\0' && *glob != ',' && (*glob == '?' || *glob == *name)) {
            glob++;
            name++;
        } else if (star != NULL) {
            glob = star;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0' || *glob == ',';
}

bool tt_glob_match(const char *glob, const char *name)
{
    for (;;) {
        if (match_one(glob, name))
            return true;
        while (*glob != '\0' && *glob != ',')
            glob++;
        if (*glob == '\0')
            return false;
        glob++;
    }
}
