"""Explanations of decisions: saliency, integrated gradients and Grad-CAM against their formulas, and the commands that show them."""

import io
import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser, save

from onnxgrad import from_onnx
from onnxgrad.attribution import grad_cam, integrated_gradients, saliency, token_table
from onnxgrad.cli.main import main
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, UnknownName
from tests.browser import open_page  # noqa: F401


def classifier(end="Softmax", dtype=TensorProto.DOUBLE, channels=3, size=8):
    """Two convolutions, mean over the maps, a linear layer of 4 classes."""
    rng = np.random.default_rng(0)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    arrays = {"a": (5, channels, 3, 3), "b": (6, 5, 3, 3), "w": (6, 4)}
    weights = [numpy_helper.from_array(rng.normal(0, 0.5, shape).astype(kind), name) for name, shape in arrays.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["h"], pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["h"], ["s"]),
        helper.make_node("Conv", ["s", "b"], ["m"]),
        helper.make_node("Relu", ["m"], ["maps"]),
        helper.make_node("GlobalAveragePool", ["maps"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["scores"]),
        helper.make_node(end, ["scores"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", dtype, ["N", channels, size, size])
    y = helper.make_tensor_value_info("y", dtype, ["N", 4])
    graph = helper.make_graph(nodes, "classifier", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def images(count=3, seed=1):
    return {"x": np.random.default_rng(seed).normal(0, 1, (count, 3, 8, 8))}


def scores(feeds, name="scores"):
    return Executor().run(from_onnx(classifier()), feeds, [name])[0]


class TestMethods:
    def test_saliency_is_the_slope_of_the_score_before_softmax(self):
        feeds = images()
        found = saliency(classifier(), feeds, "x")
        assert found.labels == scores(feeds).argmax(1).tolist()
        np.testing.assert_allclose(found.scores, scores(feeds).max(1), rtol=1e-10)
        moved = {"x": feeds["x"].copy()}
        for at in [(0, 1, 3, 4), (2, 0, 0, 7)]:
            ends = []
            for step in (1e-5, -1e-5):
                moved["x"][at] = feeds["x"][at] + step
                ends.append(scores(moved)[at[0], found.labels[at[0]]])
            moved["x"][at] = feeds["x"][at]
            np.testing.assert_allclose(found.values[at], abs(ends[0] - ends[1]) / 2e-5, rtol=1e-5)

    @pytest.mark.parametrize("about", ["x", "s", "maps"])
    def test_integrated_gradients_add_up_to_the_change_of_the_score(self, about):
        feeds = images()
        found = integrated_gradients(classifier(), feeds, about, steps=200)
        at_zero = {"x": np.zeros_like(feeds["x"])} if about == "x" else None
        # From s or maps on, all zeros give the score 0: the layers behind them have no bias.
        without = scores(at_zero) if at_zero else np.zeros((3, 4))
        changes = [scores(feeds)[i, k] - without[i, k] for i, k in enumerate(found.labels)]
        np.testing.assert_allclose(found.values.reshape(3, -1).sum(1), changes, rtol=2e-3)
        assert found.gap <= 2e-3 and found.values.shape == (feeds["x"].shape if about == "x" else scores(feeds, about).shape)

    def test_smooth_models_need_few_steps(self):
        model = parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> f (double[N, 3] x) => (double[N, 1] y) '
            "{ a = Tanh(x)  b = Exp(a)  y = ReduceProd <axes = [1]> (b) }"
        )
        x = np.array([[0.3, -1.0, 2.0]])
        found = integrated_gradients(model, {"x": x}, "x", baseline=[[0.1, 0.2, 0.3]], steps=16)
        f = lambda x: np.exp(np.tanh(x).sum())  # noqa: E731
        np.testing.assert_allclose(found.values.sum(), f(x) - f(np.array([0.1, 0.2, 0.3])), rtol=1e-9)
        assert found.gap < 1e-9

    def test_what_does_not_matter_gets_nothing(self):
        model = parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 0, 0}> { y = MatMul(x, w) }'
        )
        found = integrated_gradients(model, {"x": np.array([[3.0, 5.0]], np.float32)}, "x")
        np.testing.assert_allclose(found.values, [[6.0, 0.0]], rtol=1e-6)
        assert found.labels == [1]

    def test_grad_cam_follows_its_formula(self):
        feeds = images()
        found = grad_cam(classifier(), feeds, label=2)
        maps, w = scores(feeds, "maps"), numpy_helper.to_array(classifier().graph.initializer[2])
        weights = np.broadcast_to(w[:, 2] / maps[0, 0].size, (3, 6))  # of the mean, the gradient is the same everywhere
        np.testing.assert_allclose(found.values, np.maximum(np.einsum("nc,nchw->nhw", weights, maps), 0), rtol=1e-9)
        assert found.of == "maps" and found.labels == [2, 2, 2]
        assert grad_cam(classifier(), feeds, layer="s").values.shape == (3, 8, 8)

    def test_the_model_is_not_changed(self):
        program = from_onnx(classifier())
        before = str(program)
        grad_cam(program, images())
        integrated_gradients(program, images(), "s", steps=2)
        assert str(program) == before

    def test_one_step_of_a_sequence_is_explained(self):
        model = parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> f (float[N, T, 2] x) => (float[N, T, 2] logits) { logits = Mul(x, x) }'
        )
        x = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
        np.testing.assert_array_equal(saliency(model, {"x": x}, "x").values, [[[0, 0], [0, 0], [0, 10]]])
        np.testing.assert_array_equal(saliency(model, {"x": x}, "x", position=0, label=0).values, np.zeros((1, 3, 2)))

    def test_variables_are_taken_as_their_names_are(self):
        program, other = from_onnx(classifier()), from_onnx(classifier())
        by_name = saliency(program, images(), "x", output="y")
        by_variable = saliency(program, images(), program.find("x"), output=program.find("y"))
        np.testing.assert_array_equal(by_variable.values, by_name.values)
        assert by_variable.of == "x"
        maps = grad_cam(program, images(), layer=program.find("maps"), output=program.find("y"))
        np.testing.assert_array_equal(maps.values, grad_cam(program, images(), layer="maps").values)
        assert maps.of == "maps"
        for wrong in ({"about": other.find("x")}, {"about": "x", "output": other.find("y")}):
            with pytest.raises(UnknownName, match="is of another program"):
                saliency(program, images(), **wrong)
        with pytest.raises(UnknownName, match="layer: the variable 'maps' is of another program"):
            grad_cam(program, images(), layer=other.find("maps"))

    def test_errors_name_what_is_wrong(self):
        with pytest.raises(ArgumentError, match="has the classes 0 to 3, not 4"):
            saliency(classifier(), images(), "x", label=4)
        with pytest.raises(UnknownName, match="nothing called 'z'"):
            saliency(classifier(), images(), "z")
        with pytest.raises(ArgumentError, match="no convolution with maps"):
            grad_cam(
                parser.parse_model('<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { y = Exp(x) }'),
                {"x": np.ones(1, "f")},
            )
        with pytest.raises(ArgumentError, match="at least 1 step"):
            integrated_gradients(classifier(), images(), "x", steps=0)


@pytest.fixture
def told(capsys):
    """Runs a command; its standard output, or for another exit code what it complains about"""

    def run(*arguments, code=0):
        assert main([str(a) for a in arguments]) == code
        out, err = capsys.readouterr()
        return err if code else out

    return run


class TestImages:
    @pytest.fixture
    def files(self, tmp_path):
        image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: no picture was explained")
        save(classifier(dtype=TensorProto.FLOAT, size=16), tmp_path / "m.onnx")
        pixels = np.random.default_rng(3).integers(0, 255, (20, 24, 3)).astype(np.uint8)
        image.fromarray(pixels).save(tmp_path / "p.png")
        return tmp_path

    def test_the_overlay_holds_the_picture_and_a_panel_for_each_method(self, files, told):
        from PIL import Image

        said = json.loads(told("explain-image", files / "m.onnx", files / "p.png", "-o", files / "o.png", "--class", "1", "--json"))
        assert said["class"] == 1 and said["methods"] == ["grad-cam", "integrated", "saliency"] and said["completeness_gap"] < 0.2
        with Image.open(files / "o.png") as picture:
            pixels = np.asarray(picture)
        assert pixels.shape == (224, 4 * 224 + 3 * 4, 3)
        with Image.open(files / "p.png") as picture:
            small = np.asarray(picture.resize((16, 16), 2))
        np.testing.assert_array_equal(pixels[:224:14, :224:14], small)
        panels = [pixels[:, i * 228 : i * 228 + 224] for i in range(1, 4)]
        assert all(panel.std() > 5 for panel in panels) and (panels[0] != panels[2]).any()

    def test_bright_places_are_those_of_the_gradient(self, files, told):
        """A model that reads one pixel."""
        from PIL import Image

        model = classifier(dtype=TensorProto.FLOAT, size=16)
        pick = np.zeros((3 * 256, 4), np.float32)
        pick[3 * 16 + 5] = 1
        del model.graph.node[:]
        del model.graph.initializer[:]
        model.graph.initializer.append(numpy_helper.from_array(pick, "w"))
        model.graph.node.extend([helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])])
        save(model, files / "one.onnx")
        told("explain-image", files / "one.onnx", files / "p.png", "--method", "saliency", "-o", files / "one.png")
        with Image.open(files / "one.png") as picture:
            panel = np.asarray(picture)[::14, 228::14].astype(int)
        warm = panel[..., 0] - panel[..., 2]
        assert np.unravel_index(warm.argmax(), warm.shape) == (3, 5)

    def test_what_is_no_picture_is_refused(self, files, told):
        assert "cannot read the image" in told("explain-image", files / "m.onnx", files / "m.onnx", code=1)
        assert "has the classes 0 to 3, not 9" in told("explain-image", files / "m.onnx", files / "p.png", "--class", "9", code=2)


class TestTexts:
    @pytest.fixture
    def files(self, tmp_path):
        tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: no text was explained")
        words = {"[UNK]": 0, "good": 1, "bad": 2, "film": 3, "<b>": 4}
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        made.save(str(tmp_path / "tokenizer.json"))
        table = np.array([[0, 0], [2, 0], [-3, 0], [0, 1], [0, 0]], np.float32)
        weights = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([[-1, 1], [0, 0]], np.float32), "w")]
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
            helper.make_node("ReduceSum", ["vectors", "axis"], ["bag"], keepdims=0),
            helper.make_node("MatMul", ["bag", "w"], ["s"]),
            helper.make_node("Softmax", ["s"], ["y"]),
        ]
        weights.append(numpy_helper.from_array(np.array([1]), "axis"))
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["N", "S"])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])
        graph = helper.make_graph(nodes, "bag", [ids], [y], weights)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
        return tmp_path

    def test_each_token_gets_what_it_adds(self, files, told):
        text = [files / "m.onnx", "good film bad good", "--tokenizer", files / "tokenizer.json"]
        found = json.loads(told("explain-text", *text, "--class", "1", "--json"))
        assert [entry["token"] for entry in found["tokens"]] == ["good", "film", "bad", "good"]
        np.testing.assert_allclose([entry["adds"] for entry in found["tokens"]], [2, 0, -3, 2], atol=1e-5)
        assert found["score"] == pytest.approx(1.0) and found["completeness_gap"] < 1e-5
        said = told("explain-text", *text)
        assert "class 1, score 1" in said and "  bad" in said

    def test_the_page_shows_tokens_as_text(self, open_page, files, told):  # noqa: F811
        told("explain-text", files / "m.onnx", "good <b> film", "--tokenizer", files / "tokenizer.json", "-o", files / "t.html")
        with open_page(files / "t.html") as page:
            assert page.locator("p span").all_inner_texts() == ["good", "<b>", "film"]

    def test_the_table_is_found_or_asked_for(self, files):
        assert token_table(from_onnx(files / "m.onnx")) == "vectors"
        with pytest.raises(ArgumentError, match="no table of vectors"):
            token_table(from_onnx(classifier()))


class TestDoctor:
    def test_it_names_versions_and_works(self, told):
        import onnxruntime

        found = json.loads(told("doctor", "--json"))
        assert found["packages"]["onnxruntime"] == onnxruntime.__version__ and "CPUExecutionProvider" in found["providers"]
        assert [row["error"] for row in found["self_test"]] == ["", ""]
        assert found["extras"]["training"]["missing"] == []

    def test_what_fails_is_said(self, told, monkeypatch):
        from onnxgrad.cli import doctor

        def broken():
            raise RuntimeError("no such kernel")

        monkeypatch.setitem(doctor._TESTS, "training and export", broken)
        monkeypatch.setattr(doctor, "find_spec", lambda name: None)
        assert main(["doctor"]) == 1
        told_now = io.StringIO()
        from contextlib import redirect_stdout

        with redirect_stdout(told_now):
            assert main(["doctor"]) == 1
        said = told_now.getvalue()
        assert "training and export: FAILED: RuntimeError: no such kernel" in said
        assert "no tokenizers, jinja2; pip install 'onnxgrad[text]'" in said


def test_check_says_what_it_took_for_dynamic_dimensions(tmp_path, told):
    save(classifier(dtype=TensorProto.FLOAT), tmp_path / "m.onnx")
    said = told("check", tmp_path / "m.onnx", "--wrt", "w")
    assert "dynamic dimensions were taken as N=2 (--dim NAME=SIZE, or --feeds)" in said and said.splitlines()[-2].endswith(
        ": right"
    )
    assert "taken as" not in told("check", tmp_path / "m.onnx", "--wrt", "w", "--dim", "N=1")
