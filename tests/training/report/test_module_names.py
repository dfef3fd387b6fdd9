"""Names of weights in the report: after the modules, for files of both of torch's exporters."""

import re
from pathlib import Path

import pytest

import onnxgrad as og
from onnxgrad.training.report.module_names import module_names
from tests.training.small import model

REAL = Path(__file__).parents[2] / "data" / "real_models"
NUMBERED = re.compile(r"onnx::|val_\d|\d+$")


@pytest.mark.parametrize(
    ("file", "weight", "name"),
    [
        ("torch/bert-legacy14", "onnx::MatMul_406", "m.bert.encoder.layer.0.attention.self.query.weight"),
        ("torch/bert-dyn18", "val_95", "m.bert.encoder.layer.0.attention.self.query.weight"),
        ("torch/timm_convnext-legacy17", "onnx::MatMul_167", "stages.0.blocks.0.mlp.fc1.weight"),
        ("torch/timm_convnext-dyn18", "val_5", "stages.0.blocks.0.mlp.fc1.weight"),
        ("torch/lstm_clf-legacy13", "onnx::LSTM_352", "rnn.weight_ih"),
    ],
)
def test_is_that_of_the_module(file, weight, name):
    assert module_names(og.from_onnx(REAL / file / "model.onnx"))[weight] == name


@pytest.mark.parametrize("path", sorted(REAL.glob("*/*/model.onnx")), ids=lambda path: path.parent.name)
def test_names_stay_different(path):
    names = module_names(og.from_onnx(path))
    assert len(set(names.values())) == len(names)
    assert all(names[own] == own for own in names if not NUMBERED.match(own) and not own.startswith("const_"))


@pytest.mark.parametrize("text", ["[", "['x']", "[1, 2]", "{}", "__import__('os')", "[" * 5000])
def test_metadata_of_another_kind_is_no_name(text):
    program = og.from_onnx(model())
    weight = program.parameters[0].name
    program.parameters[0].name = "onnx::Gemm_1"
    for op in program.global_block().ops:
        op.metadata = {"pkg.torch.onnx.name_scopes": text}
    assert module_names(program)["onnx::Gemm_1"] == "onnx::Gemm_1" != weight
