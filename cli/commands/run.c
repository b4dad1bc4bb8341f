/* run.c -- tensortap run [-o RUN] [options] script.py args... | -m module args...
 *
 * Only the front: what comes after the script is the script's own, so parsing stops
 * there; the rest is tensortap.commands.run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *out, *every, *only, *exclude, *keep, *budget, *grads, *on_nonfinite, *health, *module;
    const char *black_box, *black_box_bytes, *on;
    bool resumes, has_inputs;
} args;

/* Each reader keeps the text: Python reads the number. */
static bool keep_text(const char *text, void *out, bool is_fine)
{
    *(const char **)out = text;
    return is_fine;
}

static bool read_every(const char *text, void *out)
{
    int64_t every = 0;
    return keep_text(text, out, tt_range_count(text, &every) && every >= 1);
}

static bool read_products(const char *text, void *out)
{
    uint32_t products;
    return keep_text(text, out, tt_products_parse(text, &products, NULL) == TT_OK);
}

static bool read_share(const char *text, void *out)
{
    char *end;
    double share = strtod(text, &end);
    return keep_text(text, out, end != text && *end == '\0' && share > 0 && share < 1);
}

static void check(const tt_call *call)
{
    if (call->count == 0 && args.module == NULL)
        tt_cmd_refuse(call->cmd, "name a script, as in: tensortap run train.py");
    if (args.resumes && args.out == NULL)
        tt_cmd_refuse(call->cmd, "--resume needs the run to go on with: -o RUN");
    if (args.black_box == NULL && (args.black_box_bytes != NULL || args.on != NULL))
        tt_cmd_refuse(call->cmd, "--%s needs --black-box K", args.on != NULL ? "on" : "black-box-bytes");
}

static tt_exit run(tt_call *call)
{
    /* The arguments of tensortap.commands.run, in this order; "": not given. */
    const char *head[] = { args.out,
                           args.every,
                           args.only,
                           args.exclude,
                           args.keep,
                           args.budget,
                           args.resumes ? "1" : NULL,
                           args.has_inputs ? "1" : NULL,
                           args.grads,
                           args.on_nonfinite,
                           args.health,
                           args.black_box,
                           args.black_box_bytes,
                           args.on,
                           args.module != NULL ? "module" : "script",
                           args.module };
    return tt_python_exec("run", head, sizeof head / sizeof *head - (args.module == NULL), call->words,
                          call->err);
}

static const tt_option options[] = {
    { "output", "RUN", "The run's folder (runs/DATE-TIME)", .to = &args.out, .letter = 'o' },
    { "resume", NULL, "Go on with the run in -o, at the step after its last", .to = &args.resumes },
    { "every", "N", "Record every Nth step (1)", .to = &args.every, read_every,
      "a number of steps from 1 on" },
    { "only", "GLOB", "Record sites that match (*)", .to = &args.only },
    { "exclude", "GLOB", "Leave out sites that match", .to = &args.exclude },
    { "keep", "WHAT", "What to keep: stats, hist, digest, sample, value; several: stats,value (stats)",
      .to = &args.keep, read_products,
      "'stats', 'hist', 'digest', 'sample', 'value' or several ('stats,value')" },
    { "budget", "SHARE",
      "Largest share of the time that watching may take, such as 0.02; expensive sites are then "
      "recorded less often",
      .to = &args.budget, read_share, "a share of the time between 0 and 1 (0.02 is 2 %)" },
    { "inputs", NULL, "Record the inputs of modules, too", .to = &args.has_inputs },
    { "grads", "WHICH", "Gradients of parameters, activations, all or none (parameters)",
      .to = &args.grads, .takes = "parameters, activations, all or none" },
    { "on-nonfinite", "ACTION", "At the first NaN or Inf: warn, or raise an exception in the program",
      .to = &args.on_nonfinite, .takes = "warn or raise" },
    { "health", "ACTION",
      "Ask the rules of 'tensortap health' while it runs: warn, or stop at the first error",
      .to = &args.health, .takes = "warn or stop" },
    { "black-box", "K",
      "Keep the last steps, with a snapshot every Kth, and write them when a NaN or an exception "
      "comes; 'tensortap replay' runs them again",
      .to = &args.black_box, read_every, "a number of steps from 1 on" },
    { "black-box-bytes", "N", "Most bytes of memory for it (half of what is free)",
      .to = &args.black_box_bytes, read_every, "a number of bytes from 1 on" },
    { "on", "EVENT", "Write the black box also at a spike of the loss", .to = &args.on,
      .takes = "spike" },
    { NULL, "MODULE", "Run a module, as python -m does", .to = &args.module, .letter = 'm',
      .is_last = true },
};

const tt_cmd tt_cmd_run = {
    TT_CMD("run", "SCRIPT ...", "run a Python program and record its models"),
    .usage = "SCRIPT [ARGUMENT...]\n-m MODULE [ARGUMENT...]",
    .doc =
        "Run a Python program and record every model whose optimizer steps.  The program needs no change "
        "and behaves as under Python.\v"
        "The run keeps the command line.  Values of options such as --api-key, --token or --password are "
        "replaced by ***; with TENSORTAP_PRIVATE=1 nothing of it is kept.\n\n"
        "For example: tensortap run -o runs/today train.py --lr 0.1",
    TT_OPTIONS(options),
    .most = SIZE_MAX,
    .is_in_order = true,
    .check = check,
    .run = run,
};
