"""Models of a stream: states, all chunks at once, gradients through time against differences, and back to one chunk."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Trainer, unroll
from onnxgrad.training.surgery.streams import KEY, roll_up, states_of


def cell(rate=False, extra=False):
    """A recurrent cell: h' = tanh(x U + h W), y = sigmoid(h' v); with a rate, y * rate / 16000 besides"""
    inputs = "float[N, 4] x, float[1, N, 3] h" + (", int64 sr" if rate else "")
    outputs = "float[N, 1] y, float[1, N, 3] hn" + (", float[1, 3] z" if extra else "")
    end = "y = Sigmoid(s)"
    if rate:
        end = "p = Sigmoid(s)  f = Cast<to = 1>(sr)  k = Constant<value_float = 16000.0>()  g = Div(f, k)  y = Mul(p, g)"
    more = "z = Transpose(v)" if extra else ""
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> f ({inputs}) => ({outputs}) {{
        axes = Constant<value_ints = [0]>()  h0 = Squeeze(h, axes)  a = MatMul(x, u)  b = MatMul(h0, w)  t = Add(a, b)
        e = Tanh(t)  hn = Unsqueeze(e, axes)  s = MatMul(e, v)  {end} {more} }}"""
    )
    rng = np.random.default_rng(0)
    for name, shape in (("u", (4, 3)), ("w", (3, 3)), ("v", (3, 1))):
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=shape).astype("f4"), name))
    return model


def by_chunks(model, x, **fixed):
    """Outputs [batch, chunks, 1] of the model, called for one chunk after the other"""
    program, state, outputs = og.from_onnx(model), np.zeros((1, len(x), 3), "f4"), []
    for t in range(x.shape[1]):
        y, state = og.Executor().run(program, {"x": x[:, t], "h": state, **fixed}, ["y", "hn"])
        outputs.append(y)
    return np.stack(outputs, axis=1)


class TestUnroll:
    @pytest.mark.parametrize("chunks", [1, 2, 7])
    def test_all_chunks_at_once_give_what_one_after_the_other_gives(self, chunks):
        x = np.random.default_rng(1).normal(size=(5, chunks, 4)).astype("f4")
        program = og.from_onnx(cell())
        (line,) = unroll(program)
        assert "'h' from 'hn'" in line and [v.name for v in program.inputs] == ["x"] and [v.name for v in program.outputs] == ["y"]
        (y,) = og.Executor().run(program, {"x": x}, ["y"])
        assert y.shape == (5, chunks, 1) and np.allclose(y, by_chunks(cell(), x), atol=1e-6)

    def test_the_rate_is_a_constant_meanwhile(self):
        x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("f4")
        program = og.from_onnx(cell(rate=True))
        unroll(program, rate=8000)
        (y,) = og.Executor().run(program, {"x": x}, ["y"])
        assert np.allclose(y, by_chunks(cell(rate=True), x, sr=np.array(8000)), atol=1e-6)

    def test_gradients_flow_from_the_last_chunk_to_the_first(self):
        program = og.from_onnx(cell())
        unroll(program)
        x = np.random.default_rng(1).normal(size=(2, 6, 4)).astype("f4")
        with og.static.program_guard(program):
            last = program.outputs[0][:, 5]
            loss = last.sum()
        pairs = og.append_backward(loss)
        weights = {p.name: np.asarray(p.get_value(), np.float64) for p, _ in pairs}
        grads = dict(zip([p.name for p, _ in pairs], og.Executor().run(program, {"x": x}, [g for _, g in pairs]), strict=True))

        def value(name, delta):
            changed = {**weights, name: weights[name] + delta}
            h = np.zeros((2, 3))
            for t in range(6):
                h = np.tanh(x[:, t].astype(np.float64) @ changed["u"] + h @ changed["w"])
            return (1 / (1 + np.exp(-h @ changed["v"]))).sum()

        for name, grad in grads.items():
            expected = np.zeros_like(weights[name])
            for index in np.ndindex(expected.shape):
                delta = np.zeros_like(expected)
                delta[index] = 1e-5
                expected[index] = (value(name, delta) - value(name, -delta)) / 2e-5
            assert np.allclose(grad, expected, rtol=1e-3, atol=1e-5), name
        assert set(grads) == {"u", "w", "v"}

    @pytest.mark.parametrize(
        ("model", "options", "said"),
        [
            (cell(), {"states": {"h": "nothing"}}, "are not an input and an output"),
            (cell(rate=True), {}, "--sound-rate"),
            (cell(extra=True), {}, "does not depend on the chunks"),
        ],
    )
    def test_what_is_no_stream_is_refused_and_left_as_it_is(self, model, options, said):
        program = og.from_onnx(model)
        before = str(program)
        with pytest.raises(ArgumentError, match=said):
            unroll(program, **options)
        assert str(program) == before

    def test_a_model_without_states_is_refused(self):
        text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 4] y) { y = Tanh(x) }'
        program = og.from_onnx(parse_model(text))
        assert states_of(program) == {}
        with pytest.raises(ArgumentError, match="no state is found"):
            unroll(program)


class TestRollUp:
    @pytest.mark.parametrize("rate", [False, True])
    def test_the_file_is_again_one_of_a_chunk_with_trained_weights(self, tmp_path, rate):
        program = og.from_onnx(cell(rate=rate))
        program.metadata["author"] = "somebody"
        unroll(program, rate=8000 if rate else None)
        trainer = Trainer(program, loss="mse", target="heard", learning_rate=0.05)
        rng = np.random.default_rng(2)
        data = {"x": rng.normal(size=(8, 5, 4)).astype("f4"), "heard": rng.random((8, 5, 1)).astype("f4")}
        before = trainer.predict({"x": data["x"]})["y"]
        trainer.fit(data, epochs=2, batch_size=4, verbose=False)
        trained = trainer.predict({"x": data["x"]})["y"]
        trainer.export(tmp_path / "e.onnx")
        file, original = onnx.load(tmp_path / "e.onnx"), cell(rate=rate)
        for values in ("input", "output"):
            assert [v.name for v in getattr(file.graph, values)] == [v.name for v in getattr(original.graph, values)]
            assert [v.type for v in getattr(file.graph, values)] == [v.type for v in getattr(original.graph, values)]
        assert {p.key: p.value for p in file.metadata_props}.keys() >= {"author"} and KEY not in {
            p.key for p in file.metadata_props
        }
        fixed = {"sr": np.array(8000)} if rate else {}
        assert np.allclose(by_chunks(file, data["x"], **fixed), trained, atol=1e-6) and not np.allclose(before, trained, atol=1e-4)

    def test_a_program_that_was_not_unrolled_stays_what_it_is(self):
        program = og.from_onnx(cell())
        assert roll_up(program) is program

    def test_a_rolled_up_copy_leaves_the_program_unrolled(self):
        program = og.from_onnx(cell())
        unroll(program)
        before = str(program)
        assert [v.name for v in roll_up(program).inputs] == ["x", "h"] and str(program) == before
