"""What is done with kept values: callbacks, intervals, modes, stacking."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402
from torch import nn  # noqa: E402
from trace_models import C, Small, ones, run  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.trace import (  # noqa: E402
    GlobalVariableResult,
    LocalVariableResult,
    ModelTracer,
    TracedModel,
    Variable,
    stack_padded_tensors,
    stack_tensors,
    trace_model,
)

# ---- the two forms


def test_the_list_form_changes_three_lists_in_place():
    seen = []

    def double(name, values, iterations, ranks):
        seen.append((name, len(values), list(iterations), list(ranks)))
        values[:] = [value * 2 for value in values]
        iterations[0] = 77

    model = Small()
    with ModelTracer(
        model, ["forward.x"], post_gather_callbacks=[double], gathering_interval=2
    ) as tracer:
        run(model, 4)
    assert seen == [("forward.x", 2, [1, 2], [0, 0]), ("forward.x", 2, [3, 4], [0, 0])]
    result = tracer.results["forward.x"]
    assert [float(v[0, 0]) for v in result.values] == [2, 4, 6, 8]
    assert result.iterations == [77, 2, 77, 4]


def test_the_dataclass_form_may_replace_fields():
    def mean(name, result):
        assert isinstance(result, GlobalVariableResult)
        result.values = [torch.stack(result.values).mean()]
        result.iterations = result.iterations[-1:]
        result.ranks = [9]

    model = Small()
    with ModelTracer(
        model, ["forward.x"], post_gather_callbacks=[mean], gathering_interval=2
    ) as tracer:
        run(model, 4)
    assert tracer.results["forward.x"] == GlobalVariableResult(
        [2, 4], [9, 9], [torch.tensor(1.5), torch.tensor(3.5)]
    )


def test_pre_gather_takes_three_or_four_arguments_or_a_result():
    seen = []

    def three(name, values, iterations):
        seen.append((len(values), list(iterations)))

    def four(name, values, iterations, ranks):
        seen.append(ranks)

    def two(name, result):
        seen.append(type(result))

    model = Small()
    with ModelTracer(model, ["forward.x"], pre_gather_callbacks=[three, four, two]):
        run(model, 1)
    assert seen == [(1, [1]), None, LocalVariableResult]


def test_callbacks_run_in_their_order():
    order = []

    def note(kind):
        return lambda name, result: order.append(kind)

    def save(name, value, iteration):
        order.append(f"pre_save {iteration}")
        return value

    model = Small()
    variable = Variable(
        "forward.x",
        gather_interval=2,
        pre_save_callbacks=save,
        pre_gather_callbacks=note("pre_gather"),
        post_gather_callbacks=note("post_gather"),
        post_trace_callbacks=note("post_trace"),
    )
    with ModelTracer(model, variable):
        run(model, 3)
    gather = ["pre_gather", "post_gather"]
    expected = ["pre_save 1", "pre_save 2", *gather, "pre_save 3", *gather, "post_trace"]
    assert order == expected


def test_pre_save_decides_what_is_kept():
    model = Small()
    with ModelTracer(
        model,
        ["forward.x"],
        pre_save_callbacks=[lambda n, v, i: v.mean(), lambda n, v, i: (n, float(v), i)],
    ) as tracer:
        run(model, 2)
    assert tracer.results["forward.x"].values == [("forward.x", 1.0, 1), ("forward.x", 2.0, 2)]


def test_pre_save_may_change_its_copy_in_place():
    model, x = Small(), ones(1)
    with ModelTracer(model, ["forward.x", "fc.forward.input"], pre_save_callbacks=_zero) as tracer:
        model(x)
    assert torch.equal(x, ones(1))
    assert float(tracer.results["forward.x"].values[0].sum()) == 0


def _zero(name, value, iteration):
    return value.zero_()


@pytest.mark.parametrize(
    "where", ["pre_save_callbacks", "pre_gather_callbacks", "post_gather_callbacks"]
)
def test_a_callback_that_raises_is_named_with_its_variable(where):
    calls = []

    def explode(name, *rest):
        calls.append(name)
        if len(calls) == 2:
            raise ZeroDivisionError("on purpose")
        return rest[0]

    model = Small()
    with (
        pytest.raises(ZeroDivisionError, match=r"'explode'.*'forward.x'.*on purpose"),
        ModelTracer(model, ["forward.x"], **{where: [explode]}) as tracer,
    ):
        run(model, 3)
    assert tracer.results["forward.x"].iterations[:1] == [1]  # kept
    assert tracer.current_iteration == 2


def test_a_post_trace_callback_that_raises_leaves_what_was_gathered():
    def explode(name, result):
        raise KeyError("on purpose")

    model = Small()
    with (
        pytest.raises(RuntimeError, match=r"post_trace callback 'explode' failed for 'forward.x'"),
        ModelTracer(model, ["forward.x"], post_trace_callbacks=[explode]) as tracer,
    ):
        run(model, 2)
    assert tracer.results["forward.x"].iterations == [1, 2]


@pytest.mark.parametrize("wrong", ["text", 3, [4]])
def test_what_is_no_callback_is_refused_by_name(wrong):
    with pytest.raises(TypeError, match="post_gather_callbacks"):
        ModelTracer(Small(), ["forward"], post_gather_callbacks=wrong)


# ---- stacking


def test_stack_tensors_is_torch_stack_and_refuses_unequal_shapes():
    values = [ones(1), ones(2)]
    stack_tensors("x", values)
    assert len(values) == 1
    assert torch.equal(values[0], torch.stack([ones(1), ones(2)]))
    with pytest.raises(RuntimeError, match="stack"):
        stack_tensors("x", [torch.zeros(2), torch.zeros(3)], [1, 2], [0, 0])


def test_padded_stacking_puts_zeros_at_the_end_and_adds_leading_dimensions():
    parts = [torch.ones(2, 3), torch.ones(4), torch.ones(1, 1, 2), torch.tensor(5.0)]
    values = list(parts)
    stack_padded_tensors("x", values, [1, 2, 3, 4], None)
    stacked = values[0]
    assert stacked.shape == (4, 1, 2, 4)
    expected = np.zeros((4, 1, 2, 4))
    expected[0, 0, :2, :3] = 1
    expected[1, 0, 0, :] = 1
    expected[2, 0, 0, :2] = 1
    expected[3, 0, 0, 0] = 5
    np.testing.assert_array_equal(stacked.numpy(), expected)


def test_nothing_stacks_to_an_empty_tensor():
    for stack in (stack_tensors, stack_padded_tensors):
        values = []
        stack("x", values)
        assert values[0].shape == (0,)
        result = LocalVariableResult()
        stack("x", result)
        assert result.values.shape == (0,)


def test_numbers_stack_too():
    values = [1, 2, 3]
    stack_padded_tensors("x", values)
    assert values[0].tolist() == [1, 2, 3]


def test_stacks_of_a_variable_are_joined_and_padded():
    variable = Variable(
        "forward.x", gather_interval=2, post_gather_callbacks=[stack_padded_tensors]
    )
    model = Small()
    with ModelTracer(model, [variable]):
        for rows in (1, 2, 3, 1):
            model(torch.ones(rows, C))
    assert variable.results["forward.x"].values.shape == (4, 3, C)
    assert variable.results["forward.x"].values.sum() == 7 * C


# ---- intervals and modes


def test_trace_interval_traces_each_nth():
    model = Small()
    with ModelTracer(model, ["forward.x", "fc", "forward"], trace_interval=3) as tracer:
        run(model, 7)
    for name in ("forward.x", "fc", "forward"):
        assert tracer.results[name].iterations == [3, 6]
    assert tracer.current_iteration == 7


def test_both_modes_share_one_count_with_paths():
    model = Small()
    with ModelTracer(model, ["forward.x"]) as tracer:
        run(model.train(), 2)
        run(model.eval(), 1, first=3)
    assert tracer.results["forward.x"].iterations == [1, 2, 3]
    assert tracer.current_training_iteration == 2
    assert tracer.current_evaluation_iteration == 1


@pytest.mark.parametrize(("option", "expected"), [("train_only", [1, 2]), ("eval_only", [3])])
def test_one_mode_alone(option, expected):
    model = Small()
    with ModelTracer(model, ["forward.x"], **{option: True}) as tracer:
        run(model.train(), 2)
        run(model.eval(), 1, first=3)
    assert [float(v[0, 0]) for v in tracer.results["forward.x"].values] == expected


def test_variables_count_training_and_evaluation_apart():
    training = Variable("forward.x", trace_interval=2)
    evaluation = Variable(["forward.x", "fc"], mode="eval")
    model = Small()
    with ModelTracer(model, [training, evaluation]) as tracer:
        run(model.train(), 4)
        run(model.eval(), 2, first=5)
    assert training.results["forward.x"].iterations == [2, 4]
    assert evaluation.results["forward.x"].iterations == [1, 2]
    assert set(evaluation.results) == {"forward.x", "fc"}
    assert tracer.results["forward.x"].iterations == [2, 4, 1, 2]
    assert tracer.variables == [training, evaluation]


def test_more_variables_than_the_line_source_has_room_for():
    variables = [Variable("forward.x", trace_interval=i + 1) for i in range(40)]
    model = Small()
    with ModelTracer(model, variables):
        run(model, 40)
    assert variables[39].results["forward.x"].iterations == [40]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"train_only": True, "eval_only": True}, "eval_only"),
        ({"trace_interval": 0}, "trace_interval"),
        ({"gathering_interval": -1}, "gathering_interval"),
        ({"keep": "sometimes"}, "keep"),
    ],
)
def test_wrong_arguments_fail_at_once(options, word):
    with pytest.raises(ValueError, match=word):
        ModelTracer(Small(), ["forward"], **options)


def test_wrong_modes_models_and_paths_are_refused():
    with pytest.raises(ValueError, match="mode must be"):
        Variable("x", mode="test")
    with pytest.raises(TypeError, match="model must be"):
        ModelTracer("model", ["forward"])
    with pytest.raises(TypeError, match="path"):
        ModelTracer(Small(), [3])


# ---- ways to call it


def test_trace_model_takes_variables_too():
    variable = Variable("forward.x")
    _, tracer = trace_model(Small(), variable, ones(4))
    assert float(variable.results["forward.x"].values[0][0, 0]) == 4
    assert tracer.model.fc is not None


def test_a_traced_model_traces_whenever_it_is_called():
    traced = TracedModel(Small(), ["forward.x"])
    for i in (1, 2):
        traced(ones(i))
    assert traced.tracer.results["forward.x"].iterations == [1, 2]
    traced.close()
    traced.close()
    assert len(list(traced.parameters())) == 2
    traced.model(ones(3))
    assert traced.tracer.results["forward.x"].iterations == [1, 2]


def test_the_names_are_there_from_tensortap_itself():
    assert tt.ModelTracer is ModelTracer
    assert tt.trace.Variable is Variable


def test_a_second_with_begins_anew_and_a_nested_one_is_refused():
    model = Small()
    tracer = ModelTracer(model, ["forward.x"])
    for _ in range(2):
        with tracer:
            run(model, 2)
            with pytest.raises(RuntimeError, match="open already"), tracer:
                pass
        assert tracer.results["forward.x"].iterations == [1, 2]


class Counting(nn.Module):
    def forward(self, x):
        n = float(x.sum())
        return x + n


def test_values_in_an_open_run_are_in_the_run_too(tmp_path):
    model = Counting()
    with (
        tt.record(tmp_path / "run") as recording,
        ModelTracer(model, ["forward.x", "forward.n"], gather=False) as tracer,
    ):
        for i in (1, 2):
            model(ones(i))
            recording.step()
    with tt.open(tmp_path / "run") as read:
        stored = [read.tensor("trace/forward.x", step) for step in (0, 1)]
        _, numbers = read.series("trace/forward.n")
    for value, expected in zip(stored, tracer.results["forward.x"].values, strict=True):
        np.testing.assert_array_equal(np.asarray(value), expected.numpy())
    assert list(numbers) == tracer.results["forward.n"].values == [10.0, 20.0]
