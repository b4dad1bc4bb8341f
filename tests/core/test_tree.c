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

static tt_status build(tt_tree *tree)
{
    tt_status st = tt_tree_open(tree, "Net", NULL);
    if (st == TT_OK)
        st = tt_tree_open(tree, "layers", "list of 2");
    if (st == TT_OK)
        st = tt_tree_leaf(tree, "0", "float32[8, 64]");
    if (st == TT_OK)
        st = tt_tree_open(tree, "long.name", "float32[8]");
    if (st == TT_OK)
        st = tt_tree_leaf(tree, "inner", NULL);
    if (st < 0)
        return st;
    tt_tree_close(tree);
    tt_tree_close(tree);
    st = tt_tree_leaf(tree, "中文", "int64[3]");
    if (st == TT_OK)
        st = tt_tree_open(tree, "z", NULL);
    if (st == TT_OK)
        st = tt_tree_leaf(tree, NULL, "text without a label");
    if (st < 0)
        return st;
    tt_tree_close(tree);
    tt_tree_close(tree);
    return TT_OK;
}

static const char drawn[] = "Net\n"
                            "├─ layers  list of 2\n"
                            "│  ├─ 0          float32[8, 64]\n"
                            "│  └─ long.name  float32[8]\n"
                            "│     └─ inner\n"
                            "├─ 中文    int64[3]\n"
                            "└─ z\n"
                            "   └─ text without a label\n";

static void check(tt_status (*make)(tt_tree *), const tt_style *style, const char *want)
{
    tt_tree *tree = NULL;
    tt_buf out = { 0 };
    assert_int_equal(tt_tree_create(&tree), TT_OK);
    assert_int_equal(make(tree), TT_OK);
    assert_int_equal(tt_tree_render(tree, style, &out), TT_OK);
    assert_string_equal(out.len > 0 ? out.data : "", want);
    tt_buf_free(&out);
    tt_tree_free(tree);
}

static void texts_of_neighbours_stand_in_a_column(void **state)
{
    (void)state;
    check(build, &plain, drawn);
}

static void a_tree_can_be_drawn_in_ascii(void **state)
{
    (void)state;
    check(build, &(tt_style){ .is_ascii = true },
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
    check(build, &(tt_style){ .columns = 18 },
          "Net\n"
          "├─ layers  list o…\n"
          "│  ├─ 0          …\n"
          "│  └─ long.name  …\n"
          "│     └─ inner\n"
          "├─ 中文    int64[…\n"
          "└─ z\n"
          "   └─ text withou…\n");
}

static tt_status build_colored(tt_tree *tree)
{
    tt_status st = tt_tree_open(tree, "a", "\x1b[1;31m2 NaN\x1b[0m");
    if (st == TT_OK)
        st = tt_tree_leaf(tree, "b\x1b[1;31m", "c\x1b[2J");
    tt_tree_close(tree);
    return st;
}

static void guides_are_faint_and_hostile_labels_are_shown_as_they_are(void **state)
{
    (void)state;
    check(build_colored, &(tt_style){ .is_colored = true },
          "a  \x1b[1;31m2 NaN\x1b[0m\n"
          "\x1b[2m└─ \x1b[0mb\\x1b[1;31m  c\\x1b[2J\n");
    check(build_colored, &plain, "a  2 NaN\n└─ b\\x1b[1;31m  c\\x1b[2J\n");
}

static tt_status build_long_label(tt_tree *tree)
{
    tt_status st = tt_tree_leaf(tree, "a", "1");
    if (st == TT_OK)
        st = tt_tree_leaf(tree, "a_label_that_is_longer_than_forty_columns", "2");
    if (st == TT_OK)
        st = tt_tree_leaf(tree, "abc", "3");
    return st;
}

static void one_long_label_does_not_push_its_neighbours_aside(void **state)
{
    (void)state;
    check(build_long_label, &plain, "a    1\na_label_that_is_longer_than_forty_columns  2\nabc  3\n");
}

static tt_status build_nothing(tt_tree *tree)
{
    (void)tree;
    return TT_OK;
}

static void an_empty_tree_has_no_lines(void **state)
{
    (void)state;
    check(build_nothing, &plain, "");
    tt_tree_free(NULL);
}

static void a_deep_tree_needs_no_deep_stack(void **state)
{
    (void)state;
    enum { DEPTH = 3000 };
    tt_tree *tree = NULL;
    tt_buf out = { 0 };
    assert_int_equal(tt_tree_create(&tree), TT_OK);
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(tt_tree_open(tree, "x", NULL), TT_OK);
    assert_int_equal(tt_tree_render(tree, &(tt_style){ .columns = 20 }, &out), TT_OK);
    size_t lines = 0;
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    assert_int_equal(lines, DEPTH);
    tt_buf_free(&out);
    tt_tree_free(tree);
}

static void an_allocation_that_fails_leaves_the_output_as_it_was(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        tt_tree *tree = NULL;
        tt_buf out = { 0 };
        alloc_fail_at(nth);
        tt_status st = tt_tree_create(&tree);
        if (st == TT_OK)
            st = build(tree);
        if (st == TT_OK)
            st = tt_tree_render(tree, &plain, &out);
        bool was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        assert_string_equal(out.data != NULL ? out.data : "", was_hit ? "" : drawn);
        tt_buf_free(&out);
        tt_tree_free(tree);
        if (!was_hit) {
            assert_true(nth > 5);
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
