"""The page of recipes: what it tells a program to run can be run."""

from __future__ import annotations

import re
from pathlib import Path

from commands import tensortap

import tensortap as tt

PAGE = Path(__file__).parents[2] / "skills" / "tensortap" / "SKILL.md"


def test_the_command_prints_the_page(tmp_path: Path) -> None:
    assert tensortap("skill", folder=tmp_path).stdout == PAGE.read_text()


def test_every_command_and_option_of_the_page_exists(tmp_path: Path) -> None:
    text = PAGE.read_text()
    found = re.findall(r"(?<!import )tensortap ([a-z]+)((?: [^`\n#]*)?)", text)
    assert len(found) > 8
    for command, rest in found:
        told = tensortap(command, "--help", folder=tmp_path)
        assert told.returncode == 0, command
        for option in re.findall(r"--[a-z-]+", rest.split(" train.py")[0]):
            assert option in told.stdout, f"{command} {option}"
    for name in re.findall(r"tt\.([a-z_]+)\(", text):
        assert hasattr(tt, name)
