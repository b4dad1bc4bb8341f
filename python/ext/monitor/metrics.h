/* metrics.h -- Metrics: the consumer that turns tensors into named numbers.
 *
 * For the files of this folder only.  One Metrics belongs to one monitor.  Python says once for each
 * name which metrics it wants, and gets a row for it.  From then on a tensor goes from calls.c (a module
 * returned it) or parameters.c (the program asked for parameters or gradients) to row.c (one pass, the
 * wanted fields into the row's array), and to collect() at the end of the step.  No Python code runs
 * meanwhile, except for tensors that cannot be read here.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_MONITOR_METRICS_H
#define TT_EXT_MONITOR_METRICS_H

#include "binding/state.h"
#include "calls/parameters.h"
#include "calls/source.h"
#include "tensor/view.h"

/* name, text as users know it, value from `const tt_stats *s` */
#define METRIC_MAP(X)                                                                   \
    X(MEAN, "mean", mean_of(s))                                                         \
    X(STD, "std", tt_stats_std(s))                                                      \
    X(VAR, "var", tt_stats_var(s))                                                      \
    X(MIN, "min", s->min)                                                               \
    X(MAX, "max", s->max)                                                               \
    X(ABSMAX, "absmax", s->absmax)                                                      \
    X(NORM, "norm", tt_stats_l2(s))                                                     \
    X(L1, "l1", s->l1)                                                                  \
    X(RMS, "rms", tt_stats_rms(s))                                                      \
    X(NANS, "nan", (double)s->nan)                                                      \
    X(INFS, "inf", (double)(s->posinf + s->neginf))                                     \
    X(ZEROS, "zeros", s->count > 0 ? (double)s->zeros / (double)s->count : (double)NAN) \
    X(NUMEL, "numel", (double)s->count)

/* Quantiles of the histogram of all tensors of a step: a field each. */
#define METRIC_QUANTILE_MAP(X) \
    X(Q05, "hist/q05", 0.05)   \
    X(Q25, "hist/q25", 0.25)   \
    X(Q50, "hist/q50", 0.5)    \
    X(Q75, "hist/q75", 0.75)   \
    X(Q95, "hist/q95", 0.95)

#define X(name, text, value) METRIC_##name,
typedef enum monitor_kind { METRIC_MAP(X) METRIC_QUANTILE_MAP(X) METRIC_COUNT_ } monitor_kind;
#undef X

typedef struct monitor_field {
    int kind;      /* monitor_kind */
    PyObject *key; /* owned; under which the number is logged */
    int is_listed; /* an aggregation function wants every value */
} monitor_field;

/* The metrics of one name.  The values are behind the fields, in the same memory: a step reads all rows,
 * and waits for each piece of memory. */
typedef struct monitor_row {
    PyObject *hist;    /* owned; a Histogram, or NULL: not wanted */
    size_t count, cap; /* tensors in this step; those for which there is room */
    int32_t field_count;
    bool has_nonfinite; /* a tensor held NaN or Inf */
    monitor_field fields[];
} monitor_row;

typedef struct monitor_parameter {
    calls_parameter base; /* the tensor: the list is made anew when the model's parts change */
    int32_t rows[3];      /* of METRIC_OF_; -1: nothing wanted */
} monitor_parameter;

enum { METRIC_OF_PARAMETER, METRIC_OF_GRADIENT, METRIC_OF_GRADIENT_BEFORE_CLIP };

typedef struct monitor_metrics {
    calls_consumer consumer;
    PyObject *resolve; /* owned; f(name) -> row * 2 + has_functions; row is -1 for none */
    PyObject *tell;    /* owned; f(name, tensor), if it has_functions */
    PyObject *unread;  /* owned; f(row, tensor, why) */
    binding_state *state;
    monitor_row **rows; /* owned, as what is in it */
    int32_t row_count;
    size_t row_cap;
    calls_parameters parameters; /* of monitor_parameter */
    int64_t step;
    uint64_t generation; /* when it changes, the rows that links know are gone */
    PyObject *weakrefs;
} monitor_metrics;

extern const calls_table monitor_calls;

/* Adds a tensor to a row.  0, or -1 with the exception of unread. */
int monitor_row_read(monitor_metrics *self, int32_t row, const calls_observation *seen);
/* Adds statistics of a tensor.  0, or -1 with MemoryError.  The row may lie elsewhere then. */
int monitor_row_add(monitor_row **at, tt_stats stats);
void monitor_rows_free(monitor_metrics *self);
PyObject *monitor_field_names(void); /* list, in the order of monitor_kind */

/* Methods of Metrics. */
PyObject *monitor_metrics_row(PyObject *self, PyObject *fields);
PyObject *monitor_metrics_collect(PyObject *self, PyObject *args);
PyObject *monitor_metrics_histograms(PyObject *self, PyObject *none);
PyObject *monitor_metrics_numbers(PyObject *self, PyObject *list);
PyObject *monitor_metrics_set_parameters(PyObject *self, PyObject *list);
PyObject *monitor_metrics_read_parameters(PyObject *self, PyObject *which);
PyObject *monitor_metrics_signature(PyObject *self, PyObject *module);

#endif
