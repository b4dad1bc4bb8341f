/* emit.h -- room for what one event points to; for emit.c and arrows.c.
 *
 * Nearly every statement reads and changes a few names: their room is on the stack.  Those
 * with hundreds get memory, so that no arrow is lost.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_LINES_EMIT_H
#define TT_EXT_LINES_EMIT_H

#include "lines/engine.h"
#include "lines/source.h"

enum { FEW_READS = 64, FEW_CHANGES = 32, FEW_ARROWS = 256 };

typedef struct lines_room {
    int name_count;         /* of reads, items included */
    int change_name_count;  /* of all that changed */
    PyObject **read_name;   /* each owned or NULL; made once for all consumers */
    PyObject **change_name; /* the same */
    /* For one consumer after the other: */
    lines_name *reads; /* each state once, then old states of what was changed in place */
    size_t read_count;
    int *position; /* of each named read in reads; -1: it is not wanted */
    lines_change *changes;
    size_t change_count;
    uint16_t *arrows; /* positions in reads, of one change behind the other */
    size_t arrow_count, arrow_cap;
    void *more; /* owned; the room, if it is not here: */
    PyObject *few_names[FEW_READS + FEW_CHANGES];
    lines_name few_reads[FEW_READS + FEW_CHANGES];
    int few_positions[FEW_READS];
    lines_change few_changes[FEW_CHANGES];
    uint16_t few_arrows[FEW_ARROWS];
} lines_room;

/* The names are still to be made.  False: no memory, and there is nothing to close. */
bool lines_room_open(lines_room *room, int names, int changes);
void lines_room_close(lines_room *room);
/* False: no memory. */
bool lines_room_add_arrow(lines_room *room, int position);

/* arrows.c: adds the arrows of a change, the room's last one; points to none yet.
 * found: what statement.c found; name: of what changed. */
void lines_list_arrows(const lines_record *record, const lines_found_change *found, PyObject *name,
                       lines_room *room);

static inline lines_name lines_name_of(const lines_record *record, int path, PyObject *name,
                                       PyObject *object, const lines_state *state)
{
    return (lines_name){ .kind = lines_path_name_kind(record, path),
                         .name = name,
                         .object = object,
                         .key = state->key,
                         .version = state->version,
                         .is_seen = state->is_seen };
}

#endif
