/* tensortap.h -- the whole C interface of libtensortap.
 *
 * The library reads tensors that somebody else owns and says what is in them.
 * A tensor arrives as a tt_tensor: a checked description (pointer, type, sizes,
 * strides) of memory that the caller keeps alive and unchanged for the length
 * of a call.  Build one with tt_tensor_from_dlpack() or tt_tensor_describe();
 * both check everything that can be checked without reading the memory, so
 * that no summary has to.
 *
 *     tt_tensor t;
 *     tt_error err;
 *     if (tt_tensor_describe(&t, data, TT_F32, 2, (int64_t[]){ 8, 64 }, NULL, &err) < 0)
 *         return complain(err.text);
 *     tt_stats s;
 *     tt_stats_compute(&t, &s);
 *     printf("mean %g, %lld NaN\n", s.mean, (long long)s.nan);
 *
 * Rules that hold everywhere:
 *   - A function that can fail returns tt_status: 0, or a negative code from
 *     TT_STATUS_MAP.  Detail goes into a tt_error that the caller owns; NULL is
 *     accepted.  Out-parameters are written only on success.
 *   - `create` and `open` give, `free` and `close` take and accept NULL.  Every
 *     other pointer is borrowed for the call.
 *   - { 0 } is a valid empty tt_buf.
 *   - Nothing here prints, exits, installs a signal handler or keeps a pointer
 *     to a tensor after it returns.
 *   - Summaries need memory that does not grow with the tensor.
 *   - All functions may be called from several threads at once, as long as no
 *     two of them work on the same object.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSORTAP_H
#define TENSORTAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------ */

#define TT_VERSION "0.1.0"

const char *tt_version(void); /* that of the library, for a check against TT_VERSION */
const char *tt_isa_name(void); /* the kernels in use: "base", "avx2", "neon" */

/* ---- status ------------------------------------------------------------- */

#define TT_STATUS_MAP(X)                                      \
    X(OK, 0, "ok")                                            \
    X(ENOMEM, -1, "out of memory")                            \
    X(EIO, -2, "input or output failed")                      \
    X(EDTYPE, -3, "element type not supported")               \
    X(ESHAPE, -4, "shape or strides make no sense")           \
    X(EDEVICE, -5, "memory of this device cannot be read")    \
    X(EINVAL, -6, "argument out of range")                    \
    X(EMISMATCH, -7, "the two do not fit together")           \
    X(EFORMAT, -8, "the data is damaged or of another format")

#define X(name, code, text) TT_##name = (code),
typedef enum tt_status { TT_STATUS_MAP(X) } tt_status;
#undef X

typedef struct tt_error {
    char text[240]; /* always ended by NUL */
} tt_error;

const char *tt_status_name(tt_status st); /* "TT_EIO" */
const char *tt_status_text(tt_status st); /* "input or output failed" */

/* ---- bytes that grow ---------------------------------------------------- */

typedef struct tt_buf {
    char *data; /* owned; ended by a NUL that len does not count, unless NULL */
    size_t len;
    size_t cap;
} tt_buf;

void tt_buf_free(tt_buf *buf); /* NULL or { 0 }: nothing to do */

/* ---- element types ------------------------------------------------------ */

typedef enum tt_kind { TT_KIND_FLOAT, TT_KIND_INT, TT_KIND_UINT, TT_KIND_BOOL, TT_KIND_COMPLEX } tt_kind;

/* name, text as users know it, bytes, kind.  The numbers are part of the run
 * file's format: append only. */
#define TT_DTYPE_MAP(X)                               \
    X(F64, "float64", 8, FLOAT)                       \
    X(F32, "float32", 4, FLOAT)                       \
    X(F16, "float16", 2, FLOAT)                       \
    X(BF16, "bfloat16", 2, FLOAT)                     \
    X(F8_E4M3FN, "float8_e4m3fn", 1, FLOAT)           \
    X(F8_E5M2, "float8_e5m2", 1, FLOAT)               \
    X(F8_E4M3FNUZ, "float8_e4m3fnuz", 1, FLOAT)       \
    X(F8_E5M2FNUZ, "float8_e5m2fnuz", 1, FLOAT)       \
    X(I8, "int8", 1, INT)                             \
    X(I16, "int16", 2, INT)                           \
    X(I32, "int32", 4, INT)                           \
    X(I64, "int64", 8, INT)                           \
    X(U8, "uint8", 1, UINT)                           \
    X(U16, "uint16", 2, UINT)                         \
    X(U32, "uint32", 4, UINT)                         \
    X(U64, "uint64", 8, UINT)                         \
    X(BOOL, "bool", 1, BOOL)                          \
    X(C64, "complex64", 8, COMPLEX)                   \
    X(C128, "complex128", 16, COMPLEX)

#define X(name, text, bytes, kind) TT_##name,
typedef enum tt_dtype { TT_DTYPE_MAP(X) TT_DTYPE_COUNT_ } tt_dtype;
#undef X

const char *tt_dtype_name(tt_dtype dtype); /* "bfloat16" */
size_t tt_dtype_size(tt_dtype dtype);      /* bytes of one element */
tt_kind tt_dtype_kind(tt_dtype dtype);
/* One element as a number, unaligned or not; 64-bit integers are rounded, complex
 * types give NaN (ask for their halves). */
double tt_element_f64(tt_dtype dtype, const void *element);

/* ---- the tensor view ---------------------------------------------------- */

#define TT_MAX_DIM 64 /* as torch and NumPy 2 */

typedef struct tt_tensor {
    const void *data; /* borrowed; element [0, 0, ...]; may be unaligned */
    int64_t count;    /* number of elements, the product of shape */
    tt_dtype dtype;
    int32_t ndim;
    bool is_swapped;             /* bytes of each element are in the other order */
    int64_t shape[TT_MAX_DIM];   /* only the first ndim are set */
    int64_t stride[TT_MAX_DIM];  /* in bytes; 0 and negative are fine */
} tt_tensor;

/* The layout of DLPack's DLTensor (its ABI, all 1.x versions). */
typedef struct tt_dltensor {
    void *data;
    int32_t device_type; /* 1 is the CPU */
    int32_t device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset;
} tt_dltensor;

/* Checks and describes memory.  stride is in bytes; NULL: contiguous, last
 * index fastest. */
tt_status tt_tensor_describe(tt_tensor *out, const void *data, tt_dtype dtype, int32_t ndim,
                             const int64_t *shape, const int64_t *stride, tt_error *err);
tt_status tt_tensor_from_dlpack(tt_tensor *out, const tt_dltensor *dl, tt_error *err);
bool tt_tensor_is_contiguous(const tt_tensor *t);

/* ---- statistics --------------------------------------------------------- */

/* Of the finite elements; NaN and Inf are counted and left out.  Integer and
 * bool types also have exact values.  For complex types everything is of |z|,
 * except sum and mean.  Fields that no element defines are NaN. */
typedef struct tt_stats {
    int64_t count; /* all elements */
    int64_t nan, posinf, neginf, zeros;
    double min, max, absmax;
    double sum, mean;
    double m2; /* sum of (x - mean)^2 */
    double l1;
    double sumsq;             /* sum of x^2: l2 is its root */
    double sum_imag;          /* complex types */
    int64_t imin, imax;       /* integer types; read as uint64_t for TT_U64 */
    uint64_t isum_lo;         /* integer types: the sum as a ...          */
    int64_t isum_hi;          /* ... 128-bit two's complement number     */
    int32_t dtype;            /* tt_dtype */
    int32_t is_propagated;    /* set by tt_stats_propagate */
} tt_stats;

void tt_stats_compute(const tt_tensor *t, tt_stats *out);
int64_t tt_stats_finite(const tt_stats *s);   /* elements that the values are about */
double tt_stats_var(const tt_stats *s);       /* unbiased; NaN below two values */
double tt_stats_std(const tt_stats *s);
double tt_stats_l2(const tt_stats *s);
double tt_stats_rms(const tt_stats *s);
double tt_stats_mean_imag(const tt_stats *s); /* complex types */
/* Gives what torch gives where NaN or Inf is present: NaN or Inf. */
void tt_stats_propagate(tt_stats *s);

/* ---- histogram ---------------------------------------------------------- */

/* Counts in fixed logarithmic bins: sign, exponent and the two highest mantissa
 * bits of the value as f64; zero, NaN and the infinities apart.  The bins are
 * the same for every tensor, so histograms can be merged.  Complex: of |z|. */
typedef struct tt_hist tt_hist;

tt_status tt_hist_create(tt_hist **out);
void tt_hist_free(tt_hist *hist);
void tt_hist_add(tt_hist *hist, const tt_tensor *t);
void tt_hist_merge(tt_hist *into, const tt_hist *from);
int64_t tt_hist_count(const tt_hist *hist); /* all elements */
int64_t tt_hist_nan(const tt_hist *hist);
int64_t tt_hist_posinf(const tt_hist *hist);
int64_t tt_hist_neginf(const tt_hist *hist);
int64_t tt_hist_zeros(const tt_hist *hist);

typedef struct tt_hist_bin {
    double low, high; /* low <= x < high above zero, low < x <= high below; 0, 0: zeros */
    int64_t count;
} tt_hist_bin;

/* The bins that hold something, from the lowest value to the highest; the bin
 * of the zeros is one of them. */
size_t tt_hist_bins(const tt_hist *hist, tt_hist_bin *out, size_t cap); /* returns how many there are */
/* The q-quantile of the finite values, between two of them as numpy.quantile
 * does, where each is known to within 1/4 of itself (its bin; below 2^-1022, to
 * within 2^-1024).  NaN: no finite value, or q not in 0..1. */
double tt_hist_quantile(const tt_hist *hist, double q);

/* ---- digest ------------------------------------------------------------- */

/* XXH3-128 of the elements in logical order, shape and element type mixed in:
 * the same whatever the strides and the byte order.  Bytes count: -0 is not 0,
 * and NaN with different payloads differ.  core/summary/digest.h has the recipe. */
typedef struct tt_digest {
    uint64_t low, high;
} tt_digest;

void tt_digest_compute(const tt_tensor *t, tt_digest *out);

/* ---- compare ------------------------------------------------------------ */

typedef struct tt_compare_options {
    double rtol, atol; /* close: |a - b| <= atol + rtol * |b| */
    bool equal_nan;    /* NaN is close and equal to NaN */
    bool wants_ulps;   /* fill ulp_hist */
} tt_compare_options;

/* A pair in which one is NaN (or both, unless equal_nan) differs and is not
 * close, but has no part in max_abs, max_rel and ulp_max. */
typedef struct tt_compare {
    int64_t count, differing; /* differing: a != b; -0 equals 0 */
    double max_abs;           /* largest |a - b|; Inf where an infinity meets anything else */
    double max_rel;           /* largest |a - b| / |b| where b is not 0, as numpy.testing;
                                 Inf: the only differences are where b is 0 */
    int64_t argmax;           /* first logical index of max_abs; if only NaN differ, the first
                                 of them; -1: no pair differs */
    uint64_t ulp_max;         /* largest distance in representable numbers of the type */
    bool equal, allclose;
    int64_t ulp_hist[66];     /* [0]: 0 ulp, [i]: 2^(i-1) <= ulp < 2^i, [65]: NaN */
} tt_compare;

/* Shapes must be equal; element types may differ (ulp fields are then 0).
 *   - Floats of at most 32 bits are compared in f32, as torch does: differences
 *     are rounded to f32 (and are f64 where f32 would overflow).
 *   - Integers and bool are compared exactly; their ulp distance is |a - b|.
 *   - Complex: |a - b| and |b| are magnitudes, the ulp distance is the larger of
 *     the two parts', and a number with a NaN part is NaN.
 *   - Other mixed types are compared in f64, so that a 64-bit integer beyond
 *     2^53 may equal a float that it is not.
 *   - Inf is one ulp beyond the largest finite number.
 * TT_EMISMATCH: the shapes differ.  TT_EINVAL: rtol or atol is negative or NaN. */
tt_status tt_compare_compute(const tt_tensor *a, const tt_tensor *b, const tt_compare_options *options,
                             tt_compare *out, tt_error *err);

/* ---- sample ------------------------------------------------------------- */

/* A few elements that stand for the whole, as tables of two dimensions. */
typedef struct tt_sample_options {
    int64_t max_vector; /* columns of a vector */
    int64_t max_matrix; /* rows and columns of a matrix */
    int64_t max_slices; /* matrices of a tensor of three and more dimensions */
} tt_sample_options;

typedef struct tt_sample_slice {
    const char *label;   /* "[0,1]"; empty below three dimensions */
    int64_t rows, cols;
    const int64_t *row;  /* index in the tensor of each row */
    const int64_t *col;  /* ... and column */
    const void *values;  /* rows * cols elements of the tensor's type, row by row */
} tt_sample_slice;

typedef struct tt_sample tt_sample;

tt_status tt_sample_create(const tt_tensor *t, const tt_sample_options *options, tt_sample **out,
                           tt_error *err);
void tt_sample_free(tt_sample *sample);
size_t tt_sample_count(const tt_sample *sample);                        /* slices */
const tt_sample_slice *tt_sample_at(const tt_sample *sample, size_t i); /* borrowed */
bool tt_sample_is_partial(const tt_sample *sample); /* not every element is shown */

/* ---- attention ---------------------------------------------------------- */

typedef struct tt_attention_options {
    double scale;          /* NaN: 1 / sqrt(head_dim) */
    bool is_causal;        /* aligned top left: query i sees keys 0..i */
    const tt_tensor *mask; /* bool (true: seen) or added to the logits; broadcasts; NULL: none */
} tt_attention_options;

/* Softmax of q k^T without ever holding a length x length matrix.  q is
 * (..., heads, queries, dim), k is (..., kv_heads, keys, dim), heads a multiple
 * of kv_heads.  Each output has one float for each (..., head, query) in logical
 * order; NULL: not wanted.  A row that sees no key: entropy 0, max_logit -Inf,
 * sink 0. */
tt_status tt_attention_compute(const tt_tensor *q, const tt_tensor *k,
                               const tt_attention_options *options, float *entropy,
                               float *max_logit, float *sink, tt_error *err);

/* ---- numbers as text ---------------------------------------------------- */

enum { TT_NUMBER_TEXT = 40 }; /* room for every number text and its NUL */

/* The fewest digits that read back as the same number, written as Python's
 * repr writes them: "0.1", "3.0", "-0.0", "1e-07", "1e+22", "nan", "inf", "-inf".
 * A point whatever the locale.  Each returns the length. */
size_t tt_number_f64(double x, char out[TT_NUMBER_TEXT]);
size_t tt_number_f32(float x, char out[TT_NUMBER_TEXT]);
/* Short form for tables: about four significant digits, at most 10 characters,
 * never more zeros than needed: "0", "-1.25", "3.142", "1.2e-07", "12345", "nan".
 * Whole numbers below 1e9 have all their digits. */
size_t tt_number_short(double x, char out[TT_NUMBER_TEXT]);

/* ---- trees -------------------------------------------------------------- */

typedef struct tt_style {
    bool is_colored; /* ANSI colours */
    bool is_ascii;   /* no character beyond ASCII */
    int32_t columns; /* cut lines to this width; 0: never */
} tt_style;

/* What is known about one tensor; NULL where it is not. */
typedef struct tt_facts {
    const char *dtype; /* "float32" */
    const int64_t *shape;
    int32_t ndim;
    const char *device; /* NULL: the CPU, which is not mentioned */
    const char *note;   /* why the values are not there: "meta", "sparse" */
    const tt_stats *stats;
    const tt_hist *hist; /* drawn as a sparkline */
} tt_facts;

/* Appends one line about a tensor, without a newline:
 *
 *     float32[8, 64]  -3.1 … 2.87  mean 0.01 ± 0.98  ▂▃▅▇█▆▄▂▂  2 NaN  1 Inf
 *     int64[32, 128]  0 … 50256  mean 9981 ± 1.234e+04  █▅▃▂▂▂▂▂▂
 *     float32  0.6931472
 *     bool[64, 64]  37% true
 *     float32[512] cuda:0  all zero
 *     float32[512]  meta
 *
 * Where the style's columns do not suffice, the sparkline goes first, then the
 * mean, then the range; NaN and Inf stay. */
tt_status tt_facts_line(const tt_facts *facts, const tt_style *style, tt_buf *out);

/* A tree of lines.  Open a node, add its children, close it.  Labels may hold
 * anything; what a terminal would obey is escaped.  Texts may hold the colours
 * of tt_facts_line, nothing else.  NULL: none. */
typedef struct tt_tree tt_tree;

tt_status tt_tree_create(tt_tree **out);
void tt_tree_free(tt_tree *tree);
tt_status tt_tree_open(tt_tree *tree, const char *label, const char *text);
tt_status tt_tree_leaf(tt_tree *tree, const char *label, const char *text);
/* A leaf with the line of tt_facts_line, made to fit where it is drawn: NaN and
 * Inf are then not cut off.  The facts are copied. */
tt_status tt_tree_tensor(tt_tree *tree, const char *label, const tt_facts *facts);
void tt_tree_close(tt_tree *tree);
/* Appends the lines, each with its newline.  Labels of neighbours are padded to
 * one width, so that texts stand in a column. */
tt_status tt_tree_render(const tt_tree *tree, const tt_style *style, tt_buf *out);

/* The same tree while it grows, a line at a time, for logs. */
typedef enum tt_branch {
    TT_BRANCH_CALL,  /* opens a call: ┌── text */
    TT_BRANCH_ENTRY, /* ├─ text */
    TT_BRANCH_LAST,  /* └─ text */
} tt_branch;

/* Appends one line without a newline, behind depth guides ("│   "). */
tt_status tt_tree_line(int32_t depth, tt_branch branch, const char *text, const tt_style *style,
                       tt_buf *out);

/* ---- charts ------------------------------------------------------------- */

/* Tensors as tables, joined by arrows: what a program's lines made of what.  The
 * caller keeps all of it; a chart is only read.  Texts may hold anything. */
typedef struct tt_graph_node {
    uint64_t id;      /* edges name it; greater than that of the node before */
    const char *name; /* "y", "self.weight" */
    const char *file; /* NULL: not known, as code, function and device (the CPU) */
    const char *code; /* the statement, perhaps of several lines */
    const char *function; /* nodes of one frame are framed together */
    uint64_t frame;       /* 0: none */
    int32_t line;
    bool is_source; /* it was read, nobody saw it made */
    const char *dtype;
    const int64_t *shape;
    int32_t ndim;
    const char *device;
    const char *note;        /* why there are no values: "meta", "sparse" */
    const tt_stats *stats;   /* of the whole tensor; NULL: not known */
    const tt_sample *sample; /* NULL: not known; needs stats, whose element type it has */
} tt_graph_node;

typedef struct tt_graph_edge {
    uint64_t from, to;
} tt_graph_edge;

typedef struct tt_graph {
    const tt_graph_node *nodes;
    size_t node_count;
    const tt_graph_edge *edges; /* one that names no node is left out */
    size_t edge_count;
} tt_graph;

/* Appends the chart in Graphviz's language, its nodes as HTML-like tables. */
tt_status tt_graph_dot(const tt_graph *graph, tt_buf *out);
/* Appends {"nodes": [...], "edges": [[from, to], ...]}.  stats has the keys of
 * Python's Stats; complex numbers are [real, imaginary]. */
tt_status tt_graph_json(const tt_graph *graph, tt_buf *out);

#ifdef __cplusplus
}
#endif
#endif
