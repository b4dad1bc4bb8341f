/* print_bits.c -- prints the bits of every summary over a fixed set of tensors.
 *
 * Exists so that two builds, or two instruction sets, can be compared byte for
 * byte: same_bits.py runs it several times.  The tensors come from integer
 * arithmetic, so that they are the same everywhere.  NaN results print as "nan":
 * which NaN it is differs between processors and means nothing.  With the word
 * "flush" the thread first chooses that denormals are zero, which must change nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3 * 2048 + 5, MOST_BYTES = MOST * 16 };

static uint64_t state;

static uint64_t next_bits(void) /* splitmix64 */
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void put_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        printf(" nan");
    else
        printf(" %016" PRIx64, bits);
}

static void put_i64(int64_t x)
{
    printf(" %" PRId64, x);
}

/* ---- the tensors -------------------------------------------------------- */

typedef enum fill { ANY_BITS, MODERATE, FAR_FROM_ZERO, VANISHING, FILLS } fill;
static const char *const fill_names[] = { "any", "moderate", "far", "vanishing" };

/* 12 random bits as a float near zero, or one with a large mean and a small
 * spread; all values are exact in f32, so that no rounding is asked for here. */
static double number(fill how)
{
    double x = (double)(int64_t)(next_bits() % 4096) - 2048;
    return how == FAR_FROM_ZERO ? 12582912 + x / 2048 : x / 1024;
}

/* Denormals, and numbers whose squares are; by their bits, so that nothing flushes them. */
static uint64_t vanishing_bits(bool is_f32)
{
    uint64_t bits = next_bits();
    if (is_f32)
        return bits & (bits & 1 ? 0x8fffffff8fffffff : 0x807fffff807fffff); /* below 2^-95 */
    uint64_t exponent = bits & 1 ? (uint64_t)(1023 - 530) << 52 : 0;
    return (bits & 0x800fffffffffffff) | exponent;
}

static void fill_bytes(unsigned char *bytes, tt_dtype dtype, fill how)
{
    for (size_t at = 0; at < MOST_BYTES; at += 8) {
        uint64_t word = next_bits();
        memcpy(bytes + at, &word, 8);
    }
    if (dtype == TT_BOOL)
        for (size_t at = 0; at < MOST_BYTES; at++)
            bytes[at] &= 1;
    if (how == ANY_BITS || tt_dtype_size(dtype) < 4)
        return; /* half of the small types' bits are moderate numbers anyway */
    for (size_t at = 0; (dtype == TT_I64 || dtype == TT_U64) && at < MOST_BYTES; at += 8) {
        int64_t word = (int64_t)(next_bits() % 4096) - (dtype == TT_I64 ? 2048 : 0);
        word = how == FAR_FROM_ZERO ? word * 0x3fffffff + ((int64_t)1 << 62) : word;
        memcpy(bytes + at, &word, 8);
    }
    bool is_f32 = dtype == TT_F32 || dtype == TT_C64;
    if (!is_f32 && dtype != TT_F64 && dtype != TT_C128)
        return;
    for (size_t i = 0; how == VANISHING && i < MOST_BYTES / 8; i++) {
        uint64_t word = vanishing_bits(is_f32);
        memcpy(bytes + i * 8, &word, 8);
    }
    for (size_t i = 0; how != VANISHING && i < MOST_BYTES / 8; i++) {
        double wide = number(how);
        float pair[2] = { (float)wide, (float)number(how) };
        memcpy(bytes + i * 8, is_f32 ? (const void *)pair : (const void *)&wide, 8);
    }
}

static const char *const layout_names[] = { "dense", "transposed", "sliced", "backwards", "expanded" };
enum { LAYOUTS = sizeof layout_names / sizeof *layout_names };

/* rows x cols elements that lie in one of the layouts. */
static tt_tensor lay(const unsigned char *bytes, tt_dtype dtype, int layout, int64_t rows, int64_t cols)
{
    int64_t item = (int64_t)tt_dtype_size(dtype);
    int64_t stride[2] = { cols * item, item };
    const unsigned char *data = bytes;
    if (layout == 1) {
        stride[0] = item;
        stride[1] = rows * item;
    } else if (layout == 2) {
        stride[0] = cols * 2 * item;
        stride[1] = 2 * item;
    } else if (layout == 3) {
        data += (rows * cols > 0 ? rows * cols - 1 : 0) * item;
        stride[0] = -cols * item;
        stride[1] = -item;
    } else if (layout == 4) {
        stride[0] = 0;
    }
    tt_tensor t;
    tt_error err;
    if (tt_tensor_describe(&t, data, dtype, 2, (int64_t[]){ rows, cols }, stride, &err) < 0) {
        fprintf(stderr, "print_bits: %s\n", err.text);
        exit(3);
    }
    return t;
}

/* ---- the summaries ------------------------------------------------------ */

static void print_stats(const tt_tensor *t)
{
    tt_stats s;
    tt_stats_compute(t, &s);
    printf("  stats");
    const int64_t counts[] = { s.count, s.nan, s.posinf, s.neginf, s.zeros, s.isum_hi };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        put_i64(counts[i]);
    const double values[] = {
        s.min,
        s.max,
        s.absmax,
        s.sum,
        s.mean,
        s.m2,
        s.l1,
        s.sumsq,
        s.sum_imag,
        tt_stats_var(&s),
        tt_stats_std(&s),
        tt_stats_l2(&s),
        tt_stats_rms(&s),
        tt_stats_mean_imag(&s),
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        put_f64(values[i]);
    printf(" %" PRId64 " %" PRId64 " %" PRIu64 "\n", s.imin, s.imax, s.isum_lo);
}

static void print_hist(const tt_tensor *t)
{
    static tt_hist_bin bins[32768];
    tt_hist *hist = NULL;
    if (tt_hist_create(&hist) < 0)
        exit(3);
    tt_hist_add(hist, t);
    size_t n = tt_hist_bins(hist, bins, sizeof bins / sizeof *bins);
    uint64_t mixed = 0; /* one number in place of hundreds of bins */
    for (size_t i = 0; i < n; i++) {
        uint64_t low;
        memcpy(&low, &bins[i].low, sizeof low);
        mixed = (mixed ^ low ^ (uint64_t)bins[i].count << 1) * 0x9e3779b97f4a7c15u;
    }
    printf("  hist %zu %016" PRIx64, n, mixed);
    put_f64(tt_hist_quantile(hist, 0.25));
    put_i64(tt_hist_nan(hist));
    printf("\n");
    tt_hist_free(hist);
}

static void print_digest(const tt_tensor *t)
{
    tt_digest digest;
    tt_digest_compute(t, &digest);
    printf("  digest %016" PRIx64 "%016" PRIx64 "\n", digest.high, digest.low);
    (void)tt_placed_compute(t, NULL, &digest);
    printf("  placed %016" PRIx64 "%016" PRIx64 "\n", digest.high, digest.low);
}

static void print_tokens(const tt_tensor *t)
{
    int64_t tokens = tt_sketch_tokens(t);
    float *sketch = malloc((size_t)tokens * TT_SKETCH_BYTES + 1);
    if (sketch == NULL)
        exit(3);
    tt_sketch_compute(t, sketch);
    uint64_t mixed = 0; /* one number in place of thousands */
    for (int64_t i = 0; i < tokens * TT_SKETCH_FLOATS; i++) {
        uint32_t bits;
        memcpy(&bits, &sketch[i], sizeof bits);
        mixed = (mixed ^ (isnan(sketch[i]) ? 0x7fc00000 : bits)) * 0x9e3779b97f4a7c15u;
    }
    printf("  tokens %" PRId64 " %016" PRIx64 "\n", tokens, mixed);
    free(sketch);
}

static void print_compare(const tt_tensor *a, const tt_tensor *b)
{
    tt_compare_options options = { .rtol = 1e-5, .atol = 1e-8, .equal_nan = true, .wants_ulps = true };
    tt_compare c;
    if (tt_compare_compute(a, b, &options, &c, NULL) < 0)
        exit(3);
    printf("  compare");
    put_i64(c.differing);
    put_f64(c.max_abs);
    put_f64(c.max_rel);
    put_i64(c.argmax);
    printf(" %" PRIu64 " %d %d", c.ulp_max, c.equal, c.allclose);
    for (size_t i = 0; i < sizeof c.ulp_hist / sizeof *c.ulp_hist; i++)
        if (c.ulp_hist[i] > 0)
            printf(" %zu:%" PRId64, i, c.ulp_hist[i]);
    printf("\n");
}

static void print_attention(tt_dtype dtype, bool is_causal)
{
    enum { HEADS = 2, QUERIES = 19, KEYS = 37, DIM = 24, ROWS = HEADS * QUERIES };
    static unsigned char q_bytes[MOST_BYTES], k_bytes[MOST_BYTES];
    fill_bytes(q_bytes, dtype, MODERATE);
    fill_bytes(k_bytes, dtype, MODERATE);
    if (tt_dtype_size(dtype) == 2) /* sign, an exponent around 1, mantissa */
        for (size_t i = 0; i < MOST_BYTES / 2; i++) {
            uint16_t keep = dtype == TT_F16 ? 0x83ff : 0x807f, one = dtype == TT_F16 ? 0x3c00 : 0x3f80;
            uint16_t q = (uint16_t)((next_bits() & keep) | one),
                     k = (uint16_t)((next_bits() & keep) | one);
            memcpy(q_bytes + i * 2, &q, 2);
            memcpy(k_bytes + i * 2, &k, 2);
        }
    tt_tensor q, k;
    float result[3][ROWS];
    tt_attention_options options = { .scale = NAN, .is_causal = is_causal };
    if (tt_tensor_describe(&q, q_bytes, dtype, 3, (int64_t[]){ HEADS, QUERIES, DIM }, NULL, NULL) < 0 ||
        tt_tensor_describe(&k, k_bytes, dtype, 3, (int64_t[]){ HEADS, KEYS, DIM }, NULL, NULL) < 0 ||
        tt_attention_compute(&q, &k, &options, result[0], result[1], result[2], NULL) < 0)
        exit(3);
    printf("attention %s causal %d\n", tt_dtype_name(dtype), is_causal);
    for (int row = 0; row < ROWS; row++) {
        printf(" ");
        for (int i = 0; i < 3; i++)
            put_f64((double)result[i][row]);
        printf("\n");
    }
}

/* ---- denormals -------------------------------------------------------------- */

/* As torch.set_flush_denormal(True) does. */
static void flush_denormals(void)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); /* of results, of arguments */
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" ::"r"(mode | 1u << 24));
#endif
}

/* Of this thread's own arithmetic. */
static bool is_flushing(void)
{
    volatile double least = 0x1p-1022;
    return least / 2 == 0;
}

int main(int argc, char **argv)
{
    bool wants_flush = argc > 1 && strcmp(argv[1], "flush") == 0;
    if (wants_flush)
        flush_denormals();
    if (is_flushing() != wants_flush) {
        fprintf(stderr, "print_bits: denormals cannot be flushed here\n");
        return 3;
    }
    static unsigned char one[MOST_BYTES], two[MOST_BYTES];
    static const int64_t sizes[][2] = {
        { 0, 3 }, { 1, 1 }, { 3, 5 }, { 1, 2047 }, { 2, 1025 }, { 61, 50 }
    };
    fprintf(stderr, "%s\n", tt_isa_name());
    for (int dtype = 0; dtype < TT_DTYPE_COUNT_; dtype++)
        for (int how = 0; how < FILLS; how++) {
            fill_bytes(one, (tt_dtype)dtype, (fill)how);
            memcpy(two, one, sizeof two);
            for (size_t at = 0; at < sizeof two; at += 97) /* one element here and there differs */
                two[at] = dtype == TT_BOOL ? two[at] ^ 1 : (unsigned char)(two[at] + at / 97);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int layout = 0; layout < LAYOUTS; layout++) {
                    int64_t rows = sizes[s][0], cols = sizes[s][1];
                    tt_tensor a = lay(one, (tt_dtype)dtype, layout, rows, cols);
                    tt_tensor b = lay(two, (tt_dtype)dtype, layout, rows, cols);
                    printf("%s %s %s %" PRId64 "x%" PRId64 "\n", tt_dtype_name((tt_dtype)dtype),
                           fill_names[how], layout_names[layout], rows, cols);
                    print_stats(&a);
                    print_hist(&a);
                    print_digest(&a);
                    print_tokens(&a);
                    print_compare(&a, &b);
                }
        }
    const tt_dtype floats[] = { TT_F32, TT_F64, TT_F16, TT_BF16 };
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        print_attention(floats[i], false);
        print_attention(floats[i], true);
    }
    if (is_flushing() != wants_flush) {
        fprintf(stderr, "print_bits: a summary changed how the thread computes\n");
        return 1;
    }
    return 0;
}
