/* placement.h -- the sections MESH and PLACEMENT: where tensors belong in a job of many ranks.
 *
 * For store and record.  A mesh is known by the hash of its bytes, so that a resumed file needs no numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_PLACEMENT_H
#define TT_STORE_PLACEMENT_H

#include "base/buf.h"
#include "base/wire.h"
#include "store/run.h"

/* Writes the bytes of a section; TT_EINVAL: it cannot be. */
tt_status tt_mesh_put(const tt_mesh *mesh, tt_buf *out, uint64_t *id);
tt_status tt_placement_put(int32_t site, const tt_placement *placement, tt_buf *out);

/* Reads a section into memory of the file's arena; TT_EFORMAT: it cannot be. */
tt_status tt_mesh_read(tt_tap *tap, tt_cursor *cursor);
tt_status tt_placement_read(tt_tap *tap, tt_cursor *cursor);
/* A number that ranks share which ought to hold the same part of a tensor: that of the grid, of the layout and of the
 * place along the axes that split it; 0: the placement does not fit its mesh.  Along an axis of which nothing is known
 * ranks share it, too (*is_known: false). */
uint64_t tt_placement_class(const tt_placement *p, const tt_known_mesh *known, bool *is_known);
/* After sections were read: makes placements ready to be found. */
void tt_placements_sort(tt_tap *tap);

#endif
