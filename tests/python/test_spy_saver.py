"""spy_save, DebugContext and TensorSaver do what their page says."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.spy import DebugContext, TensorSaver, get_debug_context, spy_save  # noqa: E402


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj_q = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.proj_q(x)
        spy_save("q", q, self)
        return q


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def load(path: Path) -> Any:
    return torch.load(path, weights_only=True)


# ---- the examples of the seed


def test_the_seeds_example_saves_under_the_module_path(tmp_path: Path) -> None:
    from tensortap import DebugContext, TensorSaver  # the import line is all that changes
    from tensortap.spy.saver import spy_save as imported

    assert imported is spy_save
    model = nn.Sequential(Block(), Block())
    inputs = torch.randn(2, 4)
    saver = TensorSaver(tmp_path / "debug_tensors")
    saver.register_modules(model, target_classes=(Block,))
    with DebugContext(saver, prefix="step0"):
        model(inputs)
    assert names(tmp_path / "debug_tensors") == ["step0.0.q.call0.pt", "step0.1.q.call0.pt"]
    assert torch.equal(
        load(tmp_path / "debug_tensors/step0.0.q.call0.pt"), model[0].proj_q(inputs).detach()
    )


def test_everything_is_importable_where_the_page_says() -> None:
    import tensortap.spy.saver
    import tensortap.spy.trace_graph

    assert tt.spy_save is spy_save is tensortap.spy.saver.spy_save
    assert tt.TensorSaver is TensorSaver
    assert tt.DebugContext is DebugContext
    assert tensortap.spy.trace_graph.Node is tensortap.spy.Node


# ---- names and counts


def test_calls_are_counted_for_each_name(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    for name in ("a", "a", "b"):
        saver.save(name, torch.ones(1))
    saver.save("a", torch.ones(1), call_idx=7)
    saver.enabled = False
    saver.save("a", torch.ones(1))
    saver.enabled = True
    assert saver.call_counts == {"a": 2, "b": 1}
    saver.save("a", torch.ones(1))
    assert names(tmp_path) == [
        f"{n}.pt" for n in ("a.call0", "a.call1", "a.call2", "a.call7", "b.call0")
    ]
    saver.reset_counts()
    saver.save("a", torch.full((1,), 5.0))
    assert load(tmp_path / "a.call0.pt").item() == 5


def test_the_count_of_a_name_that_was_never_saved_is_zero(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    saver.save("a", torch.ones(1))
    assert saver.call_counts["never saved"] == 0
    saver.reset_counts()
    assert saver.call_counts["a"] == 0
    assert copy.deepcopy(saver).call_counts["neither"] == 0


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "..",
        "../../x",
        "/etc/x",
        "",
        ".",
        "a\\b",
        "é" * 200,
        "x" * 300,
        "a\0b",
        "\ud800",
        "a\nb",
        "~",
        "con",
    ],
)
def test_any_name_is_one_file_in_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    TensorSaver(folder).save(name, torch.tensor([4.0]))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (file,) = folder.iterdir()
    assert file.name.endswith(".call0.pt")
    assert not file.name.startswith(".")
    assert load(file).item() == 4


def test_names_that_look_alike_do_not_share_a_file(tmp_path: Path) -> None:
    alike = ["a/b", "a%2Fb", "a\\b", "a\0b", "x" * 300, "x" * 301, "", "unnamed", ".a", "%2Ea"]
    saver = TensorSaver(tmp_path)
    for i, name in enumerate(alike):
        saver.save(name, torch.tensor(i))
    assert {load(path).item() for path in tmp_path.glob("*.call0.pt")} == set(range(len(alike)))


def test_modules_of_two_models_never_overwrite_each_other(tmp_path: Path) -> None:
    one, two = nn.Sequential(Block()), nn.Sequential(Block())
    saver = TensorSaver(tmp_path)
    saver.register_modules(one)
    saver.register_modules(two)
    x = torch.randn(1, 4)
    with DebugContext(saver):
        a, b = one(x), two(x)
    assert torch.equal(load(tmp_path / "0.q.call0.pt"), a.detach())
    assert torch.equal(load(tmp_path / "0.q.call1.pt"), b.detach())


def test_modules_are_chosen_by_class_and_name(tmp_path: Path) -> None:
    model = nn.Sequential(Block(), nn.ReLU(), Block())
    x = {id(m): n or "root" for n, m in model.named_modules()}

    def chosen(*args: Any, **options: Any) -> set[str]:
        saver = TensorSaver(tmp_path)
        saver.register_modules(model, *args, **options)
        assert saver.module_paths == {key: x[key] for key in saver.module_paths}
        return set(saver.module_paths.values())

    assert chosen() == {"root", "0", "0.proj_q", "1", "2", "2.proj_q"}
    assert chosen((nn.Linear,)) == {"0.proj_q", "2.proj_q"}
    assert chosen(target_names=["proj"]) == {"0.proj_q", "2.proj_q"}
    assert chosen(target_names=[]) == set()
    assert chosen((nn.Module,), ["0", "root"], ["proj"]) == {"root", "0"}
    assert chosen(exclude_names=[]) == chosen()


def test_a_module_that_is_gone_does_not_leave_its_path_behind(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    model = Block()
    saver.register_modules(model)
    assert saver.get_module_path(model) == "root"
    saver.module_paths[id(saver)] = "mine"
    assert saver.get_module_path(saver) == "mine"
    assert saver.get_module_path(Block()) == "unknown"


# ---- contexts


def test_outside_a_context_nothing_happens(tmp_path: Path) -> None:
    assert spy_save("x", torch.ones(1)) is None
    assert get_debug_context() is None
    with pytest.raises(TypeError):
        spy_save("x")


def test_the_full_name_is_prefix_path_name(tmp_path: Path) -> None:
    block = Block()
    saver = TensorSaver(tmp_path)
    saver.register_modules(block)
    t = torch.ones(1)
    with DebugContext(saver, prefix="p"):
        spy_save("a", t, block)
        spy_save("a", t)
        spy_save(name="b", tensor=t, module=block)
    with DebugContext(saver):
        spy_save("a", t, block)
    with DebugContext(saver, module_path_override="here"):
        spy_save("a", t, nn.ReLU())
    expected = ["here.a", "p.manual.a", "p.root.a", "p.root.b", "root.a"]
    assert names(tmp_path) == [f"{name}.call0.pt" for name in expected]


def test_an_unregistered_module_is_a_warning_and_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), DebugContext(TensorSaver(tmp_path)):
        spy_save("a", torch.ones(1), nn.ReLU())
    assert "Module path unknown" in caplog.text
    assert names(tmp_path) == []


def test_an_inner_context_replaces_the_outer(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    outer, inner = DebugContext(saver, "outer"), DebugContext(saver, "inner")
    assert outer.debugger is saver
    t = torch.ones(1)
    with outer:
        with inner:
            spy_save("a", t)
            assert get_debug_context() is inner
            with outer:  # the same object twice
                spy_save("b", t)
        spy_save("c", t)
        assert get_debug_context() is outer
    spy_save("d", t)
    assert names(tmp_path) == [
        "inner.manual.a.call0.pt",
        "outer.manual.b.call0.pt",
        "outer.manual.c.call0.pt",
    ]


def test_a_new_thread_has_no_context(tmp_path: Path) -> None:
    seen: list[Any] = []
    with DebugContext(TensorSaver(tmp_path)):
        thread = threading.Thread(target=lambda: seen.append(get_debug_context()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_threads_count_the_calls_of_a_name_together(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)

    def work() -> None:
        with DebugContext(saver):
            for _ in range(50):
                spy_save("t", torch.ones(3))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == sorted(f"manual.t.call{i}.pt" for i in range(200))


def test_an_asyncio_task_inherits_the_context(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)

    async def child(name: str) -> None:
        await asyncio.sleep(0)
        spy_save(name, torch.ones(1))

    async def main() -> None:
        with DebugContext(saver, "one"):
            one = asyncio.create_task(child("a"))
            with DebugContext(saver, "two"):
                two = asyncio.create_task(child("b"))
            await asyncio.gather(one, two)

    asyncio.run(main())
    saver.flush()
    assert names(tmp_path) == ["one.manual.a.call0.pt", "two.manual.b.call0.pt"]


def test_a_saver_of_the_users_own_class_works() -> None:
    class Own:
        def __init__(self) -> None:
            self.saved: list[tuple[str, list[float]]] = []

        def get_module_path(self, module: nn.Module) -> str:
            return type(module).__name__.lower()

        def save(self, full_name: str, tensor: torch.Tensor) -> None:
            self.saved.append((full_name, tensor.tolist()))

    own = Own()
    with DebugContext(own, "p"):
        spy_save("a", torch.ones(2), nn.ReLU())
        spy_save("n", [torch.tensor([-3.0])], nn.ReLU(), norm_only=True)
        with pytest.raises(
            TypeError, match="stats_only needs a TensorSaver; Own saves whole tensors"
        ):
            spy_save("s", torch.ones(2), stats_only=True)
    assert own.saved == [("p.relu.a", [1.0, 1.0]), ("p.relu.n.0", [3.0])]


def test_a_subclass_that_saves_itself_is_asked(tmp_path: Path) -> None:
    class Loud(TensorSaver):
        def save(self, name: str, tensor: Any, *args: Any, **options: Any) -> None:
            super().save(f"loud.{name}", tensor, *args, **options)

    with DebugContext(Loud(tmp_path)):
        spy_save("a", torch.ones(1))
    assert names(tmp_path) == ["loud.manual.a.call0.pt"]


# ---- what is saved


def test_a_nest_is_saved_by_position_and_key(tmp_path: Path) -> None:
    t = torch.arange(3.0)
    with DebugContext(TensorSaver(tmp_path)):
        spy_save("n", (t, [t + 1, {"k": t + 2}], None))
    expected = {"manual.n.0": 0, "manual.n.1.0": 1, "manual.n.1.1.k": 2}
    assert names(tmp_path) == sorted(f"{name}.call0.pt" for name in expected)
    for name, first in expected.items():
        assert load(tmp_path / f"{name}.call0.pt")[0].item() == first


def test_a_dataclass_is_saved_by_its_fields(tmp_path: Path) -> None:
    @dataclass
    class Output:
        hidden: torch.Tensor
        loss: torch.Tensor | None = None

    with DebugContext(TensorSaver(tmp_path)):
        spy_save("o", [Output(torch.ones(1)), Output(torch.ones(1), torch.zeros(()))])
    assert names(tmp_path) == [
        "manual.o.0.hidden.call0.pt",
        "manual.o.1.hidden.call0.pt",
        "manual.o.1.loss.call0.pt",
    ]


def test_keys_of_any_kind_are_text_in_the_name(tmp_path: Path) -> None:
    t = torch.ones(1)
    with DebugContext(TensorSaver(tmp_path)):
        spy_save("d", {1: t, "1": t * 2, (2, 3): t})
    found = names(tmp_path)
    assert found == [
        "manual.d.(2, 3).call0.pt",
        "manual.d.1.call0.pt",
        "manual.d.1.call1.pt",  # two keys with one text are two calls
    ]


def test_a_list_that_contains_itself_is_refused(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="contain itself"):
        TensorSaver(tmp_path).save("t", endless)


def test_what_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not str"), DebugContext(TensorSaver(tmp_path)):
        spy_save("t", (torch.ones(1), "text"))


def test_what_is_changed_after_saving_was_saved_before(tmp_path: Path) -> None:
    t = torch.zeros(1 << 20)
    with DebugContext(TensorSaver(tmp_path)):
        for _ in range(20):
            spy_save("t", t)
            t += 1
    for i in range(20):
        assert torch.equal(load(tmp_path / f"manual.t.call{i}.pt"), torch.full_like(t, i))


def test_a_saver_can_write_a_run(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path, format="run")
    with DebugContext(saver, "p"):
        spy_save("a", torch.arange(4.0))
        spy_save("a", torch.arange(4.0) * 2)
    saver.close()
    run = tt.open(tmp_path)
    assert list(run.series("p.manual.a", "max")[1]) == [3.0, 6.0]


@pytest.mark.parametrize("name", ["", "nul\0", "half\ud800", "a/b", "..", "é" * 200])
def test_a_run_takes_any_name(tmp_path: Path, name: str) -> None:
    saver = TensorSaver(tmp_path / "run", format="run")
    saver.save(name, torch.ones(1))
    saver.save("nul%00", torch.ones(1))
    saver.close()
    assert os.listdir(tmp_path) == ["run"]
    assert len(tt.open(tmp_path / "run").names()) == 2


def test_a_run_counts_the_calls_itself(tmp_path: Path) -> None:
    with DebugContext(TensorSaver(tmp_path, format="run")) as context:
        spy_save("a", torch.zeros(1))
        spy_save("a", torch.ones(1))
    context.saver.close()
    with tt.open(tmp_path) as run:
        assert list(run.series("manual.a", "call")[1]) == [0, 1]
        assert run.tensor("manual.a", 0, call=1).tolist() == [1.0]


def test_a_format_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'safetensors'"):
        TensorSaver(tmp_path, format="zip")
