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
        cmocka_unit_test(the_earliest_step_of_all_ranks_counts),
        cmocka_unit_test(what_fed_it_is_finite_and_came_before),
        cmocka_unit_test(the_norm_of_the_gradients_feeds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
