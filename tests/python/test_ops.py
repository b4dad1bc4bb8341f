"""tt.ops: what it sees, what it writes, and that the program does not notice it."""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensortap as tt
from tensortap.operators import Operator, OperatorLog, origin_report

torch = pytest.importorskip("torch")
from versions import needs_exchange_table  # noqa: E402

nn = torch.nn
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
dispatch = pytest.importorskip("torch.utils._python_dispatch")
FakeTensorMode = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode

INF = float("inf")


def names(log: OperatorLog) -> list[str]:
    return [row.name for row in log]


def only(log: OperatorLog, name: str) -> Operator:
    (found,) = [row for row in log if row.name == name]
    return found


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(self.norm(x)).relu()


class Tower(nn.Module):
    def __init__(self, width: int = 8, depth: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.drop = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.drop(x)


# ---- what is seen


def test_every_operator_has_its_name_line_and_module() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    with tt.ops() as log:
        y = model(torch.ones(1, 2))
        _ = y + 1
    seen = {row.name: (row.module, row.source) for row in log}
    assert seen["aten::addmm"] == ("0", "y = model(torch.ones(1, 2))")
    assert seen["aten::relu"] == ("1", "y = model(torch.ones(1, 2))")
    assert seen["aten::add"] == (None, "_ = y + 1")


def test_the_statistics_of_results_are_those_of_tt_stats() -> None:
    x = torch.randn(5, 7)
    with tt.ops() as log:
        y = x.exp()
    (result,) = only(log, "aten::exp").results
    assert result.stats is not None
    assert result.stats.as_dict() == tt.stats(y).as_dict()
    assert only(log, "aten::exp").operands[0].stats.as_dict() == tt.stats(x).as_dict()  # type: ignore[union-attr]


def test_operators_of_backward_are_linked_to_the_line_of_their_forward() -> None:
    x = torch.ones(3, requires_grad=True)
    with tt.ops() as log:
        y = x.sin()
        z = y.exp()
        z.sum().backward()
    cos = only(log, "aten::cos")
    assert cos.phase == "backward"
    assert cos.source == "y = x.sin()"
    assert log[cos.forward].name == "aten::sin"
    assert cos.node == "SinBackward0"


def test_a_recomputed_forward_is_told_from_backward() -> None:
    block = Block(4)
    x = torch.ones(2, 4, requires_grad=True)
    for reentrant in (False, True):
        with tt.ops() as log:
            checkpoint(block, x, use_reentrant=reentrant).sum().backward()
        relus = [row for row in log if row.name == "aten::relu"]
        assert [row.phase for row in relus] == ["forward", "recomputed"]
        assert {row.module for row in relus} == {""}
        (back,) = [row for row in log if row.name == "aten::threshold_backward"]
        assert back.phase == "backward"
        assert back.source == "return x + self.fc(self.norm(x)).relu()"


def test_in_place_operators_views_and_out_are_followed() -> None:
    x = torch.ones(4)
    out = torch.empty(2)
    with tt.ops() as log:
        x[1:3].sub_(1)
        torch.log(x[1:3], out=out)
        _ = out.view(2, 1) + 1
    found = log.first_bad
    assert found is not None
    assert found.operator.name == "aten::log"
    assert [row.name for row in log.path] == ["aten::add"]
    assert log[found.operator.operands[0].writer].name == "aten::sub_"


def test_created_passed_on_and_removed_are_told_apart() -> None:
    x = torch.tensor([0.0, 1.0])
    with tt.ops() as log:
        y = x.log()
        z = y * 2
        _ = z.nan_to_num()
    verdicts = {row.name: row.verdict for row in log}
    assert verdicts == {
        "aten::log": "created",
        "aten::mul": "passed on",
        "aten::nan_to_num": "removed",
    }


def test_a_parameter_has_its_name() -> None:
    model = Tower()
    with torch.no_grad():
        model.blocks[2].fc.weight[1, 1] = float("nan")
    with tt.ops() as log:
        model(torch.ones(1, 8))
    found = log.first_bad
    assert found is not None
    assert (found.kind, found.tensor.name, found.module) == (
        "given",
        "blocks.2.fc.weight",
        "blocks.2.fc",
    )


def test_names_come_from_the_model_that_is_given() -> None:
    model = Tower()
    with tt.ops(model) as log:
        model.blocks[1](torch.ones(1, 8))
    assert {row.module for row in log if row.module} == {"blocks.1", "blocks.1.norm", "blocks.1.fc"}


def test_foreach_operators_are_judged_item_by_item() -> None:
    a = [torch.ones(2), torch.full((2,), float("nan")), torch.zeros(2)]
    with tt.ops() as log:
        torch._foreach_div_(a, [torch.ones(2), torch.ones(2), torch.zeros(2)])
    created = [row for row in log if row.verdict == "created"]
    assert [row.name for row in created] == ["aten::_foreach_div_"]
    assert log.first_bad is not None
    assert log.first_bad.kind == "given"  # the NaN of item 1 was there before item 2 became one


def test_many_tensors_in_a_list_are_all_seen() -> None:
    many = [torch.ones(2) for _ in range(400)]
    many[390] = torch.full((2,), INF)
    with tt.ops() as log:
        torch._foreach_sub_(many, many)
    assert len(only(log, "aten::_foreach_sub_").operands) == 800
    assert log.first_bad is not None
    assert log.first_bad.tensor.item == 390


def test_sparse_complex_integer_and_half_tensors_are_read() -> None:
    sparse = torch.eye(3).to_sparse()
    with tt.ops() as log:
        _ = sparse * 2
        _ = torch.arange(3) + 1
        _ = torch.tensor([0j]).log()
        _ = torch.ones(2, dtype=torch.bfloat16) * 3e38 * 10
    assert log._mode.errors == 0
    verdicts = [row.name for row in log if row.verdict == "created"]
    assert verdicts == ["aten::log", "aten::mul"]


def test_fake_tensors_and_subclasses_run_as_without_it() -> None:
    class Doubled(torch.Tensor):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            plain = torch.utils._pytree.tree_map_only(cls, lambda t: t.inner, args)
            return func(*plain, **(kwargs or {}))

        @staticmethod
        def make(inner: torch.Tensor) -> torch.Tensor:
            made: Any = torch.Tensor._make_wrapper_subclass(Doubled, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

    with tt.ops() as log:
        with FakeTensorMode():
            assert (torch.empty(2, 3) @ torch.empty(3, 4)).shape == (2, 4)
        assert torch.equal(Doubled.make(torch.zeros(2)) + 1, torch.ones(2))
    assert log._mode.errors == 0
    assert "aten::add" in names(log)  # the operator on the tensor inside


@pytest.mark.heavy
def test_operators_inside_a_compiled_graph_are_not_seen_unless_eager() -> None:
    runs = 0

    def backend(graph: Any, _: Any) -> Any:
        def run(*args: Any) -> Any:
            nonlocal runs
            runs += 1
            with dispatch._disable_current_modes():  # as compiled code does
                return graph(*args)

        return run

    def root(x: torch.Tensor) -> torch.Tensor:
        return (x - 1).sqrt()

    compiled = torch.compile(root, backend=backend)
    x = torch.zeros(2)
    compiled(x)
    with tt.ops() as log:
        _ = compiled(x) * 2
    assert runs == 2
    assert log.first_bad is not None
    assert (log.first_bad.kind, log.first_bad.certain) == ("given", False)
    with tt.ops(eager=True) as log:
        _ = compiled(x) * 2
    assert runs == 2
    assert log.first_bad is not None
    assert (log.first_bad.operator.name, log.first_bad.certain) == ("aten::sqrt", True)
    assert log.first_bad.operator.source == "return (x - 1).sqrt()"
    compiled(x)
    assert runs == 3  # it is compiled still


@pytest.mark.heavy
def test_an_operator_that_a_compiled_graph_calls_is_not_named_as_certain() -> None:
    @torch.compile(backend="aot_eager")
    def root(x: torch.Tensor) -> torch.Tensor:
        return (x - 1).sqrt()

    x = torch.zeros(2, requires_grad=True)
    root(x)
    with tt.ops() as log:
        root(x).sum()
    found = log.first_bad
    assert found is not None
    assert not found.certain
    assert found.operator.source == '@torch.compile(backend="aot_eager")'
    assert "compiled graph" in origin_report(log)


# ---- what is no fault


def test_masks_are_no_faults() -> None:
    x = torch.randn(4, 4, requires_grad=True)
    with tt.ops() as log:
        mask = torch.full((4, 4), -INF).triu(1)
        a = (x + mask).softmax(-1)
        b = x.masked_fill(x > 0, -INF)
        c = torch.where(x > 5, x, torch.tensor(-INF)).amax()
        d = x.detach().clone()
        d[d < 0] = -INF
        e = torch.nn.functional.scaled_dot_product_attention(
            x[None], x[None], x[None], attn_mask=mask
        )
        best = torch.full((4,), INF)
        f = torch.minimum(best, x.detach().amin(-1))
        (a.sum() + e.sum()).backward()
    assert log.first_bad is None, origin_report(log)
    assert origin_report(log).startswith("no bad value")
    del b, c, f


def test_a_value_that_is_removed_is_reported_only_if_it_was_nan() -> None:
    x = torch.zeros(2)
    with tt.ops() as log:
        _ = x.log().softmax(-1).clamp(0, 1).nan_to_num()
    assert log.first_bad is not None  # the softmax of two -Inf is NaN
    assert log.first_bad.removed
    with tt.ops() as log:
        _ = x.log().exp() + 1
    assert log.first_bad is None


def test_uninitialised_memory_is_not_an_origin_until_it_is_read() -> None:
    with tt.ops() as log:
        a = torch.empty(3)
        a.fill_(1.0)
        _ = a + 1
    assert log.first_bad is None
    x = torch.full((3,), float("nan"))
    with tt.ops() as log:
        x.copy_(torch.ones(3))
        _ = x + 1
    assert log.first_bad is None


def test_a_bad_number_that_nothing_uses_is_not_the_origin_of_a_bad_loss() -> None:
    weight = torch.tensor([1.0, -1.0], requires_grad=True)
    with tt.ops() as log:
        perplexity = (weight.detach() + 1000).exp()
        weight.sqrt().sum().backward()
    assert log.first_bad is not None
    assert log.first_bad.operator.name == "aten::sqrt"
    with tt.ops() as log:
        perplexity = (weight.detach() + 1000).exp()
    assert log.first_bad is not None
    assert log.first_bad.operator.name == "aten::exp"
    del perplexity


def test_memory_that_nothing_has_written_is_named_when_it_is_read() -> None:
    torch.use_deterministic_algorithms(True)  # torch.empty is filled with NaN then
    try:
        with tt.ops() as log:
            x = torch.empty(4)
            x[:2] = 1.0
            _ = x + 1
    finally:
        torch.use_deterministic_algorithms(False)
    found = log.first_bad
    assert found is not None
    assert (found.kind, found.operator.name, found.certain) == ("unwritten", "aten::add", False)
    assert "torch.empty" in origin_report(log)


def test_a_write_of_numpy_appears_between_two_operators() -> None:
    x = torch.ones(4)
    same = x.numpy()
    with tt.ops() as log:
        _ = x + 1
        same[2] = np.nan
        _ = x * 2
    found = log.first_bad
    assert found is not None
    assert found.before is not None
    assert (found.kind, found.certain) == ("appeared", False)
    assert (found.before.name, found.operator.name) == ("aten::add", "aten::mul")
    assert found.tensor.first_rows == (2,)
    assert "appeared between aten::add at test_ops.py:" in origin_report(log)


def test_memory_that_is_used_again_is_not_taken_for_the_old_tensor() -> None:
    with tt.ops() as log:
        for _ in range(50):
            x = torch.from_numpy(np.full(64, 1.0, np.float32)) + 1
            del x
            bad = torch.from_numpy(np.full(64, np.nan, np.float32))
            _ = bad * 2
            del bad
    found = log.first_bad
    assert found is not None
    assert found.kind == "given"


# ---- what is written


def planted() -> OperatorLog:
    torch.manual_seed(0)
    model = Tower()
    with torch.no_grad():
        model.blocks[0].norm.weight.fill_(-1.0)
        model.blocks[0].norm.bias.fill_(1e30)
    with tt.ops(model) as log:
        loss = (model(torch.ones(3, 8)) * 1e30).square().mean()
        loss.backward()
    return log


def test_the_report_names_operator_line_module_operands_and_path() -> None:
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale = x.mean(-1).sqrt()
            return x / scale[:, None]

    model = nn.ModuleDict({"attn": Attention(), "out": nn.Linear(4, 1)})
    x = torch.ones(8, 4)
    x[3] = -1
    with tt.ops(model) as log:
        loss = model["out"](model["attn"](x)).sum()
        loss.backward()
    text = origin_report(log).splitlines()
    assert text[0].startswith("first bad value: aten::sqrt at test_ops.py:")
    assert text[0].endswith("scale = x.mean(-1).sqrt()")
    assert text[1] == "    in attn, forward: 1 of 8 results are NaN, in row 3 of 8"
    assert text[2].startswith(
        "    operand: float32[8]  min -1 … max 1, all finite; negative in 1 place; from aten::mean"
    )
    assert text[3].startswith("    then: aten::div test_ops.py:")
    assert "→ out →" in text[3]
    assert len(text) == 4


def test_repeated_layers_are_folded_in_the_path() -> None:
    model = Tower(depth=6)
    x = torch.ones(2, 8)
    with tt.ops(model) as log:
        model(x.log1p() / 0)
    assert " → blocks.0-5 x 6 → drop" in origin_report(log)


def test_the_dict_is_json_without_nan() -> None:
    log = planted()
    text = json.dumps(log.to_dict(), allow_nan=False)
    read = json.loads(text)
    assert log.first_bad is not None
    assert read["first_bad"]["operator"] == log.first_bad.operator.name
    assert read["first_bad"]["line"] == log.first_bad.operator.number
    assert read["operators"] == len(log)
    assert len(read["path"]) == len(log.path)


def test_the_table_has_one_line_for_each_operator() -> None:
    log = planted()
    lines = log.table().splitlines()
    assert len(lines) == len(log) + 1
    assert sum(line.endswith("created") for line in lines) >= 1


def test_a_chrome_trace_has_the_fields_that_the_format_requires(tmp_path: Path) -> None:
    log = planted()
    file = log.chrome_trace(tmp_path / "trace.json")
    trace = json.loads(file.read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == len(log)
    for event in trace["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= event.keys()
    for event in spans:
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert event["args"]["line"]
    assert [event["name"] for event in spans] == names(log)


def test_a_run_holds_the_statistics_of_every_result(tmp_path: Path) -> None:
    model = nn.Linear(2, 3)
    with tt.ops(model) as log:
        y = model(torch.ones(4, 2)).exp()
    with tt.record(tmp_path / "run") as run:
        log.to_run(run)
    read = tt.open(tmp_path / "run")
    (name,) = read.names("operator/aten::exp:*")
    assert name == f"operator/aten::exp:test_ops.py:{only(log, 'aten::exp').number}"
    assert read.stats(name)[0].max == tt.stats(y).max


def test_the_chart_has_the_lines_of_the_path(tmp_path: Path) -> None:
    x = torch.tensor([0.0, 1.0])
    with tt.ops() as log:
        y = x.log()
        z = y * 2
        _ = z.sum()
    dot = log.chart(tmp_path / "path.dot").read_text()
    for text in ("aten::log", "y = x.log()", "aten::mul", "aten::sum"):
        assert text in dot
    pytest.importorskip("pygraphviz")
    assert b"<svg" in log.chart(tmp_path / "path.svg").read_bytes()
    with pytest.raises(ValueError, match="suffix"):
        log.chart(tmp_path / "path.txt")


def test_a_result_that_cannot_be_read_is_drawn() -> None:
    with tt.ops() as log:
        torch.full((2, 2), torch.nan).to_sparse().to_dense().sum()
    assert "aten::" in log.dot()


def test_a_long_chart_says_how_many_operators_are_left_out() -> None:
    program = compile("\n".join(f"y = y * {i + 2}" for i in range(80)), "long.py", "exec")
    with tt.ops() as log:
        exec(program, {"y": torch.zeros(2).log()})
    dot = log.dot()  # zeros, log and 80 lines
    assert dot.count("aten::mul") >= 58
    assert ", then 22 more" in dot


# ---- the program does not notice


def results(model: nn.Module, *, is_logged: bool) -> list[torch.Tensor]:
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters())
    log = tt.ops(model)
    if is_logged:
        log.start()
    outputs = []
    for _ in range(2):
        y = model(torch.randn(4, 8))
        y.square().mean().backward()
        optimizer.step()
        outputs += [
            y.detach().clone(),
            *(p.grad.clone() for p in model.parameters() if p.grad is not None),
        ]
        optimizer.zero_grad()
    log.stop()
    return [*outputs, *(p.detach().clone() for p in model.parameters()), torch.get_rng_state()]


def test_outputs_gradients_weights_and_random_numbers_are_the_same_to_the_bit() -> None:
    torch.manual_seed(0)
    state = Tower().state_dict()
    both = []
    for is_logged in (False, True):
        model = Tower()
        model.load_state_dict(state)
        both.append(results(model, is_logged=is_logged))
    assert len(both[0]) == len(both[1])
    assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))


def convolutions() -> list[Any]:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    y = model(torch.randn(2, 3, 8, 8)).square().mean()
    y.backward()
    return [y, *(p.grad for p in model.parameters()), *model.buffers()]


def recurrence() -> list[Any]:
    model = nn.LSTM(4, 8, 2, batch_first=True, dropout=0.1)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 5, 4), [5, 3, 2], batch_first=True)
    model(packed)[1][0].sum().backward()
    optimizer.step()
    return list(model.parameters())


def gradient_penalty() -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    x = torch.randn(5, 4, requires_grad=True)
    (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    loss = ((g.norm(2, dim=1) - 1) ** 2).mean()
    loss.backward()
    return [loss, *(p.grad for p in model.parameters() if p.grad is not None)]


def transformed() -> list[Any]:
    model = nn.Linear(3, 2)

    def loss(parameters: Any, x: Any) -> Any:
        return torch.func.functional_call(model, parameters, (x,)).square().sum()

    parameters = dict(model.named_parameters())
    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, torch.randn(5, 3))
    return list(each.values())


def sparse_gradients() -> list[Any]:
    model = nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    model(torch.tensor([1, 2, 2])).sum().backward()
    optimizer.step()
    return [model.weight]


def scaled_and_clipped() -> list[Any]:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.randn(4, 8)).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return [loss, *model.parameters()]


def repeated_forward() -> list[Any]:
    model = Tower()
    x = torch.randn(2, 8, requires_grad=True)
    y = checkpoint(model, x, use_reentrant=True) + checkpoint(model, x, use_reentrant=False)
    y.sum().backward()
    return [y, x.grad]


def conjugates() -> list[Any]:
    x = torch.randn(8, requires_grad=True)
    y = torch.fft.rfft(x)
    (y.conj() * y).real.sum().backward()
    return [x.grad, torch.linalg.svd(torch.randn(3, 3))[1]]


PROGRAMS = [
    convolutions, recurrence, gradient_penalty, transformed, sparse_gradients, scaled_and_clipped,
    repeated_forward, conjugates,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_computes_the_same_and_has_no_fault(program: Callable[[], list[Any]]) -> None:
    both = []
    for is_logged in (False, True):
        torch.manual_seed(0)
        log = tt.ops()
        with log if is_logged else contextlib.nullcontext():
            both.append([*(one.detach().clone() for one in program()), torch.get_rng_state()])
    assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))
    assert log._mode.errors == 0, log._mode.error
    assert log.first_bad is None, origin_report(log)
    linked = [row for row in log if row.phase == "backward" and row.node != "AccumulateGrad"]
    assert all(row.forward >= 0 for row in linked)


def test_it_warns_of_nothing_and_counts_no_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = planted()
    assert log._mode.errors == 0, log._mode.error


def test_an_error_of_an_operator_reaches_the_program_unchanged() -> None:
    with tt.ops() as log, pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert names(log)[-1] == "aten::mm"


def test_an_error_of_ours_is_counted_and_does_not_reach_the_program() -> None:
    log = tt.ops()

    def fail(_: object) -> int:
        raise ZeroDivisionError

    log._mode._ask(fail, fail, fail, 100)  # type: ignore[arg-type]
    with log:
        y = torch.ones(2) + 1
    assert torch.equal(y, torch.full((2,), 2.0))
    assert isinstance(log._mode.error, ZeroDivisionError)


@needs_exchange_table
def test_other_modes_and_logs_see_the_same_operators() -> None:
    seen: list[str] = []

    class Other(dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    with Other(), tt.ops() as outer, tt.ops() as inner:
        _ = torch.ones(2).exp()
    assert seen == names(outer) == names(inner) == ["aten::ones", "aten::exp"]


def test_a_running_log_can_be_asked() -> None:
    with tt.ops() as log:
        x = torch.ones(2) - 1
        assert log.first_bad is None
        _ = x.log()
        assert log.first_bad is not None
        assert repr(log) == f"<OperatorLog: {len(log)} operators>"
    assert log.first_bad is not None


def test_after_the_limit_operators_run_unlogged() -> None:
    with tt.ops(limit=3) as log:
        x = torch.ones(2)
        for _ in range(10):
            x = x + 1
    assert torch.equal(x, torch.full((2,), 11.0))
    assert len(log) == 3
    assert "8 operators ran after the limit" in log.notes[0]


def test_a_log_begins_once() -> None:
    with tt.ops() as log:
        _ = torch.ones(1)
    with pytest.raises(RuntimeError, match="begins once"):
        log.start()
    with pytest.raises(ValueError, match="limit"):
        tt.ops(limit=0)
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module or None, not 3"):
        tt.ops(3)  # type: ignore[arg-type]


def test_importing_tensortap_does_not_import_torch() -> None:
    code = "import sys, tensortap.operators; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_step_of_an_optimizer_is_told_from_its_closure() -> None:
    class Own(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(0.5)

    model = nn.Linear(2, 1)
    x = torch.ones(1, 2)
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure() -> Any:
        lbfgs.zero_grad()
        loss = model(x).exp().sum()
        loss.backward()
        return loss

    with tt.ops(model) as log:
        lbfgs.step(closure)
        Own(model.parameters(), {}).step()
    assert {row.phase for row in log if row.name == "aten::exp"} == {"forward"}
    assert {row.phase for row in log if row.name == "aten::mul_"} == {"optimizer"}


def test_an_operator_in_place_that_copies_first_is_linked() -> None:
    x = torch.rand(2, 3, requires_grad=True)
    with tt.ops() as log:
        y = x.topk(2)[0]
        y /= y.sum(-1, keepdim=True)
        y.exp().sum().backward()
    divided = [row for row in log if row.node == "DivBackward0"]
    assert divided
    assert {row.source for row in divided} == {"y /= y.sum(-1, keepdim=True)"}


def test_a_scaler_that_skips_the_step_is_named() -> None:
    model = nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.ops(model) as log:
        y = model(torch.full((1, 2), 1e10))
        scaler.scale((y - y.detach()).sum()).backward()
        scaler.step(optimizer)
    assert "GradScaler, which skips the step" in origin_report(log)


def test_nothing_is_kept_alive_after_the_log() -> None:
    model = nn.Linear(2, 2)
    with tt.ops(model) as log:
        y = model(torch.ones(1, 2))
    refs = [weakref.ref(model), weakref.ref(y)]
    del model, y
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
    assert len(log) > 0
