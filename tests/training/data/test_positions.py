"""Texts that are longer than a model has positions for: cut with a note, or an error before the first step that names --max-length."""

import json

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import DataError
from onnxgrad.training import Text, Texts, Trainer
from onnxgrad.training.data.positions import positions_for

tokenizers = pytest.importorskip("tokenizers")
WORDS = ["[PAD]", "[UNK]", "[EOS]", "a", "fine", "bad", "film"]
HEAD = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> f (int64[N, S] input_ids{inputs}) => (float[N, {classes}] y)
    <float[7, 2] words = {{0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1}}, float[12, 2] places = {{{places}}}, int64 zero = {{0}},
     int64[1] first = {{0}}, int64[1] second = {{1}}, int64 one = {{1}}, int64[1, 12] buffer = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
     float[1, 12, 2] table = {{{places}}}, float[2, {classes}] w = {{{w}}}> {{
    a = Gather(words, input_ids)  d = Shape(input_ids)  s = Gather(d, one)  sizes = Gather(d, second)  {positions}
    h = Add(a, p)  m = ReduceMean<axes = [1], keepdims = 0>(h)  y = MatMul(m, w) }}"""
POSITIONS = {
    "counted": "r = Range(zero, s, one)  p = Gather(places, r)",
    "cut from a buffer": "r = Slice(buffer, first, sizes, second)  p = Gather(places, r)",
    "cut from a table": "p = Slice(table, first, sizes, second)",
    "fed": "p = Gather(places, position_ids)",
    "counted from the mask": "c = CumSum(attention_mask, one)  r = Mul(c, attention_mask)  p = Gather(places, r)",
}


def net(kind, classes=2):
    inputs = {"fed": ", int64[N, S] position_ids", "counted from the mask": ", int64[N, S] attention_mask"}.get(kind, "")
    places, w = ", ".join(["0.1"] * 24), ", ".join(["0.5", "-0.5"] * classes)
    return parse_model(HEAD.format(inputs=inputs, classes=classes, places=places, w=w, positions=POSITIONS[kind]))


@pytest.fixture
def folder(tmp_path):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    rows = [("a fine film", "good"), ("bad " * 30, "bad"), ("a bad film", "bad"), ("fine " * 12, "good")] * 4
    (tmp_path / "data.jsonl").write_text("".join(json.dumps({"text": t, "target": k}) + "\n" for t, k in rows))
    (tmp_path / "text.txt").write_text("a fine film " * 40)
    return tmp_path


@pytest.mark.parametrize("kind", POSITIONS)
def test_positions_of_a_table_are_counted(kind):
    program = og.from_onnx(net(kind))
    rows = 11 if kind == "counted from the mask" else 12  # which begins with 1
    assert [positions_for(program, "input_ids", steps) for steps in (1, 5, 11, 12, 13, 500)] == [1, 5, 11, rows, rows, rows]


def test_a_model_without_positions_takes_any_length():
    text = '<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids) => (float[N, S, 1] y) <float[4, 1] w = {1, 2, 3, 4}>'
    assert positions_for(og.from_onnx(parse_model(text + "{ y = Gather(w, input_ids) }")), "input_ids", 10_000) == 10_000


def test_rows_that_are_read_of_any_text_are_no_positions():
    text = """<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids) => (float[N, 5, 2] y)
        <float[7, 2] words = {0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1}, float[6, 2] prompt = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
         int64[1] first = {0}, int64[1] second = {1}, int64[1] five = {5}, int64[1, 5] rows = {0, 1, 2, 3, 4}> {
        a = Gather(words, input_ids)  m = ReduceMean<axes = [1]>(a)  d = Shape(input_ids)  n = Slice(d, first, second)
        size = Concat<axis = 0>(n, five)  r = Expand(rows, size)  p = Gather(prompt, r)  y = Add(m, p) }"""
    assert positions_for(og.from_onnx(parse_model(text)), "input_ids", 100) == 100


@pytest.mark.parametrize("kind", POSITIONS)
def test_longer_texts_are_cut_with_a_note(folder, kind):
    trainer = Trainer(net(kind), loss="cross_entropy")
    trainer.fit(Texts(folder / "data.jsonl", folder / "tokenizer.json"), 1, batch_size=4, verbose=False)
    rows = 11 if kind == "counted from the mask" else 12
    assert f"the model has positions for {rows} tokens: longer texts are cut (--max-length)." in trainer.remarks
    assert any(f"{8 if rows == 11 else 4} of 16 texts of data.jsonl are cut to {rows} tokens." in line for line in trainer.remarks)


def test_rows_of_a_language_model_that_are_too_long_are_an_error_before_the_first_step(folder):
    text = net("counted", classes=7)
    del text.graph.node[-2:]
    text.graph.node[-1].output[0] = "h"
    text.graph.node.add(op_type="MatMul", input=["h", "w"], output=["y"])
    del text.graph.output[0].type.tensor_type.shape.dim[:]
    for size in ("N", "S", 7):
        dim = text.graph.output[0].type.tensor_type.shape.dim.add()
        setattr(dim, "dim_value" if size == 7 else "dim_param", size)
    trainer = Trainer(text, loss="causal_lm")
    with pytest.raises(DataError, match=r"rows of 128 tokens.*positions for 12.*--max-length 12"):
        trainer.open(Text(folder / "text.txt", folder / "tokenizer.json"))
    assert np.isfinite(trainer.fit(Text(folder / "text.txt", folder / "tokenizer.json", max_length=12), 1)[0]["loss"])
