"""Help, manual page and completions say the same about every command."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import PROGRAM, check_schema, tensortap

import tensortap as tt

ROOT = Path(__file__).parents[2]
BASH = ROOT / "cli" / "completion" / "tensortap.bash"
ZSH = ROOT / "cli" / "completion" / "_tensortap"
MANUAL = ROOT / "docs" / "tensortap.1"
GUIDE = ROOT / "docs" / "guide" / "command.md"
COMMANDS = [
    "run",
    "replay",
    "ls",
    "show",
    "stats",
    "health",
    "explain",
    "nan",
    "diff",
    "report",
    "serve",
]
COMMANDS += [
    "query",
    "export",
    "upload",
    "download",
    "graph",
    "check",
    "top",
    "rm",
    "examples",
    "skill",
    "help",
]
EVERYWHERE = {"--help", "--usage", "--version"}


def help_of(command: str) -> str:
    done = tensortap(command, "--help", folder=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def options_of(command: str) -> set[str]:
    """Give the options that the help lists at the left."""
    found = re.findall(r"^ {2,6}(?:-\w, )?(--[a-z-]+)", help_of(command), re.MULTILINE)
    return set(found) - EVERYWHERE


def manual() -> str:
    return MANUAL.read_text().replace("\\-", "-")


def complete(*words: str | Path) -> list[str]:
    """Give what bash offers for the last word."""
    script = (
        f"source {BASH}; COMP_WORDS=({' '.join(map(repr, map(str, words)))}); "
        f"COMP_CWORD={len(words) - 1}; _tensortap; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_program_has_these_commands() -> None:
    listed = re.findall(r"^  (\w+) ", tensortap("--help", folder=ROOT).stdout, re.MULTILINE)
    assert listed == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    assert f"For example: tensortap {command}" in help_of(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_every_option(command: str) -> None:
    offered = {word for word in complete(PROGRAM, command, "--") if word.startswith("--")}
    if command == "help":
        offered = EVERYWHERE & offered
    assert offered - EVERYWHERE == options_of(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_zsh_completes_every_option(command: str) -> None:
    line = re.search(rf"^    {command}\) (.*) ;;$", ZSH.read_text(), re.MULTILINE)
    assert line
    text = line.group(1).replace("$json", "--json[").replace("$step", "--step[")
    assert set(re.findall(r"--[a-z-]+", text)) == options_of(command)
    assert f"'{command}:" in ZSH.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_page_names_the_command_and_its_options(command: str) -> None:
    text = manual()
    if command != "help":
        assert f".B tensortap {command}\n" in text
    for option in options_of(command):
        assert option in text, option


def test_bash_completes_commands_and_formats() -> None:
    assert complete(PROGRAM, "s") == ["show", "stats", "serve", "skill"]
    assert complete(PROGRAM, "export", "run", "--to", "p") == ["pt", "parquet"]
    assert complete(PROGRAM, "help", "na") == ["nan"]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "help"])
def test_the_guide_names_the_command(command: str) -> None:
    assert f"`tensortap {command}" in GUIDE.read_text()


def keys_of(answered: Any) -> set[str]:
    """Give all keys of a JSON answer, those inside too."""
    if isinstance(answered, list):
        return set().union(*map(keys_of, answered))
    if isinstance(answered, dict):
        return set(answered).union(*map(keys_of, answered.values()))
    return set()


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("`ls`", "ls"),
        ("`health --format json`", "health bad --format json"),
        ("`show`", "show bad"),
        ("`show --settings`", "show good --settings"),
        ("`stats`", "stats bad *"),
        ("`nan`", "nan bad"),
        ("`diff`", "diff bad good"),
        ("`check`", "check bad"),
        ("`top`", "top bad"),
        ("`stats`", "export bad --to json -o -"),
        ("`rm`, `ls --keep-last N`", "rm --yes good"),
        ("`rm`, `ls --keep-last N`", "ls --keep-last 0 --yes"),
    ],
)
def test_an_answer_in_json_fits_its_schema_and_the_guide_has_every_key(
    title: str, words: str, tmp_path: Path
) -> None:
    for name in ("good", "bad"):
        with tt.record(tmp_path / name, keep="hist") as run:
            run.setting(0, "optimizer/lr", "0.1")
            for step in range(3):
                run.log("loss", 1 / (step + 1))
                bad = np.nan if name == "bad" and step == 2 else 1.0
                run.tensor("activation/fc", np.array([bad, step], np.float32))
                run.step()
    guide = GUIDE.read_text().partition("## `--json`")[2]
    point = guide.partition("A **point** has")[2].partition("\n\n")[0]
    answer = guide.partition("An **answer** is")[2].partition("\n\n")[0]
    row = guide.partition(f"| {title} |")[2].partition("\n")[0]
    every = guide.partition("Every answer is an object")[2].partition("\n\n")[0]
    health = guide.partition("| `health --format json` |")[2].partition("\n")[0]
    row += health if "members of `health`" in row else ""
    told = set(re.findall(r"`([a-z_0-9]+)`", every + row + point + answer))
    done = tensortap(*words.split(), *["--json"] * ("json" not in words), folder=tmp_path)
    answered = json.loads(done.stdout)
    assert keys_of(answered) <= told
    check_schema(answered, "settings" if "--settings" in words else title.split("`")[1].split()[0])
