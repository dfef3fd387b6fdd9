"""A program that type checkers accept, and that runs: eager tensors and variables of a program, by the same functions."""

import numpy as np

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static


def slope(x: paddle.Tensor) -> paddle.Tensor:
    y = F.relu(x) * 2 + 1.0
    loss = y.mean()
    loss.backward()
    assert x.grad is not None
    (same,) = paddle.grad((F.relu(x) * 2 + 1.0).sum(), x)
    assert np.allclose(same.numpy(), x.grad.numpy() * 3)
    return x.grad


@paddle.no_grad()
def doubled(x: paddle.Tensor) -> paddle.Tensor:
    return x * 2


def symbolic() -> paddle.Variable:
    with static.program_guard(static.Program()):
        v = static.data("x", [None, 3], "float32")
        product: paddle.Variable = paddle.matmul(v, v, transpose_y=True)
        return F.softmax(product.reshape([-1, 3])).sum(axis=1)


def main() -> None:
    x = paddle.to_tensor([1.0, -2.0, 3.0], stop_gradient=False)
    slope(x)
    assert doubled(x).stop_gradient
    values: list[paddle.Tensor] = list(x)
    assert len(values) == 3 and x[0].astype("int64").item() == 1
    largest, where = paddle.topk(x, 2)
    assert largest.shape == [2] and where.numpy().tolist() == [2, 0]
    assert symbolic().shape == (-1,)


if __name__ == "__main__":
    main()
