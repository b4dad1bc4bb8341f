"""Values of several ranks come together on rank 0: shapes, ranks, iterations, failures."""

from __future__ import annotations

import os
import time

import pytest

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402
from programs import PATIENCE, wait_for  # noqa: E402
from ranks import run_ranks, said  # noqa: E402
from trace_models import C, Small  # noqa: E402

from tensortap.trace import (  # noqa: E402
    H5PYSaverCallback,
    ModelTracer,
    Variable,
    stack_padded_tensors,
    stack_tensors,
)

B = 3


def train(rank, model, count, batch=B, step=None):
    """Run the loop of the seed's examples; every value says whose and when it is."""
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    loss_fn = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for i in range(1, count + 1):
        size = batch(rank, i) if callable(batch) else batch
        data = torch.full((size, C), float(100 * rank + i))
        optimizer.zero_grad()
        loss = loss_fn(ddp(data), torch.zeros(size, C))
        loss.backward()
        optimizer.step()
        if step is not None:
            step(rank, i)


# ---- the seed's examples


def first_example(rank, world, count, interval):
    model = Small()
    tracer = ModelTracer(
        model,
        ["forward", "forward.x"],
        pre_gather_callbacks=[stack_padded_tensors],
        post_gather_callbacks=[stack_padded_tensors],
        post_trace_callbacks=[stack_padded_tensors],
        gathering_interval=interval,
    )
    with tracer:
        train(rank, model, count)
    result = tracer.results["forward.x"]
    return result.values, result.iterations, result.ranks


def second_example(rank, world, path, count, interval):
    model = Small()
    saver = H5PYSaverCallback(dataset_file=path)
    tracer = ModelTracer(
        model,
        ["forward", "forward.x"],
        post_gather_callbacks=[stack_padded_tensors, saver],
        gathering_interval=interval,
    )
    with tracer:
        train(rank, model, count)
    if rank != 0:
        return saver.datasets, saver.h5_file
    shape = saver.datasets["forward.x"].shape
    text = repr(saver.datasets["forward.x"])
    saver.close()
    return shape, text


def mean_post_gather(name, values, iterations, ranks):
    values[0] = values[0].mean(dim=(0, 1))


def third_example(rank, world, count, interval):
    model = Small()
    tracer = ModelTracer(
        model,
        ["forward", "forward.x"],
        post_gather_callbacks=[stack_padded_tensors, mean_post_gather],
        post_trace_callbacks=[stack_padded_tensors],
        gathering_interval=interval,
    )
    with tracer:
        train(rank, model, count)
    return [value.shape for value in tracer.results["forward.x"].values]


def check_first(world, answers, count, interval):
    values, iterations, ranks = answers[0]
    gathers = -(-count // interval)
    assert len(values) == 1
    assert values[0].shape == (gathers, world, interval, B, C)
    for g in range(gathers):
        for w in range(world):
            for i in range(interval):
                number = g * interval + i + 1
                expected = 100 * w + number if number <= count else 0
                assert torch.equal(values[0][g, w, i], torch.full((B, C), float(expected)))
    batches = [range(g + 1, min(g + interval, count) + 1) for g in range(0, count, interval)]
    assert iterations == [i for batch in batches for _ in range(world) for i in batch]
    assert ranks == [w for batch in batches for w in range(world) for _ in batch]
    for rank in range(1, world):
        assert answers[rank] == ([], [], [])


def test_the_first_example_has_the_shape_of_its_comment_with_two_ranks():
    check_first(2, said(run_ranks(2, first_example, 8, 4)), 8, 4)


@pytest.mark.heavy
@pytest.mark.parametrize("world", [3, 4])
def test_the_first_example_has_the_shape_of_its_comment_with_more_ranks(world):
    check_first(world, said(run_ranks(world, first_example, 8, 4)), 8, 4)


def test_the_rest_is_one_more_shorter_batch():
    check_first(2, said(run_ranks(2, first_example, 10, 4)), 10, 4)


def test_the_second_example_has_the_shape_of_its_comment(tmp_path):
    import h5py

    path = str(tmp_path / "deep" / "test.h5")
    answers = said(run_ranks(2, second_example, path, 8, 2))
    assert answers[0][0] == (4, 2 * 2, B, C)
    assert 'HDF5 dataset "forward.x": shape (4, 4, 3, 5)' in answers[0][1]
    assert answers[1] == (None, None)
    with h5py.File(path, "r") as file:
        assert file["forward.x"].dtype == np.float32
        assert list(file["forward.x_ranks"][:4]) == [0, 0, 1, 1]
        assert list(file["forward.x_iterations"][:]) == [
            i for g in range(4) for _ in range(2) for i in (2 * g + 1, 2 * g + 2)
        ]
        rows = file["forward.x"][1, :, 0, 0]
        assert list(rows) == [3, 4, 103, 104]


def test_the_third_example_has_the_shape_of_its_comment():
    answers = said(run_ranks(2, third_example, 8, 4))
    assert answers[0] == [(2, C)]


@pytest.mark.heavy
@pytest.mark.parametrize("world", [3, 4])
def test_the_other_examples_with_more_ranks(tmp_path, world):
    answers = said(run_ranks(world, second_example, str(tmp_path / "test.h5"), 6, 2))
    assert answers[0][0] == (3, 2 * world, B, C)
    assert said(run_ranks(world, third_example, 7, 3))[0] == [(3, C)]


# ---- unequal ranks


def uneven(rank, world):
    model = Small()
    tracer = ModelTracer(
        model,
        ["forward.x", "fc"] if rank == 0 else ["forward.x", "forward"],
        post_gather_callbacks=[stack_padded_tensors],
        gathering_interval=2,
    )
    with tracer:
        train(rank, model, 4, batch=lambda r, i: 2 + r if i < 4 else 1 + 3 * r)
    return {name: [v.shape for v in r.values] for name, r in tracer.results.items()}


def test_ranks_may_have_other_names_and_other_shapes():
    answers = said(run_ranks(2, uneven))
    assert answers[0]["forward.x"] == [(4, 3, C), (4, 4, C)]
    assert answers[0]["fc"] == [(2, 2, C), (2, 2, C)]
    assert answers[0]["forward"] == [(2, 3, C), (2, 4, C)]


def lonely(rank, world, counts):
    """Without DDP: each rank runs as often as it likes."""
    model = Small()
    with ModelTracer(model, ["forward.x"], gathering_interval=2) as tracer:
        for i in range(counts[rank]):
            model(torch.full((1, C), float(100 * rank + i + 1)))
    result = tracer.results["forward.x"]
    return [(r, i, float(v[0, 0])) for r, i, v in zip(*_columns(result), strict=True)]


def _columns(result):
    return result.ranks, result.iterations, result.values


@pytest.mark.parametrize(
    "counts",
    [(3, 8), *(pytest.param(one, marks=pytest.mark.heavy) for one in ((8, 3), (0, 5), (5, 0)))],
)
def test_ranks_with_more_or_fewer_iterations_do_not_wait_for_ever(counts):
    answers = said(run_ranks(2, lonely, counts))
    expected = {(r, i, 100.0 * r + i) for r in (0, 1) for i in range(1, counts[r] + 1)}
    assert set(answers[0]) == expected
    assert len(answers[0]) == len(expected)


def many_types(rank, world):
    class Types(torch.nn.Module):
        def forward(self, x):
            values = [
                x.to(dtype)
                for dtype in (
                    torch.float64,
                    torch.float16,
                    torch.bfloat16,
                    torch.float8_e4m3fn,
                    torch.float8_e5m2,
                    torch.int8,
                    torch.uint8,
                    torch.int64,
                    torch.bool,
                    torch.complex64,
                )
            ]
            values += [x[:0], x[0, 0], x.t(), x.expand(2, 2, 3), x[0].conj(), 3, "text", None]
            values += [{"a": x * 2, "b": [1, (x,)]}, np.arange(6).reshape(2, 3), np.zeros(0)]
            return values

    model = Types()
    with ModelTracer(model, ["forward"]) as tracer:
        model(torch.arange(6.0).reshape(2, 3) + rank)
    result = tracer.results["forward"]
    return result.values, result.ranks


def same(a, b):
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        wide = torch.complex128 if a.is_complex() else torch.float64
        assert torch.equal(a.to(wide), b.to(wide))
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        for key in a:
            same(a[key], b[key])
    else:
        assert a == b


def test_every_type_of_element_arrives_as_it_was():
    values, ranks = said(run_ranks(2, many_types))[0]
    assert ranks == [0, 1]
    own, _ = many_types(1, 1)  # here, with one rank
    same(values[1], own[0])


# ---- Variables and gather=False


def with_variables(rank, world):
    model = Small()
    variable = Variable(
        "forward.x",
        gather_interval=2,
        pre_gather_callbacks=[stack_tensors],
        post_gather_callbacks=[stack_tensors],
    )
    with ModelTracer(model, variable) as tracer:
        train(rank, model, 4)
    return variable.results["forward.x"].values, tracer.results["forward.x"].ranks


def test_stacked_values_of_a_variable_are_joined_row_by_row():
    values, ranks = said(run_ranks(2, with_variables))[0]
    assert values.shape == (8, B, C)
    assert values[:, 0, 0].tolist() == [1, 2, 101, 102, 3, 4, 103, 104]
    assert ranks == [0, 0, 1, 1, 0, 0, 1, 1]


def without_gather(rank, world):
    model = Small()
    with ModelTracer(model, ["forward.x"], gather=False) as tracer:
        model(torch.full((1, C), float(rank)))
    return tracer.results["forward.x"].ranks, float(tracer.results["forward.x"].values[0][0, 0])


def test_without_gather_each_rank_keeps_its_own():
    assert said(run_ranks(2, without_gather)) == [([0], 0.0), ([1], 1.0)]


# ---- ranks that fail


def dies(rank, world, how):
    model = Small()
    started = time.monotonic()
    tracer = ModelTracer(model, ["forward.x"], gathering_interval=2)
    problem = ""
    try:
        with tracer:
            for i in range(8):
                if rank == world - 1 and i == 4:
                    if how == "exit":
                        os._exit(9)
                    raise ZeroDivisionError("on purpose")
                model(torch.full((1, C), float(100 * rank + i + 1)))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    kept = sorted(
        zip(tracer.results["forward.x"].ranks, tracer.results["forward.x"].iterations, strict=True)
    )
    return problem, kept, time.monotonic() - started


@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.heavy)])
def test_a_rank_that_dies_is_named_within_the_timeout_and_what_was_gathered_is_kept(world):
    answers = run_ranks(world, dies, "exit", timeout=10)
    assert answers[-1] == ("died",)
    problem, kept, seconds = answers[0][1]
    assert f"rank {world - 1}" in problem
    assert seconds < PATIENCE
    whole = [(r, i) for r in range(world) for i in range(1, 5)]
    assert set(whole) <= set(kept)


def test_a_rank_that_raises_is_named_at_once():
    answers = said(run_ranks(2, dies, "raise", timeout=PATIENCE))
    assert answers[1][0] == "ZeroDivisionError: on purpose"
    problem, kept, seconds = answers[0]
    assert "rank 1 raised ZeroDivisionError: on purpose" in problem
    assert seconds < PATIENCE / 2
    assert {(0, 1), (0, 4), (1, 1), (1, 4)} <= set(kept)


def first_dies(rank, world, died):
    model = Small()
    tracer = ModelTracer(model, ["forward.x"])
    try:
        with tracer:
            for i in range(6):
                if rank == 0 and i == 2:
                    raise ZeroDivisionError("on purpose")
                if rank == 1 and i == 5:
                    wait_for(died.exists, "rank 0 to raise")
                model(torch.randn(1, C))
    except Exception as error:
        died.touch()
        return f"{type(error).__name__}: {error}"
    return ""


def test_when_rank_0_raises_the_others_are_told(tmp_path):
    answers = said(run_ranks(2, first_dies, tmp_path / "died"))
    assert answers[0] == "ZeroDivisionError: on purpose"
    assert "rank 0 has left the trace: ZeroDivisionError: on purpose" in answers[1]


# ---- one process


@pytest.mark.parametrize(("count", "gathers"), [(8, 2), (10, 3)])
def test_the_examples_in_one_process(tmp_path, count, gathers):
    model = Small()
    stack = [stack_padded_tensors]
    saver = H5PYSaverCallback(tmp_path / "one.h5")
    with (
        ModelTracer(
            model,
            ["forward.x"],
            pre_gather_callbacks=stack,
            post_gather_callbacks=stack,
            post_trace_callbacks=stack,
            gathering_interval=4,
        ) as first,
        ModelTracer(
            model, ["forward.x"], post_gather_callbacks=[*stack, saver], gathering_interval=4
        ),
        ModelTracer(
            model,
            ["forward.x"],
            post_gather_callbacks=[*stack, mean_post_gather],
            post_trace_callbacks=stack,
            gathering_interval=4,
        ) as third,
    ):
        for _ in range(count):
            model(torch.randn(B, C))
    assert first.results["forward.x"].values[0].shape == (gathers, 1, 4, B, C)
    assert third.results["forward.x"].values[0].shape == (gathers, C)
    assert saver.datasets["forward.x"].shape == (gathers, 4, B, C)
    saver.close()
