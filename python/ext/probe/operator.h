/* operator.h -- tensortap::probe_v1, the operator that sees a tensor inside a compiled graph.
 *
 *     tensortap::probe_v1(Tensor x, Tensor(a!) slots, int slot) -> ()
 *     tensortap::probe_gradient_v1(Tensor x, Tensor(a!) slots, Tensor call, int slot) -> ()
 *
 * `slots` is a uint8 tensor with a row of PROBE_BYTES, which begins with a probe_slots, for each of
 * some watched modules.  `slot` is PROBE_BYTES times the row, plus which tensor of its module x is.  One
 * byte for each slot says what to compute, so switching a site off needs no other graph: the operator
 * reads the byte and returns.
 * The second runs in backward; `call` is a copy of probe_slots.call, made when the tensor was seen.
 * Statistics go to the log (probe/log.h).  Torch is not linked: its functions are looked up.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_PROBE_OPERATOR_H
#define TT_EXT_PROBE_OPERATOR_H

#include "binding/state.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PROBE_SLOTS = 208,    /* of one module */
    PROBE_UNKNOWN = 0xFF, /* a slot that nobody has decided about yet */
    PROBE_SEEN = 0x40,    /* beside TT_PRODUCT_: log the shape, compute nothing */
};

/* What slots begins with, in memory of torch's.  Written with the GIL, read without. */
typedef struct probe_slots {
    uint64_t magic;
    uint64_t module;  /* its number */
    uint64_t call;    /* number of the operator's last call here; it must change something, or Inductor
                         removes it */
    uint32_t is_root; /* rows are taken as soon as this module has run, if none around it is eager */
    uint32_t unused;
    uint8_t products[PROBE_SLOTS]; /* of TT_PRODUCT_, PROBE_SEEN; 0: off */
} probe_slots;
enum { PROBE_BYTES = 256 };
_Static_assert(sizeof(probe_slots) <= PROBE_BYTES, "slots take at most 1 kB a site");
_Static_assert(offsetof(probe_slots, call) == 16, "as CALL in compiled/module_call.py, like PROBE_BYTES");

/* What the operator asks; both are called with the GIL and leave no exception. */
typedef struct probe_listener {
    uint8_t (*products)(uint64_t module, int32_t slot); /* of a slot that is unknown */
    void (*read)(bool is_all);                          /* the log: the rows of this thread, or all */
} probe_listener;
void probe_listen(const probe_listener *listener); /* it must outlive the process's Python */

/* The number of eager calls that are going on in this thread, around its compiled code. */
int *probe_eager_depth(void);

/* Is this thread in backward()?  A forward that runs there is a repetition. */
bool probe_is_in_backward(void);

void probe_slots_init(probe_slots *slots, uint64_t module);

/* _probe_register() -> bool: registers the kernels of the operators, which are defined, with torch's C
 * interface; False: this torch has none. */
BINDING_FUNCTION(probe_register);
/* _probe_v1(x, slots, slot), _probe_v1(x, slots, call, slot): the operators for CPU tensors, for
 * torch.library, and for code of Inductor's, which calls this rather than torch's dispatcher. */
BINDING_FUNCTION(probe_run);
/* _probe_on_device(slots, call, slot, dtype, shape, start) -> bool: the operators for tensors of other
 * devices.  start(wants_histogram) starts their summaries and returns a number, which goes to the log.
 * True: more than these is asked for; nothing was done. */
BINDING_FUNCTION(probe_run_on_device);

#endif
