"""Exporter-made files: their gradients in the forms for the CPU are those of the plain ones."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from tests.real_models import REFUSED_BY_ONNXRUNTIME, WITH_REFERENCE, RealModel

FILES = [folder for folder in WITH_REFERENCE if folder.name not in REFUSED_BY_ONNXRUNTIME]


def _copies(feed, program):
    """Four examples, where the number is unknown or already more than one: of each input the given ones, changed a little"""
    draw, found = np.random.default_rng(0), {}
    for name, value in feed.items():
        v = program.global_block().vars.get(name)
        free = v is not None and v.dims is not None and v.rank and not isinstance(v.dims[0], int)
        repeated = np.concatenate([value] * 4) if free else value
        noise = draw.normal(size=repeated.shape) * 0.1 if value.dtype.kind == "f" else 0
        found[name] = (repeated + noise).astype(value.dtype)
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("folder", FILES, ids=[folder.name for folder in FILES])
def test_same_gradients(folder):
    model = RealModel(folder)
    program = paddle.from_onnx(model.path)
    program.train()
    feed = _copies(model.feed, program)
    shapes = {name: value.shape for name, value in feed.items()}
    with static.program_guard(program):
        outputs = [v for v in program.outputs if v.is_float]
        loss = paddle.add_n([paddle.mean(y * y) for y in outputs])
        pairs = static.append_backward(loss)
    wanted = [loss, *(g for _, g in pairs)]
    plain, lowered = (compile(program, wanted, provider, shapes) for provider in (None, "cpu"))
    results = []
    for graph in (plain, lowered):
        message = write_model(graph).SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(message, options)
        names = {entry.name for entry in session.get_inputs()}
        results.append(session.run(None, {name: value for name, value in feed.items() if name in names}))
    if any(op.type == "Conv" and op.inputs[0].rank == 4 and op.role.name == "FORWARD" for op in plain.operators):
        assert [op.type for op in plain.operators] != [op.type for op in lowered.operators]
    # A bias before BatchNormalization has a gradient of 0, which comes out as rounding of the others.
    rounding = 1e-6 * max(np.abs(a).max(initial=0) for a in results[0])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=2e-4 * np.abs(a).max(initial=0) + rounding)
