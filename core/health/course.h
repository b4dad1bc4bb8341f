/* course.h -- what the rules remember of one series: a few numbers, whatever its length.
 *
 * Exists so that a finished run and one that is being written are judged alike: both feed points
 * into courses, and the rules look at nothing else.
 * For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_COURSE_H
#define TT_HEALTH_COURSE_H

#include "tensortap_tools.h"

/* kind; how the names of its sites begin.  Those of tensortap/ are recorded for the rules. */
#define TT_COURSE_KIND_MAP(X)                                                                        \
    X(ACTIVATION, "activation/")                                                                     \
    X(ACTIVATION_GRADIENT, "activation_gradient/")                                                   \
    X(GRADIENT, "gradient/")                                                                         \
    X(PARAMETER, "parameter/")                                                                       \
    X(LOSS, "loss/")                                                                                 \
    X(ATTENTION, "attention_entropy/")   /* of a head, from monitor */                               \
    X(STATE, "tensortap/state/")         /* of a parameter: bits of tt_state_bit */                  \
    X(UPDATE, "tensortap/update/")       /* size of a step's update over the weight's */             \
    X(SILENT, "tensortap/silent/")       /* share of units without a gradient for a while */         \
    X(BATCH, "tensortap/batch/")         /* what the model was called with: statistics, digest */    \
    X(NO_GRAD, "tensortap/no_grad/")     /* a call in training mode without gradients */             \
    X(WITH_GRAD, "tensortap/with_grad/") /* a call in evaluation mode with gradients */              \
    X(MODE, "tensortap/mode/")           /* of a module, where it is not its model's; 1: training */ \
    X(LABELS, "tensortap/labels/")       /* what a loss is computed by: tt_loss_made_by */           \
    X(ADDED, "tensortap/added/")         /* a gradient was added to that of the step before */       \
    X(CLIP, "tensortap/clip/")           /* what a gradient was multiplied by before the step */     \
    X(ROWS, "tensortap/rows/")           /* share of a batch's samples that equal the first */       \
    X(PADDING, "tensortap/padding/")     /* share of padding that the loss counts */                 \
    X(GRAPH, "tensortap/graph/")         /* a call in evaluation mode whose graph nobody used */     \
    X(SOFTMAX, "tensortap/softmax/")     /* of a module: tt_softmax_over */                          \
    X(BLOCKED, "tensortap/blocked/")     /* of a module: its output requires no gradient */

#define X(name, text) TT_COURSE_##name,
typedef enum tt_course_kind {
    TT_COURSE_KIND_MAP(X) TT_COURSE_RATE, /* learning_rate */
    TT_COURSE_OTHER,                      /* numbers and tensors of the program's own */
    TT_COURSE_KIND_COUNT_
} tt_course_kind;
#undef X

typedef enum tt_state_bit {
    TT_STATE_REQUIRES_GRAD = 1,
    TT_STATE_IS_OPTIMIZED = 2, /* an optimizer holds it */
    TT_STATE_HAS_GRAD = 4,
    TT_STATE_IS_SHARDED = 8, /* each rank has a part of it */
} tt_state_bit;

enum {
    TT_COURSE_RECENT = 16, /* points */
    TT_COURSE_WARM = 10,   /* points after which a history is one */
    TT_COURSE_TAIL = 16,   /* jumps that are remembered */
    TT_COURSE_KEPT = 8,    /* values of a learning rate that are */
};

/* The largest jumps of a series, one for each time that it rose above its level: the tail of its noise. */
typedef struct tt_rises {
    float by[TT_COURSE_TAIL]; /* distances in spreads */
    int32_t count;
    int32_t now; /* number of the rise that goes on plus 1; 0: none */
} tt_rises;

/* Values at even distances over the whole series. */
typedef struct tt_kept {
    double values[TT_COURSE_KEPT];
    int64_t steps[TT_COURSE_KEPT];
    int32_t count;
    int64_t every; /* points from one to the next; 0: none yet */
} tt_kept;

/* A loss that went far beyond all that it had been, for several points in a row. */
typedef struct tt_burst {
    int64_t points; /* in a row so far; TT_BURST_POINTS: it has happened */
    double from, beyond, peak;
    int64_t step, peak_step; /* the first one's, the highest one's */
} tt_burst;
enum { TT_BURST_POINTS = 4 };

/* One point, as far as the rules need it. */
typedef struct tt_sighting {
    int64_t step, time;
    int64_t round; /* of the micro-batches of its step, while a run is written */
    bool is_eval, is_skipped;
    bool has_value; /* false: only a digest */
    double value;   /* root mean square; of a loss the mean; of a number itself */
    double mean, absmax;
    double zeros;  /* share of the elements */
    uint64_t mark; /* equal contents have equal marks */
    int64_t nan, inf;
    bool is_masked; /* tt_value_is_masked */
    bool is_mask;   /* ... and all others are 0 */
} tt_sighting;

/* Points of training that were not skipped, unless a field says otherwise. */
typedef struct tt_course {
    const char *name;       /* of the site; borrowed of the history */
    const char *tail;       /* the name without its kind */
    const char *class_name; /* of the module; NULL: unknown or none */
    tt_course_kind kind;
    int32_t site, subject, pattern; /* numbers in the history */
    int32_t rank;                   /* of a joined run: the only one that has it; else -1 */
    int32_t ndim, dtype;            /* -1: unknown */
    int64_t elements;
    int64_t read; /* points of the file that have been read */
    int64_t points, eval_points, skipped_points;
    int64_t values; /* points that had a finite value: an empty tensor has none */
    int64_t first_step, last_step, last_skipped_step;
    double first, latest, early; /* early: mean of the first 8 */
    double level, spread;        /* smoothed value, and distance from it */
    double lowest, highest;      /* of the level, after the warm-up */
    double mean, zeros;          /* smoothed */
    double recent[TT_COURSE_RECENT];
    int64_t calls;            /* in the step so far ... */
    double step_first;        /* ... the first of them */
    double from_call_to_call; /* smoothed: the last call of a step over the first; 0: one call */
    double calls_at_first;    /* the same in the first step */
    double absmax;            /* the largest */
    int64_t absmax_step;
    int64_t zero_run, zero_from; /* how many of the latest were all zero; the step of the first of them */
    int64_t zero_points;
    int64_t same_run, same_longest; /* how many had the mark of the one before: the latest; most */
    int64_t same_from;              /* the step before the latest run began: what it is the same as */
    int64_t same_step, same_since;  /* the last of the longest; as same_from */
    int64_t least_gap;              /* the fewest steps from one to the next; 0: not known */
    uint64_t first_mark, latest_mark;
    int64_t marked_step; /* the last that was a power of two, and its mark */
    uint64_t step_mark;
    struct {
        double by, value, level; /* by: distance in spreads; the largest */
        int64_t step;
    } jump;
    union {
        tt_rises rises;
        tt_kept kept; /* of a learning rate */
    };
    tt_burst burst;           /* of losses and numbers */
    bool has_bad, has_masked; /* a point was not finite, evaluation included; or held a mask ... */
    tt_sighting bad, masked;  /* ... the first */
    bool is_masked_later;     /* it held something else before */
} tt_course;

tt_course_kind tt_course_kind_of(const char *name, const char **tail);
void tt_course_add(tt_course *course, const tt_sighting *p);
double tt_median(double *x, size_t n);            /* sorts them; NaN: none */
double tt_course_median(const tt_course *course); /* of the recent values; NaN: none */
/* The value of a learning rate at a step, from those that were kept; NaN: none. */
double tt_course_kept_at(const tt_course *course, int64_t step);
/* How much its largest jump stands out from the tail of the others: the negative logarithm of the probability
 * of such a one, if the tail goes on as it is.  Infinity: it has too few to know. */
double tt_course_surprise(const tt_course *course);
/* Has it got a history? */
static inline bool tt_course_is_warm(const tt_course *course)
{
    return course != NULL && course->values >= TT_COURSE_WARM;
}

#endif
