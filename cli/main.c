/* main.c -- the `tensortap` program: finds the command, parses its arguments, opens its runs,
 * prints its errors, decides the exit code.
 *
 * Exit codes: 0 fine; 1 the thing asked about is there or differs; 2 usage, or a name that
 * matches nothing; 3 failure, which includes a full disk behind standard output.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/overview.h"
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
enum { COMMANDS = sizeof commands / sizeof *commands };

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

const char *tt_cmd_unknown(const char *what, const char *typed, const char *(*word_at)(size_t i),
                           const char *advice)
{
    const char *near = tt_words_near(typed, word_at);
    return near != NULL ? tt_screen_text("no %s '%.80s'; did you mean '%s'?", what, typed, near)
                        : tt_screen_text("no %s '%.80s'; %s", what, typed, advice);
}

const char *tt_cmd_title(const tt_cmd *cmd)
{
    return *cmd->name != '\0' ? tt_screen_text("tensortap %s", cmd->name) : "tensortap";
}

/* ---- commands -------------------------------------------------------------------- */

static const char *command_name(size_t i)
{
    return i < COMMANDS ? commands[i]->name : NULL;
}

static const char *called_as = "tensortap";

const char *tt_cmd_called_as(void)
{
    return called_as;
}

/* Opens a run: as one rank if the command wants that and the run says where its tensors belong, or one rank
 * alone. */
static tt_exit open_run(tt_call *call, size_t i)
{
    const char *rank = tt_call_text(call, "rank");
    char path[4096];
    if (!call->cmd->keeps_ranks && rank != NULL) {
        const char *mirror = tt_python_mirror(call->words[i]);
        (void)snprintf(path, sizeof path, "%s/rank%s.tap", mirror != NULL ? mirror : call->words[i],
                       rank);
        return tt_overview_open_rank(call->words[i], path, &call->runs[i], call->err);
    }
    tt_exit code = tt_overview_open(call->words[i], &call->runs[i], call->err);
    tt_run *joined;
    tt_error why;
    if (code != TT_EXIT_FINE || !call->cmd->joins)
        return code;
    tt_status st = tt_run_join(call->runs[i], &joined, &why);
    if (st == TT_OK) {
        call->parts[i] = call->runs[i];
        call->runs[i] = joined;
        if (call->cmd->runs > 1)
            tt_run_forget_parts(joined); /* there is no room for the indexes of both */
    }
    if (st == TT_OK || st == TT_EMISMATCH)
        return TT_EXIT_FINE;
    *call->err = why;
    return tt_cmd_exit(st, call->err);
}

/* Words that are URLs: is a mirror missing?  Commands that Python runs see to that themselves. */
static bool lacks_mirror(const tt_call *call)
{
    bool is_in_python = call->cmd->run == tt_python_run || call->cmd->is_in_order;
    for (size_t i = 0; !is_in_python && i < call->count; i++)
        if (tt_python_is_url(call->words[i]) && tt_python_mirror(call->words[i]) == NULL)
            return true;
    return false;
}

/* A command that looks for runs in a folder does so in the mirror. */
static tt_exit enter_mirror(tt_call *call)
{
    static char here[] = ".";
    const char *mirror =
        call->cmd->runs == 0 && call->count == 1 ? tt_python_mirror(call->words[0]) : NULL;
    if (mirror == NULL)
        return TT_EXIT_FINE;
    if (chdir(mirror) < 0)
        return tt_cmd_fail(call->err, TT_EXIT_FAILED, "%.150s: %s", mirror, strerror(errno));
    call->words[0] = here;
    return TT_EXIT_FINE;
}

static const char missed_variable[] = "TENSORTAP_MISSED"; /* a file for what a mirror lacks */

/* Writes what could not be read of runs, so that it is fetched and the command runs again. */
static tt_exit write_missed(const char *path, tt_run *const *runs, size_t count, tt_error *err)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return tt_cmd_fail(err, TT_EXIT_FAILED, "%.150s: %s", path, strerror(errno));
    for (size_t i = 0; i < count; i++) {
        const tt_missed *missed;
        size_t n = runs[i] != NULL ? tt_run_missed(runs[i], &missed) : 0;
        for (size_t k = 0; k < n; k++)
            fprintf(file, "%lld %lld %s\n", (long long)missed[k].at, (long long)missed[k].len,
                    missed[k].path);
    }
    (void)fclose(file);
    return TT_EXIT_FINE;
}

tt_exit tt_cmd_call(const char *name, int argc, char **argv, tt_error *err)
{
    tt_call call = { .err = err };
    for (size_t i = 0; i < COMMANDS; i++)
        call.cmd = strcmp(commands[i]->name, name) == 0 ? commands[i] : call.cmd;
    if (call.cmd == NULL)
        return tt_cmd_fail(err, TT_EXIT_USAGE, "%s",
                           tt_cmd_unknown("command", name, command_name, "'tensortap help' lists them"));
    char title[64];
    (void)snprintf(title, sizeof title, "%s", tt_cmd_title(call.cmd));
    argv[0] = title;
    tt_arguments_parse(&call, argc, argv);
    if (strcmp(name, "rm") == 0 && call.count > 0 && tt_python_is_url(call.words[0]))
        return tt_cmd_fail(err, TT_EXIT_USAGE, "rm removes local runs only; use the tools of the store");
    if (lacks_mirror(&call))
        return tt_python_fetch(name, argc, argv, err);
    if (enter_mirror(&call) != TT_EXIT_FINE)
        return TT_EXIT_FAILED;
    size_t runs = call.cmd->opens == NULL || call.cmd->opens(&call) ? call.cmd->runs : 0;
    call.path = call.count > 0 ? call.words[0] : NULL;
    call.glob = runs == 1 && call.count > 1 ? call.words[1] : NULL;
    tt_screen_look();
    tt_exit code = TT_EXIT_FINE;
    for (size_t i = 0; code == TT_EXIT_FINE && i < runs && i < call.count; i++)
        code = open_run(&call, i);
    const char *missed = getenv(missed_variable);
    if (missed != NULL && runs == 1 && code == TT_EXIT_FINE)
        tt_run_note_missed(call.runs[0]);
    bool is_of_sites = call.glob != NULL && !tt_call_has(&call, "settings");
    if (code == TT_EXIT_FINE && is_of_sites && !tt_overview_has_site(call.runs[0], call.glob))
        code = tt_overview_no_site(call.runs[0], call.glob, err);
    if (code == TT_EXIT_FINE)
        code = call.cmd->run(&call);
    if (missed != NULL && runs == 1 && call.runs[0] != NULL)
        code = write_missed(missed, call.runs, 1, err);
    for (size_t i = 0; i < 2; i++) {
        tt_run_close(call.runs[i]);
        tt_run_close(call.parts[i]);
    }
    return code;
}

/* ---- the program ----------------------------------------------------------------- */

static void list_commands(FILE *out)
{
    fputs("Commands:\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %-16s %s\n", commands[i]->name, commands[i]->args, commands[i]->summary);
    fputc('\n', out);
}

static const tt_cmd program = {
    .name = "",
    .args = "COMMAND [ARGUMENT...]",
    .doc = "Show what the tensors of a PyTorch program do.\vFor example: tensortap show runs/today",
    .most = SIZE_MAX,
    .is_in_order = true, /* the rest is the command's */
    .print_list = list_commands,
};

void tt_cmd_print_help(void)
{
    tt_arguments_help(&program, stdout);
}

/* Runs at every exit: an answer that could not be written is a failure. */
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
    char self[] = "tensortap";
    if (argc > 0) {
        called_as = argv[0];
        argv[0] = self;
    }
    tt_call call = { .cmd = &program };
    tt_arguments_parse(&call, argc, argv);
    if (call.count == 0) {
        tt_arguments_help(&program, stderr);
        return TT_EXIT_USAGE;
    }
    tt_error err = { "" };
    tt_exit code = tt_cmd_call(call.words[0], (int)call.count, call.words, &err);
    tt_buf safe = { 0 }; /* it quotes what the user gave */
    if (err.text[0] != '\0' && tt_text_append(err.text, &(tt_style){ 0 }, &safe) == TT_OK)
        fprintf(stderr, "tensortap: %s\n", safe.data);
    tt_buf_free(&safe);
    return (int)code;
}
