/* lines.c -- turns events of the line source into nodes and arrows.
 *
 * A name that a statement reads and that no node shows must be looked at before
 * the statement runs: afterwards it may hold something else.  It is put aside,
 * and becomes a node only if the statement changes a tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"
#include "runs/open_run.h"
#include "tensortap_tools.h"

/* ---- what is kept of a tensor ------------------------------------------------- */

/* A sample of a tensor of another device, brought over; NULL: there is none. */
static tt_sample *sample_device(const flow_object *self, PyObject *obj)
{
    PyObject *near = PyObject_CallMethod(obj, "cpu", NULL); /* owned */
    tt_sample *sample = NULL;
    tensor_view view;
    if (near != NULL && tensor_view_open(&self->state->torch, near, &view) == VIEW_OK) {
        (void)tt_sample_create(&view.tensor, &self->options, &sample, NULL);
        tensor_view_close(&view);
    }
    PyErr_Clear();
    Py_XDECREF(near);
    return sample;
}

/* Does not fail: a tensor whose values cannot be read is described by what it says of itself. */
static void read_value(const flow_object *self, PyObject *obj, flow_value *out)
{
    tensor_view view;
    out->sample = NULL;
    out->note = NULL;
    tensor_view_result why = summary_facts_read(self->state, obj, &out->facts, &view);
    if (why == VIEW_OK) {
        if (tt_sample_create(&view.tensor, &self->options, &out->sample, NULL) < 0)
            out->note = "no memory"; /* the statistics are there all the same */
        tensor_view_close(&view);
        return;
    }
    if (out->facts.has_stats)
        out->sample = sample_device(self, obj);
    out->facts.has_stats = out->sample != NULL;
    if (out->sample == NULL)
        out->note = tensor_view_result_word(why);
}

static void look_at(const flow_object *self, const lines_name *name, flow_sight *out)
{
    out->object = name->object;
    out->version = name->version;
    read_value(self, name->object, &out->value);
}

/* ---- nodes --------------------------------------------------------------------- */

/* The frame of a node, and a weak reference to its `self`, which may be a module with a path.  A
 * lambda or comprehension in a method has the method's. */
static void set_frame(const flow_object *self, flow_node *node, const lines_event *event)
{
    node->frame = event->frame;
    PyObject *name = PyUnicode_InternFromString("self");                      /* owned */
    PyObject *owner = name != NULL ? lines_frame_get(event->at, name) : NULL; /* owned */
    if (owner == NULL)
        owner = Py_XNewRef(lines_frame_receiver(event->at));
    if (owner != NULL && PyType_SUPPORTS_WEAKREFS(Py_TYPE(owner)) &&
        !tensor_torch_is_tensor(&self->state->torch, owner))
        node->owner = PyWeakref_NewRef(owner, NULL);
    Py_XDECREF(owner);
    Py_XDECREF(name);
    if (node->owner == NULL)
        PyErr_Clear();
}

/* Where a run is open, the change is in it: every node comes by here.  key: of the line
 * source; 0: it knows nothing of it. */
static void record_node(flow_object *self, const flow_node *node, uint64_t key, PyObject *obj)
{
    const summary_facts *facts = &node->sight.value.facts;
    if (!facts->has_stats || runs_open_run(self->state) == NULL)
        return;
    const runs_change change = { .key = key,
                                 .file = ((PyCodeObject *)node->code)->co_filename,
                                 .name = node->name,
                                 .line = node->line,
                                 .root = self->root,
                                 .stats = &facts->stats,
                                 .shape = facts->shape,
                                 .ndim = facts->ndim };
    /* an exception is the source's to count */
    (void)runs_put_change(self->state, &change, obj);
}

/* ---- where a function has its tensors from: arrows between frames ----------- */

/* The caller knows a tensor by another name, and perhaps has no node for it yet; the statement that
 * called a generator with its argument is long over. */

/* Has the function this variable from the function around it? */
static bool is_free(PyObject *code, PyObject *name)
{
    if (PyCode_GetNumFree((PyCodeObject *)code) == 0)
        return false;
    PyObject *names = PyObject_GetAttrString(code, "co_freevars"); /* owned */
    bool is_it = names != NULL && PySequence_Contains(names, name) == 1;
    Py_XDECREF(names);
    PyErr_Clear();
    return is_it;
}

/* The node of the same tensor by the same name in another frame: where a function has a variable of
 * the function around it from.  0: none. */
static uint64_t shown_outside(const flow_object *self, const flow_node *node)
{
    return flow_chart_same(&self->chart, node->id, node->name, &node->sight, node->frame);
}

/* A source of a function may be a tensor of the caller, under another name. */
static void join_caller(flow_object *self, const lines_event *event, flow_node *node,
                        const flow_descent *descent)
{
    uint64_t outer = 0;
    if (!descent->is_passed && is_free(event->code, node->name))
        outer = shown_outside(self, node);
    (void)flow_node_join(node, &outer, 1);
    for (size_t i = 0; i < descent->count; i++)
        flow_chart_expect(&self->chart, node, descent->key[i]);
    flow_chart_adopt(&self->chart, node);
}

/* Adds what a value that a call gave, or the object in it, was made of. */
static void add_origins(const flow_return *back, const void *object, flow_descent *out)
{
    flow_origin from[FLOW_ORIGINS];
    size_t count = flow_return_origins(back, object, from, FLOW_ORIGINS - out->count);
    for (size_t i = 0; i < count; i++)
        out->key[out->count++] = from[i].key;
}

/* A read of a function: the key by which its caller knows it, or the keys that the caller computed
 * it from: g(f(x)). */
static void find_descent(const flow_object *self, const lines_event *event, const lines_name *read,
                         flow_descent *out)
{
    lines_source *source = self->state->lines;
    const flow_return *back = NULL;
    size_t at = 0;
    lines_caller caller;
    (void)lines_frame_below(source, self->consumer, event->at, &caller);
    uint64_t key = lines_frame_passed(&caller, read);
    *out = (flow_descent){ .is_passed = key != 0, .count = key != 0, .key = { key } };
    if (out->is_passed || read->object == NULL)
        return;
    while (flow_calls_next(&self->calls, &caller.call, read->object, &at, &back))
        if (lines_frame_receives(source, &caller, event->at, read, back->to.site, false))
            add_origins(back, read->object, out);
    if (out->count > 0 || read->kind != LINES_LOCAL || read->is_seen)
        return;
    key = lines_frame_named(source, self->consumer, event->at, read);
    if (key != 0 &&
        (flow_chart_find(&self->chart, key) != 0 || flow_chart_waiting(&self->chart, key) != NULL)) {
        *out = (flow_descent){ .is_passed = true, .count = 1, .key = { key } };
        return;
    }
    /* g(x + 1), g(f(x) * 2): the caller has no name for it, but has computed it just now. */
    out->count = lines_frame_argument(source, &caller, event->at, read, out->key, FLOW_ORIGINS);
    for (at = 0; flow_calls_next(&self->calls, &caller.call, NULL, &at, &back);)
        if (lines_frame_receives(source, &caller, event->at, read, back->to.site, true))
            add_origins(back, NULL, out);
}

/* ---- changes ----------------------------------------------------------------- */

/* The node of this state from before capturing was off for a while, when it had another key; 0: none. */
static uint64_t seen_before(flow_object *self, const lines_name *read, const flow_state *kept)
{
    const flow_chart *chart = &self->chart;
    flow_sight live = { .object = read->object, .version = read->version };
    uint64_t end = chart->begun < chart->next ? chart->begun : chart->next;
    if (end <= chart->oldest)
        return 0;
    if (kept == NULL)
        read_value(self, read->object, &live.value);
    uint64_t id = flow_chart_same(chart, end, read->name, kept != NULL ? &kept->sight : &live, 0);
    flow_value_free(&live.value);
    return id;
}

/* The node that an arrow from this state starts at, made if there is none. */
static uint64_t start_of_arrow(flow_object *self, const lines_event *event, const lines_name *read)
{
    uint64_t id = flow_chart_find(&self->chart, read->key);
    if (id != 0)
        return id;
    flow_state *kept = flow_chart_waiting(&self->chart, read->key);
    if (kept == NULL && read->object == NULL)
        return 0; /* not known what it was */
    if ((id = seen_before(self, read, kept)) != 0)
        return id;
    flow_node *node = flow_chart_add(&self->chart, read->key, read->name, event->code, event->line);
    if (node == NULL)
        return 0;
    node->is_source = true;
    set_frame(self, node, event);
    flow_descent descent;
    if (kept != NULL) {
        descent = kept->descent;
        flow_chart_take(&self->chart, kept, node);
    } else {
        find_descent(self, event, read, &descent);
        look_at(self, read, &node->sight);
    }
    join_caller(self, event, node, &descent);
    return node->id;
}

/* Adds arrows from results of the functions that the statement called to its change number `at`. */
static void add_results(flow_object *self, const lines_event *event, size_t at, flow_node *node,
                        flow_ids *from)
{
    size_t most = self->calls.count * FLOW_PASSED;
    flow_origin *given = PyMem_Calloc(most, sizeof *given); /* owned */
    size_t count = given != NULL ? flow_calls_into(&self->calls, event, at, given, most) : 0;
    for (size_t i = 0; i < count; i++)
        if (!flow_chart_nodes_of(&self->chart, given[i].key, from) && given[i].is_above)
            flow_chart_expect(&self->chart, node, given[i].key);
    PyMem_Free(given);
}

static void add_change(flow_object *self, const lines_event *event, size_t at)
{
    const lines_change *change = &event->changes[at];
    flow_ids from = { 0 };
    for (size_t i = 0; i < change->read_count; i++)
        (void)flow_ids_add(&from, start_of_arrow(self, event, &event->reads[change->reads[i]]));
    flow_node *node =
        flow_chart_add(&self->chart, change->now.key, change->now.name, event->code, event->line);
    if (node == NULL)
        goto out;
    set_frame(self, node, event);
    look_at(self, &change->now, &node->sight);
    if (self->calls.count > 0)
        add_results(self, event, at, node, &from);
    if (from.count == 0 && change->calls == NULL) /* `nonlocal x`: another function stored it */
        (void)flow_ids_add(&from, shown_outside(self, node));
    (void)flow_node_join(node, from.all, from.count);
    record_node(self, node, change->now.key, change->now.object);
out:
    PyMem_Free(from.all);
}

static void on_change(void *context, const lines_event *event)
{
    flow_object *self = context;
    for (size_t i = 0; i < event->change_count; i++)
        if (event->changes[i].now.object != NULL &&
            event->changes[i].now.key != event->changes[i].old_key)
            add_change(self, event, i);
}

static void put_aside(flow_object *self, const lines_event *event, const lines_name *read)
{
    if (read->object == NULL || flow_chart_find(&self->chart, read->key) != 0)
        return;
    flow_state *state = flow_chart_waiting(&self->chart, read->key);
    bool is_new = state == NULL;
    flow_descent descent;
    if (is_new) {
        state = flow_chart_put_aside(&self->chart, read->key);
        if (state == NULL)
            return;
        look_at(self, read, &state->sight);
    }
    state->sight.moment = ++self->chart.moment; /* of the statement that may make it a node */
    find_descent(self, event, read, &descent);
    if (is_new || descent.count > 0)
        state->descent = descent; /* a generator has its argument from where it had it first */
}

static void on_before(void *context, const lines_event *event)
{
    flow_object *self = context;
    for (size_t i = 0; i < event->read_count; i++)
        put_aside(self, event, &event->reads[i]);
}

/* ---- returned values ----------------------------------------------------- */

static bool is_wanted(flow_object *self, PyObject *obj)
{
    if (tensor_torch_find(&self->state->torch) && tensor_torch_is_tensor(&self->state->torch, obj))
        return true;
    if (!self->has_arrays)
        return false;
    tensor_view view;
    if (PyNumber_Check(obj) == 0 || PyFloat_Check(obj) || PyLong_Check(obj) ||
        tensor_view_open(&self->state->torch, obj, &view) != VIEW_OK)
        return false;
    tensor_view_close(&view);
    return true;
}

/* Tells the statement that waits for the value what it was made of. */
static void return_to_caller(flow_object *self, const lines_event *event, PyObject *value,
                             const flow_origin *from, size_t count)
{
    lines_caller to;
    if (count == 0 || !lines_frame_below(self->state->lines, self->consumer, event->at, &to))
        return;
    flow_return *back = flow_calls_add(&self->calls, &to.call, value);
    for (size_t i = 0; back != NULL && i < count && i < FLOW_PASSED; i++)
        back->from[back->from_count++] = from[i];
}

static void add_returned(flow_object *self, const lines_event *event, PyObject *obj, Py_ssize_t item)
{
    flow_origin given[FLOW_PASSED];
    flow_ids from = { 0 };
    PyObject *function = ((PyCodeObject *)event->code)->co_name;            /* borrowed */
    PyObject *name = item < 0 ? PyUnicode_FromFormat("return %U", function) /* owned */
                              : PyUnicode_FromFormat("return %U[%zd]", function, item);
    if (name == NULL)
        return;
    for (size_t i = 0; i < event->read_count; i++)
        (void)flow_ids_add(&from, start_of_arrow(self, event, &event->reads[i]));
    /* and what the functions gave that the statement called */
    size_t given_count = flow_calls_passed(&self->calls, event, given, FLOW_PASSED);
    for (size_t i = 0; i < given_count; i++)
        (void)flow_chart_nodes_of(&self->chart, given[i].key, &from);
    /* No state of a name: a key that the source does not use. */
    uint64_t key = UINT64_MAX - self->chart.next;
    flow_node *node = flow_chart_add(&self->chart, key, name, event->code, event->line);
    Py_DECREF(name);
    if (node == NULL)
        goto out;
    set_frame(self, node, event);
    read_value(self, obj, &node->sight.value);
    (void)flow_node_join(node, from.all, from.count);
    record_node(self, node, 0, obj);
    return_to_caller(self, event, obj, &(flow_origin){ .key = key, .object = obj }, 1);
out:
    PyMem_Free(from.all);
}

static void add_all_returned(flow_object *self, const lines_event *event)
{
    PyObject *value = event->value; /* borrowed */
    if (is_wanted(self, value)) {
        add_returned(self, event, value, -1);
    } else if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
            if (is_wanted(self, PyTuple_GET_ITEM(value, i)))
                add_returned(self, event, PyTuple_GET_ITEM(value, i), i);
    }
}

static void on_leave(void *context, const lines_event *event)
{
    flow_object *self = context;
    flow_origin from[2 * FLOW_PASSED];
    size_t count = event->read_count < FLOW_PASSED ? event->read_count : FLOW_PASSED;
    bool has_value = event->value != NULL && event->value != Py_None;
    if (has_value && self->has_returns) {
        add_all_returned(self, event);
    } else if (has_value) {
        for (size_t i = 0; i < count; i++)
            from[i] = (flow_origin){ .key = event->reads[i].key, .object = event->reads[i].object };
        count += flow_calls_passed(&self->calls, event, from + count, FLOW_PASSED);
        return_to_caller(self, event, event->value, from, count);
    }
    if (!event->is_yield)
        flow_calls_forget(&self->calls, event->frame, 0);
}

/* A tensor was sent into a generator: it is the value of the `yield`. */
static void on_sent(void *context, const lines_event *event)
{
    flow_object *self = context;
    flow_descent descent;
    find_descent(self, event, &event->reads[0], &descent);
    lines_call to = { .frame = event->frame, .run = event->run, .site = event->first_site };
    flow_return *back = descent.count > 0 ? flow_calls_add(&self->calls, &to, event->value) : NULL;
    for (size_t i = 0; back != NULL && i < descent.count; i++)
        back->from[back->from_count++] =
            (flow_origin){ .key = descent.key[i], .object = event->value, .is_above = true };
}

/* ---- on and off ---------------------------------------------------------- */

static bool selects(void *context, PyCodeObject *code, int *first, int *last)
{
    flow_object *self = context;
    PyObject *answer = PyObject_CallOneArg(self->select, (PyObject *)code); /* owned */
    bool is_selected =
        answer != NULL && answer != Py_None && PyArg_ParseTuple(answer, "ii", first, last) != 0;
    Py_XDECREF(answer);
    return is_selected;
}

int flow_start(flow_object *self)
{
    lines_consumer consumer = { .context = self,
                                .wants = self->has_arrays ? LINES_ARRAYS : 0u,
                                .threads = LINES_THREADS_LATER,
                                .selects = selects,
                                .before = on_before,
                                .change = on_change,
                                .leave = on_leave,
                                .sent = on_sent };
    lines_source *source = lines_source_of(self->state);
    self->consumer = source != NULL ? lines_source_add(source, &consumer) : -1;
    if (self->consumer < 0)
        return -1;
    self->chart.begun = self->chart.next;
    return 0;
}

void flow_stop(flow_object *self)
{
    lines_source_stop(self->state->lines, &self->consumer, &self->errors, &self->error_text);
}
