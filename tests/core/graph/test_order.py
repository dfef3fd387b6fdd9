"""order_for_memory: the order of the file that onnxruntime turns into the order of the program."""

import itertools
import json

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.order import order_for_memory, order_of_run, peak_of_run
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.operator import Role

LAYERS = 12


def chain(optimizer=None, clip=None):
    """A deep network; its graph of a step, and the program."""
    x = static.data("x", [4, 8])
    h = x
    for i in range(LAYERS):
        h = paddle.tanh(static.nn.fc(h, 8, name=f"layer{i}"))
    loss = paddle.mean(h)
    if optimizer is None:
        pairs = static.append_backward(loss)
        fetches = [loss, *(g for _, g in pairs)]
    else:
        optimizer(0.1, grad_clip=clip).minimize(loss)
        fetches = [loss]
    return compile(loss.block.program, fetches, state_as_inputs=True)


def names_in_running_order(graph, tmp_path, optimises=True):
    """Names of the nodes in the order in which onnxruntime starts them"""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix, options.log_severity_level = True, str(tmp_path / "run"), 3
    if not optimises:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {v.name: np.zeros([d if isinstance(d, int) else 1 for d in v.dims], v.dtype.numpy) for v in graph.inputs})
    with open(session.end_profiling()) as file:
        events = json.load(file)
    return [e["name"].removesuffix("_kernel_time") for e in events if e["name"].endswith("_kernel_time")]


CASES = {
    "gradients fetched": (None, None),
    "SGD": (paddle.optimizer.SGD, None),
    "Adam": (paddle.optimizer.Adam, None),
    "clipped": (paddle.optimizer.SGD, paddle.nn.ClipGradByGlobalNorm(1.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_weights_get_their_gradient_layer_by_layer(case, tmp_path):
    graph = chain(*CASES[case])
    graph.operators = order_for_memory(graph.operators)
    order = names_in_running_order(graph, tmp_path)
    at = [order.index(f"layer{i}.w_0@GRAD") for i in range(LAYERS)]
    assert at == sorted(at, reverse=True)
    # Between two layers' weight gradients there is the gradient of one layer's activation, not those of many.
    assert max(a - b for a, b in itertools.pairwise(at)) < 2 * len(order) / LAYERS


def test_the_order_can_be_run_and_nothing_is_lost():
    graph = chain(paddle.optimizer.Adam)
    ordered = order_for_memory(graph.operators)
    assert sorted(map(id, ordered)) == sorted(map(id, graph.operators))
    made = {*graph.inputs, *graph.initializers}
    for op in ordered:
        assert all(v in made for v in op.operands() if v is not None)
        made.update(v for v in op.outputs if v is not None)


def test_graphs_without_a_backward_pass_keep_their_order():
    graph = chain()
    forward = [op for op in graph.operators if op.role is Role.FORWARD]
    assert order_for_memory(forward) is forward


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_a_run_is_known(case, tmp_path):
    graph = chain(*CASES[case])
    graph.operators = order_for_memory(graph.operators)
    maker = {v: i for i, op in enumerate(graph.operators) for v in op.outputs if v is not None}
    reads = [{maker[v] for v in op.operands() if v in maker} for op in graph.operators]
    names = [op.name or f"{op.type}_{i}" for i, op in enumerate(graph.operators)]
    assert [names[i] for i in order_of_run(reads)] == names_in_running_order(graph, tmp_path, optimises=False)


def test_the_peak_counts_what_is_alive():
    x = static.data("x", [10])
    a = paddle.tanh(x)
    b = paddle.tanh(a)
    c = paddle.tanh(b) + a
    graph = compile(x.block.program, [c])
    assert peak_of_run(graph.operators) == 3 * 40
    y = paddle.tanh(static.data("y", [None, 2]))
    assert peak_of_run(compile(y.block.program, [y]).operators) is None
