"""A private name of torch that has changed costs what it was for, and a note says so; no more.

Each name is broken in turn, as tensortap alone sees it, under a training that is eager or compiled.
The program must compute the same, to the bit.  Where less is recorded, a note says that something
is not seen, and the verdict of health is not "healthy".
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from broken_names import WAYS
from versions import needs_probes

HARNESS = Path(__file__).with_name("broken_names.py")

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


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("names"))
    yield one
    assert one.process.stdin is not None
    one.process.stdin.close()
    one.process.wait(timeout=60)


def test_nothing_is_lost_with_the_torch_that_is_here(lab: Lab) -> None:
    for backend in ("none", "aot_eager"):
        plain, whole = lab.usual(None, backend), lab.usual("", backend)
        assert whole["out"] == plain["out"]
        assert whole["notes"] == []
        assert set(whole["points"].values()) == {12}


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
