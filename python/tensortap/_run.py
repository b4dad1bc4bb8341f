"""Run a program as Python would, and record every model whose optimizer steps.

This is the inner half of `tensortap run`; the outer half is cli/cmd_run.c.  Nothing of
torch is imported before the program imports it.  The program sees its own argv, its own
`__main__`, its own sys.path; tracebacks begin with its first line.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import itertools
import os
import runpy
import signal
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn
from weakref import WeakSet, WeakValueDictionary, ref

PACKAGE = os.path.dirname(__file__) + os.sep
IMPORT = "<frozen importlib._bootstrap"
PATIENCE = 10  # optimizer steps that a new model may wait for its first forward

Entry = tuple[str, types.TracebackType]  # the file of its frame, and itself


class Watcher:
    """The run of one process: opened when torch has been imported, fed by its optimizers."""

    def __init__(self, folder: str | None, options: dict[str, Any]) -> None:
        """Remember where to record; nothing is made yet."""
        self.folder = folder
        self.options = options
        self.pid = os.getpid()
        self.context: Any = None  # of tensortap.record, entered
        self.run: Any = None
        self.hook: Any = None  # the global forward pre-hook, while some parameter is unknown
        self.optimizer_hook: Any = None
        self.parameter_hook: Any = None
        self.fresh: WeakValueDictionary[int, Any] = WeakValueDictionary()  # parameters, by id
        self.patience = PATIENCE
        self.covered: dict[int, ref[Any]] = {}  # parameters of watched models, by their ids
        self.known: WeakSet[Any] = WeakSet()  # modules with no other parameters than those
        self.roots = 0  # watched models

    def start(self) -> None:
        """Listen to optimizers, to outermost module calls and to models that are made."""
        from torch.nn.modules import module
        from torch.optim import optimizer

        self.optimizer_hook = optimizer.register_optimizer_step_pre_hook(self._stepping)
        self.parameter_hook = module.register_module_parameter_registration_hook(self._made)
        self._listen()

    def _made(self, _module: Any, _name: str, parameter: Any) -> None:
        """Listen again: a model is being made, and its first forward will be soon."""
        if os.getpid() == self.pid:
            self.fresh[id(parameter)] = parameter
            self.patience = PATIENCE
            self._listen()

    def _listen(self) -> None:
        from torch.nn.modules.module import register_module_forward_pre_hook

        if self.hook is None:
            self.hook = register_module_forward_pre_hook(self._called)

    def _called(self, module: Any, _: Any) -> None:
        """Take an outermost module with parameters as a root, before its first forward."""
        if module in self.known or os.getpid() != self.pid or not module.training:
            return
        parameters = list(module.parameters())
        if self._covers(parameters):
            self.known.add(module)
            return
        try:
            self._watch(module)
        except Exception as error:  # the program goes on without us
            print(f"tensortap: cannot record: {error}", file=sys.stderr)
            self.pid = -1
            return
        self.covered.update((id(p), ref(p)) for p in parameters)
        self.known.add(module)

    def _covers(self, parameters: Iterable[Any]) -> bool:
        """Say if all belong to watched models: the id alone may be that of one that is gone."""
        return all((known := self.covered.get(id(p))) and known() is p for p in parameters)

    def _awaits(self) -> bool:
        """Say if a model was made that has not run yet; some never will."""
        self.patience -= 1
        for key, parameter in list(self.fresh.items()):
            if self.patience <= 0 or not parameter.requires_grad or self._covers([parameter]):
                del self.fresh[key]
        return len(self.fresh) > 0

    def _watch(self, module: Any) -> None:
        import tensortap
        from tensortap.watch import _unwrapped

        if self.context is None:
            self.context = tensortap.record(self.folder, **self.options)
            self.run = self.context.__enter__()
        self.roots += 1
        name = f"{type(_unwrapped(module)).__name__}{self.roots}" if self.roots > 1 else None
        tensortap.watch(module, name=name)
        if _unwrapped(module) is module:
            self._record_once(module, f"activation/{name}:(root)" if name else "activation/(root)")

    def _record_once(self, module: Any, name: str) -> None:
        """Record what the call puts out that is under way: it began before it was watched."""

        def once(_module: Any, _inputs: Any, output: Any) -> None:
            handle.remove()
            if not hasattr(output, "untyped_storage"):
                return  # several tensors: those of the modules inside are there
            with contextlib.suppress(TypeError):  # on a device, sparse, fake
                self.run.tensor(name, output)

        handle = module.register_forward_hook(once)

    def _stepping(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Stop listening when everything that is trained is watched; else go on."""
        if os.getpid() != self.pid:
            return None
        if self._covers(p for group in optimizer.param_groups for p in group["params"]):
            if self.hook is not None and not self._awaits():
                self.hook.remove()
                self.hook = None
            return None
        self._listen()
        if callable(kwargs.get("closure")):  # its forward may be the first
            return args, {**kwargs, "closure": self._late(kwargs["closure"], optimizer)}
        if len(args) > 1 and callable(args[1]):
            return (args[0], self._late(args[1], optimizer), *args[2:]), kwargs
        return None

    def _late(self, closure: Callable[[], Any], optimizer: Any) -> Callable[[], Any]:
        """Wrap a closure so that gradients are read although the step began before the watch."""
        before = self.roots

        @functools.wraps(closure)
        def late() -> Any:
            nonlocal before
            result = closure()
            if self.roots > before and self.context is not None:
                before = self.roots
                from tensortap.steps import Steps

                Steps.of(self.run).catch_up(optimizer)
            return result

        return late

    def finish(self) -> None:
        """Close the run and say where it is and what watching cost."""
        if os.getpid() != self.pid or self.context is None:
            return
        context, self.context = self.context, None
        if self.hook is not None:
            self.hook.remove()
        self.optimizer_hook.remove()
        self.parameter_hook.remove()
        share = float(self.run.cost)
        context.__exit__(None, None, None)
        rank = os.environ.get("RANK", "0")
        if rank == "0":
            print(f"tensortap: recorded; see: tensortap show {self.run.path}", file=sys.stderr)
            print(f"tensortap: watching took {share:.1%} of the time", file=sys.stderr)


class TorchWaiter:
    """A finder that calls back once torch has been imported; finds nothing itself.

    No importlib.abc.MetaPathFinder: importing that took a fifth of our start.
    """

    def __init__(self, then: Callable[[], None]) -> None:
        """Remember what to do."""
        self.then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Wrap the loader of `torch`, so that we are told when it is whole."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module
        then = self.then

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def clean(error: BaseException) -> types.TracebackType | None:
    """Drop the frames that are there because of us: above the program's first line, and hooks.

    What the program itself called stays, and so does an error of our own.
    """
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append((entry.tb_frame.f_code.co_filename, entry))
        entry = entry.tb_next
    above = (__file__, runpy.__file__, "<frozen runpy>", "<string>", f"{IMPORT}>")
    while entries and entries[0][0] in above:
        del entries[0]
    if not entries:
        return None
    if isinstance(error, KeyboardInterrupt) or not entries[-1][0].startswith(PACKAGE):
        entries = without_hooks(entries)
    for (_, entry), (_, below) in itertools.pairwise(entries):
        entry.tb_next = below
    entries[-1][1].tb_next = None
    return entries[0][1]


def without_hooks(entries: list[Entry]) -> list[Entry]:
    """Drop what torch or an import called of ours: around a closure, or where Ctrl-C arrived."""
    file = getattr(sys.modules.get("torch"), "__file__", None)
    torch = os.path.dirname(file) + os.sep if file else None
    kept: list[Entry] = []
    for name, entry in entries:
        hooked = torch is not None and kept != [] and kept[-1][0].startswith(torch)
        if not (name == __file__ or (hooked and name.startswith(PACKAGE))):
            kept.append((name, entry))
            continue
        while kept and kept[-1][0].startswith(IMPORT):  # hidden by Python, but for us in between
            kept.pop()
    return kept


def execute(kind: str, rest: Sequence[str]) -> None:
    """Run the script or module as `__main__`."""
    if kind == "module":
        sys.argv = list(rest)
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    path = rest[0]
    sys.argv = list(rest)
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    path = os.path.abspath(path)  # as Python: argv keeps what was typed, __file__ is whole
    with open(path, "rb") as file:
        source = file.read()
    # As Python does: the program is the module __main__, for pickle and multiprocessing too.
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec"), main.__dict__)


def end(code: int) -> NoReturn:
    """Leave with this exit code after everything that Python does at exit."""
    raise SystemExit(code)


def main(arguments: Sequence[str]) -> None:
    """Run; *arguments* are out, every, only, keep, kind, then the program and its own."""
    out, every, only, keep, kind, *rest = arguments
    if kind == "script" and not os.path.exists(rest[0]):
        print(f"tensortap: no script '{rest[0]}'; give a file, or -m and a module", file=sys.stderr)
        end(2)
    options: dict[str, Any] = {}
    if every:
        options["every"] = int(every)
    if only:
        options["only"] = only
    if keep:
        options["keep"] = keep
    watcher = Watcher(out or None, options)
    sys.meta_path.insert(0, TorchWaiter(watcher.start))
    atexit.register(watcher.finish)  # the safety net; finish() itself runs once
    try:
        execute(kind, rest)
    except SystemExit:
        watcher.finish()
        raise
    except KeyboardInterrupt:
        watcher.finish()
        show_traceback()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # as Python: the shell sees the signal
    except BaseException:
        show_traceback()
        watcher.finish()
        end(1)
    watcher.finish()


def show_traceback() -> None:
    """Print the exception as Python would, without our frames."""
    error = sys.exc_info()[1]
    assert error is not None
    traceback = clean(error)
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
