"""Errors of Paddle, caught by their classes."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

KINDS = (AssertionError, AttributeError, FileNotFoundError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
ones = paddle.ones
w = paddle.create_parameter([1], "float32")
x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)


def attempt(name, kind, function):
    try:
        function()
        print(name, "passed")
    except KINDS as error:
        print(name, isinstance(error, kind))


attempt("no file", ValueError, lambda: paddle.load("nothing.pdparams"))
attempt("no file name", ValueError, lambda: paddle.save({"a": 1}, "folder/"))
attempt("a layer saved", ValueError, lambda: paddle.save(nn.Linear(1, 1), "net.pdparams"))
attempt("a label too large", IndexError, lambda: nn.CrossEntropyLoss()(ones([2, 3]), paddle.to_tensor([1, 4])).numpy())
attempt("a mask too short", IndexError, lambda: ones([2])[[True]])
attempt("text as an index", ValueError, lambda: ones([2])["a"])
attempt("half an index", ValueError, lambda: ones([2])[1.5])
attempt("an axis expanded", ValueError, lambda: ones([2]).expand([1]))
attempt("a condition of numbers", ValueError, lambda: paddle.where(ones([1]), ones([1]), ones([1])))
attempt("shapes of a loss", ValueError, lambda: nn.BCELoss()(ones([2]), ones([1])))
attempt("weights of prelu", AssertionError, lambda: nn.PReLU(3)(ones([1, 2, 2])))
attempt("rows of eye", TypeError, lambda: paddle.eye(-1))
attempt("backward by a number", AssertionError, lambda: x.sum().backward(3))
attempt("unused by a number", AssertionError, lambda: paddle.grad(x.sum(), [x], allow_unused=1))
attempt("a gradient by a number", ValueError, lambda: setattr(x, "grad", 3))
attempt("stop_gradient by a text", TypeError, lambda: setattr(x, "stop_gradient", "a"))
attempt("numbers and texts", ValueError, lambda: paddle.to_tensor([1, "a"]))
attempt("a period of 0", AssertionError, lambda: paddle.optimizer.lr.CosineAnnealingDecay(0.1, 0))
attempt("no batch", AssertionError, lambda: paddle.io.BatchSampler([1, 2], batch_size=0))
attempt("workers below 0", AssertionError, lambda: paddle.io.DataLoader([1, 2], num_workers=-1))
attempt("rows of another number", AssertionError, lambda: paddle.io.TensorDataset([ones([2]), ones([3])]))
attempt("an empty size", ValueError, lambda: paddle.summary(nn.Linear(2, 2), (0, 2)))
attempt("another place", ValueError, lambda: paddle.to_tensor([1], place="nowhere"))
attempt("no place", ValueError, lambda: paddle.static.Executor(3))
attempt("a size below 0", AssertionError, lambda: nn.Linear(-2, 3))
attempt("axes of einsum", AssertionError, lambda: paddle.einsum("ij", ones([2])))
attempt("dots of einsum", AssertionError, lambda: paddle.einsum("i..j", ones([2])))
attempt("in place of a leaf", ValueError, lambda: x.add_(ones([2])))
