"""The sets of pictures in tests/data/annotated/sets, which models/annotated/write_sets.py writes, and programs that take them."""

import json
from pathlib import Path

from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.training.data.spec import DataSpec

SETS = Path(__file__).parents[3] / "data" / "annotated" / "sets"
REFERENCE = json.loads((SETS / "reference.json").read_text())
NAMES = ["bus", "car", "tree"]


def program(size="64, 64"):
    """A program that takes pictures of this size."""
    text = f'<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, {size}] x) => (float[N, 3, {size}] y) {{ y = Tanh(x) }}'
    return og.from_onnx(parse_model(text))


def wanted(name, dims, dtype="float32", size="64, 64", loss=""):
    """The columns of a program whose loss, of this name, reads a target of this type."""
    model = program(size)
    target = Variable(model.global_block(), name, TensorType(dtype_of(dtype), dims))
    return DataSpec.of(model.inputs, [target], program=model, losses={name: loss} if loss else None)


def boxes(size="64, 64"):
    """The columns of a program whose loss reads boxes."""
    return wanted("boxes", (None, None, 5), size=size)
