/* main.c -- the `tensortap` program: finds the command, parses its arguments, opens its runs,
 * prints its errors, decides the exit code.
 *
 * Exit codes: 0 fine; 1 the thing asked about is there or differs; 2 usage, or a name that
 * matches nothing; 3 failure, which includes a full disk behind standard output.
 * SPDX-License-Identifier: Apache-2.0 */
#include "overview.h"
#include "words.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tt_cmd *const commands[] = {
#define X(name) &tt_cmd_##name,
    TT_COMMANDS(X)
#undef X
};
enum { COMMANDS = sizeof commands / sizeof *commands, OPTIONS_MAX = 16, KEY = 256 };

tt_exit tt_cmd_fail(tt_error *err, tt_exit code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

tt_exit tt_cmd_exit(tt_status st, tt_error *err)
{
    if (st == TT_OK)
        return TT_EXIT_FINE;
    return err->text[0] != '\0' ? TT_EXIT_FAILED
                                : tt_cmd_fail(err, TT_EXIT_FAILED, "%s", tt_status_text(st));
}

/* ---- the arguments of a command -------------------------------------------------- */

static void read_option(const tt_option *option, char *arg, struct argp_state *state)
{
    if (option->value == NULL)
        *(bool *)option->to = true;
    else if (option->read == NULL)
        *(const char **)option->to = arg;
    if (option->read != NULL ? !option->read(arg, option->to)
                             : option->takes != NULL && !tt_words_have(option->takes, arg))
        argp_failure(state, TT_EXIT_USAGE, 0, "--%s takes %s, not '%s'", option->name, option->takes,
                     arg);
}

static error_t parse_argument(int key, char *arg, struct argp_state *state)
{
    tt_call *call = state->input;
    const tt_cmd *cmd = call->cmd;
    if (key == ARGP_KEY_ARGS) {
        call->words = state->argv + state->next;
        call->count = (size_t)(state->argc - state->next);
        state->next = state->argc;
        return 0;
    }
    if (key == ARGP_KEY_END && call->count < cmd->least)
        argp_failure(state, TT_EXIT_USAGE, 0, "%s", cmd->missing);
    if (key == ARGP_KEY_END && call->count > cmd->most)
        argp_failure(state, TT_EXIT_USAGE, 0, "'%s' is one too many; %s", call->words[cmd->most],
                     cmd->extra);
    for (size_t i = 0; cmd->options != NULL && cmd->options[i].help != NULL; i++) {
        const tt_option *option = &cmd->options[i];
        if (option->to == NULL || key != (option->letter != 0 ? option->letter : KEY + (int)i))
            continue;
        read_option(option, arg, state);
        return 0;
    }
    return cmd->parse != NULL ? cmd->parse(key, arg, state) : ARGP_ERR_UNKNOWN;
}

static void parse_arguments(tt_call *call, int argc, char **argv)
{
    const tt_cmd *cmd = call->cmd;
    struct argp_option options[OPTIONS_MAX + 1] = { { 0 } };
    for (size_t i = 0; cmd->options != NULL && cmd->options[i].help != NULL; i++)
        options[i] = (struct argp_option){ .name = cmd->options[i].name,
                                           .key = cmd->options[i].letter != 0 ? cmd->options[i].letter
                                                                              : KEY + (int)i,
                                           .arg = cmd->options[i].value,
                                           .doc = cmd->options[i].help };
    const struct argp spec = { .options =
                                   cmd->options != NULL ? options : NULL, /* argp leaks an empty list */
                               .parser = parse_argument,
                               .args_doc = cmd->usage != NULL ? cmd->usage : cmd->args,
                               .doc = cmd->doc };
    argp_parse(&spec, argc, argv, cmd->is_in_order ? ARGP_IN_ORDER : 0, NULL, call);
    call->path = call->count > 0 ? call->words[0] : NULL;
    call->glob = cmd->runs == 1 && call->count > 1 ? call->words[1] : NULL;
}

static const char *command_name(size_t i)
{
    return i < COMMANDS ? commands[i]->name : NULL;
}

static tt_exit unknown_command(const char *name, tt_error *err)
{
    const char *near = tt_words_near(name, command_name);
    if (near != NULL)
        return tt_cmd_fail(err, TT_EXIT_USAGE, "no command '%.80s'; did you mean '%s'?", name, near);
    return tt_cmd_fail(err, TT_EXIT_USAGE, "no command '%.80s'; 'tensortap help' lists them", name);
}

tt_exit tt_cmd_call(const char *name, int argc, char **argv, tt_error *err)
{
    tt_call call = { .options = argv + 1, .err = err };
    for (size_t i = 0; i < COMMANDS; i++)
        call.cmd = strcmp(commands[i]->name, name) == 0 ? commands[i] : call.cmd;
    if (call.cmd == NULL)
        return unknown_command(name, err);
    char title[64], help[] = "--help";
    (void)snprintf(title, sizeof title, "tensortap %s", call.cmd->name);
    argv[0] = title;
    if (argc > 1 && strcmp(argv[1], "-h") == 0)
        argv[1] = help; /* argp knows -? and --help only */
    parse_arguments(&call, argc, argv);
    tt_screen_look();
    tt_exit code = TT_EXIT_FINE;
    for (size_t i = 0; code == TT_EXIT_FINE && i < call.cmd->runs && i < call.count; i++)
        code = tt_overview_open(call.words[i], &call.runs[i], err);
    if (code == TT_EXIT_FINE && call.glob != NULL && !tt_overview_has_site(call.runs[0], call.glob))
        code = tt_overview_no_site(call.runs[0], call.glob, err);
    if (code == TT_EXIT_FINE)
        code = call.cmd->run(&call);
    tt_run_close(call.runs[0]);
    tt_run_close(call.runs[1]);
    return code;
}

/* ---- the program ----------------------------------------------------------------- */

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

/* Writes the end of --help, below the options: the commands and an example. */
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
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(file, "  %-8s %-16s %s\n", commands[i]->name, commands[i]->args, commands[i]->summary);
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
            _exit(TT_EXIT_FAILED); /* the reader is gone: no need to say so */
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
        argv[1] = help;
    int first = 0;
    argp_parse(&spec, argc, argv, ARGP_IN_ORDER, NULL, &first);
    if (first == 0) {
        argp_help(&spec, stderr, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, self);
        return TT_EXIT_USAGE;
    }
    tt_error err = { "" };
    tt_exit code = tt_cmd_call(argv[first], argc - first, argv + first, &err);
    tt_buf safe = { 0 }; /* it quotes what the user gave */
    if (err.text[0] != '\0' && tt_text_append(err.text, &(tt_style){ 0 }, &safe) == TT_OK)
        fprintf(stderr, "tensortap: %s\n", safe.data);
    tt_buf_free(&safe);
    return (int)code;
}
