/* test_status.c -- failures have names, texts and details.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_status_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(tt_status_text(TT_OK), "ok");
    assert_string_equal(tt_status_text(TT_EIO), "input or output failed");
    assert_string_equal(tt_status_text(TT_ENOMEM), "out of memory");
}

static void all_codes_but_ok_are_negative_and_different(void **state)
{
    (void)state;
    static const int codes[] = {
#define X(name, code, text) TT_##name,
        TT_STATUS_MAP(X)
#undef X
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_true(i == 0 ? codes[i] == 0 : codes[i] < 0);
        for (size_t j = 0; j < i; j++)
            assert_true(codes[i] != codes[j]);
    }
}

static void an_unknown_status_is_named_as_such(void **state)
{
    (void)state;
    assert_string_equal(tt_status_text((tt_status)-999), "unknown status");
}

static void a_failure_carries_its_detail(void **state)
{
    (void)state;
    tt_error err = { "" };
    assert_int_equal(tt_fail(&err, TT_EIO, "%s: %d", "run.tap", 5), TT_EIO);
    assert_string_equal(err.text, "run.tap: 5");
    assert_int_equal(tt_fail(NULL, TT_EINVAL, "%s", "nobody listens"), TT_EINVAL);
}

static void a_long_detail_is_cut_and_still_ended(void **state)
{
    (void)state;
    char words[1000];
    memset(words, 'w', sizeof words);
    words[sizeof words - 1] = '\0';
    tt_error err;
    memset(err.text, 'x', sizeof err.text);
    (void)tt_fail(&err, TT_EIO, "%s", words);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void the_library_has_the_version_of_its_header(void **state)
{
    (void)state;
    assert_string_equal(tt_version(), TT_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(all_codes_but_ok_are_negative_and_different),
        cmocka_unit_test(an_unknown_status_is_named_as_such),
        cmocka_unit_test(a_failure_carries_its_detail),
        cmocka_unit_test(a_long_detail_is_cut_and_still_ended),
        cmocka_unit_test(the_library_has_the_version_of_its_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
