"""What differs between two runs before any number is compared: inputs, shapes, types, optimizers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from contextlib import nullcontext
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


def train_on(path: Path, model: Any, optimizer: Any, data: list[torch.Tensor]) -> Path:
    """Train in a run, which `path` names, or in none."""
    with tt.record(path, model=model) if path.name else nullcontext():
        for x in data:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return path


def test_an_evaluation_before_the_first_step_shifts_no_call(tmp_path: Path) -> None:
    for name, evaluations in (("a", 0), ("b", 1), ("c", 3)):
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        with tt.record(tmp_path / name, model=model):
            model.eval()
            for _ in range(evaluations):
                with torch.no_grad():
                    model(torch.ones(2, 6))
            model.train()
            for x in batches(0):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
    for other in "bc":
        found = tt.diff(tmp_path / "a", tmp_path / other)
        assert found.verdict == "identical"
        assert {one.only_b for one in found.sites} == {0, "bc".index(other) * 2 + 1}
    found = tt.diff(tmp_path / "b", tmp_path / "c")
    assert (found.verdict, max(one.only_b for one in found.sites)) == ("identical", 2)


def test_a_resumed_run_is_paired_by_what_its_optimizer_had_done(tmp_path: Path) -> None:
    data = batches(0) + batches(1)
    half = len(data) // 2
    whole = make()
    train_on(tmp_path / "whole", whole, torch.optim.Adam(whole.parameters(), 0.01), data)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    train_on(Path(), model, optimizer, data[:half])
    later = torch.optim.Adam(model.parameters(), 0.01)
    later.load_state_dict(optimizer.state_dict())
    train_on(tmp_path / "resumed", model, later, data[half:])
    assert tt.open(tmp_path / "resumed").settings["optimizer/steps_before"] == str(half)
    found = tt.diff(tmp_path / "whole", tmp_path / "resumed")
    assert found.verdict == "identical"
    assert kinds(found) == ["steps"]
    assert f"its step 0 is step {half} here" in found.premises[0].text
    loss = next(one for one in found.sites if one.name.startswith("loss/"))
    assert (loss.points, loss.only_a, loss.only_b) == (half, half, 0)
    back = tt.diff(tmp_path / "resumed", tmp_path / "whole")
    assert (back.verdict, kinds(back)) == ("identical", ["steps"])


def test_a_run_that_goes_on_where_the_other_never_came_is_paired_by_number(tmp_path: Path) -> None:
    data = batches(0)
    for name, before in (("a", []), ("b", data + data)):
        model = make()
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        train_on(Path(), model, optimizer, before)
        train_on(tmp_path / name, model, optimizer, data)
    found = tt.diff(tmp_path / "a", tmp_path / "b")
    assert (kinds(found), found.verdict) == (["steps"], "differs")
    assert "steps are paired by number" in found.premises[0].text
    assert all(one.only_a == one.only_b == 0 for one in found.sites)


def test_pictures_that_share_their_borders_are_other_batches(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        torch.manual_seed(seed)
        pictures = torch.full((64, 1, 32, 32), -1.0)
        pictures[..., 4:28, 4:28] = torch.randn(64, 1, 24, 24)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(1024, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        with tt.record(tmp_path / name, model=model):
            for _ in range(2):
                model(pictures).mean().backward()
                optimizer.step()
    assert kinds(tt.diff(tmp_path / "a", tmp_path / "b")) == ["inputs"]


def test_settings_that_differ_are_listed_in_every_form(tmp_path: Path) -> None:
    a = train(tmp_path / "a", batches(0, size=16))
    b = train(tmp_path / "b", [x[:1] for x in batches(0, size=16)])
    lines = "batch/size is 16 against 1\nbatch/inputs is float32 [16, 6] against float32 [1, 6]"
    assert tt.diff(a, b).premises[0].detail == lines
    answered = answer("diff", a, b, folder=tmp_path)
    check_schema(answered, "diff")
    assert answered["premises"][0]["detail"] == lines
    assert "batch/size is 16 against 1" in tt.diff(a, b)._repr_html_()


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
