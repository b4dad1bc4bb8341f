/* change.c -- did this value change since we last saw it?
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/change.h"

#include "tensor/facts.h"
#include "tensor/walk.h"

#include <string.h>

/* ---- tensors and arrays ------------------------------------------------------- */

enum { SAMPLE_ABOVE = 64 << 20, SAMPLE_BYTES = 1 << 20 };

void tensor_thin_out(tt_tensor *t, int64_t limit)
{
    int64_t bytes = t->count * (int64_t)tt_dtype_size(t->dtype);
    for (int32_t d = 0; d < t->ndim && bytes > limit; d++) {
        int64_t step = (bytes + limit - 1) / limit;
        if (step > t->shape[d])
            step = t->shape[d];
        int64_t kept = (t->shape[d] + step - 1) / step;
        bytes = bytes / t->shape[d] * kept;
        t->count = t->count / t->shape[d] * kept;
        t->shape[d] = kept;
        t->stride[d] *= step;
    }
}

/* True: of a part only. */
static bool digest_elements(tt_tensor *t, unsigned how, tt_digest *out)
{
    int64_t count = t->count;
    bool is_sampled = how & LOOK_SAMPLE && count > SAMPLE_ABOVE / (int64_t)tt_dtype_size(t->dtype);
    if (is_sampled)
        tensor_thin_out(t, SAMPLE_BYTES);
    tt_digest_compute(t, out);
    if (is_sampled) /* the shape that was digested is not the tensor's */
        out->low ^= (uint64_t)count * 0x9e3779b97f4a7c15u;
    return is_sampled;
}

static unsigned known_of(unsigned how)
{
    return how & LOOK_GUARDED ? VERSION_GUARDED : 0;
}

/* ---- any value ------------------------------------------------------------------ */

/* Containers are looked into to this depth, and to so many values in all; beyond, their length
 * counts.  An object may lead to half of the program: to fewer. */
enum { DEEPEST = 12, MOST_VALUES = 1 << 16, MOST_OF_OBJECTS = 10000 };
enum { LARGE_BYTES = 64 << 10 };

typedef struct digesting {
    tensor_torch *torch;
    PyObject *refs; /* borrowed or NULL */
    unsigned how;
    int depth, left;
} digesting;

enum { TAG_NONE = 1, TAG_INT, TAG_FLOAT, TAG_TEXT, TAG_TENSOR, TAG_ARRAY, TAG_CONTAINER, TAG_OTHER };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The order matters. */
static tt_digest join(tt_digest a, tt_digest b)
{
    return (tt_digest){ mix(a.low * 3 + b.low + 0x9e3779b97f4a7c15u),
                        mix(a.high * 5 + b.high + 0xd1b54a32d192ed03u) };
}

static tt_digest leaf(uint64_t tag, uint64_t low, uint64_t high)
{
    return (tt_digest){ mix(low + tag * 0x9e3779b97f4a7c15u), mix(high ^ mix(tag + low)) };
}

static tt_digest address_digest(const void *address)
{
    return leaf(TAG_OTHER, (uint64_t)(uintptr_t)address, 2);
}

static tt_digest text_digest(const char *text)
{
    tt_digest digest = leaf(TAG_TEXT, 0, 0);
    for (; text != NULL && *text != '\0'; text++)
        digest = join(digest, leaf(TAG_TEXT, (uint64_t)*text, 0));
    return digest;
}

/* Digests the description of a tensor whose elements cannot be read: meta, sparse, on a device. */
static tt_digest outside_digest(digesting *work, PyObject *obj)
{
    PyObject *owners[2] = { NULL, NULL }; /* owned */
    int64_t shape[TT_MAX_DIM];
    uint32_t version = 0;
    int32_t ndim = tensor_fact_shape(obj, shape);
    bool is_counted = tensor_torch_is_tensor(work->torch, obj) &&
                      tensor_version_read(work->torch, obj, known_of(work->how), &version);
    tt_digest digest = leaf(TAG_TENSOR, version, (uint64_t)ndim + (is_counted ? 100 : 0));
    for (int32_t d = 0; d < ndim; d++)
        digest = join(digest, leaf(TAG_INT, (uint64_t)shape[d], 0));
    digest = join(digest, text_digest(tensor_fact_dtype(obj, &owners[0])));
    digest = join(digest, text_digest(tensor_fact_device(obj, &owners[1])));
    Py_XDECREF(owners[0]);
    Py_XDECREF(owners[1]);
    return digest;
}

/* By object, memory and version: nothing is read. */
static tt_digest counted_digest(digesting *work, PyObject *obj, const void *data, uint32_t version)
{
    PyObject *ref = work->refs != NULL ? PyWeakref_NewRef(obj, NULL) : NULL; /* owned */
    if (ref != NULL)
        (void)PyList_Append(work->refs, ref);
    PyErr_Clear();
    Py_XDECREF(ref);
    return join(address_digest(obj), leaf(TAG_TENSOR, (uint64_t)(uintptr_t)data, version));
}

static tt_digest elements_digest(digesting *work, PyObject *obj, tensor_kind kind)
{
    tensor_view view;
    tt_digest digest;
    uint32_t version = 0;
    bool is_open = tensor_view_open(work->torch, obj, &view) == VIEW_OK;
    bool is_small = is_open && work->how & LOOK_LARGE &&
                    view.tensor.count <= LARGE_BYTES / (int64_t)tt_dtype_size(view.tensor.dtype);
    if (kind == KIND_TORCH && work->how & LOOK_VERSION && !is_small &&
        tensor_version_read(work->torch, obj, known_of(work->how), &version)) {
        const void *data = is_open && view.temporary == NULL ? view.tensor.data : NULL;
        digest = counted_digest(work, obj, data, version);
    } else if (is_open) {
        digest_elements(&view.tensor, work->how, &digest);
        digest = leaf(kind == KIND_TORCH ? TAG_TENSOR : TAG_ARRAY, digest.low, digest.high);
    } else {
        return outside_digest(work, obj);
    }
    if (is_open)
        tensor_view_close(&view);
    return digest;
}

/* The bits: a NaN that stays is no change, and Python's hash of -1 is that of -2. */
static tt_digest float_digest(double real, double imaginary)
{
    uint64_t bits[2];
    memcpy(&bits[0], &real, sizeof real);
    memcpy(&bits[1], &imaginary, sizeof imaginary);
    return leaf(TAG_FLOAT, bits[0], bits[1]);
}

static tt_digest plain_digest(digesting *work, PyObject *obj)
{
    if (obj == Py_None)
        return leaf(TAG_NONE, 0, 0);
    if (PyFloat_CheckExact(obj))
        return float_digest(PyFloat_AS_DOUBLE(obj), 0);
    if (PyComplex_CheckExact(obj))
        return float_digest(PyComplex_RealAsDouble(obj), PyComplex_ImagAsDouble(obj));
    if (PyLong_CheckExact(obj) || PyBool_Check(obj)) {
        int overflow = 0;
        long long number = PyLong_AsLongLongAndOverflow(obj, &overflow);
        return leaf(TAG_INT, overflow != 0 ? (uint64_t)PyObject_Hash(obj) : (uint64_t)number,
                    (uint64_t)(overflow + 2 * PyBool_Check(obj)));
    }
    if (PyUnicode_CheckExact(obj) || PyBytes_CheckExact(obj))
        return leaf(TAG_TEXT, (uint64_t)PyObject_Hash(obj),
                    (uint64_t)Py_SIZE(obj) + (uint64_t)PyUnicode_Check(obj));
    tensor_view view;
    tt_digest digest;
    if (tensor_view_open(work->torch, obj, &view) == VIEW_OK) { /* a NumPy scalar */
        tt_digest_compute(&view.tensor, &digest);
        tensor_view_close(&view);
        return leaf(TAG_OTHER, digest.low, digest.high);
    }
    Py_hash_t hash = PyObject_Hash(obj);
    PyErr_Clear(); /* a slice has none before 3.12 */
    return leaf(TAG_OTHER, hash != -1 ? (uint64_t)hash : (uint64_t)(uintptr_t)obj, 1);
}

static tt_digest value_digest(digesting *work, PyObject *obj);

/* Equal dicts and sets may hold their items in another order: those are added up. */
static tt_digest container_digest(digesting *work, PyObject *obj, tensor_children *it)
{
    bool is_ordered = PyList_Check(obj) || PyTuple_Check(obj);
    Py_ssize_t size = PyAnySet_Check(obj) ? PySet_GET_SIZE(obj)
                      : PyDict_Check(obj) ? PyDict_GET_SIZE(obj)
                      : is_ordered        ? PySequence_Fast_GET_SIZE(obj)
                                          : 0;
    tt_digest sum =
        join(leaf(TAG_CONTAINER, (uint64_t)size, 0), address_digest(Py_TYPE(obj))); /* types stay */
    work->depth++;
    bool is_empty = true;
    while (work->left > 0 && tensor_children_next(it)) {
        is_empty = false;
        tt_digest one = value_digest(work, it->value);
        if (it->key != NULL)
            one = join(value_digest(work, it->key), one);
        sum = is_ordered ? join(sum, one) : (tt_digest){ sum.low + one.low, sum.high + one.high };
    }
    work->depth--;
    return is_empty && tensor_kind_of(work->torch, obj) == KIND_OBJECT ? address_digest(obj) : sum;
}

/* Functions, types and the like by address; hashing runs no code of the program's where the type
 * is not the program's. */
static tt_digest opaque_digest(PyObject *obj)
{
    Py_hash_t hash = -1;
    if (!(Py_TYPE(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE))
        hash = PyObject_Hash(obj);
    PyErr_Clear();
    return hash != -1 ? leaf(TAG_OTHER, (uint64_t)hash, 3) : address_digest(obj);
}

static bool has_state(PyObject *obj)
{
    return Py_TYPE(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE && !PyType_Check(obj) && !PyFunction_Check(obj);
}

static tt_digest value_digest(digesting *work, PyObject *obj)
{
    tensor_children it;
    tt_digest digest;
    tensor_kind kind = tensor_kind_of(work->torch, obj);
    work->left--;
    if (kind == KIND_PLAIN)
        return plain_digest(work, obj);
    if (tensor_kind_has_elements(kind))
        return elements_digest(work, obj, kind);
    if (PyByteArray_CheckExact(obj))
        return elements_digest(work, obj, KIND_ARRAY);
    bool is_open = kind == KIND_CONTAINER || (work->how & LOOK_OBJECTS && has_state(obj));
    if (!is_open || work->depth >= DEEPEST)
        return work->how & LOOK_OBJECTS && !is_open ? opaque_digest(obj) : address_digest(obj);
    tensor_children_open(&it, work->torch, obj,
                         CHILDREN_SETS | (work->how & LOOK_OBJECTS ? CHILDREN_OBJECTS : 0));
    digest = container_digest(work, obj, &it);
    tensor_children_close(&it);
    return digest;
}

tt_digest tensor_digest(tensor_torch *torch, PyObject *obj, unsigned how, PyObject *refs)
{
    digesting work = { .torch = torch,
                       .refs = refs,
                       .how = how,
                       .left = how & LOOK_OBJECTS ? MOST_OF_OBJECTS : MOST_VALUES };
    tt_digest digest = value_digest(&work, obj);
    PyErr_Clear();
    return digest;
}

/* ---- fingerprints ----------------------------------------------------------------- */

bool tensor_fingerprint_digest(tensor_torch *torch, PyObject *obj, unsigned how, tensor_fingerprint *one)
{
    tensor_view view;
    one->has_digest = true;
    if (!tensor_kind_has_elements((tensor_kind)one->kind)) {
        one->digest = tensor_digest(torch, obj, how, NULL);
    } else if (tensor_view_open(torch, obj, &view) == VIEW_OK) {
        one->is_sampled = digest_elements(&view.tensor, how, &one->digest);
        tensor_view_close(&view);
    } else {
        one->has_digest = false;
    }
    return one->has_digest;
}

void tensor_fingerprint_take(tensor_torch *torch, PyObject *obj, tensor_kind kind, unsigned how,
                             const tensor_fingerprint *last, tensor_fingerprint *out)
{
    *out = (tensor_fingerprint){ .object = obj, .kind = (uint8_t)kind };
    if (kind == KIND_TORCH && how & LOOK_VERSION) {
        bool is_counted = last != NULL && last->has_version;
        out->has_version = tensor_version_read(
            torch, obj, known_of(how) | (is_counted ? VERSION_COUNTED : 0), &out->version);
    }
    if (how & LOOK_DIGEST || (how & LOOK_UNCOUNTED && !out->has_version))
        (void)tensor_fingerprint_digest(torch, obj, how, out);
}

bool tensor_fingerprint_differs(tensor_torch *torch, const tensor_fingerprint *last, PyObject *obj,
                                unsigned how)
{
    tensor_fingerprint now;
    if (last->object != obj)
        return true;
    tensor_fingerprint_take(torch, obj, (tensor_kind)last->kind,
                            how & ~(unsigned)(LOOK_DIGEST | LOOK_UNCOUNTED), last, &now);
    if (tensor_fingerprint_is_other(last, &now))
        return true;
    return last->has_digest && tensor_fingerprint_needs_digest(last, (how & LOOK_DIGEST) != 0) &&
           tensor_fingerprint_digest(torch, obj, how, &now) && !tensor_fingerprint_is_equal(last, &now);
}
