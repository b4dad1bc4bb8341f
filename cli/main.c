/* main.c -- the `tensortap` program: finds the command, prints its errors,
 * decides the exit code.
 *
 * Exit codes: 0 fine; 1 the thing asked about is there or differs; 2 usage, or
 * a name that matches nothing; 3 failure, a full disk behind standard output
 * included.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "suggest.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const tt_cmd tt_commands[] = {
    { "run", "SCRIPT ...", "run a Python program and record its models", tt_cmd_run },
    { "ls", "[FOLDER]", "list runs: when, what command, steps, size, state", tt_cmd_ls },
    { "show", "RUN [GLOB]", "a tree of all sites, what is odd first", tt_cmd_show },
    { "stats", "RUN GLOB", "the statistics of sites, step by step", tt_cmd_stats },
    { "nan", "RUN", "where the first NaN or Inf was born", tt_cmd_nan },
    { "diff", "RUN RUN", "where two runs part", tt_cmd_diff },
    { "export", "RUN [GLOB]", "write csv, json, npy, safetensors, pt, hdf5 ...", tt_cmd_export },
    { "graph", "RUN", "draw which module calls which", tt_cmd_graph },
    { "check", "RUN", "verify every checksum, repair", tt_cmd_check },
    { "top", "RUN", "a live view of a training", tt_cmd_top },
    { "rm", "RUN...", "remove runs; asks first", tt_cmd_rm },
    { "help", "[COMMAND]", "print this help, or that of a command", tt_cmd_help },
    { 0 },
};

const tt_cmd *tt_cmd_find(const char *name)
{
    for (const tt_cmd *cmd = tt_commands; cmd->name != NULL; cmd++)
        if (strcmp(cmd->name, name) == 0)
            return cmd;
    return NULL;
}

tt_exit tt_cmd_unknown(const char *name, tt_error *err)
{
    const char *near = NULL;
    size_t best = 3; /* two slips at most */
    for (const tt_cmd *cmd = tt_commands; cmd->name != NULL; cmd++) {
        size_t distance = tt_suggest_distance(name, cmd->name);
        if (distance < best && distance < strlen(cmd->name)) {
            best = distance;
            near = cmd->name;
        }
    }
    if (near != NULL)
        (void)snprintf(err->text, sizeof err->text, "no command '%.80s'; did you mean '%s'?", name, near);
    else
        (void)snprintf(err->text, sizeof err->text, "no command '%.80s'; 'tensortap help' lists them",
                       name);
    return TT_EXIT_USAGE;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    int *first = state->input;
    (void)arg;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    *first = state->next - 1;
    state->next = state->argc; /* the rest is the command's */
    return 0;
}

/* The part of --help below the options: the commands and an example. */
static char *describe(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    char *out = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&out, &len);
    if (file == NULL)
        return NULL;
    fputs("Commands:\n", file);
    for (const tt_cmd *cmd = tt_commands; cmd->name != NULL; cmd++)
        fprintf(file, "  %-8s %-16s %s\n", cmd->name, cmd->args, cmd->summary);
    fputs("\nFor example: tensortap show runs/today", file);
    return fclose(file) == 0 ? out : NULL; /* argp frees it */
}

static const struct argp spec = {
    .parser = parse,
    .args_doc = "COMMAND [ARGUMENT...]",
    .doc = "Show what the tensors of a PyTorch program do.\v",
    .help_filter = describe,
};

void tt_cmd_print_help(void)
{
    char name[] = "tensortap", option[] = "--help";
    int first = 0;
    argp_parse(&spec, 2, (char *[]){ name, option, NULL }, ARGP_NO_EXIT, NULL, &first);
}

/* Runs at every exit, argp's own included: an answer that could not be written
 * is a failure. */
static void close_output(void)
{
    bool had_failed = ferror(stdout) != 0;
    errno = 0;
    if (fclose(stdout) != 0 || had_failed) {
        if (errno == EPIPE)
            _exit(TT_EXIT_FAILED); /* nobody reads any more: no need to say so */
        fprintf(stderr, "tensortap: cannot write the output: %s\n",
                errno != 0 ? strerror(errno) : "an earlier write failed");
        _exit(TT_EXIT_FAILED);
    }
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_DFL); /* `| head` ends us quietly, whatever we inherited */
    if (atexit(close_output) != 0)
        return TT_EXIT_FAILED;
    argp_program_version = "tensortap " TT_VERSION;
    argp_err_exit_status = TT_EXIT_USAGE;
    char self[] = "tensortap", help[] = "--help";
    if (argc > 0)
        argv[0] = self;
    if (argc > 1 && strcmp(argv[1], "-h") == 0)
        argv[1] = help; /* argp knows -? and --help only */
    int first = 0;
    argp_parse(&spec, argc, argv, ARGP_IN_ORDER, NULL, &first);
    if (first == 0) {
        argp_help(&spec, stderr, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, self);
        return TT_EXIT_USAGE;
    }
    tt_error err = { "" };
    tt_exit code;
    const tt_cmd *cmd = tt_cmd_find(argv[first]);
    if (cmd == NULL) {
        code = tt_cmd_unknown(argv[first], &err);
    } else {
        char title[64];
        (void)snprintf(title, sizeof title, "tensortap %s", cmd->name);
        argv[first] = title;
        if (first + 1 < argc && strcmp(argv[first + 1], "-h") == 0)
            argv[first + 1] = help;
        code = cmd->run(argc - first, argv + first, &err);
    }
    tt_buf safe = { 0 }; /* it quotes what the user gave */
    if (err.text[0] != '\0' && tt_text_append(err.text, &(tt_style){ 0 }, &safe) == TT_OK)
        fprintf(stderr, "tensortap: %s\n", safe.data);
    tt_buf_free(&safe);
    return (int)code;
}
