/* test_page.c -- what the page holds of a run: extremes, NaN, numbers that read back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/collect.h"
#include "page/page.h"

#include "alloc_fail.h"
#include "run_folder.h"

#include <libdeflate.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tt_error err;

/* A site of 1000 steps: 1 everywhere, 50 at step 517, NaN at step 700; and a number. */
static tt_run *record(const char *folder)
{
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t site = site_of(rec, "activation/a"), loss = site_of(rec, "loss");
    for (int64_t step = 0; step < 1000; step++) {
        double x = step == 517 ? 50 : 1;
        const tt_stats s = { .count = 4,
                             .nan = step == 700,
                             .min = -x,
                             .max = x,
                             .absmax = x,
                             .m2 = 4 * x * x,
                             .sumsq = 4 * x * x,
                             .dtype = TT_F32 };
        assert_int_equal(tt_recorder_add(rec, &(tt_event){ .site = site, .step = step, .stats = &s }), 0);
        assert_int_equal(tt_recorder_scalar(rec, loss, step, step == 3 ? (double)NAN : x), 0);
    }
    return finish_and_read(rec, folder);
}

static float most_of(const tt_page_bins *bins, tt_page_column column)
{
    float most = -INFINITY;
    for (size_t i = 0; i < bins->bins; i++)
        most = fmaxf(most, bins->cells[column][i]);
    return most;
}

static int bad_count(const tt_page_bins *bins)
{
    int count = 0;
    for (size_t i = 0; i < bins->bins; i++)
        count += bins->bad[i] != 0;
    return count;
}

static void a_bin_keeps_extremes_and_nan_however_many_steps_it_has(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_run *run = record(folder);
    tt_page_axis axis = { 0 };
    tt_page_bins tensors, numbers;
    int64_t lost = 0;
    assert_int_equal(tt_page_axis_add(&axis, run, &err), 0);
    assert_int_equal(axis.count, 1000);
    tt_page_progress places[2] = { { 0 } };
    int32_t a = tt_run_find(run, "activation/a"), loss = tt_run_find(run, "loss");
    tt_page_bins_init(&tensors, &axis, true, 100, false);
    tt_page_bins_init(&numbers, &axis, false, 64, false);
    assert_int_equal(tt_page_bins_add(&tensors, &axis, run, 0, a, &places[0], &lost), 0);
    assert_int_equal(tt_page_bins_add(&numbers, &axis, run, 0, loss, &places[1], &lost), 0);
    assert_int_equal(lost, 0);
    assert_int_equal(tensors.bins, 100);
    assert_int_equal(places[0].points, 1000);
    assert_true(tensors.cells[TT_PAGE_MAX][51] == 50 && tensors.cells[TT_PAGE_MIN][51] == -50);
    assert_true(tensors.cells[TT_PAGE_RMS][51] == 50 && tensors.cells[TT_PAGE_RMS_LOW][51] == 1);
    assert_int_equal(tensors.bad[70], TT_PAGE_NAN);
    assert_true(numbers.cells[TT_PAGE_HIGH][517 / numbers.width] == 50);
    assert_int_equal(numbers.bad[0], TT_PAGE_NAN);
    while (tensors.bins > 1) {
        tt_page_bins_halve(&tensors);
        assert_true(most_of(&tensors, TT_PAGE_MAX) == 50 && most_of(&tensors, TT_PAGE_RMS) == 50);
        assert_int_equal(bad_count(&tensors), 1);
    }
    tt_page_bins_free(&tensors);
    tt_page_bins_free(&numbers);
    tt_page_axis_free(&axis);
    tt_run_close(run);
    run_folder_remove(folder);
}

static size_t read_base64(const char *text, unsigned char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t have = 0, n = 0;
    for (; *text != '\0' && *text != '='; text++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *text) - digits);
        have += 6;
        if (have >= 8)
            out[n++] = (unsigned char)(bits >> (have -= 8));
    }
    return n;
}

static void numbers_read_back_to_the_digits_that_are_kept(void **state)
{
    (void)state;
    const float x[] = { 1, -1.2345678f, 3.4e38f, 1e-30f, 0, NAN, 65504 };
    const double off[] = { [2] = 0.004, [3] = 1.6e-5, [4] = 0 };
    enum { N = sizeof x / sizeof *x };
    for (size_t bytes = 2; bytes <= 4; bytes++) {
        tt_buf out = { 0 }, plain = { 0 };
        unsigned char packed[256], planes[4 * N];
        assert_int_equal(tt_page_put_floats(&plain, x, 1, N, 0, N, bytes), 0);
        assert_int_equal(tt_page_put_block(&out, "x", &plain), 0);
        char *text = strchr(out.data, '>') + 1, *end = strchr(text, '<');
        *end = '\0';
        size_t n = read_base64(text, packed), got = 0;
        struct libdeflate_decompressor *inflate = libdeflate_alloc_decompressor();
        assert_int_equal(libdeflate_deflate_decompress(inflate, packed, n, planes, sizeof planes, &got),
                         0);
        libdeflate_free_decompressor(inflate);
        assert_int_equal(got, N * bytes);
        for (size_t i = 0; i < N; i++) {
            uint32_t bits = 0;
            float y;
            for (size_t b = 0; b < bytes; b++)
                bits |= (uint32_t)planes[b * N + i] << (24 - 8 * b);
            memcpy(&y, &bits, sizeof y);
            assert_true(isnan(x[i]) ? isnan(y)
                                    : fabs((double)y - (double)x[i]) <= fabs((double)x[i]) * off[bytes]);
        }
        tt_buf_free(&out);
        tt_buf_free(&plain);
    }
}

static void json_in_a_page_cannot_end_its_element(void **state)
{
    (void)state;
    tt_buf json = { 0 }, out = { 0 };
    tt_json writer = { .out = &json };
    tt_json_text(&writer, NULL, "</script><!--");
    assert_int_equal(tt_page_put_json(&out, &json), 0);
    assert_string_equal(out.data, "\"\\u003c/script>\\u003c!--\"");
    tt_buf_free(&json);
    tt_buf_free(&out);
}

static void a_page_without_memory_is_an_error(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_run *run = record(folder);
    const tt_page_run page = { run, folder, "finished" };
    bool was_hit = true;
    for (long nth = 1; was_hit; nth++) {
        tt_buf out = { 0 };
        alloc_fail_at(nth);
        tt_status st = tt_page_write(&page, 1, false, &out, &err);
        was_hit = alloc_fail_stop();
        assert_true(st == TT_OK || (was_hit && st == TT_ENOMEM)); /* a detail may be left out */
        tt_buf_free(&out);
    }
    tt_run_close(run);
    run_folder_remove(folder);
}

/* ---- a page that is served --------------------------------------------------------- */

/* What a browser has: the header of the last answer, and the column `high` of the only number. */
typedef struct browser {
    uint64_t cursor;
    float high[4096];
    size_t bins, width;
    size_t bytes; /* of the last answer */
} browser;

static long number_in(const char *json, const char *name)
{
    const char *at = strstr(json, name);
    assert_non_null(at);
    return strtol(at + strlen(name), NULL, 10);
}

/* Joins neighbours until bins are as wide as the server's. */
static void widen(browser *b, size_t width)
{
    for (; b->width > 0 && b->width < width; b->width *= 2) {
        for (size_t i = 0; i < (b->bins + 1) / 2; i++)
            b->high[i] = 2 * i + 1 < b->bins ? fmaxf(b->high[2 * i], b->high[2 * i + 1]) : b->high[2 * i];
        b->bins = (b->bins + 1) / 2;
    }
    b->width = width;
}

static void ask(browser *b, tt_page *page)
{
    tt_buf out = { 0 };
    const char *both = "0/numbers/value,0/numbers/high", *none = "";
    const char *have = b->cursor != 0 ? both : none, *add = b->cursor != 0 ? none : both;
    assert_int_equal(tt_page_follow(page, &err), 0);
    assert_int_equal(tt_page_data(page, b->cursor, have, add, &out, &err), 0);
    uint32_t len;
    memcpy(&len, out.data, 4);
    char *json = strndup(out.data + 4, len);
    b->bytes = out.len;
    b->cursor = (uint64_t)strtoll(strstr(json, "\"cursor\":") + strlen("\"cursor\":"), NULL, 10);
    widen(b, (size_t)number_in(json, "\"width\":"));
    size_t from = (size_t)number_in(json, "\"from\":");
    size_t bytes = (size_t)number_in(strstr(json, "\"width\":"), "\"bytes\":");
    const char *steps = strstr(json, "\"steps\":[") + strlen("\"steps\":[");
    size_t count = *steps == ']' ? 0 : 1;
    for (; *steps != ']'; steps++)
        count += *steps == ',';
    b->bins = from + count;
    const unsigned char *planes = (const unsigned char *)out.data + 4 + len; /* of the values */
    if (strstr(json, "numbers/high") != NULL)
        planes += count * bytes; /* otherwise they are the same */
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        for (size_t k = 0; k < bytes; k++)
            bits |= (uint32_t)planes[k * count + i] << (24 - 8 * k);
        memcpy(&b->high[from + i], &bits, 4);
    }
    free(json);
    tt_buf_free(&out);
}

static void a_tick_brings_what_is_new_whatever_came_before(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t loss = site_of(rec, "loss");
    assert_int_equal(tt_recorder_scalar(rec, loss, 0, 1), 0);
    assert_int_equal(tt_recorder_flush(rec, &err), 0);
    tt_run *run;
    assert_int_equal(tt_run_open(folder, &run, &err), 0);
    const tt_page_run about = { run, folder, "live" };
    tt_page *page;
    assert_int_equal(tt_page_open(&about, 1, false, &page, &err), 0);
    browser *often = calloc(1, sizeof *often), *seldom = calloc(1, sizeof *seldom);
    ask(often, page);
    ask(seldom, page);
    size_t most = 0;
    for (int64_t step = 1; step < 10000; step++) {
        assert_int_equal(tt_recorder_scalar(rec, loss, step, step == 3333 ? 77 : (double)(step % 7)), 0);
        if (step % 50 != 49)
            continue;
        assert_int_equal(tt_recorder_flush(rec, &err), 0);
        ask(often, page);
        most = often->bytes > most ? often->bytes : most;
        if (step % 2000 == 1999)
            ask(seldom, page);
    }
    browser *whole = calloc(1, sizeof *whole);
    ask(seldom, page);
    ask(whole, page);
    assert_true(most < 2000); /* 50 steps, however many came before */
    assert_true(whole->width > 1 && whole->bins <= 2048 && whole->bins == often->bins);
    assert_true(whole->bins == seldom->bins);
    float spike = 0;
    for (size_t i = 0; i < whole->bins; i++) {
        assert_true(often->high[i] == whole->high[i] && seldom->high[i] == whole->high[i]);
        spike = fmaxf(spike, whole->high[i]);
    }
    assert_true(spike == 77);
    free(often);
    free(seldom);
    free(whole);
    tt_page_close(page);
    tt_run_close(run);
    assert_int_equal(tt_recorder_close(rec, 5, &err), 0);
    run_folder_remove(folder);
}

static void a_step_that_comes_late_is_put_in_its_place(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_recorder *rec = begin_run(folder, NULL);
    int32_t loss = site_of(rec, "loss");
    assert_int_equal(tt_recorder_scalar(rec, loss, 0, 1), 0);
    assert_int_equal(tt_recorder_scalar(rec, loss, 10, 2), 0);
    assert_int_equal(tt_recorder_flush(rec, &err), 0);
    tt_run *run;
    assert_int_equal(tt_run_open(folder, &run, &err), 0);
    const tt_page_run about = { run, folder, "live" };
    tt_page *page;
    assert_int_equal(tt_page_open(&about, 1, false, &page, &err), 0);
    browser *b = calloc(1, sizeof *b);
    ask(b, page);
    assert_int_equal(b->bins, 2);
    assert_int_equal(tt_recorder_scalar(rec, loss, 5, 3), 0);
    assert_int_equal(tt_recorder_flush(rec, &err), 0);
    ask(b, page);
    assert_int_equal(b->bins, 3);
    assert_true(b->high[0] == 1 && b->high[1] == 3 && b->high[2] == 2);
    free(b);
    tt_page_close(page);
    tt_run_close(run);
    assert_int_equal(tt_recorder_close(rec, 5, &err), 0);
    run_folder_remove(folder);
}

static void names_of_blocks_and_columns_are_checked(void **state)
{
    (void)state;
    const char *folder = run_folder_new();
    tt_run *run = record(folder);
    const tt_page_run about = { run, folder, "finished" };
    tt_page *page;
    tt_buf out = { 0 };
    assert_int_equal(tt_page_open(&about, 1, false, &page, &err), 0);
    static const char *const wrong[] = {
        "",           "1/table", "0/site/",  "0/site/-1", "0/site/999",
        "0/site/0x1", "diff",    "0/tables", "0/",        "../../passwd"
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tt_page_block(page, wrong[i], &out, &err), TT_EINVAL);
    static const char *const columns[] = { "0/numbers/rms", "1/numbers/value", "0/tensors", "x",
                                           "0/x/value" };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        assert_int_equal(tt_page_data(page, 0, "", columns[i], &out, &err), TT_EINVAL);
    static const char *const right[] = { "facts", "0/table", "0/site/0" };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_int_equal(tt_page_block(page, right[i], &out, &err), TT_OK);
    tt_buf_free(&out);
    tt_page_close(page);
    tt_run_close(run);
    run_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bin_keeps_extremes_and_nan_however_many_steps_it_has),
        cmocka_unit_test(numbers_read_back_to_the_digits_that_are_kept),
        cmocka_unit_test(json_in_a_page_cannot_end_its_element),
        cmocka_unit_test(a_page_without_memory_is_an_error),
        cmocka_unit_test(a_tick_brings_what_is_new_whatever_came_before),
        cmocka_unit_test(a_step_that_comes_late_is_put_in_its_place),
        cmocka_unit_test(names_of_blocks_and_columns_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
