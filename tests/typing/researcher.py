"""A program of somebody who differentiates: accepted by type checkers, and run."""

import numpy as np
import numpy.typing as npt
from onnx import parser

import onnxgrad as og
from onnxgrad import attribution, func

TEXT = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) { s = Mul(x, x) y = Mul(s, x) }'
Arrays = dict[str, npt.NDArray[np.float32]]


def of_arrays(program: og.Program) -> None:
    x = {"x": np.array([[1, 2]], np.float32)}
    y, inner = program.outputs[0], program.find("s")
    values, gradients = func.value_and_grad(program, y, wrt=["x", inner])(x)
    assert values["y"].shape == (1, 2) and list(gradients) == ["x", "s"]
    product: Arrays = func.hvp(program, "y", "x")(x, {"x": np.ones((1, 2), np.float32)})
    assert product["x"].tolist() == [[6, 12]]
    pulled = func.vjp(program)(x, {"y": np.ones((1, 2), np.float32)})[1]
    pushed = func.jvp(program, wrt="x")(x, {"x": np.ones((1, 2), np.float32)})[1]
    assert pulled["x"].tolist() == pushed["y"].tolist() == [[3, 12]]
    rows: dict[str, Arrays] = func.jacobian(program)(x)
    assert rows["y"]["x"].shape == (1, 2, 1, 2) and func.hessian(program)(x)["x"]["x"].shape == (1, 2, 1, 2)
    found = attribution.saliency(program, x, program.inputs[0], output="y")
    assert found.labels == [1] and found.values.shape == (1, 2)


def of_a_file() -> None:
    """Feeds of several element types, made beforehand."""
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x, int64[M] i) => (float[M] y) { y = Gather(x, i) }'
    feeds = {"x": np.ones(3, np.float32), "i": np.array([2, 2])}
    slopes: Arrays = func.grad(parser.parse_model(text), wrt="x")(feeds)
    assert slopes["x"].tolist() == [0, 0, 2]
    found = attribution.saliency(og.from_onnx(parser.parse_model(text)), feeds, "x")
    assert found.values.shape == (3,)


def of_programs(program: og.Program) -> None:
    x, y = program.inputs[0], program.outputs[0]
    (slope,) = og.vjp(y, x)
    whole: og.Variable = og.jacobian(slope, x)
    rows: list[og.Variable] = og.jacobian(slope, [x])
    program.outputs = [whole, *rows]
    results = og.Executor().run(program, {"x": np.ones((1, 2), np.float32)}, program.outputs)
    assert results[0].shape == results[1].shape == (1, 2, 1, 2)


def cubed(x: og.Tensor) -> og.Tensor:
    return (x * x * x).sum()


def of_tensors() -> None:
    x = og.to_tensor([1.0, 2.0], stop_gradient=False)
    value, product = og.autograd.vjp(cubed, x)
    assert value.item() == 9 and product.numpy().tolist() == [3, 12]
    _, along = og.autograd.jvp(cubed, x)
    assert along.item() == 15
    square: og.Tensor = og.autograd.hessian(cubed(x), x)
    assert square.shape == [2, 2]
    matrix: og.Tensor = og.autograd.jacobian(x * x, x)
    columns: tuple[og.Tensor, ...] = og.autograd.jacobian(x * x, [x])
    assert matrix.shape == columns[0].shape
    maybe: list[og.Tensor | None] = og.grad(cubed(x), [x, og.to_tensor(1.0)], allow_unused=True)
    assert maybe[1] is None


def main() -> None:
    program = og.from_onnx(parser.parse_model(TEXT))
    of_arrays(program)
    of_a_file()
    of_programs(program)
    of_tensors()


if __name__ == "__main__":
    main()
