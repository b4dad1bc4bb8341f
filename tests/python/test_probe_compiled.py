"""Modules inside compiled graphs are recorded as if they ran eagerly."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensortap as tt

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from programs import finish  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from versions import needs_probes  # noqa: E402

pytestmark = needs_probes

EAGER = "eager"  # Dynamo's backend that runs the graph as it was traced


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc, self.act = nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU()

    def forward(self, x: Any) -> Any:
        return x + self.act(self.fc(self.norm(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.cell = Several(), nn.Linear(8, 8)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        for _ in range(3):
            x = torch.relu(self.cell(x))
        found = self.inner(x)
        return found["p"]["q"] * scale + found["t"][0]


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        return {"p": {"q": y}, "t": (x, None, [y * 2])}


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        return self.out(torch.relu(self.norm(self.conv(x.view(-1, 4, 8)))))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def forward(self, x: Any) -> Any:
        return checkpoint(self.second, self.first(x), use_reentrant=False)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act, self.head = nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.act(self.fc(x)))


def wrapped(model: nn.Module, **options: Any) -> Callable[..., Any]:
    return torch.compile(model, **options)


def by_method(model: nn.Module, **options: Any) -> Callable[..., Any]:
    model.compile(**options)
    return model


def in_function(model: nn.Module, **options: Any) -> Callable[..., Any]:
    return torch.compile(lambda x: model(x), **options)


def parts(model: nn.Module, **options: Any) -> Callable[..., Any]:
    for part in model.children():
        for block in part if isinstance(part, nn.ModuleList) else [part]:
            block.compile(**options)
    return model


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()


def train(
    folder: Path,
    make: Callable[[], nn.Module],
    compiled: Callable[..., Any] | None = None,
    steps: int = 3,
    backend: str = EAGER,
    record: dict[str, Any] | None = None,
    **watch: Any,
) -> tt.Run:
    """Train for a few steps and evaluate once; give the run."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(folder, **(record or {})):
        call = model if compiled is None else compiled(model, backend=backend)
        tt.watch(model, **watch)
        for step in range(steps):
            torch.manual_seed(step)
            call(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            call(torch.ones(4, 8))
    return tt.open(folder)


def assert_same(a: tt.Run, b: tt.Run) -> None:
    for kind in ("activation/*", "input/*", "activation_gradient/*"):
        assert a.names(kind) == b.names(kind)  # in the order in which they appeared
    names = [name for name in a.names("*") if "/" in name and not name.startswith("loss/")]
    assert {name for name in b.names("*") if "/" in name and not name.startswith("loss/")} == {
        *names
    }
    for name in names:
        (steps, values), (other_steps, others) = a.series(name, "rms"), b.series(name, "rms")
        assert steps.tolist() == other_steps.tolist(), name
        np.testing.assert_allclose(values, others, rtol=1e-4, atol=1e-6, err_msg=name)
        assert [s.shape for s in a.stats(name)] == [s.shape for s in b.stats(name)]


WAYS = {"wrapped": wrapped, "method": by_method, "function": in_function, "parts": parts}
MODELS = {
    "net": Net,
    "nested": Nested,
    "convolutions": Convolutions,
    "sequential": lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_a_compiled_model_has_the_points_of_the_eager_one(
    tmp_path: Path, model: str, way: str
) -> None:
    eager = train(tmp_path / "eager", MODELS[model], inputs=True)
    compiled = train(tmp_path / "compiled", MODELS[model], WAYS[way], inputs=True)
    assert_same(eager, compiled)
    assert not [n for n in compiled.notes if "not seen" in str(n)]


def test_aot_autograd_and_dynamic_shapes_keep_the_points(tmp_path: Path) -> None:
    def dynamic(model: nn.Module, **options: Any) -> Callable[..., Any]:
        return torch.compile(model, dynamic=True, fullgraph=True, **options)

    eager = train(tmp_path / "eager", Net)
    assert_same(eager, train(tmp_path / "compiled", Net, dynamic, backend="aot_eager"))


def test_inductor_keeps_the_points(tmp_path: Path) -> None:
    eager = train(tmp_path / "eager", Net)
    compiled = train(tmp_path / "compiled", Net, wrapped, backend="inductor")
    assert_same(eager, compiled)


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes_of_inductor_keep_the_points_and_no_cuda_graph_would_contain_a_probe(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor import ir, output_code, scheduler
    from torch._inductor.utils import is_cudagraph_unsafe_op

    should_partition = scheduler.Scheduler.should_partition
    kernels: dict[str, set[bool]] = {}  # is it unsafe in a CUDA graph?
    made: list[Any] = []

    def see(self: Any, node: Any, *args: Any) -> Any:
        if isinstance(node.node, ir.FallbackKernel):
            name = str(node.node.op_overload)
            kernels.setdefault(name, set()).add(is_cudagraph_unsafe_op(node.node))
        return should_partition(self, node, *args)

    class Graph(output_code.CompiledFxGraph):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(scheduler.Scheduler, "should_partition", see)
    monkeypatch.setattr("torch._inductor.compile_fx.CompiledFxGraph", Graph)
    compiled = functools.partial(wrapped, mode=mode, fullgraph=True)
    with torch._inductor.config.patch(force_disable_caches=True):
        run = train(tmp_path / "compiled", Net, compiled, backend="inductor", grads="all")
    assert_same(train(tmp_path / "eager", Net, grads="all"), run)
    for name in ("probe_v1", "probe_gradient_v1"):
        assert kernels[f"tensortap.{name}.default"] == {True}
    for graph in made:  # else torch would capture none of it: "mutated inputs"
        assert graph.mutated_input_idxs <= set(graph.fx_kwargs["static_input_idxs"])


def graphs() -> tuple[int, int]:
    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


def test_watching_adds_no_graph_and_changes_compile_nothing_again(tmp_path: Path) -> None:
    def run(model: nn.Module) -> tuple[int, int]:
        torch._dynamo.reset()
        counters.clear()
        call = torch.compile(model, backend=EAGER, fullgraph=True)
        call(torch.ones(4, 8)).sum().backward()
        return graphs()

    plain = run(Net())
    model = Net()
    call = torch.compile(model, backend=EAGER, fullgraph=True)
    with tt.record(tmp_path / "run", every=2, only="*blocks.0*"):
        watched = tt.watch(model)
        assert run(model) == plain
        for _ in range(3):
            call(torch.ones(4, 8)).sum().backward()
        watched.remove()
        call(torch.ones(4, 8)).sum().backward()
        tt.watch(model)
        call(torch.ones(4, 8)).sum().backward()
    call(torch.ones(4, 8)).sum().backward()
    assert graphs() == plain
    assert tt.open(tmp_path / "run").names("activation/*")


def test_every_second_step_is_recorded_from_one_graph(tmp_path: Path) -> None:
    run = train(tmp_path / "run", Net, in_function, steps=5, record={"every": 2})
    steps, _ = run.series("activation/blocks.1.fc", "mean")
    assert sorted(set(steps.tolist())) == [0, 2, 4]


def test_of_two_models_of_one_class_only_the_watched_one_is_recorded(tmp_path: Path) -> None:
    plain, model = Net(), Net()
    first = torch.compile(plain, backend=EAGER)
    second = torch.compile(model, backend=EAGER)
    first(torch.zeros(4, 8))
    with tt.record(tmp_path / "run"):
        tt.watch(model)
        second(torch.ones(4, 8))
        first(torch.zeros(4, 8))
        second(torch.ones(4, 8))
        first(torch.zeros(4, 8))
    run = tt.open(tmp_path / "run")
    assert len(run.series("activation/blocks.0.fc", "mean")[0]) == 2
    assert counters["stats"]["unique_graphs"] == 2
    assert any("compiled again" in str(note) for note in run.notes)


def test_a_nan_inside_a_compiled_block_names_its_module(tmp_path: Path) -> None:
    class Bad(nn.Module):
        def forward(self, x: Any) -> Any:
            return x / (x - x)

    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), Bad()), nn.Linear(4, 1))
    call = torch.compile(model, backend=EAGER, fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = copy.deepcopy(model.state_dict())
    with tt.record(tmp_path / "run"):
        tt.watch(model, on_nonfinite="raise")
        with pytest.raises(tt.NonFiniteError, match=r"activation/1\.1"):  # noqa: PT012
            call(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    first = tt.open(tmp_path / "run").first_nonfinite
    assert first is not None
    assert "activation/1.1" in str(first)


def test_a_compiled_watched_model_is_copied_and_pickled_without_us(tmp_path: Path) -> None:
    model = Net()
    call = torch.compile(model, backend=EAGER)
    with tt.record(tmp_path / "run"):
        tt.watch(model)
        call(torch.ones(4, 8))
        for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
            assert {"forward", "_compiled_call_impl"}.isdisjoint(other.__dict__)
            assert {"forward", "_compiled_call_impl"}.isdisjoint(other.head.__dict__) or (
                other.head is model.head
            )
            assert torch.equal(other(torch.ones(4, 8)), model(torch.ones(4, 8)))
        assert model.forward.__wrapped__ is Net.forward


def test_a_model_that_is_never_compiled_has_no_forward_of_its_own(tmp_path: Path) -> None:
    code = f"""
import torch, tensortap as tt
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with tt.record({str(tmp_path / "run")!r}):
    tt.watch(model)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert "forward" not in model.__dict__
assert "_compiled_call_impl" not in model.__dict__
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_export_contains_no_probe(tmp_path: Path) -> None:
    model = Net()
    torch.compile(model, backend=EAGER)(torch.ones(4, 8))
    with tt.record(tmp_path / "run"):
        tt.watch(model)
        torch.compile(model, backend=EAGER)(torch.ones(4, 8))
        for strict in (False, True):
            program = torch.export.export(model, (torch.ones(4, 8),), strict=strict)
            assert "probe" not in str(program.graph)


def test_a_watched_model_is_traced_by_jit_and_a_copy_is_scripted(tmp_path: Path) -> None:
    model, x = MODELS["sequential"]().eval(), torch.ones(4, 8)
    with tt.record(tmp_path / "run"):
        tt.watch(model)
        for is_compiled in (False, True):
            if is_compiled:
                torch.compile(model, backend=EAGER)(x)
            for made in (torch.jit.trace(model, x), torch.jit.script(copy.deepcopy(model))):
                assert "tensortap::" not in str(made.inlined_graph)
                assert torch.allclose(made(x), model(x))


def test_a_reset_force_eager_and_a_thread_keep_the_points(tmp_path: Path) -> None:
    model = Net()
    call = torch.compile(model, backend=EAGER)
    with tt.record(tmp_path / "run") as run:
        tt.watch(model)
        call(torch.ones(4, 8))
        run.step()
        torch._dynamo.reset()
        call(torch.ones(4, 8))
        run.step()
        with torch.compiler.set_stance("force_eager"):
            call(torch.ones(4, 8))
        run.step()
        torch._dynamo.reset()
        thread = threading.Thread(target=call, args=(torch.ones(4, 8),))
        thread.start()
        thread.join()
    run = tt.open(tmp_path / "run")
    for name in run.names("activation/*"):
        assert run.series(name, "mean")[0].tolist() == [0, 1, 2, 3], name


@pytest.mark.parametrize("is_compiled_before", [True, False])
def test_a_model_compiled_by_its_method_is_seen_under_force_eager(
    tmp_path: Path, is_compiled_before: bool
) -> None:
    model = Net()
    with tt.record(tmp_path / "run") as run:
        if is_compiled_before:
            model.compile(backend=EAGER)
        tt.watch(model)
        if not is_compiled_before:
            model.compile(backend=EAGER)
        for stance in ("force_eager", "default", "force_eager"):
            with torch.compiler.set_stance(stance):
                model(torch.ones(4, 8))
            run.step()
    run = tt.open(tmp_path / "run")
    assert len(run.names("activation/*")) == 10
    for name in run.names("activation/*"):
        assert run.series(name, "mean")[0].tolist() == [0, 1, 2], name


def test_watched_compiled_unwatched_and_compiled_again(tmp_path: Path) -> None:
    model, x = Net(), torch.ones(4, 8)
    want = model(x)
    with tt.record(tmp_path / "run") as run:
        for _ in range(2):
            watched = tt.watch(model)
            for is_watched in (True, False):
                call = torch.compile(model, backend=EAGER)
                assert torch.equal(call(x), want)
                run.step()
                if is_watched:
                    watched.remove()
    run = tt.open(tmp_path / "run")
    for name in run.names("activation/*"):
        assert run.series(name, "mean")[0].tolist() == [0, 2], name
    assert graphs() == (1, 0)


def test_a_graph_that_falls_back_to_eager_is_recorded_once(tmp_path: Path) -> None:
    def fails(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no compiler today")

    model = Net()
    call = torch.compile(model, backend=fails)
    with torch._dynamo.config.patch(suppress_errors=True), tt.record(tmp_path / "run") as run:
        tt.watch(model)
        for _ in range(2):
            call(torch.ones(4, 8))
            run.step()
    run = tt.open(tmp_path / "run")
    assert len(run.names("activation/*")) == 10
    for name in run.names("activation/*"):
        assert run.series(name, "mean")[0].tolist() == [0, 1], name


CACHED = """
import sys, torch, tensortap as tt
from torch import nn
if sys.argv[2] == "older":  # its operator had another name
    import inspect
    from tensortap.compiled import module_call
    older = torch.library.Library("tensortap", "FRAGMENT")
    older.define("probe_v0(Tensor x, Tensor(a!) slots, int slot) -> ()")
    older.impl("probe_v0", lambda x, slots, slot: None, "CompositeExplicitAutograd")
    older.impl("probe_v0", torch.library.fallthrough_kernel, "Autograd")
    torch.library.register_fake("tensortap::probe_v0", lambda x, slots, slot: None, lib=older)
    source = inspect.getsource(module_call._probe).replace("probe_v1", "probe_v0")
    exec(source, module_call.__dict__)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
call = torch.compile(model)
with tt.record(sys.argv[1]):
    tt.watch(model)
    call(torch.ones(2, 4)).sum().backward()
from torch._dynamo.utils import counters
print(counters["inductor"]["fxgraph_cache_hit"], counters["aot_autograd"]["autograd_cache_hit"])
"""


@pytest.mark.heavy
def test_a_compile_cache_is_used_again_but_not_that_of_an_older_tensortap(tmp_path: Path) -> None:
    hits = []
    for kind in ("older", "first", "second"):
        command = [sys.executable, "-c", CACHED, str(tmp_path / kind), kind]
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        hits.append(sum(map(int, done.stdout.split())))
    assert hits[0] == 0 < hits[2]
    assert hits[1] < hits[2]  # the backward graph has no probe: it is found
    assert not tt.open(tmp_path / "older").names("activation/*")
    assert len(tt.open(tmp_path / "first").names("activation/*")) == 4
    assert_same(tt.open(tmp_path / "first"), tt.open(tmp_path / "second"))


def test_sites_of_a_second_run_come_in_the_order_of_calls_too(tmp_path: Path) -> None:
    model = Net()
    call = torch.compile(model, backend=EAGER)
    for run in ("first", "second"):
        with tt.record(tmp_path / run):
            watched = tt.watch(model)
            call(torch.ones(4, 8))
            watched.remove()
    names = tt.open(tmp_path / "first").names("activation/*")
    assert names[-1] == "activation/(root)"
    assert tt.open(tmp_path / "second").names("activation/*") == names


def test_the_cost_of_compiled_modules_is_known(tmp_path: Path) -> None:
    model = Net()
    call = torch.compile(model, backend=EAGER)
    with tt.record(tmp_path / "run") as run:
        tt.watch(model, grads=None)
        for _ in range(40):
            call(torch.ones(4, 8))
            run.step()
        costs = run.costs()
    assert sum(ns for name, ns in costs.items() if name.startswith("activation/")) > 0


def test_values_and_histograms_come_from_compiled_code_too(tmp_path: Path) -> None:
    keep = {"keep": "stats,value,hist,digest"}
    eager = train(tmp_path / "eager", Net, record=keep)
    compiled = train(tmp_path / "compiled", Net, wrapped, record=keep)
    for name in eager.names("activation/*"):
        for step in range(2):
            value, other = eager.tensor(name, step), compiled.tensor(name, step)
            assert np.array_equal(np.asarray(value), np.asarray(other))
            assert eager.digest(name, step) == compiled.digest(name, step)
            assert eager.histogram(name, step) == compiled.histogram(name, step)


def test_checkpointed_blocks_are_counted_once(tmp_path: Path) -> None:
    eager = train(tmp_path / "eager", Checkpointed)
    assert_same(eager, train(tmp_path / "compiled", Checkpointed, wrapped, backend="aot_eager"))
    assert_same(eager, train(tmp_path / "parts", Checkpointed, parts, backend="aot_eager"))


@pytest.mark.parametrize("backend", [EAGER, "aot_eager"])
@pytest.mark.parametrize("make", [Net, Nested, Checkpointed, InPlace])
def test_gradients_of_activations_come_from_compiled_code_too(
    tmp_path: Path, make: Callable[[], nn.Module], backend: str
) -> None:
    eager = train(tmp_path / "eager", make, grads="all")
    compiled = train(tmp_path / "compiled", make, wrapped, backend=backend, grads="all")
    assert eager.names("activation_gradient/*")
    assert_same(eager, compiled)


@pytest.mark.heavy
@pytest.mark.parametrize("make", [Nested, Checkpointed])
def test_gradients_of_activations_come_from_inductor_too(
    tmp_path: Path, make: Callable[[], nn.Module]
) -> None:
    eager = train(tmp_path / "eager", make, grads="all")
    compiled = train(tmp_path / "compiled", make, wrapped, backend="inductor", grads="all")
    assert eager.names("activation_gradient/*")
    assert_same(eager, compiled)


def test_gradients_of_activations_need_no_activations(tmp_path: Path) -> None:
    """Each belongs to its own call: those of one step come in reverse."""
    only = {"only": "activation_gradient/*", "every": 2}
    eager = train(tmp_path / "eager", Nested, record=only, grads="activations")
    compiled = train(tmp_path / "compiled", Nested, wrapped, record=only, grads="activations")
    assert_same(eager, compiled)
    name = "activation_gradient/cell"
    assert compiled.series(name, "rms")[0].tolist() == [0] * 3 + [2] * 3
    assert not compiled.names("activation/*")


def test_an_output_that_only_the_models_own_loss_uses_has_no_gradient(tmp_path: Path) -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            logits = self.head(x)
            return logits, logits.square().mean()

    model = WithLoss()
    call = torch.compile(model, backend="aot_eager")
    with tt.record(tmp_path / "run"):
        tt.watch(model, grads="activations")
        call(torch.ones(4, 8))[1].backward()
    run = tt.open(tmp_path / "run")
    assert run.names("activation_gradient/*") == [
        "activation_gradient/head",
        "activation_gradient/(root).1",
    ]
    assert run.notes == []


def test_gradients_of_activations_break_no_graph(tmp_path: Path) -> None:
    model = Net()
    with tt.record(tmp_path / "run"):
        watched = tt.watch(model, grads="activations")
        call = torch.compile(model, backend="aot_eager", fullgraph=True)
        call(torch.ones(4, 8)).sum().backward()
        watched.remove()
        call(torch.ones(4, 8)).sum().backward()
    assert graphs() == (1, 0)


def test_slots_take_at_most_a_kilobyte_for_each_site(tmp_path: Path) -> None:
    sizes: list[int] = []

    def backend(graph: Any, inputs: list[Any]) -> Any:
        sizes.extend(x.numel() for x in inputs if x.dtype == torch.uint8)
        return graph

    model = nn.Sequential(Block(), Block(), nn.Linear(8, 2))
    call = torch.compile(model, backend=backend, fullgraph=True)
    with tt.record(tmp_path / "run"):
        tt.watch(model)
        call(torch.randn(4, 8))
    sites = tt.open(tmp_path / "run").names("activation/*")
    assert len(sites) == 10
    assert 0 < sum(sizes) <= 1024 * len(sites)


def test_modules_of_a_class_share_a_graph_and_keep_their_names(tmp_path: Path) -> None:
    model = Net()
    blocks = [torch.compile(block, backend=EAGER) for block in model.blocks]
    x = torch.randn(4, 8)
    with tt.record(tmp_path / "run"), torch.no_grad():
        tt.watch(model)
        for _ in range(2):
            blocks[1](blocks[0](x))
    assert graphs() == (1, 0)
    run = tt.open(tmp_path / "run")
    with torch.no_grad():
        for i, block in enumerate(model.blocks):
            found = run.stats(f"activation/blocks.{i}.fc")
            assert [one.mean for one in found] == pytest.approx(
                [float(block.fc(block.norm(x)).mean())] * 2, rel=1e-4
            )
            x = block(x)


def test_a_whole_model_writes_to_one_tensor_and_models_of_a_class_share_its_graph(
    tmp_path: Path,
) -> None:
    seen: list[Any] = []

    def backend(graph: Any, inputs: list[Any]) -> Any:
        seen.append([one for one in inputs if one.dtype == torch.uint8])
        return graph

    models, x = [Net(), Net()], torch.randn(4, 8)
    with tt.record(tmp_path / "run"), torch.no_grad():
        for i, model in enumerate(models):
            tt.watch(model, name=f"m{i}")
            torch.compile(model, backend=backend)(x)
    ((slots,),) = seen
    assert slots.numel() <= 1024 * len(list(models[0].modules()))
    run = tt.open(tmp_path / "run")
    for i, model in enumerate(models):
        first = model.blocks[0]
        found = run.stats(f"activation/m{i}:blocks.0.fc")
        assert [one.mean for one in found] == pytest.approx(
            [float(first.fc(first.norm(x)).mean())], rel=1e-4
        )


@pytest.mark.parametrize("is_watched", [False, True])
def test_layers_that_break_the_graph_share_what_is_compiled_of_them(
    tmp_path: Path, is_watched: bool
) -> None:
    class Broken(Block):
        def forward(self, x: Any) -> Any:
            torch._dynamo.graph_break()
            return super().forward(x)

    model = nn.Sequential(*(Broken() for _ in range(12)))
    with tt.record(tmp_path / "run"), torch.no_grad():
        if is_watched:
            tt.watch(model)
        for _ in range(2):
            torch.compile(model, backend=EAGER)(torch.ones(4, 8))
    assert graphs()[0] == 1
    if is_watched:
        run = tt.open(tmp_path / "run")
        assert {len(run.stats(f"activation/{i}.fc")) for i in range(12)} == {2}


def test_a_part_that_replaces_another_is_recorded_under_its_own_name(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    call = torch.compile(model, backend=EAGER)
    with tt.record(tmp_path / "run"):
        tt.watch(model, name="old")
        call(torch.ones(4, 8))
        model[0] = nn.Linear(8, 8)
        tt.watch(model[0], name="new")
        call(torch.ones(4, 8))
    run = tt.open(tmp_path / "run")
    counts = {name: len(run.series(name, "mean")[0]) for name in run.names("activation/*")}
    assert counts == {
        "activation/old:0": 1,
        "activation/old:1": 2,
        "activation/old:(root)": 2,
        "activation/new:(root)": 1,
    }


def slots_of(model: nn.Module) -> Any:
    return model._compiled_call_impl.slots


def test_a_model_is_seen_if_compiling_it_imports_dynamo(tmp_path: Path) -> None:
    program = """
        import sys, torch, tensortap as tt
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        with tt.record("run"):
            tt.watch(model)
            assert "torch._dynamo" not in sys.modules
            torch.compile(model, backend="eager")(torch.ones(1, 2))
        """
    done = finish(program, tmp_path)
    assert done.returncode == 0, done.stderr
    names = tt.open(tmp_path / "run").names("activation/*")
    assert sorted(names) == ["activation/(root)", "activation/0"]


def test_compiled_parts_alone_are_recorded_while_they_run(tmp_path: Path) -> None:
    """Nothing says that the model has run, so what was seen is read whenever it is much."""
    net, calls = Net().eval(), 4_500
    head = torch.compile(net.head, backend=EAGER)
    with tt.record(tmp_path / "run") as run, torch.no_grad():
        tt.watch(net)
        for _ in range(calls):
            head(torch.ones(1, 8))
        assert run.counts["events"] >= 4_000
    assert len(tt.open(tmp_path / "run").stats("activation/head")) == calls


def test_misuse_of_the_operator_is_an_error(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with tt.record(tmp_path / "run"):
        tt.watch(model)
        torch.compile(model, backend=EAGER)(torch.ones(1, 2))
        probe, slots = torch.ops.tensortap.probe_v1, slots_of(model)
        x = torch.ones(3)
        for slot in (-1, 10**6):
            with pytest.raises(RuntimeError, match="slot must be from 0 to"):
                probe(x, slots, slot)
        with pytest.raises(RuntimeError, match="slots must be the contiguous uint8 tensor"):
            probe(x, torch.zeros(4), 0)
        with pytest.raises(RuntimeError, match="was not made by tensortap"):
            probe(x, torch.zeros(256, dtype=torch.uint8), 0)
        with pytest.raises(RuntimeError, match="must be on the CPU"):
            probe(x, slots.to("meta"), 0)
        gradient = torch.ops.tensortap.probe_gradient_v1
        with pytest.raises(RuntimeError, match="call must be a copy of 8 bytes of slots"):
            gradient(x, slots, torch.zeros(3), 0)
        gradient(x, slots, slots[16:24].clone(), 0)
        assert slots.numel() * slots.element_size() <= 1024


def test_probes_pass_through_grad_and_vmap(tmp_path: Path) -> None:
    model = Net()
    with tt.record(tmp_path / "run"):
        tt.watch(model)

        @torch.compile(backend="aot_eager", fullgraph=True)
        def run(x: Any) -> Any:
            return torch.func.vmap(lambda row: model(row))(x)

        x = torch.randn(3, 4, 8)
        assert torch.allclose(run(x), torch.func.vmap(lambda row: model(row))(x), atol=1e-6)
