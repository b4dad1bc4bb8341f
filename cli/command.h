/* command.h -- what a command of the `tensortap` program is.
 *
 * A command is one file, commands/<name>.c, with one row that describes it (tt_cmd_<name>), and
 * its name in TT_COMMANDS.  main.c parses the arguments, opens the runs and calls it.  The
 * command prints its answer to standard output and returns an exit code; main.c prints the
 * message in err.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_COMMAND_H
#define TT_CLI_COMMAND_H

#include "output/screen.h"

#include <stdio.h>

/* In the order of --help. */
#define TT_COMMANDS(X) \
    X(run)             \
    X(replay)          \
    X(ls)              \
    X(show)            \
    X(stats)           \
    X(health)          \
    X(explain)         \
    X(nan)             \
    X(diff)            \
    X(report)          \
    X(serve)           \
    X(query)           \
    X(export)          \
    X(upload)          \
    X(download)        \
    X(graph)           \
    X(check)           \
    X(top)             \
    X(rm)              \
    X(examples)        \
    X(skill)           \
    X(help)

typedef enum tt_exit {
    TT_EXIT_FINE = 0,
    TT_EXIT_FOUND = 1,  /* the thing asked about is there, or differs */
    TT_EXIT_USAGE = 2,  /* wrong arguments, or a name that matches nothing */
    TT_EXIT_FAILED = 3, /* could not be done */
} tt_exit;

/* An option of a command.  Its argument goes to a variable of the command. */
typedef struct tt_option {
    const char *name;  /* of one character: it is only the letter */
    const char *value; /* "A:B", for --help; NULL: it takes no argument and sets a bool */
    const char *help;
    void *to;                                 /* bool, const char *, or what read writes; may be NULL */
    bool (*read)(const char *text, void *to); /* NULL: the text itself; false: not accepted */
    const char *takes;                        /* what read accepts; without read, the words */
    int letter;                               /* 0: none */
    bool is_last;                             /* what follows is for another program */
} tt_option;

enum { TT_OPTIONS_MAX = 32 };

typedef struct tt_call {
    const struct tt_cmd *cmd;
    const char *given[TT_OPTIONS_MAX]; /* the last text of each option, "" without one; NULL: not given */
    char **words;                      /* arguments that are no options; borrowed */
    size_t count;
    const char *path;                 /* words[0] */
    const char *glob;                 /* words[1] of a command with one run; NULL: not given */
    bool is_json;                     /* --json was given */
    bool has_loss;                    /* a part of the run is missing, and the user has been told */
    tt_run *runs[TT_PAGE_RUNS_MOST];  /* opened and closed by main.c */
    tt_run *parts[TT_PAGE_RUNS_MOST]; /* what joined ones were made of; NULL: not joined */
    tt_error *err;
} tt_call;

typedef struct tt_cmd {
    const char *name;
    const char *args;    /* "RUN [GLOB]", for the list of commands */
    const char *summary; /* one line, for the same list */
    const char *usage;   /* in place of args, for its own --help; NULL: args */
    const char *doc;     /* its own --help: before and, behind \v, after the options */
    const tt_option *options;
    size_t option_count;
    const char *json;                   /* help of its option --json; NULL: it has none */
    size_t least, most;                 /* words that it takes */
    size_t runs;                        /* how many of these are runs to open */
    bool (*opens)(const tt_call *call); /* ... if this says so; NULL: always ... */
    bool joins;                         /* ... as runs of one rank ... */
    bool keeps_ranks;                   /* its option --rank does not open the file of that rank alone */
    const char *missing;                /* message when there are fewer words */
    const char *extra;                  /* what to do when there are more */
    bool is_in_order;              /* options end at the first word: the rest is for another program */
    void (*print_list)(FILE *out); /* help between the options and the rest; NULL: none */
    void (*check)(const tt_call *call); /* refuses what no single option can know; NULL: nothing */
    tt_exit (*run)(tt_call *call);
} tt_cmd;

/* How every row begins, and how it names its options. */
#define TT_CMD(name_, args_, summary_) .name = (name_), .args = (args_), .summary = (summary_)
#define TT_OPTIONS(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)
#define TT_JSON "Print JSON"
/* The option of a command that shows the whole job; main.c reads it. */
#define TT_RANK_OPTION(to_)                                                              \
    {                                                                                    \
        "rank", "N", "The numbers of this rank alone (default: those of the whole job)", \
            .to = (to_), tt_range_count, "a number from 0 on"                            \
    }
/* What the rows of most commands say about their words. */
#define TT_CMD_ONE_RUN                                                                    \
    .least = 1, .most = 1, .runs = 1, .missing = "name a run; 'tensortap ls' lists them", \
    .extra = "name one run"
#define TT_CMD_RUN_AND_GLOB                                                               \
    .least = 1, .most = 2, .runs = 1, .missing = "name a run; 'tensortap ls' lists them", \
    .extra = "put the pattern in quotes"

/* Parses the arguments behind argv[0] into the variables of call->cmd and into call: arguments.c.  Prints the
 * help and exits if that is asked for; refuses what does not fit. */
void tt_arguments_parse(tt_call *call, int argc, char **argv);
void tt_arguments_help(const tt_cmd *cmd, FILE *out);

/* The removal of runs: commands/rm.c. */
bool tt_remove_is_tap(const char *name); /* rank0.tap and the like */
/* Lists them, asks on a terminal (an error elsewhere) unless sure, removes; prints what the call asks for. */
tt_exit tt_remove_runs(const tt_call *call, const char *const *paths, size_t count, bool is_sure);

bool tt_call_has(const tt_call *call, const char *option);         /* was it given? */
const char *tt_call_text(const tt_call *call, const char *option); /* its last text; NULL: not given */
/* For tt_cmd.run: becomes Python running tensortap.commands.<name of the command>.main(options, words):
 * $TENSORTAP_PYTHON, else the first Python of list_pythons() that has this very tensortap; if none has it,
 * that is said, and the exit code is 3.  options is a dict of the texts that were given, with "json" and
 * "has_loss" if they are true.  Returns only if none can be started. */
tt_exit tt_python_run(tt_call *call);
/* A run in an object store is read through a local mirror, which Python makes (tensortap.commands.mirrors) before it
 * starts this program again. */
bool tt_python_is_url(const char *word); /* "s3://..." */
const char *tt_python_mirror(
    const char *url); /* its mirror, valid until the next call; NULL: none is known */
/* Becomes Python making the mirrors of a command's URLs; argv[0] is not one of its arguments. */
tt_exit tt_python_fetch(const char *command, int argc, char **argv, tt_error *err);

#define X(name) extern const tt_cmd tt_cmd_##name;
TT_COMMANDS(X)
#undef X

const char *tt_cmd_title(const tt_cmd *cmd); /* "tensortap show" */
const char *tt_cmd_called_as(void);          /* this program, as the user wrote it: a name or a path */
/* Prints the message behind the title, and exits with TT_EXIT_USAGE. */
_Noreturn void tt_cmd_refuse(const tt_cmd *cmd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Runs the command NAME with these arguments; argv[0] is not one of them. */
tt_exit tt_cmd_call(const char *name, int argc, char **argv, tt_error *err);
void tt_cmd_print_help(void); /* of the program, to standard output */
/* Writes the message and returns the code. */
tt_exit tt_cmd_fail(tt_error *err, tt_exit code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
tt_exit tt_cmd_exit(tt_status st, tt_error *err); /* FINE, or FAILED with a message in err */
/* "no command 'sohw'; did you mean 'show'?", or the advice if no word is near.  A text of the screen.
 * word_at: as for tt_words_near. */
const char *tt_cmd_unknown(const char *what, const char *typed, const char *(*word_at)(size_t i),
                           const char *advice);

#endif
