"""Mistakes in the building of static graphs, each of which a type checker finds on its line."""

import numpy as np

import onnxgrad as paddle
from onnxgrad import static

program = static.Program()
x = static.data("x", [None, 3, 8, 8], "float32")
executor = static.Executor()

static.nn.conv2d(x, num_filters=4, filter_size=3, filters=2)  # error
static.nn.conv2d(x, num_filters="4", filter_size=3)  # error
static.nn.conv3d(x, filter_size=3)  # error
static.nn.conv2d_transpose(x, 4, filtersize=3)  # error
static.nn.fc(x, "4")  # error
static.nn.fcc(x, 4)  # error
static.nn.cond(x, lambda: x, 3)  # error
branch: int = static.nn.cond(x, lambda: x, lambda: x * 2)  # error
static.nn.case([(x, 3)])  # error
static.create_parameter([2], "float33")  # error
static.create_parameter(2, "float32")  # error
static.InputSpec([None], "flot32")  # error
static.exectutor()  # error
static.append_backward(x, parameters=[x])  # error
static.program_guard("main")  # error
program.outputs = 3  # error
program.outptus()  # error
executor.run(program, feeds={"x": np.ones(3)})  # error
executor.rnu(program)  # error
static.save_inference_model("m", ["x"], [x], executor)  # error
loaded: list[int] = static.load_inference_model("m")  # error
paddle.incubate.identity_loss(x, "men")  # error
paddle.device.is_compiled_with_xpuu()  # error
paddle.fft.fftshift("x")  # error
