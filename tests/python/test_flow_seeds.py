"""The three examples of the tool that flow takes over from, with only the import line changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import forked

pytest.importorskip("torch")
pytest.importorskip("pygraphviz")

NOTEBOOK_STYLE = """\
import torch
import tensortap.flow as monitorch

monitorch.on(show=True, save=False)

x = torch.randn(8, 8)
w = torch.randn(8, 8)
y = x @ w
z = torch.relu(y)

print(monitorch.off())
"""

SCRIPT_STYLE = """\
import torch
import tensortap.flow as monitorch

monitorch.lines(6, 40)  # only monitor these lines in this file
monitorch.on(show=False, save=True, save_dir="monitorch_outputs")
a = torch.randn(16, 16)
b = a.softmax(dim=-1)
c = b[:, :8]

print(monitorch.off(filename="block.png"))
"""

# Its lines 10 to 40 begin behind the code: it runs, and there is nothing to draw.
SCRIPT_STYLE_AS_IT_WAS = """\
import torch
import tensortap.flow as monitorch

monitorch.lines(10, 40)  # only monitor these lines in this file
monitorch.on(show=False, save=True, save_dir="monitorch_outputs")

a = torch.randn(16, 16)
b = a.softmax(dim=-1)
c = b[:, :8]

print(monitorch.off(filename="block.png"))
"""

INFERRED = """\
import torch
import tensortap.flow as monitorch

def block(x, scale: float, bias):
    y = x * scale
    return y + bias

monitorch.args(scale=0.5, bias=torch.ones(8, 8))
monitorch.on(show=False, save=True)
out = monitorch.run(block, x=torch.randn(8, 8))
print(monitorch.off(filename="inferred.png"))
"""


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (NOTEBOOK_STYLE, "RenderOutput(saved_path=None, displayed=False, node_count=4)"),
        (
            SCRIPT_STYLE,
            "RenderOutput(saved_path='monitorch_outputs/block.png', displayed=False, node_count=3)",
        ),
        (SCRIPT_STYLE_AS_IT_WAS, "None"),
        (
            INFERRED,
            "RenderOutput(saved_path='monitorch_outputs/inferred.png', "
            "displayed=False, node_count=3)",
        ),
    ],
)
def test_the_example_runs(tmp_path: Path, program: str, wanted: str) -> None:
    (tmp_path / "example.py").write_text(program)
    done = forked("import runpy; runpy.run_path('example.py', run_name='__main__')", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == wanted
    pictures = [*tmp_path.glob("monitorch_outputs/*.png")]
    assert len(pictures) == ("saved_path='" in wanted)
