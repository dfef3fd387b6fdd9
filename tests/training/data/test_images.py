"""Images from folders and tables: how the model wants them, classes, random changes, what is refused."""

import json

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Images, Trainer
from onnxgrad.training.data.images import is_image_table
from onnxgrad.training.data.preparing import preparation_of
from tests.training.small import assert_equal, weights

Image = pytest.importorskip("PIL.Image")


def net(start="c = Identity(x)", channels=3, dtype="float", size="8, 8", layout="N, {c}, {s}", extra=""):
    shape = layout.format(c=channels, s=size)
    return parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> f ({dtype}[{shape}] x) => (float[N, 2] y)
        <float[2, {channels}] w = {{{", ".join(str(0.1 * (i + 1)) for i in range(2 * channels))}}}, float[2] b = {{0, 0}} {extra}> {{
        {start}  m = GlobalAveragePool(c)  r = Flatten(m)  y = Gemm<transB = 1>(r, w, b) }}"""
    )


def net_of_statistics(pixels):
    """A model that normalises its images by the mean and variance of these, which are [n, h, w, c]"""
    found = net("c = BatchNormalization(x, g, h, m0, v0)")
    arrays = {"g": np.ones(3), "h": np.zeros(3), "m0": pixels.mean((0, 1, 2)), "v0": pixels.var((0, 1, 2))}
    for name, array in arrays.items():
        found.graph.initializer.append(numpy_helper.from_array(array.astype("f4"), name))
    return found


@pytest.fixture
def folder(tmp_path):
    """Red and blue images of several sizes and kinds."""
    rng = np.random.default_rng(0)
    for name, channel in (("red", 0), ("blue", 2)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(8):
            pixels = rng.integers(0, 100, (10 + i, 12, 3), np.uint8)
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{i}.{'png' if i % 2 else 'jpg'}")
    return tmp_path / "images"


class TestPreparation:
    def samples(self):
        return [Image.fromarray(np.random.default_rng(i).integers(0, 256, (9, 9, 3), np.uint8)) for i in range(6)]

    @pytest.mark.parametrize(
        ("start", "extra", "said"),
        [
            ("c = Mul(x, s)", ", float[1] s = {0.00392157}", "values from 0 to 255"),
            ("d = Sub(x, t)  c = Div(d, s)", ", float[1] t = {127.5}, float[1] s = {127.5}", "values from 0 to 255"),
            ("d = Sub(x, t)  c = Div(d, s)", ", float[1] t = {0.5}, float[1] s = {0.5}", "values from 0 to 1"),
            ("c = Identity(x)", "", "mean 0.485 0.456 0.406"),
        ],
    )
    def test_values_follow_from_the_beginning_of_the_graph(self, start, extra, said):
        _, how, line = preparation_of(og.from_onnx(net(start, extra=extra)), self.samples())
        assert said in how.values() and said in line

    def test_integers_are_bytes(self):
        name, how, line = preparation_of(og.from_onnx(net("c = Cast<to = 1>(x)", dtype="uint8")), self.samples())
        pixels = how.array(self.samples()[0])
        assert name == "x" and pixels.dtype == np.uint8 and pixels.max() > 200 and "bytes as they are" in line

    def test_layouts_sizes_and_grey(self):
        last = net("c = Transpose<perm = [0, 3, 1, 2]>(x)", layout="N, {s}, {c}", size="H, 6")
        _, how, _ = preparation_of(og.from_onnx(last), self.samples(), size=None)
        assert how.layout == "HWC" and how.size == (9, 6)
        _, how, line = preparation_of(og.from_onnx(net(channels=1)), self.samples())
        assert how.order == "L" and how.array(self.samples()[0]).shape == (1, 9, 9) and "grey, 8 x 8 (of the file)" in line

    def test_files_of_detectors_say_size_and_values(self):
        """imgsz and stride in the metadata, as YOLO's exports have them"""
        program = og.from_onnx(net(size="H, W"))
        two = [Image.new("RGB", (100, 50)), Image.new("RGB", (50, 50))]
        assert preparation_of(program, two[:1], fit="letterbox")[1].size == (64, 128)
        assert preparation_of(program, two, fit="letterbox")[1].size == (640, 640) and preparation_of(program, two)[1].size == (
            224,
            224,
        )
        program.metadata.update(imgsz="[320, 416]", stride="32")
        _, how, line = preparation_of(program, two, fit="letterbox")
        assert (
            preparation_of(program, two)[1].fit == "letterbox" and preparation_of(program, two, fit="stretch")[1].fit == "stretch"
        )
        assert (
            how.size == (320, 416)
            and "imgsz in the file" in line
            and "values from 0 to 1, as detectors like YOLO take them" in line
        )
        assert "scaled by one factor between grey bars (letterbox)" in line and how.around == 114
        with pytest.raises(ArgumentError, match=r"multiples of 32 \(stride in the file\), not 100 x 96"):
            preparation_of(program, two, size=(100, 96))

    @pytest.mark.parametrize(
        "mean, std, order", [((0.5,) * 3, (0.5,) * 3, "BGR"), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "RGB")]
    )
    def test_values_follow_from_the_statistics_of_the_file(self, mean, std, order):
        """The statistics are those of a convolution over images that were prepared in this way"""
        rng = np.random.default_rng(3)
        model = net("k = Conv<pads = [1, 1, 1, 1]>(x, f)  c = BatchNormalization(k, g, h, m0, v0)", channels=3)
        pixels = [np.clip(rng.normal([170, 110, 60], 40, (9, 9, 3)), 0, 255).astype(np.uint8) for _ in range(8)]
        samples = [Image.fromarray(p) for p in pixels]
        kernel = rng.normal(0, 0.3, (3, 3, 3, 3)).astype("f4")
        arrays = {"f": kernel, "g": np.ones(3, "f4"), "h": np.zeros(3, "f4"), "m0": np.zeros(3, "f4"), "v0": np.ones(3, "f4")}
        for name, array in arrays.items():
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        program = og.from_onnx(model)
        from onnxgrad.training.data.preparing import Preparation

        way = Preparation((8, 8), "CHW", order, mean, std)
        feed = np.stack([way.array(s.resize((8, 8), 2)) for s in samples])
        (found,) = og.Executor().run(program, {"x": feed}, ["k"])
        for name, value in (("m0", found.mean(axis=(0, 2, 3))), ("v0", found.var(axis=(0, 2, 3)))):
            entry = next(t for t in model.graph.initializer if t.name == name)
            entry.CopyFrom(numpy_helper.from_array(value.astype("f4"), name))
        _, how, line = preparation_of(og.from_onnx(model), samples)
        assert (how.order, how.mean) == (order, mean) and "fits the statistics in the file best" in line

    @pytest.mark.parametrize(("tint", "order"), [(0.0, "RGB"), (0.1, "RGB"), (1.0, "BGR")])
    def test_rgb_is_left_by_a_clear_margin_alone(self, tint, order):
        """Statistics of pictures in BGR; those at hand have the same colours, but for the tint they are grey"""
        rng = np.random.default_rng(0)
        pixels = np.clip(120 + tint * np.array([60.0, 0, -60]) + rng.normal(0, 40, (12, 8, 8, 3)), 0, 255).astype(np.uint8)
        net = net_of_statistics((pixels[..., ::-1] / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225])
        shown = [Image.fromarray(p) for p in pixels]
        _, how, said = preparation_of(og.from_onnx(net), shown)
        assert how.order == order and ("not by a clear margin: see --image-order" in said) == (order == "RGB")

    def test_what_is_given_counts(self):
        program = og.from_onnx(net(size="H, W"))
        _, how, _ = preparation_of(program, self.samples(), size=(4, 5), mean=[0.1], std=[0.2, 0.3, 0.4], order="bgr")
        assert (how.size, how.mean, how.std, how.order) == ((4, 5), (0.1,) * 3, (0.2, 0.3, 0.4), "BGR")
        pixels = np.asarray(self.samples()[0], np.float64)[..., ::-1].transpose(2, 0, 1) / 255
        wanted = (pixels - 0.1) / np.array([0.2, 0.3, 0.4])[:, None, None]
        np.testing.assert_allclose(how.array(self.samples()[0]), wanted, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("given", [{"size": (9, 9)}, {"mean": [1, 2]}, {"std": [0]}, {"order": "hsv"}])
    def test_what_fits_no_model_is_refused(self, given):
        with pytest.raises(ArgumentError):
            preparation_of(og.from_onnx(net()), self.samples(), **given)

    def test_models_without_images(self):
        with pytest.raises(DataError, match="the model has none of these"):
            preparation_of(
                og.from_onnx(
                    parse_model('<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }')
                ),
                [],
            )


class TestFolders:
    def trainer(self, **options):
        return Trainer(net(), loss="cross_entropy", learning_rate=0.05, metrics=["accuracy"], **options)

    def test_a_folder_trains_and_says_what_it_took(self, folder):
        t = self.trainer()
        rows = t.fit(folder, 15, validation=0.25, batch_size=4)
        assert rows[-1]["val_accuracy"] == 1.0
        assert any("images enter 'x' as CHW, RGB, 8 x 8 (of the file)" in said for said in t.remarks)
        assert "classes of 'target': blue = 0, red = 1." in t.remarks
        assert any("validation holds out 4 of 16 examples, stratified" in said for said in t.remarks)
        assert t.predict(folder / "red")["y"].argmax(axis=1).tolist() == [1] * 8

    @pytest.mark.parametrize("words", [False, True])
    def test_a_table_of_paths(self, folder, words):
        files = sorted(folder.rglob("*.*"))
        label = (lambda f: f.parent.name) if words else (lambda f: int(f.parent.name == "red"))
        rows = [f"{f.relative_to(folder)},{label(f)}" for f in files]
        (folder / "list.csv").write_text("\n".join(["path,label", *rows]))
        source, _ = self.trainer().open(folder / "list.csv")
        plain, _ = self.trainer().open(folder)
        np.testing.assert_array_equal(source.take(np.arange(16))["x"], plain.take(np.arange(16))["x"])
        np.testing.assert_array_equal(source.column("target"), plain.column("target"))

    @pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".tsv"])
    def test_tables_of_paths_of_other_kinds_in_the_folder(self, folder, suffix):
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        files = sorted(folder.rglob("*.*"))
        columns = {"image": [str(f.relative_to(folder)) for f in files], "label": [f.parent.name for f in files]}
        table = folder.parent / f"list{suffix}"
        columns["image"] = [f"images/{name}" for name in columns["image"]]
        if suffix == ".parquet":
            pq.write_table(pa.table(columns), table)
        else:
            rows = list(zip(*columns.values(), strict=True))
            lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
            table.write_text("\n".join(lines if suffix == ".jsonl" else ["image\tlabel", *("\t".join(row) for row in rows)]))
        source, _ = self.trainer().open(table)
        plain, _ = self.trainer().open(folder)
        np.testing.assert_array_equal(source.take(np.arange(16))["x"], plain.take(np.arange(16))["x"])
        assert source.classes == {"target": ["blue", "red"]} and source.record.columns["x"].parts == ("image",)

    def test_random_changes_are_those_of_the_seed_and_only_of_training(self, folder):
        t = self.trainer()
        source, _ = t.open(Images(folder, flip=True, crop=True, color=0.3))
        rows = np.arange(16)
        a, b, c, plain = (source.take(rows, e)["x"] for e in ((0, 0), (0, 0), (0, 1), None))
        np.testing.assert_array_equal(a, b)
        assert (a != c).any() and (a != plain).any()
        np.testing.assert_array_equal(source.plain().take(rows, (0, 0))["x"], plain)
        _, held_out = t.open(Images(folder, flip=True), 0.25)
        np.testing.assert_array_equal(held_out.take(np.arange(4), (0, 0))["x"], held_out.take(np.arange(4))["x"])

    def test_flip_mirrors(self, folder):
        source, _ = self.trainer().open(Images(folder, flip=True))
        plain, turned = source.take(np.arange(16))["x"], source.take(np.arange(16), (0, 0))["x"]
        same = [np.array_equal(a, b) for a, b in zip(plain, turned, strict=True)]
        mirrored = [np.abs(a[:, :, ::-1] - b).max() < 0.02 for a, b in zip(plain, turned, strict=True)]
        assert all(a != b for a, b in zip(same, mirrored, strict=True)) and 0 < sum(same) < 16

    def test_a_run_that_is_cut_off_goes_on_bitwise_the_same(self, folder, tmp_path):
        source = Images(folder, flip=True, crop=True, color=0.2)
        whole, cut, resumed = (self.trainer() for _ in range(3))
        whole.fit(source, 2, batch_size=4)
        step = cut.step

        def stops(batch):
            cut.interrupt.requested = cut.step_number == 4
            return step(batch)

        cut.step = stops
        cut.fit(source, 2, batch_size=4, out=tmp_path / "run")
        assert (cut.epoch, cut.batch) == (1, 1)
        resumed.fit(source, 2, batch_size=4, out=tmp_path / "run", resume=True)
        assert_equal(weights(whole), weights(resumed))

    def test_what_is_refused(self, folder, tmp_path):
        with pytest.raises(DataError, match=r"one sub-folder with images, .*images', so one class"):
            self.trainer().open(tmp_path)
        with pytest.raises(DataError, match="holds no sub-folders with images"):
            self.trainer().open(folder / "red")
        (folder / "red" / "bad.png").write_bytes(b"nothing")
        with pytest.raises(DataError, match=r"cannot read the image .*bad.png"):
            self.trainer().fit(folder, 1)
        (folder / "list.csv").write_text("path,label\nred/1.png,0\nred/gone.png,1\n")
        with pytest.raises(DataError, match=r"list.csv, row 2, column 'path': there is no file"):
            self.trainer().open(folder / "list.csv")
        with pytest.raises(ArgumentError, match="color is the largest change"):
            Images(folder, color=2)
        with pytest.raises(DataError, match="there is no file"):
            self.trainer().open(folder / "nowhere")


def test_a_hidden_file_is_no_image(folder):
    (folder / "red" / "._1.png").write_bytes(b"what other systems leave behind")
    source, _ = Trainer(net(), loss="cross_entropy").open(folder)
    assert len(source) == 16


def test_a_table_whose_cells_are_lists_is_no_table_of_images(tmp_path):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0, 4.0]], "target": [0, 1]}), tmp_path / "t.parquet")
    assert not is_image_table(tmp_path / "t.parquet")
