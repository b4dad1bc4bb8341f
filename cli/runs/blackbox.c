/* blackbox.c -- says that a run has a black box.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/blackbox.h"

#include "output/screen.h"

int tt_blackbox_print(const char *run)
{
    tt_blackboxes found;
    tt_blackbox_visit(run, false, &found);
    if (found.count == 0)
        return 0;
    tt_screen_say(TT_MOOD_REMARK,
                  "black box of step %s; run it again: ", tt_screen_count(found.first_step));
    tt_screen_say(TT_MOOD_PLAIN, "tensortap replay %s\n", run);
    return 1;
}
