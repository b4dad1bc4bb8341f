"""The labels of frames, and large charts with equal blocks folded."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tensortap import flow  # noqa: E402

pytestmark = pytest.mark.usefixtures("flow_alone")


class Part(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y = self.more(y)
        return y + 1

    def more(self, y: torch.Tensor) -> torch.Tensor:
        z = y - 1
        return z


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.part(x)
        x = x / 2
        return x


class Model(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.h = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        for block in self.h:
            x = block(x)
        logits = x * 3
        return logits


def chart(suffix: str, model: Any, times: int = 1) -> str:
    flow.lines(1, 10**6, file=__file__)
    flow.on(save=True, save_dir="out", max_nodes=500)
    for _ in range(times):
        model(torch.ones(2, 3))
    assert flow.off(filename=f"x{suffix}") is not None
    return Path(f"out/x{suffix}").read_text()


def frames(dot: str) -> list[str]:
    """Give the labels of the frames, each once."""
    return list(dict.fromkeys(re.findall(r'style=rounded, label="([^"]*)"', dot)))


def nodes(dot: str) -> int:
    return len(re.findall(r"^ +n\d+ \[id=", dot, re.MULTILINE))


def test_a_frame_has_the_path_of_its_module() -> None:
    model = Model(2)
    found = frames(chart(".dot", model))
    assert found[0].endswith("Model.forward")
    assert found[1:] == ["h.0", "h.0.part", "h.0.part.more", "h.1", "h.1.part", "h.1.part.more"]


def test_a_module_that_is_gone_leaves_the_name_of_its_function() -> None:
    flow.lines(1, 10**6, file=__file__)
    flow.on(save=True, save_dir="out", max_nodes=500)
    Part()(torch.ones(2))
    assert flow.off(filename="x.dot") is not None
    assert all(name.endswith(("forward", "more")) for name in frames(Path("out/x.dot").read_text()))


def test_equal_blocks_of_a_large_chart_are_drawn_once() -> None:
    model = Model(9)
    dot = chart(".dot", model)
    assert "h.0-8.part x 9" in frames(dot)
    assert not any(name.startswith("h.1") for name in frames(dot))
    small = nodes(chart(".dot", Model(2)))
    assert nodes(dot) < small
    assert len(json.loads(chart(".json", model))["nodes"]) > 40  # nothing is folded there


def test_arrows_out_of_the_last_block_start_at_the_one_that_is_drawn() -> None:
    dot = chart(".dot", Model(9))
    ids = {name: int(i) for i, name in re.findall(r"n(\d+) \[id.*?<b>(\w+)</b>", dot)}
    arrows = [(int(a), int(b)) for a, b in re.findall(r"n(\d+) -> n(\d+)\n", dot)]
    assert len(arrows) == len(set(arrows))
    assert any(b == ids["logits"] for _, b in arrows)
    assert all(a < b for a, b in arrows)


def test_blocks_that_differ_are_not_folded() -> None:
    model = Model(9)
    model.h[4].part = nn.Sequential(Part(), Part())
    found = frames(chart(".dot", model))
    assert "h.0-3 x 4" in found
    assert "h.5-8 x 4" in found
    assert any(name.startswith("h.4.part") for name in found)


def test_turns_of_a_loop_are_not_folded() -> None:
    part = Part()
    dot = chart(".dot", part, times=20)
    assert nodes(dot) > 60
    assert " x " not in "".join(frames(dot))


def test_the_page_can_be_unfolded() -> None:
    pytest.importorskip("pygraphviz")
    page = html.unescape(chart(".html", Model(9)))
    assert page.count("<svg") == 2
    assert 'id="unfold"' in page
    assert "h.0-8.part x 9" in page
    assert "h.8.part" in page
    small = chart(".html", Model(1))
    assert small.count("<svg") == 1
    assert 'id="unfold"' not in small
