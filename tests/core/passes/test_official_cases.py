"""The single-operator models of opset 6 that come inside the onnx package: lifted, they compute what they are recorded to."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxgrad
from onnxgrad.core.passes.lift import lift

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
CASES = sorted(path.parent for path in DATA.glob("pytorch-*/*/model.onnx"))


def recorded(folder, kind):
    """Tensors of the first data set: kind is 'input' or 'output'"""
    files = sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    return [onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes())) for path in files]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_lifted_model_computes_what_is_recorded(folder):
    program = onnxgrad.from_onnx(folder / "model.onnx")
    lift(program)
    inputs = program.inputs
    feed = {v.name: array for v, array in zip(inputs, recorded(folder, "input"), strict=False)}
    found = onnxgrad.Executor().run(program, feed, program.outputs)
    for actual, expected in zip(found, recorded(folder, "output"), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5)
