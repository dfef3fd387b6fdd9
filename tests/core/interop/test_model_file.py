"""Files written tensor by tensor: the same messages as onnx writes, whatever their size, without the weights in memory."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as og
from onnxgrad.core.interop import model_file


def sums(tensors, nodes=()):
    """A model whose output is the sum of x and the greatest element of each tensor of numbers."""
    numbers = [t.name for t in tensors if t.data_type != TensorProto.STRING]
    made = [
        node
        for name in numbers
        for node in (
            helper.make_node("Cast", [name], [f"{name}.c"], to=TensorProto.FLOAT),
            helper.make_node("Reshape", [f"{name}.c", "flat"], [f"{name}.r"]),
            helper.make_node("ReduceMax", [f"{name}.r"], [f"{name}.m"], keepdims=1),
        )
    ]
    total = helper.make_node("Sum", ["x", *(f"{name}.m" for name in numbers)], ["y"])
    helpers = [numpy_helper.from_array(np.array([-1]), "flat")]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([*nodes, *made, total], "g", [x], [y], initializer=[*tensors, *helpers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def tensors_of_all_kinds():
    rng = np.random.default_rng(0)
    arrays = {
        "float": rng.normal(size=(700,)).astype(np.float32),
        "half": rng.normal(size=(3, 5)).astype(np.float16),
        "brain": rng.normal(size=(700,)).astype(ml_dtypes.bfloat16),
        "scalar": np.float32(3.5).reshape(()),
        "empty": np.zeros((0, 4), np.float32),
        "flags": np.array([True, False, True]),
        "nibbles": np.array([1, -2, 3], ml_dtypes.int4),
        "many nibbles": rng.integers(-8, 8, 3001).astype(ml_dtypes.int4),
    }
    found = [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()]
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [300], np.arange(300.0))
    return [*found, typed, helper.make_tensor("text", TensorProto.STRING, [2], [b"a" * 2000, b"b"])]


def loaded(model):
    return {t.name: numpy_helper.to_array(t).tolist() for t in model.graph.initializer}


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 2**21, 2**35 + 5])
def test_lengths_are_written_as_protocol_buffers_do(size):
    # An int64 attribute is written in the same form.
    expected = onnx.AttributeProto(i=size).SerializeToString()[1:]
    assert model_file._number(size) == (expected or b"\0")


def test_an_untouched_model_is_written_as_it_was(tmp_path):
    model = sums(tensors_of_all_kinds()[:-1])
    og.save_onnx(og.from_onnx(model), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == og.to_onnx(og.from_onnx(model))
    assert [f.name for f in tmp_path.iterdir()] == ["m.onnx"]


def test_new_values_are_written(tmp_path):
    program = og.from_onnx(sums(tensors_of_all_kinds()[:-1]))
    values = {p.name: np.full(p.shape, 2.5, p.dtype.numpy) for p in program.parameters}
    program.set_state_dict(values)
    og.save_onnx(program, tmp_path / "m.onnx")
    written = loaded(onnx.load(tmp_path / "m.onnx"))
    assert values.keys() <= written.keys() and len(values) >= 3
    for name, value in values.items():
        assert written[name] == value.tolist()
    assert onnx.load(tmp_path / "m.onnx") == og.to_onnx(program)


def test_what_no_message_holds_goes_to_a_file_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "_LARGEST_MESSAGE", 3000)
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.arange(400), "k"))
    use = helper.make_node("Identity", ["k"], ["unused"])
    model = sums(tensors_of_all_kinds(), [constant, use])
    model.graph.output.append(helper.make_tensor_value_info("unused", TensorProto.INT64, [400]))
    og.save_onnx(og.from_onnx(model), tmp_path / "m.onnx")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    raw = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    places = [*raw.graph.initializer, *(a.t for n in raw.graph.node for a in n.attribute if n.op_type == "Constant")]
    outside = {t.name for t in places if t.data_location == TensorProto.EXTERNAL}
    assert outside == {"float", "brain", "many nibbles", "typed", "k"}
    offsets = [int(e.value) for t in places for e in t.external_data if e.key == "offset"]
    assert all(offset % 4096 == 0 for offset in offsets)
    assert loaded(onnx.load(tmp_path / "m.onnx")) == loaded(model)
    again = og.from_onnx(tmp_path / "m.onnx")
    other = tmp_path / "other"
    other.mkdir()
    og.save_onnx(again, other / "n.onnx")
    assert loaded(onnx.load(other / "n.onnx")) == loaded(model)
    og.save_onnx(again, tmp_path / "m.onnx")  # over the file that it is read from
    assert loaded(onnx.load(tmp_path / "m.onnx")) == loaded(model)


def test_a_failure_leaves_both_files_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "_LARGEST_MESSAGE", 3000)
    program = og.from_onnx(sums(tensors_of_all_kinds()[:1] + tensors_of_all_kinds()[-2:-1]))
    og.save_onnx(program, tmp_path / "m.onnx")
    before = {f.name: f.read_bytes() for f in tmp_path.iterdir()}

    def fail(*args):
        raise OSError(28, "No space left on device")

    program.set_state_dict({p.name: np.zeros(p.shape, np.float32) for p in program.parameters})
    monkeypatch.setattr(model_file, "_stream", fail)
    with pytest.raises(og.errors.FileError, match="No space left"):
        og.save_onnx(program, tmp_path / "m.onnx")
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np, onnx
import onnxgrad as og
folder = Path(sys.argv[1])
held = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[2]), -1))
program = og.from_onnx(folder / "m.onnx")
name = next((p.name for p in program.parameters), None)
if name is not None:
    program.set_state_dict({name: np.full([2**17, 2**10], 7, np.float32)})
out = folder / "out"
out.mkdir()
og.save_onnx(program, out / "n.onnx")
"""


def large_file(folder, data_type, count, size, dims):
    """A model of ``count`` tensors of ``size`` bytes each, in a file with holes."""
    tensors = [TensorProto(name=f"w{i}", data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL) for i in range(count)]
    for i, t in enumerate(tensors):
        for key, value in (("location", "w.bin"), ("offset", i * size), ("length", size)):
            t.external_data.add(key=key, value=str(value))
    (folder / "m.onnx").write_bytes(sums(tensors).SerializeToString())
    with (folder / "w.bin").open("wb") as file:
        file.truncate(count * size)
        for i in range(count):
            file.seek(i * size + size - 4)
            file.write(np.float32(i + 1).tobytes())


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on anonymous memory is Linux's")
@pytest.mark.parametrize(("data_type", "dims"), [(TensorProto.FLOAT, [2**17, 2**10]), (TensorProto.INT4, [2**20, 2**10])])
def test_saving_five_tensors_of_half_a_gigabyte_takes_memory_for_one(data_type, dims, tmp_path):
    try:
        check_large(data_type, dims, tmp_path)
    finally:
        for file in [*tmp_path.glob("**/*.bin"), *tmp_path.glob("**/*.data")]:
            file.unlink()


def check_large(data_type, dims, tmp_path):
    size = 2**29
    large_file(tmp_path, data_type, 5, size, dims)
    # One tensor that is written, one new value where there are weights, and 100 MB for everything else.
    limit = size * (2 if data_type == TensorProto.FLOAT else 1) + 10**8
    subprocess.run([sys.executable, "-c", LIMITED, tmp_path, str(limit)], check=True)
    onnx.checker.check_model(tmp_path / "out" / "n.onnx")
    raw = onnx.load(tmp_path / "out" / "n.onnx", load_external_data=False)
    with (tmp_path / "out" / "n.onnx.data").open("rb") as file:
        for i, t in enumerate(t for t in raw.graph.initializer if t.name.startswith("w")):
            entries = {e.key: e.value for e in t.external_data}
            assert int(entries["length"]) == size
            file.seek(int(entries["offset"]) + size - 4)
            expected = 7 if data_type == TensorProto.FLOAT and i == 0 else i + 1
            assert np.frombuffer(file.read(4), np.float32) == expected
