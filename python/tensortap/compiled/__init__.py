"""Modules inside compiled graphs: everything that we use of Dynamo, Inductor and functorch.

Where torch.compile traces the call of a watched module, it traces `module_call.py` in place of our
object in the module's slot.  That calls the operators of `operators.py` on the tensors that the
module returns; the operators themselves are in C (`python/ext/probe`).  Read in this order:

    dynamo.py       what Dynamo does now: has it compiled anything, what does it trace
    hooks.py        keep it away from our hooks that torch calls
    operators.py    define the operators that look at tensors inside graphs
    inductor.py     have its generated code call them directly
    results.py      the tensors in what a module returns
    module_call.py  what Dynamo traces when a watched module is called
    functorch.py    tensors inside vmap and torch.func.grad

SPDX-License-Identifier: Apache-2.0
"""
