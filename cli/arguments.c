/* arguments.c -- the options and words of a command, and its help, from its row.
 *
 * Exists because argp, which would do this, is in the GNU library alone; getopt_long is
 * everywhere.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "words.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { KEY = 256, WIDTH = 79, HELP_COLUMN = 29 };

/* Of every command, and of the program. */
static const tt_option common[] = {
    { "help", NULL, "Print this help", .letter = 'h' },
    { "usage", NULL, "Print how it is called", .letter = 0 },
    { "version", NULL, "Print the version of the program", .letter = 'V' },
};

/* All options of a command. */
typedef struct option_list {
    tt_option items[TT_OPTIONS_MAX];
    size_t count;
} option_list;

static option_list list_options(const tt_cmd *cmd, bool *is_json)
{
    option_list all = { .count = cmd->option_count };
    assert(cmd->option_count + 1 + sizeof common / sizeof *common <= TT_OPTIONS_MAX);
    if (cmd->option_count > 0)
        memcpy(all.items, cmd->options, cmd->option_count * sizeof *cmd->options);
    if (cmd->json != NULL)
        all.items[all.count++] = (tt_option){ "json", NULL, cmd->json, .to = is_json };
    memcpy(all.items + all.count, common, sizeof common);
    all.count += sizeof common / sizeof *common;
    return all;
}

/* ---- help ------------------------------------------------------------------ */

/* Prints text from this column on, broken between words before WIDTH; further lines are indented. */
static void print_wrapped(FILE *out, const char *text, size_t column, size_t indent)
{
    while (*text != '\0') {
        size_t spaces = strspn(text, " "), len = strcspn(text + spaces, " \n");
        if (len > 0 && column > indent && column + spaces + len > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            spaces = 0;
            text += strspn(text, " ");
        }
        fprintf(out, "%.*s", (int)(spaces + len), text);
        text += spaces + len;
        column += spaces + len;
        if (*text == '\n') {
            fprintf(out, "\n%*s", text[1] != '\n' ? (int)indent : 0, "");
            column = indent;
            text++;
        }
    }
    fputc('\n', out);
}

static bool is_long(const tt_option *option)
{
    return option->name[1] != '\0';
}

static void print_option(FILE *out, const tt_option *option)
{
    char head[80] = "      ";
    if (option->letter != 0)
        (void)snprintf(head, sizeof head, "  -%c%s", option->letter, is_long(option) ? ", " : " ");
    size_t len = strlen(head);
    if (is_long(option))
        len += (size_t)snprintf(head + len, sizeof head - len, "--%s%s", option->name,
                                option->value != NULL ? "=" : "");
    if (option->value != NULL)
        len += (size_t)snprintf(head + len, sizeof head - len, "%s", option->value);
    if (len + 2 <= HELP_COLUMN)
        fprintf(out, "%-*s", HELP_COLUMN, head);
    else
        fprintf(out, "%s\n%*s", head, HELP_COLUMN, "");
    print_wrapped(out, option->help, HELP_COLUMN, HELP_COLUMN);
}

static void print_usage(const tt_cmd *cmd, FILE *out)
{
    const char *way = cmd->usage != NULL ? cmd->usage : cmd->args, *lead = "Usage:";
    for (; way != NULL; lead = "  or: ") {
        const char *end = strchr(way, '\n');
        fprintf(out, "%s %s [OPTION...] %.*s\n", lead, tt_cmd_title(cmd),
                end != NULL ? (int)(end - way) : (int)strlen(way), way);
        way = end != NULL ? end + 1 : NULL;
    }
}

void tt_arguments_help(const tt_cmd *cmd, FILE *out)
{
    const option_list all = list_options(cmd, NULL);
    const char *rest = strchr(cmd->doc, '\v');
    char *before = strndup(cmd->doc, rest != NULL ? (size_t)(rest - cmd->doc) : strlen(cmd->doc));
    print_usage(cmd, out);
    print_wrapped(out, before != NULL ? before : "", 0, 0);
    fputc('\n', out);
    for (size_t i = 0; i < all.count; i++)
        print_option(out, &all.items[i]);
    fputc('\n', out);
    if (cmd->print_list != NULL)
        cmd->print_list(out);
    print_wrapped(out, rest != NULL ? rest + 1 : "", 0, 0);
    free(before);
}

/* ---- parsing ---------------------------------------------------------------- */

void tt_cmd_refuse(const tt_cmd *cmd, const char *format, ...)
{
    char text[sizeof(tt_error)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tt_buf safe = { 0 }; /* it quotes what the user gave */
    if (tt_text_append(text, &(tt_style){ 0 }, &safe) == TT_OK)
        fprintf(stderr, "%s: %s\n", tt_cmd_title(cmd), safe.data);
    tt_buf_free(&safe);
    exit(TT_EXIT_USAGE);
}

static void read_option(const tt_cmd *cmd, const tt_option *option, const char *text)
{
    if (option->value == NULL && option->to != NULL)
        *(bool *)option->to = true;
    else if (option->read == NULL && option->to != NULL)
        *(const char **)option->to = text;
    if (option->read != NULL ? !option->read(text, option->to)
                             : option->takes != NULL && !tt_words_have(option->takes, text))
        tt_cmd_refuse(cmd, "--%s takes %s, not '%s'", option->name, option->takes, text);
}

/* Answers one of the common options. */
static void answer(const tt_cmd *cmd, int letter)
{
    if (letter == 'V')
        puts("tensortap " TT_VERSION);
    else if (letter == 'h')
        tt_arguments_help(cmd, stdout);
    else
        print_usage(cmd, stdout);
    exit(TT_EXIT_FINE);
}

/* What getopt_long is to know. */
typedef struct spec {
    struct option longs[TT_OPTIONS_MAX + 1];
    char letters[2 * TT_OPTIONS_MAX + 2];
} spec;

static void describe(const tt_cmd *cmd, const option_list *all, spec *out)
{
    size_t longs = 0, letters = 0;
    if (cmd->is_in_order)
        out->letters[letters++] = '+';
    for (size_t i = 0; i < all->count; i++) {
        const tt_option *option = &all->items[i];
        bool has_value = option->value != NULL;
        if (option->letter != 0)
            out->letters[letters++] = (char)option->letter;
        if (option->letter != 0 && has_value)
            out->letters[letters++] = ':';
        if (is_long(option))
            out->longs[longs++] = (struct option){ option->name, has_value, NULL, KEY + (int)i };
    }
}

static const tt_option *option_of(const option_list *all, int key)
{
    for (size_t i = 0; i < all->count; i++)
        if (key == KEY + (int)i || key == all->items[i].letter)
            return &all->items[i];
    return NULL;
}

const char *tt_call_text(const tt_call *call, const char *option)
{
    for (size_t i = 0; i < call->cmd->option_count; i++)
        if (call->given[i] != NULL && strcmp(call->cmd->options[i].name, option) == 0)
            return call->given[i];
    return NULL;
}

bool tt_call_has(const tt_call *call, const char *option)
{
    return tt_call_text(call, option) != NULL;
}

void tt_arguments_parse(tt_call *call, int argc, char **argv)
{
    const tt_cmd *cmd = call->cmd;
    const option_list all = list_options(cmd, &call->is_json);
    spec known = { 0 };
    describe(cmd, &all, &known);
    if (argc > 1 && strcmp(argv[1], "-?") == 0)
        answer(cmd, 'h'); /* GNU programs know it; to getopt_long it is a mistake */
    optind = 0;           /* anew: of another command */
    for (int key; (key = getopt_long(argc, argv, known.letters, known.longs, NULL)) != -1;) {
        if (key == '?') { /* it has said what is wrong */
            fprintf(stderr, "Try `%s --help' or `%s --usage' for more information.\n", tt_cmd_title(cmd),
                    tt_cmd_title(cmd));
            exit(TT_EXIT_USAGE);
        }
        const tt_option *option = option_of(&all, key);
        size_t at = (size_t)(option - all.items);
        if (at + sizeof common / sizeof *common >= all.count)
            answer(cmd, option->letter);
        read_option(cmd, option, optarg);
        call->given[at] = optarg != NULL ? optarg : "";
        if (option->is_last)
            break;
    }
    call->words = argv + optind;
    call->count = (size_t)(argc - optind);
    if (call->count < cmd->least)
        tt_cmd_refuse(cmd, "%s", cmd->missing);
    if (call->count > cmd->most)
        tt_cmd_refuse(cmd, "'%s' is one too many; %s", call->words[cmd->most], cmd->extra);
    if (cmd->check != NULL)
        cmd->check(call);
}
