/* tensortap.h -- libtensortap for programs that embed it: summarize tensors, record them
 * into a run, read a run, save tensors as files.
 *
 * The library reads tensors that the caller owns.  A tensor is passed as a tt_tensor: a
 * checked description (pointer, type, sizes, strides) of memory that the caller keeps
 * alive and unchanged during the call.  Build one with tt_tensor_from_dlpack() or
 * tt_tensor_describe(); both check everything that can be checked without reading the
 * memory, so no summary checks again.
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
 *   - `create` and `open` return an object that the caller owns; `free` and `close`
 *     release it and accept NULL.  Every other pointer is borrowed for the call.
 *   - Nothing here prints, exits, installs a signal handler or keeps a pointer
 *     to a tensor after it returns.
 *   - Summaries need memory that does not grow with the tensor.
 *   - All functions may be called from several threads at once, as long as no
 *     two of them work on the same object.
 * tensortap_tools.h has the rest, which the command and the Python extension use: reports,
 * tables, charts.
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

#define TT_VERSION "0.2.0"

const char *tt_version(void);  /* of the library; compare with TT_VERSION */
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

const char *tt_status_text(tt_status st); /* "input or output failed" */

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
/* Returns one element, which may be unaligned.  64-bit integers are rounded, complex
 * types return NaN (read their two halves). */
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
/* Copies all elements to `out`, contiguous, last index fastest, in the machine's byte order. */
void tt_tensor_copy(const tt_tensor *t, void *out);
bool tt_tensor_is_contiguous(const tt_tensor *t); /* in logical order */

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
/* Makes the values NaN or Inf where torch would return NaN or Inf. */
void tt_stats_propagate(tt_stats *s);

/* ---- histogram ---------------------------------------------------------- */

/* Counts in fixed logarithmic bins: sign, exponent and the two highest mantissa
 * bits of the value as f64; zero, NaN and the infinities are counted separately.  The bins are
 * the same for every tensor, so histograms can be merged.  Complex: of |z|. */
typedef struct tt_hist tt_hist;

tt_status tt_hist_create(tt_hist **out);
void tt_hist_free(tt_hist *hist);
void tt_hist_add(tt_hist *hist, const tt_tensor *t);
void tt_hist_add_value(tt_hist *hist, double x, int64_t count); /* as if a tensor had it so often */
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
size_t tt_hist_bins(const tt_hist *hist, tt_hist_bin *out, size_t cap); /* returns their number */
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

/* A few elements of a large tensor, as two-dimensional tables. */
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
size_t tt_sample_count(const tt_sample *sample);                        /* slices */
const tt_sample_slice *tt_sample_at(const tt_sample *sample, size_t i); /* borrowed */
bool tt_sample_is_partial(const tt_sample *sample);                     /* some elements are left out */

/* ---- tokens ------------------------------------------------------------- */

enum {
    TT_SKETCH_FLOATS = 17, /* of a token: its l2 norm, then eight complex numbers */
    TT_SKETCH_BYTES = TT_SKETCH_FLOATS * 4,
};

/* Returns how many tokens a tensor has: rows of its flattened leading dimensions.  0: it has none, as it has
 * fewer than two dimensions or is not of floats. */
int64_t tt_sketch_tokens(const tt_tensor *t);
/* Writes TT_SKETCH_FLOATS for each token.  Sketches of one width can be compared and added: their distance
 * estimates that of the tokens.  core/summary/sketch.h has the definition.  A token with NaN or Inf has NaN. */
void tt_sketch_compute(const tt_tensor *t, float *out);

/* ---- attention ---------------------------------------------------------- */

typedef struct tt_attention_options {
    double scale;          /* NaN: 1 / sqrt(head_dim) */
    bool is_causal;        /* aligned top left: query i sees keys 0..i */
    const tt_tensor *mask; /* bool (true: seen) or added to the logits; broadcasts; NULL: none */
} tt_attention_options;

/* Softmax of q k^T, without a matrix of queries x keys in memory.  q is
 * (..., heads, queries, dim), k is (..., kv_heads, keys, dim), heads a multiple
 * of kv_heads.  Each output has one float for each (..., head, query) in logical
 * order; NULL: skipped.  A row that sees no key: entropy 0, max_logit -Inf,
 * sink 0. */
tt_status tt_attention_compute(const tt_tensor *q, const tt_tensor *k,
                               const tt_attention_options *options, float *entropy, float *max_logit,
                               float *sink, tt_error *err);

/* ---- runs ---------------------------------------------------------------- */

/* A run is a folder with one append-only file for each process that recorded:
 * rank0.tap, rank1.tap ... (docs/FORMAT.md).  A tt_recorder writes one such
 * file; a tt_run reads them all, even while they are being written.  A site is a named
 * place where tensors appear; a point is one appearance.
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
 */

typedef enum tt_product {
    TT_PRODUCT_ANY = 0,
    TT_PRODUCT_SCALAR = 1 << 0, /* a number that the program logged */
    TT_PRODUCT_STATS = 1 << 1,
    TT_PRODUCT_DIGEST = 1 << 2,
    TT_PRODUCT_HIST = 1 << 3,
    TT_PRODUCT_SAMPLE = 1 << 4,
    TT_PRODUCT_VALUE = 1 << 5,  /* the bytes */
    TT_PRODUCT_TOKENS = 1 << 6, /* a sketch of each token */
    TT_PRODUCT_PLACED = 1 << 7, /* a digest that is added up over the parts of a tensor */
} tt_product;

typedef enum tt_phase { TT_PHASE_NONE, TT_PHASE_TRAIN, TT_PHASE_EVAL, TT_PHASE_COUNT_ } tt_phase;
/* Sets of phases.  A point without a phase, such as a logged number, counts as training. */
typedef enum tt_phases {
    TT_PHASES_TRAIN = 1 << TT_PHASE_NONE | 1 << TT_PHASE_TRAIN,
    TT_PHASES_EVAL = 1 << TT_PHASE_EVAL,
    TT_PHASES_ALL = TT_PHASES_TRAIN | TT_PHASES_EVAL,
} tt_phases;

/* Which sites, which products, how often.  Applied once to each site.  In a glob `*` matches
 * any characters (. and / too), `?` one byte, `a,b` either; the whole name must match. */
typedef struct tt_plan {
    const char *only;    /* glob; NULL: "*" */
    const char *exclude; /* glob; NULL: nothing */
    uint32_t products;   /* bits of tt_product */
    uint32_t every;      /* steps; 0 means 1 */
} tt_plan;

/* ---- runs: record ------------------------------------------------------- */

typedef struct tt_recorder_options {
    int32_t rank;            /* names the file: rank<rank>.tap */
    int32_t child;           /* a forked child's own file: rank<rank>.<child>.tap; 0: none */
    bool resumes;            /* append to an existing file; otherwise that is an error */
    bool drops;              /* queue full: drop and count; otherwise the caller waits */
    bool compresses;         /* values with zstd, where it helps */
    size_t queue_bytes;      /* 0: 32 MB; an event takes at least 64 bytes */
    int64_t max_bytes;       /* of the file; the oldest values are evicted; 0: no limit */
    tt_plan plan;            /* { 0 }: every site, every step, products of the caller's choice */
    const char *const *info; /* key, value, key, value, ..., NULL; NULL: none */
    int64_t disk;            /* most bytes of all that is no value: then steps are thinned; 0: no limit */
} tt_recorder_options;

/* One appearance of a tensor.  NULL pointers are products that it does not have; nothing is
 * kept after the call. */
typedef struct tt_event {
    int32_t site;
    uint32_t call; /* of the site in this step, from 0 */
    int64_t step;
    int64_t time;            /* ns since 1970; 0: now */
    uint32_t thread;         /* any small number; 0: not known */
    uint8_t phase;           /* tt_phase */
    bool is_skipped;         /* its optimizer step was skipped */
    bool has_value;          /* keep the bytes of tensor; may wait for the disk if the tensor is large */
    const tt_tensor *tensor; /* shape and type; needed with has_value */
    const tt_stats *stats;
    const tt_digest *digest;
    const tt_digest *placed; /* of tt_placed_compute */
    const tt_hist *hist;
    const tt_sample *sample; /* of tensor */
    const float *tokens;     /* of tensor, as tt_sketch_compute writes them */
    const double *scalar;
    /* For a caller with has_value that must not wait with its lock held: leave() releases the
     * lock before a wait, enter() takes it again.  enter() returns false if the memory of tensor
     * is no longer valid; the value is then dropped and counted.  It is also dropped if
     * its bytes no longer match the digest.  NULL: there is no such lock. */
    void (*leave)(void *context);
    bool (*enter)(void *context);
    void *context; /* for both */
} tt_event;

typedef struct tt_recorder_counts {
    int64_t events;         /* accepted, scalars included */
    int64_t dropped_events; /* queue full, or recording had stopped */
    int64_t dropped_bytes;
    int64_t values;      /* stored */
    int64_t values_same; /* identical to a stored one: not stored again */
    int64_t values_gone; /* evicted to stay within max_bytes, as bytes */
    int64_t bytes;       /* of the file, holes not counted */
    int64_t damaged;     /* points of a resumed run that could not be read back, so far */
    int64_t writer_ns;   /* processor time of the thread that writes */
    int64_t stride; /* tensors are written at every stride-th step, or soon will be; 1: at every one */
    int64_t step_bytes; /* if that is not 1: bytes of a step that is written */
} tt_recorder_counts;

typedef struct tt_recorder tt_recorder;

/* Creates the folder and the file and starts the writer thread (which blocks all
 * signals).  site, wants, scalar, add, note and counts may be called from many
 * threads at once. */
tt_status tt_recorder_open(const char *folder, const tt_recorder_options *options, tt_recorder **out,
                           tt_error *err);
/* Writes everything queued, then the footer.  After `seconds` it gives up with TT_EIO and
 * leaves the thread running. */
tt_status tt_recorder_close(tt_recorder *rec, double seconds, tt_error *err);

/* Returns the number of a name; the same name has the same number. */
tt_status tt_recorder_site(tt_recorder *rec, const char *name, int32_t *out, tt_error *err);
const char *tt_recorder_site_name(const tt_recorder *rec, int32_t site); /* borrowed; NULL: none */
/* Returns the products that the plan of this site wants at this step; 0: nothing. */
uint32_t tt_recorder_wants(const tt_recorder *rec, int32_t site, int64_t step);
/* Does the plan leave out this name by its `exclude`? */
bool tt_recorder_excludes(const tt_recorder *rec, const char *name);
/* Changes the plan of one site from now on (every = 0: never). */
void tt_recorder_set_plan(tt_recorder *rec, int32_t site, uint32_t products, uint32_t every);

/* These never fail because of the disk: when recording has stopped, events are
 * counted as dropped and tt_recorder_error says why. */
tt_status tt_recorder_scalar(tt_recorder *rec, int32_t site, int64_t step, double value);
tt_status tt_recorder_add(tt_recorder *rec, const tt_event *event);
tt_status tt_recorder_note(tt_recorder *rec, int64_t step, const char *text);
/* Records the class of the module at a path ("h.0.attn", "(root)").  Readers use it to tell
 * modules from outputs, and to recognize layers of the same kind. */
tt_status tt_recorder_module(tt_recorder *rec, const char *path, const char *class_name);
/* Records what the program set, from a step on: "optimizer/lr", "0.001".  A later value of the same key
 * replaces it; an empty one takes it back. */
tt_status tt_recorder_setting(tt_recorder *rec, int64_t step, const char *key, const char *value);
/* ---- where a tensor belongs in a job of many ranks ---- */

enum { TT_MESH_DIMS = 8, TT_PLACEMENT_BOXES = 64 };

/* The ranks of a job as a grid, and this rank's position in it. */
typedef struct tt_mesh {
    int32_t ndim;
    const char *name[TT_MESH_DIMS]; /* "dp", "tp"; "": it has none */
    int32_t size[TT_MESH_DIMS];
    int32_t coordinate[TT_MESH_DIMS];
    const int32_t *ranks; /* all of them, last dimension fastest */
} tt_mesh;

/* What the ranks along one dimension of the mesh hold of a tensor. */
typedef enum tt_spread {
    TT_SPREAD_REPLICA, /* the same */
    TT_SPREAD_SHARD,   /* each a part */
    TT_SPREAD_PARTIAL, /* each an addend (or factor, maximum ...) of what is still to be reduced */
    TT_SPREAD_BATCH,   /* each a tensor of its own, of its part of the batch */
    TT_SPREAD_UNKNOWN,
    TT_SPREAD_COUNT_
} tt_spread;
typedef enum tt_reduction {
    TT_REDUCE_SUM,
    TT_REDUCE_AVG,
    TT_REDUCE_MAX,
    TT_REDUCE_MIN,
    TT_REDUCE_PRODUCT,
    TT_REDUCE_OTHER,
    TT_REDUCE_COUNT_
} tt_reduction;
/* Who said so. */
typedef enum tt_placement_source {
    TT_PLACED_BY_DTENSOR, /* its placements */
    TT_PLACED_BY_CHUNKS,  /* __create_chunk_list__ */
    TT_PLACED_BY_HOOK,    /* the layout in a hook of parallelize_module */
    TT_PLACED_BY_WRAPPER, /* DistributedDataParallel and the like */
    TT_PLACED_BY_USER,
    TT_PLACED_BY_COUNT_
} tt_placement_source;

typedef struct tt_box { /* a part of the whole tensor */
    int64_t offset[TT_MAX_DIM], size[TT_MAX_DIM];
} tt_box;

/* Where the tensors of a site belong, from a step on. */
typedef struct tt_placement {
    int64_t step;
    uint64_t mesh; /* id of tt_recorder_mesh */
    tt_placement_source source;
    int32_t mesh_ndim;
    struct {
        tt_spread spread;
        int32_t dim;            /* of a shard */
        int32_t factor;         /* of a strided shard; 1: plain */
        tt_reduction reduction; /* of a partial one */
    } on[TT_MESH_DIMS];
    int32_t ndim; /* of the whole tensor; -1: not known */
    int64_t shape[TT_MAX_DIM];
    int32_t box_count;   /* of what this rank holds; 0: nothing, or not known */
    const tt_box *boxes; /* borrowed */
} tt_placement;

/* Computes a digest of the elements and of where they are in the whole tensor, so that those of all its parts add up
 * to the same however it is cut.  placement: what this rank has of it; NULL: all.  False: it does not say that, or
 * speaks of another tensor.  Neither shape nor type is part of the digest. */
bool tt_placed_compute(const tt_tensor *t, const tt_placement *placement, tt_digest *out);

/* Records a mesh, once; *id is what placements refer to it by. */
tt_status tt_recorder_mesh(tt_recorder *rec, const tt_mesh *mesh, uint64_t *id);
/* Records where the tensors of a site belong; call it when that changes. */
tt_status tt_recorder_place(tt_recorder *rec, int32_t site, const tt_placement *placement);

/* Waits until everything queued so far can be read by other processes. */
tt_status tt_recorder_flush(tt_recorder *rec, tt_error *err);
/* Returns TT_OK, or the failure that stopped the recording for good. */
tt_status tt_recorder_error(const tt_recorder *rec, tt_error *err);
void tt_recorder_counts_get(const tt_recorder *rec, tt_recorder_counts *out);
/* True in a forked child: the recorder belongs to the parent, calls do nothing. */
bool tt_recorder_is_inherited(const tt_recorder *rec);

/* ---- runs: read --------------------------------------------------------- */

typedef struct tt_run tt_run;

/* Opens a run folder (every rank in it) or one .tap file.  A damaged file can be read up to,
 * and mostly after, the damage. */
tt_status tt_run_open(const char *path, tt_run **out, tt_error *err);
void tt_run_close(tt_run *run);
/* Reads what was written since; sites and files keep their numbers. */
tt_status tt_run_refresh(tt_run *run, tt_error *err);

/* Files are numbered from 0, by rank.  Every `file` below is such a number. */
int32_t tt_run_file_count(const tt_run *run);
typedef struct tt_run_file {
    const char *path; /* borrowed */
    int32_t rank;
    bool is_closed; /* has a footer: the recorder was closed */
    int64_t bytes;
    int64_t points;
    int64_t first_step, last_step; /* 0, -1: none */
    int64_t dropped_events;
    int64_t damaged_bytes; /* seen so far */
    const char *stopped;   /* "stopped by ValueError: ...": the exception that ended the latest
                              session; borrowed until the next refresh; NULL: none */
} tt_run_file;
tt_status tt_run_file_get(const tt_run *run, int32_t file, tt_run_file *out);

/* The mesh with this id as a file has it; NULL: none.  Borrowed until the next refresh, as the next. */
const tt_mesh *tt_run_mesh(const tt_run *run, int32_t file, uint64_t id);
/* Where the tensors of a site belong at a step; NULL: not recorded. */
const tt_placement *tt_run_placement(const tt_run *run, int32_t file, int32_t site, int64_t step);

/* Sites of all files, in order of appearance. */
int32_t tt_run_site_count(const tt_run *run);
const char *tt_run_site_name(const tt_run *run, int32_t site); /* borrowed until close */
int32_t tt_run_find(const tt_run *run, const char *name);      /* -1: no such site */
/* Returns the number of points of a site in one file. */
size_t tt_run_points(const tt_run *run, int32_t file, int32_t site);
bool tt_run_has_points(const tt_run *run, int32_t site); /* in any file */
/* Writes the first cap steps of all files together, ascending; *count: how many there are. */
tt_status tt_run_steps(tt_run *run, int64_t *steps, size_t cap, size_t *count, tt_error *err);

/* name, text as users know it, product it belongs to (ANY: every point) */
#define TT_FIELD_MAP(X)          \
    X(SCALAR, "value", SCALAR)   \
    X(CALL, "call", ANY)         \
    X(TIME, "time", ANY)         \
    X(PHASE, "phase", ANY)       \
    X(THREAD, "thread", ANY)     \
    X(PRODUCTS, "products", ANY) \
    X(COUNT, "count", STATS)     \
    X(NAN, "nan", STATS)         \
    X(POSINF, "posinf", STATS)   \
    X(NEGINF, "neginf", STATS)   \
    X(ZEROS, "zeros", STATS)     \
    X(MIN, "min", STATS)         \
    X(MAX, "max", STATS)         \
    X(ABSMAX, "absmax", STATS)   \
    X(SUM, "sum", STATS)         \
    X(MEAN, "mean", STATS)       \
    X(VAR, "var", STATS)         \
    X(STD, "std", STATS)         \
    X(L1, "l1", STATS)           \
    X(L2, "l2", STATS)           \
    X(RMS, "rms", STATS)

#define X(name, text, product) TT_FIELD_##name,
typedef enum tt_field { TT_FIELD_MAP(X) TT_FIELD_COUNT_ } tt_field;
#undef X

const char *tt_field_name(tt_field field);
bool tt_field_find(const char *name, tt_field *out);

/* Reads one field of one site in the order recorded; points without it are left out.
 * steps may be NULL.  A cap of tt_run_points() is always enough. */
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
    tt_digest digest, placed;
    int64_t value_at; /* for tt_run_value_find; 0: no value */
    int32_t ndim;     /* -1: shape not known */
    int64_t shape[TT_MAX_DIM];
} tt_point;

/* Reads point number index of a site (negative: from the end, -1 is the latest). */
tt_status tt_run_point(tt_run *run, int32_t file, int32_t site, int64_t index, tt_point *out,
                       tt_error *err);
/* Finds the first point of a step, and call (-1: any), that has all these products;
 * *index is -1 if there is none. */
tt_status tt_run_seek(tt_run *run, int32_t file, int32_t site, int64_t step, int64_t call,
                      uint32_t products, int64_t *index, tt_error *err);

/* Reads the bins of a point's histogram, as tt_hist_bins returns them. */
tt_status tt_run_hist(tt_run *run, int32_t file, int32_t site, int64_t index, tt_hist_bin *bins,
                      size_t cap, size_t *count, tt_error *err);
/* Reads a point's sample and the type of its elements. */
tt_status tt_run_sample(tt_run *run, int32_t file, int32_t site, int64_t index, tt_sample **out,
                        tt_dtype *dtype, tt_error *err);

/* Reads the sketches of a point's tokens: TT_SKETCH_FLOATS each, of at most cap tokens; *count: how many there are. */
tt_status tt_run_tokens(tt_run *run, int32_t file, int32_t site, int64_t index, float *out, size_t cap,
                        size_t *count, tt_error *err);

typedef struct tt_value {
    tt_dtype dtype;
    int32_t ndim;
    int64_t shape[TT_MAX_DIM];
    int64_t bytes; /* of all elements, contiguous, little-endian */
    tt_digest digest;
    int64_t at; /* of point.value_at */
    int32_t file;
} tt_value;

/* Describes a stored value; TT_EMISMATCH if it was evicted to stay within max_bytes. */
tt_status tt_run_value_find(tt_run *run, int32_t file, int64_t value_at, tt_value *out, tt_error *err);
/* Reads its value->bytes bytes and verifies their checksum. */
tt_status tt_run_value_read(tt_run *run, const tt_value *value, void *out, tt_error *err);

/* The info of the latest session's tt_recorder_options; borrowed until close.  NULL past the
 * end. */
const char *tt_run_info_key(const tt_run *run, int32_t file, int32_t i);
const char *tt_run_info_value(const tt_run *run, int32_t file, int32_t i);

typedef struct tt_note {
    int64_t step, time;
    const char *text; /* borrowed until the next refresh or close */
} tt_note;
int32_t tt_run_note_count(const tt_run *run, int32_t file);
tt_status tt_run_note(const tt_run *run, int32_t file, int32_t i, tt_note *out);

/* A module of a watched model.  If a path appears twice, the last one is valid.  Old runs, and
 * runs without a watched model, have none. */
typedef struct tt_module {
    const char *path, *class_name; /* borrowed until close */
} tt_module;
tt_status tt_run_module(const tt_run *run, int32_t file, int32_t i, tt_module *out);

/* What the program had set, in the order in which it was recorded.  A later value of a key replaces an
 * earlier one from its step on. */
typedef struct tt_setting {
    int64_t step;
    const char *key, *value; /* borrowed until close */
} tt_setting;
tt_status tt_run_setting(const tt_run *run, int32_t file, int32_t i, tt_setting *out);

/* Which steps a file has, of which points of its sites were seen: from this step on every stride-th, until the next
 * one that says otherwise.  The list is in the order of writing: a later one may go back. */
typedef enum tt_thinned_kind {
    TT_THINNED_NUMBERS,
    TT_THINNED_TENSORS,
    TT_THINNED_COUNT_
} tt_thinned_kind;
typedef struct tt_thinned {
    int64_t from;
    int64_t stride;
    tt_thinned_kind kind; /* numbers: also tensors of one element */
} tt_thinned;
tt_status tt_run_thinned(const tt_run *run, int32_t file, int32_t i, tt_thinned *out);
/* The widest stride of tensors in any file; 1: the run is not thinned. */
int64_t tt_run_widest_stride(const tt_run *run);

/* ---- saved files -------------------------------------------------------- */

/* One tensor per file, for torch.load (weights_only, mmap), numpy.load and safetensors.
 * The elements are written in logical order, whatever the strides; the same tensor always
 * makes the same bytes.
 *
 *     tt_saver *saver;
 *     if (tt_saver_open(0, &saver, &err) < 0) ...
 *     tt_saver_add(saver, "out/q.call0.pt", TT_FORMAT_PT, &q, NULL, &err);  // copies, returns
 *     ...
 *     if (tt_saver_wait(saver, NULL, &err) < 0)                             // all are on disk
 *         complain(err.text);                                               // or the first that is not
 *     tt_saver_close(saver);
 *
 * A file appears under its name only when it is complete. */
typedef enum tt_format {
    TT_FORMAT_PT,
    TT_FORMAT_NPY,         /* bfloat16 and fp8 as float32, which NumPy can read */
    TT_FORMAT_SAFETENSORS, /* one tensor, named "tensor"; complex128 is not supported */
    TT_FORMAT_BYTES,       /* the elements alone */
    TT_FORMAT_COUNT_
} tt_format;

bool tt_format_find(const char *name, tt_format *out);

/* Writes one file and returns when it is complete.  dtype_name: torch's name of a type that
 * the core does not know ("complex32"); the tensor then has any type of the same size.
 * NULL: the tensor's own type.  The text of TT_EIO names the file. */
tt_status tt_file_save(const char *path, tt_format format, const tt_tensor *t, const char *dtype_name,
                       tt_error *err);

typedef struct tt_saver tt_saver;

/* bytes: memory for copies that wait to be written; 0: 64 MB.  The writer thread
 * starts with the first file.  Functions may be called from many threads. */
tt_status tt_saver_open(size_t bytes, tt_saver **out, tt_error *err);
/* Waits until everything is written. */
void tt_saver_close(tt_saver *saver);
/* Copies the tensor; the thread writes it.  Waits while the memory is full; a tensor larger
 * than half of the memory is written before the call returns, without a copy.
 * tt_saver_wait reports what goes wrong with a file; this fails only without memory or
 * without a thread.  In a forked child it writes the file before it returns. */
tt_status tt_saver_add(tt_saver *saver, const char *path, tt_format format, const tt_tensor *t,
                       const char *dtype_name, tt_error *err);
/* Waits until everything added so far is written.  Returns the first failure since the last
 * call; *failed is their number (failed may be NULL). */
tt_status tt_saver_wait(tt_saver *saver, int64_t *failed, tt_error *err);

/* Many tensors in one safetensors file. */
typedef struct tt_safetensors tt_safetensors;
typedef struct tt_entry {
    const char *name;
    tt_dtype dtype;
    int32_t ndim;
    const int64_t *shape;
} tt_entry;
/* Writes the header.  Then put the tensors in the same order.  A close before all of them are
 * written, or after a failure, removes the file. */
tt_status tt_safetensors_create(const char *path, const tt_entry *entries, size_t count,
                                tt_safetensors **out, tt_error *err);
tt_status tt_safetensors_put(tt_safetensors *file, const tt_tensor *t, tt_error *err);
tt_status tt_safetensors_close(tt_safetensors *file, tt_error *err);

#ifdef __cplusplus
}
#endif
#endif
