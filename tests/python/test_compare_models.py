"""Two implementations of one model: which sites are the same, and where do they part?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from two_models import LAYERS, VOCABULARY, WIDTH, Fused, Split, fused, split  # noqa: E402

import tensortap as tt  # noqa: E402

IDS = torch.randint(0, VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(3))


def compare(a: Split, b: Fused, ids: Any = IDS) -> tt.Comparison:
    return tt.compare_models(a, b, {"input_ids": ids}, {"ids": ids})


EXPECTED = {
    "embed_tokens": "emb",
    "norm": "final",
    "lm_head": "head",
    "layers.{}.input_layernorm": "blocks.{}.n1[0]",
    "layers.{}.self_attn.q_proj|k_proj|v_proj": "blocks.{}.qkv",
    "layers.{}.self_attn.o_proj": "blocks.{}.wo",
    "layers.{}.post_attention_layernorm": "blocks.{}.n2[0]",
    "layers.{}.mlp.gate_proj|up_proj": "blocks.{}.gu",
    "layers.{}.mlp.down_proj": "blocks.{}.down",
    "layers.{}": "blocks.{}[0]+[1]",
}


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_sites_are_paired_without_names(seed: int, spread: bool) -> None:
    a = split(seed, spread)
    found = compare(a, fused(a))
    assert found.verdict in ("bits", "rounding")
    pairs = {pair.a: pair.b for pair in found.pairs}
    for name, other in EXPECTED.items():
        for i in range(LAYERS):
            assert pairs[name.format(i)] == other.format(i)
    assert found.unpaired_a == [f"layers.{i}.mlp.act_fn" for i in range(LAYERS)]
    assert found.unpaired_b == []
    assert found.tokens == IDS.numel()


def change(block: Any, fault: str) -> str:
    """Break one block; return the site of the first model that must be named."""
    with torch.no_grad():
        if fault == "eps":
            block.n1.eps = 1e-4
        elif fault == "rotary base":
            block.base = 2e4
        elif fault == "scale":
            block.scale = 1.0
        elif fault == "one row":
            block.down.weight[3] *= 1.001
        elif fault == "one row of v":
            block.qkv.weight[2 * WIDTH + 5] *= 1.001
        elif fault == "swapped gate and up":
            block.gu.weight.copy_(block.gu.weight.roll(2 * WIDTH, 0))
        elif fault == "transposed":
            block.wo.weight.copy_(block.wo.weight.T.clone())
        elif fault == "gelu":
            block.activation = torch.nn.functional.gelu
        elif fault == "stale":
            block.down.weight += 1e-3 * torch.randn(block.down.weight.shape)
        elif fault == "other norm":
            block.n2.weight.copy_(block.n1.weight)
        elif fault == "no mask":
            block.causal = False
        elif fault == "position of one token":
            block.shift = 1
    return {
        "eps": "input_layernorm",
        "one row of v": "self_attn.q_proj|k_proj|v_proj",
        "other norm": "post_attention_layernorm",
        **dict.fromkeys(("one row", "swapped gate and up", "gelu", "stale"), "mlp.down_proj"),
    }.get(fault, "self_attn.o_proj")


FAULTS = [
    *("eps", "rotary base", "scale", "one row", "one row of v", "swapped gate and up"),
    *("transposed", "gelu", "stale", "other norm", "no mask", "position of one token"),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("layer", [0, 2])
def test_the_site_of_a_fault_is_named(fault: str, layer: int) -> None:
    a = split(layer)
    b = fused(a)
    site = change(b.blocks[layer], fault)
    found = compare(a, b)
    assert found.first is not None
    assert found.first.a == f"layers.{layer}.{site}"
    assert found.verdict == "differs"


@pytest.mark.parametrize("fault", ["scale", "swapped gate and up", "transposed", "no mask"])
def test_large_faults_are_named_in_bfloat16(fault: str) -> None:
    a = split(1).to(torch.bfloat16)
    b = fused(a)
    site = change(b.blocks[1], fault)
    first = compare(a, b).first
    assert first is not None
    assert first.a == f"layers.1.{site}"


def test_hints_tell_inputs_from_parameters_and_settings() -> None:
    a = split()
    b = fused(a)
    b.blocks[1].n1.eps = 1e-3
    lines = str(compare(a, b)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("they part at"))
    assert lines[at].startswith("they part at layers.1.input_layernorm = blocks.1.n1[0]: ")
    assert lines[at].endswith(" in 36 of 36 tokens")
    known, _, advice = lines[at + 1].rpartition(": ")
    assert known.startswith("  all ")
    assert known.endswith("), its weight is equal in every bit")
    assert advice == "look at eps"
    c = fused(a)
    with torch.no_grad():
        c.blocks[1].wo.weight[7] *= 1.01
    first = compare(a, c).first
    assert first is not None
    assert "its weight is equal but for 1 of 64 rows" in first.hints


@pytest.mark.parametrize(
    ("shift", "which"),
    [(1, " (positions from 5 on)"), (0, None)],
)
def test_tokens_that_part_are_named_by_position(shift: int, which: str | None) -> None:
    a = split()
    b = fused(a)
    b.blocks[1].shift = shift
    first = compare(a, b).first
    assert (first and first.tokens.partition(" tokens")[0]) == (
        which and f"{3 * (IDS.shape[1] - 5)} of {IDS.numel()}{which}"
    )


def test_a_sequence_that_parts_is_named() -> None:
    a = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 16))
    b = torch.nn.Sequential(*a)
    other = IDS.clone()
    with torch.no_grad():
        b[0] = torch.nn.Embedding(50, 16)
        b[0].weight.copy_(a[0].weight)
        b[0].weight[IDS[1, 3]] *= 1.01
    first = tt.compare_models(a, b, IDS, other).first
    assert first is not None
    count = IDS.flatten().tolist().count(int(IDS[1, 3]))
    assert first.tokens.startswith(f"{count} of 36 (position")
    assert first.of == "worst"


def test_a_layer_whose_parts_are_in_another_order_is_flagged() -> None:
    a = split()
    b = fused(a)
    change(b.blocks[2], "swapped gate and up")
    text = str(compare(a, b))
    usual = "layers.*.mlp.gate_proj|up_proj"
    assert f"blocks.2.gu is layers.*.mlp.up_proj|gate_proj, where its siblings are {usual}" in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seed", range(5))
def test_benign_pairs_differ_by_rounding(seed: int, dtype: Any) -> None:
    a = split(seed + 20, spread=seed % 2 == 0)
    b = fused(a).to(dtype)
    found = compare(a, b)
    assert found.verdict in ("bits", "rounding"), str(found)
    assert len(found.pairs) >= 24


def test_padded_rows_are_compared_token_by_token() -> None:
    a = split()
    padding = torch.zeros(3, 5, dtype=torch.long)
    mask = torch.cat([torch.ones_like(IDS), padding], 1)
    padded = {"input_ids": torch.cat([IDS, padding], 1), "attention_mask": mask}
    found = tt.compare_models(a, fused(a), padded, {"ids": IDS.flip(0)})
    assert (found.verdict, found.tokens) == ("rounding", IDS.numel())


def test_a_stale_fused_weight_is_paired_as_in_the_other_layers() -> None:
    a = split()
    b = fused(a)
    with torch.no_grad():
        b.blocks[1].qkv.weight += 1e-2 * torch.randn(b.blocks[1].qkv.weight.shape)
        b.blocks[1].qkv.bias += 1e-2 * torch.randn(b.blocks[1].qkv.bias.shape)
    first = compare(a, b).first
    assert first is not None
    assert (first.a, first.b) == ("layers.1.self_attn.q_proj|k_proj|v_proj", "blocks.1.qkv")
    assert any(hint.startswith("its q_proj.weight") for hint in first.hints)
    assert any(hint.endswith(" are different") for hint in first.hints)


def test_transposed_weights_are_found() -> None:
    class Conv1D(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, linear: Any) -> None:
            super().__init__()
            self.w, self.b = (
                torch.nn.Parameter(t.detach().clone()) for t in (linear.weight.T, linear.bias)
            )

        def forward(self, x: Any) -> Any:
            return x @ self.w + self.b

    torch.manual_seed(0)
    a = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.Linear(24, 8))
    b = torch.nn.Sequential(Conv1D(a[0]), torch.nn.GELU(), Conv1D(a[2]))
    found = tt.compare_models(a, b, torch.randn(10, 16))
    assert found.verdict in ("bits", "rounding")
    assert [pair.relation for pair in found.pairs if pair.how == "weights"] == ["transposed"] * 2


def test_a_model_is_equal_to_itself_and_nothing_like_another() -> None:
    a = split()
    same = tt.compare_models(a, a, (IDS,))
    assert (same.verdict, same.first) == ("bits", None)
    assert str(same).splitlines()[-1] == "equal in every bit"
    other = compare(a, fused(split(9)))
    assert (other.verdict, other.pairs) == ("nothing to compare", [])
    assert str(other).splitlines()[0] == "0 of 39 parameters have the same content"


def test_the_models_are_as_before() -> None:
    a = split()
    b = fused(a)
    a.train()
    a.layers[1].eval()
    before = a.state_dict()
    modes = [module.training for module in a.modules()]
    state = torch.get_rng_state()
    compare(a, b)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in a.modules()] == modes
    assert all(torch.equal(x, before[name]) for name, x in a.state_dict().items())
    assert all(
        "_compiled_call_impl" not in vars(m) or m._compiled_call_impl is None for m in a.modules()
    )


def test_inputs_that_do_not_fit_are_named() -> None:
    a = split()
    with pytest.raises(ValueError, match=r"the second model does not take these inputs: .*'ids'"):
        tt.compare_models(a, fused(a), {"input_ids": IDS})
    with pytest.raises(ValueError, match="the first model does not take these inputs"):
        tt.compare_models(a, fused(a), torch.randn(3, 4))
    disjoint = tt.compare_models(a, fused(a), {"input_ids": IDS}, {"ids": (IDS + 1) % VOCABULARY})
    assert disjoint.verdict == "nothing to compare"
    assert "no token is in both inputs" in str(disjoint)


def test_a_map_corrects_and_is_written(tmp_path: Path) -> None:
    a = split()
    b = fused(a)
    found = compare(a, b)
    found.to_map(tmp_path / "map.json")
    assert json.loads((tmp_path / "map.json").read_text())["pairs"]["lm_head"] == "head"
    again = tt.compare_models(a, b, {"input_ids": IDS}, {"ids": IDS}, map=tmp_path / "map.json")
    assert {pair.a for pair in again.pairs} == {pair.a for pair in found.pairs}
    with pytest.raises(ValueError, match="'nobody', which is no module of the first model"):
        tt.compare_models(a, b, (IDS,), map={"nobody": "head"})
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(ValueError, match="map must hold"):
        tt.compare_models(a, b, (IDS,), map=tmp_path / "bad.json")


def test_layers_that_share_weights_and_tied_embeddings() -> None:
    a = split()
    a.layers[1] = a.layers[0]
    a.lm_head.weight = a.embed_tokens.weight
    b = fused(a)
    b.blocks[1] = b.blocks[0]
    b.head.weight = b.emb.weight
    found = compare(a, b)
    assert found.verdict == "rounding", str(found)
    b.blocks[2].n2.eps = 1e-3
    first = compare(a, b).first
    assert first is not None
    assert first.a == "layers.2.post_attention_layernorm"


def test_rows_that_pad_a_vocabulary_are_left_out() -> None:
    a = split()
    b = fused(a)
    with torch.no_grad():
        for name, new in (
            ("emb", torch.nn.Embedding(VOCABULARY + 14, WIDTH)),
            ("head", torch.nn.Linear(WIDTH, VOCABULARY + 14, bias=False)),
        ):
            new.weight.zero_()
            new.weight[:VOCABULARY] = getattr(b, name).weight
            setattr(b, name, new)
    found = compare(a, b)
    assert found.verdict == "rounding", found
    assert {pair.a: pair.b for pair in found.pairs}["lm_head"] == "head"
    with torch.no_grad():
        b.head.weight[7] *= 1.01
    first = compare(a, b).first
    assert first is not None
    assert (first.a, first.hints[-1]) == ("lm_head", "its weight is equal but for 1 of 50 rows")


class Int8(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, linear: Any) -> None:
        super().__init__()
        scale = linear.weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (linear.weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.linear(x, self.weight * self.scale, self.bias)


def test_quantised_weights_are_said_and_have_a_floor_of_their_own() -> None:
    a, b = split(), split()
    for module in list(b.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Int8(child))
    found = tt.compare_models(a, b, (IDS,))
    assert found.verdict == "rounding", found
    assert max(pair.deviation for pair in found.pairs) > 1e-3
    text = "22 sites have quantised weights, whose rounding explains up to 1.6e-02 each"
    assert any(note.startswith(text) for note in found.notes)
    b.layers[1].post_attention_layernorm.eps = 1.0
    first = tt.compare_models(a, b, (IDS,)).first
    assert first is not None
    assert first.a == "layers.1.post_attention_layernorm"


def test_what_was_not_compared_before_the_place_is_said() -> None:
    a, b = split(), split()
    b.layers[1].self_attn = torch.nn.Identity()
    first = tt.compare_models(a, b, (IDS,)).first
    assert first is not None
    assert first.a == "layers.1.post_attention_layernorm"
    assert first.hints[1].startswith("what is between was not compared: layers.1.self_attn.")
    assert first.hints[-1] == "its weight is equal in every bit"  # no advice


def test_a_tensor_that_is_scaled_elsewhere_is_said() -> None:
    class Scaled(torch.nn.Embedding):  # type: ignore[misc]
        def forward(self, ids: Any) -> Any:
            return 8 * super().forward(ids)

    class Late(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.layer = torch.nn.Embedding(VOCABULARY, 16), torch.nn.Linear(16, 16)

        def forward(self, ids: Any) -> Any:
            return self.layer(8 * self.table(ids))

    b = Late().bfloat16()
    a = torch.nn.Sequential(Scaled(VOCABULARY, 16), torch.nn.Linear(16, 16)).bfloat16()
    with torch.no_grad():
        a[0].weight.copy_(b.table.weight)
        a[1].load_state_dict(b.layer.state_dict())
    found = tt.compare_models(a, b, IDS)
    assert found.first is None, (found, found.refused)
    text = (
        "not compared (unlike points: a factor of 0.125, but 1 agrees: it is scaled elsewhere): 0"
    )
    assert text in str(found).splitlines()


def test_other_weights_of_the_same_model_are_said() -> None:
    found = tt.compare_models(split(0), split(7), (IDS,))
    assert found.verdict == "nothing to compare"
    assert found.notes[0].startswith("39 have the same name and shape in both, and another content")


def test_a_notebook_shows_all_pairs() -> None:
    a = split()
    found = compare(a, fused(a))
    shown = found._repr_html_()
    assert found.text in shown
    assert "layers.0.self_attn.q_proj|k_proj|v_proj" in shown
    assert shown.count("<tr>") == len(compare(a, fused(a)).pairs) + 1
