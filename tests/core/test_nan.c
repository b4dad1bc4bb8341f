/* test_nan.c -- the origin of a NaN is where it was born, not where it ended.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

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

typedef struct story {
    const char *folder;
    tt_recorder *rec;
    int64_t step, time;
    uint8_t phase; /* tt_phase */
} story;

static story begin(int32_t rank, const char *folder)
{
    story s = { .folder = folder != NULL ? folder : run_folder_new(), .time = 1000 };
    if (tt_recorder_open(s.folder, &(tt_recorder_options){ .rank = rank }, &s.rec, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* One point; nan elements of ten are NaN. */
static void put(story *s, const char *name, int64_t nan)
{
    int32_t site;
    tt_stats stats = {
        .count = 10, .nan = nan, .min = -1, .max = 1, .absmax = 1, .sumsq = 5, .l1 = 5, .dtype = TT_F32
    };
    assert_int_equal(tt_recorder_site(s->rec, name, &site, &err), 0);
    s->time += 10;
    assert_int_equal(tt_recorder_add(s->rec, &(tt_event){ .site = site,
                                                          .step = s->step,
                                                          .time = s->time,
                                                          .phase = s->phase,
                                                          .stats = &stats }),
                     0);
}

static tt_run *finish(story *s)
{
    tt_run *run;
    assert_int_equal(tt_recorder_close(s->rec, 30, &err), 0);
    if (tt_run_open(s->folder, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

/* The name of the origin; checks the step and how it came about. */
static void assert_origin(tt_run *run, const char *allow, const char *name, int64_t step, tt_birth birth)
{
    tt_nonfinite found;
    if (tt_run_nonfinite(run, allow, &found, &err) < 0)
        fail_msg("%s", err.text);
    if (name == NULL) {
        assert_int_equal(found.site, -1);
        return;
    }
    assert_true(found.site >= 0);
    assert_string_equal(tt_run_site_name(run, found.site), name);
    assert_int_equal(found.point.step, step);
    assert_int_equal(found.birth, birth);
}

static void end(story *s, tt_run *run)
{
    tt_run_close(run);
    run_folder_remove(s->folder);
}

static void a_run_of_finite_values_has_no_origin(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    put(&s, "activation/fc", 0);
    tt_run *run = finish(&s);
    assert_origin(run, NULL, NULL, 0, TT_BIRTH_FORWARD);
    end(&s, run);
}

static void the_child_that_returned_first_is_the_origin(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    for (s.step = 0; s.step < 3; s.step++) {
        put(&s, "activation/a", 0);
        put(&s, "activation/b.c", s.step == 2);
        put(&s, "activation/b", s.step == 2 ? 9 : 0);
        put(&s, "activation/(root)", s.step == 2 ? 10 : 0);
    }
    tt_run *run = finish(&s);
    tt_nonfinite found;
    assert_origin(run, NULL, "activation/b.c", 2, TT_BIRTH_FORWARD);
    assert_int_equal(tt_run_nonfinite(run, NULL, &found, &err), 0);
    assert_int_equal(found.order, 2);
    assert_int_equal(found.of, 4);
    assert_int_equal(found.reached, 3);
    end(&s, run);
}

/* Sites are numbered as they first appear; a later step may run them in another order. */
static void the_order_of_its_own_step_counts(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    put(&s, "activation/a", 0);
    put(&s, "activation/b", 0);
    s.step = 1;
    put(&s, "activation/b", 1);
    put(&s, "activation/a", 1);
    tt_run *run = finish(&s);
    assert_origin(run, NULL, "activation/b", 1, TT_BIRTH_FORWARD);
    end(&s, run);
}

static void a_parameter_comes_before_what_it_spoilt(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    for (s.step = 0; s.step < 2; s.step++) {
        put(&s, "activation/fc", s.step);
        put(&s, "parameter/fc.weight", s.step);
        put(&s, "gradient/fc.weight", s.step);
    }
    tt_run *run = finish(&s);
    assert_origin(run, NULL, "parameter/fc.weight", 1, TT_BIRTH_UPDATE);
    tt_nonfinite found;
    tt_feed feeds[8];
    size_t count;
    assert_int_equal(tt_run_nonfinite(run, NULL, &found, &err), 0);
    assert_int_equal(tt_run_feeds(run, &found, feeds, 8, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(tt_run_site_name(run, feeds[0].site), "gradient/fc.weight");
    assert_int_equal(feeds[0].index, 0);
    assert_int_equal(feeds[1].kind, TT_FEED_PREVIOUS);
    end(&s, run);
}

static void of_gradients_alone_the_last_layer_is_the_origin(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    put(&s, "activation/a", 0);
    put(&s, "activation/b", 0);
    put(&s, "gradient/a.weight", 3); /* recorded in the order of parameters */
    put(&s, "gradient/b.weight", 3);
    put(&s, "gradient/c.weight", 0);
    put(&s, "gradient_norm", 1);
    tt_run *run = finish(&s);
    assert_origin(run, NULL, "gradient/b.weight", 0, TT_BIRTH_BACKWARD);
    end(&s, run);
}

static void an_activation_comes_before_all_gradients(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    put(&s, "gradient/a.weight", 1);
    put(&s, "activation/a", 1);
    tt_run *run = finish(&s);
    assert_origin(run, NULL, "activation/a", 0, TT_BIRTH_FORWARD);
    end(&s, run);
}

static void a_loss_comes_between_activations_and_gradients(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    put(&s, "activation/a", 0);
    put(&s, "gradient/a.weight", 3);
    put(&s, "activation_gradient/a", 3);
    put(&s, "loss/train.py:7", 1); /* recorded when backward has run */
    tt_run *run = finish(&s);
    tt_nonfinite found;
    assert_origin(run, NULL, "loss/train.py:7", 0, TT_BIRTH_LOSS);
    assert_int_equal(tt_run_nonfinite(run, "loss/*", &found, &err), 0);
    assert_true(found.has_forward && found.has_loss && found.has_backward);
    end(&s, run);
}

/* What an evaluation shows after the update of its step is not older than the step's gradients. */
static void a_gradient_comes_before_the_evaluation_that_follows(void **state)
{
    (void)state;
    for (int bad = 0; bad < 3; bad++) {
        story s = begin(0, NULL);
        put(&s, "activation/a", 0);
        put(&s, "gradient/a.weight", bad == 0);
        put(&s, "parameter/a.weight", bad == 1);
        s.phase = TT_PHASE_EVAL;
        put(&s, "activation/a", 7);
        tt_run *run = finish(&s);
        assert_origin(run, NULL,
                      bad == 0   ? "gradient/a.weight"
                      : bad == 1 ? "parameter/a.weight"
                                 : "activation/a",
                      0,
                      bad == 0   ? TT_BIRTH_BACKWARD
                      : bad == 1 ? TT_BIRTH_UPDATE
                                 : TT_BIRTH_EVALUATION);
        end(&s, run);
    }
}

static void a_number_that_was_logged_gives_way_to_the_loss(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    int32_t site;
    assert_int_equal(tt_recorder_site(s.rec, "loss/total", &site, &err), 0);
    assert_int_equal(tt_recorder_scalar(s.rec, site, 0, (double)NAN), 0);
    put(&s, "loss/train.py:7", 1);
    tt_run *run = finish(&s);
    assert_origin(run, NULL, "loss/train.py:7", 0, TT_BIRTH_LOSS);
    assert_origin(run, "*:7", "loss/total", 0, TT_BIRTH_FORWARD);
    end(&s, run);
}

static void sites_that_may_be_non_finite_are_left_out(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    for (s.step = 0; s.step < 6; s.step++) {
        put(&s, "activation/mask", 4);
        put(&s, "activation/fc", s.step == 5);
    }
    tt_run *run = finish(&s);
    assert_origin(run, "*mask", "activation/fc", 5, TT_BIRTH_FORWARD);
    assert_origin(run, "*", NULL, 0, TT_BIRTH_FORWARD);
    end(&s, run);
}

/* The same with any counts. */
static void put_counts(story *s, const char *name, tt_stats stats, bool is_skipped)
{
    int32_t site;
    stats.count = 10;
    stats.sumsq = 5;
    stats.dtype = TT_F32;
    assert_int_equal(tt_recorder_site(s->rec, name, &site, &err), 0);
    s->time += 10;
    const tt_event event = {
        .site = site, .step = s->step, .time = s->time, .is_skipped = is_skipped, .stats = &stats
    };
    assert_int_equal(tt_recorder_add(s->rec, &event), 0);
}

static void only_minus_inf_that_no_layer_made_is_a_mask(void **state)
{
    (void)state;
    assert_true(tt_value_is_masked("input/attn.1", NULL, 0, 0, 3));
    assert_true(tt_value_is_masked("input/fc", "Linear", 0, 0, 3)); /* it was given to the layer */
    assert_true(tt_value_is_masked("activation/scores", "Scores", 0, 0, 3));
    assert_true(tt_value_is_masked("activation/net", "ConvNet", 0, 0, 3));
    assert_false(tt_value_is_masked("activation/fc", "Linear", 0, 0, 3));
    assert_false(tt_value_is_masked("activation/conv", "Conv2d", 0, 0, 3));
    assert_false(tt_value_is_masked("activation/scores", "Scores", 1, 0, 3));
    assert_false(tt_value_is_masked("activation/scores", "Scores", 0, 1, 3));
    assert_false(tt_value_is_masked("activation/scores", "Scores", 0, 0, 0));
    static const char *const others[] = { "parameter/w", "gradient/w", "activation_gradient/a",
                                          "loss/train.py:3", "gradient_norm" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(tt_value_is_masked(others[i], NULL, 0, 0, 3));
}

/* Also where the site held a mask in every step before. */
static void a_mask_that_becomes_nan_is_found(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    for (s.step = 0; s.step < 1000; s.step++)
        put_counts(&s, "activation/scores", (tt_stats){ .neginf = 4, .nan = s.step == 777, .max = 1 },
                   false);
    tt_run *run = finish(&s);
    assert_origin(run, NULL, "activation/scores", 777, TT_BIRTH_FORWARD);
    end(&s, run);
}

static void a_minus_inf_that_is_new_is_the_cause_of_the_nan_behind_it(void **state)
{
    (void)state;
    for (int has_mask = 0; has_mask < 2; has_mask++) {
        story s = begin(0, NULL);
        for (s.step = 0; s.step < 3; s.step++) {
            bool is_bad = s.step == 2, is_there = has_mask || is_bad;
            put_counts(&s, "activation/log", (tt_stats){ .neginf = is_there, .max = 1 }, false);
            put_counts(&s, "activation/out", (tt_stats){ .nan = is_bad, .max = 1 }, false);
        }
        tt_run *run = finish(&s);
        assert_origin(run, NULL, has_mask ? "activation/out" : "activation/log", 2, TT_BIRTH_FORWARD);
        end(&s, run);
    }
}

static void a_skipped_step_counts_only_if_nothing_else_does(void **state)
{
    (void)state;
    for (int has_more = 0; has_more < 2; has_more++) {
        story s = begin(0, NULL);
        put_counts(&s, "gradient/w", (tt_stats){ .posinf = 1, .max = 1 }, true);
        s.step = 1;
        put_counts(&s, "gradient/w", (tt_stats){ .nan = has_more, .max = 1 }, false);
        tt_run *run = finish(&s);
        tt_nonfinite found;
        assert_int_equal(tt_run_nonfinite(run, NULL, &found, &err), 0);
        assert_int_equal(found.point.step, has_more);
        assert_int_equal(found.point.is_skipped, !has_more);
        end(&s, run);
    }
}

static void the_earliest_step_of_all_ranks_counts(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    for (s.step = 0; s.step < 9; s.step++)
        put(&s, "activation/a", s.step >= 7);
    assert_int_equal(tt_recorder_close(s.rec, 30, &err), 0);
    story other = begin(1, s.folder);
    for (other.step = 0; other.step < 9; other.step++)
        put(&other, "activation/a", other.step >= 4);
    tt_run *run = finish(&other);
    tt_nonfinite found;
    assert_int_equal(tt_run_nonfinite(run, NULL, &found, &err), 0);
    assert_int_equal(found.file, 1);
    assert_int_equal(found.point.step, 4);
    end(&s, run);
}

static void what_fed_it_is_finite_and_came_before(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    for (s.step = 0; s.step < 2; s.step++) {
        put(&s, "activation/a", 0);
        put(&s, "activation/b", 0);
        put(&s, "activation/c", s.step);
        put(&s, "activation/d", 0);
        put(&s, "parameter/c.weight", 0);
        put(&s, "parameter/c.inner.weight", 0);
    }
    tt_run *run = finish(&s);
    tt_nonfinite found;
    tt_feed feeds[8];
    size_t count;
    assert_int_equal(tt_run_nonfinite(run, NULL, &found, &err), 0);
    assert_int_equal(tt_run_feeds(run, &found, feeds, 8, &count, &err), 0);
    static const char *const names[] = { "activation/b", "activation/a", "parameter/c.weight",
                                         "activation/c" };
    static const tt_feed_kind kinds[] = { TT_FEED_BEFORE, TT_FEED_BEFORE, TT_FEED_PARAMETER,
                                          TT_FEED_PREVIOUS };
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(tt_run_site_name(run, feeds[i].site), names[i]);
        assert_int_equal(feeds[i].kind, kinds[i]);
    }
    end(&s, run);
}

static void the_norm_of_the_gradients_feeds_nothing(void **state)
{
    (void)state;
    story s = begin(0, NULL);
    put(&s, "activation/a", 0);
    put(&s, "gradient_norm", 0); /* after the step, before an evaluation that belongs to it */
    put(&s, "Adam2:gradient_norm", 0);
    put(&s, "activation/b", 1);
    tt_run *run = finish(&s);
    tt_nonfinite found;
    tt_feed feeds[8];
    size_t count;
    assert_int_equal(tt_run_nonfinite(run, NULL, &found, &err), 0);
    assert_int_equal(tt_run_feeds(run, &found, feeds, 8, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_string_equal(tt_run_site_name(run, feeds[0].site), "activation/a");
    end(&s, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_of_finite_values_has_no_origin),
        cmocka_unit_test(the_child_that_returned_first_is_the_origin),
        cmocka_unit_test(the_order_of_its_own_step_counts),
        cmocka_unit_test(a_parameter_comes_before_what_it_spoilt),
        cmocka_unit_test(of_gradients_alone_the_last_layer_is_the_origin),
        cmocka_unit_test(an_activation_comes_before_all_gradients),
        cmocka_unit_test(a_loss_comes_between_activations_and_gradients),
        cmocka_unit_test(a_gradient_comes_before_the_evaluation_that_follows),
        cmocka_unit_test(a_number_that_was_logged_gives_way_to_the_loss),
        cmocka_unit_test(sites_that_may_be_non_finite_are_left_out),
        cmocka_unit_test(only_minus_inf_that_no_layer_made_is_a_mask),
        cmocka_unit_test(a_mask_that_becomes_nan_is_found),
        cmocka_unit_test(a_minus_inf_that_is_new_is_the_cause_of_the_nan_behind_it),
        cmocka_unit_test(a_skipped_step_counts_only_if_nothing_else_does),
        cmocka_unit_test(the_earliest_step_of_all_ranks_counts),
        cmocka_unit_test(what_fed_it_is_finite_and_came_before),
        cmocka_unit_test(the_norm_of_the_gradients_feeds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
