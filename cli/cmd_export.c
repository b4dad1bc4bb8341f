/* cmd_export.c -- tensortap export RUN GLOB --to FORMAT -o OUT
 *
 * csv and json hold statistics, npy and safetensors values; all four are written
 * here.  The others need a library of Python's.  Every format is alike in what it does
 * with a damaged run: one line and nothing written, or with --partial what can be read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "export_values.h"
#include "overview.h"
#include "progress.h"
#include "python_exec.h"
#include "range.h"
#include "screen.h"
#include "suggest.h"

#include <stdio.h>
#include <string.h>

enum { TO = 256, STEP, PARTIAL };

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
    tt_arguments shared;
    const char *out;
    size_t format; /* FORMATS: not given */
    const char *steps_text;
    tt_range steps;
    bool is_partial;
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
    case PARTIAL:
        args->is_partial = true;
        return 0;
    case ARGP_KEY_END:
        (void)tt_arguments_parse(&args->shared, key, arg, state);
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
        return tt_arguments_parse(&args->shared, key, arg, state);
    }
}

static const struct argp_option options[] = {
    { "to", TO, "FORMAT", 0,
      "Statistics: csv, json, sqlite, parquet, tensorboard; values: npy, safetensors, pt; both: hdf5",
      0 },
    { "output", 'o', "OUT", 0,
      "A file; for npy and tensorboard a folder; - is standard output (csv and json)", 0 },
    { "step", STEP, "A:B", 0, "Steps from A up to and with B", 0 },
    { "partial", PARTIAL, NULL, 0,
      "Of a damaged run, write what can be read; exit with 1 if something is missing", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN [GLOB]",
    .doc = "Write a run in a format that other tools read.\v"
           "For example: tensortap export runs/today 'parameter/*' --to pt -o weights.pt",
};

/* Blocks that the reader stepped over, which nobody would miss. */
static tt_exit look_for_damage(const tt_run *run, const arguments *args, tt_error *err)
{
    tt_totals totals;
    char size[TT_NUMBER_TEXT];
    tt_overview_totals(run, &totals);
    if (totals.damaged == 0)
        return TT_EXIT_FINE;
    (void)tt_screen_bytes(totals.damaged, size);
    if (args->is_partial) {
        fprintf(stderr, "tensortap: %s of the run are damaged and missing\n", size);
        return TT_EXIT_FOUND;
    }
    (void)snprintf(err->text, sizeof err->text,
                   "%s of the run are damaged: nothing was written; 'tensortap check' says where, "
                   "--partial exports the rest",
                   size);
    return TT_EXIT_FAILED;
}

static tt_exit export_in_python(const arguments *args, bool has_loss, tt_error *err)
{
    char to[16], steps[64], how[16];
    (void)snprintf(to, sizeof to, "%s", formats[args->format].name);
    (void)snprintf(steps, sizeof steps, "%s", args->steps_text != NULL ? args->steps_text : ":");
    (void)snprintf(how, sizeof how, "%s", has_loss ? "lossy" : args->is_partial ? "partial" : "whole");
    char *rest[] = { (char *)(uintptr_t)args->shared.run,
                     (char *)(uintptr_t)args->shared.glob,
                     to,
                     (char *)(uintptr_t)args->out,
                     steps,
                     how,
                     NULL };
    return tt_python_exec("export", rest, err);
}

static tt_status export_here(const tt_export *what, const char *format, tt_error *err)
{
    return strcmp(format, "csv") == 0    ? tt_export_csv(what, err)
           : strcmp(format, "json") == 0 ? tt_export_json(what, err)
           : strcmp(format, "npy") == 0  ? tt_export_npy(what, err)
                                         : tt_export_safetensors(what, err);
}

/* The exit code, and where it is damage what to do about it. */
static tt_exit finish(tt_status st, int64_t lost, tt_exit damage, tt_error *err)
{
    static const char hint[] = "; --partial exports the rest";
    size_t len = strlen(err->text);
    if (st == TT_EFORMAT && len + sizeof hint <= sizeof err->text)
        memcpy(err->text + len, hint, sizeof hint);
    if (st < 0)
        return st == TT_EMISMATCH ? TT_EXIT_USAGE : TT_EXIT_FAILED;
    if (lost > 0)
        fprintf(stderr, "tensortap: %lld point%s could not be read and %s missing\n", (long long)lost,
                lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
    return lost > 0 ? TT_EXIT_FOUND : damage;
}

tt_exit tt_cmd_export(int argc, char **argv, tt_error *err)
{
    arguments args = { .shared = { .least = 1, .most = 2, .glob = "*" },
                       .format = FORMATS,
                       .steps = TT_RANGE_ALL };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    tt_run *run = NULL;
    bool is_python = formats[args.format].is_python;
    int64_t lost = 0;
    tt_exit code = tt_overview_open(args.shared.run, &run, err), damage = TT_EXIT_FINE;
    if (code == TT_EXIT_FINE && !tt_overview_has_site(run, args.shared.glob))
        code = tt_overview_no_site(run, args.shared.glob, err);
    if (code == TT_EXIT_FINE)
        damage = look_for_damage(run, &args, err);
    if (code == TT_EXIT_FINE && damage == TT_EXIT_FAILED)
        code = damage;
    if (code != TT_EXIT_FINE)
        goto out;
    tt_export what = { .run = run,
                       .glob = args.shared.glob,
                       .out = args.out,
                       .steps = args.steps,
                       .is_partial = args.is_partial,
                       .lost = &lost };
    tt_status st = TT_OK;
    if (is_python && formats[args.format].has_values) {
        st = tt_export_weigh(&what, err);
        st = st == TT_ELIMIT ? st : TT_OK; /* the rest is for the exporter to say */
        err->text[0] = st == TT_OK ? '\0' : err->text[0];
    } else if (!is_python) {
        what.bar = tt_progress_start("exporting");
        st = export_here(&what, formats[args.format].name, err);
        tt_progress_end(what.bar);
    }
    code = is_python && st == TT_OK ? TT_EXIT_FINE : finish(st, lost, damage, err);
out:
    tt_run_close(run);
    if (code == TT_EXIT_FINE && is_python)
        return export_in_python(&args, damage != TT_EXIT_FINE, err);
    return code;
}
