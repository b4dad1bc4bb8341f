"""Break private names of torch, as tensortap alone sees them, and train.

Each case is a fork of this process, which has imported torch once: it breaks one name, runs the
program under `tensortap run`, and prints what came of it as a line of JSON.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

#: The package's folder.  Its name alone would not do: a clone is called tensortap, too.
OURS = str(importlib.util.find_spec("tensortap").origin).removesuffix("__init__.py")

PROGRAM = """
import hashlib, sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.LayerNorm(8), nn.ReLU()), nn.Linear(8, 2))
data = DataLoader(TensorDataset(torch.randn(96, 4), torch.randint(0, 2, (96,))), 4, shuffle=True)
call = model if sys.argv[1] == "none" else torch.compile(model, backend=sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
losses = []
for x, y in data:
    loss = nn.functional.cross_entropy(call(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item().hex())
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print(*losses, hashlib.sha1(weights).hexdigest(), torch.rand(1).item().hex())
"""


def is_ours() -> bool:
    """Return whether the code that asks for an attribute is tensortap's."""
    file = sys._getframe(2).f_code.co_filename
    return file.startswith(OURS) and not file.endswith("imports.py")


def raising(*_: object, **__: object) -> None:
    """Stand for a function that raises."""
    raise RuntimeError("broken by a test")


#: What stands in the place of a name; "deleted" is not there.
WAYS: dict[str, Any] = {
    "deleted": None,
    "raises": raising,
    "signature": lambda: None,
    "type": 42,
}


def broken(way: str, name: str) -> Any:
    """Return what our code gets for a broken name."""
    if way == "deleted":
        raise AttributeError(f"there is no {name}")
    return WAYS[way]


class Attribute:
    """A descriptor in place of a member of a class or of its objects."""

    def __init__(self, kind: type, name: str, way: str) -> None:
        self.own, self.name, self.way = kind.__dict__.get(name), name, way
        setattr(kind, name, self)

    def __get__(self, one: Any, kind: type) -> Any:
        if is_ours():
            return broken(self.way, self.name)
        if one is not None and self.name in vars(one):
            return vars(one)[self.name]
        if self.own is None:
            return kind.__getattr__(one, self.name)  # type: ignore[attr-defined]
        return self.own.__get__(one, kind) if hasattr(self.own, "__get__") else self.own

    def __set__(self, one: Any, value: Any) -> None:
        vars(one)[self.name] = value


def break_name(path: str, way: str) -> None:
    """Break "module:name" or "module:Class.name" ("module:object.name") for our code alone.

    A module that is not imported yet is broken when it is.
    """
    module_name, _, rest = path.partition(":")
    if module_name.startswith("torch._dynamo") and "torch._dynamo" not in sys.modules:
        from tensortap.files.imports import when_imported

        when_imported(module_name, lambda: break_name(path, way))
        return
    module = importlib.import_module(module_name)
    outer, _, name = rest.rpartition(".")
    if outer:
        held = getattr(module, outer)
        Attribute(held if isinstance(held, type) else type(held), name, way)
        return
    kind: Any = type(module)

    class Module(kind):  # type: ignore[misc]
        def __getattribute__(self, asked: str) -> Any:
            if asked == name and is_ours():
                return broken(way, name)
            return ModuleType.__getattribute__(self, asked)

    module.__class__ = Module


def run_case(path: str, way: str, backend: str, folder: Path) -> dict[str, Any]:
    """Run the program with one name broken ("": none); return what it printed and recorded."""
    (folder / "train.py").write_text(PROGRAM)
    os.chdir(folder)
    if path:
        break_name(path, way)
    with open("out", "w") as out, open("err", "w") as err:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
    code: Any = 0
    try:
        if path is None:
            sys.argv = ["train.py", backend]
            exec(compile(PROGRAM, "train.py", "exec"), {"__name__": "__main__"})
        else:
            from tensortap.commands.run import main

            options = {"output": "run", "grads": "all", "black-box": "4"}
            main(options, ["train.py", backend])
    except SystemExit as error:
        code = error.code
    sys.stdout.flush()
    sys.stderr.flush()
    result = {"code": code, "out": Path("out").read_text(), "err": Path("err").read_text()}
    if path is not None and Path("run").exists():
        import tensortap as tt

        run = tt.open("run")
        points = {name: len(run.series(name)[0]) for name in run.names()}
        health = tt.health(run)
        result["points"] = points
        result["notes"] = [note.text for note in run.notes]
        result["verdict"] = str(health)
        result["findings"] = [one.rule for one in health]
    return result


def warm_up() -> None:
    """Import everything, so that cases need not; nothing of torch has been tried by then.

    No gradient is needed: a torch for CUDA does not compute any in a fork if it has in the parent.
    """
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    for name in ("blackbox.box", "commands.run", "findings"):
        importlib.import_module(f"tensortap.{name}")
    with contextlib.suppress(ImportError):
        importlib.import_module("torch._inductor.codegen.wrapper")
    model = torch.compile(torch.nn.Linear(2, 2), backend="aot_eager")
    with torch.no_grad():
        model(torch.ones(2, 2))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    del model
    gc.collect()
    gc.freeze()  # searches for living modules are quicker


def main() -> None:
    """Read cases from stdin, one in a line: name, way, backend, folder; print their results."""
    warm_up()
    for line in sys.stdin:
        path, way, backend, folder = json.loads(line)
        answer = Path(folder) / "answer"
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                answer.write_text(json.dumps(run_case(path, way, backend, Path(folder))))
                code = 0
            except BaseException:
                import traceback

                answer.write_text(json.dumps({"code": traceback.format_exc()}))
            finally:
                os._exit(code)
        os.waitpid(pid, 0)
        print(answer.read_text(), flush=True)


if __name__ == "__main__":
    main()
