"""A run knows what its program had set, and where its code is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from commands import tensortap  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.runs import settings  # noqa: E402


class Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.linear, self.drop = torch.nn.Linear(4, 4), torch.nn.Dropout(p)

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.linear(x))


LINE = Block.forward.__code__.co_firstlineno


def make(*dropouts: float) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(*map(Block, dropouts or (0.1, 0.1)))


def train(
    path: Path, model: Any, optimizer: Any, steps: int = 3, each: Any = None, **options: Any
) -> tt.Run:
    torch.manual_seed(1)
    with tt.record(path, model=model, **options):
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            if each is not None:
                each(step)
    return tt.open(path)


def test_optimizer_modules_and_code_are_settings(tmp_path: Path) -> None:
    model = make()
    run = train(tmp_path / "run", model, torch.optim.AdamW(model.parameters(), 0.1, eps=1e-6))
    found = run.settings
    assert found["optimizer/class"] == "torch.optim.AdamW"
    assert (found["optimizer/lr"], found["optimizer/eps"]) == ("0.1", "1e-06")
    assert found["optimizer/parameters"] == "4"
    assert found["module/*.drop"] == "Dropout(p=0.1, inplace=False)"
    assert found["code/Block"] == f"{settings.short_path(__file__)}:{LINE}"
    assert found["model/parameters"] == "4 tensors: 40 float32 on cpu"
    assert found["torch/autocast"] == "off"
    assert len(found[f"file/{settings.short_path(__file__)}"]) == 16
    assert "code/Linear" not in found  # torch's own
    assert sum(len(key) + len(value) for key, value in found.items()) < 20_000


def test_layers_that_differ_are_named_one_by_one(tmp_path: Path) -> None:
    model = make(0.1, 0.9)
    found = train(tmp_path / "run", model, torch.optim.SGD(model.parameters(), 0.1)).settings
    assert found["module/1.drop"] == "Dropout(p=0.9, inplace=False)"
    assert found["module/*.linear"] == "Linear(in_features=4, out_features=4, bias=True)"


def test_groups_name_their_parameters(tmp_path: Path) -> None:
    model = make()
    weights = [p for p in model.parameters() if p.ndim > 1]
    biases = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": biases}]
    found = train(tmp_path / "run", model, torch.optim.SGD(groups, 0.1)).settings
    assert found["optimizer/group0/parameters"] == "2: *.linear.weight"
    assert found["optimizer/group0/weight_decay"] == "0.1"
    assert found["optimizer/group1/weight_decay"] == "0"


def test_a_change_is_recorded_with_its_step_and_a_schedule_is_not(tmp_path: Path) -> None:
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def each(step: int) -> None:
        schedule.step()
        if step == 3:
            optimizer.param_groups[0]["weight_decay"] = 0.5

    run = train(tmp_path / "run", model, optimizer, 6, each)
    told = [(step, value) for step, key, value in run._reader.settings(0) if key.endswith("/lr")]
    assert [value for _, value in told] == ["0.1"]
    assert run.settings["scheduler/class"] == "torch.optim.ExponentialLR"
    assert run.settings["scheduler/gamma"] == "0.5"
    shown = json.loads(
        tensortap("show", "run", "--settings", "optimizer/w*", "--json", folder=tmp_path).stdout
    )
    assert shown["settings"] == [{"key": "optimizer/weight_decay", "value": "0.5", "step": 4}]


def test_what_changes_all_the_time_is_no_setting(tmp_path: Path) -> None:
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=60)
    run = train(tmp_path / "run", model, optimizer, 50, lambda _: schedule.step())
    told = [key for _, key, _ in run._reader.settings(0) if key == "optimizer/momentum"]
    assert 1 < len(told) <= settings.MOST_CHANGES + 1


class Odd(torch.nn.Module):  # type: ignore[misc]
    said: Any = ""

    def forward(self, x: Any) -> Any:
        return x

    def extra_repr(self) -> str:
        if self.said is None:
            raise RuntimeError("no")
        return self.said  # type: ignore[no-any-return]


SECRET = "hf_abcdefghijKLMNOP12345678"


@pytest.mark.parametrize("said", [None, "x" * 10_000_000, "\ud800", 5, SECRET])
def test_modules_that_say_odd_things_harm_nothing(tmp_path: Path, said: Any) -> None:
    odd = Odd()
    odd.said = said
    model = torch.nn.Sequential(Block(), odd)
    run = train(tmp_path / "run", model, torch.optim.SGD(model.parameters(), 0.1))
    assert run.settings["module/0.drop"] == "Dropout(p=0.1, inplace=False)"
    assert len(run.settings.get("module/1", "")) < 600
    assert "hf_abc" not in run.settings.get("module/1", "")
    assert not [note.text for note in run.notes if "error" in note.text]


def test_a_class_made_by_exec_and_one_of_another_library_are_named(tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    exec("import torch\nclass Made(torch.nn.Linear):\n  def forward(self, x): return x * 2", made)
    model = torch.nn.Sequential(Block(), made["Made"](4, 4))
    optimizer = torch.optim.SGD(model[0].parameters(), 0.1)
    found = train(tmp_path / "run", model, optimizer).settings
    assert found["code/Made"] == "<string>:3"


def test_autocast_of_the_first_forward_is_a_setting(tmp_path: Path) -> None:
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.ones(2, 4)).float().mean()
        loss.backward()
        optimizer.step()
    assert tt.open(tmp_path / "run").settings["torch/autocast"] == "torch.bfloat16 on cpu"


def test_loaders_are_settings(tmp_path: Path) -> None:
    model = make()
    data = torch.utils.data.TensorDataset(torch.randn(20, 4))
    loader = torch.utils.data.DataLoader(data, 5, shuffle=True)
    found = train(tmp_path / "run", model, torch.optim.SGD(model.parameters(), 0.1)).settings
    assert found["data/batch_size"] == "5"
    assert (found["data/shuffle"], found["data/samples"]) == ("True", "20")
    del loader


def test_a_model_without_code_of_its_own_is_named_by_its_call(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    with torch.no_grad():
        model[1].weight.fill_(float("inf"))
    run = train(tmp_path / "run", model, torch.optim.SGD(model.parameters(), 0.1))
    line = run.settings["code/(root)"]
    assert line == f"{Path(__file__).name}:{train.__code__.co_firstlineno + 7}"
    codes = [one.code for one in tt.health(run.path) if one.kind == "origin"]
    assert codes == [f"Linear; the model is called at {line}"]


class Tagger(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2)

    def forward(self, tokens: Any, mask: Any = None) -> Any:
        return self.head(self.embed(tokens)) * mask.unsqueeze(-1)


def test_the_first_training_batch_is_a_setting(tmp_path: Path) -> None:
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        model.eval()
        with torch.no_grad():
            model(torch.zeros(1, 5).long(), mask=torch.ones(1, 5))
        model.train()
        for _ in range(2):
            model(torch.zeros(6, 5).long(), mask=torch.ones(6, 5)).mean().backward()
            optimizer.step()
    found = tt.open(tmp_path / "run").settings
    assert found["batch/size"] == "6"
    assert found["batch/inputs"] == "int64 [6, 5], mask float32 [6, 5]"


def test_a_batch_size_that_changes_is_recorded_and_a_short_last_batch_is_not(
    tmp_path: Path,
) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        for size in (8, 8, 8, 3, 8, 8, 16, 16, 16):
            model(torch.randn(size, 4)).mean().backward()
            optimizer.step()
    run = tt.open(tmp_path / "run")
    told = [(step, value) for step, key, value in run._reader.settings(0) if key == "batch/size"]
    assert told == [(0, "8"), (7, "16")]
    assert run.settings["batch/inputs"] == "float32 [8, 4]"


def test_a_private_run_names_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORTAP_PRIVATE", "1")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    model = make()
    run = train(tmp_path / "run", model, torch.optim.SGD(model.parameters(), 0.1))
    assert not [key for key in run.settings if key.startswith(("code/", "file/"))]
    assert run.settings["optimizer/lr"] == "0.1"


def test_diff_begins_with_settings_that_differ(tmp_path: Path) -> None:
    for name, decay, p in (("a", 0.01, 0.1), ("b", 5.0, 0.1), ("c", 5.0, 0.9)):
        model = make(p, p)
        train(tmp_path / name, model, torch.optim.AdamW(model.parameters(), weight_decay=decay))
    one = tensortap("diff", "a", "b", folder=tmp_path)
    assert one.stdout.startswith("a setting differs: optimizer/weight_decay is 0.01 against 5.0\n")
    two = tensortap("diff", "a", "c", folder=tmp_path).stdout.splitlines()
    assert two[:3] == [
        "2 settings differ",
        "optimizer/weight_decay is 0.01 against 5.0",
        "module/*.drop is Dropout(p=0.1, inplace=False) against Dropout(p=0.9, inplace=False)",
    ]
    assert f"Dropout in Block.forward ({settings.short_path(__file__)}:{LINE})" in two
    meant = tensortap("diff", "a", "b", "--ignore", "optimizer/*", folder=tmp_path).stdout
    assert "differs:" not in meant
    assert tensortap("diff", "b", "b", folder=tmp_path).stdout.startswith("identical\n")


def test_findings_and_nan_name_class_and_line(tmp_path: Path) -> None:
    model = make()

    def break_it(step: int) -> None:
        if step == 2:
            with torch.no_grad():
                model[1].linear.weight.fill_(float("inf"))

    run = train(tmp_path / "run", model, torch.optim.SGD(model.parameters(), 0.1), 5, break_it)
    code = f"Linear in Block.forward ({settings.short_path(__file__)}:{LINE})"
    assert [one.code for one in tt.health(run.path) if one.kind == "origin"] == [code]
    assert code in tensortap("nan", "run", folder=tmp_path).stdout
    assert code in tensortap("health", "run", folder=tmp_path).stdout
    assert f"code: {code}" in tensortap("explain", "run", folder=tmp_path).stdout


def test_a_run_without_settings_says_so(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        run.log("loss", 1.0)
    assert tt.open(tmp_path / "run").settings == {}
    shown = tensortap("show", "run", "--settings", folder=tmp_path).stdout
    assert shown == "no settings: none were recorded\n"


def test_settings_are_recorded_though_a_model_is_traced_first(tmp_path: Path) -> None:
    net = torch.nn.Linear(3, 2)
    with tt.record(tmp_path / "run", model=net):
        net(torch.ones(1, 3))
        torch.jit.trace(net, torch.ones(1, 3))
    assert any(key.endswith("/parameters") for key in tt.open(tmp_path / "run").settings)
