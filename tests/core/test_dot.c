/* test_dot.c -- what the DOT writer quotes and escapes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void check(const char *name, const char *to, const char *label, const char *expected)
{
    tt_buf out = { 0 };
    tt_dot dot = tt_dot_statement(&out, name, to);
    if (label != NULL)
        tt_dot_attribute(&dot, "label", label);
    tt_dot_end(&dot);
    assert_string_equal(out.data, expected);
    tt_buf_free(&out);
}

static void words_and_numbers_need_no_quotes(void **state)
{
    (void)state;
    check("n1", NULL, "fc_2", "  n1 [label=fc_2]\n");
    check("n1", "n2", "-1.5", "  n1 -> n2 [label=-1.5]\n");
    check("n1", "n2", ".5", "  n1 -> n2 [label=.5]\n");
    check("n1", "n2", NULL, "  n1 -> n2\n");
}

static void everything_else_is_quoted(void **state)
{
    (void)state;
    check("a b", "Node", "", "  \"a b\" -> \"Node\" [label=\"\"]\n");
    check("n1", NULL, "1.2.3", "  n1 [label=\"1.2.3\"]\n");
    check("n1", NULL, "-", "  n1 [label=\"-\"]\n");
    check("n1", NULL, ".", "  n1 [label=\".\"]\n");
    check("n1", NULL, "2x", "  n1 [label=\"2x\"]\n");
    check("n1", NULL, "é", "  n1 [label=\"é\"]\n");
}

static void what_graphviz_would_obey_is_escaped(void **state)
{
    (void)state;
    check("n1", NULL, "say \"hi\"\n&lt;\\N", "  n1 [label=\"say &quot;hi&quot;\\n&amp;lt;\\\\N\"]\n");
    check("n1", NULL, "a\n", "  n1 [label=\"a\\n\"]\n");
}

static void attributes_are_separated_by_commas(void **state)
{
    (void)state;
    tt_buf out = { 0 };
    tt_dot dot = tt_dot_default(&out, "node");
    tt_dot_attribute(&dot, "shape", "box");
    tt_dot_attribute(&dot, "style", "rounded,filled");
    tt_dot_end(&dot);
    assert_string_equal(out.data, "  node [shape=box, style=\"rounded,filled\"]\n");
    tt_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_numbers_need_no_quotes),
        cmocka_unit_test(everything_else_is_quoted),
        cmocka_unit_test(what_graphviz_would_obey_is_escaped),
        cmocka_unit_test(attributes_are_separated_by_commas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
