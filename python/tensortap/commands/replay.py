"""Run a program again from a black box: the Python half of `tensortap replay`.

The program runs in a process of its own, one for each rank; this one starts it, and prints the
verdict.  A second process runs the last step without torch.compile where the first one compiled.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import math
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import tensortap
from tensortap import _core
from tensortap.blackbox import box, file
from tensortap.blackbox.replayer import Replayer, run_eagerly
from tensortap.blackbox.verdict import VERDICTS, conclude
from tensortap.commands.run import Watcher, supervise
from tensortap.display.lines import wrapped
from tensortap.operators import origin_report
from tensortap.runs.program import MASK, hash_of
from tensortap.runs.replay import find

CHILD = """
import sys
sys.path[:1] = []
from tensortap.commands import replay
replay.child(sys.argv[1])
"""
SCHEMA = 1  # of the answer as JSON: docs/schemas/replay.json
QUICK = 60.0  # seconds up to the failing step: then the program is run from its first one
SECONDS = 30  # that the other ranks have to end after the first
Facts = dict[str, Any]


class Unplayable(Exception):
    """The step cannot be replayed, and why."""


def main(options: dict[str, str], words: list[str]) -> None:
    """Replay; *words* are the run, then the program and its arguments, if they were named."""
    try:
        code = replay(options, *words)
    except (Unplayable, file.DamagedError) as error:
        result = {"verdict": "unplayable", "reason": str(error)}
        print_result(result, words[0], "json" in options)
        code = VERDICTS["unplayable"][1]
    except FileNotFoundError as error:
        print(f"tensortap: {error}", file=sys.stderr)
        code = 3 if not os.path.exists(words[0]) else 2
    sys.exit(code)


def replay(options: dict[str, str], run: str, *command: str) -> int:
    """Run the step again and print what became of it; return the exit code."""
    step = int(options["step"]) if "step" in options else None
    paths = find(Path(run), step)
    facts = [file.read_facts(path)[0] for path in paths]
    check_ranks(facts)
    kind, words = command_of(facts[0], command, run, is_sure="yes" in options)
    is_bad = facts[0]["cause"] == "not finite"
    wants_ops = "ops" in options or ("no-ops" not in options and is_bad)
    from_start = "from-start" in options
    how = {"kind": kind, "words": words, "step": step, "ops": wants_ops, "from_start": from_start}
    paths = [path.absolute() for path in paths]
    if not command and facts[0]["program"].get("cwd"):
        enter(facts[0]["program"]["cwd"])
    with tempfile.TemporaryDirectory(prefix="tensortap-replay-") as folder:
        is_eager = "eager" in options
        eager = "program" if is_eager else ""
        result = worst(run_ranks(paths, facts, {**how, "eager": eager}, folder))
        seconds = facts[0].get("seconds", math.inf)
        if result["verdict"] == "unreproduced" and not from_start:
            result["seconds"] = seconds
            if seconds < QUICK:
                how["from_start"] = True
                again = worst(run_ranks(paths, facts, {**how, "eager": eager}, folder))
                if again["verdict"] != "unplayable":
                    kept = ("changed_variables",)  # how the first try differs from the run
                    result = {**again, **{key: result[key] for key in kept}}
        is_there = result["verdict"] in ("bits", "noise")
        if result["is_compiled"] and not is_eager and is_there:
            again = worst(run_ranks(paths, facts, {**how, "eager": "step"}, folder))
            result["eager"] = again["verdict"]
            found = (result.get("operators") or {}).get("first_bad") or {}
            if again["verdict"] in ("transient", "unreproduced"):
                result["verdict"] = "compiled"
            elif not found.get("certain"):  # now the operators inside of compiled code are known
                result |= {key: again[key] for key in ("report", "operators") if key in again}
    program = facts[0]["program"]
    if program.get("hash") not in (None, hash_of(str(program.get("file")))):
        result["changed"] = program.get("file")
    print_result(result, run, "json" in options)
    return VERDICTS[result["verdict"]][1]


# ---- what to run


def check_ranks(facts: list[Facts]) -> None:
    """Raise Unplayable if a rank is missing, or if this job has another number of them."""
    size = facts[0]["world_size"]
    ranks = [one["rank"] for one in facts]
    if ranks != list(range(size)):
        have = ", ".join(map(str, ranks))
        raise Unplayable(f"the run had {size} ranks; there are black boxes of rank {have} only")
    now = os.environ.get("WORLD_SIZE")
    if now is not None and now != str(size):
        raise Unplayable(f"the run had {size} ranks, and this job has {now}")


def command_of(
    facts: Facts, command: Sequence[str], run: str, *, is_sure: bool
) -> tuple[str, list[str]]:
    """Return "script" or "module" and the words; ask before running a command of the run folder."""
    if command:
        is_module = command[0] == "-m" and len(command) > 1
        return ("module", [*command[1:]]) if is_module else ("script", [*command])
    kept = facts["program"]
    words = kept.get("command", [])
    hint = f"give it: tensortap replay {shlex.quote(run)} -- train.py ..."
    if not words:
        raise Unplayable(f"the run does not say which command made it; {hint}")
    if any(MASK in word for word in words):
        raise Unplayable(f"a secret in the command was not kept; {hint}")
    if not is_sure:
        ask(kept, words, run)
    return ("module" if kept.get("kind") == "module" else "script"), words


def ask(kept: Facts, words: list[str], run: str) -> None:
    """Ask if the command of a run folder may run: whoever wrote the folder chose it."""
    shown = _core._escape(shlex.join([*(["-m"] if kept.get("kind") == "module" else []), *words]))
    print(f"{run} was made by: {shown}", file=sys.stderr)
    print(f"in {_core._escape(str(kept.get('cwd')))}", file=sys.stderr)
    if not sys.stdin.isatty():
        print("tensortap: give --yes to run it, or name the script after --", file=sys.stderr)
        sys.exit(2)
    print("Run it again? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.exit(2)


def enter(folder: str) -> None:
    """Go to the folder that the program ran in."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise Unplayable(f"the folder {folder!r} of the program: {error.strerror}") from None


def run_ranks(
    paths: list[Path], facts: list[Facts], how: Facts, folder: str
) -> list[dict[str, Any]]:
    """Run the program in one process for each rank; return the results."""
    size = len(paths)
    home = tempfile.mkdtemp(dir=folder)
    children = []
    port = str(_free_port()) if size > 1 else ""
    for rank, path in enumerate(paths):
        plan = {**how, "path": os.path.abspath(path), "home": f"{home}/run"}
        plan |= {
            "result": f"{home}/result{rank}",
            "is_by_command": facts[rank].get("is_by_command"),
        }
        Path(f"{home}/plan{rank}").write_text(json.dumps(plan))
        env = dict(os.environ)
        if size > 1:
            numbers = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": size,
                "LOCAL_WORLD_SIZE": size,
            }
            env |= {name: str(number) for name, number in numbers.items()}
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        children.append(
            subprocess.Popen([sys.executable, "-c", CHILD, f"{home}/plan{rank}"], env=env)
        )
    _wait(children)
    return [_result_of(Path(f"{home}/result{rank}"), child) for rank, child in enumerate(children)]


def _wait(children: list[subprocess.Popen[bytes]]) -> None:
    """Wait for all; once one has ended, the others have some time."""
    try:
        for i, child in enumerate(children):
            child.wait(timeout=SECONDS if i else None)
    except subprocess.TimeoutExpired:
        pass
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()


def _result_of(path: Path, child: subprocess.Popen[bytes]) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        why = f"the program ended with code {child.returncode} before a step was replayed"
        return {"verdict": "unplayable", "reason": why, "is_compiled": False}
    return result


def _free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


def worst(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the result that speaks for all ranks, with the operators of one that has them."""
    order = ("unplayable", "unreproduced", "transient", "noise", "bits")
    chosen = min(results, key=lambda one: order.index(one["verdict"]))
    if all("total" in one for one in results):
        chosen = {**chosen, "equal": sum(one["equal"] for one in results)}
        chosen["total"] = sum(one["total"] for one in results)
    for one in sorted(results, key=lambda one: "gradient/" in one.get("text", "")):
        # A bad gradient may have come from another rank.
        if (one.get("operators") or {}).get("first_bad"):
            return {**chosen, "report": one["report"], "operators": one["operators"]}
    return chosen


# ---- what came of it


def print_result(result: dict[str, Any], run: str, is_json: bool) -> None:
    """Print the verdict and what else is known."""
    answer = conclude(result, run)
    if is_json:
        print(json.dumps({"schema": SCHEMA, **result, "answers": [answer.to_dict()]}))
    else:
        for line in answer.lines:
            print(line if line in answer.next else wrapped(line))


# ---- the process that runs the program


def child(plan_path: str) -> None:
    """Run the program of a plan, and write the result; called in a process of its own."""
    plan = json.loads(Path(plan_path).read_text())
    sys.argv = ["-c"]
    made: list[Any] = []

    def write(result: dict[str, Any]) -> NoReturn:
        log = made[0].log
        if log is not None:
            result |= {"report": origin_report(log), "operators": log.to_dict()}
        Path(plan["result"]).write_text(json.dumps(result))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # the program has nothing more to do: no handler of its may run

    def make() -> Any:
        if plan["eager"] == "program":
            run_eagerly()
        operators = partial(tensortap.ops, eager=bool(plan["eager"])) if plan["ops"] else None
        made.append(
            Replayer(
                *file.read(plan["path"]),
                plan["home"],
                step=plan["step"],
                operators=operators,
                eager=plan["eager"] == "step",
                from_start=plan["from_start"],
                then=write,
            )
        )
        return made[0].box

    def put() -> None:
        box.waiting.append(make())

    program = (plan["kind"], plan["words"])
    start, finish = put, lambda error: None  # a program that opens its own run closes it
    if plan["is_by_command"]:
        watcher = Watcher(plan["home"], {"black_box": 1}, {}, make)
        start, finish = watcher.start, watcher.finish
    with suppress(SystemExit):  # an error was noted where the run was closed
        supervise(start, finish, *program)
    if made:
        made[0].box.program_ended(None)
