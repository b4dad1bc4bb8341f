/* export.c -- tensortap export RUN GLOB --to FORMAT -o OUT
 *
 * csv, json and tensorboard hold statistics, npy and safetensors values; these are written
 * in C.  The others need a library of Python's.  Every format is alike in what it does
 * with a damaged run: one line and nothing written, or with --partial what can be read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/export.h"
#include "output/progress.h"
#include "runs/overview.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    bool has_points, has_values;
    tt_status (*write)(const tt_export *what, tt_error *err); /* NULL: Python does */
} formats[] = {
    { "csv", true, false, tt_export_points },
    { "json", true, false, tt_export_points },
    { "npy", false, true, tt_export_values },
    { "safetensors", false, true, tt_export_values },
    { "pt", false, true, NULL },
    { "hdf5", true, true, NULL },
    { "sqlite", true, false, NULL },
    { "parquet", true, false, NULL },
    { "tensorboard", true, false, tt_export_events },
};
enum { FORMATS = sizeof formats / sizeof *formats };

#define ALL_FORMATS "csv, json, npy, safetensors, pt, hdf5, sqlite, parquet"

static int64_t lost;
static tt_export args = { .steps = TT_RANGE_ALL, .lost = &lost };

static const char *format_name(size_t i)
{
    return i < FORMATS ? formats[i].name : NULL;
}

static size_t find_format(const tt_cmd *cmd)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, args.format) == 0)
            return i;
    tt_cmd_refuse(
        cmd, "%s",
        tt_cmd_unknown("format", args.format, format_name, "there are " ALL_FORMATS ", tensorboard"));
}

static size_t format; /* of formats */
static int64_t rank;  /* main.c opens it */
static const char *project;

/* A folder of Parquet files: the words are runs, all of them, and Python opens them. */
static bool is_dataset(void)
{
    static const char end[] = ".parquet";
    size_t len = args.out != NULL ? strlen(args.out) : 0, end_len = sizeof end - 1;
    bool is_file = len > end_len && strcmp(args.out + len - end_len, end) == 0;
    return args.format != NULL && strcmp(args.format, "parquet") == 0 && !is_file;
}

static bool opens_run(const tt_call *call)
{
    (void)call;
    return !is_dataset();
}

static void check(const tt_call *call)
{
    if (args.format == NULL)
        tt_cmd_refuse(call->cmd, "say --to " ALL_FORMATS " or tensorboard");
    format = find_format(call->cmd);
    if (args.out == NULL)
        tt_cmd_refuse(call->cmd, "say where to: -o FILE");
    if (strcmp(args.out, "-") == 0 && formats[format].write != tt_export_points)
        tt_cmd_refuse(call->cmd, "only csv and json go to standard output; give %s a file name",
                      formats[format].name);
    if (is_dataset() && (tt_call_has(call, "step") || tt_call_has(call, "rank")))
        tt_cmd_refuse(call->cmd,
                      "a folder of Parquet files holds whole runs; with --step or --rank, name a "
                      "file that ends in .parquet");
    if (!is_dataset() && call->count > 2)
        tt_cmd_refuse(call->cmd, "'%s' is one too many; put the pattern in quotes", call->words[2]);
    if (!is_dataset() && project != NULL)
        tt_cmd_refuse(call->cmd, "--project is for a folder of Parquet files");
    if (project != NULL && (*project == '\0' || strpbrk(project, "/=\\") != NULL || *project == '.'))
        tt_cmd_refuse(call->cmd, "--project takes a name without / and =, not '%s'", project);
}

/* Reports blocks that the reader skipped: their points would be missing silently. */
static tt_exit look_for_damage(const tt_run *run, tt_error *err)
{
    int64_t damaged = tt_run_totals(run).damaged_bytes;
    const char *size = tt_screen_bytes(damaged);
    if (damaged == 0)
        return TT_EXIT_FINE;
    if (!args.is_partial)
        return tt_cmd_fail(err, TT_EXIT_FAILED,
                           "%s of the run are damaged: nothing was written; 'tensortap check' says "
                           "where, --partial exports the rest",
                           size);
    fprintf(stderr, "tensortap: %s of the run are damaged and missing\n", size);
    return TT_EXIT_FOUND;
}

/* The exit code, and where it is damage what to do about it. */
static tt_exit finish(tt_status st, tt_exit damage, tt_error *err)
{
    static const char hint[] = "; --partial exports the rest";
    size_t len = strlen(err->text);
    if (st == TT_EFORMAT && len + sizeof hint <= sizeof err->text)
        memcpy(err->text + len, hint, sizeof hint);
    if (st < 0)
        return st == TT_EMISMATCH ? TT_EXIT_USAGE : tt_cmd_exit(st, err);
    if (lost > 0)
        fprintf(stderr, "tensortap: %lld point%s could not be read and %s missing\n", (long long)lost,
                lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
    return lost > 0 ? TT_EXIT_FOUND : damage;
}

static tt_exit export_command(tt_call *call)
{
    if (is_dataset())
        return tt_python_run(call);
    tt_run *files = call->parts[0] != NULL ? call->parts[0] : call->runs[0];
    args.run = formats[format].has_values ? files : call->runs[0]; /* values are not joined */
    args.glob = call->glob != NULL ? call->glob : "*";
    if (!tt_overview_has_site(args.run, args.glob))
        return tt_overview_no_site(args.run, args.glob, call->err);
    tt_exit damage = look_for_damage(files, call->err);
    if (damage == TT_EXIT_FAILED)
        return damage;
    bool is_in_python = formats[format].write == NULL;
    if ((formats[format].has_points && tt_export_weigh_points(&args, call->err) == TT_ELIMIT) ||
        (formats[format].has_values && is_in_python &&
         tt_export_weigh_values(&args, call->err) == TT_ELIMIT))
        return TT_EXIT_FAILED;
    call->err->text[0] = '\0'; /* any other failure is for the exporter to report */
    call->has_loss = damage != TT_EXIT_FINE;
    if (is_in_python)
        return tt_python_run(call);
    tt_progress_start("exporting");
    tt_status st = formats[format].write(&args, call->err);
    tt_progress_end();
    return finish(st, damage, call->err);
}

static const tt_option options[] = {
    { "to", "FORMAT",
      "Statistics: csv, json, sqlite, parquet, tensorboard; values: npy, safetensors, pt; both: "
      "hdf5",
      .to = &args.format },
    { "output", "OUT",
      "A file; for npy, tensorboard, and many runs as parquet a folder; - is standard output (csv and "
      "json)",
      .to = &args.out, .letter = 'o' },
    { "step", "A:B", "Steps from A to B, both included", .to = &args.steps, tt_range_parse,
      TT_RANGE_TAKES },
    TT_RANK_OPTION(&rank),
    { "project", "NAME", "A level of the folder of Parquet files: project=NAME", .to = &project },
    { "partial", NULL, "Of a damaged run, write what can be read; exit with 1 if something is missing",
      .to = &args.is_partial },
};

const tt_cmd tt_cmd_export = {
    TT_CMD("export", "RUN [GLOB]", "write csv, json, npy, safetensors, pt, hdf5 ..."),
    .usage = "RUN [GLOB]\nRUN... --to parquet -o FOLDER",
    .doc = "Write a run in a format that other tools read, or many runs as a folder of Parquet files.\v"
           "For example: tensortap export runs/today 'parameter/*' --to pt -o weights.pt",
    TT_OPTIONS(options),
    .least = 1,
    .most = SIZE_MAX,
    .runs = 1,
    .opens = opens_run,
    .missing = "name a run; 'tensortap ls' lists them",
    .joins = true,
    .check = check,
    .run = export_command,
};
