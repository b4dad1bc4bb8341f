/* cmd_check.c -- tensortap check RUN [--repair]
 * SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "header.h"
#include "json_out.h"
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPAIR = 256 };

typedef struct arguments {
    tt_arguments shared;
    bool repairs;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case REPAIR:
        args->repairs = true;
        return 0;
    default:
        return tt_arguments_parse(&args->shared, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "repair", REPAIR, NULL, 0,
      "Write what can be read into a clean file, rankN.repaired.tap, beside each that is damaged or was "
      "not closed",
      0 },
    { "json", TT_ARGUMENTS_JSON, NULL, 0, "Print JSON", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN",
    .doc = "Read a run and verify every checksum.  Exit code 1: something is damaged.\v"
           "For example: tensortap check runs/today --repair",
};

static void print_text(const tt_check *c, const char *path, const char *repaired, const tt_screen *screen)
{
    const char *alarm = tt_header_ink(screen, TT_MOOD_ALARM),
               *plain = tt_header_ink(screen, TT_MOOD_PLAIN),
               *remark = tt_header_ink(screen, TT_MOOD_REMARK);
    char a[TT_NUMBER_TEXT], b[TT_NUMBER_TEXT];
    tt_screen_name(screen, path);
    if (c->damaged_bytes > 0)
        printf("  %sdamaged%s: %s in %s place%s cannot be read; the first is %s", alarm, plain,
               tt_screen_bytes(c->damaged_bytes, a), tt_screen_count(c->damaged_blocks, b),
               c->damaged_blocks == 1 ? "" : "s", c->first);
    else
        printf("  %swhole%s", tt_header_ink(screen, TT_MOOD_SPARK), plain);
    if (!c->is_closed)
        printf("  %snot closed%s", remark, plain);
    putchar('\n');
    printf("  %s blocks, %s points", tt_screen_count(c->blocks, a), tt_screen_count(c->points, b));
    printf(", %s values", tt_screen_count(c->values, a));
    if (c->gone_values > 0)
        printf(", %s values were evicted (max_bytes)", tt_screen_count(c->gone_values, a));
    if (c->torn_bytes > 0)
        printf(", %s of an unfinished block at the end", tt_screen_bytes(c->torn_bytes, a));
    putchar('\n');
    if (repaired != NULL) {
        fputs("  all that can be read is in ", stdout);
        tt_screen_name(screen, repaired);
        putchar('\n');
    }
}

static void print_json(tt_json_out *json, const tt_check *c, const char *path, const char *repaired)
{
    tt_json_open(json, NULL, '{');
    tt_json_words(json, "file", path);
    tt_json_flag(json, "whole", c->damaged_bytes == 0);
    tt_json_flag(json, "closed", c->is_closed);
    tt_json_whole(json, "blocks", c->blocks);
    tt_json_whole(json, "points", c->points);
    tt_json_whole(json, "values", c->values);
    tt_json_whole(json, "gone_values", c->gone_values);
    tt_json_whole(json, "damaged_blocks", c->damaged_blocks);
    tt_json_whole(json, "damaged_bytes", c->damaged_bytes);
    tt_json_whole(json, "torn_bytes", c->torn_bytes);
    tt_json_words(json, "first_damage", c->damaged_bytes > 0 ? c->first : NULL);
    tt_json_words(json, "repaired", repaired);
    tt_json_close(json, '}');
}

/* rank0.tap -> rank0.repaired.tap; owned by the caller. */
static char *repaired_path(const char *path)
{
    size_t len = strlen(path), stem = len > 4 && strcmp(path + len - 4, ".tap") == 0 ? len - 4 : len;
    char *out = NULL;
    return asprintf(&out, "%.*s.repaired.tap", (int)stem, path) < 0 ? NULL : out;
}

tt_exit tt_cmd_check(int argc, char **argv, tt_error *err)
{
    arguments args = { .shared = { .least = 1, .most = 1 } };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_screen screen;
    tt_screen_look(&screen);
    tt_run *run = NULL;
    tt_exit code = tt_overview_open(args.shared.run, &run, err);
    if (code != TT_EXIT_FINE)
        return code;
    tt_json_out json = { 0 };
    tt_totals totals;
    tt_overview_totals(run, &totals);
    tt_progress *bar = tt_progress_start("checking");
    bool is_damaged = false;
    if (args.shared.is_json)
        tt_json_open(&json, NULL, '[');
    for (int32_t f = 0; code != TT_EXIT_FAILED && f < tt_run_file_count(run); f++) {
        tt_run_file file;
        tt_check about;
        char *repaired = NULL;
        tt_status st = tt_run_file_get(run, f, &file);
        if (st == TT_OK)
            st = tt_run_check(run, f, &about, err);
        if (st == TT_OK && args.repairs && (about.damaged_bytes > 0 || !about.is_closed)) {
            repaired = repaired_path(file.path);
            st = repaired != NULL ? tt_run_repair(run, f, repaired, &about, err) : TT_ENOMEM;
        }
        tt_progress_end(bar);
        bar = NULL;
        if (st < 0)
            code = TT_EXIT_FAILED;
        else if (args.shared.is_json)
            print_json(&json, &about, file.path, repaired);
        else
            print_text(&about, file.path, repaired, &screen);
        is_damaged |= st == TT_OK && about.damaged_bytes > 0;
        free(repaired);
    }
    tt_progress_end(bar);
    if (args.shared.is_json)
        tt_json_close(&json, ']');
    if (code == TT_EXIT_FINE && is_damaged && !args.repairs && !args.shared.is_json)
        puts("'tensortap check --repair' writes all that can be read into a clean file");
    tt_run_close(run);
    return code == TT_EXIT_FAILED ? code : is_damaged ? TT_EXIT_FOUND : TT_EXIT_FINE;
}
