/* test_health.c -- findings of a file and of a program that runs are the same, and causes hide effects.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"

#include "alloc_fail.h"
#include "run_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static tt_error err;

/* A run that is written, and a checker that sees every event of it. */
typedef struct story {
    const char *folder;
    tt_recorder *rec;
    tt_checker *checker;
    int64_t step;
} story;

static story begin(void)
{
    story s = { .folder = run_folder_new() };
    s.rec = begin_run(s.folder, NULL);
    assert_int_equal(tt_checker_create(&s.checker, &err), TT_OK);
    return s;
}

static void add(story *s, const char *name, tt_event event)
{
    event.site = site_of(s->rec, name);
    event.step = s->step;
    event.time = 1000 + s->step;
    event.phase = TT_PHASE_TRAIN;
    assert_int_equal(tt_recorder_add(s->rec, &event), TT_OK);
    tt_checker_see(s->checker, name, &event);
}

static void add_number(story *s, const char *name, double value)
{
    add(s, name, (tt_event){ .scalar = &value });
}

/* Ten elements of this size, which sum up to `sum`. */
static void add_tensor(story *s, const char *name, double size, double sum)
{
    tt_stats stats = { .count = 10,
                       .min = -size,
                       .max = size,
                       .absmax = size,
                       .sum = sum,
                       .mean = sum / 10,
                       .sumsq = 10 * size * size,
                       .zeros = size == 0 ? 10 : 0,
                       .dtype = TT_F32 };
    add(s, name, (tt_event){ .stats = &stats });
}

static void end(story *s, tt_run *run)
{
    tt_checker_free(s->checker);
    tt_run_close(run);
    run_folder_remove(s->folder);
}

/* What the rules say of a run, as JSON. */
static void write_findings(tt_findings *findings, tt_buf *out)
{
    findings->unchecked_count = findings->notes.count = 0; /* a checker does not say what it lacks */
    for (size_t i = 0; i < findings->count; i++)
        findings->items[i].next_count = 0; /* and names no commands */
    findings->rules = 0;
    findings->verdict = "";
    assert_int_equal(tt_findings_write(findings, out), TT_OK);
    tt_findings_free(findings);
}

static void assert_rules(tt_run *run, const char *select, const char *const *ids, size_t count)
{
    tt_findings *findings;
    if (tt_health(run, &(tt_health_options){ .select = select }, &findings, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(findings->count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(findings->items[i].rule, ids[i]);
    tt_findings_free(findings);
}

/* A frozen weight, a loss that explodes and a rate of 0: a finding of each severity. */
static void write_sick(story *s)
{
    for (; s->step < 40; s->step++) {
        add_tensor(s, "parameter/fc.weight", 1, 0.5);
        add_tensor(s, "gradient/fc.weight", 0.1, (double)s->step);
        add_number(s, "tensortap/state/fc.weight", 2);
        add_number(s, "loss", 1 + (double)s->step);
        add_number(s, "tensortap/mode/trunk", 0);
    }
}

static void a_file_and_a_program_that_runs_have_the_same_findings(void **state)
{
    (void)state;
    story s = begin();
    write_sick(&s);
    tt_run *run = finish_and_read(s.rec, s.folder);
    tt_findings *live, *stored;
    assert_int_equal(tt_checker_find(s.checker, &live, &err), TT_OK);
    assert_int_equal(tt_health(run, NULL, &stored, &err), TT_OK);
    assert_int_equal(live->count, 2);
    assert_string_equal(live->items[0].rule, "weights-unchanged");
    assert_string_equal(live->items[1].rule, "divergence"); /* a loss that has grown: a warning */
    tt_buf a = { 0 }, b = { 0 };
    write_findings(live, &a);
    write_findings(stored, &b);
    assert_string_equal(a.data, b.data);
    tt_buf_free(&a);
    tt_buf_free(&b);
    end(&s, run);
}

/* Written in so many pieces that the recorder joins some of them; sites come and go. */
static void a_run_that_grows_is_read_further_with_the_same_findings(void **state)
{
    (void)state;
    story s = begin();
    tt_run *run = NULL;
    tt_histories *seen = NULL; /* owned */
    for (; s.step < 600; s.step++) {
        if (s.step > 100)
            add_number(&s, "learning_rate", s.step < 400 ? 0 : 0.1);
        add_tensor(&s, "parameter/fc.weight", 1, s.step < 300 ? 0.5 : (double)s.step);
        add_tensor(&s, "gradient/fc.weight", 0.1, (double)s.step);
        add_number(&s, "tensortap/state/fc.weight", 2);
        add_number(&s, "loss", 1 + (double)(s.step % 200));
        if (s.step % 7 != 0)
            continue;
        assert_int_equal(tt_recorder_flush(s.rec, &err), TT_OK);
        assert_int_equal(run == NULL ? tt_run_open(s.folder, &run, &err) : tt_run_refresh(run, &err),
                         TT_OK);
        tt_findings *further, *anew;
        assert_int_equal(tt_health(run, &(tt_health_options){ .seen = &seen }, &further, &err), TT_OK);
        assert_int_equal(tt_health(run, NULL, &anew, &err), TT_OK);
        tt_buf a = { 0 }, b = { 0 };
        assert_int_equal(tt_findings_write(further, &a), TT_OK);
        assert_int_equal(tt_findings_write(anew, &b), TT_OK);
        assert_string_equal(a.data, b.data);
        tt_buf_free(&a);
        tt_buf_free(&b);
        tt_findings_free(further);
        tt_findings_free(anew);
    }
    tt_histories_free(seen);
    tt_run_close(run);
    end(&s, finish_and_read(s.rec, s.folder));
}

static void a_checker_says_a_finding_once(void **state)
{
    (void)state;
    story s = begin();
    tt_findings *findings;
    for (size_t round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++, s.step++)
            add_number(&s, "learning_rate", 0);
        assert_int_equal(tt_checker_find(s.checker, &findings, &err), TT_OK);
        assert_int_equal(findings->count, round == 0 ? 1 : 0);
        tt_findings_free(findings);
    }
    end(&s, finish_and_read(s.rec, s.folder));
}

static void a_cause_hides_what_follows_from_it_also_if_it_was_not_asked_for(void **state)
{
    (void)state;
    story s = begin();
    for (; s.step < 40; s.step++) {
        add_tensor(&s, "parameter/fc.weight", 1, 0.5);
        add_tensor(&s, "gradient/fc.weight", 0.1, (double)s.step);
        add_number(&s, "tensortap/state/fc.weight", 7);
        add_number(&s, "loss", 1.5);
        add_number(&s, "learning_rate", 0);
    }
    tt_run *run = finish_and_read(s.rec, s.folder);
    assert_rules(run, NULL, (const char *const[]){ "learning-rate" }, 1);
    assert_rules(run, "loss-stuck", NULL, 0);
    tt_findings *findings;
    tt_health_options wrong = { .select = "loss-stuck,lost" };
    assert_int_equal(tt_health(run, &wrong, &findings, &err), TT_EINVAL);
    assert_string_equal(err.text, "select takes ids of rules, not 'lost'");
    end(&s, run);
}

static void nothing_is_said_before_a_series_has_a_history(void **state)
{
    (void)state;
    story s = begin();
    for (; s.step < 4; s.step++) {
        add_tensor(&s, "gradient/fc.weight", s.step == 3 ? 1e6 : 1e-3, 0);
        add_number(&s, "loss", s.step == 3 ? 1e6 : 1);
        add_number(&s, "learning_rate", 0);
    }
    tt_run *run = finish_and_read(s.rec, s.folder);
    assert_rules(run, NULL, NULL, 0);
    end(&s, run);
}

/* Such a loss falls from then on; if it comes back to where it began, that is worth a look at most. */
static void a_loss_that_explodes_in_the_first_steps_has_diverged(void **state)
{
    (void)state;
    static const struct {
        double top, end;
        size_t count;
        tt_severity severity;
    } losses[] = { { 3000, 500, 1, TT_SEVERITY_ERROR },
                   { 3000, 5, 1, TT_SEVERITY_WARNING },
                   { 60, 5, 0, TT_SEVERITY_WARNING } };
    for (size_t i = 0; i < 3; i++) {
        story s = begin();
        for (; s.step < 200; s.step++)
            add_number(&s, "loss", s.step == 0 ? 4 : s.step < 8 ? losses[i].top : losses[i].end);
        tt_run *run = finish_and_read(s.rec, s.folder);
        tt_findings *findings;
        assert_int_equal(tt_health(run, NULL, &findings, &err), TT_OK);
        assert_int_equal(findings->count, losses[i].count);
        for (size_t k = 0; k < findings->count; k++) {
            assert_string_equal(findings->items[k].rule, "divergence");
            assert_int_equal(findings->items[k].severity, losses[i].severity);
        }
        tt_findings_free(findings);
        end(&s, run);
    }
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    story s = begin();
    write_sick(&s);
    tt_run *run = finish_and_read(s.rec, s.folder);
    tt_findings *findings;
    assert_int_equal(tt_health(run, NULL, &findings, &err), TT_OK); /* what is read stays */
    tt_findings_free(findings);
    bool was_hit = true;
    for (long nth = 1; was_hit; nth++) {
        alloc_fail_at(nth);
        tt_status st = tt_health(run, NULL, &findings, &err);
        was_hit = alloc_fail_stop();
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
        if (st == TT_OK)
            tt_findings_free(findings);
    }
    end(&s, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_and_a_program_that_runs_have_the_same_findings),
        cmocka_unit_test(a_run_that_grows_is_read_further_with_the_same_findings),
        cmocka_unit_test(a_checker_says_a_finding_once),
        cmocka_unit_test(a_cause_hides_what_follows_from_it_also_if_it_was_not_asked_for),
        cmocka_unit_test(nothing_is_said_before_a_series_has_a_history),
        cmocka_unit_test(a_loss_that_explodes_in_the_first_steps_has_diverged),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
