/* test_run_tree.c -- the tree of a run folds what repeats and shows what is odd.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "alloc_fail.h"
#include "run_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tt_error err;

static tt_run *record_modules(const char *folder, const char *const *names, const char *const *modules,
                              int64_t steps, double growth)
{
    tt_recorder *rec;
    tt_run *run;
    if (tt_recorder_open(folder, NULL, &rec, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; modules != NULL && modules[i] != NULL; i += 2)
        assert_int_equal(tt_recorder_module(rec, modules[i], modules[i + 1]), 0);
    double rms = 1;
    for (int64_t step = 0; step < steps; step++, rms *= growth)
        for (size_t i = 0; names[i] != NULL; i++) {
            int32_t site;
            bool is_zero = strstr(names[i], "zero") != NULL;
            tt_stats s = { .count = 10,
                           .zeros = is_zero ? 10 : 0,
                           .mean = (double)i,
                           .min = (double)i,
                           .max = (double)i,
                           .sum = (double)i * 10,
                           .sumsq = is_zero ? 0 : 10 * rms * rms,
                           .dtype = TT_F32 };
            assert_int_equal(tt_recorder_site(rec, names[i], &site, &err), 0);
            assert_int_equal(
                tt_recorder_add(rec,
                                &(tt_event){ .site = site, .step = step, .time = 1 + step, .stats = &s }),
                0);
        }
    assert_int_equal(tt_recorder_close(rec, 30, &err), 0);
    assert_int_equal(tt_run_open(folder, &run, &err), 0);
    return run;
}

static tt_run *record(const char *folder, const char *const *names, int64_t steps, double growth)
{
    return record_modules(folder, names, NULL, steps, growth);
}

/* Depth as spaces, label, number of sites. */
static void assert_tree(tt_run *run, const char *only, bool unfolds, const char *expected)
{
    tt_run_tree *tree;
    char text[2000] = "";
    if (tt_run_tree_create(run, &(tt_look){ .rank = -1 }, only, unfolds, &tree, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0, at = 0; i < tree->count; i++) {
        const tt_tree_row *row = &tree->rows[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%*s%s %d\n", (int)row->depth, "", row->label,
                               (int)row->sites);
    }
    assert_string_equal(text, expected);
    tt_run_tree_free(tree);
}

static void layers_that_are_alike_are_one_line(void **state)
{
    (void)state;
    static const char *const names[] = { "activation/embed",          "activation/layers.0.attn",
                                         "activation/layers.0",       "activation/layers.1.attn",
                                         "activation/layers.1",       "activation/layers.2.attn",
                                         "activation/layers.2.extra", "activation/layers.2",
                                         "line/train.py:3:x",         NULL };
    const char *folder = run_folder_new();
    tt_run *run = record(folder, names, 1, 1);
    assert_tree(run, NULL, false,
                "activation 0\n embed 1\n layers 0\n  0-1 2\n   attn 2\n  2 1\n   attn 1\n   extra "
                "1\nline 0\n train.py:3:x 1\n");
    assert_tree(run, "*layers.0*,*layers.1*", false, "activation 0\n layers.0-1 2\n  attn 2\n");
    assert_tree(run, "*layers.0*,*layers.1*", true,
                "activation 0\n layers 0\n  0 1\n   attn 1\n  1 1\n   attn 1\n");
    tt_run_close(run);
    run_folder_remove(folder);
}

/* A compiled backward hands its gradients over in any order. */
static void layers_are_alike_whatever_the_order_of_what_is_in_them(void **state)
{
    (void)state;
    static const char *const names[] = { "gradient/h.1.mlp.bias",    "gradient/h.0.attn.weight",
                                         "gradient/h.2.attn.bias",   "gradient/h.2.mlp.bias",
                                         "gradient/h.1.attn.bias",   "gradient/h.0.mlp.bias",
                                         "gradient/h.1.attn.weight", "gradient/h.2.attn.weight",
                                         "gradient/h.0.attn.bias",   NULL };
    const char *folder = run_folder_new();
    tt_run *run = record(folder, names, 1, 1);
    assert_tree(run, NULL, false,
                "gradient 0\n h.0-2 0\n  mlp.bias 3\n  attn 0\n   bias 3\n   weight 3\n");
    tt_run_tree *tree;
    assert_int_equal(tt_run_tree_create(run, &(tt_look){ .rank = -1 }, NULL, 0, &tree, &err), 0);
    for (int32_t i = 0; i < 3; i++) /* of one row: the same tensor of each layer */
        assert_non_null(strstr(tt_run_site_name(run, tree->rows[5].members[i]), "attn.weight"));
    tt_run_tree_free(tree);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_layer_with_parameters_is_not_alike_one_without(void **state)
{
    (void)state;
    static const char *const names[] = { "activation/0",       "activation/1",       "activation/2",
                                         "activation/3",       "parameter/0.weight", "parameter/0.bias",
                                         "parameter/2.weight", "parameter/3.weight", NULL };
    const char *folder = run_folder_new();
    tt_run *run = record(folder, names, 1, 1);
    assert_tree(run, "activation/*", false, "activation 0\n 0 1\n 1 1\n 2-3 2\n");
    tt_run_close(run);
    run_folder_remove(folder);
}

static void layers_of_different_classes_are_not_alike(void **state)
{
    (void)state;
    static const char *const names[] = { "activation/mlp.0", "activation/mlp.1", "activation/mlp.2",
                                         "activation/mlp.3", "activation/mlp",   NULL };
    static const char *const modules[] = { "mlp",   "Sequential", "mlp.0", "Linear", "mlp.1",
                                           "GELU",  "mlp.2",      "Wrong", "mlp.3",  "GELU",
                                           "mlp.2", "GELU",       NULL };
    const char *folder = run_folder_new();
    tt_run *run = record_modules(folder, names, modules, 1, 1);
    assert_tree(run, NULL, false, "activation 0\n mlp 1\n  0 1\n  1-3 3\n");
    tt_run_tree *tree;
    assert_int_equal(tt_run_tree_create(run, &(tt_look){ .rank = -1 }, NULL, 0, &tree, &err), 0);
    assert_string_equal(tree->rows[1].class_name, "Sequential");
    assert_string_equal(tree->rows[3].class_name, "GELU");
    assert_int_equal(tree->rows[3].width, 3);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(tree->rows[3].members[i], i + 1);
    tt_run_tree_free(tree);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void the_items_of_a_tuple_are_no_layers(void **state)
{
    (void)state;
    static const char *const names[] = { "activation/lstm.0", "activation/lstm.1", "activation/(root).0",
                                         "activation/(root).1", NULL };
    static const char *const modules[] = { "lstm", "LSTM", "(root)", "Net", NULL };
    const char *folder = run_folder_new();
    tt_run *run = record_modules(folder, names, modules, 1, 1);
    assert_tree(run, NULL, false, "activation 0\n lstm 0\n  0 1\n  1 1\n (root) 0\n  0 1\n  1 1\n");
    tt_run_close(run);
    run_folder_remove(folder);
    folder = run_folder_new();
    run = record(folder, names, 1, 1);
    /* No class was recorded: lstm may be a list of modules, the model itself is none. */
    assert_tree(run, NULL, false, "activation 0\n lstm.0-1 2\n (root) 0\n  0 1\n  1 1\n");
    tt_run_close(run);
    run_folder_remove(folder);
}

static void names_keep_what_stood_between_their_parts(void **state)
{
    (void)state;
    static const char *const names[] = { "line/src/train.py:12:y",
                                         "line/src/train.py:9:a:b",
                                         "line/one.py:1:x",
                                         "mine/a.b/c",
                                         "gradient/layers.1",
                                         "gradient/layers.0",
                                         NULL };
    const char *folder = run_folder_new();
    tt_run *run = record(folder, names, 1, 1);
    assert_tree(run, NULL, false,
                "line 0\n src/train.py 0\n  12:y 1\n  9:a:b 1\n one.py:1:x 1\nmine 0\n a.b/c 1\n"
                "gradient 0\n layers.0-1 2\n");
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_folded_line_has_the_statistics_of_all(void **state)
{
    (void)state;
    static const char *const names[] = { "activation/l.0", "activation/l.1", "activation/l.2", NULL };
    const char *folder = run_folder_new();
    tt_run *run = record(folder, names, 1, 1);
    tt_run_tree *tree;
    assert_int_equal(tt_run_tree_create(run, &(tt_look){ .rank = -1 }, NULL, false, &tree, &err), 0);
    const tt_tree_row *row = &tree->rows[1];
    assert_int_equal(row->latest.stats.count, 30);
    assert_true(row->latest.stats.min == 0 && row->latest.stats.max == 2 && row->latest.stats.mean == 1);
    assert_true(row->latest.stats.m2 == 20); /* ten times (-1)^2 and ten times 1^2 */
    tt_run_tree_free(tree);
    tt_run_close(run);
    run_folder_remove(folder);
}

static void a_glob_that_matches_nothing_is_told(void **state)
{
    (void)state;
    static const char *const names[] = { "a", NULL };
    const char *folder = run_folder_new();
    tt_run *run = record(folder, names, 1, 1);
    tt_run_tree *tree = NULL;
    assert_int_equal(tt_run_tree_create(run, &(tt_look){ .rank = -1 }, "b", false, &tree, &err),
                     TT_EMISMATCH);
    assert_null(tree);
    for (long nth = 1;; nth++) {
        alloc_fail_at(nth);
        tt_status st = tt_run_tree_create(run, &(tt_look){ .rank = -1 }, NULL, false, &tree, &err);
        if (!alloc_fail_stop()) {
            assert_int_equal(st, TT_OK);
            break;
        }
        if (st == TT_OK) { /* the reader found another way to the point */
            tt_run_tree_free(tree);
            tree = NULL;
            continue;
        }
        assert_int_equal(st, TT_ENOMEM);
        assert_null(tree);
    }
    tt_run_tree_free(tree);
    tt_run_close(run);
    run_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_are_alike_are_one_line),
        cmocka_unit_test(layers_are_alike_whatever_the_order_of_what_is_in_them),
        cmocka_unit_test(a_layer_with_parameters_is_not_alike_one_without),
        cmocka_unit_test(layers_of_different_classes_are_not_alike),
        cmocka_unit_test(the_items_of_a_tuple_are_no_layers),
        cmocka_unit_test(names_keep_what_stood_between_their_parts),
        cmocka_unit_test(a_folded_line_has_the_statistics_of_all),
        cmocka_unit_test(a_glob_that_matches_nothing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
