"""What the black box keeps, when it is written, and that it changes nothing."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import stat
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from commands import tensortap  # noqa: E402
from programs import fork_server  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from trained import BAD_ROW, Net, train  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.blackbox import file  # noqa: E402
from tensortap.blackbox.values import MISSING, join, take_apart  # noqa: E402
from tensortap.blackbox.writer import Writer  # noqa: E402
from tensortap.models import forward  # noqa: E402


def dumps(run: Path) -> dict[int, list[Path]]:
    return file.dumps(run)


def only(run: Path) -> Path:
    ((path,),) = dumps(run).values()
    return path


# ---- when it is written


def test_the_first_bad_value_writes_it_for_its_owner_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with tt.record(tmp_path / "run", black_box=3):
        train("mlp")
    path = only(tmp_path / "run")
    facts, tensors = file.read(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert f"step {facts['step']}: " in capfd.readouterr().err
    assert facts["cause"] == "not finite"
    last = next(one for one in facts["steps"] if one["step"] == facts["step"])
    assert BAD_ROW in last["batches"][0]["rows"]
    x = tensors[f"step{facts['step']}/batch0/0"]
    assert not x[last["batches"][0]["rows"].index(BAD_ROW)].isfinite().any()


def test_other_programs_read_the_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    with tt.record(tmp_path / "run", black_box=3):
        train("cnn")
    path = only(tmp_path / "run")
    theirs, ours = safetensors.load_file(path), file.read(path)[1]
    assert theirs.keys() == ours.keys()
    for name, tensor in ours.items():
        assert tt.digest(theirs[name]) == tt.digest(tensor), name


def test_it_keeps_the_steps_since_the_last_snapshot_but_one(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", black_box=4) as run:
        train("mlp", steps=11, bad=False)
        path = run.dump()
    assert path is not None
    facts = file.read_facts(path)[0]
    assert facts["snapshot"]["step"] == 4  # 8 is the last one
    assert [one["step"] for one in facts["steps"]] == [3, *range(4, 12)]


def test_an_exception_writes_it(tmp_path: Path) -> None:
    def fail() -> None:
        train("mlp", steps=5, bad=False)
        raise IndexError("no such row")

    with pytest.raises(IndexError), tt.record(tmp_path / "run", black_box=2):
        fail()
    facts = file.read_facts(only(tmp_path / "run"))[0]
    assert (facts["cause"], facts["text"]) == ("exception", "IndexError: no such row")


def losses_of(*values: float) -> None:
    """Have these losses in a training."""
    net = nn.Linear(1, 1)
    tt.watch(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    for value in values:
        loss = net(torch.zeros(1)).sum() * 0 + value
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_jump_of_the_loss_writes_it_if_asked(tmp_path: Path) -> None:
    usual = [1 + 0.01 * (i % 5) for i in range(30)]
    with tt.record(tmp_path / "asked", black_box=4, black_box_on="spike"):
        losses_of(*usual, 9.0, 1.0)
    with tt.record(tmp_path / "quiet", black_box=4):
        losses_of(*usual, 9.0, 1.0)
    assert list(dumps(tmp_path / "asked")) == [30]
    assert not dumps(tmp_path / "quiet")


def test_it_is_written_once_for_each_cause_and_step(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", black_box=4) as run:
        losses_of(1.0, float("nan"), float("nan"), float("inf"))
        assert run.dump() == run.dump()
        losses_of(float("nan"))
    assert list(dumps(tmp_path / "run")) == [1, 4]


def test_a_mask_of_minus_infinity_is_no_reason(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.mask = nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.mask(self.inner(x).masked_fill(torch.eye(2).bool(), -torch.inf)).softmax(-1)

    with tt.record(tmp_path / "run", black_box=4):
        net = Masked()
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(2, 2)).square().sum().backward()
        optimizer.step()
    assert not dumps(tmp_path / "run")


def step_with(net: nn.Module, x: Any, loss_of: Any = torch.sum, scaler: Any = None) -> None:
    """Train for one step."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    loss = loss_of(net(x))
    (loss if scaler is None else scaler.scale(loss)).backward()
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()


@pytest.mark.parametrize("sign", [1, -1])
def test_an_overflow_of_a_layer_is_a_reason_whatever_its_sign(sign: int, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Softplus())  # 0 or Inf, and a finite loss
    nn.init.constant_(net[0].weight, sign * 3e38)
    with tt.record(tmp_path / "run", model=net, black_box=4):
        step_with(net, torch.full((2, 2), 9.0), lambda y: y.clamp(max=1).sum())
    text = file.read_facts(only(tmp_path / "run"))[0]["text"]
    assert text == f"{'Inf' if sign > 0 else '-Inf'} in activation/0"


class Steep(torch.autograd.Function):
    """The same values, with gradients that overflow as soon as they are scaled, or always."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.factor, None


@pytest.mark.parametrize(("factor", "is_fault"), [(3e37, False), (float("inf"), True)])
def test_gradients_that_overflow_by_their_scale_are_no_reason(
    factor: float, is_fault: bool, tmp_path: Path
) -> None:
    net, scaler = nn.Linear(2, 1), torch.amp.GradScaler("cpu", init_scale=64.0)
    with tt.record(tmp_path / "run", model=net, black_box=4):
        for i in range(12):  # 64, 32, ... 1: each skipped step halves the scale
            steepness = 1.0 if i < 3 else factor
            step_with(net, torch.ones(1, 2), lambda y, f=steepness: Steep.apply(y, f).sum(), scaler)
    assert scaler.get_scale() == (0.125 if is_fault else 8)
    assert list(dumps(tmp_path / "run")) == ([9] if is_fault else [])


# ---- digests


def test_every_gradient_of_every_step_is_digested(tmp_path: Path) -> None:
    net = nn.Linear(300, 300)  # 360 kB
    with tt.record(tmp_path / "run", model=net, black_box=4):
        for scale in (1.0, 1.0, torch.nan):
            step_with(net, torch.ones(1, 300), lambda y, scale=scale: y.sum() * scale)
    steps = file.read_facts(only(tmp_path / "run"))[0]["steps"]
    sampled, whole = steps[1]["digests"], steps[2]["digests"]
    assert {"gradient/weight#0 sample", "gradient/bias#0 sample"} <= sampled.keys()
    assert {"gradient/weight#0", "gradient/bias#0"} <= whole.keys()
    assert not {"gradient/weight#0"} & sampled.keys()


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ((64, 100), np.s_[::7]),  # 25600 bytes, 4000 of them: every seventh row
        ((2, 3200), np.s_[:1, ::4]),  # one row is too much: every fourth element of it
        ((1100, 1100), np.s_[:1, ::2]),
        ((10, 10), np.s_[:]),
        ((), np.s_[...]),
        ((0, 5), np.s_[:]),
    ],
)
def test_a_sample_is_of_rows_at_equal_distances(shape: Any, part: Any) -> None:
    tensor = torch.randn(shape)
    (found,) = _core._digests([tensor], 4000)
    assert found == tt.digest(tensor.numpy()[part].copy()).hex()
    assert _core._digests([tensor, object()], 0) == [tt.digest(tensor).hex(), None]
    assert _core._digests([tensor.t()], 0) == [tt.digest(tensor.t().contiguous()).hex()]


# ---- random generators


def _draw_one_of_two() -> None:
    random.gauss(0, 1)
    np.random.standard_normal()  # the second of a pair waits for the next call


def _draw_again() -> None:
    """Come to the same words of the generators, but with a number that waits."""
    random.seed(1), np.random.seed(1)
    _draw_one_of_two()


def test_the_states_of_generators_are_those_of_now() -> None:
    one, again = _draw_one_of_two, _draw_again
    with forward.unnoticed():
        for use in (again, one, again, one, one, random.random, np.random.rand, lambda: None):
            use()
            states = forward.random_states()
            assert states["random"] == random.getstate()
            np.testing.assert_equal(states["numpy"], np.random.get_state(legacy=False))


def test_the_state_of_another_generator_of_numpy_is_that_of_now() -> None:
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        first = forward.random_states()["numpy"]
        np.random.rand()
        assert forward.random_states()["numpy"] != first
    finally:
        np.random.set_bit_generator(before)


# ---- signals


def in_child(function: Any, *arguments: Any) -> int | None:
    """Run a function in a process of its own; return its exit code."""
    process = fork_server().Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def be_signalled(folder: Path, number: signal.Signals, has_own: bool) -> None:
    os.chdir(folder)
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, (lambda *_: sys.exit(7)) if has_own else usual)
    with tt.record("run", black_box=2):
        train("mlp", steps=4, bad=False)
        os.kill(os.getpid(), signal.SIGUSR2)
        train("mlp", steps=2, bad=False)
        Path("still-here").touch()
        os.kill(os.getpid(), number)
        train("mlp", steps=2, bad=False)
        Path("never").touch()


@pytest.mark.parametrize(
    ("number", "has_own", "code"),
    [
        (signal.SIGTERM, False, -signal.SIGTERM),
        (signal.SIGTERM, True, 7),
        (signal.SIGINT, False, 1),  # KeyboardInterrupt, as ever
        (signal.SIGINT, True, 7),
    ],
)
def test_signals_write_it_and_end_the_program_as_before(
    number: signal.Signals, has_own: bool, code: int, tmp_path: Path
) -> None:
    assert in_child(be_signalled, tmp_path, number, has_own) == code
    assert (tmp_path / "still-here").exists()
    assert not (tmp_path / "never").exists()
    causes = [file.read_facts(paths[0])[0]["cause"] for paths in dumps(tmp_path / "run").values()]
    assert causes == ["SIGUSR2", number.name]


def test_nothing_is_kept_and_no_handler_stays_after_the_run(tmp_path: Path) -> None:
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    before = signal.getsignal(signal.SIGTERM), _BaseDataLoaderIter.__next__
    with tt.record(tmp_path / "run", black_box=2) as run:
        train("mlp", steps=3, bad=False)
        assert (signal.getsignal(signal.SIGTERM), _BaseDataLoaderIter.__next__) != before
    assert (signal.getsignal(signal.SIGTERM), _BaseDataLoaderIter.__next__) == before
    assert run.box is not None
    assert not run.box.steps
    assert isinstance(run.box.role, Writer)
    assert not run.box.role.snapshots


# ---- when it cannot be written


def test_a_limit_that_is_too_small_turns_it_off_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with tt.record(tmp_path / "run", black_box=2, black_box_bytes=100) as run:
        train("mlp", steps=3)
        assert run.dump() is None
    assert "black box off: two snapshots of" in capfd.readouterr().err
    assert "not finite" not in dumps(tmp_path / "run")


def test_large_batches_bring_the_next_snapshot_sooner(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", black_box=1000, black_box_bytes=2_000_000) as run:
        train("mlp", steps=200, bad=False)
        assert run.box is not None
        assert isinstance(run.box.role, Writer)
        held = sum(step.size for step in run.box.steps)
        held += sum(kept.memory.used for _, kept in run.box.role.snapshots)
        assert run.box.role.snapshots[-1][0] > 0
        assert held < 2_000_000
        assert run.dump() is not None


def fail_to_write(folder: Path, how: str) -> None:
    os.chdir(folder)
    if how == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    elif how == "killed at the end":
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    else:
        os.write = lambda fd, data, own=os.write: (
            own(fd, data) if len(data) < 9999 else os.kill(os.getpid(), signal.SIGKILL)
        )
    with tt.record("run", black_box=2, only="none"):
        train("cnn")
    Path("trained").touch()


@pytest.mark.parametrize("how", ["full", "killed", "killed at the end"])
def test_a_full_disk_or_a_kill_leaves_no_file(how: str, tmp_path: Path) -> None:
    assert in_child(fail_to_write, tmp_path, how) == (0 if how == "full" else -signal.SIGKILL)
    assert (tmp_path / "trained").exists() == (how == "full")
    assert not dumps(tmp_path / "run")
    assert (tmp_path / "run" / "blackbox").exists()  # it was tried
    assert tensortap("rm", "run", "--yes", folder=tmp_path).returncode == 0
    assert not (tmp_path / "run").exists()  # nor what was left of the data


# ---- that it changes nothing


class Counted(Dataset[Any]):
    """Rows that count how often they are read."""

    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> Any:
        self.reads += 1
        return torch.randn(8) + i


def facts_of(black_box: int | None, where: Path) -> tuple[Any, ...]:
    torch.manual_seed(3)
    data, net = Counted(), Net("mlp")
    optimizer = torch.optim.Adam(net.parameters())
    with tt.record(where, model=net, black_box=black_box):
        for _ in range(3):
            for x in DataLoader(data, batch_size=4, shuffle=True):
                net(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    state = [tt.digest(p) for p in net.parameters()]
    return state, torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), data.reads


def test_armed_and_not_armed_compute_the_same_bits(tmp_path: Path) -> None:
    assert facts_of(2, tmp_path / "armed") == facts_of(None, tmp_path / "plain")


# ---- values


class Pair(NamedTuple):
    left: Any
    right: Any


class Bag:
    """An object of the program's own."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.other = object()


def kept(value: Any) -> tuple[Any, dict[str, Any]]:
    tensors: dict[str, Any] = {}
    tree = take_apart(value, "", lambda name, t: tensors.setdefault(name, t.clone()) is not None)
    return json.loads(json.dumps(tree)), tensors


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        float("inf"),
        "text",
        b"\x00\xff",
        2 + 3j,
        [1, (2, [3.5])],
        {"a": {3: [None, True]}},
        {"words": ["a", "b"], "ids": [1, 2]},
        np.float32(2.5),
    ],
)
def test_plain_values_come_back(value: Any) -> None:
    back = join(*kept(value))
    assert back == value
    assert type(back) is type(value)


def test_arrays_tensors_and_objects_come_back() -> None:
    value = {
        "array": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "tensor": torch.randn(2, 3, dtype=torch.bfloat16).t(),
        "pair": Pair(torch.ones(2), "x"),
        "bag": Bag(torch.full((2,), 7.0)),
    }
    own = {**value, "pair": Pair(torch.zeros(1), ""), "bag": Bag(torch.zeros(3))}
    back = join(*kept(value), own)
    assert np.array_equal(back["array"], value["array"])
    assert back["array"].dtype == np.int16
    assert torch.equal(back["tensor"], value["tensor"])
    assert isinstance(back["pair"], Pair)
    assert back["pair"].left.tolist() == [1, 1]
    assert back["bag"].x.tolist() == [7, 7]
    assert back["bag"].other is own["bag"].other  # not kept: the program's own


def test_an_object_without_one_of_the_program_is_refused() -> None:
    with pytest.raises(ValueError, match="a Pair was kept, and the program has nothing"):
        join(*kept(Pair(1, 2)), MISSING)


# ---- hostile files


def changed(path: Path, change: Any) -> Path:
    """Write the file again with another head."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    head = change(head) or head
    text = json.dumps(head).encode()
    path.chmod(0o600)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    return path


def set_facts(**values: Any) -> Any:
    def change(head: Any) -> None:
        facts = json.loads(head["__metadata__"]["facts"])
        head["__metadata__"]["facts"] = json.dumps({**facts, **values})

    return change


def set_parts(key: str, value: Any) -> Any:
    def change(head: Any) -> None:
        facts = json.loads(head["__metadata__"]["facts"])
        facts["steps"][0][key] = [value]
        head["__metadata__"]["facts"] = json.dumps(facts)

    return change


def set_entry(**values: Any) -> Any:
    def change(head: Any) -> None:
        name = next(name for name in head if name != "__metadata__")
        head[name].update(values)

    return change


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    run = tmp_path_factory.mktemp("hostile") / "run"
    with tt.record(run, black_box=3):
        train("mlp")
    return only(run).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        set_entry(shape=[1 << 40, 1 << 40]),
        set_entry(shape=[-1]),
        set_entry(shape="x"),
        set_entry(shape=[3.5]),
        set_entry(data_offsets=[0, 1 << 60]),
        set_entry(data_offsets=[8, 0]),
        set_entry(data_offsets=[1]),
        set_entry(dtype="PICKLE"),
        set_entry(dtype=None),
        set_facts(step="x"),
        set_facts(steps=[3]),
        set_facts(steps=[{"step": 1}]),
        set_facts(program={"command": "rm -r /"}),
        set_facts(program=None),
        set_facts(world_size=10**11),
        set_facts(rank=-1),
        set_facts(snapshot={}),
        set_facts(seconds="x"),
        set_facts(program={"cwd": {}}),
        set_facts(program={"file": "a\0"}),
        set_parts("batches", 3),
        set_parts("forwards", {"inputs": [1]}),
        set_parts("updates", {}),
        set_parts("losses", 1),
        set_parts("variables", ["f", 1, "x", []]),
        lambda head: head | {f"same{i}": [*head.values()][1] for i in range(3000)},
        lambda head: head["__metadata__"].pop("facts") and None,
        lambda head: {"__metadata__": {}},
        lambda head: [1],
    ],
)
def test_a_hostile_file_is_refused(written: bytes, change: Any, tmp_path: Path) -> None:
    path = tmp_path / "rank0.safetensors"
    path.write_bytes(written)
    with pytest.raises(file.DamagedError, match="is not a black box that can be read"):
        file.read(changed(path, change))


@pytest.mark.parametrize("size", [0, 5, 8, 1000])
def test_a_torn_file_is_refused(written: bytes, size: int, tmp_path: Path) -> None:
    path = tmp_path / "rank0.safetensors"
    path.write_bytes(written[:size])
    with pytest.raises(file.DamagedError):
        file.read(path)
