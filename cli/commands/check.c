/* check.c -- tensortap check RUN [--repair]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/json.h"
#include "output/progress.h"
#include "runs/overview.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool repairs; /* --repair */

static void print_text(const tt_check *c, const char *path, const char *repaired)
{
    tt_screen_say(TT_MOOD_PLAIN, "%s  ", path);
    if (c->damaged_bytes > 0) {
        tt_screen_say(TT_MOOD_ALARM, "damaged");
        printf(": %s in %s place%s cannot be read; the first is %s", tt_screen_bytes(c->damaged_bytes),
               tt_screen_count(c->damaged_blocks), c->damaged_blocks == 1 ? "" : "s", c->first);
    } else {
        tt_screen_say(TT_MOOD_SPARK, "whole");
    }
    if (!c->is_closed) {
        fputs("  ", stdout);
        tt_screen_say(TT_MOOD_REMARK, "not closed");
    }
    printf("\n  %s blocks, %s points, %s values", tt_screen_count(c->blocks), tt_screen_count(c->points),
           tt_screen_count(c->values));
    if (c->gone_values > 0)
        printf(", %s values were evicted (max_bytes)", tt_screen_count(c->gone_values));
    if (c->torn_bytes > 0)
        printf(", %s of an unfinished block at the end", tt_screen_bytes(c->torn_bytes));
    putchar('\n');
    if (repaired != NULL)
        tt_screen_say(TT_MOOD_PLAIN, "  all that can be read is in %s\n", repaired);
}

static void put_json(tt_json *json, const tt_check *c, const char *path, const char *repaired)
{
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "file", path);
    tt_json_bool(json, "whole", c->damaged_bytes == 0);
    tt_json_bool(json, "closed", c->is_closed);
    tt_json_i64(json, "blocks", c->blocks);
    tt_json_i64(json, "points", c->points);
    tt_json_i64(json, "values", c->values);
    tt_json_i64(json, "gone_values", c->gone_values);
    tt_json_i64(json, "damaged_blocks", c->damaged_blocks);
    tt_json_i64(json, "damaged_bytes", c->damaged_bytes);
    tt_json_i64(json, "torn_bytes", c->torn_bytes);
    tt_json_text(json, "first_damage", c->damaged_bytes > 0 ? c->first : NULL);
    tt_json_text(json, "repaired", repaired);
    tt_json_close(json);
}

/* rank0.tap -> rank0.repaired.tap; owned by the caller. */
static char *repaired_path(const char *path)
{
    size_t len = strlen(path), stem = len > 4 && strcmp(path + len - 4, ".tap") == 0 ? len - 4 : len;
    char *out = NULL;
    return asprintf(&out, "%.*s.repaired.tap", (int)stem, path) < 0 ? NULL : out;
}

static tt_exit check(tt_call *call)
{
    tt_run *run = call->runs[0];
    tt_json *json = call->is_json ? tt_json_begin_schema("files") : NULL;
    tt_progress_start("checking");
    tt_status st = TT_OK;
    bool is_damaged = false;
    for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(run); f++) {
        tt_run_file file = tt_overview_file(run, f);
        tt_check about;
        char *repaired = NULL;
        st = tt_run_check(run, f, &about, call->err);
        if (st == TT_OK && repairs && (about.damaged_bytes > 0 || !about.is_closed)) {
            repaired = repaired_path(file.path);
            st = repaired != NULL ? tt_run_repair(run, f, repaired, &about, call->err) : TT_ENOMEM;
        }
        tt_progress_end();
        if (st == TT_OK && json != NULL)
            put_json(json, &about, file.path, repaired);
        else if (st == TT_OK)
            print_text(&about, file.path, repaired);
        is_damaged |= st == TT_OK && about.damaged_bytes > 0;
        free(repaired);
    }
    tt_progress_end();
    if (json != NULL)
        st = tt_json_end(st);
    else if (st == TT_OK && is_damaged && !repairs)
        puts("'tensortap check --repair' writes all that can be read into a clean file");
    return st == TT_OK && is_damaged ? TT_EXIT_FOUND : tt_cmd_exit(st, call->err);
}

static const tt_option options[] = {
    { "repair", NULL,
      "Write what can be read into a clean file, rankN.repaired.tap, beside each that is damaged "
      "or was not closed",
      .to = &repairs },
};

const tt_cmd tt_cmd_check = {
    TT_CMD("check", "RUN", "verify every checksum, repair"),
    .doc = "Read a run and verify every checksum.  Exit code 1: something is damaged.\v"
           "For example: tensortap check runs/today --repair",
    TT_OPTIONS(options),
    .json = TT_JSON,
    TT_CMD_ONE_RUN,
    .run = check,
};
