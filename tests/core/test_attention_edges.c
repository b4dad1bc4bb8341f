/* test_attention_edges.c -- attention where there is nothing to see, or NaN.
 * SPDX-License-Identifier: Apache-2.0 */
#include "alloc_fail.h"
#include "summary/attention.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { Q = 9, K = 23, D = 5 }; /* queries, keys, depth */

static float q_data[Q * D], k_data[K * D], entropy[64], max_logit[64], sink[64];

static tt_tensor view(const void *data, tt_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, data, dtype, ndim, shape, NULL, NULL), TT_OK);
    return t;
}

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < Q * D; i++)
        q_data[i] = (float)(i * 7 % 11) / 8 - 0.5f;
    for (int i = 0; i < K * D; i++)
        k_data[i] = (float)(i * 5 % 13) / 8 - 0.75f;
    return 0;
}

static tt_status run(const tt_attention_options *options)
{
    tt_tensor q = view(q_data, TT_F32, 2, (int64_t[]){ Q, D }),
              k = view(k_data, TT_F32, 2, (int64_t[]){ K, D });
    return tt_attention_compute(&q, &k, options, entropy, max_logit, sink, NULL);
}

static bool is_nothing(int row)
{
    return entropy[row] == 0 && !signbit(entropy[row]) && max_logit[row] == -INFINITY && sink[row] == 0;
}

static bool is_number(int row)
{
    return isfinite(entropy[row]) && isfinite(max_logit[row]) && isfinite(sink[row]);
}

static bool is_nan(int row)
{
    return isnan(entropy[row]) && isnan(max_logit[row]) && isnan(sink[row]);
}

static void a_row_that_sees_no_key_is_empty(void **state)
{
    (void)state;
    bool seen[Q][K] = { { false } };
    float added[Q][K];
    for (int i = 0; i < Q; i++)
        for (int j = 0; j < K; j++) {
            seen[i][j] = i != 4;
            added[i][j] = i != 4 ? 0 : -INFINITY;
        }
    tt_tensor masks[] = { view(seen, TT_BOOL, 2, (int64_t[]){ Q, K }),
                          view(added, TT_F32, 2, (int64_t[]){ Q, K }) };
    for (int m = 0; m < 2; m++) {
        assert_int_equal(run(&(tt_attention_options){ .scale = 1, .mask = &masks[m] }), TT_OK);
        for (int i = 0; i < Q; i++)
            assert_true(i == 4 ? is_nothing(i) : is_number(i));
    }
}

static void a_row_that_sees_one_key_is_certain(void **state)
{
    (void)state;
    assert_int_equal(run(&(tt_attention_options){ .scale = 1, .is_causal = true }), TT_OK);
    assert_true(entropy[0] == 0 && sink[0] == 1);
}

static void minus_infinity_added_is_the_same_as_hidden(void **state)
{
    (void)state;
    bool seen[Q][K];
    float added[Q][K], kept[3][Q];
    for (int i = 0; i < Q; i++)
        for (int j = 0; j < K; j++) {
            seen[i][j] = (i * 3 + j * j) % 4 != 0;
            added[i][j] = seen[i][j] ? 0 : -INFINITY;
        }
    tt_tensor hide = view(seen, TT_BOOL, 2, (int64_t[]){ Q, K }),
              add = view(added, TT_F32, 2, (int64_t[]){ Q, K });
    assert_int_equal(run(&(tt_attention_options){ .scale = 1, .mask = &hide }), TT_OK);
    memcpy(kept[0], entropy, sizeof kept[0]);
    memcpy(kept[1], max_logit, sizeof kept[1]);
    memcpy(kept[2], sink, sizeof kept[2]);
    assert_int_equal(run(&(tt_attention_options){ .scale = 1, .mask = &add }), TT_OK);
    assert_memory_equal(kept[0], entropy, sizeof kept[0]);
    assert_memory_equal(kept[1], max_logit, sizeof kept[1]);
    assert_memory_equal(kept[2], sink, sizeof kept[2]);
}

static void nan_in_a_query_is_nan_in_its_row_alone(void **state)
{
    (void)state;
    uint32_t payload = 0x7fc00001; /* a NaN whose low bits are not 0 */
    memcpy(&q_data[3 * D + 2], &payload, 4);
    assert_int_equal(run(&(tt_attention_options){ .scale = 1 }), TT_OK);
    for (int i = 0; i < Q; i++)
        assert_true(i == 3 ? is_nan(i) : is_number(i));
    fill(NULL);
}

static void nan_in_a_key_is_nan_in_the_rows_that_see_it(void **state)
{
    (void)state;
    k_data[5 * D] = NAN;
    assert_int_equal(run(&(tt_attention_options){ .scale = 1, .is_causal = true }), TT_OK);
    for (int i = 0; i < Q; i++)
        assert_true(i >= 5 ? is_nan(i) : is_number(i));
    bool seen[K];
    for (int j = 0; j < K; j++)
        seen[j] = j != 5;
    tt_tensor mask = view(seen, TT_BOOL, 1, (int64_t[]){ K });
    assert_int_equal(run(&(tt_attention_options){ .scale = 1, .mask = &mask }), TT_OK);
    for (int i = 0; i < Q; i++)
        assert_true(is_number(i));
    fill(NULL);
}

static void plus_infinity_makes_the_softmax_nan_as_in_torch(void **state)
{
    (void)state;
    float added[K] = { 0 };
    added[20] = INFINITY;
    tt_tensor mask = view(added, TT_F32, 1, (int64_t[]){ K });
    assert_int_equal(run(&(tt_attention_options){ .scale = 1, .mask = &mask }), TT_OK);
    for (int i = 0; i < Q; i++)
        assert_true(isnan(entropy[i]) && isnan(sink[i]) && max_logit[i] == INFINITY);
    added[3] = NAN;
    assert_int_equal(run(&(tt_attention_options){ .scale = 1, .mask = &mask }), TT_OK);
    assert_true(is_nan(0));
}

static void nan_after_a_tile_of_hidden_keys_is_not_lost(void **state)
{
    (void)state;
    enum { LONG = 700 };
    static float keys[LONG], added[LONG];
    static double wide_keys[LONG];
    for (int at = 0; at < LONG; at += 233) { /* NaN in one tile, numbers in another */
        for (int j = 0; j < LONG; j++) {
            keys[j] = j == at ? NAN : 1;
            wide_keys[j] = j == at ? (double)NAN : 1;
            added[j] = j == at || j == 600 ? 0 : -INFINITY;
        }
        tt_tensor q = view((float[]){ 1 }, TT_F32, 2, (int64_t[]){ 1, 1 }),
                  k = view(keys, TT_F32, 2, (int64_t[]){ LONG, 1 });
        tt_tensor q64 = view((double[]){ 1 }, TT_F64, 2, (int64_t[]){ 1, 1 }),
                  k64 = view(wide_keys, TT_F64, 2, (int64_t[]){ LONG, 1 });
        tt_tensor mask = view(added, TT_F32, 1, (int64_t[]){ LONG });
        tt_attention_options options = { .scale = 1, .mask = &mask };
        assert_int_equal(tt_attention_compute(&q, &k, &options, entropy, max_logit, sink, NULL), TT_OK);
        assert_true(is_nan(0));
        assert_int_equal(tt_attention_compute(&q64, &k64, &options, entropy, max_logit, sink, NULL),
                         TT_OK);
        assert_true(is_nan(0));
    }
}

static void huge_scores_do_not_overflow(void **state)
{
    (void)state;
    assert_int_equal(run(&(tt_attention_options){ .scale = 1e30 }), TT_OK);
    for (int i = 0; i < Q; i++)
        assert_true(is_number(i) && entropy[i] >= 0 && entropy[i] < 4 && max_logit[i] > 1e28f);
}

static void sizes_of_zero_are_no_trouble(void **state)
{
    (void)state;
    tt_tensor q = view(q_data, TT_F32, 2, (int64_t[]){ Q, D }),
              none = view(NULL, TT_F32, 2, (int64_t[]){ 0, D });
    assert_int_equal(tt_attention_compute(&q, &none, NULL, entropy, max_logit, sink, NULL), TT_OK);
    for (int i = 0; i < Q; i++)
        assert_true(is_nothing(i));
    assert_int_equal(tt_attention_compute(&none, &q, NULL, NULL, NULL, NULL, NULL), TT_OK);
    tt_tensor flat_q = view(NULL, TT_F32, 3, (int64_t[]){ 1, Q, 0 }),
              flat_k = view(NULL, TT_F32, 3, (int64_t[]){ 1, K, 0 });
    tt_attention_options one = { .scale = 1 };
    assert_int_equal(tt_attention_compute(&flat_q, &flat_k, &one, entropy, max_logit, sink, NULL), TT_OK);
    for (int i = 0; i < Q; i++) /* every score is the empty sum */
        assert_true(fabsf(entropy[i] - logf(K)) < 1e-6f && max_logit[i] == 0);
    tt_tensor no_head = view(NULL, TT_F32, 3, (int64_t[]){ 0, Q, D });
    assert_int_equal(tt_attention_compute(&no_head, &no_head, NULL, NULL, NULL, NULL, NULL), TT_OK);
    tt_tensor one_head = view(q_data, TT_F32, 3, (int64_t[]){ 1, Q, D });
    assert_int_equal(tt_attention_compute(&one_head, &no_head, NULL, NULL, NULL, NULL, NULL),
                     TT_EMISMATCH);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    static const float data[1000];
    tt_tensor q = view(data, TT_F32, 4, (int64_t[]){ 2, 4, 5, 6 });
    const struct {
        tt_tensor k;
        tt_status st;
        const char *word;
    } cases[] = {
        { view(data, TT_F32, 4, (int64_t[]){ 2, 3, 5, 6 }), TT_EMISMATCH, "heads" },
        { view(data, TT_F32, 4, (int64_t[]){ 2, 4, 5, 7 }), TT_EMISMATCH, "head_dim" },
        { view(data, TT_F32, 4, (int64_t[]){ 3, 4, 5, 6 }), TT_EMISMATCH, "leading" },
        { view(data, TT_F16, 4, (int64_t[]){ 2, 4, 5, 6 }), TT_EMISMATCH, "float16" },
        { view(data, TT_F32, 1, (int64_t[]){ 6 }), TT_ESHAPE, "dimensions" },
        { view(data, TT_F32, 5, (int64_t[]){ 2, 1, 4, 5, 6 }), TT_EMISMATCH, "leading" },
    };
    tt_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tt_attention_compute(&q, &cases[i].k, NULL, NULL, NULL, NULL, &err),
                         cases[i].st);
        assert_non_null(strstr(err.text, cases[i].word));
    }
    tt_tensor masks[] = { view(data, TT_F32, 2, (int64_t[]){ 4, 5 }),
                          view(data, TT_I32, 2, (int64_t[]){ 5, 5 }),
                          view(data, TT_BOOL, 5, (int64_t[]){ 1, 2, 4, 5, 5 }) };
    static const tt_status refused[] = { TT_EMISMATCH, TT_EDTYPE, TT_EMISMATCH };
    for (size_t i = 0; i < 3; i++) {
        tt_attention_options options = { .scale = 1, .mask = &masks[i] };
        assert_int_equal(tt_attention_compute(&q, &q, &options, NULL, NULL, NULL, &err), refused[i]);
        assert_non_null(strstr(err.text, "mask"));
    }
    tt_tensor ints = view(data, TT_I32, 2, (int64_t[]){ 5, 6 });
    assert_int_equal(tt_attention_compute(&ints, &ints, NULL, NULL, NULL, NULL, &err), TT_EDTYPE);
    assert_non_null(strstr(err.text, "int32"));
}

static void memory_does_not_grow_with_the_length(void **state)
{
    (void)state;
    enum { LONG = 2048 };
    static const float zero;
    static float out[LONG];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        tt_tensor t;
        int64_t shape[] = { 1, i == 0 ? LONG / 4 : LONG, 64 };
        assert_int_equal(tt_tensor_describe(&t, &zero, TT_F32, 3, shape, (int64_t[]){ 0, 0, 0 }, NULL),
                         TT_OK);
        alloc_fail_at(0);
        assert_int_equal(tt_attention_compute(&t, &t, NULL, out, NULL, NULL, NULL), TT_OK);
        bytes[i] = alloc_largest();
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_in_range(bytes[0], 1, 256 * 1024);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        entropy[0] = -7;
        alloc_fail_at(nth);
        tt_status st = run(NULL);
        if (!alloc_fail_stop()) {
            assert_int_equal(st, TT_OK);
            break;
        }
        assert_int_equal(st, TT_ENOMEM);
        assert_true(entropy[0] == -7);
    }
    static const float zero;
    tt_tensor deep;
    int64_t shape[] = { 1, (int64_t)1 << 60 };
    assert_int_equal(tt_tensor_describe(&deep, &zero, TT_F32, 2, shape, (int64_t[]){ 0, 0 }, NULL),
                     TT_OK);
    assert_int_equal(tt_attention_compute(&deep, &deep, NULL, entropy, NULL, NULL, NULL), TT_ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_sees_no_key_is_empty),
        cmocka_unit_test(a_row_that_sees_one_key_is_certain),
        cmocka_unit_test(minus_infinity_added_is_the_same_as_hidden),
        cmocka_unit_test(nan_in_a_query_is_nan_in_its_row_alone),
        cmocka_unit_test(nan_in_a_key_is_nan_in_the_rows_that_see_it),
        cmocka_unit_test(plus_infinity_makes_the_softmax_nan_as_in_torch),
        cmocka_unit_test(nan_after_a_tile_of_hidden_keys_is_not_lost),
        cmocka_unit_test(huge_scores_do_not_overflow),
        cmocka_unit_test(sizes_of_zero_are_no_trouble),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(memory_does_not_grow_with_the_length),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
