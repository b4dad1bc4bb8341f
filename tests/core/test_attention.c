/* test_attention.c -- the streamed statistics equal those of the full softmax.
 *
 * The reference below holds the whole row of weights, in f64, and reads every
 * operand by index arithmetic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/attention.h"
#include "summary/exponential.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double no_scale = NAN;

/* ---- operands ----------------------------------------------------------- */

static uint64_t random_state = 1;

static double uniform(void) /* in [-2, 2), a multiple of 2^-9: exact in every type */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 53) / 512.0 - 2.0;
}

/* f16 or bf16 of a number that is exact in it. */
static uint16_t short_float(double x, int exponent_bits)
{
    if (x == 0)
        return 0;
    int exponent, mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    double m = frexp(fabs(x), &exponent) * 2 - 1;
    int bits = (exponent - 1 + bias) << mantissa_bits | (int)ldexp(m, mantissa_bits);
    return (uint16_t)(bits | (x < 0 ? 0x8000 : 0));
}

static void put(char *at, tt_dtype dtype, double x)
{
    float single = (float)x;
    uint16_t half = short_float(round(x * 32) / 32, dtype == TT_BF16 ? 8 : 5);
    if (dtype == TT_F64)
        memcpy(at, &x, 8);
    else if (dtype == TT_F32)
        memcpy(at, &single, 4);
    else if (dtype == TT_BOOL)
        *at = x != 0;
    else
        memcpy(at, &half, 2);
}

static double get(const tt_tensor *t, const char *at)
{
    double x;
    float single;
    uint16_t half;
    if (t->dtype == TT_F64)
        return memcpy(&x, at, 8), x;
    if (t->dtype == TT_F32)
        return memcpy(&single, at, 4), (double)single;
    if (t->dtype == TT_BOOL)
        return *at;
    memcpy(&half, at, 2);
    int mantissa_bits = t->dtype == TT_BF16 ? 7 : 10, bias = t->dtype == TT_BF16 ? 127 : 15;
    int magnitude = half & 0x7fff;
    if (magnitude == 0)
        return 0;
    x = ldexp(1 + ldexp(magnitude & ((1 << mantissa_bits) - 1), -mantissa_bits),
              (magnitude >> mantissa_bits) - bias);
    return half & 0x8000 ? -x : x;
}

typedef enum layout { PLAIN, TRANSPOSED, SPREAD, BACKWARDS, LAYOUT_COUNT_ } layout;

/* A tensor of random numbers whose last two dimensions lie as asked. */
static tt_tensor make(tt_dtype dtype, layout how, int32_t ndim, const int64_t *shape)
{
    int64_t stride[TT_MAX_DIM], count = 1, item = (int64_t)tt_dtype_size(dtype);
    int64_t unit = how == SPREAD ? 3 * item : item;
    for (int32_t d = ndim - 1; d >= 0; d--) {
        stride[d] = count * unit;
        count *= shape[d];
    }
    if (how == TRANSPOSED && ndim > 1) {
        stride[ndim - 2] = unit;
        stride[ndim - 1] = unit * shape[ndim - 2];
    }
    char *data = calloc((size_t)(count * unit) + 1, 1), *first = data;
    for (int64_t i = 0; i < count; i++)
        put(data + i * unit, dtype, dtype == TT_BOOL ? uniform() > 0 : uniform());
    if (how == BACKWARDS) {
        for (int32_t d = 0; d < ndim; d++) {
            first += stride[d] * (shape[d] - 1);
            stride[d] = -stride[d];
        }
    }
    tt_tensor t;
    assert_int_equal(tt_tensor_describe(&t, first, dtype, ndim, shape, stride, NULL), TT_OK);
    return t;
}

static void discard(const tt_tensor *t)
{
    const char *first = t->data;
    for (int32_t d = 0; d < t->ndim; d++)
        if (t->stride[d] < 0)
            first += t->stride[d] * (t->shape[d] - 1);
    free((void *)(uintptr_t)first);
}

/* ---- the reference ------------------------------------------------------ */

/* Element [lead..., row, col], broadcast; lead counts the dimensions of q. */
static double element(const tt_tensor *t, int32_t ndim, const int64_t *index)
{
    const char *at = t->data;
    for (int32_t d = 0; d < t->ndim; d++) {
        int64_t i = index[ndim - t->ndim + d];
        at += (t->shape[d] == 1 ? 0 : i) * t->stride[d];
    }
    return get(t, at);
}

typedef struct answer {
    float *entropy, *max_logit, *sink;
    size_t count;
} answer;

static answer new_answer(const tt_tensor *q)
{
    size_t n = 1;
    for (int32_t d = 0; d < q->ndim - 1; d++)
        n *= (size_t)q->shape[d];
    answer a = { malloc(n * 4 + 1), malloc(n * 4 + 1), malloc(n * 4 + 1), n };
    return a;
}

static void free_answer(answer *a)
{
    free(a->entropy);
    free(a->max_logit);
    free(a->sink);
}

static answer full_softmax(const tt_tensor *q, const tt_tensor *k, const tt_attention_options *options)
{
    answer a = new_answer(q);
    int32_t n = q->ndim;
    int64_t keys = k->shape[k->ndim - 2], dim = q->shape[n - 1];
    double scale = isnan(options->scale) ? 1 / sqrt((double)dim) : options->scale;
    double *p = malloc((size_t)keys * sizeof *p + 1);
    for (size_t row = 0; row < a.count; row++) {
        int64_t qi[TT_MAX_DIM], ki[TT_MAX_DIM], mi[TT_MAX_DIM], rest = (int64_t)row;
        for (int32_t d = n - 2; d >= 0; d--) {
            qi[d] = ki[d] = mi[d] = rest % q->shape[d];
            rest /= q->shape[d];
        }
        if (n > 2)
            ki[n - 3] = qi[n - 3] / (q->shape[n - 3] / (k->ndim > 2 ? k->shape[k->ndim - 3] : 1));
        double max = -(double)INFINITY, sum = 0, entropy = 0;
        for (int64_t j = 0; j < keys; j++) {
            p[j] = 0;
            for (int64_t d = 0; d < dim; d++) {
                qi[n - 1] = ki[n - 1] = d;
                ki[n - 2] = j;
                p[j] += element(q, n, qi) * element(k, n, ki);
            }
            p[j] *= scale;
            mi[n - 1] = j;
            if (options->is_causal && j > qi[n - 2])
                p[j] = -(double)INFINITY;
            else if (options->mask != NULL && options->mask->dtype == TT_BOOL)
                p[j] = element(options->mask, n, mi) != 0 ? p[j] : -(double)INFINITY;
            else if (options->mask != NULL)
                p[j] += element(options->mask, n, mi);
            max = fmax(max, p[j]);
        }
        a.max_logit[row] = (float)max;
        for (int64_t j = 0; j < keys; j++)
            sum += p[j] = isinf(max) ? 0 : exp(p[j] - max);
        for (int64_t j = 0; j < keys; j++)
            if (p[j] > 0)
                entropy -= p[j] / sum * log(p[j] / sum);
        a.entropy[row] = (float)entropy;
        a.sink[row] = sum > 0 ? (float)(p[0] / sum) : 0;
    }
    free(p);
    return a;
}

/* Every instruction set gives the reference's numbers, and all the same bits. */
static void check(const tt_tensor *q, const tt_tensor *k, const tt_attention_options *options)
{
    answer want = full_softmax(q, k, options), first = { 0 };
    for (size_t i = 0; i < 3; i++) {
        if (tt_kernels_use((const char *[]){ "base", "avx2", "neon" }[i]) == NULL)
            continue;
        answer got = new_answer(q);
        assert_int_equal(tt_attention_compute(q, k, options, got.entropy, got.max_logit, got.sink, NULL),
                         TT_OK);
        for (size_t row = 0; row < want.count; row++) {
            assert_true(fabsf(got.entropy[row] - want.entropy[row]) <= 1e-5f);
            assert_true(got.max_logit[row] == want.max_logit[row] ||
                        fabsf(got.max_logit[row] - want.max_logit[row]) <= 1e-5f);
            assert_true(fabsf(got.sink[row] - want.sink[row]) <= 1e-6f + 1e-5f * want.sink[row]);
        }
        if (first.entropy == NULL) {
            first = got;
            continue;
        }
        assert_memory_equal(got.entropy, first.entropy, got.count * 4);
        assert_memory_equal(got.max_logit, first.max_logit, got.count * 4);
        assert_memory_equal(got.sink, first.sink, got.count * 4);
        free_answer(&got);
    }
    free_answer(&first);
    free_answer(&want);
}

/* ---- facts -------------------------------------------------------------- */

static void sizes_around_every_tile_border_agree(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1, 2, 5, 6, 7, 15, 16, 17, 239, 240, 241, 255, 256, 257, 513 };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 0; j < SIZES; j++)
            for (int causal = 0; causal < 2; causal++) {
                tt_tensor q = make(TT_F32, PLAIN, 3, (int64_t[]){ 1, sizes[i], 3 });
                tt_tensor k = make(TT_F32, PLAIN, 3, (int64_t[]){ 1, sizes[j], 3 });
                check(&q, &k, &(tt_attention_options){ .scale = no_scale, .is_causal = causal });
                discard(&q);
                discard(&k);
            }
}

static void every_type_depth_and_layout_agrees(void **state)
{
    (void)state;
    static const tt_dtype dtypes[] = { TT_F32, TT_F64, TT_F16, TT_BF16 };
    static const int64_t dims[] = { 1, 3, 64, 80, 128 };
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 5; j++)
            for (int how = 0; how < LAYOUT_COUNT_; how++) {
                tt_tensor q = make(dtypes[i], (layout)(LAYOUT_COUNT_ - 1 - how), 4,
                                   (int64_t[]){ 2, 2, 19, dims[j] });
                tt_tensor k = make(dtypes[i], (layout)how, 4, (int64_t[]){ 2, 2, 37, dims[j] });
                check(&q, &k, &(tt_attention_options){ .scale = no_scale, .is_causal = how % 2 });
                check(&q, &k, &(tt_attention_options){ .scale = 0.3 });
                discard(&q);
                discard(&k);
            }
}

static void every_mask_that_broadcasts_agrees(void **state)
{
    (void)state;
    static const struct {
        int32_t ndim;
        int64_t shape[4];
    } masks[] = {
        { 2, { 21, 300 } },       { 1, { 300 } },         { 2, { 21, 1 } },      { 2, { 1, 1 } },
        { 3, { 4, 21, 300 } },    { 3, { 4, 1, 300 } },   { 3, { 1, 21, 300 } }, { 4, { 2, 1, 1, 300 } },
        { 4, { 2, 4, 21, 300 } }, { 4, { 1, 4, 21, 1 } }, { 0, { 0 } },
    };
    static const tt_dtype dtypes[] = { TT_BOOL, TT_F32, TT_F64, TT_F16 };
    tt_tensor q = make(TT_F32, PLAIN, 4, (int64_t[]){ 2, 4, 21, 8 });
    tt_tensor k = make(TT_F32, PLAIN, 4, (int64_t[]){ 2, 4, 300, 8 });
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (size_t j = 0; j < 4; j++)
            for (int causal = 0; causal < 2; causal++) {
                tt_tensor mask = make(dtypes[j], i % 2 ? SPREAD : PLAIN, masks[i].ndim, masks[i].shape);
                check(&q, &k,
                      &(tt_attention_options){ .scale = no_scale, .is_causal = causal, .mask = &mask });
                discard(&mask);
            }
    discard(&q);
    discard(&k);
}

static void heads_of_k_are_shared_by_groups(void **state)
{
    (void)state;
    static const struct {
        int32_t ndim;
        int64_t shape[5];
    } keys[] = { { 5, { 3, 2, 2, 20, 8 } },
                 { 5, { 3, 1, 1, 20, 8 } },
                 { 4, { 2, 3, 20, 8 } },
                 { 3, { 6, 20, 8 } },
                 { 2, { 20, 8 } } };
    tt_tensor q = make(TT_F32, PLAIN, 5, (int64_t[]){ 3, 2, 6, 9, 8 });
    for (size_t i = 0; i < 5; i++) {
        tt_tensor k = make(TT_F32, PLAIN, keys[i].ndim, keys[i].shape);
        check(&q, &k, &(tt_attention_options){ .scale = no_scale });
        discard(&k);
    }
    discard(&q);
}

static void a_rising_maximum_rescales_the_sums(void **state)
{
    (void)state;
    enum { LENGTH = 1100 };
    float keys[LENGTH];
    for (size_t i = 0; i < LENGTH; i++) /* a new maximum in every tile; e^-s spans 2000 */
        keys[i] = (float)i * 0.25f;
    tt_tensor q, k;
    assert_int_equal(
        tt_tensor_describe(&q, (float[]){ 1, -1, 0.03125f }, TT_F32, 2, (int64_t[]){ 3, 1 }, NULL, NULL),
        0);
    assert_int_equal(tt_tensor_describe(&k, keys, TT_F32, 2, (int64_t[]){ LENGTH, 1 }, NULL, NULL), 0);
    check(&q, &k, &(tt_attention_options){ .scale = 1 });
    check(&q, &k, &(tt_attention_options){ .scale = 8 });
}

static void equal_scores_have_the_entropy_of_their_number(void **state)
{
    (void)state;
    static const float zeros[5000];
    for (int64_t n = 1; n <= 5000; n = n * 3 + 1) {
        tt_tensor q, k;
        float entropy, max_logit, sink;
        assert_int_equal(tt_tensor_describe(&q, zeros, TT_F32, 2, (int64_t[]){ 1, 1 }, NULL, NULL), 0);
        assert_int_equal(tt_tensor_describe(&k, zeros, TT_F32, 2, (int64_t[]){ n, 1 }, NULL, NULL), 0);
        assert_int_equal(tt_attention_compute(&q, &k, NULL, &entropy, &max_logit, &sink, NULL), 0);
        assert_true(entropy == (float)log((double)n));
        assert_true(max_logit == 0.0f && sink == (float)(1.0 / (double)n));
    }
}

/* One key at 0 and fourteen at x, two in each lane but that of the first, so
 * that the sums of a lane are exact and nothing but e^x is rounded. */
static void e_to_the_x_is_right_to_the_last_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 30000; i++) {
        float x = -(float)i * 0.0006f, keys[16], entropy;
        for (int j = 0; j < 16; j++)
            keys[j] = j == 0 ? 0 : j == 8 ? -INFINITY : x;
        tt_tensor q, k;
        assert_int_equal(
            tt_tensor_describe(&q, (float[]){ 1 }, TT_F32, 2, (int64_t[]){ 1, 1 }, NULL, NULL), 0);
        assert_int_equal(tt_tensor_describe(&k, keys, TT_F32, 2, (int64_t[]){ 16, 1 }, NULL, NULL), 0);
        assert_int_equal(tt_attention_compute(&q, &k, NULL, &entropy, NULL, NULL, NULL), 0);
        double u = 14 * exp((double)x), want = log1p(u) - u * (double)x / (1 + u);
        assert_true(fabs((double)entropy - want) <= 4e-7 * want);
    }
}

static double ulps(double got, double want)
{
    return fabs(got - want) / (nextafter(fabs(want), (double)INFINITY) - fabs(want));
}

static void exp_and_log_are_within_two_ulp_of_the_c_library(void **state)
{
    (void)state;
    for (int i = 0; i <= 708000; i++) {
        double x = -i / 1000.0 - fabs(uniform()) / 5000;
        if (x >= -708.0)
            assert_true(ulps(tt_exp_negative(x), exp(x)) <= 2);
        double y = ldexp(2.0001 + uniform(), i % 60);
        assert_true(ulps(tt_log_positive(y), log(y)) <= 2 || fabs(tt_log_positive(y) - log(y)) < 1e-16);
    }
    assert_true(tt_exp_negative(0) == 1 && tt_exp_negative(-(double)INFINITY) == 0 &&
                tt_log_positive(1) == 0);
    assert_true(isnan(tt_exp_negative((double)NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_around_every_tile_border_agree),
        cmocka_unit_test(every_type_depth_and_layout_agrees),
        cmocka_unit_test(every_mask_that_broadcasts_agrees),
        cmocka_unit_test(heads_of_k_are_shared_by_groups),
        cmocka_unit_test(a_rising_maximum_rescales_the_sums),
        cmocka_unit_test(equal_scores_have_the_entropy_of_their_number),
        cmocka_unit_test(e_to_the_x_is_right_to_the_last_bits),
        cmocka_unit_test(exp_and_log_are_within_two_ulp_of_the_c_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
