/* test_tree.c -- what trees look like, to the byte.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "alloc_fail.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tt_style plain = { 0 };

static const tt_tree_item net[] = {
    { 0, "Net", "" },
    { 1, "layers", "list of 2" },
    { 2, "0", "float32[8, 64]" },
    { 2, "long.name", "float32[8]" },
    { 3, "inner", "" },
    { 1, "中文", "int64[3]" },
    { 1, "z", "" },
    { 2, "", "text without a label" },
};
enum { NET = sizeof net / sizeof *net };

static const char drawn[] = "Net\n"
                            "├─ layers  list of 2\n"
                            "│  ├─ 0          float32[8, 64]\n"
                            "│  └─ long.name  float32[8]\n"
                            "│     └─ inner\n"
                            "├─ 中文    int64[3]\n"
                            "└─ z\n"
                            "   └─ text without a label\n";

static void check(const tt_tree_item *rows, size_t count, const tt_style *style, const char *want)
{
    tt_buf out = { 0 };
    assert_int_equal(tt_tree_append(rows, count, style, &out), TT_OK);
    assert_string_equal(out.len > 0 ? out.data : "", want);
    tt_buf_free(&out);
}

static void texts_of_neighbours_stand_in_a_column(void **state)
{
    (void)state;
    check(net, NET, &plain, drawn);
}

static void a_tree_can_be_drawn_in_ascii(void **state)
{
    (void)state;
    check(net, NET, &(tt_style){ .is_ascii = true },
          "Net\n"
          "|- layers        list of 2\n"
          "|  |- 0          float32[8, 64]\n"
          "|  `- long.name  float32[8]\n"
          "|     `- inner\n"
          "|- \\u4e2d\\u6587  int64[3]\n"
          "`- z\n"
          "   `- text without a label\n");
}

static void lines_are_cut_to_the_columns_of_the_style(void **state)
{
    (void)state;
    check(net, NET, &(tt_style){ .columns = 18 },
          "Net\n"
          "├─ layers  list o…\n"
          "│  ├─ 0          …\n"
          "│  └─ long.name  …\n"
          "│     └─ inner\n"
          "├─ 中文    int64[…\n"
          "└─ z\n"
          "   └─ text withou…\n");
}

static const tt_tree_item colored[] = {
    { 0, "a", "\x1b[1;31m2 NaN\x1b[0m" },
    { 1, "b\x1b[1;31m", "c\x1b[2J" },
};

static void guides_are_faint_and_hostile_labels_are_shown_as_they_are(void **state)
{
    (void)state;
    check(colored, 2, &(tt_style){ .is_colored = true },
          "a  \x1b[1;31m2 NaN\x1b[0m\n"
          "\x1b[2m└─ \x1b[0mb\\x1b[1;31m  c\\x1b[2J\n");
    check(colored, 2, &plain, "a  2 NaN\n└─ b\\x1b[1;31m  c\\x1b[2J\n");
}

static const tt_tree_item long_label[] = {
    { 0, "a", "1" },
    { 0, "a_label_that_is_longer_than_forty_columns", "2" },
    { 0, "abc", "3" },
};

static void one_long_label_does_not_push_its_neighbours_aside(void **state)
{
    (void)state;
    check(long_label, 3, &plain, "a    1\na_label_that_is_longer_than_forty_columns  2\nabc  3\n");
}

static void an_empty_tree_has_no_lines(void **state)
{
    (void)state;
    check(net, 0, &plain, "");
}

static void a_deep_tree_needs_no_deep_stack(void **state)
{
    (void)state;
    enum { DEPTH = 3000 };
    static tt_tree_item deep[DEPTH];
    tt_buf out = { 0 };
    for (int i = 0; i < DEPTH; i++)
        deep[i] = (tt_tree_item){ i, "x", "" };
    assert_int_equal(tt_tree_append(deep, DEPTH, &(tt_style){ .columns = 20 }, &out), TT_OK);
    size_t lines = 0;
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    assert_int_equal(lines, DEPTH);
    tt_buf_free(&out);
}

static void an_allocation_that_fails_leaves_the_output_as_it_was(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        tt_buf out = { 0 };
        alloc_fail_at(nth);
        tt_status st = tt_tree_append(net, NET, &plain, &out);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        assert_string_equal(out.data != NULL ? out.data : "", was_hit ? "" : drawn);
        tt_buf_free(&out);
        if (!was_hit) {
            assert_true(nth > 2);
            break;
        }
    }
}

static void a_log_line_carries_its_guides(void **state)
{
    (void)state;
    static const struct {
        int32_t depth;
        tt_branch branch;
        tt_style style;
        const char *want;
    } cases[] = {
        { 0, TT_BRANCH_CALL, { 0 }, "┌── x@1\\n" },
        { 0, TT_BRANCH_ENTRY, { 0 }, "├─ x@1\\n" },
        { 1, TT_BRANCH_ENTRY, { 0 }, "│   ├─ x@1\\n" },
        { 2, TT_BRANCH_LAST, { 0 }, "│   │   └─ x@1\\n" },
        { 1, TT_BRANCH_CALL, { .is_ascii = true }, "|   .-- x@1\\n" },
        { 1, TT_BRANCH_LAST, { .is_ascii = true }, "|   `- x@1\\n" },
        { 1, TT_BRANCH_LAST, { .columns = 9 }, "│   └─ x…" },
        { 0, TT_BRANCH_LAST, { .is_colored = true }, "\x1b[2m└─ \x1b[0mx@1\\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_buf out = { 0 };
        assert_int_equal(tt_tree_line(cases[i].depth, cases[i].branch, "x@1\n", &cases[i].style, &out),
                         TT_OK);
        assert_string_equal(out.data, cases[i].want);
        tt_buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_neighbours_stand_in_a_column),
        cmocka_unit_test(a_tree_can_be_drawn_in_ascii),
        cmocka_unit_test(lines_are_cut_to_the_columns_of_the_style),
        cmocka_unit_test(guides_are_faint_and_hostile_labels_are_shown_as_they_are),
        cmocka_unit_test(one_long_label_does_not_push_its_neighbours_aside),
        cmocka_unit_test(an_empty_tree_has_no_lines),
        cmocka_unit_test(a_deep_tree_needs_no_deep_stack),
        cmocka_unit_test(an_allocation_that_fails_leaves_the_output_as_it_was),
        cmocka_unit_test(a_log_line_carries_its_guides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
