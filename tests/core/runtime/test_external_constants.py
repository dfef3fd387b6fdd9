"""Constants in external files are read from beside the model, wherever the process stands."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as paddle
from onnxgrad.core.runtime import session as opening
from onnxgrad.core.runtime.places import CPUPlace


@pytest.fixture
def quantised(tmp_path):
    """A file whose int8 weight lies in quantised.data"""
    folder = tmp_path / "model"
    folder.mkdir()
    weight = np.arange(-64, 64, dtype=np.int8).reshape(32, 4)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["real"]),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    initializers = [
        numpy_helper.from_array(weight, "w"),
        numpy_helper.from_array(np.float32(0.5), "scale"),
        numpy_helper.from_array(np.int8(3), "zero"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 32), ("y", 4)))
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="quantised.data", size_threshold=16)
    return folder / "model.onnx", (weight.astype(np.float32) - 3) * 0.5


@pytest.fixture(params=["in the message", "apart"], autouse=True)
def constants(request, monkeypatch):
    if request.param == "apart":
        monkeypatch.setattr(opening, "_LARGE_CONSTANTS", 0)
        monkeypatch.setattr(opening, "_LARGE", 16)


def test_from_another_folder(quantised, tmp_path, monkeypatch):
    path, real = quantised
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(paddle.Executor().run(paddle.from_onnx(path), {}, ["real"])[0], real)


def test_a_file_of_that_name_elsewhere_is_not_read(quantised, tmp_path, monkeypatch):
    path, real = quantised
    (tmp_path / "quantised.data").write_bytes(bytes(4096))
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    program = paddle.from_onnx(path)
    y = program.find("y")
    for v in program.inputs:
        v.stop_gradient = False
    (gx,) = paddle.gradients([y], program.inputs)
    found, gradient = paddle.Executor().run(program, {"x": x}, [y, gx])
    np.testing.assert_allclose(found, x @ real, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, np.tile(real.sum(1), (3, 1)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("large", [False, True])
def test_large_constants_are_not_in_the_message(large, monkeypatch):
    monkeypatch.setattr(opening, "_LARGE_CONSTANTS", 100 if large else 10**6)
    monkeypatch.setattr(opening, "_LARGE", 16)
    sizes = []
    session = onnxruntime.InferenceSession

    def note(message, options, **further):
        sizes.append(len(message))
        return session(message, options, **further)

    monkeypatch.setattr(onnxruntime, "InferenceSession", note)
    table = np.arange(4000, dtype=np.float32)
    x = paddle.static.data("x", [1])
    y = x * paddle.to_tensor(table)
    assert paddle.static.Executor().run(feed={"x": np.full(1, 2, np.float32)}, fetch_list=[y])[0].tolist() == (table * 2).tolist()
    assert (sizes[0] < 4000) == large


TRAINING = """
import resource, sys
import numpy as np
import onnxgrad as og
held = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[2]), -1))
program = og.from_onnx(sys.argv[1])
x, scale = program.inputs[0], next(p for p in program.parameters if p.name == "scale")
og.append_backward(program.outputs[0], [scale])
found = og.Executor(threads=1).run(program, {"rows": np.array([0, 2**20 + 1])}, [program.outputs[0], scale.grad_name])
assert found[0] == 42 and found[1].tolist() == [7] + [0] * 1279, found
"""


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on anonymous memory is Linux's")
@pytest.mark.parametrize("constants", ["apart"], indirect=True)
def test_a_step_over_two_and_a_half_gigabytes_of_constants_holds_them_once(tmp_path):
    table = TensorProto(name="table", data_type=TensorProto.INT8, dims=[2**21, 1280], data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="table.bin")
    nodes = [
        helper.make_node("Gather", ["table", "rows"], ["found"]),
        helper.make_node("Cast", ["found"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "scale"], ["scaled"]),
        helper.make_node("ReduceSum", ["scaled"], ["y"], keepdims=0),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.INT64, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "g", [rows], [y], [table, numpy_helper.from_array(np.full(1280, 6, np.float32), "scale")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    try:
        with (tmp_path / "table.bin").open("wb") as file:
            file.truncate(2**21 * 1280)
            file.write(b"\3")
            file.seek((2**20 + 1) * 1280)
            file.write(b"\4")
        subprocess.run([sys.executable, "-c", TRAINING, tmp_path / "m.onnx", str(2**21 * 1280 + 2 * 10**8)], check=True)
    finally:
        (tmp_path / "table.bin").unlink()


@pytest.mark.parametrize("memory", ["auto", "low"])
def test_state_of_a_file_is_read_from_its_pages_and_trained_beside_them(tmp_path, memory, monkeypatch):
    rng = np.random.default_rng(1)
    values = {name: rng.normal(size=(6, 6)).astype("f4") for name in ("table", "w")}
    nodes = [helper.make_node("Gather", ["table", "i"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])]
    i = helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 6])
    graph = helper.make_graph(nodes, "g", [i], [y], [numpy_helper.from_array(value, name) for name, value in values.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "inline.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=16)
    content = (tmp_path / "m.data").read_bytes()
    copied = []
    copy = CPUPlace.value
    monkeypatch.setattr(CPUPlace, "value", lambda place, array: copied.append(array.shape) or copy(place, array))

    def trained(name):
        program = paddle.from_onnx(tmp_path / name)
        program.find("table").stop_gradient = True
        loss = paddle.mean(paddle.square(program.find("y")))
        paddle.optimizer.SGD(0.1).minimize(loss)
        executor = paddle.static.Executor(memory=memory)
        feed = {"i": np.array([0, 2, 5])}
        losses = [executor.run(program, feed, [loss])[0].item() for _ in range(3)]
        return losses, program.find("w").get_value()

    losses, weight = trained("m.onnx")
    assert (6, 6) not in copied
    expected, expected_weight = trained("inline.onnx")
    assert losses == expected and losses[2] < losses[0]
    np.testing.assert_array_equal(weight, expected_weight)
    assert (tmp_path / "m.data").read_bytes() == content
