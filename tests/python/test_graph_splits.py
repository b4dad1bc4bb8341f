"""Which dimensions of a plain tensor are split, from torch's graph: against the whole tensor.

Two ranks are made in one process: a function is applied to each half and to the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.private.graphs import splits_of  # noqa: E402

pytestmark = needs_sharding_on_cpu

B, S, H, D = 2, 3, 4, 6  # batch, sequence, heads, elements of a head


class Spec:
    """What a DTensor says of its local part."""

    def __init__(self, dim: int) -> None:
        from torch.distributed.tensor import Replicate, Shard

        self.mesh = "mesh"
        self.placements = (Shard(dim) if dim >= 0 else Replicate(),)


class ToLocal(torch.autograd.Function):
    """Stands for DTensor.to_local(), which leaves its spec in the graph."""

    @staticmethod
    def forward(ctx: Any, x: Any, spec: Any) -> Any:
        ctx.dtensor_spec = spec
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, None


def heads(x: Any) -> Any:
    return x.view(B, x.shape[1], -1, D).transpose(1, 2)


def merged(x: Any) -> Any:
    return x.transpose(1, 2).flatten(2)


def rotate(x: Any) -> Any:
    low, high = x[..., : D // 2], x[..., D // 2 :]
    return x * 0.5 + torch.cat((-high, low), dim=-1) * 0.25


def turn(x: Any) -> Any:
    """Rotate pairs as complex numbers."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.tensor(0.6 + 0.8j)).flatten(3)


def by_hand(x: Any) -> Any:
    """Attend with batched products and a softmax."""
    q = k = heads(x)
    return merged(F.softmax(q @ k.transpose(-1, -2) / 2, dim=-1) @ k)


def repeat(x: Any) -> Any:
    """Give each head of the keys to two of the queries."""
    y = heads(x)
    y = y[:, :, None].expand(B, y.shape[1], 2, S, D)
    return y.reshape(B, -1, S, D)


KEPT: dict[str, Callable[[Any], Any]] = {
    "element-wise": lambda x: F.gelu(x) * 2 + x.abs().sqrt(),
    "a mean over another dimension": lambda x: x - x.mean(1, keepdim=True),
    "heads": heads,
    "heads and back": lambda x: merged(heads(x)),
    "flattened batch": lambda x: x.flatten(0, 1),
    "flattened batch and heads": lambda x: heads(x).flatten(0, 1).softmax(-1),
    "and back": lambda x: heads(x).flatten(0, 1).exp().view(B, -1, S, D).softmax(-1),
    "permuted": lambda x: x.view(B, S, -1, D).permute(2, 0, 1, 3).exp(),
    "rotary": lambda x: rotate(heads(x)),
    "rotary, complex": lambda x: turn(heads(x)),
    "norm of each head": lambda x: F.layer_norm(x.view(B, S, -1, D), (D,)),
    "norm of each head by hand": lambda x: (
        (y := heads(x)) * torch.rsqrt(y.pow(2).mean(-1, keepdim=True))
    ),
    "attention": lambda x: F.scaled_dot_product_attention(*(rotate(heads(x)),) * 3, is_causal=True),
    "attention and back": lambda x: merged(F.scaled_dot_product_attention(*(heads(x),) * 3)),
    "attention by hand": by_hand,
    "repeated heads": repeat,
    "one position": lambda x: x[:, 0],
    "stacked": lambda x: torch.stack([x, 2 * x], 1),
}

LOST: dict[str, Callable[[Any], Any]] = {
    "a sum over it": lambda x: x.sum(-1),
    "a mean of all": lambda x: x - x.mean(),
    "a softmax over it": lambda x: F.softmax(x, -1),
    "a norm over it": lambda x: F.layer_norm(x, x.shape[-1:]),
    "a part of it": lambda x: x[..., :2],
    "queries, keys and values in one": lambda x: x.chunk(3, -1)[0],
    "joined with itself": lambda x: torch.cat([x, x], -1),
    "a product": lambda x: x @ torch.ones(x.shape[-1], 5),
    "attention over it": lambda x: F.scaled_dot_product_attention(*(x[:, None],) * 3),
    "a mean over heads": lambda x: heads(x).flatten(0, 1).exp().view(B, -1, S, D).mean(1),
    "sorted": lambda x: x.sort(-1)[0],
}


def split(function: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    whole = torch.randn(B, S, H * D, generator=torch.Generator().manual_seed(0))
    parts = [one.clone().requires_grad_() for one in whole.chunk(2, -1)]
    return function(whole), [function(ToLocal.apply(one, Spec(2))) for one in parts]


@pytest.mark.parametrize("name", KEPT)
def test_parts_of_what_is_said_to_be_split_make_up_the_whole(name: str) -> None:
    whole, parts = split(KEPT[name])
    for part in parts:
        mesh, (dims,) = splits_of(part) or ("", ((),))
        assert mesh == "mesh"
        assert dims
    both = torch.cat([one.detach().flatten() for one in parts])
    torch.testing.assert_close(both.sort()[0], whole.flatten().sort()[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LOST)
def test_nothing_is_said_where_an_operator_mixes_parts_or_is_not_known(name: str) -> None:
    _, parts = split(LOST[name])
    assert [splits_of(one) for one in parts] == [None, None]


def test_nothing_is_said_of_replicas_addends_and_tensors_without_a_graph() -> None:
    from torch.distributed.tensor import Partial

    x = torch.ones(2, 3, requires_grad=True)
    addend = Spec(0)
    addend.placements = (Partial(),)  # type: ignore[assignment]
    other = Spec(0)
    other.mesh = "another mesh"
    assert splits_of(ToLocal.apply(x, Spec(-1)) * 2) is None
    assert splits_of(ToLocal.apply(x, addend) * 2) is None
    assert splits_of(ToLocal.apply(x, Spec(0)) * ToLocal.apply(x, other)) is None
    assert splits_of(x * 2) is None
    assert splits_of(x.detach()) is None


def test_one_head_a_rank_is_not_mistaken_for_a_dimension_of_one() -> None:
    """Of (batch, positions, 6) viewed as (..., 1, 6) nobody can say which one is split."""
    part = ToLocal.apply(torch.randn(B, S, D, requires_grad=True), Spec(2)).view(B, S, 1, D)
    found = splits_of(part)
    assert found is not None
    assert found[1][0] >= {2, 3}
    assert splits_of(F.scaled_dot_product_attention(*(part.transpose(1, 2),) * 3)) is None


# ---- real ranks ------------------------------------------------------------


class Heads(nn.Module):
    """What happens inside the heads."""

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(H * D, H * D) for _ in range(4))
        self.q_norm, self.k_norm = (nn.LayerNorm(D, elementwise_affine=False) for _ in range(2))
        self.drop, self.heads = nn.Dropout(0.0), Heads()

    def forward(self, x: Any) -> Any:
        q, k, v = (heads(one(x)) for one in (self.q, self.k, self.v))
        q, k = rotate(self.q_norm(q)), rotate(self.k_norm(k))
        return self.o(merged(self.drop(self.heads(q, k, v))))


def train(rank: int, world: int, folder: str, is_sequence: bool, keep: str) -> list[float]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.LayerNorm(H * D), Attention(), nn.RMSNorm(H * D))
    if world > 1:
        rows = RowwiseParallel(output_layouts=Shard(1)) if is_sequence else RowwiseParallel()
        plan: dict[str, Any] = {f"1.{one}": ColwiseParallel() for one in "qkv"} | {"1.o": rows}
        if is_sequence:
            plan["0"] = SequenceParallel()
            plan["1"] = PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
            )
            plan["2"] = SequenceParallel(use_local_output=True)
        parallelize_module(model, init_device_mesh("cpu", (world,)), plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []
    with tt.record(folder, model=model, grads="all", inputs=True, keep=keep):
        for step in range(4):
            x = torch.randn(B, 8, H * D, generator=torch.Generator().manual_seed(step))
            if is_sequence and world > 1:
                x = x.chunk(world, 1)[rank]
            ((model(x) - 1).pow(2).sum() / 400).backward()
            squares = 0.0
            for one in model.parameters():
                gradient = one.grad.full_tensor() if hasattr(one.grad, "full_tensor") else one.grad
                squares += gradient.double().square().sum().item()
            norms.append(squares**0.5)
            if step > 0 and keep == "stats":  # once seen, what backward left is recorded
                for one in model.parameters():
                    one.grad.mul_(0.125)
            optimizer.step()
            optimizer.zero_grad()
    return norms


@pytest.mark.parametrize("keep", ["stats", "stats,hist"])
@pytest.mark.parametrize("is_sequence", [False, True])
def test_every_number_of_an_attention_under_tensor_parallelism_is_that_of_one_process(
    tmp_path: Path, is_sequence: bool, keep: str
) -> None:
    expected = train(0, 1, str(tmp_path / "one"), is_sequence, keep)
    norms = said(run_ranks(2, train, str(tmp_path / "two"), is_sequence, keep))[0]
    one, two = (tt.open(tmp_path / name) for name in ("one", "two"))
    assert norms == pytest.approx(expected, rel=1e-5)
    steps, values = two.series("gradient_norm")
    assert steps.tolist() == ([0, 2, 3] if keep == "stats" else [0, 1, 2, 3])
    assert values == pytest.approx([norms[step] for step in steps], rel=1e-5)
    kinds = ("activation/", "parameter/", "gradient/", "activation_gradient/", "input/")
    names = [name for name in one.names("*") if name.startswith(kinds)]
    if is_sequence:
        names.remove("input/(root)")  # the program cuts it, and nobody says how
    assert len(names) > 30
    for name in names:
        joined: Any = two.joined(name)
        assert (joined.points, joined.partial + joined.unknown) == (len(one.stats(name)), 0), name
        for plain, whole in zip(one.stats(name), two.stats(name), strict=True):
            assert whole.count == plain.count, name
            for field in ("min", "max", "l2", "mean"):
                value = getattr(plain, field)
                assert getattr(whole, field) == pytest.approx(value, rel=1e-4, abs=1e-4), name
        if keep != "stats":
            counts = [sum(one[2] for one in run.histogram(name, 0)) for run in (one, two)]
            assert counts[0] == counts[1], name
    assert not [
        site
        for site in tt.diff(tmp_path / "one", tmp_path / "two").sites
        if site.verdict == "differs"
    ]
