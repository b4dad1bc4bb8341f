/* watch_batch.c -- what a model was called with, for the rules of health.
 *
 * A digest of the inputs, their scale, whether all samples are one, and whether the loss counts padding.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/watch.h"

#include <string.h>

#include "tensor/facts.h"
#include "tensortap_tools.h"

enum {
    EVERY = 8,              /* steps between two looks at the scale of inputs */
    MOST_INPUT = 1024,      /* elements of an input that go into its digest */
    MOST_STRIDED = 1 << 16, /* elements of an input with gaps, which is digested as a whole */
    FEWEST_ROWS = 4,
    MOST_ROWS = 32,
    MOST_ROW_BYTES = 4096,
    MOST_NAMED = 8, /* tensors in a setting */
    FIRST_PADDED = 4,
    LAST_PADDED = 11, /* steps in which padding is looked for */
    FEWEST_TOKENS = 4,
    MOST_TOKENS = 1 << 14, /* of a batch with padding */
};

typedef struct batch {
    runs_watch *watch;
    tt_digest digest;
    int32_t ndim; /* of the tensor that stats are of; -1: none */
    bool wants_stats;
    tt_stats stats;
    bool wants_rows;
    double rows; /* share of the samples that equal the first; -1: not known */
} batch;

/* How many samples of a batch are equal to the first?  -1: they cannot be compared, or have one value only. */
static double share_of_equal(const tt_tensor *t)
{
    int64_t rows = t->ndim >= 2 ? t->shape[0] : 0;
    size_t size = tt_dtype_size(t->dtype);
    if (rows < FEWEST_ROWS || !runs_watch_is_plain(t) || t->count / rows < FEWEST_ROWS)
        return -1;
    const char *first = t->data;
    size_t bytes = (size_t)(t->count / rows) * size;
    size_t looked_at = bytes < MOST_ROW_BYTES ? bytes : MOST_ROW_BYTES / size * size;
    if (memcmp(first, first + size, looked_at - size) == 0) /* a mask of ones is the same for all */
        return -1;
    int64_t equal = 0, compared = rows < MOST_ROWS ? rows : MOST_ROWS;
    for (int64_t i = 1; i < compared; i++)
        equal += memcmp(first, first + (size_t)i * bytes, looked_at) == 0;
    return (double)equal / (double)(compared - 1);
}

static void add_digest(batch *b, const tt_tensor *t)
{
    char few[MOST_INPUT * 16];
    size_t size = tt_dtype_size(t->dtype);
    int64_t apart = t->count > MOST_INPUT ? t->count / MOST_INPUT : 1,
            count = t->count > MOST_INPUT ? MOST_INPUT : t->count;
    bool is_sampled = runs_watch_is_plain(t);
    tt_tensor sample;
    tt_digest digest;
    if (!is_sampled && t->count > MOST_STRIDED)
        return;
    for (int64_t i = 0; is_sampled && i < count;
         i++) { /* a fixed stride may meet only borders of pictures */
        int64_t at = i * apart + (int64_t)((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 33) % apart;
        memcpy(few + (size_t)i * size, (const char *)t->data + (size_t)at * size, size);
    }
    if (is_sampled && tt_tensor_describe(&sample, few, t->dtype, 1, &count, NULL, NULL) < 0)
        return;
    tt_digest_compute(is_sampled ? &sample : t, &digest);
    b->digest.low = b->digest.low * UINT64_C(0x9e3779b97f4a7c15) ^ digest.low;
    b->digest.high ^= digest.high;
}

static int found_input(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    batch *b = context;
    tensor_view view;
    if (tensor_view_open(&b->watch->state->torch, tensor, &view) != VIEW_OK)
        return 0;
    if (view.tensor.count > 0) {
        add_digest(b, &view.tensor);
        if (b->wants_rows &&
            b->rows < 0) /* the first that has samples: what else there is may be the same for all */
            b->rows = share_of_equal(&view.tensor);
        if (b->watch->batch_rows == 0 && view.tensor.ndim > 0)
            b->watch->batch_rows = view.tensor.shape[0];
        if (b->wants_stats && b->ndim < 0 && view.tensor.ndim >= 2 &&
            tt_dtype_kind(view.tensor.dtype) == TT_KIND_FLOAT) {
            b->ndim = view.tensor.ndim;
            tt_stats_compute(&view.tensor, &b->stats);
        }
    }
    tensor_view_close(&view);
    return 0;
}

static void record_batch(runs_watch *self, runs_watch_root *root, PyObject *name, int32_t site,
                         const calls_event *event)
{
    batch b = { .watch = self,
                .ndim = -1,
                .rows = -1,
                .wants_stats = self->recorder->step % EVERY == 0,
                .wants_rows = runs_watch_is_due(self) };
    int64_t rows_before = self->batch_rows;
    self->batch_rows = 0;
    (void)tensor_walk(&self->state->torch, event->args, found_input, &b);
    if (event->kwargs != NULL)
        (void)tensor_walk(&self->state->torch, event->kwargs, found_input, &b);
    PyErr_Clear();
    if (self->batch_rows > 0 && self->batch_rows == rows_before)
        self->batch_size = self->batch_rows; /* the last batch of an epoch is often smaller */
    if ((b.digest.low | b.digest.high) == 0 || self->recorder->rec == NULL)
        return; /* no tensor that can be read here */
    (void)runs_recorder_make_room(self->recorder, 0);
    if (self->recorder->rec != NULL)
        (void)runs_recorder_emit(self->recorder, &(tt_event){ .site = site,
                                                              .step = self->recorder->step,
                                                              .call = event->call,
                                                              .thread = event->thread,
                                                              .time = runs_clock_coarse(),
                                                              .phase = TT_PHASE_TRAIN,
                                                              .digest = &b.digest,
                                                              .stats = b.ndim >= 0 ? &b.stats : NULL });
    if (b.rows >= 0)
        runs_watch_record_number(
            self, runs_watch_own_site(self, &root->rows, "tensortap/rows", name, true), b.rows);
}

/* ---- settings ------------------------------------------------------------------ */

typedef struct inputs {
    runs_watch *watch;
    int32_t count;
    bool is_keyword;
} inputs;

/* "input_ids int64 [8, 128]"; what is on another device can be asked for its shape, too. */
static int describe_input(void *context, PyObject *tensor, const tensor_path *path)
{
    inputs *all = context;
    tt_buf *text = &all->watch->batch_inputs;
    int64_t shape[TT_MAX_DIM];
    PyObject *owner; /* owned */
    int32_t ndim = tensor_fact_shape(tensor, shape);
    const char *dtype = tensor_fact_dtype(tensor, &owner), *name = NULL;
    if (all->is_keyword && path->depth > 0 && path->step[0].key != NULL &&
        PyUnicode_Check(path->step[0].key))
        name = PyUnicode_AsUTF8(path->step[0].key);
    PyErr_Clear();
    if (ndim >= 0 && dtype != NULL && ++all->count <= MOST_NAMED) {
        (void)tt_buf_printf(text, "%s%s%s%s [", all->count > 1 ? ", " : "", name != NULL ? name : "",
                            name != NULL ? " " : "", dtype);
        for (int32_t d = 0; d < ndim; d++)
            (void)tt_buf_printf(text, "%s%lld", d > 0 ? ", " : "", (long long)shape[d]);
        (void)tt_buf_text(text, "]");
    }
    if (ndim > 0 && all->watch->batch_size == 0)
        all->watch->batch_size = shape[0];
    Py_XDECREF(owner);
    return 0;
}

/* Keeps what the first training batch was: Python makes settings of it. */
static void describe_inputs(runs_watch *self, const calls_event *event)
{
    inputs all = { .watch = self };
    (void)tensor_walk(&self->state->torch, event->args, describe_input, &all);
    all.is_keyword = true;
    if (event->kwargs != NULL)
        (void)tensor_walk(&self->state->torch, event->kwargs, describe_input, &all);
    PyErr_Clear();
    PyObject *line = runs_watch_line_of(self->state, base_frame_running()); /* owned */
    const char *text = line != NULL ? PyUnicode_AsUTF8(line) : NULL;
    PyErr_Clear();
    if (text != NULL && self->called_at.data == NULL)
        (void)tt_buf_text(&self->called_at, text);
    Py_XDECREF(line);
    if (all.count > MOST_NAMED)
        (void)tt_buf_printf(&self->batch_inputs, " and %d more", (int)(all.count - MOST_NAMED));
}

/* ---- padding ------------------------------------------------------------------ */

/* Which positions of a batch of tokens are padding; a hook of autograd's graph owns it. */
typedef struct padding {
    runs_watch *watch; /* owned */
    PyObject *name;    /* owned; of the model */
    int64_t rows, columns, count, output;
    uint8_t is_padded[]; /* rows x columns */
} padding;

typedef struct tokens {
    runs_watch *watch;
    padding *found; /* owned; NULL: no tokens, or no padding among them */
    int32_t looked_at;
} tokens;

static int64_t token_at(const tt_tensor *t, int64_t i)
{
    return t->dtype == TT_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
}

/* Marks one value at the end, or at the beginning, of rows.  Padding is the same value in all rows that have some, and
 * stands nowhere else. */
static int64_t mark_ends(const tt_tensor *t, bool is_behind, uint8_t *out)
{
    int64_t rows = t->shape[0], columns = t->shape[1], value = 0, marked = 0, padded_rows = 0;
    bool has_value = false;
    memset(out, 0, (size_t)(rows * columns));
    for (int64_t r = 0; r < rows; r++) {
        int64_t run = 1, step = is_behind ? -1 : 1, end = r * columns + (is_behind ? columns - 1 : 0);
        while (run < columns && token_at(t, end + run * step) == token_at(t, end))
            run++;
        if (run < 2)
            continue;
        if (has_value && token_at(t, end) != value)
            return 0;
        has_value = true;
        value = token_at(t, end);
        padded_rows++;
        marked += run;
        for (int64_t i = 0; i < run; i++)
            out[end + i * step] = 1;
    }
    for (int64_t i = 0; i < rows * columns; i++)
        if (has_value && out[i] == 0 && token_at(t, i) == value) {
            bool is_end = i % columns == (is_behind ? columns - 1 : 0); /* one alone at the end */
            if (!is_end)
                return 0;
            out[i] = 1;
            marked++;
        }
    return padded_rows >= 2 && marked * 20 >= rows * columns && marked < rows * columns ? marked : 0;
}

static int found_tokens(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    tokens *all = context;
    tensor_view view;
    if (all->looked_at++ > 0 || tensor_view_open(&all->watch->state->torch, tensor, &view) != VIEW_OK)
        return 0; /* only the first: others are masks and positions */
    const tt_tensor *t = &view.tensor;
    bool is_text = (t->dtype == TT_I64 || t->dtype == TT_I32) && t->ndim == 2 && runs_watch_is_plain(t) &&
                   t->shape[0] >= 2 && t->shape[1] >= FEWEST_TOKENS && t->count <= MOST_TOKENS;
    padding *found = is_text ? PyMem_Calloc(1, sizeof *found + (size_t)t->count) : NULL;
    if (found != NULL) {
        found->rows = t->shape[0];
        found->columns = t->shape[1];
        found->count = mark_ends(t, true, found->is_padded);
        if (found->count == 0)
            found->count = mark_ends(t, false, found->is_padded);
        if (found->count > 0)
            all->found = found;
        else
            PyMem_Free(found);
    }
    tensor_view_close(&view);
    return 0;
}

static void padding_free(padding *p)
{
    if (p == NULL)
        return;
    Py_XDECREF((PyObject *)p->watch);
    Py_XDECREF(p->name);
    PyMem_Free(p);
}

static void capsule_free(PyObject *capsule)
{
    padding_free(PyCapsule_GetPointer(capsule, NULL));
}

static bool is_all_zero(const char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* Counts positions that get a gradient, of padding and of other tokens, in a column where any does: the last one of
 * labels that are shifted gets none. */
static void count_column(const padding *p, const tt_tensor *t, int64_t column, int64_t *counted,
                         int64_t *others, int64_t *padded)
{
    size_t bytes = (size_t)t->shape[2] * tt_dtype_size(t->dtype);
    int64_t found[2] = { 0, 0 }, all = 0; /* of others, of padding */
    for (int64_t i = column; i < p->rows * p->columns; i += p->columns) {
        all += p->is_padded[i];
        found[p->is_padded[i]] += !is_all_zero((const char *)t->data + (size_t)i * bytes, bytes);
    }
    *counted += found[1];
    *others += found[0];
    *padded += found[0] + found[1] > 0 ? all : 0;
}

/* hook(gradients of the outputs of a node): a position that the loss leaves out has a gradient of 0. */
static PyObject *gradient_came(PyObject *capsule, PyObject *gradients)
{
    const padding *p = PyCapsule_GetPointer(capsule, NULL);
    runs_watch *self = p->watch;
    tensor_view view;
    PyObject *gradient = PyTuple_Check(gradients) && p->output < PyTuple_GET_SIZE(gradients)
                             ? PyTuple_GET_ITEM(gradients, p->output)
                             : NULL; /* borrowed */
    if (gradient == NULL || !tensor_torch_is_tensor(&self->state->torch, gradient) ||
        self->recorder->rec == NULL || tensor_view_open(&self->state->torch, gradient, &view) != VIEW_OK)
        goto out;
    const tt_tensor *t = &view.tensor;
    int64_t counted = 0, others = 0, padded = 0;
    if (t->ndim == 3 && t->shape[0] == p->rows && t->shape[1] == p->columns && runs_watch_is_plain(t))
        for (int64_t column = 0; column < p->columns; column++)
            count_column(p, t, column, &counted, &others, &padded);
    tensor_view_close(&view);
    int32_t known = 0;
    if (others > 0 && padded > 0)
        runs_watch_record_number(self,
                                 runs_watch_own_site(self, &known, "tensortap/padding", p->name, true),
                                 (double)counted / (double)padded);
out:
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* The first output with a vector for each token; borrowed. */
typedef struct vectors {
    const padding *of;
    tensor_torch *torch;
    PyObject *tensor; /* owned */
} vectors;

static int found_vectors(void *context, PyObject *tensor, const tensor_path *Py_UNUSED(path))
{
    vectors *all = context;
    tensor_view view;
    if (all->tensor != NULL || tensor_view_open(all->torch, tensor, &view) != VIEW_OK)
        return 0;
    const tt_tensor *t = &view.tensor;
    if (t->ndim == 3 && t->shape[0] == all->of->rows && t->shape[1] == all->of->columns &&
        tt_dtype_kind(t->dtype) == TT_KIND_FLOAT)
        all->tensor = Py_NewRef(tensor);
    tensor_view_close(&view);
    return 0;
}

/* Has autograd tell which positions the loss counts.  The hook is on the graph, not on the tensor, and goes with it. */
static void watch_padding(runs_watch *self, PyObject *name, const calls_event *event)
{
    static PyMethodDef hook = { "padding", gradient_came, METH_O, NULL };
    tensor_torch *torch = &self->state->torch;
    tokens all = { .watch = self };
    PyObject *capsule = NULL, *function = NULL, *node = NULL, *output = NULL, *done = NULL; /* owned */
    vectors logits = { .torch = torch };
    (void)tensor_walk(torch, event->args, found_tokens, &all);
    if (event->kwargs != NULL)
        (void)tensor_walk(torch, event->kwargs, found_tokens, &all);
    if (all.found == NULL || torch->grad_fn == NULL)
        goto out;
    logits.of = all.found;
    (void)tensor_walk(torch, event->output, found_vectors, &logits);
    node = logits.tensor != NULL ? tensor_torch_get(torch->grad_fn, logits.tensor) : NULL;
    output = node != NULL && node != Py_None ? PyObject_GetAttrString(logits.tensor, "output_nr") : NULL;
    if (output == NULL)
        goto out;
    all.found->output = PyLong_AsLongLong(output);
    all.found->watch = (runs_watch *)Py_NewRef((PyObject *)self);
    all.found->name = Py_NewRef(name);
    capsule = PyCapsule_New(all.found, NULL, capsule_free);
    if (capsule == NULL)
        goto out;
    all.found = NULL; /* the capsule's */
    function = PyCFunction_New(&hook, capsule);
    done = function != NULL ? PyObject_CallMethod(node, "register_prehook", "O", function) : NULL;
out:
    PyErr_Clear();
    padding_free(all.found);
    Py_XDECREF(done);
    Py_XDECREF(output);
    Py_XDECREF(node);
    Py_XDECREF(function);
    Py_XDECREF(capsule);
    Py_XDECREF(logits.tensor);
}

void runs_watch_note_batch(runs_watch *self, runs_watch_root *root, PyObject *name,
                           const calls_event *event)
{
    int64_t step = self->recorder->step;
    if (self->batch_inputs.data == NULL)
        describe_inputs(self, event);
    int32_t site = runs_watch_own_site(self, &root->batch, "tensortap/batch", name, false);
    if (site >= 0 && tt_recorder_wants(self->recorder->rec, site, step) != 0)
        record_batch(self, root, name, site, event);
    if (step >= FIRST_PADDED && step <= LAST_PADDED && self->recorder->rec != NULL)
        watch_padding(self, name, event);
}
