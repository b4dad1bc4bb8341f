/* cmd_export.c -- tensortap export RUN GLOB --to FORMAT -o OUT
 *
 * csv and json hold statistics, npy and safetensors values; all four are written
 * here.  The others need a library of Python's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "export_values.h"
#include "given.h"
#include "opened.h"
#include "progress.h"
#include "python_exec.h"
#include "range.h"
#include "suggest.h"

#include <stdio.h>
#include <string.h>

enum { TO = 256, STEP };

static const struct {
    const char *name;
    bool is_python, has_values;
} formats[] = {
    { "csv", false, false },        { "json", false, false },   { "npy", false, true },
    { "safetensors", false, true }, { "pt", true, true },       { "hdf5", true, true },
    { "sqlite", true, false },      { "parquet", true, false }, { "tensorboard", true, false },
};
enum { FORMATS = sizeof formats / sizeof *formats };

typedef struct arguments {
    tt_given given;
    const char *out;
    size_t format; /* FORMATS: not given */
    const char *steps_text;
    tt_range steps;
} arguments;

static size_t find_format(const char *name, struct argp_state *state)
{
    const char *near = NULL;
    size_t best = 3;
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(formats[i].name, name) == 0)
            return i;
        size_t distance = tt_suggest_distance(name, formats[i].name);
        if (distance < best) {
            best = distance;
            near = formats[i].name;
        }
    }
    if (near != NULL)
        argp_failure(state, TT_EXIT_USAGE, 0, "no format '%s'; did you mean '%s'?", name, near);
    argp_failure(
        state, TT_EXIT_USAGE, 0,
        "no format '%s'; there are csv, json, npy, safetensors, pt, hdf5, sqlite, parquet, tensorboard",
        name);
    return FORMATS;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case TO:
        args->format = find_format(arg, state);
        return 0;
    case 'o':
        args->out = arg;
        return 0;
    case STEP:
        args->steps_text = arg;
        if (!tt_range_parse(arg, &args->steps))
            argp_failure(state, TT_EXIT_USAGE, 0, "--step takes A:B, A:, :B or A, not '%s'", arg);
        return 0;
    case ARGP_KEY_END:
        (void)tt_given_parse(&args->given, key, arg, state);
        if (args->format == FORMATS)
            argp_failure(
                state, TT_EXIT_USAGE, 0,
                "say --to csv, json, npy, safetensors, pt, hdf5, sqlite, parquet or tensorboard");
        if (args->out == NULL)
            argp_failure(state, TT_EXIT_USAGE, 0, "say where to: -o FILE");
        if (strcmp(args->out, "-") == 0 &&
            (formats[args->format].is_python || formats[args->format].has_values))
            argp_failure(state, TT_EXIT_USAGE, 0,
                         "only csv and json go to standard output; give %s a file name",
                         formats[args->format].name);
        return 0;
    default:
        return tt_given_parse(&args->given, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "to", TO, "FORMAT", 0,
      "Statistics: csv, json, sqlite, parquet, tensorboard; values: npy, safetensors, pt; both: hdf5",
      0 },
    { "output", 'o', "OUT", 0,
      "A file; for npy and tensorboard a folder; - is standard output (csv and json)", 0 },
    { "step", STEP, "A:B", 0, "Steps from A up to and with B", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN [GLOB]",
    .doc = "Write a run in a format that other tools read.\v"
           "For example: tensortap export runs/today 'parameter/*' --to pt -o weights.pt",
};

tt_exit tt_cmd_export(int argc, char **argv, tt_error *err)
{
    arguments args = { .given = { .least = 1, .most = 2, .glob = "*" },
                       .format = FORMATS,
                       .steps = TT_RANGE_ALL };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_run *run = NULL;
    tt_exit code = tt_opened_run(args.given.run, &run, err);
    if (code == TT_EXIT_FINE && !tt_opened_has_site(run, args.given.glob))
        code = tt_opened_no_site(run, args.given.glob, err);
    if (code != TT_EXIT_FINE || formats[args.format].is_python) {
        tt_run_close(run);
        char to[16], steps[64];
        (void)snprintf(to, sizeof to, "%s", formats[args.format].name);
        (void)snprintf(steps, sizeof steps, "%s", args.steps_text != NULL ? args.steps_text : ":");
        char *rest[] = { (char *)(uintptr_t)args.given.run,
                         (char *)(uintptr_t)args.given.glob,
                         to,
                         (char *)(uintptr_t)args.out,
                         steps,
                         NULL };
        return code != TT_EXIT_FINE ? code : tt_python_exec("_export", rest, err);
    }
    tt_progress *bar = tt_progress_start("exporting");
    tt_export what = {
        .run = run, .glob = args.given.glob, .out = args.out, .steps = args.steps, .bar = bar
    };
    tt_status st = strcmp(formats[args.format].name, "csv") == 0    ? tt_export_csv(&what, err)
                   : strcmp(formats[args.format].name, "json") == 0 ? tt_export_json(&what, err)
                   : strcmp(formats[args.format].name, "npy") == 0  ? tt_export_npy(&what, err)
                                                                    : tt_export_safetensors(&what, err);
    tt_progress_end(bar);
    tt_run_close(run);
    return st == TT_EMISMATCH ? TT_EXIT_USAGE : st < 0 ? TT_EXIT_FAILED : TT_EXIT_FINE;
}
