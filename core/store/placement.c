/* placement.c -- the sections MESH and PLACEMENT: where tensors belong in a job of many ranks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/placement.h"

#include "store/block.h"

#include <stdlib.h>
#include <string.h>

enum {
    MESHES_MAX = 256,
    RANKS_MAX = 1 << 20,
    NAME_MAX_BYTES = 64,
    PLACEMENTS_MAX = 1 << 18,
    PLACEMENT_BYTES_MAX = 64 << 20, /* of one file, in memory */
};

/* ---- writing ----------------------------------------------------------------- */

/* Counts the ranks of a mesh; -1: too many, or a size makes no sense. */
static int64_t count_ranks(const tt_mesh *mesh)
{
    int64_t count = 1;
    if (mesh->ndim < 1 || mesh->ndim > TT_MESH_DIMS)
        return -1;
    for (int32_t d = 0; d < mesh->ndim; d++) {
        if (mesh->size[d] < 1 || mesh->coordinate[d] < 0 || mesh->coordinate[d] >= mesh->size[d] ||
            mesh->size[d] > RANKS_MAX / count)
            return -1;
        count *= mesh->size[d];
    }
    return count;
}

tt_status tt_mesh_put(const tt_mesh *mesh, tt_buf *out, uint64_t *id)
{
    int64_t count = count_ranks(mesh), before = 0;
    tt_buf body = { 0 };
    if (count < 0)
        return TT_EINVAL;
    tt_buf_varint(&body, (uint64_t)mesh->ndim);
    for (int32_t d = 0; d < mesh->ndim; d++) {
        const char *name = mesh->name[d] != NULL ? mesh->name[d] : "";
        size_t len = strnlen(name, NAME_MAX_BYTES);
        tt_buf_varint(&body, len);
        tt_buf_append(&body, name, len);
        tt_buf_varint(&body, (uint64_t)mesh->size[d]);
        tt_buf_varint(&body, (uint64_t)mesh->coordinate[d]);
    }
    for (int64_t i = 0; i < count; i++) {
        tt_wire_signed(&body, mesh->ranks[i] - before);
        before = mesh->ranks[i];
    }
    if (body.st == TT_OK) {
        *id = tt_block_hash(body.data, body.len);
        unsigned char *room = tt_wire_room(out, 8);
        if (room != NULL)
            tt_put_u64(room, *id);
    }
    tt_wire_buf(out, &body);
    tt_buf_free(&body);
    return out->st;
}

tt_status tt_placement_put(int32_t site, const tt_placement *p, tt_buf *out)
{
    if (p->mesh_ndim < 0 || p->mesh_ndim > TT_MESH_DIMS || p->ndim > TT_MAX_DIM || p->box_count < 0 ||
        p->box_count > TT_PLACEMENT_BOXES || (p->ndim < 0 && p->box_count > 0))
        return TT_EINVAL;
    tt_buf_varint(out, (uint64_t)site);
    tt_wire_signed(out, p->step);
    unsigned char *room = tt_wire_room(out, 8);
    if (room != NULL)
        tt_put_u64(room, p->mesh);
    tt_buf_varint(out, (uint64_t)p->source);
    tt_buf_varint(out, (uint64_t)p->mesh_ndim);
    for (int32_t d = 0; d < p->mesh_ndim; d++) {
        tt_buf_varint(out, (uint64_t)p->on[d].spread);
        if (p->on[d].spread == TT_SPREAD_SHARD) {
            tt_buf_varint(out, (uint64_t)p->on[d].dim);
            tt_buf_varint(out, (uint64_t)p->on[d].factor);
        } else if (p->on[d].spread == TT_SPREAD_PARTIAL) {
            tt_buf_varint(out, (uint64_t)p->on[d].reduction);
        }
    }
    tt_buf_varint(out, (uint64_t)(p->ndim + 1));
    for (int32_t d = 0; d < p->ndim; d++)
        tt_buf_varint(out, (uint64_t)p->shape[d]);
    tt_buf_varint(out, (uint64_t)p->box_count);
    for (int32_t i = 0; i < p->box_count; i++)
        for (int32_t d = 0; d < p->ndim; d++) {
            tt_buf_varint(out, (uint64_t)p->boxes[i].offset[d]);
            tt_buf_varint(out, (uint64_t)p->boxes[i].size[d]);
        }
    return out->st;
}

/* ---- reading ----------------------------------------------------------------- */

/* Memory of the file's arena; NULL: none, or the file says more than it may. */
static void *keep(tt_tap *tap, size_t bytes)
{
    tap->placement_bytes += bytes + 16;
    return tap->placement_bytes > PLACEMENT_BYTES_MAX ? NULL : tt_arena_alloc(&tap->texts, bytes);
}

/* A number of at most so much; 0, and the cursor bad, if it is more. */
static uint64_t take(tt_cursor *cursor, uint64_t most)
{
    uint64_t x = tt_cursor_varint(cursor);
    if (x > most)
        cursor->is_bad = true;
    return cursor->is_bad ? 0 : x;
}

static uint64_t take_u64(tt_cursor *cursor)
{
    const unsigned char *bytes = tt_cursor_take(cursor, 8);
    return bytes != NULL ? tt_get_u64(bytes) : 0;
}

tt_status tt_mesh_read(tt_tap *tap, tt_cursor *cursor)
{
    uint64_t id = take_u64(cursor);
    tt_mesh mesh = { 0 };
    if (cursor->is_bad || tt_block_hash(cursor->at, tt_cursor_left(cursor)) != id ||
        tap->mesh_count >= MESHES_MAX)
        return TT_EFORMAT;
    mesh.ndim = (int32_t)take(cursor, TT_MESH_DIMS);
    for (int32_t d = 0; d < mesh.ndim; d++) {
        uint64_t len = take(cursor, NAME_MAX_BYTES);
        const unsigned char *name = tt_cursor_take(cursor, len);
        if (name == NULL)
            return TT_EFORMAT;
        char *text = keep(tap, len + 1);
        if (text == NULL)
            return TT_EFORMAT;
        memcpy(text, name, len);
        text[len] = '\0';
        mesh.name[d] = text;
        mesh.size[d] = (int32_t)take(cursor, RANKS_MAX);
        mesh.coordinate[d] = (int32_t)take(cursor, RANKS_MAX);
    }
    int64_t count = cursor->is_bad ? -1 : count_ranks(&mesh), rank = 0;
    if (count < 0 || (size_t)count > tt_cursor_left(cursor)) /* each takes a byte at least */
        return TT_EFORMAT;
    int32_t *ranks = keep(tap, (size_t)count * sizeof *ranks);
    if (ranks == NULL)
        return TT_EFORMAT;
    for (int64_t i = 0; i < count; i++) {
        rank = (int64_t)((uint64_t)rank + (uint64_t)tt_cursor_signed(cursor));
        if (cursor->is_bad || rank < 0 || rank >= RANKS_MAX)
            return TT_EFORMAT;
        ranks[i] = (int32_t)rank;
    }
    mesh.ranks = ranks;
    tt_status st =
        tt_grow(&tap->meshes, &tap->mesh_cap, (size_t)tap->mesh_count + 1, sizeof *tap->meshes);
    uint64_t grid = tt_block_hash(mesh.size, (size_t)mesh.ndim * sizeof *mesh.size) ^
                    tt_block_hash(ranks, (size_t)count * sizeof *ranks);
    if (st == TT_OK)
        tap->meshes[tap->mesh_count++] = (tt_known_mesh){ .id = id, .grid = grid, .mesh = mesh };
    return st;
}

static tt_status read_boxes(tt_tap *tap, tt_cursor *cursor, tt_placement *p)
{
    p->box_count = (int32_t)take(cursor, TT_PLACEMENT_BOXES);
    if (cursor->is_bad || (p->box_count > 0 && p->ndim < 0))
        return TT_EFORMAT;
    tt_box *boxes = p->box_count > 0 ? keep(tap, (size_t)p->box_count * sizeof *boxes) : NULL;
    if (p->box_count > 0 && boxes == NULL)
        return TT_EFORMAT;
    for (int32_t i = 0; i < p->box_count; i++)
        for (int32_t d = 0; d < p->ndim; d++) {
            boxes[i].offset[d] = (int64_t)take(cursor, INT64_MAX / 2);
            boxes[i].size[d] = (int64_t)take(cursor, INT64_MAX / 2);
            if (cursor->is_bad || boxes[i].size[d] > p->shape[d] ||
                boxes[i].offset[d] > p->shape[d] - boxes[i].size[d])
                return TT_EFORMAT; /* outside of the tensor */
        }
    p->boxes = boxes;
    return TT_OK;
}

/* Reads what many sites share: all but the number of the site. */
static tt_status read_known(tt_tap *tap, tt_cursor *cursor, tt_known_placement **out)
{
    enum { REMEMBERED = 64 };
    uint64_t hash = tt_block_hash(cursor->at, tt_cursor_left(cursor));
    for (int32_t i = tap->known_count; i > 0 && i > tap->known_count - REMEMBERED; i--)
        if (tap->known[i - 1]->hash == hash) {
            *out = (tt_known_placement *)(uintptr_t)tap->known[i - 1];
            return TT_OK;
        }
    tt_placement p = { .step = tt_cursor_signed(cursor), .mesh = take_u64(cursor) };
    p.source = (tt_placement_source)take(cursor, TT_PLACED_BY_COUNT_ - 1);
    p.mesh_ndim = (int32_t)take(cursor, TT_MESH_DIMS);
    for (int32_t d = 0; d < p.mesh_ndim; d++) {
        p.on[d].spread = (tt_spread)take(cursor, TT_SPREAD_COUNT_ - 1);
        p.on[d].factor = 1;
        if (p.on[d].spread == TT_SPREAD_SHARD) {
            p.on[d].dim = (int32_t)take(cursor, TT_MAX_DIM - 1);
            p.on[d].factor = (int32_t)take(cursor, RANKS_MAX);
        } else if (p.on[d].spread == TT_SPREAD_PARTIAL) {
            p.on[d].reduction = (tt_reduction)take(cursor, TT_REDUCE_COUNT_ - 1);
        }
    }
    p.ndim = (int32_t)take(cursor, TT_MAX_DIM + 1) - 1;
    for (int32_t d = 0; d < p.ndim; d++)
        p.shape[d] = (int64_t)take(cursor, INT64_MAX / 2);
    tt_status st = cursor->is_bad ? TT_EFORMAT : read_boxes(tap, cursor, &p);
    tt_known_placement *known = st == TT_OK ? keep(tap, sizeof *known) : NULL;
    if (st == TT_OK && known == NULL)
        st = TT_EFORMAT;
    if (st == TT_OK)
        st = tt_grow(&tap->known, &tap->known_cap, (size_t)tap->known_count + 1, sizeof(void *));
    if (st < 0)
        return st;
    *known = (tt_known_placement){ .hash = hash, .placement = p };
    tap->known[tap->known_count++] = *out = known;
    return TT_OK;
}

tt_status tt_placement_read(tt_tap *tap, tt_cursor *cursor)
{
    int32_t site = (int32_t)take(cursor, INT32_MAX);
    tt_known_placement *known;
    if (cursor->is_bad || tap->placement_count >= PLACEMENTS_MAX)
        return TT_EFORMAT;
    tt_status st = read_known(tap, cursor, &known);
    if (st == TT_OK)
        st = tt_grow(&tap->placements, &tap->placement_cap, (size_t)tap->placement_count + 1,
                     sizeof *tap->placements);
    if (st == TT_OK) {
        tap->placements[tap->placement_count] =
            (tt_site_placement){ .site = site, .order = tap->placement_count, .known = known };
        tap->placement_count++;
    }
    return st;
}

static int by_site(const void *a, const void *b)
{
    const tt_site_placement *x = a, *y = b;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    int64_t step_x = x->known->placement.step, step_y = y->known->placement.step;
    if (step_x != step_y)
        return step_x < step_y ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

void tt_placements_sort(tt_tap *tap)
{
    if (tap->placements_sorted == tap->placement_count)
        return;
    qsort(tap->placements, (size_t)tap->placement_count, sizeof *tap->placements, by_site);
    tap->placements_sorted = tap->placement_count;
}

uint64_t tt_placement_class(const tt_placement *p, const tt_known_mesh *known, bool *is_known)
{
    if (p == NULL || known == NULL || p->mesh_ndim != known->mesh.ndim)
        return 0;
    uint64_t class = known->grid;
    for (int32_t d = 0; d < p->mesh_ndim; d++) {
        tt_spread spread = p->on[d].spread;
        bool is_shared = spread == TT_SPREAD_REPLICA || spread == TT_SPREAD_UNKNOWN;
        *is_known &= spread != TT_SPREAD_UNKNOWN;
        uint64_t x = (uint64_t)spread << 32 | (is_shared ? 0 : (uint64_t)known->mesh.coordinate[d] + 1);
        x = (class ^ x) * UINT64_C(0x9e3779b97f4a7c15);
        class = x ^ x >> 29;
    }
    return class | 1;
}

/* ---- asked for ----------------------------------------------------------------- */

const tt_known_mesh *tt_run_known_mesh(const tt_run *run, int32_t file, uint64_t id)
{
    for (int32_t i = 0; file >= 0 && file < run->count && i < run->taps[file]->mesh_count; i++)
        if (run->taps[file]->meshes[i].id == id)
            return &run->taps[file]->meshes[i];
    return NULL;
}

const tt_mesh *tt_run_mesh(const tt_run *run, int32_t file, uint64_t id)
{
    const tt_known_mesh *known = tt_run_known_mesh(run, file, id);
    return known != NULL ? &known->mesh : NULL;
}

const tt_placement *tt_run_placement(const tt_run *run, int32_t file, int32_t site, int64_t step)
{
    const tt_tap *tap = file >= 0 && file < run->count ? run->taps[file] : NULL;
    if (tap == NULL || site < 0 || (size_t)site >= tap->local_cap || tap->local[site] < 0)
        return NULL;
    int32_t local = tap->local[site], low = 0, high = tap->placement_count;
    while (low < high) { /* the first behind the wanted one */
        int32_t middle = low + (high - low) / 2;
        const tt_site_placement *at = &tap->placements[middle];
        if (at->site < local || (at->site == local && at->known->placement.step <= step))
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && tap->placements[low - 1].site == local ? &tap->placements[low - 1].known->placement
                                                             : NULL;
}
