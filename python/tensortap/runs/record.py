"""Record a run: `with tt.record("runs/today", model=model) as run: ...`.

The work is done in C (`_core.Recorder`); this file reads the options, finds out
where and when the run takes place, and says so in the run.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from tensortap import _core
from tensortap.display import session
from tensortap.runs import process, program
from tensortap.runs.arrays import TOKENS
from tensortap.runs.places import Places
from tensortap.runs.steps import FORWARDS_ARE_STEPS, Steps
from tensortap.runs.tokens import keep_loaded
from tensortap.runs.watch import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self

    import torch

    from tensortap.answers.guard import Guard
    from tensortap.blackbox.box import Box
    from tensortap.runs.watch import Grads, OnNonFinite

MOST_SHOWN = 3  # names in a repr
LEAST_DISK = 10**6  # bytes of a run, below which there is nothing to thin
BY_HAND = "run.batch"  # the loader of batches that the program names itself


class Recording(_core.Recorder):
    """A run that is being written; use it as a context manager, or `close()` it."""

    path: Path  # the folder
    file: Path  # of this rank
    follows: bool = False  # forked children record too
    only: str = "*"
    allow: str | None = None
    guard: Guard | None = None  # with record(health=...)
    box: Box | None = None  # the black box
    is_idle: bool = False  # this rank does not record
    upload: str | None = None  # where this process has the run copied to
    keeps_tokens: bool = False  # sketches of tokens, with what says which these are
    _has_checked_only = False
    _home: str  # the folder, wherever a child may be
    _options: dict[str, Any]

    def step(self) -> None:
        """End the step; the next one begins.

        The first call takes over from the optimizers, which count steps until then.
        """
        for watcher in list(self.watchers):
            if isinstance(watcher, Watched):
                watcher.end_step()
        if self.guard is not None:
            self.guard.check()
        super().step()
        if self.box is not None:
            self.box.step_ended()

    def batch(self, batch: Any) -> Any:
        """Keep a batch that no DataLoader returned in the black box.

        Returns:
            The batch; where a step is replayed, the one that was kept.

        Example:
            >>> import torch, tensortap as tt
            >>> with tt.record("runs/by-hand", black_box=8) as run:
            ...     x, y = run.batch((torch.zeros(2), torch.ones(2)))
        """
        return batch if self.box is None else self.box.batch_drawn(BY_HAND, batch, None)

    def dump(self) -> Path | None:
        """Write the black box now.

        Returns:
            The file; None if no step has begun yet, or the disk is full.

        Raises:
            RuntimeError: The run has no black box.
        """
        if self.box is None:
            raise RuntimeError("the run has no black box; open it with tt.record(..., black_box=8)")
        return self.box.dump("asked")

    def close(self, *, timeout: float = 60.0) -> None:
        """Write what is left and end the file; the innermost run is the one around it again."""
        process.leave(self)
        if self.closed:
            return
        if self.inherited:  # a forked child: nothing of this is its own
            super()._leave()
            return
        self._thinned = self.thinned()
        for watcher in list(self.watchers):
            if isinstance(watcher, Steps):
                watcher.warn_of_gaps()
        self.check_only()
        if self.guard is not None:
            self.guard.raises = False  # it ends anyway
            self.guard.check(now=True)
        if self.box is not None:
            self.box.close()
        super().close(timeout=timeout)
        if self.upload is not None:
            from tensortap.cloud import upload as uploads

            uploads.finish(self.path, self.upload)

    def check_only(self) -> None:
        """Warn once about each glob in *only* that matches nothing seen so far."""
        if self._has_checked_only:
            return
        self._has_checked_only = True
        seen = self.names("*")
        for glob in self.only.split(",") if seen else []:
            if not self.names(glob):
                session.warn(
                    f"tensortap: only={glob!r} matches none of the {len(seen)} names seen in the "
                    f"first step{_nearest(glob, self)}",
                    run=self,
                )

    def go_on(self) -> None:
        """Record in a forked child too, from its next event on, into a file of its own."""
        self._follow(self._child)

    def _child(self) -> _core.Recorder:
        info = {**self._options["info"], "pid": str(os.getpid()), "parent": str(os.getppid())}
        options = {**self._options, "info": info, "resume": False, "child": os.getpid()}
        other = _core.Recorder(self._home, **options)
        for watcher in self.watchers:
            if isinstance(watcher, Places):
                watcher.forget()
        self.file = self.path / f"rank{options['rank']}.{os.getpid()}.tap"
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._stop(error)
        self.close()

    def _stop(self, error: BaseException | None) -> None:
        """Note in the run which exception ended the program; sys.exit(0) is none."""
        if error is None or self.closed or (isinstance(error, SystemExit) and not error.code):
            return
        if self.box is not None:
            finding = sys.modules.get("tensortap.answers.finding")  # nothing is imported at the end
            is_rule = finding is not None and isinstance(error, finding.UnhealthyError)
            self.box.program_ended(error, "health" if is_rule else "exception")
        what = type(error).__name__
        self.note(
            f"stopped by {what}"
            if program.is_private() or not str(error)
            else f"stopped by {what}: {error}"[:500]
        )

    def __repr__(self) -> str:
        from tensortap.runs.describe import share

        counts = self.counts
        size = counts["bytes"]
        if self.closed and self.file.exists():
            size = self.file.stat().st_size
        parts = [f"step {self.current_step}", f"{counts['events']} events", f"{size / 1e6:.3g} MB"]
        parts.append(f"cost {share(self.cost)}")
        if counts["dropped_events"]:
            parts.append(f"{counts['dropped_events']} dropped")
        thinned = getattr(self, "_thinned", None) or self.thinned()
        if thinned:
            rarest = sorted(thinned, key=lambda name: -thinned[name])[:MOST_SHOWN]
            more = f" and {len(thinned) - len(rarest)} more" if len(thinned) > len(rarest) else ""
            shown = ", ".join(f"{name} every {thinned[name]}" for name in rarest)
            parts.append(f"thinned: {shown}{more}")
        parts.append(
            f"stopped: {self.error}" if self.error else "closed" if self.closed else "open"
        )
        return f"<Recording {str(self.path)!r}: {', '.join(parts)}>"


class Idle(Recording):
    """The run of a rank that does not record: what the program tells it is ignored."""

    is_idle = True

    def step(self) -> None:
        """Count the step."""
        self.current_step += 1

    def batch(self, batch: Any) -> Any:
        """Return the batch."""
        return batch

    def dump(self) -> None:
        """Write nothing."""

    def log(self, *_: Any) -> None:
        """Record nothing."""

    def tensor(self, *_: Any, **__: Any) -> None:
        """Record nothing."""

    note = module = log

    def flush(self) -> None:
        """Write nothing."""

    def names(self, _glob: str, /) -> list[str]:
        """Return no name."""
        return []

    def __repr__(self) -> str:
        return f"<Recording {str(self.path)!r}: this rank does not record>"


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    model: torch.nn.Module | None = None,
    optimizer: Any = None,
    inputs: bool = False,
    inference: bool = False,
    grads: Grads = "parameters",
    on_nonfinite: OnNonFinite = None,
    allow: str | None = None,
    every: int = 1,
    keep: str = "stats",
    only: str = "*",
    exclude: str | None = None,
    budget: float | None = None,
    overflow: Literal["wait", "drop"] = "wait",
    max_bytes: int | None = None,
    disk: int | str | None = "2GB",
    resume: bool = False,
    follow_fork: bool = False,
    health: Literal["warn", "stop"] | None = None,
    black_box: int | None = None,
    black_box_bytes: int | None = None,
    black_box_on: Literal["spike"] | None = None,
    only_ranks: str | Sequence[int] | None = None,
    sample_ranks: int | None = None,
    upload: str | None = None,
) -> Recording:
    """Record a run until it is closed.

    Numbers given to `run.log` are always recorded; *every*, *keep*, *only* and *exclude* are about
    tensors.

    Args:
        path: Folder of the run. Defaults to `runs/<date>-<time>`.
        model: Model to watch, as with `tt.watch(model)`.
        optimizer, inputs, grads, on_nonfinite: As for `tt.watch`.
        inference: Count forwards in evaluation too: each call of the model is a step. For engines
            and other programs that train nothing.
        allow: A glob of names that may hold NaN or Inf, for *on_nonfinite*, *health* and the black
            box. Masks filled with -inf need none.
        every: Record every n-th step.
        keep: What to keep of tensors: "stats", "hist", "digest", "sample", "value", "tokens" (a
            sketch of each token, for `tt.diff(a, b, align="tokens")`), or several ("stats,value").
            "placed" keeps a digest of parameters that does not depend on how ranks share them.
        only: Record only names that match this glob.
        exclude: Do not record names that match this glob.
        budget: Largest share of the time that watching may take, for example 0.02. Expensive
            tensors are then recorded less often; the run says which.
        overflow: What to do while the disk is too slow: "wait", or "drop" and count.
        max_bytes: Most bytes of values to keep; the oldest are evicted, their statistics stay.
        disk: Most bytes of statistics and numbers that a rank writes, such as "500MB"; None: any.
            A run that grows large has tensors of every 8th step, then every 16th, and so on, and
            all steps around a NaN, a spike, a note and the end. Numbers are thinned last.
        resume: Continue an existing run at the step after its last.
        follow_fork: Record in forked processes too, each into its own file in the folder.
        health: Ask the rules of `tt.health` while the training runs. "warn" prints each finding
            once, when it is certain, and keeps it in the run; "stop" also raises UnhealthyError at
            an optimizer's step or `run.step()` once there is an error.
        black_box: Keep the last steps in memory, with a snapshot of all state every so many steps,
            and write them to disk when something goes wrong. `tensortap replay` runs them again.
        black_box_bytes: Most bytes of memory that it may take. Defaults to half of what is free.
        black_box_on: "spike": write it also when the loss jumps.
        only_ranks: Ranks of a distributed job that record, such as "0-7,12" or [0, 8]. On others
            nothing is watched or written.
        sample_ranks: So many ranks record, evenly spread.
        upload: URL of a folder in an object store, such as "s3://team/runs", into which a process
            of its own copies the run while it is written.

    Returns:
        The open run. Use it as a context manager, or call `close()`.

    Raises:
        FileExistsError: The folder holds a run already, and *resume* is False.
        ValueError: An option has a value that is not accepted.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("runs/today") as run:
        ...     run.log({"loss": 0.5, "lr": 0.1})
        >>> tt.open("runs/today").names()
        ['loss', 'lr']
    """
    _check("every", every, int, "a number of steps, 1 or more", lambda steps: steps >= 1)
    if max_bytes is not None:
        accepted = "a number of bytes, 1 or more, or None"
        _check("max_bytes", max_bytes, int, accepted, lambda count: count >= 1)
    most = _read_size(disk)
    _check("only", only, str, "a glob like 'activation/*'")
    if exclude is not None:
        _check("exclude", exclude, str, "a glob like '*.bias', or None")
    if allow is not None:
        _check("allow", allow, str, "a glob like 'activation/*.log', or None")
    if budget is not None:
        accepted = "a share of the time between 0 and 1 (0.02 is 2 %), or None"
        _check("budget", budget, (int, float), accepted, lambda share: 0 < share < 1)
    if sample_ranks is not None:
        accepted = "a number of ranks, 1 or more, or None"
        _check("sample_ranks", sample_ranks, int, accepted, lambda count: count >= 1)
    if upload is not None:
        _check_url(upload)
    if health not in ("warn", "stop", None):
        raise ValueError(f"health must be 'warn', 'stop' or None, not {health!r}")
    if overflow not in ("wait", "drop"):
        raise ValueError(f"overflow must be 'wait' or 'drop', not {overflow!r}")
    watching: dict[str, Any] = {"inputs": inputs, "grads": grads, "on_nonfinite": on_nonfinite}
    if model is None:
        _check_nothing_watched(optimizer, watching)
    products = _core._read_keep(keep)
    rank, world_size = program.rank_and_size()
    recorded = _recorded_ranks(only_ranks, sample_ranks, rank, world_size)
    if rank not in recorded:
        return _idle(path)
    box = _box(black_box, black_box_bytes, black_box_on)
    if box is not None and box.home is not None:
        path, resume = box.home, False
    folder = _folder(path, rank)
    first = folder / f"rank{recorded[0]}.tap"
    resume = resume or _is_restarted(first)
    file = _file(folder, rank, resume)
    options: dict[str, Any] = {
        "only": only,
        "exclude": exclude,
        "products": products,
        "every": every,
        "rank": rank,
        "resume": bool(resume),
        "drop": overflow == "drop",
        "max_bytes": max_bytes or 0,
        "disk": most,
        "budget": float(budget or 0),
        "info": _info(rank, world_size),
    }
    next_step = _next_step(first, file) if resume else 0
    if resume and world_size > 1:
        options["info"]["resumed"] = f"{_launch_id()} {next_step}"
    if len(recorded) < world_size:
        options["info"]["recorded_ranks"] = program.write_ranks(recorded)
    run = Recording(os.fspath(folder), **options)
    run.path, run.file, run.only, run.allow = folder, file, only, allow
    if follow_fork:
        run.follows, run._home, run._options = True, os.path.abspath(folder), options
    run.current_step = next_step
    if untested := program.untested(options["info"]):
        run.note(untested)
        if rank == recorded[0]:
            print(f"tensortap: {untested}", file=sys.stderr)
    if upload is not None and program.is_first_of_node():
        run.upload = upload
        _start_upload(run, folder, upload)
    run.keeps_tokens = bool(products & TOKENS)
    if inference:
        run.is_inference, run.forwards = True, FORWARDS_ARE_STEPS
    if run.keeps_tokens:
        keep_loaded()
    if world_size > 1:
        Places.of(run)
    if box is not None:
        run.box = box
        box.open(run, folder, (rank, world_size), program.command())
    if health is not None:
        from tensortap.answers.guard import Guard

        Steps.of(run).guard = run.guard = Guard(run, health, allow)
    process.enter(run)
    if model is not None:
        try:
            Watched(run, model, optimizer=optimizer, **watching)
        except BaseException:
            run.close()
            raise
    return run


def _check_url(upload: str) -> None:
    from tensortap.cloud.stores import is_url

    if not is_url(upload):
        raise ValueError(f"upload must be a URL like 's3://team/runs', or None, not {upload!r}")


def _start_upload(run: Recording, folder: Path, url: str) -> None:
    """Start the process that copies the run; the training goes on without it if that fails."""
    from tensortap.cloud import upload

    try:
        upload.start(folder.absolute(), url)
    except (OSError, ValueError, RuntimeError) as error:
        session.warn(f"tensortap: the upload could not be started: {error}", run=run)


def _recorded_ranks(
    only: str | Sequence[int] | None, count: int | None, rank: int, world_size: int
) -> list[int]:
    """Return the ranks that record; the only one of a program that is not distributed does."""
    chosen = program.read_ranks(only) if isinstance(only, str) else only
    accepted = all(isinstance(one, int) and one >= 0 for one in chosen or ())
    if not accepted:
        raise ValueError(f"only_ranks must be numbers of ranks or like '0-7,12', not {only!r}")
    if world_size == 1:
        return [rank]
    chosen = sorted(set(chosen)) if chosen is not None else None
    return program.choose_ranks(chosen, count, max(world_size, rank + 1))


def _idle(path: str | os.PathLike[str] | None) -> Recording:
    """Return the run of a rank that does not record."""
    from pathlib import Path

    run = Idle("")
    run.path = Path(os.fsdecode(path)) if path is not None else Path("runs")
    run.file = run.path / "none"
    process.enter(run)
    return run


def check_place(path: str | None, *, resume: bool) -> None:
    """Raise OSError if `record(path)` could not write; leave everything as it is."""
    rank, world_size = program.rank_and_size()
    if path is None:
        where = "runs" if os.path.exists("runs") else "."
        if not os.access(where, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), where)
        return
    folder = _folder(path, rank)
    first = folder / "rank0.tap"
    file = _file(folder, rank, resume or _is_restarted(first))
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if file.exists():
        with open(file, "r+b"):
            _next_step(first, file)
    else:
        with open(file, "xb"):
            file.unlink()
    if world_size == 1:  # else another rank may be about to write there
        for one in made:
            one.rmdir()


def _nearest(glob: str, run: Recording) -> str:
    """Return a hint with the names that are most like this one."""
    from difflib import get_close_matches

    part = glob.strip("*")
    holding = run.names(f"*{part}*")
    if part and holding:
        return f"; did you mean '*{part}*', which matches {holding[0]!r}?"
    names = run.names("*")
    if "/" in glob and "*" in glob:  # 'gradent/*': a wrong kind
        kind, _, rest = glob.partition("/")
        kinds = get_close_matches(kind, {name.partition("/")[0] for name in names}, 1)
        names = [f"{kinds[0]}/{rest}"] if kinds and run.names(f"{kinds[0]}/{rest}") else names
    near = get_close_matches(glob, names, MOST_SHOWN)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


# ---- options


def _read_size(disk: int | str | None) -> int:
    """Return the bytes of "2GB", "500 MB", 10**9; 0 for None."""
    accepted = f"bytes from {LEAST_DISK} on (1 MB), a text such as '500MB' or '2GB', or None"
    if disk is None:
        return 0
    if isinstance(disk, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMGT]?)B?", disk)
        if found is None:
            raise ValueError(f"disk must be {accepted}, not {disk!r}")
        size = int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " "))
    else:
        _check("disk", disk, int, accepted)
        size = disk
    if size < LEAST_DISK:
        raise ValueError(f"disk must be {accepted}, not {disk!r}")
    return size


def _check(
    name: str,
    value: Any,
    kind: type | tuple[type, ...],
    accepted: str,
    fits: Callable[[Any], bool] = lambda _: True,
) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {accepted}, not {value!r}")
    if not fits(value):
        raise ValueError(f"{name} must be {accepted}, not {value!r}")


def _box(every: int | None, limit: int | None, on: str | None) -> Box | None:
    """Return the black box that was asked for: the one that waits, or a new one."""
    if every is None:
        return None
    _check("black_box", every, int, "a number of steps, 1 or more, or None", lambda n: n >= 1)
    if limit is not None:
        accepted = "a number of bytes, 1 or more, or None"
        _check("black_box_bytes", limit, int, accepted, lambda count: count >= 1)
    if on not in (None, "spike"):
        raise ValueError(f"black_box_on must be 'spike' or None, not {on!r}")
    from tensortap.blackbox.box import waiting
    from tensortap.blackbox.writer import black_box

    return waiting.pop() if waiting else black_box(every, limit, on == "spike")


def _check_nothing_watched(optimizer: object, watching: dict[str, Any]) -> None:
    """Raise ValueError for options that are about a model: none was given."""
    if optimizer is not None:
        raise ValueError("optimizer needs model: parameters get their names from it")
    for name, usual in (("inputs", False), ("grads", "parameters"), ("on_nonfinite", None)):
        if watching[name] != usual:
            raise ValueError(
                f"{name} needs model: give both to tt.record, or {name} to tt.watch(model)"
            )


def _folder(path: str | os.PathLike[str] | None, rank: int) -> Path:
    """Return the folder of the run; a new one of its own if none was asked for."""
    from pathlib import Path

    if path is not None:
        try:
            folder = Path(os.fsdecode(os.fspath(path)))
        except TypeError:
            raise TypeError(f"path must be a folder's name or None, not {path!r}") from None
        if not os.fspath(path):
            raise ValueError("path must be a folder's name or None, not ''")
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file; a run is a folder")
        return folder
    is_alone = program.rank_and_size()[1] == 1
    # The ranks of one job meet in one folder: they have one launcher, which began once.
    stem = time.strftime("%Y-%m-%d-%H%M%S", time.localtime() if is_alone else _launched())
    for attempt in range(1000):
        folder = Path("runs") / (stem if attempt == 0 else f"{stem}-{attempt + 1}")
        try:
            folder.mkdir(parents=True)  # taken: two programs may start in one second
        except FileExistsError:
            if is_alone or (folder / f"rank{rank}.tap").exists():
                continue
        return folder
    raise FileExistsError(f"runs/{stem}: a thousand runs began in this second; give a path")


def _file(folder: Path, rank: int, resume: bool) -> Path:
    """Return the file of this rank; raise FileExistsError where one must not be continued."""
    file = folder / f"rank{rank}.tap"
    if not resume and file.exists():
        raise FileExistsError(
            f"{folder} holds a run already: give another path, or resume=True to go on with it"
        )
    return file


def _launched() -> time.struct_time:
    """Return when the parent process began."""
    from pathlib import Path

    try:
        parent = Path(f"/proc/{os.getppid()}/stat").read_text(errors="replace")
        fields = parent.rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime"))
        return time.localtime(boot + int(fields[19]) // os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, StopIteration):
        return time.localtime()


def _is_restarted(first: Path) -> bool:
    """Return whether torchrun has started the ranks of this run again, after one had failed."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0" or not first.exists():
        return False
    reader = _core.RunReader(os.fspath(first))
    try:
        written = reader.info(0)
    finally:
        reader.close()
    return written.get("elastic_run") == os.environ.get("TORCHELASTIC_RUN_ID")


def _launch_id() -> str:
    """Return what all ranks have that one launcher started together, and no others."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    if name == "none":  # nobody has named it
        name = time.strftime("%Y-%m-%d-%H%M%S", _launched())
    return f"{name}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _next_step(first: Path, file: Path) -> int:
    """Return the step after the last one recorded; the same on all ranks.

    Args:
        first: File of the first rank that records, by which all count. It may have been opened
            again already.
        file: That of this rank.
    """
    known = first if first.exists() else file
    if not known.exists():
        return 0
    reader = _core.RunReader(os.fspath(known))
    try:
        ((_, _, is_closed, *_, last, _, _, stopped),) = reader.files()
        launch, _, step = reader.info(0).get("resumed", "").rpartition(" ")
    finally:
        reader.close()
    if launch == _launch_id():
        return int(step)
    # Ranks that were stopped may be in the step after this one's last.
    is_alone = program.rank_and_size()[1] == 1
    return int(last) + (1 if is_alone or (is_closed and stopped is None) else 2)


# ---- where, when and with what


def _info(rank: int, world_size: int) -> dict[str, str]:
    info = {
        "start": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "rank": str(rank),
        "world_size": str(world_size),
        **program.launch(),
        "pid": str(os.getpid()),
        "tensortap": _core.version,
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    for name in ("torch", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            info[name] = str(version)
    if not program.is_private():
        import json
        import socket

        info["host"] = socket.gethostname()
        info["argv"] = json.dumps(program.masked(getattr(sys, "argv", [])))
        info["cwd"] = program.cwd()
        commit = program.commit(info["cwd"])
        if commit:
            info["commit"] = commit
    return {key: _plain(value) for key, value in info.items()}


def _plain(text: str) -> str:
    """Make any text one that can be stored: names of files may hold anything."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
