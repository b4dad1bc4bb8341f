"""Attention, head by head, beside the same formulas in torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import close, every  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tensortap.monitor import (  # noqa: E402
    MonitorMixin,
    attention,
    monitor_scaled_dot_product_attention,
)


def weights(q: Any, k: Any, mask: Any = None, causal: bool = False, scale: Any = None) -> Any:
    """Give logits and softmax in double."""
    q, k = q.double(), k.double()
    k = k.repeat_interleave(q.size(-3) // k.size(-3), -3)
    logits = q @ k.mT * (q.size(-1) ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool).tril().logical_not()
        logits = logits.masked_fill(hidden, -torch.inf)
    if mask is not None:
        logits = (
            logits.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else logits + mask
        )
    return logits, logits.softmax(-1).nan_to_num(0.0)


def measured(q: Any, k: Any, v: Any, **options: Any) -> dict[str, float]:
    monitor = every(nn.Identity())
    monitor.begin_step(0)
    monitor_scaled_dot_product_attention(monitor, "attn", q, k, v, **options)
    monitor.end_step()
    metrics: dict[str, float] = monitor.get_step_metrics()
    return metrics


def check(q: Any, k: Any, v: Any, **options: Any) -> dict[str, float]:
    found = measured(q, k, v, **options)
    logits, w = weights(
        q, k, options.get("attn_mask"), options.get("is_causal", False), options.get("scale")
    )
    for head in range(q.size(-3)):
        mine = w[..., head, :, :]
        entropy = torch.special.entr(mine).sum(-1).mean()
        assert close(found[f"attention_entropy/attn.head_{head}"], float(entropy)), head
        most = logits[..., head, :, :].max()
        assert close(found[f"attention_max_logit/attn.head_{head}"], float(most))
        assert close(found[f"attention_sink/attn.head_{head}"], float(mine[..., 0].mean()))
    assert len(found) == 3 * q.size(-3)
    return found


def qkv(
    *batch: int, heads: int = 3, kv: int = 3, length: int = 9, keys: int = 9, dtype: Any = None
) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    return (
        torch.randn(*batch, heads, length, 8, dtype=dtype),
        torch.randn(*batch, kv, keys, 8, dtype=dtype),
        torch.randn(*batch, kv, keys, 8, dtype=dtype),
    )


def masks(length: int, keys: int) -> dict[str, Any]:
    torch.manual_seed(1)
    boolean = torch.rand(length, keys) > 0.5
    boolean[2] = False  # sees nothing: entropy 0
    return {
        "none": None,
        "bool": boolean,
        "additive": torch.randn(length, keys),
        "of the batch": torch.randn(2, 1, length, keys),
        "of the heads": torch.rand(2, 4, length, keys) > 0.3,
        "infinite": torch.zeros(length, keys).masked_fill(~boolean, -torch.inf),
        "a row of keys": torch.rand(1, keys) > 0.3,
    }


@pytest.mark.parametrize("mask", masks(9, 9))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_mask_of_any_kind_gives_what_softmax_gives_for_every_type(mask: str, dtype: Any) -> None:
    options = {} if mask == "none" else {"attn_mask": masks(9, 9)[mask]}
    q, k, v = qkv(2, heads=4, kv=4, dtype=dtype)
    if mask == "bool":
        found = measured(q, k, v, **options)
        _, w = weights(q, k, options["attn_mask"])
        for head in range(4):
            exact = torch.special.entr(w[:, head]).sum(-1).mean()
            assert close(found[f"attention_entropy/attn.head_{head}"], float(exact))
    elif mask == "infinite":
        found = measured(q, k, v, **options)
        same = measured(q, k, v, attn_mask=masks(9, 9)["bool"])
        assert all(close(found[key], same[key]) for key in found if "entropy" in key)
    else:
        check(q, k, v, **options)


@pytest.mark.parametrize(("length", "keys"), [(9, 9), (4, 11), (11, 4), (1, 7), (130, 70)])
@pytest.mark.parametrize("causal", [False, True])
def test_lengths_of_queries_and_keys_may_differ(length: int, keys: int, causal: bool) -> None:
    q, k, v = qkv(2, length=length, keys=keys)
    check(q, k, v, is_causal=causal)


def test_grouped_queries_report_the_groups_key_for_each_head() -> None:
    q, k, v = qkv(2, heads=6, kv=2)
    check(q, k, v, enable_gqa=True, is_causal=True)
    monitor = every(nn.Identity())
    monitor.add_activation_metric("norm", "norm", r"attn\.head_\d+\.(key|value)")
    monitor.begin_step(0)
    monitor_scaled_dot_product_attention(monitor, "attn", q, k, v, enable_gqa=True)
    monitor.end_step()
    found = monitor.get_step_metrics()
    for head in range(6):
        assert close(found[f"activation/attn.head_{head}.key/norm"], float(k[:, head // 3].norm()))
        assert close(
            found[f"activation/attn.head_{head}.value/norm"], float(v[:, head // 3].norm())
        )
    assert not any(".query" in key for key in found)


def test_a_scale_of_ones_own_and_no_batch() -> None:
    check(*qkv(), scale=0.9)
    check(*qkv(2, 3), scale=0.1, is_causal=True)


def test_values_of_another_width_and_views_are_fine() -> None:
    torch.manual_seed(0)
    packed = torch.randn(2, 9, 3, 3, 8, requires_grad=True)
    q, k, v = (part.transpose(1, 2) for part in packed.unbind(2))
    check(q.detach(), k.detach(), v.detach())
    check(*qkv(2)[:2], torch.randn(2, 3, 9, 20))


def test_activations_of_each_head_are_measured() -> None:
    q, k, v = qkv(2)
    y = F.scaled_dot_product_attention(q, k, v)
    monitor = every(nn.Identity())
    monitor.add_activation_metric("mean")
    monitor.add_activation_metric("own", lambda x: x.norm(dim=-1))
    monitor.begin_step(0)
    monitor_scaled_dot_product_attention(monitor, "attn", q, k, v, activation=y)
    monitor.end_step()
    found = monitor.get_step_metrics()
    for head in range(3):
        for name, tensor in {"query": q, "key": k, "value": v, "activation": y}.items():
            mine = tensor[:, head]
            assert close(found[f"activation/attn.head_{head}.{name}/mean"], float(mine.mean()))
            exact = float(mine.norm(dim=-1).mean())
            assert close(found[f"activation/attn.head_{head}.{name}/own"], exact)


def test_dropout_draws_nothing_and_changes_nothing() -> None:
    q, k, v = qkv(2)
    without = measured(q, k, v)
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    found = measured(q, k, v, dropout_p=0.5)
    assert torch.equal(torch.rand(4), expected)
    assert found == without


def test_nothing_is_measured_outside_of_a_step_and_in_a_pause() -> None:
    q, k, v = qkv(2)
    monitor = every(nn.Identity())
    monitor_scaled_dot_product_attention(monitor, "attn", q, k, v)
    monitor.begin_step(0)
    with monitor.no_monitor():
        monitor_scaled_dot_product_attention(monitor, "attn", q, k, v)
    assert monitor.get_step_metrics() == {}


def test_shapes_that_are_none_are_named() -> None:
    monitor = every(nn.Identity())
    monitor.begin_step(0)
    q = torch.ones(3, 8)
    with pytest.raises(ValueError, match=r"heads, length, head_dim.*\(3, 8\)"):
        monitor_scaled_dot_product_attention(monitor, "attn", q, q, q)


def test_micro_batches_of_different_length_are_joined() -> None:
    monitor = every(nn.Identity())
    monitor.begin_step(0)
    rows = []
    for length in (5, 12):
        q, k, v = qkv(1, length=length, keys=length)
        monitor_scaled_dot_product_attention(monitor, "attn", q, k, v)
        rows.append(torch.special.entr(weights(q, k)[1][:, 1]).sum(-1).flatten())
    monitor.end_step()
    exact = float(torch.cat(rows).mean())
    assert close(monitor.get_step_metrics()["attention_entropy/attn.head_1"], exact)


class Attention(nn.Module, MonitorMixin):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(-3, -2) for part in self.qkv(x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.is_monitoring:
            monitor_scaled_dot_product_attention(
                self.get_module_monitor(), self, q, k, v, is_causal=True, activation=y
            )
        return y.transpose(-3, -2).flatten(-2)


def test_a_module_of_the_reference_is_known_as_one() -> None:
    model = nn.Sequential(Attention())
    reference = copy.deepcopy(model)
    monitor = every(model)
    monitor.set_reference_module(reference)
    monitor.add_activation_difference_metric("max", lambda a, b: (a - b).abs().max())
    model[0].qkv.weight.data.mul_(2)
    x = torch.randn(2, 5, 8)
    monitor.begin_step(0)
    with monitor.no_monitor():
        reference(x)
    assert monitor.get_step_metrics() == {}  # no entropy of the reference
    assert "0.head_1.query" in monitor.reference_module_activations
    model(x)
    monitor.end_step()
    found = monitor.get_step_metrics()
    q, q0 = (
        m[0].qkv(x).detach()[..., :8].unflatten(-1, (2, 4)).transpose(-3, -2)
        for m in (model, reference)
    )
    exact = float((q[:, 1] - q0[:, 1]).abs().max())
    assert close(found["activation_difference/0.head_1.query/max"], exact)
    assert "attention_entropy/0.head_1" in found


def test_an_excluded_module_still_has_its_entropy() -> None:
    model = nn.Sequential(Attention())
    monitor = every(model, excluded_modules_regex=r"0\.head")
    monitor.add_activation_metric("mean")
    monitor.begin_step(0)
    model(torch.randn(2, 5, 8))
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert "attention_entropy/0.head_0" in found
    assert not any(key.startswith("activation/0.head") for key in found)


@pytest.mark.parametrize("case", ["none", "additive", "of the heads", "bool"])
@pytest.mark.parametrize("causal", [False, True])
def test_what_torch_computes_for_other_devices_is_the_same(case: str, causal: bool) -> None:
    q, k, _ = qkv(2, heads=4, kv=2, length=200, keys=170)
    mask = masks(200, 170)[case]
    if causal and mask is not None:
        pytest.skip("one or the other")
    by_torch = attention.by_torch(q, k, mask, causal, None)
    here = attention._attention(q, k, mask, is_causal=causal, scale=None)
    for a, b in zip(by_torch, here, strict=True):
        assert torch.allclose(a.double(), torch.as_tensor(b).double(), atol=1e-5)


def test_heads_in_parallel_give_the_same_as_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v = qkv(2, heads=6, kv=3, length=40, keys=40)
    mask = torch.rand(2, 6, 40, 40) > 0.3
    alone = measured(q, k, v, attn_mask=mask)
    monkeypatch.setattr(attention, "PARALLEL", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert measured(q, k, v, attn_mask=mask) == alone
