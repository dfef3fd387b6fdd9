"""What the rules of spatial operators refuse, and sizes that only onnxruntime's run knows."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import errors, static
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.testing import gradient_model
from tests.core.rules.samples import all_samples


def differentiable(name, *shape):
    v = static.data(name, list(shape))
    v.stop_gradient = False
    return v


@pytest.mark.parametrize("mode", ["half_pixel", "tf_crop_and_resize"])
def test_roi_of_resize_is_refused_only_where_it_is_read(mode):
    x, roi = differentiable("x", 1, 1, 3, 3), differentiable("roi", 4)
    y = x.block.build.Resize(x, roi, None, [4, 5], axes=[2, 3], mode="linear", coordinate_transformation_mode=mode)
    if mode == "half_pixel":
        groi = static.gradients([y], [x, roi])[1]
        found = static.Executor().run(feed={"x": np.ones((1, 1, 3, 3), "float32"), "roi": np.ones(4, "float32")}, fetch_list=[groi])
        np.testing.assert_array_equal(found[0], np.zeros(4))
    else:
        with pytest.raises(errors.UnsupportedGradient, match="no gradient of roi"):
            static.gradients([y], [roi])


def test_scales_of_resize_are_refused():
    x, scales = differentiable("x", 1, 1, 3, 3), differentiable("scales", 4)
    y = x.block.build.Resize(x, None, scales, mode="linear")
    with pytest.raises(errors.UnsupportedGradient, match="no gradient of scales"):
        static.gradients([y], [scales])


FORMS = {
    "resize": ((2, 3, 4, 6), lambda op, x: op.Resize(x, None, None, op.Mul(op.Shape(x), [1, 1, 2, 3]), mode="linear")),
    "resize_keeping_ratio": (
        (2, 3, 4, 6),
        lambda op, x: op.Resize(
            x, None, None, op.Mul(op.Shape(x, start=2), [2, 3]), axes=[2, 3], mode="linear", keep_aspect_ratio_policy="not_larger"
        ),
    ),
    "center_crop_pad": ((4, 5), lambda op, x: op.CenterCropPad(x, op.Add(op.Shape(x), [1, -2]))),
    "col2im": ((2, 4, 9), lambda op, x: op.Col2Im(x, [4, 4], [2, 2])),
    "grid_sample": ((1, 2, 3, 4), lambda op, x: op.GridSample(x, op.Gather(op.Unsqueeze(x, [4]), [0, 0], axis=4)[:, 0])),
}


@pytest.mark.parametrize("form", FORMS)
def test_unknown_sizes_run_on_onnxruntime_as_known_ones_do(form):
    shape, build = FORMS[form]
    value = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = []
    for declared in (shape, [None] * len(shape)):
        x = differentiable(f"x{len(found)}", *declared)
        y = build(x.block.build, x)
        (g,) = static.gradients([x.block.build.Mul(y, y)], [x])
        model = to_onnx(x.block.program, [g])
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found.append(session.run(None, {session.get_inputs()[0].name: value})[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert found[0].any()


SAMPLED = ("AffineGrid", "DeformConv", "GridSample", "MaxRoiPool", "Resize", "RoiAlign")
HALVED = [sample for sample in all_samples() if sample.op_type in SAMPLED and sample.runs and sample.number % 5 == 0]


@pytest.mark.parametrize("sample", HALVED, ids=str)
def test_float16_agrees_with_float32(sample):
    found = []
    for dtype in ("float16", "float32"):
        model, feeds = gradient_model(sample, dtype)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found.append(session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()}))
    for half, single in zip(*found, strict=True):
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, single, rtol=0.02, atol=0.02 * max(1.0, np.abs(single).max(initial=0)))
