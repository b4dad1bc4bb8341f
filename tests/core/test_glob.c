/* test_glob.c -- patterns match as the guide says, in bounded time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "site/sites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "alloc_fail.h"

/* By the definition, trying everything: for small inputs only. */
static bool slow_one(const char *glob, size_t n, const char *name)
{
    if (n == 0)
        return *name == '\0';
    if (*glob == '*')
        return slow_one(glob + 1, n - 1, name) || (*name != '\0' && slow_one(glob, n, name + 1));
    return *name != '\0' && (*glob == '?' || *glob == *name) && slow_one(glob + 1, n - 1, name + 1);
}

static bool slow_match(const char *glob, const char *name)
{
    for (;;) {
        size_t n = strcspn(glob, ",");
        if (slow_one(glob, n, name))
            return true;
        if (glob[n] == '\0')
            return false;
        glob += n + 1;
    }
}

static void a_match_equals_its_definition(void **state)
{
    (void)state;
    static const char letters[] = "ab*?,.";
    srand(5);
    int hits = 0;
    for (int round = 0; round < 200000; round++) {
        char glob[10], name[8];
        size_t g = (size_t)rand() % 9, n = (size_t)rand() % 7;
        for (size_t i = 0; i < g; i++)
            glob[i] = letters[rand() % 6];
        for (size_t i = 0; i < n; i++)
            name[i] = "ab."[rand() % 3];
        glob[g] = name[n] = '\0';
        bool want = slow_match(glob, name);
        hits += want;
        if (tt_glob_match(glob, name) != want)
            fail_msg("%s against %s", glob, name);
    }
    assert_true(hits > 10000);
}

static void names_as_users_write_them_match(void **state)
{
    (void)state;
    assert_true(tt_glob_match("gradient/*", "gradient/layers.0.attn.weight"));
    assert_true(tt_glob_match("*.weight,loss", "loss"));
    assert_true(tt_glob_match("*.weight,loss", "parameter/fc.weight"));
    assert_false(tt_glob_match("fc", "fc.weight"));
    assert_false(tt_glob_match("*.bias", "fc.weight"));
    assert_true(tt_glob_match("layers.?.fc", "layers.3.fc"));
    assert_false(tt_glob_match("layers.?.fc", "layers.13.fc"));
    assert_false(tt_glob_match("", "x"));
}

static void many_stars_take_no_longer(void **state)
{
    (void)state;
    char glob[4001], name[4001];
    for (size_t i = 0; i < 4000; i++) {
        glob[i] = i % 2 ? '*' : 'a';
        name[i] = 'a';
    }
    glob[3999] = 'b';
    glob[4000] = name[4000] = '\0';
    clock_t start = clock();
    assert_false(tt_glob_match(glob, name));
    assert_true(clock() - start < CLOCKS_PER_SEC);
}

static void a_plan_says_which_products(void **state)
{
    (void)state;
    tt_plan plan = { .only = "gradient/*", .exclude = "*.bias", .products = TT_PRODUCT_STATS };
    assert_int_equal(tt_plan_products(&plan, "gradient/fc.weight"), TT_PRODUCT_STATS);
    assert_int_equal(tt_plan_products(&plan, "gradient/fc.bias"), 0);
    assert_int_equal(tt_plan_products(&plan, "loss"), 0);
}

static void products_are_read_as_people_write_them(void **state)
{
    (void)state;
    uint32_t out = 0;
    assert_int_equal(tt_products_parse("stats", &out, NULL), TT_OK);
    assert_int_equal(out, TT_PRODUCT_STATS);
    assert_int_equal(tt_products_parse(" value , hist|digest | sample", &out, NULL), TT_OK);
    assert_int_equal(out, TT_PRODUCT_VALUE | TT_PRODUCT_HIST | TT_PRODUCT_DIGEST | TT_PRODUCT_SAMPLE);
    static const char *const wrong[][2] = {
        { "", "''" },
        { "stats,", "''" },
        { "|stats", "''" },
        { "stat", "'stat'" },
        { "statss", "'statss'" },
        { "stats;value", "'stats;value'" },
        { "stats,a b", "'a b'" },
        { "stats value", "'stats value'" },
        { "scalar", "'scalar'" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tt_error err = { 0 };
        out = 7;
        assert_int_equal(tt_products_parse(wrong[i][0], &out, &err), TT_EINVAL);
        assert_int_equal(out, 7);
        assert_non_null(strstr(err.text, " or several"));
        assert_string_equal(err.text + strlen(err.text) - strlen(wrong[i][1]), wrong[i][1]);
    }
}

static void names_keep_their_numbers_and_rows_never_move(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        tt_sites *sites = NULL;
        alloc_fail_at(nth);
        tt_status st = tt_sites_create(&sites);
        char name[32];
        const tt_site_row *first = NULL;
        for (int32_t i = 0; st == TT_OK && i < 3000; i++) {
            int32_t site = -1;
            int len = snprintf(name, sizeof name, "layers.%d", (int)i);
            st = tt_sites_intern(sites, name, (size_t)len, NULL, &site);
            if (st == TT_OK)
                assert_int_equal(site, i);
            if (i == 0 && st == TT_OK)
                first = tt_sites_row(sites, 0);
        }
        bool hit = alloc_fail_stop();
        if (st == TT_OK) {
            assert_ptr_equal(first, tt_sites_row(sites, 0));
            for (int32_t i = 0; i < 3000; i++) {
                int len = snprintf(name, sizeof name, "layers.%d", (int)i);
                assert_int_equal(tt_sites_find(sites, name, (size_t)len), i);
                assert_string_equal(tt_sites_row(sites, i)->name, name);
            }
            assert_int_equal(tt_sites_find(sites, "other", 5), -1);
            assert_null(tt_sites_row(sites, 3000));
        } else {
            assert_int_equal(st, TT_ENOMEM);
        }
        tt_sites_free(sites);
        if (!hit)
            return;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_match_equals_its_definition),
        cmocka_unit_test(names_as_users_write_them_match),
        cmocka_unit_test(many_stars_take_no_longer),
        cmocka_unit_test(a_plan_says_which_products),
        cmocka_unit_test(products_are_read_as_people_write_them),
        cmocka_unit_test(names_keep_their_numbers_and_rows_never_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
