/* fuzz_range.c -- any text as the arguments of the program: steps, counts, names.
 *
 * What is taken as a range of steps is written down again and must read the same;
 * the distance between two words obeys the laws of a distance.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../../cli/words.h"
#include "fuzz.h"
#include "tensortap_tools.h"

#include <inttypes.h>
#include <string.h>

static void check_range(const char *text)
{
    tt_range range, again;
    int64_t count;
    if (tt_range_count(text, &count)) {
        MUST(count >= 0 && strspn(text, "0123456789") == strlen(text));
        MUST(tt_range_parse(text, &range) && range.first == count && range.last == count);
    }
    if (!tt_range_parse(text, &range))
        return;
    char written[64];
    MUST(range.first <= range.last && strspn(text, "0123456789:") == strlen(text));
    int at = range.first == INT64_MIN ? 0 : snprintf(written, sizeof written, "%" PRId64, range.first);
    at += snprintf(written + at, sizeof written - (size_t)at, ":");
    if (range.last != INT64_MAX)
        (void)snprintf(written + at, sizeof written - (size_t)at, "%" PRId64, range.last);
    MUST(tt_range_parse(written, &again) && again.first == range.first && again.last == range.last);
}

static void check_distance(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b), there = tt_words_distance(a, m, b, n);
    MUST(there == tt_words_distance(b, n, a, m));
    MUST(there == SIZE_MAX || (there == 0) == (strcmp(a, b) == 0));
    MUST(there == SIZE_MAX || (there <= (m > n ? m : n) && there >= (m > n ? m - n : n - m)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[256], half[256];
    size_t len = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, len);
    text[len] = '\0';
    len = strlen(text);
    memcpy(half, text + len / 2, len - len / 2 + 1);
    check_range(text);
    check_distance(text, half);
    tt_buf safe = { 0 };
    const tt_style style = { .columns = 40 };
    MUST(tt_text_append(text, &style, &safe) == TT_OK);
    for (size_t i = 0; i < safe.len; i++)
        MUST((unsigned char)safe.data[i] >= 0x20 && safe.data[i] != 0x7f);
    tt_buf_free(&safe);
    return 0;
}
