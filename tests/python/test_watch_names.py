"""What is recorded of a model, and under which names."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from recorded import points, record  # noqa: E402
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.runs.watch import watch  # noqa: E402

X = torch.arange(6.0).reshape(2, 3)


@dataclasses.dataclass
class Output:
    hidden: Any
    extra: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    hidden: Any
    extra: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


class Gives(nn.Module):
    """Gives what a function makes of its input."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.make(*args, **kwargs)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda x: (x, x + 1), {".0", ".1"}),
        (lambda x: [x, None, 3, "a", x], {".0", ".4"}),
        (lambda x: {"a": x, "b": {"c": x}, 7: x}, {".a", ".b.c", ".7"}),
        (lambda x: Output(x, (x,)), {".hidden", ".extra.0"}),
        (lambda x: Slotted(x, (x,)), {".hidden", ".extra.0"}),
        (lambda x: Pair(x, Pair(x, x)), {".0", ".1.0", ".1.1"}),
        (lambda x: x, {""}),
        (lambda x: None, set()),
        (lambda x: object(), set()),
    ],
)
def test_tensors_in_containers_are_named_by_index_key_or_field(
    tmp_path: Path, make: Any, names: set[str]
) -> None:
    model = nn.Sequential(Gives(make))
    run = record(tmp_path, model, lambda _: model(X))
    assert {s for s in run.sites() if s.startswith("activation/0")} == {
        "activation/0" + n for n in names
    }


def test_each_tensor_of_a_tuple_keeps_its_own_numbers_when_the_structure_changes(
    tmp_path: Path,
) -> None:
    shapes = iter([(X, X + 1), (X + 2, [X + 3, X + 4]), (X + 5, X + 6)])
    model = Gives(lambda: next(shapes))

    def run_all(_: object) -> None:
        for _ in range(3):
            model()

    run = record(tmp_path, model, run_all)
    got = {s: [p.stats.min for p in run.at(s)] for s in run.sites()}
    assert got == {
        "activation/(root).0": [0.0, 2.0, 5.0],
        "activation/(root).1": [1.0, 6.0],
        "activation/(root).1.0": [3.0],
        "activation/(root).1.1": [4.0],
    }


def test_a_list_that_contains_itself_is_not_followed_for_ever(tmp_path: Path) -> None:
    loop: list[Any] = [X]
    loop.append(loop)
    model = Gives(lambda: loop)
    assert 0 < len(record(tmp_path, model, lambda _: model())) <= 8


def test_inputs_are_recorded_on_request_as_they_were(tmp_path: Path) -> None:
    model = nn.Sequential(nn.ReLU(inplace=True))
    run = record(tmp_path, model, lambda _: model(torch.full((2, 2), -3.0)), inputs=True)
    assert run.at("input/0")[0].stats.min == -3.0
    assert run.at("activation/0")[0].stats.min == 0.0
    assert record(tmp_path / "b", model, lambda _: model(X)).at("input/0") == []


def test_several_inputs_are_named_by_position_and_keyword(tmp_path: Path) -> None:
    model = Gives(lambda a, b, mask: a)
    run = record(tmp_path, model, lambda _: model(X, X, mask=X), inputs=True)
    assert {s for s in run.sites() if s.startswith("input")} == {
        "input/(root).0", "input/(root).1", "input/(root).mask",
    }  # fmt: skip


def test_a_shared_module_has_one_site_and_several_calls(tmp_path: Path) -> None:
    shared = nn.Linear(3, 3)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    run = record(tmp_path, model, lambda _: model(X))
    assert [p.call for p in run.at("activation/0")] == [0, 1]
    assert run.at("activation/2") == []


def test_tied_weights_have_one_site(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        model(X).sum().backward()
        optimizer.step()

    run = record(tmp_path, model, train)
    names = [n for n, _ in model.named_parameters()]
    assert {s for s in run.sites() if s.startswith("parameter/")} == {
        f"parameter/{n}" for n in names
    }


def test_gradients_of_activations_are_those_of_autograd(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
    kept = {}

    def train(_: object) -> None:
        out = model[0](X)
        out.register_hook(lambda g: kept.__setitem__("0", tt.stats(g)))
        model[2](model[1](out)).square().sum().backward()

    run = record(tmp_path, model, train, grads="activations")
    assert run.at("activation_gradient/0")[0].stats == kept["0"]
    assert run.at("gradient/0.weight") == []


def test_two_models_in_one_run_are_told_apart(tmp_path: Path) -> None:
    recorder = _core.Recorder(str(tmp_path / "run"))
    models = [nn.Linear(3, 3), nn.Linear(3, 3), nn.Bilinear(3, 3, 3)]
    handles = [watch(m, run=recorder) for m in models]
    models[0](X), models[1](X), models[2](X, X)
    assert len(handles) == 3
    recorder.close()
    assert points(tmp_path / "run").sites() == {
        "activation/(root)", "activation/Linear2:(root)", "activation/Bilinear:(root)",
    }  # fmt: skip


def test_only_and_exclude_choose_by_name(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    plan = {"only": "activation/*", "exclude": "*/1,*root*"}
    assert record(tmp_path, model, lambda _: model(X), plan=plan).sites() == {
        "activation/0",
        "activation/2",
    }


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    model = Gives(lambda x: (x.to_sparse(), x.to("meta"), x))
    run = record(tmp_path, model, lambda _: model(X))
    assert run.sites() == {"activation/(root).2"}


@pytest.mark.parametrize(
    "lazy",
    [
        torch._neg_view(X),  # as contiguous as a plain tensor
        torch._neg_view(X.T),
        torch._neg_view(torch.tensor(2.0)),
        torch.tensor([1 + 2j, 3 + 4j]).conj().imag,
        torch.tensor([[1 + 2j]]).conj().imag,
        torch.tensor([1 + 2j, 3 - 4j]).conj(),
        torch._neg_view(torch.tensor([1 + 2j]).conj()),
    ],
    ids=lambda t: f"{t.dtype}{list(t.shape)}".removeprefix("torch."),
)
def test_a_lazy_view_is_read_right_at_a_place_that_gave_plain_tensors(
    tmp_path: Path, lazy: torch.Tensor
) -> None:
    outputs = iter([X, X, X, lazy, X, lazy])
    model = Gives(lambda: next(outputs))
    run = record(tmp_path, model, lambda _: [model() for _ in range(6)])
    plain, seen = X.sum().item(), lazy.resolve_conj().resolve_neg().sum().item()
    assert [p.stats.sum for p in run] == [plain, plain, plain, seen, plain, seen]


def test_a_lazy_gradient_is_read_right(tmp_path: Path) -> None:
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    gradients = [torch.ones(1, 3), torch.ones(1, 3), torch._neg_view(torch.ones(1, 3))]

    def train(_: object) -> None:
        for gradient in gradients:
            model(X)
            model.weight.grad = gradient
            optimizer.step()

    run = record(tmp_path, model, train, optimizer=optimizer)
    assert [p.stats.sum for p in run.at("gradient/weight")] == [3.0, 3.0, -3.0]


def test_threads_are_recorded_with_their_own_numbers(tmp_path: Path) -> None:
    model = nn.Linear(3, 3).eval()  # in training each forward would be a step of its own

    def run_all(_: object) -> None:
        threads = [threading.Thread(target=lambda: [model(X) for _ in range(50)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    run = record(tmp_path, model, run_all)
    assert sorted(p.call for p in run) == list(range(200))
    assert len({p.thread for p in run}) == 4


# ---- on_nonfinite -----------------------------------------------------------


def nan_in_the_middle() -> nn.Module:
    return nn.Sequential(
        nn.Linear(3, 3), Gives(lambda x: x / 0 * torch.tensor([1, 0, 0])), nn.ReLU()
    )


def test_raise_names_module_step_and_counts(tmp_path: Path) -> None:
    model = nan_in_the_middle()
    with pytest.raises(
        tt.NonFiniteError, match=r"4 NaN, .*Inf in activation/1 at step 0"
    ) as caught:
        record(tmp_path, model, lambda _: model(X), on_nonfinite="raise")
    assert (caught.value.name, caught.value.step, caught.value.nan) == ("activation/1", 0, 4)
    assert points(tmp_path / "run").at("activation/2") == []


def test_warn_says_it_once_and_goes_on(tmp_path: Path) -> None:
    model = nan_in_the_middle()
    recorder = _core.Recorder(str(tmp_path / "run"))
    watch(model, run=recorder, on_nonfinite="warn")
    with pytest.warns(RuntimeWarning, match="in activation/1 at step 0") as caught:
        model(X), model(X)
    assert len(caught) == 1
    recorder.close()


def test_a_function_gets_the_error_once_a_step_and_may_stop_watching(tmp_path: Path) -> None:
    model, told = nan_in_the_middle(), []
    recorder = _core.Recorder(str(tmp_path / "run"))

    def tell(error: tt.NonFiniteError) -> None:
        told.append(error.name)
        handle.remove()

    handle = watch(model, run=recorder, on_nonfinite=tell)
    model(X), model(X)
    assert told == ["activation/1"]
    recorder.close()


def test_it_is_seen_also_where_it_is_not_recorded(tmp_path: Path) -> None:
    model = nan_in_the_middle()
    with pytest.raises(tt.NonFiniteError):
        record(tmp_path, model, lambda _: model(X), on_nonfinite="raise", plan={"only": "nothing"})


def test_a_gradient_that_goes_into_a_step_is_seen(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        model(X).sum().backward()
        model.weight.grad[0, 0] = torch.nan
        optimizer.step()

    with pytest.raises(tt.NonFiniteError, match=r"1 NaN in gradient/weight at step 0"):
        record(tmp_path, model, train, on_nonfinite="raise")


# ---- errors -----------------------------------------------------------------


def test_wrong_arguments_fail_at_once(tmp_path: Path) -> None:
    recorder = _core.Recorder(str(tmp_path / "run"))
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not int"):
        watch(3, run=recorder)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="grads must be"):
        watch(nn.ReLU(), run=recorder, grads="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_nonfinite must be"):
        watch(nn.ReLU(), run=recorder, on_nonfinite="stop")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"optimizer must be a torch\.optim\.Optimizer.*not 'adam'"):
        watch(nn.ReLU(), run=recorder, optimizer=["adam"])
    recorder.close()


def test_a_closed_run_leaves_the_model_free(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    record(tmp_path, model, lambda _: model(X))
    assert "_compiled_call_impl" not in model.__dict__
    model(X)
