/* change.h -- did this value change since we last saw it?
 *
 * The only place that answers it.  A fingerprint keeps no reference and no element.
 * torch counts in-place changes of a tensor; reading that count costs tens of nanoseconds.
 * Where nobody counts (NumPy, inference tensors), or the count is bypassed (.data, .numpy(),
 * fused optimizers), the contents are digested.  Containers are digested with all that is
 * in them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TENSOR_CHANGE_H
#define TT_EXT_TENSOR_CHANGE_H

#include "tensor/view.h"

typedef struct tensor_fingerprint {
    const void *object; /* its address, for comparison only */
    const void *data;   /* address of the elements, if whoever took it filled it in: t.data = u is a
                           change although nobody counts it */
    tt_digest digest;
    uint32_t version;
    uint8_t kind; /* tensor_kind */
    bool has_version, has_digest;
    bool is_sampled; /* a part of the contents was digested */
} tensor_fingerprint;

/* How closely to look. */
enum {
    LOOK_VERSION = 1 << 0,   /* read torch's count of changes; in containers, digest tensors by
                                address and version instead of contents */
    LOOK_UNCOUNTED = 1 << 1, /* digest what has no version */
    LOOK_DIGEST = 1 << 2,    /* digest in any case */
    LOOK_SAMPLE = 1 << 3,    /* above 64 MB, digest a megabyte of it */
    LOOK_LARGE = 1 << 4,     /* with LOOK_VERSION: small tensors in containers by contents */
    LOOK_OBJECTS = 1 << 5,   /* digest objects by what they hold, not by address */
    LOOK_GUARDED = 1 << 6,   /* see VERSION_GUARDED */
};

/* Looks at obj.  last: NULL, or the fingerprint of this very object from before, which makes it
 * quicker. */
void tensor_fingerprint_take(tensor_torch *torch, PyObject *obj, tensor_kind kind, unsigned how,
                             const tensor_fingerprint *last, tensor_fingerprint *out);

/* Digests the contents; false: they cannot be read. */
bool tensor_fingerprint_digest(tensor_torch *torch, PyObject *obj, unsigned how, tensor_fingerprint *one);

/* Another object, memory or version? */
static inline bool tensor_fingerprint_is_other(const tensor_fingerprint *a, const tensor_fingerprint *b)
{
    return a->object != b->object || a->kind != b->kind || a->data != b->data ||
           a->has_version != b->has_version || a->version != b->version;
}

/* Are the contents known of both, and the same? */
static inline bool tensor_fingerprint_is_equal(const tensor_fingerprint *a, const tensor_fingerprint *b)
{
    return a->kind == b->kind && a->has_digest && b->has_digest && a->digest.low == b->digest.low &&
           a->digest.high == b->digest.high;
}

/* Is obj other than `last` says?  Looks no closer than it must: at contents only if those of `last`
 * are known and the version does not tell (LOOK_DIGEST: it never does). */
bool tensor_fingerprint_differs(tensor_torch *torch, const tensor_fingerprint *last, PyObject *obj,
                                unsigned how);

/* Does only a digest tell whether it changes?  is_hidden: versions are bypassed. */
static inline bool tensor_fingerprint_needs_digest(const tensor_fingerprint *one, bool is_hidden)
{
    return one->kind == KIND_ARRAY || (one->kind == KIND_TORCH && (is_hidden || !one->has_version));
}

/* Leaves every nth index of the first dimensions, so that about `limit` bytes remain. */
void tensor_thin_out(tt_tensor *t, int64_t limit);

/* 128 bits for any value: equal values, equal digests.  refs: NULL, or a list that gets weak
 * references to the tensors that were digested by address; once one is dead, the digest is
 * worth nothing. */
tt_digest tensor_digest(tensor_torch *torch, PyObject *obj, unsigned how, PyObject *refs);

#endif
