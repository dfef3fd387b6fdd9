"""Summaries of programs, trainers and functions as text and for notebooks."""

import numpy as np

import onnxgrad
from onnxgrad import from_onnx
from onnxgrad.training import add_lora
from tests.training.small import data, model
from tests.training.test_trainer import trainer


def test_layers_and_totals_are_those_of_the_program():
    program = from_onnx(model())
    found = program.summary()
    assert [(row.type, row.output, row.elements) for row in found.layers] == [
        ("Gemm", "float32[batch, 8]", 40),
        ("BatchNormalization", "float32[batch, 8]", 16),
        ("Gemm", "float32[batch, 3]", 27),
    ]
    assert found.elements == sum(p.get_value().size for p in program.parameters) and found.others == 2
    assert (
        dict(found.memory)["weights"] == 4 * found.elements and dict(found.memory)["state of the optimizer"] == 8 * found.trainable
    )
    lines = str(found).splitlines()
    assert lines[0] == "5 operators, 6 weights: x float32[batch, 4] -> scores float32[batch, 3]"
    assert lines[1].split() == ["layer", "type", "output", "elements", "trainable"]
    assert repr(program) == f"Program({lines[0]})"


def test_frozen_weights_do_not_count_as_trainable():
    program = from_onnx(model())
    add_lora(program, "head.weight", rank=2)
    found = program.summary()
    assert found.trainable == 2 * (8 + 3) and sum(row.trainable for row in found.layers) == found.trainable


def test_a_shared_weight_counts_once():
    from onnx import parser

    program = from_onnx(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> '
            "{ a = MatMul(x, w)  y = MatMul(a, w) }"
        )
    )
    assert program.summary().elements == 4 and len(program.summary().layers) == 1 and program.summary().others == 1


def test_long_programs_are_cut_short():
    from tests.pages.test_graph import stacked

    found = from_onnx(stacked(30)).summary()
    assert len(found.layers) == 90 and "... 50 more ..." in str(found) and len(str(found).splitlines()) == 46


def test_a_trainer_says_what_trains_and_how_far_it_is():
    t = trainer(freeze="body.*")
    t.fit(data(), 2, batch_size=20, verbose=False)
    assert repr(t) == "Trainer(cross_entropy, AdamW; 2 of 6 weights train; step 4, epoch 2)"
    found = t.summary()
    assert found.title == repr(t) and found.trainable == 27
    held = [v for v in t.program.list_vars() if v.persistable and v.name not in {p.name for p in t.program.parameters}]
    assert dict(found.memory)["state of the optimizer"] == sum(v.get_value().nbytes for v in held)


def test_a_function_says_what_it_takes_and_gives():
    f = onnxgrad.func.vjp(model(), wrt=["x"])
    assert repr(f) == "NumpyFunction(x, direction of scores -> scores, x@GRAD)"
    assert f.summary().title == repr(f) and len(f.summary().layers) == 3


def test_notebooks_get_escaped_tables():
    hostile = model()
    hostile.graph.node[0].name = "<script>alert(1)</script>"
    t = trainer()
    for one in (from_onnx(hostile), t, onnxgrad.func.grad(model(), wrt=["x"])):
        shown = one._repr_html_()
        assert shown.count("<tr>") == 4 and "<script>" not in shown
    assert "&lt;script&gt;" in from_onnx(hostile)._repr_html_()
    assert t.predict({"x": np.zeros((1, 4), np.float32)})["scores"].shape == (1, 3)
