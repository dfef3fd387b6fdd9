"""Where float16 needs wider sums inside, gradients agree with float64."""

import numpy as np

from onnxgrad import Program, gradients, to_onnx
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.testing import evaluate


def gradients_in(dtype, operands, op_type, opset, outputs, attrs):
    """Gradients of the sum of all outputs, computed in ``dtype``"""
    program = Program()
    program.set_opset_version(opset)
    program.ir_version = 13
    program.is_oracle = True
    block, variables, feeds = program.global_block(), [], {}
    for i, array in enumerate(operands):
        v = Variable(block, f"x{i}", TensorType(dtype_of(dtype), array.shape))
        block.inputs.append(block.register(v))
        v.stop_gradient = False
        variables.append(v)
        feeds[v.name] = array.astype(dtype)
    found = gradients(list(block.build.emit(op_type, variables, attrs, outputs=outputs)), variables)
    return evaluate(to_onnx(program, found), feeds)


def test_linear_attention_in_float16():
    rng = np.random.default_rng(0)
    shapes = [(2, 3, 4), (2, 3, 4), (2, 3, 6), (2, 2, 2, 3), (2, 3, 2), (2, 3, 1)]
    operands = [rng.normal(size=shape).astype(np.float16).astype(np.float64) * 0.5 for shape in shapes]
    form = ("LinearAttention", 27, 2, {"q_num_heads": 2, "kv_num_heads": 2})
    narrow, wide = (gradients_in(dtype, operands, *form) for dtype in ("float16", "float64"))
    for a, b in zip(narrow, wide, strict=True):
        assert a.dtype == np.float16
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2)
