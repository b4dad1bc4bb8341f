/* state.c -- the last look at each name of the running frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "lines/engine.h"

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

PyObject *lines_state_begin(lines_source *source)
{
    const tensor_torch *torch = &source->core->torch;
    bool has_mode = torch->tensor != NULL && tensor_has_function_mode(torch);
    return has_mode ? tensor_quiet_enter(torch) : NULL; /* or the mode would see us asking */
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

enum { SHARED_MOST = 1 << 16 }; /* then all are forgotten: names get new keys, nothing else is lost */

void lines_shared_clear(lines_source *source)
{
    lines_state *state;
    for (size_t i = 0; (state = base_map_next(&source->shared, &i)) != NULL;)
        PyMem_Free(state);
    base_map_free(&source->shared);
}

lines_state *lines_shared_state(lines_source *source, const void *owner, uint64_t member)
{
    /* 64 bits of a hash stand for both: with so few states, no two are ever the same. */
    uint64_t hash = base_hash_mix(base_hash_mix(0, (uint64_t)(uintptr_t)owner), member);
    const void *key = (const void *)(uintptr_t)(hash | 1);
    lines_state *state = base_map_find(&source->shared, key);
    if (state != NULL)
        return state;
    if (source->shared.used >= SHARED_MOST)
        lines_shared_clear(source);
    state = PyMem_Calloc(1, sizeof *state);
    if (state != NULL && base_map_put(&source->shared, key, state) < 0) {
        PyErr_Clear();
        PyMem_Free(state);
        state = NULL;
    }
    return state;
}
