/* screen.c -- where the answer goes, and numbers as people like them.
 *
 * Exists so that no command asks the terminal itself.
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

tt_screen tt_terminal;

void tt_screen_look(void)
{
    tt_screen *screen = &tt_terminal;
    *screen = (tt_screen){ .is_terminal = isatty(STDOUT_FILENO) == 1 };
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM"), *columns = getenv("COLUMNS");
    screen->style.is_colored = screen->is_terminal && (no_color == NULL || *no_color == '\0') &&
                               (term == NULL || strcmp(term, "dumb") != 0);
    (void)setlocale(LC_CTYPE, "");
    screen->style.is_ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    struct winsize size;
    if (screen->is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        screen->style.columns = size.ws_col;
        screen->rows = size.ws_row;
    } else if (screen->is_terminal) {
        screen->style.columns = 80;
        screen->rows = 24;
    }
    long shared = columns != NULL ? strtol(columns, NULL, 10) : 0;
    if (shared >= 20 && shared <= 1000)
        screen->style.columns = (int32_t)shared;
}

static volatile sig_atomic_t is_asked_to_end; /* the only thing a handler touches */

static void on_signal(int number)
{
    (void)number;
    is_asked_to_end = 1;
}

void tt_screen_catch_end(void)
{
    const struct sigaction action = { .sa_handler = on_signal };
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

bool tt_screen_is_over(void)
{
    return is_asked_to_end != 0;
}

/* Starts a colour, for text outside tables; "" without colour. */
static const char *ink(tt_mood mood)
{
    return tt_terminal.style.is_colored ? tt_mood_code(mood) : "";
}

void tt_screen_say(tt_mood mood, const char *format, ...)
{
    char *text = NULL;
    tt_buf safe = { 0 };
    tt_style style = tt_terminal.style;
    style.columns = 0;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return;
    bool ends_line = *format != '\0' && format[strlen(format) - 1] == '\n';
    text[ends_line ? len - 1 : len] = '\0';
    if (tt_text_append(text, &style, &safe) == TT_OK && safe.len > 0)
        printf("%s%s%s", mood != TT_MOOD_PLAIN ? ink(mood) : "", safe.data,
               mood != TT_MOOD_PLAIN ? ink(TT_MOOD_PLAIN) : "");
    if (ends_line)
        putchar('\n');
    tt_buf_free(&safe);
    free(text);
}

tt_status tt_screen_table(tt_table *table, tt_status st)
{
    tt_buf text = { 0 };
    if (st == TT_OK)
        st = tt_table_render(table, &text);
    tt_table_free(table);
    if (st == TT_OK && text.len > 0)
        (void)fwrite(text.data, 1, text.len, stdout); /* main looks for failures */
    tt_buf_free(&text);
    return st;
}

/* ---- texts for people --------------------------------------------------------------- */

enum { TEXTS = 16, TEXT_ROOM = 320, TYPE_ROOM = 200 };

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_ROOM];
    static unsigned next;
    return texts[next++ % TEXTS];
}

const char *tt_screen_text(const char *format, ...)
{
    char *out = next_text();
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out, TEXT_ROOM, format, args);
    va_end(args);
    return out;
}

const char *tt_screen_bytes(int64_t bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    double x = (double)bytes;
    size_t unit = 0;
    for (; x >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        x /= 1000;
    return tt_screen_text("%.*f %s", unit == 0 || x >= 99.5 ? 0 : 1, x, units[unit]);
}

const char *tt_screen_count(int64_t count)
{
    char digits[32], *out = next_text();
    int len = snprintf(digits, sizeof digits, "%lld", (long long)count), at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-' && len > 4)
            out[at++] = ' ';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *tt_screen_number(double x)
{
    char *out = next_text();
    (void)tt_number_short(x, out);
    return out;
}

const char *tt_screen_type(const tt_point *point, bool is_short)
{
    static const char *const words[][2] = {
        { "bfloat", "bf" }, { "float", "f" }, { "uint", "u" }, { "int", "i" }, { "complex", "c" },
    };
    if ((point->products & TT_PRODUCT_STATS) == 0)
        return (point->products & TT_PRODUCT_SCALAR) != 0 ? "number" : "";
    const char *name = tt_dtype_name((tt_dtype)point->stats.dtype), *head = "";
    for (size_t i = 0; is_short && *head == '\0' && i < sizeof words / sizeof *words; i++)
        if (strncmp(name, words[i][0], strlen(words[i][0])) == 0) {
            head = words[i][1];
            name += strlen(words[i][0]);
        }
    char *out = next_text();
    int at = snprintf(out, TEXT_ROOM, "%s%s", head, name);
    for (int32_t d = 0; d < point->ndim && at + 28 < TYPE_ROOM; d++)
        at += snprintf(out + at, TEXT_ROOM - (size_t)at, "%s%lld%s",
                       d == 0     ? "["
                       : is_short ? ","
                                  : ", ",
                       (long long)point->shape[d], d + 1 == point->ndim ? "]" : "");
    return out;
}

const char *tt_screen_nonfinite(const tt_stats *stats)
{
    const int64_t counts[] = { stats->nan, stats->posinf, stats->neginf };
    static const char *const words[] = { "NaN", "Inf", "-Inf" };
    const char *out = "";
    for (size_t i = 0; i < 3; i++)
        if (counts[i] > 0)
            out = tt_screen_text("%s%s%s %s", out, *out != '\0' ? ", " : "", tt_screen_count(counts[i]),
                                 words[i]);
    return out;
}

bool tt_screen_has_overflowed(const tt_point *point)
{
    /* A mask is -Inf among small numbers; sums that overflow have large neighbours. */
    static const double LARGE = 1024;
    const tt_stats *s = &point->stats;
    return (point->products & TT_PRODUCT_STATS) != 0 && s->dtype == TT_F16 && s->posinf + s->neginf > 0 &&
           (tt_stats_finite(s) <= 0 || s->absmax >= LARGE);
}

const char *tt_screen_time(int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    char *out = next_text();
    if (localtime_r(&seconds, &parts) == NULL ||
        strftime(out, TEXT_ROOM, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        return "?";
    return out;
}
