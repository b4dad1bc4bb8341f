/* test_diff.c -- two runs are held against each other point by point.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "alloc_fail.h"
#include "run_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tt_error err;
static const tt_diff_options everything = { .first_step = INT64_MIN, .last_step = INT64_MAX };

typedef struct made {
    const char *folders[2];
    tt_recorder *rec[2];
    tt_run *runs[2];
} made;

static made begin(void)
{
    made m = { 0 };
    for (int i = 0; i < 2; i++) {
        m.folders[i] = strdup(run_folder_new());
        if (tt_recorder_open(m.folders[i], NULL, &m.rec[i], &err) < 0)
            fail_msg("%s", err.text);
    }
    return m;
}

/* max is NaN: one element is. */
static void put_with(made *m, int which, const char *name, int64_t step, tt_dtype dtype, double rms,
                     double max)
{
    int32_t site;
    tt_stats s = { .count = 100,
                   .min = -2 * rms,
                   .nan = isnan(max),
                   .max = isnan(max) ? 2 * rms : max,
                   .absmax = isnan(max) ? 2 * rms : max,
                   .mean = 0,
                   .sumsq = rms * rms * 100,
                   .m2 = rms * rms * 100,
                   .dtype = (int32_t)dtype };
    assert_int_equal(tt_recorder_site(m->rec[which], name, &site, &err), 0);
    assert_int_equal(
        tt_recorder_add(m->rec[which],
                        &(tt_event){ .site = site, .step = step, .time = 1000 + step, .stats = &s }),
        0);
}

static void put(made *m, int which, const char *name, int64_t step, tt_dtype dtype, double rms)
{
    put_with(m, which, name, step, dtype, rms, 2 * rms);
}

static tt_diff *compare(made *m, const tt_diff_options *options)
{
    tt_diff *diff;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tt_recorder_close(m->rec[i], 30, &err), 0);
        assert_int_equal(tt_run_open(m->folders[i], &m->runs[i], &err), 0);
    }
    if (tt_diff_compute(m->runs[0], m->runs[1], options, &diff, &err) < 0)
        fail_msg("%s", err.text);
    return diff;
}

static void end(made *m, tt_diff *diff)
{
    tt_diff_free(diff);
    for (int i = 0; i < 2; i++) {
        tt_run_close(m->runs[i]);
        run_folder_remove(m->folders[i]);
        free((void *)(uintptr_t)m->folders[i]);
    }
}

static void the_same_numbers_are_identical(void **state)
{
    (void)state;
    made m = begin();
    for (int64_t step = 0; step < 300; step++)
        for (int which = 0; which < 2; which++)
            put(&m, which, "activation/a", step, TT_F32, 1 + (double)step);
    tt_diff *diff = compare(&m, &everything);
    assert_int_equal(diff->verdict, TT_DIFF_SAME);
    assert_int_equal(diff->sites[0].points, 300);
    assert_int_equal(diff->first, -1);
    end(&m, diff);
}

static void a_last_bit_of_float32_is_noise_and_of_float64_is_not(void **state)
{
    (void)state;
    static const tt_dtype types[] = { TT_F32, TT_F64 };
    for (int t = 0; t < 2; t++) {
        made m = begin();
        put(&m, 0, "activation/a", 0, types[t], 1);
        put(&m, 1, "activation/a", 0, types[t], 1 + 0x1p-23);
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, t == 0 ? TT_DIFF_NOISE : TT_DIFF_DIFFERS);
        end(&m, diff);
    }
}

/* Each layer is a little further off; one jumps, and is named although it is not the worst. */
static void a_fault_stands_out_of_growing_noise(void **state)
{
    (void)state;
    made m = begin();
    static const double off[] = { 1e-3, 1.5e-3, 2e-3, 2e-2, 2.5e-2 };
    char name[32];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof name, "activation/layers.%d", i);
        put(&m, 0, name, 0, TT_F32, 1);
        put(&m, 1, name, 0, TT_BF16, 1 - off[i]);
    }
    tt_diff *diff = compare(&m, &everything);
    assert_int_equal(diff->verdict, TT_DIFF_DIFFERS);
    assert_string_equal(diff->sites[diff->first].name, "activation/layers.3");
    assert_int_equal(diff->sites[2].verdict, TT_DIFF_NOISE);
    end(&m, diff);
}

/* Three times as much with every step is within what may be handed on, and still ends: at 64
 * times the rounding of float32, 4 * 2^-24 * 2, for each step. */
static void noise_may_grow_but_not_without_end(void **state)
{
    (void)state;
    for (int64_t steps = 5; steps <= 12; steps += 7) {
        made m = begin();
        double off = 3e-7;
        for (int64_t step = 0; step < steps; step++, off *= 3) {
            put(&m, 0, "activation/a", step, TT_F32, 1);
            put(&m, 1, "activation/a", step, TT_F32, 1 - off);
        }
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, steps == 5 ? TT_DIFF_NOISE : TT_DIFF_DIFFERS);
        if (steps > 5) /* 3e-7 * 3^6 > 64 * 7 * 4.8e-7 */
            assert_int_equal(diff->sites[0].first.step, 6);
        end(&m, diff);
    }
}

/* The gradient of an attention's key.bias is zero: what is recorded is the rounding of its terms.  One
 * that is really small, or missing, is still found. */
static void a_gradient_whose_terms_cancel_is_judged_by_the_weights(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double a, b;
        tt_verdict verdict;
    } cases[] = { { "gradient/key.bias", 1e-7, 3e-7, TT_DIFF_NOISE },
                  { "gradient/key.bias", 1e-7, 0, TT_DIFF_NOISE },
                  { "gradient/key.bias", 1e-5, 2e-5, TT_DIFF_DIFFERS },
                  { "gradient/key.bias", 1e-5, 0, TT_DIFF_DIFFERS },
                  { "parameter/key.bias", 1e-7, 3e-7, TT_DIFF_NOISE },
                  { "parameter/key.bias", 1e-5, 0, TT_DIFF_DIFFERS },
                  { "gradient/other.bias", 1e-7, 3e-7, TT_DIFF_DIFFERS },
                  { "gradient/other.weight", 1e-9, 0, TT_DIFF_DIFFERS },
                  { "activation/key.bias", 1e-7, 3e-7, TT_DIFF_DIFFERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int which = 0; which < 2; which++) {
            put(&m, which, "parameter/key.weight", 0, TT_F32, 1);
            put(&m, which, "gradient/key.weight", 0, TT_F32, 1);
            put(&m, which, "gradient/other.weight", 0, TT_F32, 1e-8);
            put(&m, which, cases[i].name, 1, TT_F32, which == 0 ? cases[i].a : cases[i].b);
        }
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

/* Adam makes whole steps of rounding: elements of a bias may move apart by as much as the weight beside it moves.
 * Not by more, not before a gradient deviates, not while the weight is still; and not a whole weight. */
static void a_bias_is_moved_by_the_rounding_of_its_gradient(void **state)
{
    (void)state;
    static const struct {
        int64_t step;
        double moves, off, weight_off;
        tt_verdict verdict;
    } cases[] = { { 1, 1e-3, 3e-3, 0, TT_DIFF_NOISE },
                  { 1, 1e-3, 1e-2, 0, TT_DIFF_DIFFERS },
                  { 0, 1e-3, 3e-3, 0, TT_DIFF_DIFFERS },
                  { 1, 0, 3e-3, 0, TT_DIFF_DIFFERS },
                  { 1, 1e-3, 0, 3e-3, TT_DIFF_DIFFERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int which = 0; which < 2; which++) {
            put(&m, which, "parameter/qkv.weight", 0, TT_F32, 1);
            put(&m, which, "parameter/qkv.weight", 1, TT_F32,
                1 + cases[i].moves + which * cases[i].weight_off);
            put(&m, which, "gradient/qkv.bias", 0, TT_F32, 1 + which * 2e-7);
            put(&m, which, "parameter/qkv.bias", cases[i].step, TT_F32, 1 + which * cases[i].off);
        }
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

/* One element of 100 may be a whole step off, and what gradients deviate by is passed on to the step.  A
 * deviation stays; a jump is found, however far the optimizer has come. */
static void a_weight_may_deviate_by_a_share_of_its_steps(void **state)
{
    (void)state;
    enum { STEPS = 8 };
    static const struct {
        tt_dtype gradient;
        double gradient_off, off, jump; /* of each step; of the last */
        tt_verdict verdict;
    } cases[] = { { TT_F32, 2e-7, 2e-5, 0, TT_DIFF_NOISE }, /* 2 * 2e-3 / 100 are allowed for a step */
                  { TT_F32, 2e-7, 6e-5, 0, TT_DIFF_DIFFERS },
                  { TT_F32, 0, 2e-5, 0, TT_DIFF_DIFFERS }, /* equal gradients make equal steps */
                  { TT_F32, 2e-7, 2e-5, 1e-3, TT_DIFF_DIFFERS },
                  { TT_BF16, 0.03, 3e-4, 0, TT_DIFF_NOISE }, /* 2 * 2e-3 * (4 * 0.03 + 1 / 100) */
                  { TT_BF16, 0.03, 1e-3, 0, TT_DIFF_DIFFERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int64_t step = 0; step < STEPS; step++)
            for (int which = 0; which < 2; which++) {
                double off = cases[i].off * (double)step + (step == STEPS - 1 ? cases[i].jump : 0);
                put(&m, which, "parameter/a.weight", step, TT_F32, 1 + 1e-3 * (double)step + which * off);
                put(&m, which, "activation/b", step, TT_F32, 1 + which * off * 1.5); /* follows it */
                put(&m, which, "gradient/a.weight", step, cases[i].gradient,
                    1 + which * cases[i].gradient_off);
            }
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

/* Where rounding is most of some elements' gradients, the largest element of a weight may be one of them: Adam
 * then moves it by a whole step to either side. */
static void an_extreme_of_a_weight_may_be_a_step_off_to_either_side(void **state)
{
    (void)state;
    static const struct {
        tt_dtype gradient;
        double gradient_off, max; /* in the second run; 2.01 in the first */
        tt_verdict verdict;
    } cases[] = { { TT_BF16, 0.01, 1.99, TT_DIFF_NOISE }, /* 4 * 0.01 of 100 elements */
                  { TT_BF16, 0.01, 1.95, TT_DIFF_DIFFERS },
                  { TT_F32, 2e-7, 1.99, TT_DIFF_DIFFERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int which = 0; which < 2; which++) {
            put(&m, which, "parameter/a.weight", 0, TT_F32, 1);
            put(&m, which, "gradient/a.weight", 0, cases[i].gradient, 1 + which * cases[i].gradient_off);
            put_with(&m, which, "parameter/a.weight", 1, TT_F32, 1, which == 0 ? 2.01 : cases[i].max);
        }
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

/* A bias in front of a batch norm has a gradient of zero, and Adam makes steps of its rounding: both runs move
 * the bias, each elsewhere, and the module's output with it.  It is named only if its gradient was never
 * larger.  What is larger than these steps, or appears anywhere else, is found. */
static void a_bias_may_drift_if_its_gradient_is_rounding(void **state)
{
    (void)state;
    enum { STEPS = 6, FROM = 3 };
    static const struct {
        double gradient, early_gradient;           /* of the bias: from the third step, and before */
        double off[2], jump, output, norm, weight; /* of each step in each run; of one step in one run */
        const char *first;                         /* NULL: noise */
        bool has_nan, is_named;
    } cases[] = {
        { 1e-7, 1e-7, { 1e-3, -1e-3 }, .first = NULL, .is_named = true },
        { 1e-4, 1e-7, { 1e-3, -1e-3 }, .first = NULL },
        { 1e-7, 1e-4, { 1e-3, -1e-3 }, .first = NULL },
        { 1e-4, 1e-4, { 1e-3, -1e-3 }, .output = 0.5, .first = "activation/conv" },
        { 1e-7,
          1e-7,
          { 0, 0 },
          .output = 0.01,
          .first = NULL,
          .is_named = true }, /* its statistics agree */
        { 1e-7, 1e-7, { 1e-3, -1e-3 }, .jump = 0.1, .first = "parameter/conv.bias" },
        { 1e-7, 1e-7, { 0, 2e-2 }, .first = "parameter/conv.bias" },
        { 1e-7, 1e-7, { 1e-3, -1e-3 }, .output = 0.1, .first = "activation/conv" },
        { 1e-7, 1e-7, { 1e-3, -1e-3 }, .has_nan = true, .first = "activation/conv" },
        { 1e-7, 1e-7, { 1e-3, -1e-3 }, .norm = 1e-3, .first = "activation/norm" },
        { 1e-7, 1e-7, { 1e-3, -1e-3 }, .weight = 1e-3, .first = "parameter/conv.weight" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int64_t step = 0; step < STEPS; step++)
            for (int which = 0; which < 2; which++) {
                double late = which == 1 && step >= FROM ? 1 : 0;
                double bias = 0.1 + cases[i].off[which] * (double)step + late * cases[i].jump;
                double gradient = step < 2 ? cases[i].early_gradient : cases[i].gradient;
                double output = 1 + bias + late * cases[i].output;
                put_with(&m, which, "activation/conv", step, TT_F32, output,
                         late > 0 && cases[i].has_nan ? NAN : 2 * output);
                put(&m, which, "activation/norm", step, TT_F32, 1 + late * cases[i].norm);
                put(&m, which, "parameter/conv.weight", step, TT_F32,
                    1 + 1e-3 * (double)step + late * cases[i].weight);
                put(&m, which, "parameter/conv.bias", step, TT_F32, bias);
                put(&m, which, "gradient/conv.bias", step, TT_F32, gradient + which * 5e-8);
                put(&m, which, "gradient/conv.weight", step, TT_F32, 1);
            }
        tt_diff *diff = compare(&m, &everything);
        assert_string_equal(diff->first < 0 ? "" : diff->sites[diff->first].name,
                            cases[i].first != NULL ? cases[i].first : "");
        for (size_t k = 0; cases[i].first == NULL && k < diff->count; k++)
            assert_int_equal(diff->sites[k].is_rounding,
                             cases[i].is_named && strcmp(diff->sites[k].name, "gradient/conv.bias") == 0);
        end(&m, diff);
    }
}

static void what_follows_a_bfloat16_tensor_is_as_rough(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        tt_dtype before;
        tt_verdict verdict;
    } cases[] = { { "gradient/b.weight", TT_BF16, TT_DIFF_NOISE },
                  { "gradient/b.weight", TT_F32, TT_DIFF_DIFFERS },
                  { "activation/b", TT_BF16, TT_DIFF_NOISE },
                  { "parameter/b.weight", TT_BF16, TT_DIFF_DIFFERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int which = 0; which < 2; which++) {
            put(&m, which, "activation/a", 0, cases[i].before, 1);
            put(&m, which, cases[i].name, 0, TT_F32, 1 + which * 2e-3);
        }
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

/* Rounding in bfloat16 switches a rectifier now and then: an element of a gradient, a sum of 100 terms here, has
 * one more or less.  An average over units shows next to nothing of it. */
static void an_extreme_of_a_gradient_may_lose_a_term_under_bfloat16(void **state)
{
    (void)state;
    static const struct {
        tt_dtype before;
        double off, rms_off; /* 8 times the root mean square is the unit of extremes */
        tt_verdict verdict;
    } cases[] = { { TT_BF16, 0.8, 0, TT_DIFF_NOISE },
                  { TT_BF16, 2.4, 0, TT_DIFF_DIFFERS },
                  { TT_BF16, 0.8, 0.1, TT_DIFF_DIFFERS },
                  { TT_F32, 0.8, 0, TT_DIFF_DIFFERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int which = 0; which < 2; which++) {
            put(&m, which, "activation/a", 0, cases[i].before, 1);
            put_with(&m, which, "gradient/a.weight", 0, TT_F32, 1 + which * cases[i].rms_off,
                     2 + which * cases[i].off);
        }
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

static void two_roundings_in_bfloat16_are_a_unit_apart(void **state)
{
    (void)state;
    static const double off[] = { 0.006, 0.009 }; /* the unit is 2^-7 */
    for (int i = 0; i < 2; i++) {
        made m = begin();
        for (int which = 0; which < 2; which++)
            put(&m, which, "activation/a", 0, TT_BF16, 1 + which * off[i]);
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, i == 0 ? TT_DIFF_NOISE : TT_DIFF_DIFFERS);
        end(&m, diff);
    }
}

/* A gradient has passed more sums than an activation: 8 times the rounding, 4 * 2^-24 * 2. */
static void a_gradient_may_deviate_more_than_an_activation(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double off;
        tt_verdict verdict;
    } cases[] = { { "activation/a", 1e-6, TT_DIFF_DIFFERS },
                  { "gradient/a.weight", 3e-6, TT_DIFF_NOISE },
                  { "gradient/a.weight", 5e-6, TT_DIFF_DIFFERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = begin();
        for (int which = 0; which < 2; which++)
            put(&m, which, cases[i].name, 0, TT_F32, 1 + which * cases[i].off);
        tt_diff *diff = compare(&m, &everything);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

/* The gradient of an embedding is zero but for a few rows: its extremes are far above its mean. */
static void an_extreme_is_judged_by_its_own_size(void **state)
{
    (void)state;
    made m = begin();
    for (int which = 0; which < 2; which++) {
        int32_t site;
        tt_stats s = {
            .count = 1000000, .max = 1 + which * 3e-7, .absmax = 1, .sumsq = 1, .dtype = TT_F32
        };
        assert_int_equal(tt_recorder_site(m.rec[which], "gradient/e.weight", &site, &err), 0);
        assert_int_equal(tt_recorder_add(m.rec[which], &(tt_event){ .site = site, .stats = &s }), 0);
    }
    tt_diff *diff = compare(&m, &everything);
    assert_int_equal(diff->verdict, TT_DIFF_NOISE);
    end(&m, diff);
}

static void integers_have_no_noise(void **state)
{
    (void)state;
    made m = begin();
    put(&m, 0, "line/train.py:3:x", 0, TT_I64, 1);
    put(&m, 1, "line/train.py:3:x", 0, TT_I64, 1 + 1e-9);
    tt_diff *diff = compare(&m, &everything);
    assert_int_equal(diff->verdict, TT_DIFF_DIFFERS);
    end(&m, diff);
}

static void points_are_paired_by_step_not_by_number(void **state)
{
    (void)state;
    made m = begin();
    for (int64_t step = 0; step < 10; step++)
        put(&m, 0, "a", step, TT_F32, (double)step);
    for (int64_t step = 4; step < 12; step += 2)
        put(&m, 1, "a", step, TT_F32, (double)step);
    tt_diff *diff = compare(&m, &everything);
    const tt_diff_site *site = &diff->sites[0];
    assert_int_equal(diff->verdict, TT_DIFF_SAME);
    assert_int_equal(site->points, 3);
    assert_int_equal(site->only_a, 7);
    assert_int_equal(site->only_b, 1);
    end(&m, diff);
}

static void a_parameter_is_the_first_although_recorded_later(void **state)
{
    (void)state;
    made m = begin();
    for (int which = 0; which < 2; which++) {
        put(&m, which, "activation/fc", 0, TT_F32, 1 + which * 0.1);
        put(&m, which, "parameter/fc.weight", 0, TT_F32, 1 + which * 0.01);
    }
    tt_diff *diff = compare(&m, &everything);
    assert_string_equal(diff->sites[diff->first].name, "parameter/fc.weight");
    end(&m, diff);
}

static void names_that_were_changed_alike_are_paired(void **state)
{
    (void)state;
    static const char *const names[][2][2] = {
        { { "activation/layers.0", "parameter/layers.1.w" },
          { "activation/blocks.0", "parameter/blocks.1.w" } },
        { { "activation/fc", "parameter/fc.w" }, { "activation/module.fc", "parameter/module.fc.w" } },
    };
    static const tt_rename renames[] = { { "layers", "blocks" }, { "/", "/module." } };
    for (int k = 0; k < 2; k++) {
        made m = begin();
        for (int which = 0; which < 2; which++) {
            put(&m, which, "loss", 0, TT_F32, 1);
            for (int i = 0; i < 2; i++)
                put(&m, which, names[k][which][i], 0, TT_F32, 1);
        }
        tt_diff_free(compare(&m, &everything));
        tt_rename found;
        tt_diff *diff;
        tt_diff_options options = everything;
        assert_true(tt_diff_guess_rename(m.runs[0], m.runs[1], &found));
        assert_string_equal(found.from, renames[k].from);
        assert_string_equal(found.to, renames[k].to);
        assert_false(tt_diff_guess_rename(m.runs[0], m.runs[0], &found));
        options.rename = &found;
        assert_int_equal(tt_diff_compute(m.runs[0], m.runs[1], &options, &diff, &err), 0);
        assert_int_equal(diff->count, 3);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(diff->sites[i].points, 1);
        end(&m, diff);
    }
}

static void tolerances_take_the_place_of_the_floor(void **state)
{
    (void)state;
    static const struct {
        double rtol, atol;
        tt_verdict verdict;
    } cases[] = { { 0.2, 0, TT_DIFF_NOISE },
                  { 0.05, 0, TT_DIFF_DIFFERS },
                  { 0, 0.25, TT_DIFF_NOISE }, /* min and max are off by 0.2 */
                  { 0, 0.15, TT_DIFF_DIFFERS },
                  { 0.05, 0.15, TT_DIFF_NOISE } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_diff_options options = everything;
        options.has_tolerance = true;
        options.rtol = cases[i].rtol;
        options.atol = cases[i].atol;
        made m = begin();
        put(&m, 0, "a", 0, TT_F32, 1);
        put(&m, 1, "a", 0, TT_F32, 1.1);
        tt_diff *diff = compare(&m, &options);
        assert_int_equal(diff->verdict, cases[i].verdict);
        end(&m, diff);
    }
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    made m = begin();
    for (int64_t step = 0; step < 40; step++)
        for (int which = 0; which < 2; which++)
            put(&m, which, "a", step, TT_F32, 1 + which);
    tt_diff_free(compare(&m, &everything));
    for (long nth = 1;; nth++) {
        tt_diff *diff = NULL;
        alloc_fail_at(nth);
        tt_status st = tt_diff_compute(m.runs[0], m.runs[1], &everything, &diff, &err);
        if (!alloc_fail_stop()) {
            assert_int_equal(st, TT_OK);
            assert_true(nth > 2);
            tt_diff_free(diff);
            break;
        }
        assert_int_equal(st, TT_ENOMEM);
        assert_null(diff);
    }
    end(&m, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_numbers_are_identical),
        cmocka_unit_test(a_last_bit_of_float32_is_noise_and_of_float64_is_not),
        cmocka_unit_test(a_fault_stands_out_of_growing_noise),
        cmocka_unit_test(noise_may_grow_but_not_without_end),
        cmocka_unit_test(a_gradient_whose_terms_cancel_is_judged_by_the_weights),
        cmocka_unit_test(a_bias_is_moved_by_the_rounding_of_its_gradient),
        cmocka_unit_test(a_weight_may_deviate_by_a_share_of_its_steps),
        cmocka_unit_test(an_extreme_of_a_weight_may_be_a_step_off_to_either_side),
        cmocka_unit_test(a_bias_may_drift_if_its_gradient_is_rounding),
        cmocka_unit_test(what_follows_a_bfloat16_tensor_is_as_rough),
        cmocka_unit_test(an_extreme_of_a_gradient_may_lose_a_term_under_bfloat16),
        cmocka_unit_test(two_roundings_in_bfloat16_are_a_unit_apart),
        cmocka_unit_test(a_gradient_may_deviate_more_than_an_activation),
        cmocka_unit_test(an_extreme_is_judged_by_its_own_size),
        cmocka_unit_test(integers_have_no_noise),
        cmocka_unit_test(points_are_paired_by_step_not_by_number),
        cmocka_unit_test(a_parameter_is_the_first_although_recorded_later),
        cmocka_unit_test(names_that_were_changed_alike_are_paired),
        cmocka_unit_test(tolerances_take_the_place_of_the_floor),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
