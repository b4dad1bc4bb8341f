"""What differs between two runs before any number is compared: inputs, shapes, types, optimizers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer, check_schema, tensortap

import tensortap as tt

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


def make() -> nn.Module:
    """Return the same model each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


def batches(seed: int, count: int = 6, size: int = 4) -> list[torch.Tensor]:
    """Return the same batches for each seed."""
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(size, 6, generator=made) for _ in range(count)]


def train(folder: Path, data: list[torch.Tensor], **options: Any) -> Path:
    """Train on these batches; *options* are those of `tt.record`."""
    model = make().to(data[0].dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.record(folder, model=model, **options):
        for x in data:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return folder


def kinds(diff: tt.Diff) -> list[str]:
    """Return the kinds of the premises."""
    return [one.kind for one in diff.premises]


def test_other_batches_are_named_before_the_first_layer(tmp_path: Path) -> None:
    data = batches(0)
    a = train(tmp_path / "a", data)
    b = train(tmp_path / "b", [*data[:2], *batches(1, count=4)])
    found = tt.diff(a, b)
    (inputs,) = found.premises
    assert (inputs.kind, inputs.step) == ("inputs", 2)
    assert "from step 2 on, in 4 of 6 compared steps" in inputs.text
    assert "order" not in inputs.text


def test_the_same_batches_in_another_order_are_called_so(tmp_path: Path) -> None:
    data = batches(0)
    found = tt.diff(train(tmp_path / "a", data), train(tmp_path / "b", data[::-1]))
    assert "the same batches in another order" in found.premises[0].text


def test_equal_inputs_have_no_premise(tmp_path: Path) -> None:
    found = tt.diff(train(tmp_path / "a", batches(0)), train(tmp_path / "b", batches(0)))
    assert found.verdict == "identical"
    assert found.premises == ()


def test_another_batch_size_is_not_compared_by_its_mean(tmp_path: Path) -> None:
    a = train(tmp_path / "a", batches(0, size=16))
    b = train(tmp_path / "b", [x[:1] for x in batches(0, size=16)])
    found = tt.diff(a, b)
    assert kinds(found) == ["settings", "inputs", "shapes"]
    assert "[16, 8] against [1, 8]" in found.premises[2].text
    site = next(one for one in found.sites if one.name == "activation/0")
    assert (site.verdict, site.field) == ("differs", "count")
    printed = tensortap("diff", a, b, folder=tmp_path)
    assert printed.returncode == 1
    assert printed.stdout.startswith("2 settings differ\nbatch/size is 16 against 1\n")
    assert "the runs were fed different inputs from step 0 on" in printed.stdout
    assert "there shape is [16, 8] against [1, 8]" in printed.stdout


def test_another_type_is_named_though_the_numbers_are_within_noise(tmp_path: Path) -> None:
    for name, dtype in (("a", np.float32), ("b", np.float16)):
        with tt.record(tmp_path / name) as run:
            run.tensor("x", np.linspace(-1, 1, 64).astype(dtype))
    found = tt.diff(tmp_path / "a", tmp_path / "b")
    assert found.verdict == "noise"
    assert kinds(found) == ["types"]
    assert "x is float32 against float16" in found.premises[0].text


def test_ids_that_differ_are_not_covered_by_noise_before_them(tmp_path: Path) -> None:
    """Integers have no rounding, whatever deviated before."""
    ids = np.arange(10000)
    for name, scale in (("a", 1.0), ("b", 1 + 1e-4)):
        with tt.record(tmp_path / name) as run:
            half = (np.linspace(-1, 1, 64) * scale).astype(np.float16)
            run.tensor("activation/half", half)
            run.tensor("activation/ids", ids + (scale > 1))
    found = tt.diff(tmp_path / "a", tmp_path / "b")
    verdicts = {one.name: one.verdict for one in found.sites}
    assert verdicts == {"activation/half": "noise", "activation/ids": "differs"}


def test_arguments_of_other_names_are_no_renamed_site(tmp_path: Path) -> None:
    for name, argument in (("a", "attention_mask"), ("b", "position_ids")):
        with tt.record(tmp_path / name) as run:
            run.tensor(f"input/(root).{argument}", np.arange(8))
            run.tensor("activation/fc", np.ones(3))
    found = tt.diff(tmp_path / "a", tmp_path / "b")
    assert found.renamed is None
    assert {one.verdict for one in found.sites} == {"identical", "only in a", "only in b"}


def test_runs_with_other_optimizers_are_paired_by_the_first_one(tmp_path: Path) -> None:
    """The second optimizer of the first run steps alone between."""
    with tt.record(tmp_path / "a") as run:
        for i in range(4):
            run.log("learning_rate", 0.1)
            run.log("loss", 1.0 + i)
            run.step()
            run.log("SGD2:learning_rate", 0.1)
            run.step()
    with tt.record(tmp_path / "b") as run:
        for i in range(4):
            run.log("learning_rate", 0.1)
            run.log("loss", 1.0 + i)
            run.step()
    found = tt.diff(tmp_path / "a", tmp_path / "b")
    assert kinds(found) == ["steps"]
    loss = next(one for one in found.sites if one.name == "loss")
    assert (loss.verdict, loss.points, loss.only_a, loss.only_b) == ("identical", 4, 0, 0)


def test_the_command_prints_premises_as_json(tmp_path: Path) -> None:
    a = train(tmp_path / "a", batches(0))
    b = train(tmp_path / "b", batches(1))
    answered = answer("diff", a, b, folder=tmp_path)
    check_schema(answered, "diff")
    (inputs,) = answered["premises"]
    assert (inputs["kind"], inputs["step"], inputs["site"]) == ("inputs", 0, None)


def test_notebooks_show_diff_and_findings(tmp_path: Path) -> None:
    a = train(tmp_path / "a", batches(0))
    b = train(tmp_path / "b", batches(1))
    shown = tt.diff(a, b)._repr_html_()
    assert "different inputs" in shown
    assert "activation/0" in shown
    assert "nothing found in" in tt.health(a)._repr_html_()
