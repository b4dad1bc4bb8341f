/* latest.c -- the latest point of a site, and which sites a report is about.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/origin.h"
#include "store/run.h"

#include <math.h>
#include <string.h>

bool tt_site_is_shown(const char *name, const char *glob)
{
    bool is_ours = tt_name_begins(name, "tensortap/");
    if (is_ours && (glob == NULL || !tt_name_begins(glob, "tensortap/")))
        return false;
    return glob == NULL || tt_glob_match(glob, name);
}

bool tt_look_has_file(const tt_look *look, const tt_run *run, int32_t file)
{
    return look->rank < 0 || run->taps[file]->rank == look->rank;
}

int32_t tt_run_shown_count(const tt_run *run, const char *glob)
{
    int32_t count = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++)
        count += tt_run_has_points(run, site) && tt_site_is_shown(tt_run_site_name(run, site), glob);
    return count;
}

tt_status tt_run_look(tt_run *run, int32_t site, const tt_look *look, tt_latest *out, tt_error *err)
{
    const tt_phases either[] = { TT_PHASES_TRAIN, TT_PHASES_EVAL }, asked[] = { look->phases, 0 };
    const tt_phases *wanted = look->phases == 0 ? either : asked;
    tt_latest found = { .file = -1, .phases = wanted[0], .latest = { .ndim = -1, .scalar = NAN } };
    tt_status st = TT_OK;
    int64_t index = -1;
    for (int i = 0; i < 2 && wanted[i] != 0 && found.file < 0; i++)
        for (int32_t file = 0; st == TT_OK && file < run->count && found.file < 0; file++) {
            if (!tt_look_has_file(look, run, file) || tt_run_points(run, file, site) == 0)
                continue;
            st = tt_run_latest(run, file, site, wanted[i], INT64_MAX, &index, err);
            if (st == TT_OK && index >= 0) {
                found.index = index;
                found.file = file;
                found.phases = wanted[i];
            }
        }
    if (st == TT_OK && found.file >= 0)
        st = tt_run_point(run, found.file, site, found.index, &found.latest, err);
    for (int32_t file = 0; st == TT_OK && found.file >= 0 && file < run->count; file++) {
        if (!tt_look_has_file(look, run, file))
            continue;
        tt_point bad;
        st = tt_run_first_nonfinite(run, file, site, &index, err);
        found.has_nonfinite |= st == TT_OK && index >= 0;
        if (st == TT_OK && index >= 0)
            st = tt_fail_plain(err, tt_origin_of_site(run, file, site, &index));
        if (st == TT_OK && index >= 0 && tt_run_point(run, file, site, index, &bad, NULL) == TT_OK &&
            (!found.has_bad || bad.step < found.bad_step)) {
            found.has_bad = true;
            found.bad_step = bad.step;
        }
    }
    if (st == TT_OK)
        *out = found;
    return st;
}
