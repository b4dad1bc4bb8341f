/* test_number.c -- the text of a number reads back as that number.
 *
 * Compared with the C library's strtod, which nobody here wrote.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t next_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed ^ *seed >> 31;
}

static void check_f64(double x)
{
    char text[TT_NUMBER_TEXT], fewer[TT_NUMBER_TEXT];
    size_t len = tt_number_f64(x, text);
    assert_int_equal(len, strlen(text));
    double back = strtod(text, NULL);
    assert_memory_equal(&back, &x, sizeof x);
    int32_t digits = tt_decimal_f64(x).count;
    if (digits > 1) { /* no correctly rounded text with one digit less reads back */
        (void)snprintf(fewer, sizeof fewer, "%.*e", digits - 2, x);
        assert_true(strtod(fewer, NULL) != x);
    }
}

static void check_f32(float x)
{
    char text[TT_NUMBER_TEXT], fewer[TT_NUMBER_TEXT];
    size_t len = tt_number_f32(x, text);
    assert_int_equal(len, strlen(text));
    float back = strtof(text, NULL);
    assert_memory_equal(&back, &x, sizeof x);
    int32_t digits = tt_decimal_f32(x).count;
    if (digits > 1) {
        (void)snprintf(fewer, sizeof fewer, "%.*e", digits - 2, (double)x);
        assert_true(strtof(fewer, NULL) != x);
    }
}

static void any_f64_reads_back_and_has_no_digit_too_many(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 30000; i++) {
        uint64_t bits = next_bits(&seed);
        if (i % 3 == 1)
            bits &= 0x000FFFFFFFFFFFFFu; /* denormal */
        double x;
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            check_f64(x);
        check_f64((double)(int64_t)(bits >> 40) / 1000.0); /* as people write them */
    }
}

static void any_f32_reads_back_and_has_no_digit_too_many(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 50000; i++) {
        uint32_t bits = (uint32_t)next_bits(&seed);
        if (i % 5 == 1)
            bits &= 0x007FFFFFu;
        float x;
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            check_f32(x);
    }
}

static void powers_of_two_and_their_neighbours_read_back(void **state)
{
    (void)state;
    for (int power = -1074; power < 1024; power++) {
        double x = ldexp(1, power);
        check_f64(x);
        check_f64(nextafter(x, 0));
        check_f64(-nextafter(x, INFINITY));
    }
    for (int power = -149; power < 128; power++) {
        float x = ldexpf(1, power);
        check_f32(x);
        check_f32(nextafterf(x, 0));
        check_f32(-nextafterf(x, INFINITY));
    }
}

static void the_shortest_form_is_written_as_python_writes_it(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } cases[] = {
        { 0.0, "0.0" },
        { -0.0, "-0.0" },
        { 0.1, "0.1" },
        { -3.0, "-3.0" },
        { 1e-4, "0.0001" },
        { 1.5e-5, "1.5e-05" },
        { 1e-7, "1e-07" },
        { 1e15, "1000000000000000.0" },
        { 1e16, "1e+16" },
        { 1e22, "1e+22" },
        { 1e23, "1e+23" },
        { 9007199254740993.0, "9007199254740992.0" },
        { 123456.75, "123456.75" },
        { 0x1p-44, "5.684341886080802e-14" }, /* nearest 16 digits would not read back */
        { 5e-324, "5e-324" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { NAN, "nan" },
        { INFINITY, "inf" },
        { -INFINITY, "-inf" },
    };
    char text[TT_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tt_number_f64(cases[i].x, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
    tt_number_f32(0.1f, text);
    assert_string_equal(text, "0.1");
    tt_number_f32(16777216.0f, text);
    assert_string_equal(text, "16777216.0");
    tt_number_f32(3.4028235e38f, text);
    assert_string_equal(text, "3.4028235e+38");
    tt_number_f32(1e-45f, text);
    assert_string_equal(text, "1e-45");
    tt_number_f32(-INFINITY, text);
    assert_string_equal(text, "-inf");
}

static void the_short_form_is_what_the_table_says(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } cases[] = {
        { 0, "0" },
        { -0.0, "-0" },
        { -1.25, "-1.25" },
        { 3.14159, "3.142" },
        { 1.2e-7, "1.2e-07" },
        { 12345, "12345" },
        { -123456789, "-123456789" },
        { 1234567890, "1.235e+09" },
        { 1234.5, "1235" },
        { 12345.6, "12346" },
        { 999999.7, "1e+06" },
        { -0.00012345, "-0.0001235" },
        { 0.00001234, "1.234e-05" },
        { 9.9996, "10" },
        { 0.99999, "1" },
        { 0.15, "0.15" },
        { -1.2345e-100, "-1.23e-100" },
        { -9.9999e99, "-1e+100" },
        { 5e-324, "5e-324" },
        { NAN, "nan" },
        { -INFINITY, "-inf" },
    };
    char text[TT_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_number_short(cases[i].x, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void the_short_form_is_near_and_has_at_most_ten_characters(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = next_bits(&seed);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (i % 2 == 0)
            x = (double)(int64_t)bits / 1e15; /* table-like: up to 9223 */
        char text[TT_NUMBER_TEXT];
        assert_true(tt_number_short(x, text) <= 10);
        if (isfinite(x) && fabs(x) < 1e308 && fabs(x) > 1e-300)
            assert_true(fabs(strtod(text, NULL) - x) <= 0.00501 * fabs(x));
    }
}

/* The shortest text of x, which is compared with Python's elsewhere, cut to four
 * digits as one does it on paper. */
static double on_paper(double x)
{
    char full[TT_NUMBER_TEXT], again[64];
    int64_t digits = 0;
    int exponent = 0, count = 0;
    bool is_behind = false;
    tt_number_f64(fabs(x), full);
    for (const char *at = full; *at != '\0'; at++) {
        if (*at == '.') {
            is_behind = true;
            continue;
        }
        assert_true(*at >= '0' && *at <= '9');
        digits = digits * 10 + (*at - '0');
        exponent -= is_behind ? 1 : 0;
    }
    for (int64_t left = digits; left > 0; left /= 10)
        count++;
    for (; count > 5; count--, exponent++)
        digits /= 10;
    if (count == 5) {
        digits = digits / 10 + (digits % 10 >= 5 ? 1 : 0);
        exponent++;
    }
    snprintf(again, sizeof again, "%lde%d", (long)digits, exponent);
    return copysign(strtod(again, NULL), x);
}

static void the_short_form_of_everyday_numbers_is_the_text_rounded_on_paper(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int i = 0; i < 400000; i++) {
        uint64_t bits = next_bits(&seed);
        double scale = pow(10, (double)(next_bits(&seed) % 8));
        double x = i % 4 == 0 ? (double)(int64_t)bits / 9.3e18 * 1e4 / scale
                   : i % 4 == 1
                       ? ((double)(1000 + bits % 9000) + 0.5) / scale /* a half, and next to it */
                   : i % 4 == 2
                       ? nextafter(((double)(1000 + bits % 9000) + 0.5) / scale, bits & 1 << 20 ? 0 : 1e9)
                       : (double)(float)((double)(bits % 100000000) / 1e4 / scale);
        char text[TT_NUMBER_TEXT];
        if (fabs(x) < 1e-4 || fabs(x) >= 1e4 || x == floor(x))
            continue;
        tt_number_short(x, text);
        assert_true(strtod(text, NULL) == on_paper(x));
    }
}

static void a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "ru_RU.UTF-8" };
    bool is_set = false;
    for (size_t i = 0; i < sizeof locales / sizeof *locales && !is_set; i++)
        is_set = setlocale(LC_ALL, locales[i]) != NULL;
    if (!is_set)
        skip(); /* no such locale on this machine */
    char text[TT_NUMBER_TEXT], brief[TT_NUMBER_TEXT];
    tt_number_f64(0.5, text);
    tt_number_short(1.5, brief);
    (void)setlocale(LC_ALL, "C");
    assert_string_equal(text, "0.5");
    assert_string_equal(brief, "1.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_f64_reads_back_and_has_no_digit_too_many),
        cmocka_unit_test(any_f32_reads_back_and_has_no_digit_too_many),
        cmocka_unit_test(powers_of_two_and_their_neighbours_read_back),
        cmocka_unit_test(the_shortest_form_is_written_as_python_writes_it),
        cmocka_unit_test(the_short_form_is_what_the_table_says),
        cmocka_unit_test(the_short_form_is_near_and_has_at_most_ten_characters),
        cmocka_unit_test(the_short_form_of_everyday_numbers_is_the_text_rounded_on_paper),
        cmocka_unit_test(a_locale_with_a_decimal_comma_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
