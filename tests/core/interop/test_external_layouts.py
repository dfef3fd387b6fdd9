"""External data as exporters lay it out, and weights that a save leaves in their files."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnxgrad as og
from onnxgrad.core.interop import model_file
from onnxgrad.errors import ArgumentError, ExternalDataError

DRAW = np.random.default_rng(0)
WEIGHTS = {"a.weight": DRAW.normal(size=(3, 5)).astype(np.float32), "b/bias": DRAW.normal(size=(5,)).astype(np.float32)}
ONE = dict.fromkeys(WEIGHTS, "m.onnx.data")
OWN = {"a.weight": "a.weight", "b/bias": "onnx__MatMul_1"}
BELOW = {"a.weight": "weights/a.bin", "b/bias": "./weights/layer 2/b.bin"}

LAYOUTS = {
    "one file": (ONE, {}, 1),
    "one file, at pages": (ONE, {}, 4096),
    "one file, at odd places": (ONE, {}, 7),
    "one file for each": (OWN, {}, 1),
    "one file for each, in folders": (BELOW, {}, 1),
    "no length": (ONE, {"length": None}, 1),
    "no length, no offset": (OWN, {"length": None, "offset": None}, 1),
    "no offset": (OWN, {"offset": None}, 1),
    "a checksum": (ONE, {"checksum": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, 1),
}


def written(folder, files, fields, alignment):
    """A model y = x a + b whose weights lie in these files."""
    tensors = []
    for name, array in WEIGHTS.items():
        path = folder / files[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else (b"#" * alignment if alignment > 1 else b"")
        before += b"#" * (-len(before) % alignment)
        path.write_bytes(before + array.tobytes())
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape, data_location=TensorProto.EXTERNAL)
        places = {"location": files[name], "offset": str(len(before)), "length": str(array.nbytes), **fields}
        for key, text in places.items():
            if text is not None:
                tensor.external_data.add(key=key, value=text)
        tensors.append(tensor)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n]) for name, n in (("x", 3), ("y", 5)))
    graph = helper.make_graph([helper.make_node("Gemm", ["x", *WEIGHTS], ["y"])], "g", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def weights_of(path):
    return {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def places_of(path):
    raw = onnx.load(path, load_external_data=False)
    return {t.name: {e.key: e.value for e in t.external_data} for t in raw.graph.initializer}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read_and_packed(layout, tmp_path):
    program = og.from_onnx(written(tmp_path, *LAYOUTS[layout]))
    for p in program.parameters:
        np.testing.assert_array_equal(p.get_value(), WEIGHTS[p.name])
    x = np.ones((2, 3), np.float32)
    (y,) = og.Executor().run(program, {"x": x}, ["y"])
    np.testing.assert_allclose(y, x @ WEIGHTS["a.weight"] + WEIGHTS["b/bias"], rtol=1e-6)
    other = tmp_path / "other"
    other.mkdir()
    og.save_onnx(program, other / "n.onnx")
    for name, array in weights_of(other / "n.onnx").items():
        np.testing.assert_array_equal(array, WEIGHTS[name])
    # Each is copied alone, also where its length is not given and others follow.
    assert {name: int(place["length"]) for name, place in places_of(other / "n.onnx").items()} == {
        name: array.nbytes for name, array in WEIGHTS.items()
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_that_ends_too_early_is_seen_when_the_model_is_read(layout, tmp_path):
    files, fields, alignment = LAYOUTS[layout]
    path = written(tmp_path, files, fields, alignment)
    data = (tmp_path / files["b/bias"]).read_bytes()
    (tmp_path / files["b/bias"]).write_bytes(data[:-1])
    with pytest.raises(ExternalDataError, match="too short"):
        og.from_onnx(path)


class TestKeep:
    def trained(self, path):
        """A program whose bias has another value, and which has run, so that its weights lie in the runtime's memory."""
        program = og.from_onnx(path)
        program.set_state_dict({"b/bias": np.full(5, 2, np.float32)})
        og.Executor().run(program, {"x": np.ones((2, 3), np.float32)}, ["y"])
        return program

    @pytest.mark.parametrize("external_data", [None, "keep"])
    def test_weights_that_nothing_has_changed_stay_in_their_file(self, external_data, tmp_path):
        path = written(tmp_path, *LAYOUTS["one file for each"])
        og.save_onnx(self.trained(path), tmp_path / "n.onnx", external_data=external_data)
        places = places_of(tmp_path / "n.onnx")
        assert places["a.weight"]["location"] == "a.weight" and places["b/bias"] == {}
        found = weights_of(tmp_path / "n.onnx")
        np.testing.assert_array_equal(found["a.weight"], WEIGHTS["a.weight"])
        np.testing.assert_array_equal(found["b/bias"], np.full(5, 2))

    def test_weights_that_were_trained_do_not(self, tmp_path):
        program = og.from_onnx(written(tmp_path, *LAYOUTS["one file for each"]))
        (y,) = program.outputs
        loss = og.mean(y * y)
        og.optimizer.SGD(0.1).minimize(loss, parameters=["a.weight"])
        executor = og.Executor()
        for _ in range(3):
            executor.run(program, {"x": np.ones((2, 3), np.float32)}, [loss])
        og.save_onnx(program, tmp_path / "n.onnx", ["y"], external_data="keep")
        places = places_of(tmp_path / "n.onnx")
        assert places["a.weight"] == {} and places["b/bias"]["location"] == OWN["b/bias"]
        np.testing.assert_array_equal(
            weights_of(tmp_path / "n.onnx")["a.weight"], program.global_block().var("a.weight").get_value()
        )
        assert not np.array_equal(weights_of(tmp_path / "n.onnx")["a.weight"], WEIGHTS["a.weight"])

    def test_from_the_folder_above(self, tmp_path):
        (tmp_path / "base").mkdir()
        path = written(tmp_path / "base", *LAYOUTS["one file for each, in folders"])
        og.save_onnx(self.trained(path), tmp_path / "n.onnx", external_data="keep")
        assert places_of(tmp_path / "n.onnx")["a.weight"]["location"] == "base/weights/a.bin"
        assert sorted(f.name for f in tmp_path.iterdir()) == ["base", "n.onnx"]
        np.testing.assert_array_equal(weights_of(tmp_path / "n.onnx")["a.weight"], WEIGHTS["a.weight"])

    def test_a_folder_that_cannot_refer_to_them_is_refused(self, tmp_path):
        (tmp_path / "base").mkdir()
        (tmp_path / "other").mkdir()
        program = self.trained(written(tmp_path / "base", *LAYOUTS["one file"]))
        with pytest.raises(ExternalDataError, match=r"'a.weight' cannot be left in .* Save the model in"):
            og.save_onnx(program, tmp_path / "other" / "n.onnx", external_data="keep")
        assert list((tmp_path / "other").iterdir()) == []

    @pytest.mark.parametrize(("name", "stays"), [("n.onnx", True), ("m.onnx", False)])
    def test_beside_a_file_for_new_values(self, name, stays, tmp_path, monkeypatch):
        """What is above 2 GB goes to a file of its own; where that takes the place of the file kept, everything goes there."""
        monkeypatch.setattr(model_file, "_LARGEST_MESSAGE", 10)
        monkeypatch.setattr(model_file, "_EXTERNAL_THRESHOLD", 1)
        program = self.trained(written(tmp_path, *LAYOUTS["one file"]))
        og.save_onnx(program, tmp_path / name, external_data="keep")
        places = places_of(tmp_path / name)
        assert places["b/bias"]["location"] == f"{name}.data"
        assert places["a.weight"]["location"] == "m.onnx.data"
        assert ((tmp_path / "m.onnx.data").stat().st_size == sum(array.nbytes for array in WEIGHTS.values())) == stays
        found = weights_of(tmp_path / name)
        np.testing.assert_array_equal(found["a.weight"], WEIGHTS["a.weight"])
        np.testing.assert_array_equal(found["b/bias"], np.full(5, 2))

    def test_another_word_is_refused(self, tmp_path):
        with pytest.raises(ArgumentError, match="external_data is 'keep' or None, not 'pack'"):
            og.save_onnx(og.from_onnx(written(tmp_path, *LAYOUTS["one file"])), tmp_path / "n.onnx", external_data="pack")
