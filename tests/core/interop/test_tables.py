"""Tables that an exporter computed are no weights; what is learnt stays a weight, however much it looks like one."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad
from onnxgrad.cli.main import main
from onnxgrad.training import Trainer

REAL = Path(__file__).parents[2] / "data" / "real_models" / "torch"
P, D = 64, 8


def graph(text, opset=18, **arrays):
    """A program of a graph whose constants are arrays."""
    return onnxgrad.from_onnx(model(text, opset, **arrays))


def model(text, opset=18, **arrays):
    found = parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]> f {text}')
    for name, array in arrays.items():
        array = np.asarray(array)
        found.graph.initializer.append(
            numpy_helper.from_array(array.astype(np.float32) if array.dtype == np.float64 else array, name)
        )
    return found


def kinds(program):
    return {name: text.partition(": ")[0] for name, text in program.decisions.items()}


def reason(program, name):
    return program.decisions[name].partition(": ")[2]


def angles(positions=P, dims=D, base=10000.0):
    frequencies = (base ** (-np.arange(0, dims, 2) / dims)).astype(np.float32)
    return np.float32(1) * np.arange(positions, dtype=np.float32)[:, None] * frequencies


def sinusoids(positions=P, dims=D):
    table = np.zeros((positions, dims), np.float32)
    table[:, 0::2], table[:, 1::2] = np.sin(angles(positions, dims)), np.cos(angles(positions, dims))
    return table


ROTARY = f"""(float[B, H, L, {D}] q, int64[B, L] ids) => (float[B, H, L, {D}] y) {{
    half = Constant <value_ints = [{D // 2}]> () zero = Constant <value_ints = [0]> () end = Constant <value_ints = [{D}]> ()
    last = Constant <value_ints = [3]> () one = Constant <value_ints = [1]> ()
    c1 = Squeeze(cos, lead) s1 = Squeeze(sin, lead)
    c2 = Gather(c1, ids) s2 = Gather(s1, ids)
    c3 = Unsqueeze(c2, one) s3 = Unsqueeze(s2, one)
    low = Slice(q, zero, half, last) high = Slice(q, half, end, last) minus = Neg(high) turned = Concat<axis = 3>(minus, low)
    a = Mul(q, c3) b = Mul(turned, s3) z = Add(a, b) y = Mul(z, scale) }}"""


class TestRotaryCaches:
    @pytest.mark.parametrize("dtype", [np.float32, np.float16])
    def test_as_torch_exports_them(self, dtype):
        full = np.concatenate([angles(), angles()], -1)[None, None]
        text = ROTARY.replace("float[", "float16[") if dtype is np.float16 else ROTARY
        arrays = {
            "cos": np.cos(full).astype(dtype),
            "sin": np.sin(full).astype(dtype),
            "scale": np.arange(2.0, 2 + D).astype(dtype) ** 0.5,
        }
        program = graph(text, lead=np.array([0, 1]), **arrays)
        assert kinds(program)["cos"] == kinds(program)["sin"] == "table" and kinds(program)["scale"] == "weight"
        assert reason(program, "cos") == "sines and cosines of positions"
        assert [p.name for p in program.all_parameters() if p.trainable] == ["scale"]

    def test_a_long_cache_whose_angles_were_rounded(self):
        long = np.arange(32768, dtype=np.float32)[:, None] * angles(2, 16)[1]
        full = np.cos(np.concatenate([long, long], -1))[None, None].astype(np.float32)
        text = ROTARY.replace(f"{D}]", "16]").replace(f"[{D // 2}]", "[8]")
        assert kinds(graph(text, lead=np.array([0, 1]), cos=full, sin=full, scale=np.ones(16)))["cos"] == "table"

    def test_learnt_tables_read_the_same_way_are_weights(self):
        rng = np.random.default_rng(0)
        learnt = {name: rng.uniform(-1, 1, (1, 1, P, D)) for name in ("cos", "sin")}
        program = graph(ROTARY, lead=np.array([0, 1]), scale=np.ones(D), **learnt)
        assert kinds(program)["cos"] == kinds(program)["sin"] == "weight"

    def test_angles_of_two_coordinates_as_vision_models_have_them(self):
        """No column is a sine of the row; sine and cosine belong together all the same."""
        rows, columns = np.divmod(np.arange(P), 8)
        both = np.concatenate([rows[:, None] * angles(2, D)[1][:2], columns[:, None] * angles(2, D)[1][:2]], -1)
        text = "(float[B, 64, 4] x) => (float[B, 64, 4] y) { a = Mul(x, cos) b = Mul(x, sin) s = Add(a, b) y = Mul(s, other) }"
        program = graph(
            text, cos=np.cos(both + 0.1), sin=np.sin(both + 0.1), other=np.random.default_rng(0).uniform(-1, 1, (64, 4))
        )
        assert kinds(program) == {"cos": "table", "sin": "table", "other": "weight"}
        halves = graph(
            "(float[B, 64, 8] x) => (float[B, 64, 8] y) { y = Mul(x, t) }", t=np.concatenate([np.sin(both), np.cos(both)], -1)
        )
        assert kinds(halves) == {"t": "table"}

    def test_frequencies_that_multiply_positions(self):
        text = """(int64[B, L] ids, float[B, L, 4] x) => (float[B, L, 4] y) {
            one = Constant <value_ints = [1]> () p = Cast<to = 1>(ids) p3 = Unsqueeze(p, one) f = MatMul(inv, p3)
            t = Transpose<perm = [0, 2, 1]>(f) c = Cos(t) s = Sin(t) a = Mul(x, c) b = Mul(x, s) y = Add(a, b) }"""
        inverse = (10000.0 ** (-np.arange(4) / 4)).reshape(1, 4, 1)
        assert reason(graph(text, inv=inverse), "inv") == "frequencies of a rotary embedding"
        rng = np.random.default_rng(0)
        assert kinds(graph(text, inv=rng.normal(0, 1, (1, 4, 1))))["inv"] == "weight"

    def test_a_network_of_sines_keeps_its_weights(self):
        """The frequencies of x, which is data, are learnt, falling or not."""
        text = "(float[B, 1] x) => (float[B, 4] y) { a = MatMul(x, w) s = Sin(a) c = Cos(a) y = Add(s, c) }"
        assert kinds(graph(text, w=[[1.0, 0.5, 0.25, 0.125]])) == {"w": "weight"}

    @pytest.mark.parametrize("name", ["qwen3_sdpa-dyn18", "whisper-dyn18", "whisper-legacy14"])
    def test_real_files(self, name):
        program = onnxgrad.from_onnx(REAL / name / "model.onnx")
        tables = [n for n, kind in kinds(program).items() if kind == "table"]
        assert tables in (["m.model.rotary_emb.inv_freq"], ["embedding"], ["onnx::Add_447"])

    def test_caches_of_fused_operators(self):
        rng = np.random.default_rng(0)
        text = """(float[B, L, 8] x, int64[B, L] ids) => (float[B, L, 8] y) { y = com.microsoft.RotaryEmbedding(x, ids, c, s) }"""
        program = graph(text, c=rng.normal(0, 1, (16, 4)), s=rng.normal(0, 1, (16, 4)))
        assert kinds(program) == {"c": "table", "s": "table"}


LOOKUP = (
    "(int64[B, L] ids, int64[B, L] words) => (float[B, L, 8] y) { w = Gather(word, words) p = Gather(table, ids) y = Add(w, p) }"
)
ADDED = f"(float[B, {P}, {D}] x) => (float[B, {P}, {D}] y) {{ y = Add(x, table) }}"


class TestPositions:
    @pytest.mark.parametrize("text", [LOOKUP, ADDED])
    def test_sinusoids_are_a_table(self, text):
        arrays = {"word": np.random.default_rng(0).normal(0, 1, (99, D))} if text is LOOKUP else {}
        program = graph(text, table=sinusoids(), **arrays)
        assert kinds(program)["table"] == "table" and kinds(program).get("word", "weight") == "weight"

    @pytest.mark.parametrize("text", [LOOKUP, ADDED])
    @pytest.mark.parametrize(
        "learnt",
        [
            lambda rng: rng.normal(0, 0.02, (P, D)),
            lambda rng: sinusoids() + rng.normal(0, 1e-3, (P, D)),
            lambda rng: np.cumsum(rng.normal(0, 0.02, (P, D)), 0),
            lambda rng: np.zeros((P, D)),
            lambda rng: np.ones((P, D)),
            lambda rng: np.linspace(-1, 1, P)[:, None] ** 3 * np.ones(D),
            lambda rng: np.where(np.arange(D) < 7, sinusoids(), rng.normal(0, 1, (P, D))),
        ],
        ids=["normal", "sinusoids trained a little", "smooth", "zeros", "ones", "cubic", "one column of its own"],
    )
    @pytest.mark.parametrize("dtype", [np.float32, np.float16])
    def test_learnt_positions_are_weights(self, text, learnt, dtype):
        if dtype is np.float16 and "float[" in text:
            text = text.replace("float[", "float16[")
        table = np.asarray(learnt(np.random.default_rng(3)))
        if dtype is np.float16:  # what is nearer than a rounding cannot be told
            table = table + np.where(np.abs(table - sinusoids()).max() < 0.05, np.random.default_rng(1).normal(0, 0.1, (P, D)), 0)
        arrays = {"word": np.random.default_rng(0).normal(0, 1, (99, D)).astype(dtype)} if text.startswith(LOOKUP[:9]) else {}
        assert kinds(graph(text, table=table.astype(dtype), **arrays))["table"] == "weight"

    def test_learnt_positions_of_real_files_are_weights(self):
        for name in ("bert-dyn18", "bert-legacy14", "whisper-legacy14"):
            program = onnxgrad.from_onnx(REAL / name / "model.onnx")
            learnt = [n for n in kinds(program) if n.endswith(("position_embeddings.weight", "embed_positions.weight"))]
            assert learnt and all(kinds(program)[n] == "weight" for n in learnt)

    def test_numbers_of_positions(self):
        biases = -(2.0 ** -np.arange(1, 5))[:, None, None] * np.arange(16)
        text = "(float[B, 4, L, 16] x) => (float[B, 4, L, 16] y) { y = Add(x, table) }"
        assert reason(graph(text, table=biases), "table") == "numbers of positions"
        assert kinds(graph(text, table=np.random.default_rng(0).normal(0, 1, (4, 1, 16)))) == {"table": "weight"}

    def test_each_line_is_as_straight_as_its_own_rounding(self):
        slopes = np.array([1e4, 1e-4, 3.0, 0.7])[:, None, None] / 3
        text = "(float[B, 4, L, 16] x) => (float[B, 4, L, 16] y) { y = Add(x, table) }"
        assert kinds(graph(text, table=slopes * np.arange(16))) == {"table": "table"}

    def test_a_line_that_multiplies_data_is_a_weight(self):
        """Such as the decay of a state space model before it is trained: -1, -2, ..., -16 in each row."""
        text = "(float[B, 12, 1] x) => (float[B, 12, 16] y) { a = Mul(x, decay) y = Exp(a) }"
        assert kinds(graph(text, decay=-np.arange(1.0, 17.0) * np.ones((12, 1)))) == {"decay": "weight"}

    def test_a_line_that_multiplies_positions_is_none(self):
        text = "(int64[B, 1] ids, float[B, 16] x) => (float[B, 16] y) { p = Cast<to = 1>(ids) m = Mul(p, line) y = Add(x, m) }"
        assert kinds(graph(text, line=np.arange(16.0))) == {"line": "table"}

    def test_matrices_of_waves_are_weights(self):
        """A Fourier transform may be trained, and nothing in how it is read says that it is not."""
        text = f"(float[B, {P}] x) => (float[B, {D}] y) {{ y = MatMul(x, w) }}"
        assert kinds(graph(text, w=sinusoids())) == {"w": "weight"}


class TestMasks:
    @pytest.mark.parametrize("low", [-100.0, -1e4, -65504.0])
    def test_zeros_and_large_negative_numbers(self, low):
        text = "(float[B, 16, 16] x) => (float[B, 16, 16] y) { a = Add(x, mask) y = Softmax(a) }"
        mask = np.where(np.random.default_rng(0).random((4, 1, 16, 16)) < 0.5, low, 0.0)
        assert reason(graph(text.replace("[B, 16, 16] y", "[A, B, 16, 16] y"), mask=mask), "mask") == "a mask"

    @pytest.mark.parametrize("mask", [np.tri(8), np.triu(np.ones((8, 8))), np.tri(8, k=1) * np.triu(np.ones((8, 8)), -1)])
    def test_bands_of_ones(self, mask):
        text = "(float[B, 8, 8] x) => (float[B, 8, 8] y) { y = Mul(x, mask) }"
        assert kinds(graph(text, mask=mask)) == {"mask": "table"}

    @pytest.mark.parametrize(
        "weight", [np.eye(8), np.ones((8, 8)), np.zeros((8, 8)), -100.0 * np.random.default_rng(0).random((8, 8))]
    )
    def test_what_a_weight_may_start_from_is_none(self, weight):
        text = "(float[B, 8, 8] x) => (float[B, 8, 8] y) { y = Mul(x, weight) }"
        assert kinds(graph(text, weight=weight)) == {"weight": "weight"}

    def test_what_only_comparisons_and_shapes_read(self):
        text = """(float[B, 8] x) => (float[B, 8] y) {
            t = Constant <value_float = 0.5> () m = Mul(mask, t) big = Greater(m, t) y = Where(big, x, w) }"""
        rng = np.random.default_rng(0)
        program = graph(text, mask=rng.random((1, 8)), w=rng.random((1, 8)))
        assert kinds(program)["mask"] == "constant" and kinds(program)["w"] == "weight"


class TestStates:
    LSTM = """(float[T, 1, 4] x) => (float[T, 1, 1, 3] y) { y = LSTM<hidden_size = 3>(x, w, r, b, , h, c) }"""

    def arrays(self, rng):
        return {"w": rng.normal(0, 1, (1, 12, 4)), "r": rng.normal(0, 1, (1, 12, 3)), "b": np.zeros((1, 24))}

    def test_zeros_that_a_recurrence_starts_from(self):
        program = graph(self.LSTM, h=np.zeros((1, 1, 3)), c=np.zeros((1, 1, 3)), **self.arrays(np.random.default_rng(0)))
        assert {name for name, kind in kinds(program).items() if kind == "table"} == {"h", "c"}
        assert kinds(program)["b"] == "weight"

    def test_a_learnt_state_is_a_weight(self):
        rng = np.random.default_rng(0)
        program = graph(self.LSTM, h=rng.normal(0, 1, (1, 1, 3)), c=np.zeros((1, 1, 3)), **self.arrays(rng))
        assert kinds(program)["h"] == "weight" and kinds(program)["c"] == "table"

    def test_of_a_scan(self):
        text = """(float[T, 3] x) => (float[3] last) { last = Scan <num_scan_inputs = 1, body = step (float[3] s, float[3] e) => (float[3] n) { t = Add(s, e) n = Tanh(t) }> (start, x) }"""
        assert kinds(graph(text, start=np.zeros(3))) == {"start": "table"}
        assert kinds(graph(text, start=np.ones(3))) == {"start": "weight"}


def test_scales_of_resize_that_are_put_together_configure():
    text = """(float[1, 1, H, W] x) => (float[1, 1, A, B] y) { s = Concat<axis = 0>(ones, twos) y = Resize(x, , s) }"""
    program = graph(text, ones=[1.0, 1.0], twos=[2.0, 2.0])
    assert kinds(program) == {"ones": "constant", "twos": "constant"} and not program.parameters


class TestOverruling:
    def rotary(self, tmp_path):
        full = np.concatenate([angles(), angles()], -1)[None, None]
        made = model(ROTARY, lead=np.array([0, 1]), cos=np.cos(full), sin=np.sin(full), scale=np.arange(1.0, D + 1) ** 0.5)
        onnx.save(made, tmp_path / "m.onnx")
        rng = np.random.default_rng(0)
        data = {"q": rng.normal(0, 1, (8, 1, 5, D)).astype(np.float32), "ids": np.tile(np.arange(5), (8, 1))}
        return tmp_path / "m.onnx", {**data, "target": data["q"]}

    def test_the_trainer_says_what_it_keeps(self, tmp_path):
        path, data = self.rotary(tmp_path)
        trainer = Trainer(path, loss="mse", optimizer="sgd")
        said = [line for line in trainer.remarks if "computed tables" in line]
        assert said == ["cos, sin are computed tables, not weights, kept unless trainable= (--train) names it; see onnxgrad info"]
        before = {p.name: p.get_value() for p in trainer.program.parameters}
        trainer.fit(data, 1, batch_size=4)
        changed = {p.name for p in trainer.program.parameters if not np.array_equal(p.get_value(), before[p.name])}
        assert changed == {"scale"}

    @pytest.mark.parametrize(("chosen", "trained"), [("*", {"cos", "sin", "scale"}), (["cos"], {"cos"})])
    def test_what_is_named_is_trained(self, chosen, trained, tmp_path):
        path, data = self.rotary(tmp_path)
        trainer = Trainer(path, loss="mse", optimizer="sgd", trainable=chosen)
        before = {p.name: p.get_value() for p in trainer.program.parameters}
        trainer.fit(data, 1, batch_size=4)
        assert {p.name for p in trainer.program.parameters if not np.array_equal(p.get_value(), before[p.name])} == trained

    def test_from_onnx_names_weights(self, tmp_path):
        program = onnxgrad.from_onnx(self.rotary(tmp_path)[0], parameters="*")
        assert {p.name for p in program.all_parameters() if p.trainable} >= {"cos", "sin", "scale"}

    def test_info_lists_tables_and_why(self, tmp_path, capsys):
        path, _ = self.rotary(tmp_path)
        assert main(["info", str(path)]) == 0
        out = capsys.readouterr().out
        assert "in 3 tensors (1 trainable)" in out
        assert "frozen, as it is not a weight: cos: sines and cosines of positions (train --train 'cos' trains it)" in out
        assert main(["info", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["parameters"]["tables"].keys() == {"cos", "sin"}

    def test_the_file_is_written_as_it_was(self, tmp_path):
        path, _ = self.rotary(tmp_path)
        written, read = onnxgrad.to_onnx(onnxgrad.from_onnx(path)), onnx.load(path)
        assert list(written.metadata_props) == list(read.metadata_props) == []
        assert list(written.graph.initializer) == list(read.graph.initializer)
