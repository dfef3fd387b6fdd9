"""The record of the data: what a run found is what its file, its folder and every later command take, and what is contradicted is said."""

import csv
import json
from dataclasses import fields

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import DataError, ModelError
from onnxgrad.training import Images, Table, Trainer
from onnxgrad.training.data.kinds import KINDS
from onnxgrad.training.data.record import KEY, DataRecord, record_of
from onnxgrad.training.evaluation import predicted
from tests.cli.command import command

pytest.importorskip("pyarrow")
Image = pytest.importorskip("PIL.Image")

REGRESSION = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 3] x) => (float[N, 1] y)
    <float[3, 1] w = {0, 0, 0}, float[1] b = {0}> { y = Gemm(x, w, b) }"""


def write_table(path, names=("a", "b", "c"), count=120, seed=0, target="price", cell=None):
    rng = np.random.default_rng(seed)
    x = dict(zip("abc", rng.normal(0, 1, (3, count)), strict=True))
    y = 3 * x["a"] - 2 * x["b"] + 0.5 * x["c"]
    rows = [[*(f"{x[name[0]][i]:.6f}" for name in names), f"{y[i]:.6f}"] for i in range(count)]
    if cell is not None:
        rows[cell[0]][cell[1]] = cell[2]
    path.write_text("\n".join(",".join(row) for row in [[*names, target], *rows]) + "\n")
    return y


@pytest.fixture
def regression(tmp_path):
    """The folder of a run on a table, whose answers are good"""
    onnx.save(parse_model(REGRESSION), tmp_path / "m.onnx")
    write_table(tmp_path / "t.csv")
    what = ["--data", tmp_path / "t.csv", "--loss", "mse", "--target", "price", "--lr", "0.1", "--epochs", "30"]
    command("train", tmp_path / "m.onnx", *what, "--metric", "r2", "--val", "0.2", "--out", tmp_path / "run")
    command("export", tmp_path / "run", "--inference", tmp_path / "out.onnx")
    return tmp_path


def judged(model, data, *more):
    return json.loads(command("evaluate", model, "--data", data, *more, "--json"))


class TestColumnsGoByName:
    """Wrong 1: the same table with its columns in another order was another table."""

    def test_a_run_and_its_file_know_the_columns(self, regression):
        y = write_table(regression / "other.csv", names=("c", "b", "a"))
        assert judged(regression / "run", regression / "other.csv")["r2"] > 0.99
        of_file = ["--loss", "mse", "--target", "price", "--metric", "r2"]
        assert judged(regression / "out.onnx", regression / "other.csv", *of_file)["r2"] > 0.99
        for model in ("run", "out.onnx"):
            command("predict", regression / model, "--data", regression / "other.csv", "--out", regression / "said.csv")
            said = [float(row["y"]) for row in csv.DictReader((regression / "said.csv").read_text().splitlines())]
            np.testing.assert_allclose(said, y, atol=0.3)

    def test_validation_and_training_on_the_file_take_them_too(self, regression):
        write_table(regression / "other.csv", names=("b", "c", "a"), seed=1)
        what = ["--loss", "mse", "--target", "price", "--lr", "0", "--epochs", "1", "--val", regression / "other.csv"]
        for model, data in (("out.onnx", "t.csv"), ("out.onnx", "other.csv")):
            said = command("train", regression / model, "--data", regression / data, *what, "--out", regression / f"{model}.{data}")
            assert float(said.split("val_loss ")[1].split()[0]) < 0.1

    def test_other_columns_are_an_error_with_both_and_an_option_overrules(self, regression):
        write_table(regression / "other.csv", names=("a1", "b1", "c1"))
        error = command("predict", regression / "run", "--data", regression / "other.csv", "--out", regression / "o.csv", code=1)
        assert "has no column 'a'" in error and "'a', 'b', 'c'" in error and "'a1', 'b1', 'c1', 'price'" in error
        assert judged(regression / "run", regression / "other.csv", "--columns", "x=a1,b1,c1")["r2"] > 0.99

    def test_arrays_in_place_of_the_table(self, regression):
        trainer = Trainer(regression / "out.onnx", loss="mse", target="price")
        assert trainer.record.columns["x"].parts == ("a", "b", "c")
        trainer.predict({"x": np.zeros((2, 3), "f4")})


def picture_net(order=None):
    """A classifier of the mean colour; with an order, with the statistics of pictures of that order"""
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 8, 8] x) => (float[N, 2] y)
        <float[2, 3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, float[2] b = {0, 0}> { START
        m = GlobalAveragePool(c)  r = Flatten(m)  y = Gemm<transB = 1>(r, w, b) }"""
    return parse_model(text.replace("START", "c = Identity(x)"))


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    for name, channel in (("red", 0), ("blue", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(8):
            pixels = rng.integers(0, 100, (9, 8, 3), np.uint8)
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    onnx.save(picture_net(), tmp_path / "m.onnx")
    return tmp_path


def trained(pictures, *more):
    what = ["--data", pictures / "photos", "--loss", "cross_entropy", "--lr", "0.1", "--epochs", "10", "--metric", "accuracy"]
    said = command("train", pictures / "m.onnx", *what, *more, "--out", pictures / "run")
    command("export", pictures / "run", "--inference", pictures / "out.onnx")
    return said


def answers(model, data, out, *more):
    command("predict", model, "--data", data, "--out", out, *more)
    return np.load(out)["y"]


class TestPictures:
    """Wrongs 2 and 3: values and colour order were guessed anew from the pictures at hand, and lost in the export."""

    def test_answers_do_not_depend_on_the_neighbours(self, pictures, tmp_path):
        # Statistics that BGR of these pictures fits, and RGB of pictures with the colours exchanged.
        net = parse_model("""<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 8, 8] x) => (float[N, 2] y)
            <float[3] g = {1, 1, 1}, float[3] h = {0, 0, 0}, float[3] m0 = {0, 0, 0}, float[3] v0 = {1, 1, 1},
             float[2, 3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, float[2] b = {0, 0}> {
            c = BatchNormalization(x, g, h, m0, v0)  m = GlobalAveragePool(c)  r = Flatten(m)  y = Gemm<transB = 1>(r, w, b) }""")
        rng = np.random.default_rng(1)
        for name, shift in (("a", 0), ("b", 10)):
            (tmp_path / "orange" / name).mkdir(parents=True)
            for i in range(8):
                pixels = np.clip(rng.normal([200 - shift, 110, 30 + shift], 20, (8, 8, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / "orange" / name / f"{i}.png")
        stack = np.stack([np.asarray(Image.open(f)) for f in sorted((tmp_path / "orange").rglob("*.png"))]) / 255.0
        for tensor, value in (("m0", stack.mean((0, 1, 2))[::-1]), ("v0", stack.var((0, 1, 2))[::-1])):
            entry = next(t for t in net.graph.initializer if t.name == tensor)
            entry.CopyFrom(numpy_helper.from_array(value.astype("f4"), tensor))
        onnx.save(net, tmp_path / "m.onnx")
        what = ["--data", tmp_path / "orange", "--loss", "cross_entropy", "--epochs", "1", "--batch-norm", "frozen", "--explain"]
        assert "BGR" in command("train", tmp_path / "m.onnx", *what, "--out", tmp_path / "run")
        command("export", tmp_path / "run", "--inference", tmp_path / "out.onnx")
        (tmp_path / "mixed").mkdir()
        (tmp_path / "alone").mkdir()
        first = next((tmp_path / "orange" / "a").iterdir())
        for folder in ("mixed", "alone"):
            (tmp_path / folder / "0.png").write_bytes(first.read_bytes())
        for i in range(12):
            pixels = np.clip(rng.normal([30, 110, 200], 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "mixed" / f"b{i}.png")
        for model in ("run", "out.onnx"):
            alone, mixed = (answers(tmp_path / model, tmp_path / f, tmp_path / "s.npz")[0] for f in ("alone", "mixed"))
            np.testing.assert_allclose(alone, mixed, rtol=1e-5)

    def test_values_that_are_given_travel_in_the_export(self, pictures):
        trained(pictures, "--image-mean", "0.3", "0.4", "0.5", "--image-std", "0.2", "--image-order", "bgr")
        photos, out = pictures / "photos" / "red", pictures / "said.npz"
        of_run, of_file = (answers(pictures / model, photos, out) for model in ("run", "out.onnx"))
        np.testing.assert_allclose(of_file, of_run, rtol=1e-5, atol=1e-5)
        other = answers(pictures / "out.onnx", photos, out, "--image-mean", "0.1", "--image-std", "0.2")
        more = ["--out", out, "--image-mean", "0.1", "--image-std", "0.2"]
        said = command("predict", pictures / "out.onnx", "--data", photos, *more)
        assert "as the model was trained, except the given mean" in said
        assert np.abs(other - of_run).max() > 0.1

    def test_explained_as_trained(self, pictures):
        trained(pictures, "--image-mean", "0.3", "--image-std", "0.2", "--image-order", "bgr")
        said = command(
            "explain-image",
            pictures / "out.onnx",
            pictures / "photos" / "red" / "0.png",
            "-o",
            pictures / "e.png",
            "--json",
            "--method",
            "saliency",
        )
        facts = json.loads(said)
        assert "BGR" in facts["image"] and "mean 0.3 0.3 0.3" in facts["image"] and "as the model was trained" in facts["image"]
        expected = answers(pictures / "run", pictures / "photos" / "red", pictures / "s.npz")[0].max()
        assert facts["score"] == pytest.approx(expected, rel=1e-4) and facts["class_name"] == "red"

    def test_names_of_classes_travel_in_the_export(self, pictures):
        trained(pictures)
        said = command("predict", pictures / "out.onnx", "--data", pictures / "photos" / "red", "--out", pictures / "s.csv")
        rows = list(csv.DictReader((pictures / "s.csv").read_text().splitlines()))
        assert {row["y.class"] for row in rows} == {"red"}
        assert "note: images enter 'x' as CHW, RGB, 8 x 8" in said

    def test_another_class_is_an_error(self, pictures):
        trained(pictures)
        (pictures / "photos" / "red").rename(pictures / "photos" / "green")
        of_file = ["--loss", "cross_entropy"]
        for model, more in (("run", ()), ("out.onnx", of_file)):
            error = command("evaluate", pictures / model, "--data", pictures / "photos", *more, code=1)
            assert "'green'" in error and "blue, red" in error

    def test_a_new_head_has_classes_of_its_own(self, pictures):
        trained(pictures)
        (pictures / "photos" / "red").rename(pictures / "photos" / "green")
        what = ["--data", pictures / "photos", "--loss", "cross_entropy", "--epochs", "1", "--head", "2", "--explain"]
        said = command("train", pictures / "out.onnx", *what, "--out", pictures / "second")
        assert "classes of 'target': blue = 0, green = 1" in said and "as the model was trained" in said


class TestDepths:
    """Wrong 4: pictures of more than 8 bits became white, transparent ones showed what they hide."""

    def prepared(self, folder, pixels, name="0.png", mode=None, **given):
        (folder / "p").mkdir(exist_ok=True)
        image = pixels if hasattr(pixels, "save") else Image.fromarray(pixels, mode)
        image.save(folder / "p" / name)
        given = {"mean": [0.0], "std": [1.0], **given}
        net = parse_model(
            '<ir_version: 8, opset_import: ["": 17]> f (float[N, 1, 4, 4] x) => (float[N, 1, 4, 4] y) { y = Identity(x) }'
        )
        return predicted(og.Executor(), og.from_onnx(net), Images(folder / "p", **given), 4)["y"]

    def test_16_bits(self, tmp_path):
        pixels = (np.arange(16).reshape(4, 4) * 4096).astype(np.uint16)
        np.testing.assert_allclose(self.prepared(tmp_path, pixels)[0, 0], pixels / 65535, atol=1e-6)

    def test_12_bits_whose_white_is_given(self, tmp_path):
        pixels = (np.arange(16).reshape(4, 4) * 256).astype(np.uint16)
        np.testing.assert_allclose(self.prepared(tmp_path, pixels, white=4095)[0, 0], pixels / 4095, atol=1e-6)
        with pytest.raises(DataError, match="holds the value 3840, and white is 255"):
            self.prepared(tmp_path, pixels, white=255)

    @pytest.mark.parametrize("top", [1.0, 255.0, 65535.0])
    def test_floats(self, tmp_path, top):
        pixels = (np.linspace(0.1, 1, 16).reshape(4, 4) * top).astype(np.float32)
        np.testing.assert_allclose(self.prepared(tmp_path, pixels, "0.tiff")[0, 0], pixels / top, atol=1e-6)

    def test_32_bit_integers(self, tmp_path):
        pixels = (np.arange(16).reshape(4, 4) * 4000).astype(np.int32)
        np.testing.assert_allclose(self.prepared(tmp_path, pixels, "0.tiff")[0, 0], pixels / 65535, atol=1e-6)

    def test_transparent_pictures_lie_on_white(self, tmp_path):
        pixels = np.zeros((4, 4, 4), np.uint8)
        pixels[:2, :, 3] = 255
        found = self.prepared(tmp_path, pixels)[0, 0]
        assert (found[:2] == 0).all() and (found[2:] == 1).all()
        grey = np.zeros((4, 4, 2), np.uint8)
        assert (self.prepared(tmp_path, grey, mode="LA")[0, 0] == 1).all()

    def test_white_of_training_is_that_of_all_pictures(self, pictures):
        for file in (pictures / "photos").rglob("*.png"):
            values = np.asarray(Image.open(file).convert("L"), np.float32) / 255
            Image.fromarray(values).save(file.with_suffix(".tiff"))
            file.unlink()
        net = Trainer(pictures / "m.onnx", loss="cross_entropy")
        net.fit(pictures / "photos", 1)
        assert net.record.columns["x"].white == 1.0
        Image.fromarray(np.full((8, 8), 200, np.float32)).save(pictures / "photos" / "red" / "z.tiff")
        with pytest.raises(DataError, match=r"z.tiff holds the value 200, and white is 1"):
            net.evaluate(pictures / "photos")


class TestBadCells:
    """Wrong 5: one cell that is no number made an alphabet of all."""

    @pytest.mark.parametrize("cell", ["n/a", "120 €", "?", "cheap"])
    def test_a_bad_cell_of_a_regression_is_named(self, tmp_path, cell):
        write_table(tmp_path / "t.csv", cell=(41, 3, cell))
        with pytest.raises(DataError, match=rf"t\.csv, row 42, column 'price' holds '{cell}'".replace("?", r"\?")):
            Trainer(parse_model(REGRESSION), loss="mse", target="price").open(tmp_path / "t.csv")

    def test_grouped_numbers_are_numbers(self, tmp_path):
        y = write_table(tmp_path / "t.csv", cell=(41, 3, '"1,250.00"'))
        source, _ = Trainer(parse_model(REGRESSION), loss="mse", target="price").open(tmp_path / "t.csv")
        assert source.column("price")[41] == 1250.0 and source.column("price")[40] == pytest.approx(y[40], abs=1e-5)

    @pytest.mark.parametrize("cell", ["n/a", "x"])
    def test_a_bad_cell_among_numbers_of_classes_is_named(self, tmp_path, cell):
        rows = [f"{i},{i},{i},{i % 2}" for i in range(50)]
        rows[30] = f"1,2,3,{cell}"
        (tmp_path / "t.csv").write_text("\n".join(["a,b,c,target", *rows]))
        net = REGRESSION.replace("float[N, 1] y", "float[N, 2] y").replace("[3, 1] w = {0", "[3, 2] w = {0, 0, 0, 0")
        trainer = Trainer(parse_model(net.replace("float[1] b = {0}", "float[2] b = {0, 0}")), loss="cross_entropy")
        with pytest.raises(DataError, match=rf"row 31, column 'target' holds '{cell}'"):
            trainer.open(tmp_path / "t.csv")

    def test_a_unit_is_that_of_training(self, tmp_path):
        write_table(tmp_path / "t.csv", target="price [EUR]")
        write_table(tmp_path / "v.csv", target="price [USD]")
        trainer = Trainer(parse_model(REGRESSION), loss="mse", target="price")
        trainer.fit(tmp_path / "t.csv", 1)
        assert trainer.record.columns["price"].unit == "EUR"
        with pytest.raises(DataError, match=r"EUR.*USD"):
            trainer.evaluate(tmp_path / "v.csv")


class TestRecord:
    def test_it_is_the_same_in_the_run_and_the_file(self, regression):
        in_folder = DataRecord.parsed((regression / "run" / "data.json").read_text(), "data.json")
        in_file = record_of(og.from_onnx(regression / "out.onnx"))
        assert in_folder == in_file and in_file.columns["x"].parts == ("a", "b", "c")

    def test_info_shows_it(self, regression):
        said = command("info", regression / "out.onnx")
        assert "data    x: number (parts a b c)" in said and "data    price: number (parts price)" in said
        facts = json.loads(command("info", regression / "run", "--json"))
        assert facts["data"]["x"] == {"kind": "number", "parts": ["a", "b", "c"]}
        model = onnx.load(regression / "out.onnx")
        next(entry for entry in model.metadata_props if entry.key == KEY).value = "{"
        onnx.save(model, regression / "bad.onnx")
        assert "a damaged record" in command("info", regression / "bad.onnx")

    def test_it_is_written_with_the_first_step(self, tmp_path):
        write_table(tmp_path / "t.csv")
        trainer = Trainer(parse_model(REGRESSION), loss="mse", target="price")
        seen = []
        trainer.fit(
            tmp_path / "t.csv",
            1,
            out=tmp_path / "run",
            callbacks=[Seen(lambda: seen.append((tmp_path / "run/data.json").is_file()))],
        )
        assert seen and seen[0]

    def test_a_resumed_run_takes_it(self, tmp_path):
        write_table(tmp_path / "t.csv")
        make = lambda: Trainer(parse_model(REGRESSION), loss="mse", target="price")  # noqa: E731
        make().fit(Table(tmp_path / "t.csv", columns={"x": ["c", "a", "b"]}), 1, out=tmp_path / "run")
        resumed = make()
        resumed.fit(tmp_path / "t.csv", total_epochs=2, out=tmp_path / "run", resume=True)
        assert resumed.record.columns["x"].parts == ("c", "a", "b")

    def test_a_loaded_checkpoint_brings_that_of_its_run(self, regression):
        trainer = Trainer(regression / "m.onnx", loss="mse", target="price", optimizer="adamw", learning_rate=0.1)
        trainer.load(regression / "run" / "best.safetensors")
        write_table(regression / "other.csv", names=("c", "b", "a"))
        assert trainer.evaluate(regression / "other.csv")["loss"] < 0.1

    def test_runs_of_older_versions_noted_their_classes_among_the_settings(self, pictures):
        trained(pictures)
        (pictures / "run" / "data.json").unlink()
        settings = json.loads((pictures / "run" / "settings.json").read_text())
        (pictures / "run" / "settings.json").write_text(json.dumps({**settings, "classes": {"target": ["red", "blue"]}}))
        command("predict", pictures / "run", "--data", pictures / "photos" / "red", "--out", pictures / "s.csv")
        assert {row["y.class"] for row in csv.DictReader((pictures / "s.csv").read_text().splitlines())} == {"blue"}

    def test_it_can_be_ignored(self, regression):
        write_table(regression / "other.csv", names=("c", "b", "a"))
        assert judged(regression / "run", regression / "other.csv", "--ignore-record")["r2"] < 0.9

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[" * 100_000,
            "[]",
            '{"columns": 3}',
            '{"columns": {"x": 3}}',
            '{"columns": {"x": {"kind": "odour"}}}',
            '{"columns": {"x": {"kind": []}}}',
            '{"columns": {"x": {"kind": "number", "parts": [3]}}}',
            '{"columns": {"x": {"kind": "number", "smell": 3}}}',
            '{"columns": {"x": {"kind": "number", "decimals": []}}}',
            '{"columns": {"x": {"kind": "picture", "size": [0, 3]}}}',
            '{"columns": {"x": {"kind": "picture", "size": [8, 1e99]}}}',
            '{"columns": {"x": {"kind": "picture", "std": [0.0]}}}',
            '{"columns": {"x": {"kind": "picture", "mean": [NaN]}}}',
            '{"columns": {"x": {"kind": "picture", "order": "ABC"}}}',
            '{"columns": {"x": {"kind": "words", "classes": ["a", "a"]}}}',
            '{"columns": {"x": {"kind": "text", "length": -1}}}',
        ],
    )
    def test_a_damaged_one_is_refused(self, tmp_path, text):
        with pytest.raises(ModelError, match=r"record of the data in .* is damaged.*--ignore-record"):
            DataRecord.parsed(text, "m.onnx")

    def test_a_damaged_one_in_a_file_is_an_error_of_one_line(self, regression):
        model = onnx.load(regression / "out.onnx")
        next(entry for entry in model.metadata_props if entry.key == KEY).value = "{"
        onnx.save(model, regression / "bad.onnx")
        error = command("predict", regression / "bad.onnx", "--data", regression / "t.csv", "--out", regression / "o.csv", code=1)
        assert "damaged" in error and len(error.splitlines()) == 1
        command(
            "predict",
            regression / "bad.onnx",
            "--data",
            regression / "t.csv",
            "--out",
            regression / "o.csv",
            "--ignore-record",
            "--columns",
            "x=a,b,c",
        )

    def test_every_field_of_every_kind_is_checked(self):
        for kind in KINDS.values():
            assert {f.name for f in fields(kind)} - {"parts", *kind.unrecorded} == set(kind.checks)


class Seen:
    def __init__(self, look):
        self.look = look

    def on_step(self, trainer, row):
        self.look()


def test_a_model_that_is_quantised_before_training_takes_its_pictures_as_before(tmp_path):
    """Its BatchNormalization, by whose statistics values were guessed, is folded"""
    rng = np.random.default_rng(0)
    net = parse_model("""<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 8, 8] x) => (float[N, 2] y)
        <float[3] g = {1, 1, 1}, float[3] h = {0, 0, 0}, float[3] m0 = {0, 0, 0}, float[3] v0 = {1, 1, 1}, float[2] b = {0, 0}> {
        k = Conv<pads = [1, 1, 1, 1]>(x, f)  c = BatchNormalization(k, g, h, m0, v0)  r = Relu(c)  m = GlobalAveragePool(r)
        t = Flatten(m)  y = Gemm<transB = 1>(t, w, b) }""")
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(12):
            pixels = np.clip(rng.normal([170, 110, 60 + 60 * (name == "b")], 40, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    stack = np.stack([np.asarray(Image.open(file)) for file in sorted((tmp_path / "photos").rglob("*.png"))])
    feed = ((stack / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2).astype("f4")
    kernel = rng.normal(0, 0.3, (3, 3, 3, 3)).astype("f4")
    net.graph.initializer.append(numpy_helper.from_array(kernel, "f"))
    net.graph.initializer.append(numpy_helper.from_array(rng.normal(0, 1, (2, 3)).astype("f4"), "w"))
    (seen,) = og.Executor().run(og.from_onnx(net), {"x": feed}, ["k"])
    for name, value in (("m0", seen.mean(axis=(0, 2, 3))), ("v0", seen.var(axis=(0, 2, 3)))):
        next(t for t in net.graph.initializer if t.name == name).CopyFrom(numpy_helper.from_array(value.astype("f4"), name))
    onnx.save(net, tmp_path / "m.onnx")
    what = [
        "--data",
        tmp_path / "photos",
        "--val",
        "0.25",
        "--loss",
        "cross_entropy",
        "--epochs",
        "1",
        "--qat",
        "int8",
        "--explain",
    ]
    said = command("train", tmp_path / "m.onnx", *what, "--out", tmp_path / "run")
    assert "values from -1 to 1, as the model was trained" in said
    command("export", tmp_path / "run", "--inference", tmp_path / "out.onnx")
    for file in (tmp_path / "run" / "quantized.onnx", tmp_path / "out.onnx"):
        assert record_of(og.from_onnx(file)).columns["x"].mean == (0.5, 0.5, 0.5)
