"""Models that are no modules any more, against those that they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from two_models import LAYERS, VOCABULARY, fused, split  # noqa: E402

import tensortap as tt  # noqa: E402

IDS = torch.randint(0, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(3))
HERE = {
    "embed_tokens": "emb",
    "layers.{}.input_layernorm": "blocks.{}.n1[0]",
    "layers.{}.self_attn.q_proj|k_proj|v_proj": "blocks.{}.qkv",
    "layers.{}.self_attn.o_proj": "blocks.{}.wo",
    "layers.{}.mlp.gate_proj|up_proj": "blocks.{}.gu",
    "layers.{}.mlp.down_proj": "blocks.{}.down",
    "layers.{}": "blocks.{}[0]+[1]",
    "lm_head": "head",
}


def check(program: Any, model: Any) -> None:
    """Compare a program with the other implementation, sound and broken."""
    other = fused(model)
    found = tt.compare_models(program, other, (IDS,))
    assert found.verdict == "rounding", found
    assert found.tokens == IDS.numel()
    pairs = {pair.a: pair.b for pair in found.pairs}
    for name, partner in HERE.items():
        for i in range(LAYERS):
            assert pairs[name.format(i)] == partner.format(i), found
    other.blocks[1].n2.eps = 1e-3
    first = tt.compare_models(program, other, (IDS,)).first
    assert first is not None
    assert (first.a, first.b) == ("layers.1.post_attention_layernorm", "blocks.1.n2[0]")
    assert "its weight is equal in every bit" in first.hints


def test_an_exported_program_and_its_file_are_compared_by_module(tmp_path: Path) -> None:
    model = split(0).eval()
    program = torch.export.export(model, (IDS,))
    check(program, model)
    torch.export.save(program, tmp_path / "model.pt2")
    found = tt.compare_models(model, tmp_path / "model.pt2", {"input_ids": IDS}, (IDS,))
    assert found.verdict in ("bits", "rounding"), found
    assert {pair.a: pair.b for pair in found.pairs}["layers.1.mlp"] == "layers.1.mlp"
    assert not found.unpaired_b


@pytest.mark.heavy
def test_what_onnx_runtime_computes_is_compared_by_module(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = split(0).eval()
    graph = torch.onnx.export(model, (IDS,), dynamo=True, verbose=False)
    graph.save(tmp_path / "model.onnx", external_data=True)
    check(tmp_path / "model.onnx", model)
    check(graph, model)


def graph_of(weights: dict[str, Any], namespaces: bool) -> Any:
    """Make a graph of a linear layer and a norm by hand."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    w, b, g, s = (f"{name}" for name in ("w", "b", "g", "s"))
    nodes = [
        helper.make_node("MatMul", ["x", w], ["product"], name="a"),
        helper.make_node("Add", ["product", b], ["sum"], name="b"),
        helper.make_node("LayerNormalization", ["sum", g, s], ["out"], name="c", epsilon=1e-5),
    ]
    for node, path in zip(nodes, ("first", "first", "last"), strict=True):
        if namespaces:
            text = f": Model/{path}: some.Class/{node.name}: aten"
            node.metadata_props.append(onnx.StringStringEntryProto(key="namespace", value=text))
    values = {w: weights["0.weight"].T, b: weights["0.bias"], g: weights["1.weight"]}
    values[s] = weights["1.bias"]
    kinds = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "hand",
        [helper.make_tensor_value_info("x", kinds, ["n", 16])],
        [helper.make_tensor_value_info("out", kinds, ["n", 24])],
        [onnx.numpy_helper.from_array(x.contiguous().numpy(), n) for n, x in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("has_names", [True, False])
def test_a_graph_made_by_hand_has_the_sites_that_its_nodes_name(
    tmp_path: Path, has_names: bool
) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.LayerNorm(24))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    x = torch.randn(7, 16)
    graph = graph_of(weights, has_names)
    onnx.save(
        graph_of(weights, has_names),
        tmp_path / "hand.onnx",
        save_as_external_data=True,
        size_threshold=0,
    )
    for given in (graph, tmp_path / "hand.onnx", str(tmp_path / "hand.onnx")):
        found = tt.compare_models(model, given, x)
        assert found.verdict == "rounding", found
        pairs = {pair.a: pair.b for pair in found.pairs}
        assert (pairs["0"], pairs["1"]) == (("first", "last") if has_names else ("b", "c"))
    model[0].weight.data[3] *= 1.01
    first = tt.compare_models(model, graph, x).first
    assert first is not None
    assert first.a == "0"
    with pytest.raises(ValueError, match=r"second model does not take .*'y' is not among .* x"):
        tt.compare_models(model, graph, x, {"x": x, "y": x})


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    model = split(0)
    with pytest.raises(ValueError, match=r"second model is 'away\.onnx', and there is no such"):
        tt.compare_models(model, "away.onnx", IDS)
    with pytest.raises(TypeError, match=r"first model must be a module, .* not list"):
        tt.compare_models([1], model, IDS)
    (tmp_path / "bad.pt2").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"bad\.pt2, is no program that torch\.export\.save wrote"):
        tt.compare_models(model, tmp_path / "bad.pt2", IDS)
    (tmp_path / "model.txt").write_text("x")
    with pytest.raises(TypeError, match=r"a file \.pt2 or \.onnx, not .*model\.txt"):
        tt.compare_models(model, str(tmp_path / "model.txt"), IDS)
