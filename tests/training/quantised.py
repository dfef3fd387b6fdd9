"""Small nets, and their files as onnxruntime.quantization makes them, with data that they can learn."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

TYPES = {4: QuantType.QInt4, 8: QuantType.QInt8, 16: QuantType.QInt16}


def _weight(rng, *shape):
    return (rng.normal(0, 1, shape) / np.sqrt(np.prod(shape[1:]) if len(shape) == 4 else shape[0])).astype(np.float32)


def _node(kind, inputs, outputs, **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=f"n_{outputs}", **attrs)


def _model(nodes, arrays, shape, opset):
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])
    y = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph(nodes, "net", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def convolutional(opset=21):
    rng = np.random.default_rng(7)
    nodes = [
        _node("Conv", "x w1 b1", "h1", pads=[1, 1, 1, 1]), _node("Relu", "h1", "r1"),
        _node("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        _node("Conv", "p1 w2 b2", "h2", pads=[1, 1, 1, 1]), _node("Relu", "h2", "r2"),
        _node("GlobalAveragePool", "r2", "g"), _node("Flatten", "g", "f"), _node("Gemm", "f w3 b3", "scores", transB=1),
    ]  # fmt: skip
    arrays = {"w1": _weight(rng, 8, 2, 3, 3), "w2": _weight(rng, 8, 8, 3, 3), "w3": _weight(rng, 3, 8)}
    biases = {f"b{i}": rng.normal(0, 0.1, n).astype(np.float32) for i, n in ((1, 8), (2, 8), (3, 3))}
    return _model(nodes, arrays | biases, [2, 6, 6], opset)


def perceptron(opset=21):
    rng = np.random.default_rng(7)
    nodes = [
        _node("MatMul", "x w1", "m1"), _node("Add", "m1 b1", "h1"), _node("Tanh", "h1", "t1"),
        _node("Gemm", "t1 w2 b2", "h2"), _node("Relu", "h2", "r2"), _node("MatMul", "r2 w3", "scores"),
    ]  # fmt: skip
    arrays = {"w1": _weight(rng, 12, 16), "w2": _weight(rng, 16, 16), "w3": _weight(rng, 16, 3)}
    biases = {f"b{i}": rng.normal(0, 0.1, 16).astype(np.float32) for i in (1, 2)}
    return _model(nodes, arrays | biases, [12], opset)


def transformer(opset=21):
    """One block of attention in 2 heads of 8, and a layer of 32 between, over 6 rows"""
    rng = np.random.default_rng(7)
    nodes, arrays = [], {"shape": np.array([0, 6, 2, 8]), "flat": np.array([0, 6, 16]), "scale": np.float32(8**-0.5)}

    def add(kind, inputs, output, **attrs):
        nodes.append(_node(kind, inputs, output, **attrs))
        return output

    for name in ("q", "k", "v"):
        arrays[f"w_{name}"] = _weight(rng, 16, 16)
        add("Transpose", add("Reshape", f"{add('MatMul', f'x w_{name}', f'm_{name}')} shape", f"s_{name}"), name, perm=[0, 2, 1, 3])
    add("Transpose", "k", "kt", perm=[0, 1, 3, 2])
    add("Softmax", add("Mul", f"{add('MatMul', 'q kt', 'qk')} scale", "scaled"), "p", axis=-1)
    add("Reshape", f"{add('Transpose', add('MatMul', 'p v', 'pv'), 'turned', perm=[0, 2, 1, 3])} flat", "joined")
    arrays |= {
        "w_o": _weight(rng, 16, 16),
        "w_up": _weight(rng, 16, 32),
        "w_down": _weight(rng, 32, 16),
        "w_head": _weight(rng, 16, 3),
    }
    arrays |= {"b_up": np.zeros(32, np.float32), "gain": np.ones(16, np.float32), "shift": np.zeros(16, np.float32)}
    add("Add", f"x {add('MatMul', 'joined w_o', 'o')}", "sum")
    add("LayerNormalization", "sum gain shift", "norm", axis=-1)
    add("Relu", add("Add", f"{add('MatMul', 'norm w_up', 'up')} b_up", "up_b"), "act")
    add("Add", f"norm {add('MatMul', 'act w_down', 'down')}", "out")
    arrays["middle"] = np.array([1])
    add("MatMul", f"{add('ReduceMean', 'out middle', 'mean', keepdims=0)} w_head", "scores")
    return _model(nodes, arrays, [6, 16], opset)


NETS = {"convolutional": convolutional, "perceptron": perceptron, "transformer": transformer}


def data(kind, count=48):
    """Rows in three classes, which a direction of each tells apart"""
    shape = {"convolutional": (2, 6, 6), "perceptron": (12,), "transformer": (6, 16)}[kind]
    rng = np.random.default_rng(3)
    target = rng.integers(0, 3, count)
    x = rng.normal(0, 1, (count, *shape)) + rng.normal(0, 1, (3, *shape))[target]
    return {"x": x.astype(np.float32), "target": target}


class _Reader(CalibrationDataReader):
    def __init__(self, x):
        self.rows = iter([{"x": x[i : i + 8]} for i in range(0, len(x), 8)])

    def get_next(self):
        return next(self.rows, None)


_QUANTISED = {}
"""Files that were made before, by what they were made with."""


def static(kind, folder, *, bits=8, activations=None, per_channel=False, qdq=True, opset=21, rows=None, **options):
    """Path of a net, given by kind or as a model, quantised with scales that some rows showed"""
    plain, path = folder / "plain.onnx", folder / ("quantised.onnx" if rows is None else "again.onnx")
    onnx.save(NETS[kind](opset) if rows is None else kind, plain)
    key = repr((kind, bits, activations, per_channel, qdq, opset, sorted(options.items()))) if rows is None else None
    if key in _QUANTISED:
        path.write_bytes(_QUANTISED[key])
        return path
    quantize_static(
        plain, path, _Reader(data(rows or kind)["x"]), per_channel=per_channel, weight_type=TYPES[bits],
        activation_type=activations or (QuantType.QInt16 if bits == 16 else QuantType.QUInt8),
        quant_format=QuantFormat.QDQ if qdq else QuantFormat.QOperator, **options,
    )  # fmt: skip
    if key is not None:
        _QUANTISED[key] = path.read_bytes()
    return path


def dynamic(kind, folder, opset=21, **options):
    """Path of a net whose weights are integers and whose activations are quantised while it runs"""
    plain, path = folder / "plain.onnx", folder / "dynamic.onnx"
    onnx.save(NETS[kind](opset), plain)
    quantize_dynamic(plain, path, **options)
    return path


def in_blocks(kind, folder, block=16):
    """Path of a net whose MatMul weights are 4-bit integers with a scale for each block of rows, as MatMulNBitsQuantizer writes them"""
    model = NETS[kind]()
    weights = {i.name: i for i in model.graph.initializer if len(i.dims) == 2}
    made = []
    for node in list(model.graph.node):
        if node.op_type == "MatMul" and node.input[1] in weights:
            name = node.input[1]
            rows = numpy_helper.to_array(weights[name])
            groups = rows.reshape(-1, block, rows.shape[1])
            scale = np.abs(groups).max(axis=1) / 7
            level = np.rint(groups / scale[:, None]).reshape(rows.shape)
            weights[name].CopyFrom(helper.make_tensor(name, TensorProto.INT4, rows.shape, level.astype(int).reshape(-1)))
            model.graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
            made.append(helper.make_node("DequantizeLinear", [name, f"{name}_scale"], [f"{name}_real"], axis=0, block_size=block))
            node.input[1] = f"{name}_real"
    nodes = made + list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, folder / "blocks.onnx")
    return folder / "blocks.onnx"
