/* screen.c -- where the answer goes, and numbers as people like them.
 *
 * Exists so that no command asks the terminal itself.
 * SPDX-License-Identifier: Apache-2.0 */
#include "screen.h"

#include <langinfo.h>
#include <locale.h>
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

const char *tt_screen_ink(tt_mood mood)
{
    return tt_terminal.style.is_colored ? tt_mood_code(mood) : "";
}

void tt_screen_say(tt_mood mood, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(tt_screen_ink(mood), stdout);
    (void)vprintf(format, args);
    fputs(tt_screen_ink(TT_MOOD_PLAIN), stdout);
    va_end(args);
}

tt_status tt_screen_table(tt_table *table, bool has_titles, tt_status st)
{
    tt_buf text = { 0 };
    if (st == TT_OK)
        st = tt_table_render(table, has_titles, &text);
    tt_table_free(table);
    if (st == TT_OK && text.len > 0)
        (void)fwrite(text.data, 1, text.len, stdout); /* main looks for failures */
    tt_buf_free(&text);
    return st;
}

const char *tt_screen_bytes(int64_t bytes, char *out)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    double x = (double)bytes;
    size_t unit = 0;
    for (; x >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        x /= 1000;
    (void)snprintf(out, TT_NUMBER_TEXT, unit == 0 || x >= 99.5 ? "%.0f %s" : "%.1f %s", x, units[unit]);
    return out;
}

const char *tt_screen_count(int64_t count, char *out)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)count), at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-' && len > 4)
            out[at++] = ' ';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

/* float32 -> f32, bfloat16 -> bf16, uint8 -> u8, int64 -> i64 */
static void shorten_type(char *name)
{
    static const char *const words[] = { "bfloat", "float", "uint", "int", "complex" };
    static const char *const shorts[] = { "bf", "f", "u", "i", "c" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(name, words[i], strlen(words[i])) == 0) {
            size_t cut = strlen(words[i]) - strlen(shorts[i]);
            memmove(name, name + cut, strlen(name) - cut + 1);
            memcpy(name, shorts[i], strlen(shorts[i]));
            return;
        }
}

const char *tt_screen_type(const tt_point *point, bool is_short, char *out, size_t room)
{
    if ((point->products & TT_PRODUCT_STATS) == 0) {
        (void)snprintf(out, room, "%s", (point->products & TT_PRODUCT_SCALAR) != 0 ? "number" : "");
        return out;
    }
    bool is_known = point->stats.dtype >= 0 && point->stats.dtype < TT_DTYPE_COUNT_;
    int at = snprintf(out, room, "%s", is_known ? tt_dtype_name((tt_dtype)point->stats.dtype) : "?");
    if (is_short) {
        shorten_type(out);
        at = (int)strlen(out);
    }
    for (int32_t d = 0; d < point->ndim && at > 0 && (size_t)at + 28 < room; d++)
        at += snprintf(out + at, room - (size_t)at, "%s%lld%s",
                       d == 0     ? "["
                       : is_short ? ","
                                  : ", ",
                       (long long)point->shape[d], d + 1 == point->ndim ? "]" : "");
    return out;
}

const char *tt_screen_nonfinite(const tt_stats *stats, char *out, size_t room)
{
    const int64_t counts[] = { stats->nan, stats->posinf, stats->neginf };
    static const char *const words[] = { "NaN", "Inf", "-Inf" };
    int at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < 3; i++)
        if (counts[i] > 0 && (size_t)at + 40 < room) {
            char number[TT_NUMBER_TEXT];
            at += snprintf(out + at, room - (size_t)at, "%s%s %s", at > 0 ? ", " : "",
                           tt_screen_count(counts[i], number), words[i]);
        }
    return out;
}

bool tt_screen_has_overflowed(const tt_stats *stats)
{
    /* A mask is -Inf among small numbers; sums that overflow have large neighbours. */
    static const double LARGE = 1024;
    return stats->dtype == TT_F16 && stats->posinf + stats->neginf > 0 &&
           (tt_stats_finite(stats) <= 0 || stats->absmax >= LARGE);
}

const char *tt_screen_time(int64_t ns, char *out, size_t room)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    if (localtime_r(&seconds, &parts) == NULL || strftime(out, room, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        (void)snprintf(out, room, "?");
    return out;
}

void tt_screen_name(const char *name)
{
    tt_buf text = { 0 };
    tt_style style = tt_terminal.style;
    style.columns = 0;
    if (tt_text_append(name, &style, &text) == TT_OK && text.len > 0)
        fputs(text.data, stdout);
    tt_buf_free(&text);
}
