/* test_arrow.c -- streams of Arrow's C interface: their rows, and who owns them.
 *
 * That the rows are right for every type of tensor is tested through Python, where pyarrow, DuckDB and Polars read
 * them; here is what only C can do wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrow/abi.h"
#include "arrow/name.h"
#include "tensortap_tools.h"

#include "alloc_fail.h"
#include "run_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SITES = 3, STEPS = 40 };

static tt_error err;

static void record(const char *folder)
{
    tt_recorder *rec = begin_run(folder, NULL);
    assert_int_equal(tt_recorder_module(rec, "h.1", "Linear"), TT_OK);
    assert_int_equal(tt_recorder_setting(rec, 0, "optimizer/lr", "0.1"), TT_OK);
    assert_int_equal(tt_recorder_note(rec, 3, "look"), TT_OK);
    for (int64_t step = 0; step < STEPS; step++)
        for (int32_t i = 0; i < SITES; i++) {
            static const char *const names[SITES] = { "gradient/h.1.weight", "activation/h.1", "b" };
            int32_t site = site_of(rec, names[i]);
            tt_stats s = stats_of(site, step);
            assert_int_equal(tt_recorder_add(rec, &(tt_event){ .site = site, .step = step, .stats = &s }),
                             TT_OK);
        }
    finish_run(rec);
}

static tt_arrow *table_of(const char *name, const char *folder)
{
    const tt_arrow_options options = {
        .table = name, .paths = &folder, .path_count = 1, .first_step = INT64_MIN, .last_step = INT64_MAX
    };
    tt_arrow *arrow;
    if (tt_arrow_create(&options, &arrow, &err) < 0)
        fail_msg("%s", err.text);
    return arrow;
}

static struct ArrowArrayStream *stream_of(tt_arrow *arrow)
{
    struct ArrowArrayStream *stream;
    if (tt_arrow_stream_new(arrow, &stream, &err) < 0)
        fail_msg("%s", err.text);
    return stream;
}

static void a_stream_outlives_its_table_and_a_batch_its_stream(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    record(folder);
    tt_arrow *arrow = table_of("points", folder);
    struct ArrowArrayStream *stream = stream_of(arrow);
    tt_arrow_free(arrow);
    struct ArrowSchema schema;
    struct ArrowArray batch;
    assert_int_equal(stream->get_schema(stream, &schema), 0);
    assert_int_equal(stream->get_next(stream, &batch), 0);
    tt_arrow_stream_free(stream);
    assert_int_equal(batch.length, SITES * STEPS);
    assert_int_equal(batch.n_children, schema.n_children);
    for (int64_t i = 0; i < schema.n_children; i++)
        if (strcmp(schema.children[i]->name, "step") == 0) { /* of the first site by name */
            const int64_t *steps = batch.children[i]->buffers[1];
            for (int64_t step = 0; step < STEPS; step++)
                assert_int_equal(steps[step], step);
        }
    batch.release(&batch);
    assert_null(batch.release);
    schema.release(&schema);
    assert_null(schema.release);
    run_folder_remove(folder);
}

static void a_column_that_was_moved_away_is_released_by_its_new_owner(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    record(folder);
    tt_arrow *arrow = table_of("points", folder);
    struct ArrowArrayStream *stream = stream_of(arrow);
    struct ArrowArray batch, site, words;
    assert_int_equal(stream->get_next(stream, &batch), 0);
    site = *batch.children[2]; /* as the standard says: copy, and mark as released */
    batch.children[2]->release = NULL;
    batch.release(&batch);
    words = *site.dictionary;
    site.dictionary->release = NULL;
    site.release(&site);
    tt_arrow_stream_free(stream);
    tt_arrow_free(arrow);
    assert_int_equal(words.length, SITES);
    const int32_t *at = words.buffers[1];
    assert_memory_equal((const char *)words.buffers[2] + at[0], "activation/h.1",
                        (size_t)(at[1] - at[0]));
    words.release(&words);
    run_folder_remove(folder);
}

static void each_stream_begins_at_the_first_row(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    record(folder);
    tt_arrow *arrow = table_of("points", folder);
    for (int i = 0; i < 3; i++) {
        struct ArrowArrayStream *stream = stream_of(arrow);
        struct ArrowArray batch;
        assert_int_equal(stream->get_next(stream, &batch), 0);
        assert_int_equal(batch.length, SITES * STEPS);
        batch.release(&batch);
        for (int end = 0; end < 2; end++) { /* the end stays the end */
            assert_int_equal(stream->get_next(stream, &batch), 0);
            assert_null(batch.release);
        }
        tt_arrow_stream_free(stream);
    }
    tt_arrow_free(arrow);
    run_folder_remove(folder);
}

static void a_run_that_is_not_there_is_an_error_with_a_text(void **state)
{
    (void)state;
    tt_arrow *arrow = table_of("points", "/nowhere/at all");
    struct ArrowArrayStream *stream = stream_of(arrow);
    struct ArrowArray batch;
    assert_null(tt_arrow_error(arrow));
    assert_int_not_equal(stream->get_next(stream, &batch), 0);
    assert_non_null(strstr(stream->get_last_error(stream), "/nowhere/at all"));
    assert_string_equal(tt_arrow_error(arrow), stream->get_last_error(stream));
    assert_int_equal(stream->get_next(stream, &batch), 0);
    assert_null(batch.release);
    tt_arrow_stream_free(stream);
    tt_arrow_free(arrow);
}

/* Reads everything; false: something failed. */
static bool read_all(const char *table, const char *folder)
{
    const tt_arrow_options options = {
        .table = table, .paths = &folder, .path_count = 1, .first_step = 2, .last_step = STEPS - 3
    };
    tt_arrow *arrow = NULL;
    struct ArrowArrayStream *stream = NULL;
    struct ArrowSchema schema = { 0 };
    bool is_fine = tt_arrow_create(&options, &arrow, NULL) == TT_OK &&
                   tt_arrow_stream_new(arrow, &stream, NULL) == TT_OK &&
                   stream->get_schema(stream, &schema) == 0;
    for (struct ArrowArray batch = { .release = NULL }; is_fine;) {
        is_fine = stream->get_next(stream, &batch) == 0;
        if (!is_fine || batch.release == NULL)
            break;
        batch.release(&batch);
    }
    if (schema.release != NULL)
        schema.release(&schema);
    tt_arrow_stream_free(stream);
    tt_arrow_free(arrow);
    return is_fine;
}

static void nothing_is_lost_when_an_allocation_fails(void **state)
{
    (void)state;
    const char *folder = run_folder_new(), *about;
    record(folder);
    for (size_t i = 0; tt_arrow_table(i, &about) != NULL; i++) {
        const char *table = tt_arrow_table(i, &about);
        if (strcmp(table, "findings") == 0)
            continue; /* health goes on without memory, and sees less */
        for (long nth = 1;; nth++) {
            alloc_fail_at(nth);
            bool is_fine = read_all(table, folder);
            if (!alloc_fail_stop()) {
                assert_true(is_fine);
                break;
            }
        }
    }
    run_folder_remove(folder);
}

static void assert_part(tt_arrow_part part, const char *text)
{
    assert_int_equal(part.len, strlen(text));
    assert_memory_equal(part.text != NULL ? part.text : "", text, part.len);
}

static void names_are_split(void **state)
{
    (void)state;
    tt_module list[] = { { "(root)", "M" }, { "h.1", "Linear" }, { "h.1.attn", "Attention" } };
    const tt_arrow_modules modules = { .items = list, .count = 3 }, none = { 0 };
    static const struct {
        const char *name, *kind, *module, *tensor;
        int64_t layer;
    } cases[] = {
        { "activation/h.1", "activation", "h.1", "", 1 },
        { "activation/h.1.attn.0", "activation", "h.1.attn", "0", 1 },
        { "activation/h.1[0]", "activation", "h.1", "[0]", 1 },
        { "activation/(root).logits", "activation", "(root)", "logits", -1 },
        { "activation/other.2", "activation", "other.2", "", 2 },
        { "activation/", "activation", "", "", -1 },
        { "gradient/G:main.0.weight", "gradient", "G:main.0", "weight", 0 },
        { "gradient/G:weight", "gradient", "G", "weight", -1 },
        { "parameter/weight", "parameter", "(root)", "weight", -1 },
        { "line/src/train.py:34:y", "line", "", "y", -1 },
        { "loss/train.py:34", "loss", "", "train.py:34", -1 },
        { "a/b/c", "a", "", "b/c", -1 },
        { "loss", "", "", "loss", -1 },
        { "/", "", "", "", -1 },
        { "", "", "", "", -1 },
        { "parameter/x.99999999999999999999.w", "parameter", "x.99999999999999999999", "w", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_arrow_name found = tt_arrow_name_parse(cases[i].name, &modules);
        assert_part(found.kind, cases[i].kind);
        assert_part(found.module, cases[i].module);
        assert_part(found.tensor, cases[i].tensor);
        assert_int_equal(found.layer, cases[i].layer);
    }
    assert_part(tt_arrow_name_parse("activation/h.1.attn.0", &none).module, "h.1.attn.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_outlives_its_table_and_a_batch_its_stream),
        cmocka_unit_test(a_column_that_was_moved_away_is_released_by_its_new_owner),
        cmocka_unit_test(each_stream_begins_at_the_first_row),
        cmocka_unit_test(a_run_that_is_not_there_is_an_error_with_a_text),
        cmocka_unit_test(nothing_is_lost_when_an_allocation_fails),
        cmocka_unit_test(names_are_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
