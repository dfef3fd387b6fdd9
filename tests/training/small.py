"""A small classifier with Dropout and BatchNormalization, and data for it."""

import numpy as np
from onnx import numpy_helper
from onnx.parser import parse_model

TEXT = """<ir_version: 8, opset_import: ["": 17], producer_name: "someone", metadata_props: ["licence": "free"]>
small (float[batch, 4] x) => (float[batch, 3] scores) {
  hidden = Gemm <transB = 1> (x, body__weight, body__bias)
  normal = BatchNormalization (hidden, body__scale, body__shift, body__mean, body__var)
  active = Relu (normal)
  kept = Dropout (active, rate)
  scores = Gemm <transB = 1> (kept, head__weight, head__bias)
}"""


def model(text=TEXT, dtype=np.float32):
    rng = np.random.default_rng(5)
    found = parse_model(text if dtype == np.float32 else text.replace("(float[", "(double["))
    arrays = {
        "body.weight": rng.normal(0, 0.5, (8, 4)),
        "body.bias": rng.normal(0, 0.1, 8),
        "body.scale": np.ones(8),
        "body.shift": np.zeros(8),
        "body.mean": np.zeros(8),
        "body.var": np.ones(8),
        "rate": np.array(0.25),
        "head.weight": rng.normal(0, 0.5, (3, 8)),
        "head.bias": np.zeros(3),
    }
    for node in found.graph.node:
        node.input[:] = [name.replace("__", ".") for name in node.input]
    used = {name for node in found.graph.node for name in node.input}
    for name, array in arrays.items():
        if name in used:
            found.graph.initializer.append(numpy_helper.from_array(np.asarray(array, dtype), name))
    return found


def data(count=40, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (count, 4)).astype(np.float32)
    return {"x": x, "target": (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0.5)}


def line(extra=""):
    """y = x w + b; with ``extra``, that is k, which further operators read."""
    return parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 1] y)
        <float[2, 1] w = {{0.5, -0.25}}, float[1] b = {{0.1}}> {{ {"k" if extra else "y"} = Gemm(x, w, b)  {extra} }}"""
    )


def weights(trainer):
    return {v.name: v.get_value() for v in trainer.program.list_vars() if v.persistable}


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


__all__ = ["assert_equal", "data", "line", "model", "weights"]
