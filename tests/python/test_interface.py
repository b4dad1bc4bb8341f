"""What is public stays as the last release had it, unless the changes say otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
pytest.importorskip("torch")  # public classes of the front ends derive from its own
import interface


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    return interface.listing()


def test_nothing_public_changed_without_a_word_in_the_changelog(now: dict[str, str]) -> None:
    version, before = interface.released()
    broken = interface.undeclared(before, now, interface.unreleased())
    assert broken == [], (
        f"different from {version}: name it in CHANGELOG.md under [Unreleased], or keep it"
    )


def test_the_listing_knows_python_c_commands_and_schemas(now: dict[str, str]) -> None:
    assert now["python tensortap.record(path)"] == "place 0 or by name, default None"
    assert now["python tensortap.record(keep)"] == "by name, default 'stats'"
    assert now["python tensortap.Run.series(name)"] == "place 0 or by name, required"
    assert now["python tensortap.Stats.mean"] == "attribute"
    assert now["c TT_EIO"] == "-2"
    assert now["c TT_F64"] == "0"
    assert now["c tt_version"] == "const char *tt_version(void)"
    assert now["c tt_error.0"] == "char text[240]"
    assert now["command nan --json"] == "option"
    assert now["schema answer properties kind enum finding"] == "listed"


BEFORE = {
    "python tt.f": "function",
    "python tt.f(x)": "place 0 or by name, required",
    "c tt_g": "int tt_g(void)",
}


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"python tt.h": "function", "python tt.h(y)": "place 0, required"}, []),
        ({"python tt.f(y)": "by name, default 1"}, []),
        ({"python tt.f(y)": "by name, required"}, ["python tt.f(y)"]),
        ({"python tt.f(x)": "place 0 or by name, default 1"}, ["python tt.f(x)"]),
        ({"c tt_g": None}, ["c tt_g"]),
        ({"c tt_g": "long tt_g(void)"}, ["c tt_g"]),
    ],
)
def test_only_what_can_break_a_program_is_broken(
    change: dict[str, str | None], broken: list[str]
) -> None:
    now = {name: said for name, said in {**BEFORE, **change}.items() if said is not None}
    found = interface.undeclared(BEFORE, now, "- nothing that matters")
    assert [line.partition(":")[0] for line in found] == broken
    assert interface.undeclared(BEFORE, now, "- `tt_g`, `x` and `y` of `tt.f`") == []
