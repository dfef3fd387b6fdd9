"""Programs of opsets 27 and 28 run on onnxruntime, whose newest is 26."""

import numpy as np
import onnx
import pytest

import onnxgrad
from onnxgrad.testing import evaluate
from tests.core.rules.official_cases import cases_of

X = np.random.default_rng(0).normal(size=(1, 4, 4, 6)).astype(np.float32)

# Each is an operator redefined in 27 or 28, in a form that 26 can express.
NEWER_FORMS = {
    "mod": "c = Constant <value = float {-0.3}> () y = Mod (x, c)",
    "space_to_depth": 'y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x)',
    "space_to_depth_plain": 'y = SpaceToDepth <blocksize = 2, mode = "DCR"> (x)',
    "depth_to_space": 'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)',
    "reduce_log_sum_exp": "a = Constant <value = int64[1] {1}> () y = ReduceLogSumExp (x, a)",
    "cast": "y = Cast <to = 1> (x)",
}


@pytest.mark.parametrize("form", NEWER_FORMS)
def test_what_26_can_express_runs(form):
    text = f'<ir_version: 14, opset_import: ["": 28]> g (float[1, 4, 4, 6] x) => (float[] y) {{ {NEWER_FORMS[form]} }}'
    model = onnx.parser.parse_model(text)
    program = onnxgrad.from_onnx(model)
    (found,) = onnxgrad.Executor().run(program, {"x": X}, program.outputs)
    (expected,) = evaluate(model, {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert program.opset_version() == 28  # running changes nothing


def test_float16_celu_runs():
    case = next(case for case in cases_of("node.celu") if case.name == "test_celu_float16")
    program = onnxgrad.from_onnx(case.model)
    (found,) = onnxgrad.Executor().run(program, case.inputs, program.outputs)
    np.testing.assert_allclose(found, case.outputs[0], rtol=1e-2, atol=1e-2)


def test_what_26_cannot_express_keeps_its_opset():
    text = '<ir_version: 14, opset_import: ["": 28]> g (int8[2] x, int8[2] n) => (int8[2] y) { y = BitShift <direction = "LEFT"> (x, n) }'
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    onnxgrad.core.passes.lift.lift(program)
    assert program.opset_version() == 28
