"""Sizes and directions: the function and its gradients are those of the paper, as PEFT computes them; exports compute the same."""

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError, ModelError
from onnxgrad.training import Trainer, add_lora, find_ties, load_peft, merge_lora
from onnxgrad.training.losses.terms import Term, attach
from onnxgrad.training.quantized.packed_weights import float_weight
from tests.cli.command import command
from tests.training.surgery.test_peft import PEFT, WORDS, file, logits  # noqa: F401

RNG = np.random.default_rng(5)
W, BIAS = RNG.normal(0, 1, (6, 4)), RNG.normal(0, 1, 4)
X = RNG.normal(0, 1, (3, 6))
FORMS = {
    "matmul": "y = MatMul (x, w)",
    "transposed": "v = Transpose <perm = [1, 0]> (w) y = MatMul (x, v)",
    "gemm": "y = Gemm <alpha = 0.5, beta = 2.0> (x, w, b)",
    "gemm_rows": "y = Gemm <alpha = -1.5, transB = 1> (x, w, b)",
    "qdq": "v = DequantizeLinear <axis = 1> (q, s) y = MatMul (x, v)",
}


def layer(form, dtype="double"):
    text = f'<ir_version: 8, opset_import: ["": 17]> f ({dtype}[N, 6] x) => ({dtype}[N, 4] y) {{ {FORMS[form]} }}'
    made = parse_model(text)
    kind = np.float64 if dtype == "double" else np.float32
    stored = {"w": W.T if form in ("transposed", "gemm_rows") else W, "b": BIAS}
    arrays = {name: array.astype(kind) for name, array in stored.items()}
    if form == "qdq":
        arrays |= {"q": RNG.integers(-128, 127, (6, 4)).astype(np.int8), "s": RNG.uniform(0.1, 0.2, 4).astype(kind)}
    read = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items() if name in read)
    return og.from_onnx(made)


def adapted(program):
    names = add_lora(program, rank=2, alpha=3, dora=True)
    for name in names:
        p = program.global_block().vars[name]
        value = p.get_value() * RNG.uniform(0.5, 1.5, p.shape) if name.endswith("magnitude") else RNG.normal(0, 0.5, p.shape)
        p.set_value(value.astype(p.dtype.numpy))
    return [program.global_block().vars[name].get_value() for name in names]


def output(program, x):
    return og.Executor().run(program, {"x": x}, ["y"])[0]


@pytest.mark.parametrize("form", FORMS)
def test_value_gradient_and_merged_file_are_those_of_the_formula(form):
    dtype = "float" if form == "qdq" else "double"
    program = layer(form, dtype)
    x = X.astype(program.inputs[0].dtype.numpy)
    base = next(op for op in program.global_block().ops if op.type in ("MatMul", "Gemm"))
    weight, before = float_weight(base), output(program, x)
    if form.startswith("gemm"):
        weight = (weight.T if form == "gemm_rows" else weight) * base.attr("alpha")
    bias = BIAS * base.attr("beta") if form.startswith("gemm") else 0.0
    again = layer(form, dtype) if form != "qdq" else None
    if again is not None:
        add_lora(again, rank=2, dora=True)
        np.testing.assert_allclose(output(again, x), before, rtol=1e-12)
    a, b, m = adapted(program)
    change = weight + 1.5 * a @ b
    norm = np.linalg.norm(change, axis=0)
    wanted = x @ (change * m / norm) + bias
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float" else {"rtol": 1e-10}
    np.testing.assert_allclose(output(program, x), wanted, **close)
    merged = merge_lora(program)
    np.testing.assert_allclose(output(merged, x), wanted, **close)
    assert not [p.name for p in merged.parameters if "lora" in p.name and "merged" not in p.name] or form == "qdq"
    assert len(merged.global_block().ops) == {"transposed": 2, "qdq": 7}.get(form, 1)
    if form == "qdq":
        np.testing.assert_allclose(output(merge_lora(program, "float"), x), wanted, **close)
    y = program.outputs[0]
    with og.static.program_guard(program):
        loss = og.mean(y * y)
    grads = og.gradients([loss], [p for p in program.parameters if "lora" in p.name])
    gy = 2 * wanted / wanted.size
    gw = x.T @ gy * m / norm
    found = og.Executor().run(program, {"x": x}, grads)
    for got, want in zip(found, [1.5 * gw @ b.T, 1.5 * a.T @ gw, (gy * (x @ change)).sum(0) / norm], strict=True):
        np.testing.assert_allclose(got, want, **close)


@pytest.mark.parametrize("kind", ["dora", "dora_packed"])
def test_gradients_are_those_of_peft(file, kind):  # noqa: F811
    program = og.from_onnx(file)
    names = load_peft(program, PEFT / kind)
    loss = attach(program, [Term("causal_lm")]).loss
    feed = {v.name: np.zeros((2, 2, 0, 16), np.float32) for v in program.inputs if v.name.startswith("past")}
    feed |= {"input_ids": WORDS, "attention_mask": np.ones_like(WORDS), "labels": WORDS}
    ours = dict(zip(names, og.gradients([loss], [program.global_block().vars[name] for name in names]), strict=True))
    value, *found = og.Executor().run(program, {v.name: feed[v.name] for v in program.inputs}, [loss, *ours.values()])
    arrays = dict(zip(names, found, strict=True))
    with np.load(PEFT / kind / "gradients.npz") as theirs:
        assert float(value) == pytest.approx(float(theirs["loss"]), rel=1e-5)
        prefix = "base_model.model.model.layers.0"
        for module, name, rows, columns in [
            ("mlp.down_proj", "mlp.down_proj", slice(None), slice(None)),
            ("self_attn.q_proj", "attn.qkv_proj", slice(0, 3), slice(0, 64)),
            ("self_attn.v_proj", "attn.qkv_proj", slice(3, 6), slice(96, 128)),
            ("self_attn.qkv_proj", "attn.qkv_proj", slice(None), slice(None)),
        ]:
            key = f"{prefix}.{module}.lora_A.default.weight"
            if key not in theirs.files:
                continue
            stem = f"model.layers.0.{name}.MatMul.weight.lora"
            a, b, m = (arrays[f"{stem}_{part}"] for part in ("A", "B", "magnitude"))
            np.testing.assert_allclose(a[:, rows].T, theirs[key], atol=1e-5)
            np.testing.assert_allclose(b[rows, columns].T, theirs[key.replace("lora_A", "lora_B")], atol=1e-5)
            size = theirs[f"{prefix}.{module}.lora_magnitude_vector.default.weight"]
            np.testing.assert_allclose(m[columns], size, atol=1e-5)
            assert abs(size).max() > 1e-3


def test_packed_weights():
    """A file of small integers takes sizes without being written out; nothing changes at first, and exports compute the same"""
    path = Path(__file__).parents[2] / "data" / "llm_models" / "llama-int4.onnx"
    program = og.from_onnx(path)
    before = logits(program)
    names = add_lora(program, "attention", rank=2, dora=True)
    np.testing.assert_array_equal(logits(program), before)
    assert [name for name, _ in find_ties(program).merged] == ["cos_cache", "sin_cache"]
    trainer = Trainer(program, loss="causal_lm", trainable=names, learning_rate=0.03)
    losses = [trainer.step({"input_ids": WORDS})["loss"] for _ in range(5)]
    assert losses[-1] < losses[0] - 0.3
    moved = [p.name for p in trainer.trained if p.name.endswith("magnitude")]
    assert len(moved) == len(names) // 3 == 4
    tuned = trainer.to_inference()
    again = og.from_onnx(path)
    add_lora(again, "attention", rank=2, dora=True)
    again.set_state_dict({p.name: p.get_value() for p in trainer.trained})
    np.testing.assert_allclose(logits(tuned), logits(again), atol=2e-5)
    assert abs(logits(tuned) - before).max() > 0.1
    assert {op.type for op in tuned.global_block().ops if op.type in ("Sqrt", "Div")} == set()


def test_float16_is_as_before_at_first():
    """Sizes and norms are in float32, where their ratio is 1"""
    text = '<ir_version: 8, opset_import: ["": 17]> f (float16[N, 6] x) => (float16[N, 4] y) { y = MatMul (x, w) }'
    made = parse_model(text)
    made.graph.initializer.append(numpy_helper.from_array(W.astype(np.float16), "w"))
    program = og.from_onnx(made)
    before = output(program, X.astype(np.float16))
    (_, _, sizes) = add_lora(program, rank=2, dora=True)
    assert program.global_block().vars[sizes].dtype.name == "float32"
    np.testing.assert_array_equal(output(program, X.astype(np.float16)), before)


def test_what_has_no_sizes_is_refused(tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2, 4, 4] x, float[3, 2, 1, 1] w) => (float[N, 3, 4, 4] y) { y = Conv (x, w) }'
    made = parse_model(text)
    made.graph.input.pop()
    made.graph.initializer.append(numpy_helper.from_array(np.ones((3, 2, 1, 1), np.float32), "w"))
    with pytest.raises(ArgumentError, match=r"matrix columns\. Leave convolutions out"):
        add_lora(og.from_onnx(made), dora=True)
    for first, second in ((True, False), (False, True)):
        program = layer("matmul")
        add_lora(program, dora=first)
        with pytest.raises(ArgumentError, match="has an adapter, and DoRA's norms cover one adapter"):
            add_lora(program, dora=second)
    program = layer("gemm")
    adapted(program)
    multiply = next(op for op in program.global_block().ops if op.type == "Sub")
    multiply.inputs = [multiply.inputs[0], program.parameters[0]]
    with pytest.raises(ModelError, match="not as add_lora made it"):
        merge_lora(program)


def test_from_the_command_line(file, tmp_path):  # noqa: F811
    np.savez(tmp_path / "words.npz", input_ids=WORDS)
    on = ("--loss", "causal_lm", "--data", tmp_path / "words.npz", "--batch-size", "2", "--epochs", "2", "--lr", "0.02")
    assert "--dora is for adapters" in command("train", file, *on, "--dora", "--out", tmp_path / "no", code=2)
    command("train", file, *on, "--lora", "2", "--dora", "--on", "attention", "--out", tmp_path / "run")
    command("export", tmp_path / "run", "--inference", tmp_path / "tuned.onnx")
    command("export", tmp_path / "run", "--peft", tmp_path / "peft")
    again = og.from_onnx(file)
    load_peft(again, tmp_path / "peft")
    np.testing.assert_allclose(logits(og.from_onnx(tmp_path / "tuned.onnx")), logits(again), atol=1e-5)
    assert abs(logits(again) - logits(og.from_onnx(file))).max() > 0.01
    said = command("export", tmp_path / "run", "--adapters", tmp_path / "a.onnx_adapter", code=2)
    assert "hold no sizes of DoRA" in said
