"""A private name of torch that has changed costs what it was for, and a note says so; no more.

Each name is broken in turn, as tensortap alone sees it, under a training that is eager or compiled.
The program must compute the same, to the bit.  Where less is recorded, a note says that something
is not seen, and the verdict of health is not "healthy".
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from broken_names import WAYS  # noqa: E402
from commands import tensortap  # noqa: E402
from programs import forked  # noqa: E402
from versions import needs_probes  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.blackbox.writer import Writer  # noqa: E402
from tensortap.compiled import dynamo  # noqa: E402
from tensortap.private.capability import Capability  # noqa: E402
from tensortap.private.modules import UNWRAPPING, inside  # noqa: E402

HARNESS = Path(__file__).with_name("broken_names.py")
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md"
PACKAGE = Path(tt.__file__).parent
QUARANTINE = [
    *(one for name in ("private", "compiled") for one in (PACKAGE / name).glob("*.py")),
    PACKAGE / "spy" / "compiled.py",
    PACKAGE / "blackbox" / "loaders.py",
]

#: Those that eager programs use too.
EAGER = [
    "inspect:getsource",
    "torch._C:_are_functorch_transforms_active",
    "torch._C:_functorch",
    "torch._C._dynamo:eval_frame",
    "torch._C._dynamo.eval_frame:_FrameAction",
    "torch._C._dynamo.eval_frame:_FrameExecStrategy",
    "torch._C._dynamo.eval_frame:set_code_exec_strategy",
    "torch._C._dynamo.eval_frame:set_eval_frame",
    "torch.amp:GradScaler",
    "torch.amp:GradScaler._scale",
    "torch.autograd:backward",
    "torch.compiler:is_compiling",
    "torch.nn.modules.module:register_module_module_registration_hook",
    "torch.nn.modules.module:register_module_parameter_registration_hook",
    "torch.optim.optimizer:register_optimizer_step_post_hook",
    "torch.optim.optimizer:register_optimizer_step_pre_hook",
    "torch.utils:_pytree",
    "torch.utils._pytree:tree_leaves",
    "torch.utils._pytree:tree_map_only",
    "torch.utils.data.dataloader:_BaseDataLoaderIter",
    "torch.utils.data.dataloader:_BaseDataLoaderIter._dataset",
    "torch.utils.data.dataloader:_BaseDataLoaderIter._index_sampler",
    "torch.utils.data.dataloader:_BaseDataLoaderIter._next_index",
    "torch.utils.data.dataloader:_BaseDataLoaderIter._sampler_iter",
]
COMPILED = [
    "torch._C:_len_torch_dispatch_stack",
    "torch._dynamo:graph_break",
    "torch._dynamo:mark_static_address",
    "torch._dynamo.callback:callback_handler",
    "torch._dynamo.callback:callback_handler.register_start_callback",
    "torch._dynamo.callback:callback_handler.start_callbacks",
    "torch._dynamo.convert_frame:FRAME_COUNTER",
    "torch._dynamo.convert_frame:output_codes",
    "torch._dynamo.eval_frame:OptimizedModule._orig_mod",
    "torch._dynamo.symbolic_convert:InstructionTranslator",
    "torch._dynamo.symbolic_convert:InstructionTranslator.current_tx",
    "torch._dynamo.utils:counters",
    "torch._dynamo.variables.nn_module:UnspecializedNNModuleVariable",
    "torch._dynamo.variables.nn_module:UnspecializedNNModuleVariable.call_function",
    "torch._guards:CompileContext",
    "torch._guards:CompileContext.current_compile_id",
    "torch._guards:TracingContext",
    "torch._guards:TracingContext.get",
    "torch._guards:TracingContext.try_get",
    "torch._subclasses:FakeTensor",
    "torch.compiler:allow_in_graph",
    "torch.compiler:assume_constant_result",
    "torch.compiler:is_exporting",
    "torch.fx.node:has_side_effect",
    "torch.library:Library",
    "torch.library:Library.define",
    "torch.library:Library.impl",
    "torch.library:fallthrough_kernel",
    "torch.library:register_fake",
    "torch.library:register_vmap",
    "torch.utils._python_dispatch:_disable_current_modes",
]
INDUCTOR = [
    "torch._inductor.codegen:custom_extern_kernel_codegen",
    "torch._inductor.codegen.custom_extern_kernel_codegen:CUSTOM_EXTERN_KERNEL_CODEGEN",
    "torch._inductor.codegen.custom_extern_kernel_codegen:CustomCodegen",
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen.add_import_once",
    "torch._inductor.ir:FallbackKernel.codegen_args",
]


#: We give torch what we get here: if it raised, it would do so without us.
PASSED_ON = {
    ("torch.utils.data.dataloader:_BaseDataLoaderIter._next_index", way)
    for way in ("raises", "signature")
}


class Lab:
    """A process that has imported torch, and forks for each case."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, str(HARNESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.known: dict[tuple[str | None, str], Any] = {}

    def run(self, name: str | None, way: str, backend: str) -> Any:
        """Train with one name broken; "": with none, None: without tensortap."""
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([name, way, backend, str(folder)]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def usual(self, name: str | None, backend: str) -> Any:
        """Train with nothing broken."""
        if (name, backend) not in self.known:
            self.known[name, backend] = self.run(name, "", backend)
        return self.known[name, backend]

    def check(self, name: str, way: str, backend: str) -> None:
        """Train with a name broken, and compare."""
        if (name, way) in PASSED_ON:
            return
        plain, whole = self.usual(None, backend), self.usual("", backend)
        done = self.run(name, way, backend)
        case = f"{name} {way} {backend}: {done}"
        assert done["code"] == 0, case
        assert done["out"] == plain["out"], case
        assert "Traceback" not in done["err"], case
        assert len(set(done["notes"])) == len(done["notes"]), case
        assert set(done["findings"]) <= set(whole["findings"]), case
        is_said = any(" not seen: " in note for note in done["notes"])
        if done["points"] != whole["points"]:
            assert done["notes"], case
        if sum(done["points"].values()) < sum(whole["points"].values()):
            assert is_said, case
        assert (" not seen: " in done["verdict"]) == is_said, case

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("names"))
    yield one
    one.close()


#: torch.compile imports Dynamo, and no call is eager.
COLD = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, tensortap as tt
from broken_names import break_name
break_name("torch._dynamo.callback:callback_handler", "deleted")
assert "torch._dynamo" not in sys.modules
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
with tt.record(sys.argv[2], model=model):
    call = torch.compile(lambda x: model(x).sum(), backend="eager")
    call(torch.ones(1, 2)).backward()
"""


@needs_probes
def test_a_compiled_model_is_seen_though_dynamo_does_not_tell_that_it_begins(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLD, str(HARNESS.parent), str(tmp_path / "run")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    run = tt.open(tmp_path / "run")
    assert run.names("activation/*") == ["activation/0", "activation/(root)"]
    assert [note.text.partition(":")[0] for note in run.notes] == [dynamo.STARTS.loss]


def test_the_page_for_developers_lists_all_capabilities() -> None:
    found = set()
    names = [f"tensortap.{one.parent.name}.{one.stem}" for one in QUARANTINE if one.stem[0] != "_"]
    for name in names:
        for key, value in vars(importlib.import_module(name)).items():
            if isinstance(value, Capability):
                found.add((key, value.purpose, value.loss))
    page = ARCHITECTURE.read_text().partition("## Private names of torch")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {(key.strip("`"), purpose, loss) for _, key, purpose, loss in rows} == found


def test_a_machine_without_meminfo_has_a_black_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_text

    def without(path: Path, *args: Any, **kwargs: Any) -> str:
        if str(path) == "/proc/meminfo":
            raise FileNotFoundError(path)
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", without)
    with tt.record(tmp_path / "run", black_box=4) as run:
        assert run.box is not None
        assert isinstance(run.box.role, Writer)
        assert run.box.role.limit > 1 << 20


def test_a_verdict_says_what_was_not_seen(tmp_path: Path) -> None:
    note = "modules inside compiled graphs are not seen: AttributeError: there is no x"
    for name, grows in (("fine", False), ("bad", True)):
        with tt.record(tmp_path / name) as run:
            for step in range(60):
                run.log("loss", 10.0**step if grows else 1 / (step + 1))
                run.step()
            run.note(note)
        assert bool(tt.health(tmp_path / name).errors) == grows
        for command in ("health", "show", "explain"):
            done = tensortap(command, name, folder=tmp_path)
            said = " ".join(done.stdout.split())
            assert said.count(note) == 1, (command, done.stdout)
            assert "healthy" not in said


def test_a_capability_that_is_lost_before_a_run_begins_is_noted_in_it_once(tmp_path: Path) -> None:
    one = Capability("see", "toys are not seen")
    one.lose(RuntimeError("there are\nnone"))
    for name in ("first", "second", "third"):
        with tt.record(tmp_path / name):
            if name != "second":
                assert not one.works()
                assert not one.works()
    texts = [[note.text for note in tt.open(tmp_path / name).notes] for name in ("first", "second")]
    expected = f"toys are not seen: RuntimeError: there are none (torch {torch.__version__})"
    assert texts == [[expected], []]
    assert [note.text for note in tt.open(tmp_path / "third").notes] == [expected]


def test_a_wrapper_that_is_not_complete_loses_nothing() -> None:
    wrapper = torch.nn.DataParallel.__new__(torch.nn.DataParallel)
    torch.nn.Module.__init__(wrapper)
    assert inside(wrapper) is None
    assert UNWRAPPING.works()


def test_nothing_is_lost_with_the_torch_that_is_here(lab: Lab) -> None:
    for backend in ("none", "aot_eager"):
        plain, whole = lab.usual(None, backend), lab.usual("", backend)
        assert whole["out"] == plain["out"]
        assert whole["notes"] == []
        assert set(whole["points"].values()) == {24}


@pytest.mark.parametrize("way", WAYS)
def test_a_broken_name_harms_no_eager_program(lab: Lab, way: str) -> None:
    for name in EAGER:
        lab.check(name, way, "none")


@needs_probes
@pytest.mark.parametrize("at", range(len(COMPILED)), ids=COMPILED)
def test_a_name_that_is_broken_in_one_way_harms_no_compiled_program(lab: Lab, at: int) -> None:
    lab.check(COMPILED[at], list(WAYS)[at % len(WAYS)], "aot_eager")


@pytest.mark.heavy
@needs_probes
@pytest.mark.parametrize("way", WAYS)
def test_a_broken_name_harms_no_compiled_program(lab: Lab, way: str) -> None:
    for name in EAGER + COMPILED:
        lab.check(name, way, "aot_eager")


@pytest.mark.heavy
@needs_probes
@pytest.mark.parametrize("way", WAYS)
def test_a_broken_name_harms_no_program_that_inductor_compiles(lab: Lab, way: str) -> None:
    for name in INDUCTOR:
        lab.check(name, way, "inductor")


OPERATORS = """
import torch, tensortap as tt
model = torch.nn.Linear(2, 2)
torch.nn.init.ones_(model.weight)
with tt.ops(model) as log:
    y = model(torch.ones(1, 2)).sum()
    y.backward()
print(y.item() - model.bias.sum().item(), model.weight.grad.tolist())
"""
SAVED = """
import torch
from tensortap.spy import DebugContext, TensorSaver, spy_save
def work(x):
    y = x * 2
    spy_save("y", y)
    return y + 1
with DebugContext(TensorSaver("debug")):
    print(torch.compile(work, backend="eager")(torch.ones(2)).tolist())
"""
ASKED_FOR = {
    "torch.utils._python_dispatch:TorchDispatchMode": OPERATORS,
    "torch:UntypedStorage._cdata": OPERATORS,
    "torch.library:Library": SAVED,
    "torch.library:Library.define": SAVED,
    "torch.library:Library.impl": SAVED,
}


@needs_probes
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ASKED_FOR)
def test_a_broken_name_harms_no_program_that_asks_for_more(
    name: str, way: str, tmp_path: Path
) -> None:
    breaking = f"from broken_names import break_name\nbreak_name({name!r}, {way!r})\n"
    path = f"import sys\nsys.path.insert(0, {str(HARNESS.parent)!r})\n"
    usual = forked(path + ASKED_FOR[name], tmp_path)
    done = forked(path + breaking + ASKED_FOR[name], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == usual.stdout != ""


def gather_without(rank: int, world: int) -> Any:
    """Trace with a torch that has no store to ask for."""
    import warnings

    from torch.distributed import distributed_c10d

    from tensortap.trace import ModelTracer

    del distributed_c10d._get_default_store
    model = torch.nn.Linear(2, 2)
    with warnings.catch_warnings(record=True) as warned, ModelTracer(model, ["forward.input"]) as t:
        warnings.simplefilter("always")
        model(torch.full((1, 2), float(rank)))
    return t.results["forward.input"].ranks if rank == 0 else [], [str(w.message) for w in warned]


def test_ranks_without_a_store_keep_what_is_their_own() -> None:
    from ranks import run_ranks, said

    (ranks, warned), (others, _) = said(run_ranks(2, gather_without))
    assert (ranks, others) == ([0], [])
    assert any("values that other ranks have traced are not seen" in one for one in warned)
