"""Nets of images, and what their graphs compute, for the tests of layouts."""

import numpy as np
import onnx
import onnxruntime

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.tensor import TensorValue


class ImageNet:
    """Layers on images; every parameter is differentiated"""

    deviation = 0.5
    """Of the parameters."""

    def __init__(self, shape, dtype="float32"):
        self.x = static.data("x", shape, dtype)
        self.x.stop_gradient = False
        self.op, self.dtype = self.x.block.build, dtype
        self.draw = np.random.default_rng(0)
        self.parameters = []

    def weight(self, *shape, around=0.0, deviation=None):
        value = self.draw.normal(size=shape) * (deviation or self.deviation) + around
        value = value.astype("float32").astype(self.dtype)
        name = f"w{len(self.parameters)}"
        self.parameters.append(self.x.block.create_parameter(name, shape, self.dtype, value=TensorValue.of(value)))
        return self.parameters[-1]

    def filters(self, *shape):
        return self.weight(*shape)

    def conv(self, x, out, *kernel, bias=False, **attrs):
        w = self.filters(out, x.dims[1] // attrs.get("group", 1), *kernel)
        return self.op.Conv(x, w, *([self.weight(out)] if bias else []), **attrs)


def differentiated(make_net, layers):
    """A program of a net, and its results and gradients"""
    main = static.Program()
    with static.program_guard(main):
        net = make_net()
        found = layers(net)
        outputs = list(found) if isinstance(found, tuple) else [found]
        target = paddle.add_n([paddle.sum(y * y * 0.5 + y) for y in outputs])
        return main, [*outputs, *static.gradients([target], [net.x, *net.parameters])]


def run(graph, shape, dtype="float32"):
    """What a graph computes of random images"""
    model = write_model(graph)
    onnx.checker.check_model(model, full_check=True)
    feed = np.random.default_rng(1).normal(size=shape).astype("float32").astype(dtype)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": feed})
