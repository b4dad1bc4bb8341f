"""What statistics on a device take: kernel launches or operators, bytes, waits, memory.

Counted, not timed, with the CPU in the place of a device: through the Triton kernels in Triton's
interpreter if Triton is installed, else through copies.
"""

import importlib.util
import os
import tempfile
from typing import Any

os.environ["TENSORTAP_DEVICE_PATH"] = "1"
HAS_TRITON = importlib.util.find_spec("triton") is not None
if HAS_TRITON:
    os.environ["TRITON_INTERPRET"] = "1"

import harness  # noqa: E402  (the variables above count when torch and tensortap are imported)
import torch  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.devices import event, ring, statistics  # noqa: E402

torch.set_num_threads(1)
ELEMENTS = 1 << 16


class Operators(torch.utils._python_dispatch.TorchDispatchMode):
    """Count operators on tensors as large as ours, and their bytes."""

    count = bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        read = [x for x in args if isinstance(x, torch.Tensor) and x.numel() >= ELEMENTS]
        self.count += bool(read)
        self.bytes += sum(x.nbytes for x in read)
        return func(*args, **(kwargs or {}))


def count_calls(owner: Any, name: str) -> list[None]:
    calls: list[None] = []
    plain = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return plain(*args, **kwargs)

    setattr(owner, name, counted)
    return calls


launches = count_calls(ring.Ring, "_launch")
x = torch.randn(ELEMENTS)
read = 0
if HAS_TRITON:
    from triton.runtime.interpreter import InterpreterBuilder

    load = InterpreterBuilder.create_masked_load

    def counted_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        global read
        read += int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8
        return load(self, pointers, mask, *rest)

    InterpreterBuilder.create_masked_load = counted_load
with Operators() as operators:
    statistics.stats(x)
how = "two Triton kernels" if HAS_TRITON else "copies"
count = operators.count + 2 * len(launches)
harness.row(f"device: launches and operators over one tensor, {how}", count, 2, at_most=True)
over = (read + operators.bytes) / x.nbytes
harness.row(f"device: bytes read over the tensor's, {how}", over, 1.1, unit="x", at_most=True)

model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
waits = count_calls(event.Event, "wait")
with tempfile.TemporaryDirectory() as folder, tt.record(folder + "/run", model=model):
    for _ in range(3):
        launches.clear()
        waits.clear()
        model(torch.randn(4, 16)).sum().backward()
        optimizer.step()
    harness.row("device: waits in a watched step", len(waits), 1, at_most=True)
size = statistics.SLOTS * ring.WORDS * 8
harness.row("device: slots for each site", size, 1024, unit="bytes", at_most=True)
