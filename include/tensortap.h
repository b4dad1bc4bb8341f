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

const char *tt_version(void);  /* that of the library, for a check against TT_VERSION */
const char *tt_isa_name(void); /* the kernels in use: "base", "avx2", "neon" */

/* ---- status ------------------------------------------------------------- */

#define TT_STATUS_MAP(X)                                       \
    X(OK, 0, "ok")                                             \
    X(ENOMEM, -1, "out of memory")                             \
    X(EIO, -2, "input or output failed")                       \
    X(EDTYPE, -3, "element type not supported")                \
    X(ESHAPE, -4, "shape or strides make no sense")            \
    X(EDEVICE, -5, "memory of this device cannot be read")     \
    X(EINVAL, -6, "argument out of range")                     \
    X(EMISMATCH, -7, "the two do not fit together")            \
    X(EFORMAT, -8, "the data is damaged or of another format") \
    X(ELIMIT, -9, "the file claims more than it can hold")

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
#define TT_DTYPE_MAP(X)                         \
    X(F64, "float64", 8, FLOAT)                 \
    X(F32, "float32", 4, FLOAT)                 \
    X(F16, "float16", 2, FLOAT)                 \
    X(BF16, "bfloat16", 2, FLOAT)               \
    X(F8_E4M3FN, "float8_e4m3fn", 1, FLOAT)     \
    X(F8_E5M2, "float8_e5m2", 1, FLOAT)         \
    X(F8_E4M3FNUZ, "float8_e4m3fnuz", 1, FLOAT) \
    X(F8_E5M2FNUZ, "float8_e5m2fnuz", 1, FLOAT) \
    X(I8, "int8", 1, INT)                       \
    X(I16, "int16", 2, INT)                     \
    X(I32, "int32", 4, INT)                     \
    X(I64, "int64", 8, INT)                     \
    X(U8, "uint8", 1, UINT)                     \
    X(U16, "uint16", 2, UINT)                   \
    X(U32, "uint32", 4, UINT)                   \
    X(U64, "uint64", 8, UINT)                   \
    X(BOOL, "bool", 1, BOOL)                    \
    X(C64, "complex64", 8, COMPLEX)             \
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
    bool is_swapped;            /* bytes of each element are in the other order */
    int64_t shape[TT_MAX_DIM];  /* only the first ndim are set */
    int64_t stride[TT_MAX_DIM]; /* in bytes; 0 and negative are fine */
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
    double sumsq;          /* sum of x^2: l2 is its root */
    double sum_imag;       /* complex types */
    int64_t imin, imax;    /* integer types; read as uint64_t for TT_U64 */
    uint64_t isum_lo;      /* integer types: the sum as a ...          */
    int64_t isum_hi;       /* ... 128-bit two's complement number     */
    int32_t dtype;         /* tt_dtype */
    int32_t is_propagated; /* set by tt_stats_propagate */
} tt_stats;

void tt_stats_compute(const tt_tensor *t, tt_stats *out);
int64_t tt_stats_finite(const tt_stats *s); /* elements that the values are about */
double tt_stats_var(const tt_stats *s);     /* unbiased; NaN below two values */
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
 * close.  max_abs and max_rel are then NaN; ulp_max leaves the pair out. */
typedef struct tt_compare {
    int64_t count, differing; /* differing: a != b; -0 equals 0 */
    double max_abs;           /* largest |a - b|; Inf where an infinity meets anything else, NaN
                                 where a NaN does */
    double max_rel;           /* largest |a - b| / |b| where b is not 0, as numpy.testing;
                                 Inf: the only differences are where b is 0 */
    int64_t argmax;           /* first logical index of max_abs; -1: no pair differs */
    uint64_t ulp_max;         /* largest distance in representable numbers of the type */
    bool equal, allclose;
    int64_t ulp_hist[66]; /* [0]: 0 ulp, [i]: 2^(i-1) <= ulp < 2^i, [65]: NaN */
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
    const char *label; /* "[0,1]"; empty below three dimensions */
    int64_t rows, cols;
    const int64_t *row; /* index in the tensor of each row */
    const int64_t *col; /* ... and column */
    const void *values; /* rows * cols elements of the tensor's type, row by row */
} tt_sample_slice;

typedef struct tt_sample tt_sample;

tt_status tt_sample_create(const tt_tensor *t, const tt_sample_options *options, tt_sample **out,
                           tt_error *err);
void tt_sample_free(tt_sample *sample);
/* The same sample for one more owner, who frees it too; owners are of one thread, or take
 * turns.  NULL: NULL. */
tt_sample *tt_sample_share(tt_sample *sample);
size_t tt_sample_count(const tt_sample *sample);                        /* slices */
const tt_sample_slice *tt_sample_at(const tt_sample *sample, size_t i); /* borrowed */
bool tt_sample_is_partial(const tt_sample *sample);                     /* not every element is shown */

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
                               const tt_attention_options *options, float *entropy, float *max_logit,
                               float *sink, tt_error *err);

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
    uint64_t id;          /* edges name it; greater than that of the node before */
    const char *name;     /* "y", "self.weight" */
    const char *file;     /* NULL: not known, as code, function and device (the CPU) */
    const char *code;     /* the statement, perhaps of several lines */
    const char *function; /* nodes of one frame are framed together */
    const char *label;    /* of the frame: "h.3.attn"; NULL: the function's name */
    uint64_t frame;       /* 0: none */
    int32_t line;
    bool is_source; /* it was read, nobody saw it made */
    const char *dtype;
    const int64_t *shape;
    int32_t ndim; /* -1: the shape is not known */
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
/* The engine of Graphviz that draws it well: "dot" for a small chart, else "nop2",
 * which wants tt_graph_dot_placed. */
const char *tt_graph_engine(const tt_graph *graph);
/* The same as tt_graph_dot with a place for each node and arrow, for the engine
 * nop2 (neato -n2): columns in the order of time, a page as wide as a screen,
 * arrows that cross no table.  How large a node is only Graphviz knows: draw once with any
 * sizes, in points, and again with those it found. */
typedef struct tt_graph_size {
    double width, height;
} tt_graph_size;
tt_status tt_graph_dot_placed(const tt_graph *graph, const tt_graph_size *sizes, tt_buf *out);
/* Appends {"nodes": [...], "edges": [[from, to], ...]}.  stats has the keys of
 * Python's Stats; complex numbers are [real, imaginary]. */
tt_status tt_graph_json(const tt_graph *graph, tt_buf *out);

/* ---- runs: names and plans ---------------------------------------------- */

/* A run is a folder with one append-only file for each process that recorded:
 * rank0.tap, rank1.tap ... (docs/FORMAT.md).  A tt_recorder writes one such
 * file; a tt_run reads them all, also while they are written.
 *
 *     tt_recorder *rec;
 *     if (tt_recorder_open("runs/today", NULL, &rec, &err) < 0) ...
 *     int32_t loss, fc;
 *     tt_recorder_site(rec, "loss", &loss, &err);
 *     tt_recorder_site(rec, "activation/fc", &fc, &err);
 *     for (int64_t step = 0; step < 1000; step++) {
 *         tt_recorder_scalar(rec, loss, step, 0.5);
 *         if (tt_recorder_wants(rec, fc, step)) {
 *             tt_stats_compute(&t, &s);
 *             tt_recorder_add(rec, &(tt_event){ .site = fc, .step = step, .tensor = &t, .stats = &s });
 *         }
 *     }
 *     tt_recorder_close(rec, 5.0, &err);
 *
 *     tt_run *run;
 *     if (tt_run_open("runs/today", &run, &err) < 0) ...
 *     int32_t site = tt_run_find(run, "activation/fc");
 *     size_t n = tt_run_points(run, 0, site);       // then two arrays of n
 *     tt_run_series(run, 0, site, TT_FIELD_MEAN, steps, means, n, &n, &err);
 *     tt_run_close(run);
 *
 * Globs: `*` any characters (. and / too), `?` one byte, `a,b` a union; the whole
 * name must match. */
bool tt_glob_match(const char *glob, const char *name);

typedef enum tt_product {
    TT_PRODUCT_ANY = 0,
    TT_PRODUCT_SCALAR = 1 << 0, /* a number the user gave */
    TT_PRODUCT_STATS = 1 << 1,
    TT_PRODUCT_DIGEST = 1 << 2,
    TT_PRODUCT_HIST = 1 << 3,
    TT_PRODUCT_SAMPLE = 1 << 4,
    TT_PRODUCT_VALUE = 1 << 5, /* the bytes */
} tt_product;

typedef enum tt_phase { TT_PHASE_NONE, TT_PHASE_TRAIN, TT_PHASE_EVAL, TT_PHASE_COUNT_ } tt_phase;
/* Sets of phases.  What has none, such as a number that was logged, counts as training. */
typedef enum tt_phases {
    TT_PHASES_TRAIN = 1 << TT_PHASE_NONE | 1 << TT_PHASE_TRAIN,
    TT_PHASES_EVAL = 1 << TT_PHASE_EVAL,
    TT_PHASES_ALL = TT_PHASES_TRAIN | TT_PHASES_EVAL,
} tt_phases;

/* Which sites, which products, how often.  Decided once for each site. */
typedef struct tt_plan {
    const char *only;    /* NULL: "*" */
    const char *exclude; /* NULL: nothing */
    uint32_t products;   /* of tt_product */
    uint32_t every;      /* steps; 0 is taken as 1 */
} tt_plan;

/* "stats,value" or "stats|value" as tt_product: any of stats, hist, digest, sample, value.
 * TT_EINVAL: another word; err says which words there are, beginning with "keep must be". */
tt_status tt_products_parse(const char *text, uint32_t *out, tt_error *err);
/* The products that this plan wants of a site of this name; 0: none. */
uint32_t tt_plan_products(const tt_plan *plan, const char *name);

/* ---- runs: record ------------------------------------------------------- */

typedef struct tt_recorder_options {
    int32_t rank;            /* names the file: rank<rank>.tap */
    int32_t child;           /* a forked child's own file: rank<rank>.<child>.tap; 0: none */
    bool resumes;            /* go on in an existing file; else that is an error */
    bool drops;              /* queue full: drop and count; else the caller waits */
    bool compresses;         /* values with zstd, where it helps */
    size_t queue_bytes;      /* 0: 32 MB; an event takes 64 bytes at least */
    int64_t max_bytes;       /* of the file: above, the oldest values go; 0: no limit */
    tt_plan plan;            /* { 0 }: every site, every step, products of the caller's choice */
    const char *const *info; /* key, value, key, value, ..., NULL; NULL: none */
} tt_recorder_options;

/* One appearance of a tensor.  A pointer that is NULL is a product that is not
 * there; nothing is kept after the call. */
typedef struct tt_event {
    int32_t site;
    uint32_t call; /* of the site in this step, from 0 */
    int64_t step;
    int64_t time;            /* ns since 1970; 0: now */
    uint32_t thread;         /* any small number; 0: not known */
    uint8_t phase;           /* tt_phase */
    bool is_skipped;         /* the optimizer step it belongs to did not happen */
    bool has_value;          /* keep the bytes of tensor; may wait for the disk if they are many */
    const tt_tensor *tensor; /* shape and type; needed with has_value */
    const tt_stats *stats;
    const tt_digest *digest;
    const tt_hist *hist;
    const tt_sample *sample; /* of tensor */
    const double *scalar;
    /* For a caller with has_value that holds a lock which it wants to release while it waits:
     * leave() releases it, enter() takes it again.  enter() returns false if the memory of tensor
     * is not what it was; the value is then given up and counted as dropped.  So it is if other
     * bytes than the digest's have been seen.  NULL: there is no such lock. */
    void (*leave)(void *context);
    bool (*enter)(void *context);
    void *context; /* for both */
} tt_event;

typedef struct tt_recorder_counts {
    int64_t events;         /* taken, scalars included */
    int64_t dropped_events; /* queue full, or recording had stopped */
    int64_t dropped_bytes;
    int64_t values;      /* stored */
    int64_t values_same; /* seen before: not stored again */
    int64_t values_gone; /* evicted to stay within max_bytes, as bytes */
    int64_t bytes;       /* of the file, holes not counted */
    int64_t damaged;     /* points of a run that goes on which could not be read back, so far */
} tt_recorder_counts;

typedef struct tt_recorder tt_recorder;

/* Makes the folder and the file, starts the writer thread (which blocks all
 * signals).  site, wants, scalar, add, note and counts may be called from many
 * threads at once. */
tt_status tt_recorder_open(const char *folder, const tt_recorder_options *options, tt_recorder **out,
                           tt_error *err);
/* Ends it: everything queued is written, then the footer.  After `seconds` it
 * gives up with TT_EIO and leaves the thread behind.  NULL is fine. */
tt_status tt_recorder_close(tt_recorder *rec, double seconds, tt_error *err);

/* A small number for a name, the same for the same name. */
tt_status tt_recorder_site(tt_recorder *rec, const char *name, int32_t *out, tt_error *err);
const char *tt_recorder_site_name(const tt_recorder *rec, int32_t site); /* borrowed; NULL: none such */
/* The products wanted of this site at this step, by its plan; 0: nothing. */
uint32_t tt_recorder_wants(const tt_recorder *rec, int32_t site, int64_t step);
/* Gives one site a plan of its own, from now on (every = 0: never). */
void tt_recorder_set_plan(tt_recorder *rec, int32_t site, uint32_t products, uint32_t every);

/* These never fail because of the disk: when recording has stopped, events are
 * counted as dropped and tt_recorder_error says why. */
tt_status tt_recorder_scalar(tt_recorder *rec, int32_t site, int64_t step, double value);
tt_status tt_recorder_add(tt_recorder *rec, const tt_event *event);
tt_status tt_recorder_note(tt_recorder *rec, int64_t step, const char *text);
/* Says of which class the module at a path is ("h.0.attn", "(root)"), so that readers tell
 * modules from outputs and unlike layers apart. */
tt_status tt_recorder_module(tt_recorder *rec, const char *path, const char *class_name);
/* Is there room for an event of about so many bytes?  For callers that hold a lock
 * which they want to let go before they wait. */
bool tt_recorder_has_room(const tt_recorder *rec, size_t bytes);
/* Waits until there is, or so many seconds; returns whether there is. */
bool tt_recorder_wait_room(tt_recorder *rec, size_t bytes, double seconds);
/* Waits until everything queued so far can be read by others. */
tt_status tt_recorder_flush(tt_recorder *rec, tt_error *err);
/* TT_OK, or what stopped the recording, for good. */
tt_status tt_recorder_error(const tt_recorder *rec, tt_error *err);
void tt_recorder_counts_get(const tt_recorder *rec, tt_recorder_counts *out);
const char *tt_recorder_path(const tt_recorder *rec); /* of the file; borrowed */
/* True in a forked child: the recorder stays with the parent, calls do nothing. */
bool tt_recorder_is_inherited(const tt_recorder *rec);

/* ---- runs: read --------------------------------------------------------- */

typedef struct tt_run tt_run;

/* A run folder (every rank in it), or one .tap file.  A damaged file opens as
 * far as it goes: see tt_run_check. */
tt_status tt_run_open(const char *path, tt_run **out, tt_error *err);
void tt_run_close(tt_run *run);
/* Takes in what was written since; sites and ranks keep their numbers. */
tt_status tt_run_refresh(tt_run *run, tt_error *err);

/* Files are numbered from 0, by rank.  Every `file` below is such a number. */
int32_t tt_run_file_count(const tt_run *run);
typedef struct tt_run_file {
    const char *path; /* borrowed */
    int32_t rank;
    bool is_closed; /* ended with a footer: nobody is writing, nobody was killed */
    int64_t bytes;
    int64_t points;
    int64_t first_step, last_step; /* 0, -1: none */
    int64_t dropped_events;
    int64_t damaged_bytes; /* seen so far */
    const char *stopped;   /* "stopped by ValueError: ...": what ended the latest session; borrowed
                              until the next refresh; NULL: no exception */
} tt_run_file;
tt_status tt_run_file_get(const tt_run *run, int32_t file, tt_run_file *out);

/* Sites of all files, in order of appearance. */
int32_t tt_run_site_count(const tt_run *run);
const char *tt_run_site_name(const tt_run *run, int32_t site); /* borrowed until close */
int32_t tt_run_find(const tt_run *run, const char *name);      /* -1: none such */
/* Points of a site in one file; 0 if it has none. */
size_t tt_run_points(const tt_run *run, int32_t file, int32_t site);
bool tt_run_has_points(const tt_run *run, int32_t site); /* in any file; some names were never wanted */
/* The union of all steps, ascending; *count is how many there are, the first
 * cap of them are written. */
tt_status tt_run_steps(tt_run *run, int64_t *steps, size_t cap, size_t *count, tt_error *err);

/* name, text as users know it, product it belongs to (ANY: every point) */
#define TT_FIELD_MAP(X)        \
    X(SCALAR, "value", SCALAR) \
    X(CALL, "call", ANY)       \
    X(TIME, "time", ANY)       \
    X(PHASE, "phase", ANY)     \
    X(THREAD, "thread", ANY)   \
    X(COUNT, "count", STATS)   \
    X(NAN, "nan", STATS)       \
    X(POSINF, "posinf", STATS) \
    X(NEGINF, "neginf", STATS) \
    X(ZEROS, "zeros", STATS)   \
    X(MIN, "min", STATS)       \
    X(MAX, "max", STATS)       \
    X(ABSMAX, "absmax", STATS) \
    X(SUM, "sum", STATS)       \
    X(MEAN, "mean", STATS)     \
    X(VAR, "var", STATS)       \
    X(STD, "std", STATS)       \
    X(L1, "l1", STATS)         \
    X(L2, "l2", STATS)         \
    X(RMS, "rms", STATS)

#define X(name, text, product) TT_FIELD_##name,
typedef enum tt_field { TT_FIELD_MAP(X) TT_FIELD_COUNT_ } tt_field;
#undef X

const char *tt_field_name(tt_field field);
bool tt_field_find(const char *name, tt_field *out);

/* One field of one site, in the order recorded; points without it are left out.
 * steps may be NULL.  cap of tt_run_points() is always enough. */
tt_status tt_run_series(tt_run *run, int32_t file, int32_t site, tt_field field, int64_t *steps,
                        double *values, size_t cap, size_t *count, tt_error *err);

typedef struct tt_point {
    int64_t step, time;
    uint32_t call, thread;
    uint8_t phase;
    bool is_skipped;
    uint32_t products; /* of tt_product */
    double scalar;     /* NaN if not there */
    tt_stats stats;    /* { 0 } if not there */
    tt_digest digest;
    int64_t value_at; /* for tt_run_value_find; 0: no value */
    int32_t ndim;     /* -1: shape not known */
    int64_t shape[TT_MAX_DIM];
} tt_point;

/* Point number index of a site (negative: from the end, -1 is the latest). */
tt_status tt_run_point(tt_run *run, int32_t file, int32_t site, int64_t index, tt_point *out,
                       tt_error *err);
/* The first point of a step, and call (-1: any), that has all these products;
 * *index is -1 if there is none. */
tt_status tt_run_seek(tt_run *run, int32_t file, int32_t site, int64_t step, int64_t call,
                      uint32_t products, int64_t *index, tt_error *err);
/* The first point with a NaN or an infinity, stats or scalar; *index is -1 if
 * there is none.  Kept in the footer: no scan. */
tt_status tt_run_first_nonfinite(tt_run *run, int32_t file, int32_t site, int64_t *index, tt_error *err);

/* Bins of a point's histogram, as tt_hist_bins gives them. */
tt_status tt_run_hist(tt_run *run, int32_t file, int32_t site, int64_t index, tt_hist_bin *bins,
                      size_t cap, size_t *count, tt_error *err);
/* A point's sample, as it was made, and the type of its elements. */
tt_status tt_run_sample(tt_run *run, int32_t file, int32_t site, int64_t index, tt_sample **out,
                        tt_dtype *dtype, tt_error *err);

typedef struct tt_value {
    tt_dtype dtype;
    int32_t ndim;
    int64_t shape[TT_MAX_DIM];
    int64_t bytes; /* of all elements, contiguous, little-endian */
    tt_digest digest;
    int64_t at; /* of point.value_at */
    int32_t file;
} tt_value;

/* What is stored; TT_EMISMATCH if it was evicted to stay within max_bytes. */
tt_status tt_run_value_find(tt_run *run, int32_t file, int64_t value_at, tt_value *out, tt_error *err);
/* Its bytes, checked, into memory for value->bytes. */
tt_status tt_run_value_read(tt_run *run, const tt_value *value, void *out, tt_error *err);

/* What the caller of tt_recorder_open said, of the latest session; borrowed
 * until close.  NULL past the end. */
const char *tt_run_info_key(const tt_run *run, int32_t file, int32_t i);
const char *tt_run_info_value(const tt_run *run, int32_t file, int32_t i);

typedef struct tt_note {
    int64_t step, time;
    const char *text; /* borrowed until the next refresh or close */
} tt_note;
int32_t tt_run_note_count(const tt_run *run, int32_t file);
tt_status tt_run_note(const tt_run *run, int32_t file, int32_t i, tt_note *out);

/* A module of a watched model; a path may be there again, then the last one counts.
 * Old runs, and those that watch no model, have none. */
typedef struct tt_module {
    const char *path, *class_name; /* borrowed until close */
} tt_module;
int32_t tt_run_module_count(const tt_run *run, int32_t file);
tt_status tt_run_module(const tt_run *run, int32_t file, int32_t i, tt_module *out);

typedef struct tt_check {
    int64_t blocks, points, values;
    int64_t damaged_blocks, damaged_bytes;
    int64_t torn_bytes;  /* an unfinished block at the end: not damage */
    int64_t gone_values; /* evicted to stay within max_bytes */
    bool is_closed;
    char first[160]; /* where the first damage is, and of what kind */
} tt_check;

/* Reads everything and checks every checksum: whether each byte is as it was
 * written.  Nothing is unpacked.  A few threads share the work. */
tt_status tt_run_check(tt_run *run, int32_t file, tt_check *out, tt_error *err);
/* Writes what is whole, and can be unpacked, into a new, closed file. */
tt_status tt_run_repair(tt_run *run, int32_t file, const char *path, tt_check *out, tt_error *err);

/* ---- tables ------------------------------------------------------------- */

/* Appends text of somebody else on one line, so that a terminal obeys nothing in
 * it; cut to the style's columns. */
tt_status tt_text_append(const char *text, const tt_style *style, tt_buf *out);
/* Appends text as a JSON string, quotes included.  What a terminal would obey is escaped; bytes
 * that are not UTF-8 become U+FFFD. */
tt_status tt_json_quote(const char *text, tt_buf *out);

typedef enum tt_mood {
    TT_MOOD_PLAIN,
    TT_MOOD_FAINT,  /* guides, remarks */
    TT_MOOD_TYPE,   /* element types */
    TT_MOOD_SPARK,  /* sparklines */
    TT_MOOD_REMARK, /* worth a look */
    TT_MOOD_ALARM,  /* NaN, Inf, damage */
    TT_MOOD_COUNT_
} tt_mood;

/* Columns, then cells row by row.  A table that is too wide leaves out the columns that may
 * be spared, then takes room from those that give some, the widest first; what is left
 * over is cut. */
typedef struct tt_table tt_table;

tt_status tt_table_create(const tt_style *style, tt_table **out);
void tt_table_free(tt_table *table);
/* least: the column may be cut down to this width (negative: in the middle, where names end
 * differently); 0: never. */
tt_status tt_table_column(tt_table *table, const char *title, bool is_right, int32_t least);
/* The column added last, which is not the first, may be spared: that of turn 1 goes first. */
void tt_table_spare(tt_table *table, uint32_t turn);
tt_status tt_table_cell(tt_table *table, tt_mood mood, const char *text);
/* `lead` is ours (a tree's guides) and drawn faintly before the text. */
tt_status tt_table_branch(tt_table *table, const char *lead, tt_mood mood, const char *text);
tt_status tt_table_render(const tt_table *table, bool has_titles, tt_buf *out);

/* ---- run tree ----------------------------------------------------------- */

/* The course of a field over the steps as `cells` characters (blocks, or ASCII), each the
 * mean of its stretch of steps, of the points of these phases; "!" where a stretch has a
 * value that is not finite.  left_out: how many points are of other phases; may be NULL. */
tt_status tt_trend_append(tt_run *run, int32_t file, int32_t site, tt_field field, tt_phases phases,
                          size_t cells, const tt_style *style, tt_buf *out, size_t *left_out,
                          tt_error *err);

/* name, text */
#define TT_ANOMALY_MAP(X)      \
    X(NONFINITE, "not finite") \
    X(EXPLODING, "exploding")  \
    X(ALL_ZERO, "all zero")    \
    X(UNCHANGED, "unchanged")

#define X(name, text) TT_ANOMALY_##name,
typedef enum tt_anomaly { TT_ANOMALY_MAP(X) TT_ANOMALY_COUNT_ } tt_anomaly;
#undef X
const char *tt_anomaly_text(tt_anomaly anomaly);

/* Matches the glob (NULL: any), and is not about the recording itself (tensortap/...)
 * unless the glob asks for that. */
bool tt_site_is_shown(const char *name, const char *glob);

/* What to look at. */
typedef struct tt_look {
    int32_t rank;     /* -1: every rank; numbers are of the first that has the site */
    tt_phases phases; /* 0: training; evaluation where a site was not trained */
} tt_look;

typedef struct tt_sight {
    int32_t file;       /* whose numbers these are; -1: no such point */
    tt_phases phases;   /* of latest: training or evaluation */
    int64_t index;      /* of the latest point of those phases ... */
    tt_point latest;    /* ... and itself */
    uint32_t anomalies; /* bits 1 << tt_anomaly; NONFINITE: of any phase, and of all ranks looked at */
} tt_sight;

/* What is odd about a site, and its latest point. */
tt_status tt_run_look(tt_run *run, int32_t site, const tt_look *look, tt_sight *out, tt_error *err);
/* The point of the same phases before sight->latest; *index is -1 if there is none. */
tt_status tt_run_previous(tt_run *run, int32_t site, const tt_sight *sight, int64_t *index,
                          tt_error *err);
/* Is this file of the rank looked at? */
bool tt_look_takes(const tt_look *look, const tt_run *run, int32_t file);
/* How many sites match (NULL: any; tt_site_is_shown) and have points. */
int32_t tt_run_shown_count(const tt_run *run, const char *glob);

/* A line of the tree: a group of names (site -1), a site, or several sites that are
 * alike but for a number in their names. */
typedef struct tt_tree_row {
    const char *label; /* "attn"; "0-11" of folded ones; borrowed */
    int32_t depth;
    uint64_t ended;         /* bit d: the branch at depth d has no more neighbours below */
    int32_t file, site;     /* of folded ones: the first; -1: a group */
    int32_t sites;          /* how many it stands for */
    size_t first_member;    /* of tt_run_tree_members */
    int32_t width;          /* how many neighbours are folded into it; 1: it is alone */
    const char *class_name; /* of the module; NULL: no module, or not recorded; borrowed from the run */
    bool is_output;         /* part of what the module above gave: "logits", "0" */
    tt_phases phases;       /* of latest, and for its trend */
    tt_point latest;        /* of folded ones: stats of all together, shape of the first */
    uint32_t anomalies;     /* bits 1 << tt_anomaly, of any of them */
    int32_t worst;          /* the first site that has one; -1: none */
} tt_tree_row;

typedef struct tt_run_tree tt_run_tree;

typedef enum tt_tree_how {
    TT_TREE_UNFOLDED = 1, /* a row for each of the repeated layers */
    TT_TREE_UNJOINED = 2, /* layers and 0-11 as two rows, not as layers.0-11 */
} tt_tree_how;

/* Sites that match (NULL: all) and have such points, their dots and slashes as branches;
 * how: bits of tt_tree_how.  TT_EMISMATCH: none does. */
tt_status tt_run_tree_create(tt_run *run, const tt_look *look, const char *only, uint32_t how,
                             tt_run_tree **out, tt_error *err);
void tt_run_tree_free(tt_run_tree *tree);
size_t tt_run_tree_count(const tt_run_tree *tree);
const tt_tree_row *tt_run_tree_at(const tt_run_tree *tree, size_t i); /* borrowed */
/* The sites that row i stands for, as many as it says; borrowed. */
const int32_t *tt_run_tree_members(const tt_run_tree *tree, size_t i);
uint32_t tt_run_tree_anomalies(const tt_run_tree *tree, int32_t site); /* bits; 0 also if not in it */

/* ---- nan ---------------------------------------------------------------- */

typedef enum tt_birth {
    TT_BIRTH_FORWARD,  /* everything that was recorded before it in the step was finite */
    TT_BIRTH_UPDATE,   /* a parameter: an update after the step it was last recorded in wrote it */
    TT_BIRTH_BACKWARD, /* a gradient; everything that was recorded of the forward was finite */
    TT_BIRTH_LOSS,     /* what backward() was called on; likewise */
} tt_birth;

typedef struct tt_nonfinite {
    int32_t file, site; /* site -1: there is none */
    int64_t index;      /* of the point */
    tt_point point;
    tt_birth birth;
    int64_t order, of; /* place among the points of its step and file, from 1 */
    int32_t reached;   /* sites, this one too, that have been non-finite since */
    int32_t allowed;   /* sites that have been and were left out */
    bool has_forward;  /* outputs of modules were recorded in its step and file ... */
    bool has_loss;     /* ... what backward() was called on was ... */
    bool has_backward; /* ... gradients of outputs were */
} tt_nonfinite;

/* Where the first non-finite value was born: the first step; in it parameters, then
 * what was recorded first (a child returns before its parent), then the loss, then
 * gradients, the last layer's first.  A number that the program logged gives way to the loss.  allow: a glob of sites that may be so; NULL: none. */
tt_status tt_run_nonfinite(tt_run *run, const char *allow, tt_nonfinite *out, tt_error *err);

typedef enum tt_feed_kind { TT_FEED_BEFORE, TT_FEED_PARAMETER, TT_FEED_PREVIOUS } tt_feed_kind;
typedef struct tt_feed {
    tt_feed_kind kind;
    int32_t site;
    int64_t index;
} tt_feed;
/* The finite points that fed it: the latest recorded before it in its step, its
 * parameters, the same site the last time.  Returns how many were written. */
tt_status tt_run_feeds(tt_run *run, const tt_nonfinite *of, tt_feed *out, size_t cap, size_t *count,
                       tt_error *err);

/* ---- diff --------------------------------------------------------------- */

typedef enum tt_verdict { TT_DIFF_SAME, TT_DIFF_NOISE, TT_DIFF_DIFFERS } tt_verdict;

/* The first occurrence of `from` in a name of run a is `to` in run b. */
typedef struct tt_rename {
    char from[64], to[64];
} tt_rename;

typedef struct tt_diff_options {
    const char *only;              /* of names in a, or in b alone; NULL: all sites */
    const tt_rename *rename;       /* for names that b has not; NULL: none */
    int64_t first_step, last_step; /* 0, INT64_MAX: all */
    bool has_tolerance;            /* judge by these in place of the noise floor */
    double rtol, atol;             /* fine: |a - b| <= atol + rtol * |b|, in every field */
    /* Called now and then with how many points of how many have been read; NULL: not. */
    void (*tell)(void *whom, int64_t done, int64_t total);
    void *whom;
} tt_diff_options;

typedef struct tt_diff_site {
    const char *name; /* borrowed of run a or b */
    int32_t rank;
    tt_verdict verdict;
    int64_t points;                 /* compared */
    int64_t only_a, only_b;         /* points without a partner of the same step and call */
    int64_t first_step, first_call; /* the first beyond the floor, or else the first that differs */
    tt_field first_field;           /* what was off there ... */
    double first_a, first_b, first_deviation, first_floor; /* ... and what was allowed */
    double deviation, floor;                               /* the largest, and what was allowed there */
    int64_t worst_step;
    tt_field worst_field;
    double a, b;
} tt_diff_site;

/* One that gives every site of a that b has not its partner; false: there is none. */
bool tt_diff_guess_rename(const tt_run *a, const tt_run *b, tt_rename *out);

typedef struct tt_diff tt_diff;
/* Both runs must outlive the result.  docs/guide/command.md has the noise floor. */
tt_status tt_diff_compute(tt_run *a, tt_run *b, const tt_diff_options *options, tt_diff **out,
                          tt_error *err);
void tt_diff_free(tt_diff *diff);
tt_verdict tt_diff_verdict(const tt_diff *diff);
size_t tt_diff_count(const tt_diff *diff);                     /* sites of a or b, by rank */
const tt_diff_site *tt_diff_at(const tt_diff *diff, size_t i); /* borrowed */
int64_t tt_diff_first(const tt_diff *diff); /* number of the site that parts first; -1: none does */

/* ---- formats ------------------------------------------------------------ */

/* Many tensors in one file; one tensor a file is further below. */
typedef struct tt_safetensors tt_safetensors;
typedef struct tt_entry {
    const char *name;
    tt_dtype dtype;
    int32_t ndim;
    const int64_t *shape;
} tt_entry;
/* Writes the header; then the tensors, in this order, one put each.  close without
 * all of them, or after a failure, removes the file. */
tt_status tt_safetensors_create(const char *path, const tt_entry *entries, size_t count,
                                tt_safetensors **out, tt_error *err);
tt_status tt_safetensors_put(tt_safetensors *file, const tt_tensor *t, tt_error *err);
tt_status tt_safetensors_close(tt_safetensors *file, tt_error *err);

/* ---- saved files -------------------------------------------------------- */

/* A tensor as a file of its own, that others read: torch.load (weights_only,
 * mmap), numpy.load, safetensors.  The elements are written in logical order,
 * whatever the strides; the same tensor gives the same bytes.
 *
 *     tt_saver *saver;
 *     if (tt_saver_open(0, &saver, &err) < 0) ...
 *     tt_saver_add(saver, "out/q.call0.pt", TT_FORMAT_PT, &q, NULL, &err);  // copies, returns
 *     ...
 *     if (tt_saver_wait(saver, NULL, &err) < 0)                             // all are on disk
 *         complain(err.text);                                               // or the first that is not
 *     tt_saver_close(saver);
 *
 * A file appears under its name when it is complete, and never half. */
typedef enum tt_format {
    TT_FORMAT_PT,
    TT_FORMAT_NPY,         /* bfloat16 and fp8 as float32, which NumPy can read */
    TT_FORMAT_SAFETENSORS, /* one tensor, named "tensor"; complex128 is refused */
    TT_FORMAT_BYTES,       /* the elements alone */
    TT_FORMAT_COUNT_
} tt_format;

/* A file that appears under its name when it is closed with TT_OK, or not at all.  A device
 * or a pipe is written to as it is; a symbolic link to anything else is refused.
 *
 *     tt_output *output;
 *     tt_status st = tt_output_open("out.csv", &output, &err);
 *     if (st == TT_OK)
 *         st = write_rows(tt_output_fd(output));
 *     st = tt_output_close(output, st, &err);
 */
typedef struct tt_output tt_output;
tt_status tt_output_open(const char *path, tt_output **out, tt_error *err);
int tt_output_fd(const tt_output *output);
/* Returns st, or what failed.  NULL: st. */
tt_status tt_output_close(tt_output *output, tt_status st, tt_error *err);

const char *tt_format_name(tt_format format); /* "pt": also the usual suffix */
bool tt_format_find(const char *name, tt_format *out);

/* Writes one file and returns when it is complete.  dtype_name: torch's name
 * of a type that the core does not know ("complex32"), the tensor then being of
 * any type of the same size; NULL: the tensor's own.  TT_EIO names the file. */
tt_status tt_file_save(const char *path, tt_format format, const tt_tensor *t, const char *dtype_name,
                       tt_error *err);

typedef struct tt_saver tt_saver;

/* bytes: of copies that may wait to be written; 0: 64 MB.  The writer thread
 * starts with the first file.  Functions may be called from many threads. */
tt_status tt_saver_open(size_t bytes, tt_saver **out, tt_error *err);
/* Ends it when everything is written.  NULL is fine. */
void tt_saver_close(tt_saver *saver);
/* Copies the tensor; the thread writes it.  Waits while there is no room; what is
 * larger than half of it is written at once, from where it lies.  What goes wrong
 * with a file is for tt_saver_wait; this fails if there is no memory, or no
 * thread.  In a forked child it writes the file before it returns. */
tt_status tt_saver_add(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                       const char *dtype_name, tt_error *err);
/* Would so many bytes be taken at once?  For callers that hold a lock. */
bool tt_saver_has_room(tt_saver *saver, size_t bytes);
/* Waits until everything added so far is written.  Gives the first failure since
 * the last call, and how many there were (failed may be NULL). */
tt_status tt_saver_wait(tt_saver *saver, int64_t *failed, tt_error *err);
size_t tt_saver_held(tt_saver *saver); /* bytes of memory it has now */

#ifdef __cplusplus
}
#endif
#endif
