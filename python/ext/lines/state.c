/* state.c -- the last look at each name of the running frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lines/engine.h"

#include <stdlib.h>
#include <string.h>

/* ---- kinds ---------------------------------------------------------------- */

tensor_kind lines_state_kind_slow(lines_source *source, PyObject *obj)
{
    tensor_kind kind = tensor_kind_of(&source->core->torch, obj);
    if (kind == KIND_TORCH || (kind == KIND_ARRAY && source->wants & LINES_ARRAYS))
        return kind;
    return source->wants & LINES_OBJECTS ? KIND_OBJECT : KIND_NONE;
}

/* ---- states --------------------------------------------------------------- */

/* Callers have entered lines_state_begin(). */
enum { LOOK_AT_LINES = LOOK_VERSION | LOOK_SAMPLE | LOOK_GUARDED };

bool lines_state_begin(lines_source *source, PyObject **guard)
{
    const tensor_torch *torch = &source->core->torch;
    *guard = NULL;
    if (torch->tensor != NULL && tensor_has_function_mode(torch))
        *guard = tensor_quiet_enter(torch); /* or the mode would see us asking */
    return *guard != NULL;
}

void lines_state_digest(lines_source *source, lines_state *state, PyObject *obj)
{
    if (!state->seen.has_digest)
        tensor_fingerprint_digest(&source->core->torch, obj, LOOK_AT_LINES, &state->seen);
}

void lines_state_adopt(lines_source *source, lines_state *state, PyObject *obj, tensor_kind kind)
{
    *state = (lines_state){ .key = kind != KIND_NONE ? ++source->next_key : 0 };
    tensor_fingerprint_take(&source->core->torch, obj, kind, LOOK_AT_LINES, NULL, &state->seen);
}

bool lines_state_differs(lines_source *source, const lines_state *state, PyObject *obj, bool is_hidden)
{
    return tensor_fingerprint_differs(&source->core->torch, &state->seen, obj,
                                      LOOK_AT_LINES | (is_hidden ? LOOK_DIGEST : 0));
}

void lines_state_update(lines_source *source, lines_state *state, PyObject *obj, tensor_kind kind,
                        bool is_hidden)
{
    bool had_digest = state->seen.has_digest;
    lines_state_adopt(source, state, obj, kind);
    state->is_seen = true;
    if (had_digest && tensor_fingerprint_needs_digest(&state->seen, is_hidden))
        lines_state_digest(source, state, obj);
}

/* ---- shared states --------------------------------------------------------- */

enum { SHARED_FIRST = 1024, SHARED_MOST = 1 << 17 };

static lines_shared_entry *shared_slot(lines_shared_entry *entries, size_t cap, const void *owner,
                                       uint64_t member)
{
    uint64_t hash = ((uint64_t)(uintptr_t)owner ^ member * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    for (size_t i = (size_t)(hash >> 32) & (cap - 1);; i = (i + 1) & (cap - 1))
        if (entries[i].owner == NULL || (entries[i].owner == owner && entries[i].member == member))
            return &entries[i];
}

static bool shared_grow(lines_shared_states *shared)
{
    size_t cap = shared->cap != 0 ? shared->cap * 2 : SHARED_FIRST;
    if (cap > SHARED_MOST) { /* names get new keys; nothing else is lost */
        memset(shared->entries, 0, shared->cap * sizeof *shared->entries);
        shared->used = 0;
        return true;
    }
    lines_shared_entry *entries = PyMem_Calloc(cap, sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < shared->cap; i++)
        if (shared->entries[i].owner != NULL)
            *shared_slot(entries, cap, shared->entries[i].owner, shared->entries[i].member) =
                shared->entries[i];
    PyMem_Free(shared->entries);
    shared->entries = entries;
    shared->cap = cap;
    return true;
}

lines_state *lines_shared_state(lines_source *source, const void *owner, uint64_t member)
{
    lines_shared_states *shared = &source->shared;
    if (shared->used * 2 >= shared->cap && !shared_grow(shared))
        return NULL;
    lines_shared_entry *entry = shared_slot(shared->entries, shared->cap, owner, member);
    if (entry->owner == NULL) {
        *entry = (lines_shared_entry){ .owner = owner, .member = member };
        shared->used++;
    }
    return &entry->state;
}
