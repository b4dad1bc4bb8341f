/* run.c -- tensortap run [-o RUN] [options] script.py args... | -m module args...
 *
 * Only the front: what comes after the script is the script's own, so parsing stops
 * there; the rest is tensortap.commands.run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

/* The readers only check: Python reads the numbers. */
static bool read_products(const char *text, void *out)
{
    uint32_t products;
    (void)out;
    return tt_products_parse(text, &products, NULL) == TT_OK;
}

static bool read_share(const char *text, void *out)
{
    char *end;
    double share = strtod(text, &end);
    (void)out;
    return end != text && *end == '\0' && share > 0 && share < 1;
}

static bool read_size(const char *text, void *out)
{
    char *end;
    double size = strtod(text, &end);
    (void)out;
    if (strcmp(text, "none") == 0)
        return true;
    static const char units[] = "kMGT";
    if (end != text + strspn(text, "0123456789.")) /* no exponent, sign, "inf" */
        return false;
    end += *end == ' ';
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    for (const char *at = units; unit != NULL && at <= unit; at++)
        size *= 1000;
    end += unit != NULL;
    return end != text && (*end == '\0' || strcmp(end, "B") == 0) && size >= 1e6;
}

static bool read_ranks(const char *text, void *out)
{
    (void)out;
    do {
        size_t digits = strspn(text, "0123456789");
        text += digits;
        if (digits > 0 && *text == '-') {
            digits = strspn(++text, "0123456789");
            text += digits;
        }
        if (digits == 0)
            return false;
    } while (*text++ == ',');
    return text[-1] == '\0';
}

static bool read_url(const char *text, void *out)
{
    (void)out;
    return tt_python_is_url(text);
}

static const char *const boxed[] = { "on", "black-box-bytes" };

static void check(const tt_call *call)
{
    if (call->count == 0 && !tt_call_has(call, "m"))
        tt_cmd_refuse(call->cmd, "name a script, as in: tensortap run train.py");
    if (tt_call_has(call, "resume") && !tt_call_has(call, "output"))
        tt_cmd_refuse(call->cmd, "--resume needs the run to go on with: -o RUN");
    for (size_t i = 0; i < sizeof boxed / sizeof *boxed; i++)
        if (tt_call_has(call, boxed[i]) && !tt_call_has(call, "black-box"))
            tt_cmd_refuse(call->cmd, "--%s needs --black-box K", boxed[i]);
}

static const tt_option options[] = {
    { "output", "RUN", "The run's folder (runs/DATE-TIME)", .letter = 'o' },
    { .name = "resume", NULL, "Go on with the run in -o, at the step after its last" },
    { "nproc", "N", "Start N ranks of the program on this machine, with torchrun, and record each",
      .read = tt_range_from_one, .takes = "a number of ranks from 1 on" },
    { "only-ranks", "RANKS", "Ranks that record, such as 0-7,12 (all)", .read = read_ranks,
      .takes = "ranks such as 0-7,12" },
    { "sample-ranks", "N", "N ranks record, evenly spread", .read = tt_range_from_one,
      .takes = "a number of ranks from 1 on" },
    { "every", "N", "Record every Nth step (1)", .read = tt_range_from_one,
      .takes = "a number of steps from 1 on" },
    { .name = "only", "GLOB", "Record sites that match (*)" },
    { .name = "exclude", "GLOB", "Leave out sites that match" },
    { "keep", "WHAT",
      "What to keep: stats, hist, digest, sample, value, tokens, placed; several: stats,value (stats)",
      .read = read_products,
      .takes =
          "'stats', 'hist', 'digest', 'sample', 'value', 'tokens', 'placed' or several ('stats,value')" },
    { "budget", "SHARE",
      "Largest share of the time that watching may take, such as 0.02; expensive sites are then "
      "recorded less often",
      .read = read_share, .takes = "a share of the time between 0 and 1 (0.02 is 2 %)" },
    { "disk", "SIZE",
      "Most bytes of statistics of a rank, such as 500MB; a long run is then thinned, but for what "
      "happens in it; none: any (2GB)",
      .read = read_size, .takes = "a size from 1MB on, such as 500MB or 2GB, or none" },
    { .name = "inputs", NULL, "Record the inputs of modules, too" },
    { .name = "inference",
      NULL,
      "Record models in evaluation, too, also those that no optimizer holds; a forward is a step" },
    { "grads", "WHICH", "Gradients of parameters, activations, all or none (parameters)",
      .takes = "parameters, activations, all or none" },
    { "on-nonfinite", "ACTION", "At the first NaN or Inf: warn, or raise an exception in the program",
      .takes = "warn or raise" },
    { .name = "allow",
      "GLOB",
      "Sites that may hold NaN or Inf; masks filled with -Inf need no such leave" },
    { "health", "ACTION",
      "Ask the rules of 'tensortap health' while it runs: warn, or stop at the first error",
      .takes = "warn or stop" },
    { "black-box", "K",
      "Keep the last steps, with a snapshot every Kth, and write them when a NaN or an exception "
      "comes; 'tensortap replay' runs them again",
      .read = tt_range_from_one, .takes = "a number of steps from 1 on" },
    { "black-box-bytes", "N", "Most bytes of memory for it (half of what is free)",
      .read = tt_range_from_one, .takes = "a number of bytes from 1 on" },
    { "on", "EVENT", "Write the black box also at a spike of the loss", .takes = "spike" },
    { "upload", "URL", "Copy the run into a folder of an object store while it is written",
      .read = read_url, .takes = "a URL like s3://team/runs" },
    { "m", "MODULE", "Run a module, as python -m does", .letter = 'm', .is_last = true },
};

const tt_cmd tt_cmd_run = {
    TT_CMD("run", "SCRIPT ...", "run a Python program and record its models"),
    .usage = "SCRIPT [ARGUMENT...]\n-m MODULE [ARGUMENT...]",
    .doc =
        "Run a Python program and record every model whose optimizer steps.  The program needs no change "
        "and behaves as under Python.\v"
        "The run keeps the command line.  Values of options such as --api-key, --token or --password are "
        "replaced by ***; with TENSORTAP_PRIVATE=1 nothing of it is kept.\n\n"
        "For example: tensortap run -o runs/today train.py --lr 0.1\n"
        "Four ranks:  tensortap run -o runs/today --nproc 4 train.py --lr 0.1",
    TT_OPTIONS(options),
    .most = SIZE_MAX,
    .is_in_order = true,
    .check = check,
    .run = tt_python_run,
};
