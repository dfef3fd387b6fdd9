"""Files of language models that hold a part of one: without a head, with the head of the last word, with rows in place of tokens."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Trainer
from tests.cli.command import command

LLAMA = Path(__file__).parents[1] / "data" / "llm_models" / "llama-int4.onnx"

RNG = np.random.default_rng(5)
HEADER = '<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids) => '
ROWS = np.tile(np.arange(6), (4, 1)) + np.arange(4)[:, None] % 2


def program(text, **weights):
    model = parse_model(text)
    for name, shape in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(RNG.normal(0, 0.3, shape).astype(np.float32), name))
    return og.from_onnx(model)


def test_a_file_without_its_head_is_said_to_be_that():
    """Its 8 hidden numbers were taken for the scores of 8 words, and words up to the eighth were learnt so"""
    headless = program(HEADER + "(float[N, S, 8] hidden_states) { h = Gather(table, input_ids) hidden_states = MatMul(h, w) }",
                       table=(30, 8), w=(8, 8))  # fmt: skip
    with pytest.raises(
        ArgumentError, match=r"'hidden_states' has 8 features for each token, not logits over the 30 tokens.*exclude_lm_head.*Build"
    ):
        Trainer(headless, loss="causal_lm")


def test_a_head_of_the_last_word_is_said_to_be_that():
    text = "(float[N, 1, 30] logits) <int64 last = {-1}, int64[1] one = {1}> { h = Gather(table, input_ids)"
    text += " l = Gather<axis = 1>(h, last) u = Unsqueeze(l, one) logits = MatMul(u, head) }"
    with pytest.raises(ArgumentError, match=r"'logits' has logits of the next token alone.*prune_lm_head=false"):
        Trainer(program(HEADER + text, table=(30, 8), head=(8, 30)), loss="causal_lm")


@pytest.mark.parametrize("words", [8, 30])
def test_whole_files_are_not_refused(words):
    """One with as many words as a row has numbers, too"""
    text = HEADER + f"(float[N, S, {words}] logits) {{ h = Gather(table, input_ids) logits = MatMul(h, head) }}"
    trainer = Trainer(program(text, table=(words, 8), head=(8, words)), loss="causal_lm")
    assert np.isfinite(trainer.step({"input_ids": ROWS})["loss"])


PART = """<ir_version: 8, opset_import: ["": 17]>
f (float[N, S, 8] inputs_embeds, int64[N, T] attention_mask, int64[3, N, S] position_ids) => (float[N, S, 30] logits)
{ p = Cast<to = 1>(position_ids) q = ReduceMean<axes = [0], keepdims = 0>(p) r = Unsqueeze(q, last)
  m = Cast<to = 1>(attention_mask) n = Unsqueeze(m, last) a = Add(inputs_embeds, r) b = Mul(a, n) logits = MatMul(b, head) }"""


def part():
    model = parse_model(PART)
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "last"))
    model.graph.initializer.append(numpy_helper.from_array(RNG.normal(0, 0.3, (8, 30)).astype(np.float32), "head"))
    return og.from_onnx(model)


def test_the_text_part_of_a_file_learns_from_rows_of_a_table():
    trainer = Trainer(part(), loss="causal_lm")
    rows = RNG.normal(size=(4, 6, 8)).astype(np.float32)
    steps = [trainer.step({"inputs_embeds": rows, "labels": ROWS})["loss"] for _ in range(5)]
    assert steps[-1] < steps[0]
    assert [text for text in trainer.remarks if "time, height and width are the positions of text" in text]
    completed = trainer.model.derived.complete({"inputs_embeds": rows})
    np.testing.assert_array_equal(completed["position_ids"], np.tile(np.arange(6), (3, 4, 1)))
    np.testing.assert_array_equal(completed["attention_mask"], np.ones((4, 6), np.int64))
    with pytest.raises(DataError, match=r"'inputs_embeds' has shape \[4, 6\], the model takes \[batch, steps, size\]"):
        trainer.step({"inputs_embeds": rows[..., 0], "labels": ROWS})


def test_tokens_in_place_of_rows_are_refused_with_the_way():
    with pytest.raises(DataError, match=r"has no column 'inputs_embeds'.*reads embeddings, which another file of it computes"):
        Trainer(part(), loss="causal_lm").fit({"input_ids": ROWS, "labels": ROWS}, epochs=1)


def test_positions_of_padded_text():
    mask = np.array([[0, 1, 1], [1, 1, 0]])
    derived = Trainer(part(), loss="causal_lm").model.derived
    found = derived.complete({"inputs_embeds": np.zeros((2, 3, 8), np.float32), "attention_mask": mask})["position_ids"]
    np.testing.assert_array_equal(found, np.stack([[[0, 0, 1], [0, 1, 1]]] * 3))


def test_parts_that_score_no_words_are_said_to_be_that(tmp_path):
    """Pictures and embeddings of a multimodal model, which were taken for a model without its head, or for any other"""
    text = "(float[N, S, 8] inputs_embeds) { inputs_embeds = Gather(table, input_ids) }"
    embeddings = program(HEADER + text, table=(30, 8))
    with pytest.raises(
        ArgumentError, match=r"'inputs_embeds' is not logits over the vocabulary: this file is the part .* that embeds tokens"
    ):
        Trainer(embeddings, loss="causal_lm")
    assert "the part of a model in several files that embeds tokens" in command("info", saved(tmp_path, embeddings))
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] pixel_values) => (float[N, 8] image_features)'
    pictures = program(text + " { image_features = MatMul(pixel_values, w) }", w=(4, 8))
    said = command("info", saved(tmp_path, pictures))
    assert "the part of a model in several files that makes image_features of pictures" in said
    assert "mse" in said  # by which it can be trained


def saved(tmp_path, program):
    path = tmp_path / "part.onnx"
    og.save_onnx(program, path)
    return path


def test_info_says_what_a_part_is_and_which_inputs_follow(tmp_path):
    headless = program(HEADER + "(float[N, S, 8] hidden_states) { h = Gather(table, input_ids) hidden_states = MatMul(h, w) }",
                       table=(30, 8), w=(8, 8))  # fmt: skip
    said = command("info", saved(tmp_path, headless))
    assert "the head is left out (exclude_lm_head)" in said and "causal_lm" not in said
    said = command("info", saved(tmp_path, part()))
    assert "attention_mask: int64[N, T]; 1 for each position of inputs_embeds, unless the data has it" in said
    assert "position_ids: int64[3, N, S]; counted from attention_mask, three times, as for text" in said
    assert "inputs_embeds are rows of the embedding table" in said
    said = command("info", LLAMA)
    assert "; an empty cache, a row for each row of input_ids, unless the data has it" in said and "causal_lm" in said


def test_check_judges_a_file_in_sixteen_bits(tmp_path):
    """Differences vanished in the kernels of onnxruntime, which stayed in 16 bits, and right gradients were called wrong"""
    from tests.core.runtime.test_agreement import halved

    onnx.save(halved(), tmp_path / "half.onnx")
    said = command("check", tmp_path / "half.onnx")
    assert re.search(r"numerical check: (\d+) of \1 right, 0 wrong, 0 cannot be resolved", said)


def test_check_leaves_out_what_onnxruntime_does_not_write(tmp_path):
    """The places of a window's cache behind the tokens hold what the memory held, and no gradient could be resolved"""
    model = onnx.load(LLAMA.with_name("llama-fp32.onnx"))
    for node in model.graph.node:
        if node.op_type == "GroupQueryAttention":
            window = {"local_window_size": 16, "sliding_window_cache": 1}
            kept = [attribute for attribute in node.attribute if attribute.name not in window]
            del node.attribute[:]
            node.attribute.extend(kept)
            node.attribute.extend(onnx.helper.make_attribute(*entry) for entry in window.items())
    for v in (*model.graph.input, *model.graph.output):
        if v.name.startswith(("past", "present")):
            v.type.tensor_type.shape.dim[2].Clear()
            v.type.tensor_type.shape.dim[2].dim_value = 16
    onnx.save(model, tmp_path / "window.onnx")
    said = command("check", tmp_path / "window.onnx", "--wrt", "*final_norm*")
    assert "numerical check: 1 of 1 right, 0 wrong, 0 cannot be resolved" in said
