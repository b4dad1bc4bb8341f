"""A traced program computes the same bits, raises the same errors, and is left as it was."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from versions import needs_exchange_table  # noqa: E402

import tensortap as tt  # noqa: E402
import tensortap.flow  # noqa: E402
from tensortap.trace import ModelTracer  # noqa: E402

EVERYTHING = ["*", "*.*", "*.*.*", "*.*.*.*", "forward.self.*", "forward.self.*.*"]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.3)

    def mix(self, x):
        y = self.fc(x)
        y = self.drop(y)
        return y

    def forward(self, x):
        h = self.norm(x)
        h = h + self.mix(h)
        h.mul_(1.5)
        return h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.bn = nn.BatchNorm1d(8)

    def forward(self, x):
        parts = []
        for block in self.blocks:
            x = block(x)
            parts.append(x)
        return self.bn(torch.stack(parts).sum(0))


def train(tracing, steps=4):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    outputs = []

    def loop():
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(torch.randn(5, 8))
            out.square().mean().backward()
            optimizer.step()
            outputs.append(out.detach().clone())

    if tracing:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with ModelTracer(model, EVERYTHING, gathering_interval=2):
                loop()
    else:
        loop()
    grads = [p.grad.clone() for p in model.parameters()]
    return outputs, grads, list(model.state_dict().values()), torch.get_rng_state()


def test_outputs_gradients_parameters_and_random_numbers_are_the_same_bits():
    for plain, traced in zip(train(False), train(True), strict=True):
        pairs = (
            [(plain, traced)]
            if isinstance(plain, torch.Tensor)
            else zip(plain, traced, strict=True)
        )
        for a, b in pairs:
            assert torch.equal(a, b)


def test_the_model_is_left_as_it_was():
    model = Net()
    before = [set(vars(m)) for m in model.modules()]
    with ModelTracer(model, ["*.*", "forward.x", "blocks.*.mix.y"]):
        model(torch.randn(5, 8))
        pickle.loads(pickle.dumps(model))
        copied = copy.deepcopy(model)
    assert [set(vars(m)) for m in model.modules()] == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not any(vars(m).get("_compiled_call_impl") for m in copied.modules())


def test_the_trace_function_of_a_debugger_is_put_back():
    events = []

    def debugger(frame, event, arg):
        events.append(event)
        return debugger

    model = Net()
    old = sys.gettrace()
    sys.settrace(debugger)
    try:
        with ModelTracer(model, ["forward.x"]) as tracer:
            model(torch.randn(5, 8))
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(old)
    assert len(tracer.results["forward.x"].values) == 3
    assert events


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.is_failing = True

    def forward(self, x):
        y = self.fc(x)
        if self.is_failing:
            raise KeyError("mine")
        return y


def test_an_exception_in_forward_is_the_same_and_everything_is_put_back():
    model, before = Fails(), sys.gettrace()
    hook = threading.gettrace() if hasattr(threading, "gettrace") else None
    tracer = ModelTracer(model, ["forward.y", "fc", "forward"])
    with pytest.raises(KeyError, match="mine"), tracer:
        model(torch.ones(1, 3))
    assert sys.gettrace() is before
    assert (threading.gettrace() if hasattr(threading, "gettrace") else None) is hook
    assert "_compiled_call_impl" not in vars(model)
    assert len(tracer.results["forward.y"].values) == 1  # what was seen is kept


def test_an_exception_that_is_caught_leaves_the_trace_going():
    model = Fails()
    with ModelTracer(model, ["forward.y", "forward"]) as tracer:
        with pytest.raises(KeyError):
            model(torch.ones(1, 3))
        assert sys.gettrace() is None or "tensortap" not in repr(sys.gettrace())
        model.is_failing = False
        model(torch.ones(1, 3))
    assert tracer.results["forward.y"].iterations == [1, 2]
    assert tracer.results["forward"].iterations == [2]


def test_between_forwards_no_trace_function_is_on():
    model, seen = Net(), []
    with ModelTracer(model, ["forward.x"]):
        model(torch.randn(5, 8))
        seen.append(sys.gettrace())
    assert seen == [None]


def test_kept_values_do_not_keep_the_programs_tensors_alive():
    model = Net()
    x = torch.randn(5, 8)
    with ModelTracer(model, ["forward.x", "forward.parts", "forward.parts.*"]):
        out = model(x)
        refs = [weakref.ref(out), weakref.ref(x)]
        del out, x
        gc.collect()
        assert all(ref() is None for ref in refs)


def test_a_tracer_that_is_dropped_lets_the_model_go():
    model = Net()
    with ModelTracer(model, ["forward.x"]) as tracer:
        model(torch.randn(5, 8))
    ref = weakref.ref(model)
    del model, tracer
    gc.collect()
    assert ref() is None


@needs_exchange_table
def test_modes_of_torch_see_only_the_program():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    def counts(tracing):
        seen = []

        class Functions(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        class Operators(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        torch.manual_seed(0)
        model, x = Net(), torch.randn(5, 8)
        tracer = ModelTracer(model, ["forward.x", "blocks.*", "blocks.*.mix.y"])
        with Functions(), Operators():
            if tracing:
                with tracer:
                    model(x)
            else:
                model(x)
        return seen, tracer

    plain, _ = counts(False)
    traced, tracer = counts(True)
    assert [str(f) for f in traced] == [str(f) for f in plain]
    assert tracer.results["blocks.0"].values[0].shape == (5, 8)


def test_subclasses_of_tensor_are_not_asked():
    calls = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    class Same(nn.Module):
        def forward(self, x):
            y = x
            return y

    x = torch.ones(3).as_subclass(Loud)
    model = Same()
    with ModelTracer(model, ["forward.y", "forward.x"]) as tracer:
        calls.clear()
        model(x)
        assert calls == []
    assert tracer.results["forward.y"].values[0].tolist() == [1, 1, 1]


def test_threads_that_ran_before_are_left_alone_and_new_ones_are_followed():
    model, x = Net().eval(), torch.randn(5, 8)
    go, done = threading.Event(), threading.Event()

    def early():
        go.wait(120)
        model(x)
        done.set()

    before = threading.Thread(target=early)
    before.start()
    with ModelTracer(model, ["forward.x"]) as tracer:
        go.set()
        assert done.wait(120)
        assert tracer.current_iteration == 0
        later = threading.Thread(target=lambda: model(x))
        later.start()
        later.join()
    before.join()
    assert set(tracer.results["forward.x"].iterations) == {1}


def test_flow_a_run_and_two_tracers_work_at_once(tmp_path):
    model = Net()
    with (
        tt.record(tmp_path / "run", model=model),
        ModelTracer(model, ["forward.x"]) as first,
        ModelTracer(model, ["forward.x", "bn"]) as second,
    ):
        with tt._core.watch_lines(
            lambda event: None, select=lambda code: code.co_filename == __file__
        ):
            model(torch.randn(5, 8))
        model(torch.randn(5, 8))
    assert len(first.results["forward.x"].values) == len(second.results["forward.x"].values) == 6
    with tt.open(tmp_path / "run") as read:
        assert "activation/bn" in read
        assert "trace/forward.x" in read


def test_unchanged_tensors_of_an_iteration_are_copied_once():
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Identity(), nn.Identity()

        def forward(self, x):
            y = self.a(x)
            return self.b(y)

    model = Chain()
    names = ["forward.x", "a.forward.input", "a", "forward.y", "b.forward.input", "b", "forward"]
    with ModelTracer(model, names) as tracer:
        model(torch.randn(100))
    kept = [tracer.results[name].values[0] for name in names]
    assert len({t.data_ptr() for t in kept}) == 1
    assert len({id(t) for t in kept}) == 1


def test_ctrl_c_while_a_value_is_kept_reaches_the_program():
    class Interrupted(ModelTracer):
        def _lists(self, number, name):
            raise KeyboardInterrupt

    model = nn.Linear(2, 2)
    with Interrupted(model, "forward"), pytest.raises(KeyboardInterrupt):
        model(torch.ones(1, 2))


class Broken(list):
    """Cannot be iterated over."""

    def __init__(self, error):
        super().__init__([1])
        self.error = error

    def __iter__(self):
        raise self.error


class Odd:
    """Has no dict to speak of."""

    @property
    def __dict__(self):
        raise LookupError("no dict")


class Uncopyable:
    """Cannot be copied."""

    def __reduce_ex__(self, protocol):
        raise LookupError("no copy")


class Holding(nn.Module):
    def __init__(self, held):
        super().__init__()
        self.held = held

    def forward(self, x):
        held = self.held
        y = x + 1
        return y


def test_a_value_whose_dict_cannot_be_asked_for_is_kept():
    model = Holding(Odd())
    with ModelTracer(model, ["forward.held"]) as tracer:
        assert model(torch.ones(1)) == 2
    (kept,) = tracer.results["forward.held"].values
    assert type(kept) is Odd
    assert kept is not model.held


@pytest.mark.parametrize(
    ("held", "why"),
    [(Broken(ValueError("mine")), "Broken: mine"), (Uncopyable(), "Uncopyable: no copy")],
    ids=["iter", "reduce"],
)
def test_a_value_that_raises_when_it_is_copied_is_named_and_training_goes_on(held, why):
    model = Holding(held)
    tracer = ModelTracer(model, ["forward.held", "forward.y"], keep="always")
    with warnings.catch_warnings(record=True) as warned, tracer:
        warnings.simplefilter("always")
        for _ in range(3):
            assert model(torch.ones(1)) == 2
    (text,) = [str(one.message) for one in warned]
    assert text == f"not kept, as they cannot be copied: forward.held ({why}; 3 times)"
    assert len(tracer.results["forward.y"].values) == 3


def test_ctrl_c_while_a_value_is_copied_goes_to_the_program():
    model = Holding(Broken(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt), ModelTracer(model, ["forward.held"]):
        model(torch.ones(1))
