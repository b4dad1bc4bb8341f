"""Run a program as Python would, and record every model that an optimizer trains.

This is the Python half of `tensortap run`; cli/commands/run.c starts it.  torch is not imported
before the program imports it.  The program sees its own argv, its own `__main__` and its own
sys.path; tracebacks begin with its first line.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import resource
import runpy
import shutil
import signal
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any
from weakref import ref

import tensortap
from tensortap import _core
from tensortap.compiled import dynamo
from tensortap.compiled.hooks import unseen
from tensortap.files.frames import frame_at, frames_from
from tensortap.files.imports import when_imported
from tensortap.files.owners import Owner, owner_of
from tensortap.models import living
from tensortap.models.modules import unwrapped
from tensortap.private.meshes import gathered
from tensortap.private.modules import inside, on_registration
from tensortap.runs import optimizers
from tensortap.runs.describe import share
from tensortap.runs.record import Recording, check_place
from tensortap.runs.steps import FORWARDS_ARE_STEPS, NO_OPTIMIZER, Steps
from tensortap.runs.tokens import keep_loaded

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
#: Their functions are around each batch, around the closure of a step, and around an import.
AROUND = tuple(
    PACKAGE + name for name in ("blackbox/loaders.py", "runs/optimizers.py", "files/imports.py")
)
IMPORT = "<frozen importlib._bootstrap"
FLAGS = ("resume", "inputs", "inference")  # options without a value
Entry = tuple[str, types.TracebackType]  # the file of its frame, and itself


def children_time() -> float:
    """Return the seconds of processor time that ended child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


#: Not nothing where a shell ran other commands and then became this process.
CHILDREN_BEFORE = children_time()
#: Seconds.  A process that trains imports torch, which takes longer; importing torch may itself
#: start a short command, such as ldconfig.
TRAINING_TIME = 0.5


class Watcher(optimizers.Listener):
    """The run of one process: opened when its first model is about to run, or to step.

    Every module that registers a parameter or a submodule announces its next call in training
    (`_core._announce`).  The outermost one is a model; its submodules stop announcing.  A model
    that never announces itself (it runs compiled, or was unpickled) is found when its optimizer
    steps.  No forward hook is used: torch.compile would trace it, and all other calls would
    take torch's slow path.
    """

    def __init__(
        self,
        folder: str | None,
        options: dict[str, Any],
        watching: dict[str, Any],
        make_box: Callable[[], Any] | None = None,
    ) -> None:
        self.make_box = make_box  # the black box, once torch is there
        self.folder = folder
        self.options = options
        self.watching = watching  # options of tensortap.watch
        self.pid = os.getpid()
        self.run: Recording | None = None
        self.called: Any = None  # what modules announce their calls to
        self.covered: dict[int, ref[Any]] = {}  # parameters that are watched, by their ids
        self.models: list[ref[Any]] = []  # watched

    def start(self) -> None:
        """Listen for new modules, and to optimizers."""
        try:
            self._listen()
        except Exception as error:  # not the import of torch, which calls this
            self._give_up(error)

    def _listen(self) -> None:
        if self.make_box is not None:
            from tensortap.blackbox import box

            box.waiting.append(self.make_box())
            box.waiting[-1].is_by_command = True
        if "tokens" in self.options.get("keep", ""):
            keep_loaded()
        self.called = unseen(self._called, is_traced=False)
        on_registration(unseen(self._made))
        optimizers.listen(self)

    def _made(self, module: Any, _name: str, _value: Any) -> None:
        """Make a module announce its calls: it has just registered a parameter or a submodule."""
        if os.getpid() == self.pid:
            is_all = bool(self.options.get("inference"))
            _core._announce(module, self.called, evaluation=is_all)

    def _called(self, module: Any) -> None:
        """Watch a module that is about to run in training, unless it is part of a watched one."""
        try:
            if is_under_construction():
                return  # its model is not complete: a later call announces it
            if os.getpid() == self.pid and not self._covers(module.parameters()):
                self._watch(self._largest_around(module))
        except Exception as error:
            self._give_up(error)
        _core._announce(module, None)  # last: the watch must see this call too

    def _largest_around(self, module: Any) -> Any:
        """Return the largest module that contains this one and no watched model.

        Its own call may never be announced: torch calls a compiled function instead, or the
        program calls its parts, as in Lightning's `training_step`.
        """
        models = {id(model()) for model in self.models}
        around = []
        for one in living.modules():
            parts = {id(part) for part in one.modules()}
            if inside(one) is None and id(module) in parts and parts.isdisjoint(models):
                around.append(one)
        return next(iter(living.roots(around)), module)

    def _covers(self, parameters: Iterable[Any]) -> bool:
        """Return whether all belong to watched models; an id alone may be that of a freed one."""
        return all((known := self.covered.get(id(p))) and known() is p for p in parameters)

    def _watch(self, module: Any) -> None:
        """Watch a model; open the run with the first."""
        name = None
        if self.run is None:
            if living.trained_outside(module):  # more models will follow: name all of them
                name = type(unwrapped(module)).__name__
            self.run = tensortap.record(self.folder, **self.options)
            self.run.is_by_command = True
        tensortap.watch(module, name=name, **self.watching)
        self.models.append(ref(module))
        held = (*module.parameters(), *gathered(module).values())
        self.covered.update((id(p), ref(p)) for p in held)
        for part in module.modules():
            _core._announce(part, None)

    def _give_up(self, error: Exception) -> None:
        """Print why nothing is recorded; the program continues without recording."""
        print(f"tensortap: cannot record: {error}", file=sys.stderr)
        self.pid = -1

    # ---- what the optimizers call

    def gradients_ready(self, optimizer: Any) -> None:
        """Watch the models of an optimizer that did not announce themselves."""
        try:
            held = (p for group in optimizer.param_groups for p in group["params"])
            if os.getpid() == self.pid and not self._covers(held):
                self._search(optimizer)
        except Exception as error:
            self._give_up(error)

    def _search(self, optimizer: Any) -> None:
        """Watch the largest modules that hold its parameters and contain no watched model.

        If none of its parameters has a gradient, also those whose parameters have one.
        """
        every = list(living.held(optimizer))
        missing = {id(p) for p in every if not self._covers([p])}
        # Where it has nothing to step, the program trains another model: a copy, perhaps.
        is_stale = all(p.grad is None for p in every)
        models = {id(model()) for model in self.models}
        candidates = [
            module
            for module in living.modules()
            if any(
                id(p) in missing or (is_stale and p.grad is not None) for p in module.parameters()
            )
            and not any(id(part) in models for part in module.modules())
        ]
        for module in living.roots(candidates):
            if not self._covers(module.parameters()):
                self._watch(module)
        self.covered.update((id(p), ref(p)) for p in every)  # some belong to no module

    def finish(self, error: BaseException | None) -> None:
        """Close the run with the exception that ended the program; print where it is."""
        if os.getpid() != self.pid:
            return
        self.pid = -1
        if self.run is None:
            print_why(is_inference=bool(self.options.get("inference")))
            return
        if self.run.is_idle:
            return
        if self.run.forwards == 0:  # there was one step only
            Steps.of(self.run).decide()
        cost = self.run.cost
        is_by_forwards = self.run.forwards == FORWARDS_ARE_STEPS and not self.run.is_inference
        self.run.__exit__(None if error is None else type(error), error, None)
        rank = os.environ.get("RANK", "0")
        if rank == "0":
            print(f"tensortap: recorded; see: tensortap show {self.run.path}", file=sys.stderr)
            took = f"at least {share(cost)}" if cost >= 0.001 else share(cost)
            print(f"tensortap: watching took {took} of the time", file=sys.stderr)
            if is_by_forwards:
                print(f"tensortap: {NO_OPTIMIZER}", file=sys.stderr)


def is_under_construction() -> bool:
    """Return whether a module calls a part of itself in its `__init__`, to learn a shape."""
    from torch.nn import Module

    for frame in frames_from(frame_at(1)):
        code = frame.f_code
        if code.co_name == "__init__" and code.co_argcount > 0:
            made = frame.f_locals.get(code.co_varnames[0])
            if isinstance(made, Module):
                return True
    return False


def print_why(*, is_inference: bool = False) -> None:
    """Print why nothing was recorded."""
    if os.environ.get("RANK", "0") != "0":
        return
    lines = ["nothing recorded: this process did not import torch"]
    if "torch" in sys.modules:
        lines = ["nothing recorded: no model ran in this process"]
        if not is_inference:
            lines = [
                "nothing recorded: no model ran in training mode in this process",
                "(--inference records models in evaluation, too)",
            ]
    if dynamo.is_imported():
        lines.append("(a model and an optimizer inside one compiled function are not seen)")
    if children_time() - CHILDREN_BEFORE > TRAINING_TIME:
        lines.append("to record the processes that it starts, call tt.record where they train")
    print(*(f"tensortap: {line}" for line in lines), sep="\n", file=sys.stderr)


def split_launcher(arguments: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split what torchrun was given into its options and the program; None: that is no Python."""
    from torch.distributed.run import parse_args

    read = parse_args(arguments)  # type: ignore[no-untyped-call]
    if read.no_python:
        return None
    count = len(read.training_script_args) + 1
    options = [word for word in arguments[:-count] if word not in ("-m", "--module")]
    return options, [*(["-m"] if read.module else []), *arguments[-count:]]


def start_ranks(own: Sequence[str], options: Sequence[str], program: Sequence[str]) -> None:
    """Become torchrun; each rank that it starts records itself."""
    if find_spec("torch") is None:
        print(f"tensortap: {sys.executable} has no module 'torch'", file=sys.stderr)
        sys.exit(3)
    ours = ["-m", "tensortap", "run", *own, *program]
    words = [sys.executable, "-m", "torch.distributed.run", *options, *ours]
    sys.stdout.flush()
    os.execv(sys.executable, words)


def become_launcher(texts: dict[str, str], kind: str, rest: Sequence[str]) -> None:
    """Start ranks if the command asks for them: by --nproc, or because the program is torchrun."""
    flags = [f"--{name}" for name in FLAGS if name in texts]
    valued = [name for name in texts if name not in (*FLAGS, "m", "nproc")]
    own = [*flags, *(word for name in valued for word in (f"--{name}", texts[name]))]
    program = [*(["-m"] if kind == "module" else []), *rest]
    if "nproc" in texts:
        start_ranks(own, ["--standalone", "--nproc-per-node", texts["nproc"]], program)
    is_script = kind == "script" and os.path.basename(rest[0]) == "torchrun"
    if is_script or (kind == "module" and rest[0] == "torch.distributed.run"):
        found = split_launcher(rest[1:])
        if found is not None:
            start_ranks(own, *found)


def clean(error: BaseException) -> types.TracebackType | None:
    """Remove our own frames: those above the program's first line, and hooks.

    Frames of functions that the program called stay, and so does an error of our own.
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
    if isinstance(error, KeyboardInterrupt) or owner_of(entries[-1][0]) is not Owner.OURS:
        entries = without_hooks(entries)
    for (_, entry), (_, below) in itertools.pairwise(entries):
        entry.tb_next = below
    entries[-1][1].tb_next = None
    return entries[0][1]


def without_hooks(entries: list[Entry]) -> list[Entry]:
    """Remove our functions that torch or an import called: around a closure, or at Ctrl-C."""
    kept: list[Entry] = []
    for name, entry in entries:
        hooked = kept != [] and owner_of(kept[-1][0]) is Owner.TORCH
        if not (name in (__file__, *AROUND) or (hooked and owner_of(name) is Owner.OURS)):
            kept.append((name, entry))
            continue
        while kept and kept[-1][0].startswith(
            IMPORT
        ):  # Python would hide these without our frame in between
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
    path = os.path.abspath(path)  # as Python: argv keeps what was typed, __file__ is absolute
    with open(path, "rb") as file:
        source = file.read()
    # As Python does: the program is the module __main__, also for pickle and multiprocessing.
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec"), main.__dict__)


def check_folder(folder: str | None, resume: bool) -> None:
    """Exit with code 3 if the run cannot be written, before the program starts."""
    why = "it holds a run already; give another folder, or --resume to continue it"
    try:
        check_place(folder, resume=resume)
    except FileExistsError:
        pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    else:
        return
    print(f"tensortap: cannot record into '{folder or 'runs'}': {why}", file=sys.stderr)
    sys.exit(3)


def main(options: dict[str, str], words: list[str]) -> None:
    """Run; *options* were checked by cli/commands/run.c, *words* are the program's."""
    texts = {name.replace("-", "_"): text for name, text in options.items()}
    kind, rest = ("module", [texts["m"], *words]) if "m" in texts else ("script", words)
    become_launcher(options, kind, rest)
    if kind == "script" and not os.path.exists(rest[0]):
        is_python = os.path.basename(rest[0]).startswith("python")
        advice = "leave it out" if is_python else "give a file, or -m and a module"
        print(f"tensortap: no script '{rest[0]}'; {advice}", file=sys.stderr)
        sys.exit(2)
    numbers: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(("every", "black_box", "sample_ranks"), int),
        "budget": float,
    }
    names = (*numbers, "only", "exclude", "allow", "keep", "health", "only_ranks", "upload", "disk")
    recording = {name: numbers.get(name, str)(texts[name]) for name in names if texts.get(name)}
    if recording.get("disk") == "none":
        recording["disk"] = None
    watching: dict[str, Any] = {"inputs": "inputs" in texts}
    for name in ("grads", "on_nonfinite"):
        if name in texts:
            watching[name] = None if texts[name] == "none" else texts[name]
    folder, resume = texts.get("output") or None, "resume" in texts
    check_folder(folder, resume)
    make_box = None
    if "black_box" in texts:
        limit = texts.get("black_box_bytes")
        make_box = functools.partial(
            new_box, recording["black_box"], int(limit) if limit else None, "on" in texts
        )
    recording["resume"] = resume
    recording["inference"] = "inference" in texts
    if recording["inference"]:
        watching.setdefault("grads", None)
    watcher = Watcher(folder, recording, watching, make_box)
    supervise(watcher.start, watcher.finish, kind, rest)


def new_box(every: int, limit: int | None, on_spike: bool) -> Any:
    """Return a black box that sees batches from now on."""
    from tensortap.blackbox.writer import black_box

    return black_box(every, limit, on_spike)


def supervise(
    start: Callable[[], None],
    finish: Callable[[BaseException | None], None],
    kind: str,
    rest: Sequence[str],
) -> None:
    """Run the program; *start* when torch has been imported, *finish* whichever way it ends."""
    if "torch" in sys.modules:  # imported by a sitecustomize
        start()
    else:
        when_imported("torch", start)
    atexit.register(finish, None)  # a safety net; finish() runs only once
    try:
        execute(kind, rest)
    except SystemExit as error:
        finish(error)
        raise
    except KeyboardInterrupt as error:
        finish(error)
        show_traceback()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # as Python does: the shell sees the signal
    except BaseException as error:
        show_traceback()
        finish(error)
        if isinstance(error, ModuleNotFoundError):
            advise(error.name)
        raise SystemExit(1) from None  # not sys.exit, which may be the program's
    finish(None)


def advise(module: str | None) -> None:
    """Print which Python ran, if it is not the one that the user calls python3."""
    usual = shutil.which("python3")
    if usual and os.path.dirname(usual) != os.path.dirname(sys.executable):
        print(
            f"tensortap: this was {sys.executable}, which has no module '{module}'; to use {usual},"
            " install tensortap there and start 'python3 -m tensortap run ...'",
            file=sys.stderr,
        )


def show_traceback() -> None:
    """Print the exception as Python would, without our frames."""
    error = sys.exc_info()[1]
    assert error is not None
    traceback = clean(error)
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
