#!/usr/bin/env python3
"""Run the commands written down in .t files and compare what they print, to the byte.

A .t file is a list of blocks:

    # a comment
    # env: NAME=value          for all commands that follow
    # most: 256 MB, 10 s       memory and processor time that a command that follows may take
    $ tensortap --version
    tensortap 0.1.0
    $ tensortap nonsense
    tensortap: no command 'nonsense'; 'tensortap help' lists them
    [2]

A command is one line for sh; its standard output and error follow it, together; `[N]` is its
exit code where that is not 0, and `\\ no newline` says that its last line has no end.  No line
of an answer may begin with `#` or `$ `: pipe such a command through sed.  All
commands of a file run in one empty folder, with LANG=C.UTF-8, TZ=UTC, and the program and
make_run (which records runs with known content) first on PATH.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import difflib
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT = 240  # seconds for one command; under a sanitizer, on a busy machine
NO_NEWLINE = "\\ no newline\n"


def run(command: str, folder: str, env: dict[str, str], most: tuple[float, float] | None) -> str:
    """Return what the command printed, and its exit code, as a .t file writes them.

    *most*: megabytes and seconds; more is written down as part of the answer.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = done.stdout.decode("utf-8", "backslashreplace")
    if text and not text.endswith("\n"):
        text += "\n" + NO_NEWLINE
    if done.returncode != 0:
        text += f"[{done.returncode}]\n"
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if most is not None and seconds > most[1]:
        text += f"took {seconds:.1f} s\n"
    # The largest child so far; what came before is not charged to this one.
    if most is not None and after.ru_maxrss > max(before.ru_maxrss, most[0] * 1000):
        text += f"took {after.ru_maxrss / 1000:.0f} MB\n"
    return text


def is_sanitized(program: Path) -> bool:
    """Tell whether the program was built with a sanitizer."""
    return b"__asan_init" in program.read_bytes() or b"__tsan_init" in program.read_bytes()


def replay(path: Path, program: Path, maker: Path) -> tuple[str, str]:
    """Return the file as it is and as it would be if every answer were right."""
    old = path.read_text(encoding="utf-8")
    env = {
        "PATH": f"{program.parent}:{maker.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    for name, value in os.environ.items():  # the sanitizers' settings
        if name.endswith("SAN_OPTIONS"):
            env[name] = value
    new = ""
    with tempfile.TemporaryDirectory(prefix="tensortap-cli-") as folder:
        env["HOME"] = folder
        is_answer = False
        most = None
        for line in old.splitlines(keepends=True):
            if line.startswith("$ "):
                new += line + run(line[2:], folder, env, most)
                is_answer = True
            elif line.startswith("#") or (line == "\n" and not is_answer):
                new += line
                is_answer = False
                if line.startswith("# env: "):
                    name, _, value = line[len("# env: ") :].rstrip("\n").partition("=")
                    env[name] = value
                # A sanitizer takes memory and time of its own.
                if line.startswith("# most: ") and not is_sanitized(program):
                    memory, time = line[len("# most: ") :].rstrip("\n").split(", ")
                    most = (float(memory.removesuffix(" MB")), float(time.removesuffix(" s")))
    return old, new


def main() -> int:
    parser = argparse.ArgumentParser(description="Run .t files.")
    parser.add_argument("--program", type=Path, required=True, help="the tensortap program")
    parser.add_argument("--maker", type=Path, required=True, help="the make_run program")
    parser.add_argument("--update", action="store_true", help="write the answers into the files")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.t")
    args = parser.parse_args()
    failed = 0
    for path in args.files:
        old, new = replay(path, args.program.resolve(), args.maker.resolve())
        if old == new:
            print(f"ok      {path.name}")
        elif args.update:
            path.write_text(new, encoding="utf-8")
            print(f"updated {path.name}")
        else:
            failed += 1
            print(f"FAILED  {path.name}")
            sys.stdout.writelines(
                difflib.unified_diff(
                    old.splitlines(keepends=True),
                    new.splitlines(keepends=True),
                    f"{path.name} (expected)",
                    f"{path.name} (printed)",
                )
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
