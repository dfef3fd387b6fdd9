"""from_onnx followed by to_onnx changes nothing."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad
from tests.real_models import ALL, REFUSED_BY_ONNXRUNTIME, RealModel


def run(model: onnx.ModelProto, feed: dict) -> list:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {v.name: feed[v.name] for v in session.get_inputs()})


def passes_checker(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def as_fields(message) -> str:
    """Text of a message without fields that are present but empty, which mean the same as absent ones."""
    lines = str(message).splitlines()
    return "\n".join(line for line in lines if not line.strip().endswith(': ""') and not line.strip().endswith("model_version: 0"))


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_written_model_equals_the_one_loaded(folder):
    original = onnx.load(folder / "model.onnx")
    written = onnxgrad.to_onnx(onnxgrad.from_onnx(folder / "model.onnx"))
    assert as_fields(written) == as_fields(original)


@pytest.mark.parametrize("folder", [f for f in ALL if f.name not in REFUSED_BY_ONNXRUNTIME], ids=lambda folder: folder.name)
def test_written_model_computes_the_same_bits(folder):
    original = onnx.load(folder / "model.onnx")
    written = onnxgrad.to_onnx(onnxgrad.from_onnx(folder / "model.onnx"))
    if passes_checker(original):
        assert passes_checker(written)
    feed = RealModel(folder).feed
    for before, after in zip(run(original, feed), run(written, feed), strict=True):
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(after, before)
        else:
            assert after == before


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_every_trained_parameter_of_the_source_is_found(folder):
    model = RealModel(folder)
    found = {p.name for p in onnxgrad.from_onnx(model.path).all_parameters()}
    assert set(model.meta.get("params", {})) <= found
    assert not set(model.meta.get("buffers", {})) & found or folder.name.startswith("qwen3")  # its inv_freq feeds a MatMul


def test_functions_metadata_and_documentation_survive():
    text = """<ir_version: 9, opset_import: ["": 18, "local": 1], producer_name: "me", doc_string: "about",
        metadata_props: ["key": "value"]>
        g (float[N, 2] x) => (float[N, 2] y) { y = local.twice (x) }
        <domain: "local", opset_import: ["": 18]> twice (a) => (b) { b = Add (a, a) }"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].doc_string = "the only node"
    written = onnxgrad.to_onnx(onnxgrad.from_onnx(model))
    assert written.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)


def test_overridable_initializers_stay_inputs():
    text = (
        '<ir_version: 3, opset_import: ["": 7]> g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }'
    )
    model = onnx.parser.parse_model(text)
    program = onnxgrad.from_onnx(model)
    assert [v.name for v in program.inputs] == ["x"]
    assert [v.name for v in onnxgrad.to_onnx(program).graph.input] == ["x", "w"]


def test_changed_weight_is_written(tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul (x, w) }'
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    program.all_parameters()[0].set_value(np.full((2, 2), 5.0, np.float32))
    onnxgrad.save_onnx(program, tmp_path / "m.onnx")
    again = onnxgrad.from_onnx(tmp_path / "m.onnx")
    np.testing.assert_array_equal(again.all_parameters()[0].get_value(), np.full((2, 2), 5.0))


def test_outputs_prune_the_model():
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x, float[2] z) => (float[2] y) { a = Exp (x) b = Sin (z) y = Add (a, b) }'
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    pruned = onnxgrad.to_onnx(program, ["a"])
    assert [node.op_type for node in pruned.graph.node] == ["Exp"]
    assert [v.name for v in pruned.graph.input] == ["x"]


def test_python_program_needs_outputs():
    x = onnxgrad.static.data("x", [2])
    with pytest.raises(onnxgrad.errors.ArgumentError, match="outputs="):
        onnxgrad.to_onnx(x.block.program)


def test_unknown_output_is_named():
    x = onnxgrad.static.data("x", [2])
    with pytest.raises(onnxgrad.errors.FetchError, match="nowhere"):
        onnxgrad.to_onnx(x.block.program, ["nowhere"])


class TestExternalData:
    @staticmethod
    def write(folder, location="weights.bin", size=None):
        weights = np.arange(6, dtype=np.float32).reshape(2, 3)
        tensor = onnx.numpy_helper.from_array(weights, "w")
        data = tensor.raw_data[:size]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", str(len(data)))):
            tensor.external_data.add(key=key, value=value)
        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [info("x", 1, ["N", 2])], [info("y", 1, ["N", 3])], [tensor]
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        if ".." not in location:
            (folder / location).write_bytes(data)
        return weights

    def test_is_read_when_looked_at(self, tmp_path):
        weights = self.write(tmp_path)
        program = onnxgrad.from_onnx(tmp_path / "m.onnx")
        np.testing.assert_array_equal(program.all_parameters()[0].get_value(), weights)

    def test_stays_by_reference_beside_the_model(self, tmp_path):
        self.write(tmp_path)
        onnxgrad.save_onnx(onnxgrad.from_onnx(tmp_path / "m.onnx"), tmp_path / "again.onnx")
        again = onnx.load(tmp_path / "again.onnx", load_external_data=False)
        assert again.graph.initializer[0].external_data[0].value == "weights.bin"

    def test_is_packed_into_another_folder(self, tmp_path):
        weights = self.write(tmp_path)
        other = tmp_path / "other"
        other.mkdir()
        onnxgrad.save_onnx(onnxgrad.from_onnx(tmp_path / "m.onnx"), other / "n.onnx")
        (result,) = onnxruntime.InferenceSession(other / "n.onnx").run(None, {"x": np.eye(2, dtype=np.float32)})
        np.testing.assert_array_equal(result, weights)

    def test_outside_the_folder_is_refused(self, tmp_path):
        self.write(tmp_path, location="../weights.bin")
        with pytest.raises(onnxgrad.errors.ExternalDataError, match="outside"):
            onnxgrad.from_onnx(tmp_path / "m.onnx")

    def test_short_file_is_refused(self, tmp_path):
        self.write(tmp_path, size=8)
        with pytest.raises(onnxgrad.errors.ExternalDataError, match="too short"):
            onnxgrad.from_onnx(tmp_path / "m.onnx")

    def test_missing_file_is_refused(self, tmp_path):
        self.write(tmp_path)
        (tmp_path / "weights.bin").unlink()
        with pytest.raises(onnxgrad.errors.ExternalDataError, match="missing"):
            onnxgrad.from_onnx(tmp_path / "m.onnx")

    def test_needs_a_path(self, tmp_path):
        self.write(tmp_path)
        with pytest.raises(onnxgrad.errors.ExternalDataError, match="by its path"):
            onnxgrad.from_onnx((tmp_path / "m.onnx").read_bytes())


class TestBadFiles:
    def test_truncated(self, tmp_path):
        data = (ALL[0] / "model.onnx").read_bytes()
        (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
        with pytest.raises(onnxgrad.errors.ModelError, match=r"cut\.onnx"):
            onnxgrad.from_onnx(tmp_path / "cut.onnx")

    def test_not_onnx(self, tmp_path):
        (tmp_path / "text.onnx").write_text("hello, this is no model")
        with pytest.raises(onnxgrad.errors.ModelError):
            onnxgrad.from_onnx(tmp_path / "text.onnx")

    def test_empty(self):
        with pytest.raises(onnxgrad.errors.ModelError, match="no ONNX graph"):
            onnxgrad.from_onnx(b"")

    def test_absent(self, tmp_path):
        with pytest.raises(onnxgrad.errors.ModelError, match="no file"):
            onnxgrad.from_onnx(tmp_path / "absent.onnx")

    def test_name_used_twice(self):
        info = onnx.helper.make_tensor_value_info
        nodes = [onnx.helper.make_node(kind, ["x"], ["y"]) for kind in ("Exp", "Sin")]
        graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, [2])], [info("y", 1, [2])])
        with pytest.raises(onnxgrad.errors.ModelError, match="'y' is defined twice"):
            onnxgrad.from_onnx(onnx.helper.make_model(graph, ir_version=8))

    def test_wrong_argument(self):
        with pytest.raises(TypeError, match="int"):
            onnxgrad.from_onnx(3)


class TestParameterChoice:
    TEXT = """<ir_version: 9, opset_import: ["": 18]> g (float[N, 2] x) => (float[N, 2] y)
        <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, float two = {2}, float[1] slope = {0.1}, float low = {0}, float ls = {0.5}>
        { a = Gemm (x, w, b) p = PRelu (a, slope) q = Pow (p, two) e = Exp (ls) r = Mul (q, e) y = Clip (r, low) }"""

    def load(self, **options):
        return onnxgrad.from_onnx(onnx.parser.parse_model(self.TEXT), **options)

    def names(self, program):
        return [p.name for p in program.all_parameters()]

    def test_by_use(self):
        assert self.names(self.load()) == ["w", "b", "slope", "ls"]

    def test_explained(self):
        explanation = onnxgrad.explain_parameters(self.load())
        assert "two: constant: configures Pow input 1" in explanation
        assert "w: weight: weight of Gemm input 1" in explanation

    def test_by_name(self):
        assert self.names(self.load(parameters=["two"])) == ["two"]

    def test_by_pattern(self):
        assert self.names(self.load(parameters="l*")) == ["low", "ls"]

    def test_by_predicate(self):
        assert self.names(self.load(parameters=lambda v: v.name == "b")) == ["b"]

    def test_unknown_name_is_refused(self):
        with pytest.raises(onnxgrad.errors.UnknownName, match="absent"):
            self.load(parameters=["absent"])


def test_weights_in_constant_nodes_and_branches_train():
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[N, 2] x, bool c) => (float y) {
        k = Constant <value = float[2, 2] {1, 2, 3, 4}> ()
        h = MatMul (x, k)
        z = If (c) <
            then_branch = t () => (float[N, 2] u) { m = Constant <value = float[2] {5, 6}> () u = Mul (h, m) },
            else_branch = e () => (float[N, 2] v) { m = Constant <value = float[2] {7, 8}> () v = Add (h, m) }
        >
        y = ReduceSum <keepdims = 0> (z) }"""
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    pairs = dict(zip(("k", "then", "else"), onnxgrad.append_backward(program.outputs[0]), strict=True))
    x = np.array([[1.0, 2.0]], np.float32)
    fetch = [pairs[name][1] for name in ("k", "then", "else")]
    executor = onnxgrad.Executor()
    k, then, other = executor.run(program, {"x": x, "c": np.array(True)}, fetch)
    np.testing.assert_allclose(k, x.T @ np.array([[5.0, 6.0]]))
    np.testing.assert_allclose(then, [7.0, 10.0])
    np.testing.assert_allclose(other, [0.0, 0.0])
    assert all(g.block is program.global_block() and g.name == f"{p.name}@GRAD" for p, g in pairs.values())
