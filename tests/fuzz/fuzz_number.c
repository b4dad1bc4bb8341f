/* fuzz_number.c -- every pattern of bits has a text that reads back the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/number.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_f64(double x)
{
    char text[TT_NUMBER_TEXT];
    size_t len = tt_number_f64(x, text);
    MUST(len == strlen(text) && len < TT_NUMBER_TEXT);
    double back = strtod(text, NULL);
    MUST(isnan(x) ? isnan(back) : memcmp(&back, &x, sizeof x) == 0);
    int32_t digits = isfinite(x) ? tt_decimal_f64(x).count : 0;
    if (digits > 1) {
        char fewer[TT_NUMBER_TEXT];
        (void)snprintf(fewer, sizeof fewer, "%.*e", digits - 2, x);
        MUST(strtod(fewer, NULL) != x);
    }
    MUST(tt_number_short(x, text) <= 10);
    back = strtod(text, NULL);
    if (isfinite(x) && fabs(x) > 1e-300 && fabs(x) < 1e300)
        MUST(fabs(back - x) <= 0.00501 * fabs(x) && signbit(back) == signbit(x));
    else if (!isfinite(x))
        MUST(isnan(x) ? isnan(back) : back == x);
}

static void check_f32(float x)
{
    char text[TT_NUMBER_TEXT];
    size_t len = tt_number_f32(x, text);
    MUST(len == strlen(text) && len < TT_NUMBER_TEXT);
    float back = strtof(text, NULL);
    MUST(isnan(x) ? isnan(back) : memcmp(&back, &x, sizeof x) == 0);
    int32_t digits = isfinite(x) ? tt_decimal_f32(x).count : 0;
    if (digits > 1) {
        char fewer[TT_NUMBER_TEXT];
        (void)snprintf(fewer, sizeof fewer, "%.*e", digits - 2, (double)x);
        MUST(strtof(fewer, NULL) != x);
    }
}

/* The bytes as a JSON string: quoted, and nothing in it that needed an escape. */
static void check_string(const uint8_t *data, size_t size)
{
    tt_buf out = { 0 };
    tt_json json = { .out = &out };
    char *text = malloc(size + 1);
    MUST(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    tt_json_text(&json, NULL, text);
    free(text);
    MUST(tt_json_finish(&json) == TT_OK);
    MUST(out.len >= 2 && out.data[0] == '"' && out.data[out.len - 1] == '"');
    for (size_t i = 1; i + 1 < out.len; i++) {
        MUST((unsigned char)out.data[i] >= 0x20 && out.data[i] != '"');
        if (out.data[i] == '\\') {
            MUST(i + 2 < out.len && strchr("\"\\bfnrtu", out.data[i + 1]) != NULL);
            i++;
        }
    }
    tt_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0; at + 8 <= size && at < 64; at += 8) {
        double wide;
        memcpy(&wide, data + at, sizeof wide);
        check_f64(wide);
    }
    for (size_t at = 0; at + 4 <= size && at < 64; at += 4) {
        float narrow;
        memcpy(&narrow, data + at, sizeof narrow);
        check_f32(narrow);
    }
    check_string(data, size);
    return 0;
}
