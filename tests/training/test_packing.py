"""Texts that share a row: each sees itself alone, so that the loss and its gradients are those of rows of their own."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxgrad as og
from onnxgrad.training import Text, Trainer, add_lora, mask_packed_texts
from onnxgrad.training.data.derived_inputs import DerivedInputs
from onnxgrad.training.surgery.packing import unmask_packed_texts

tokenizers = pytest.importorskip("tokenizers")
FOLDER = Path(__file__).parents[1] / "data" / "llm_models"
TEXTS = ["a cat", "the dog sat", "no", "four birds fly", "x" * 9]


@pytest.fixture
def files(tmp_path):
    """Texts, and a tokenizer of the 256 words that the models have"""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([], tokenizers.trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False))
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    return tmp_path / "texts.jsonl", tmp_path / "tokenizer.json"


def gradients(name, data, masks, **lora):
    """The loss of one batch and the gradients of adapters whose B is not 0"""
    program = og.from_onnx(str(FOLDER / f"{name}.onnx" if isinstance(name, str) else name))
    names = add_lora(program, "attention", rank=2, seed=4, **lora)
    rng = np.random.default_rng(2)
    for p in program.parameters:
        if p.name.endswith("lora_B"):
            p.set_value(rng.normal(0, 0.05, p.static_shape).astype(np.float32))
    if masks:
        mask_packed_texts(program)
    trainer = Trainer(program, loss="causal_lm", trainable=names, optimizer="sgd", learning_rate=1.0, seed=0)
    before = {p.name: p.get_value() for p in trainer.trained}
    loss = trainer.evaluate(data, batch_size=len(data))["loss"]
    trainer.fit(data, epochs=1, batch_size=len(data))
    return loss, {name: before[name] - p.get_value() for p in trainer.trained for name in [p.name]}, trainer


@pytest.mark.parametrize("name", ["llama-fp32", "qwen2-fp32", "llama-int4"])
def test_packed_and_unpacked_losses_and_gradients_are_equal(files, name):
    packed, apart = (Text(*files, max_length=32, pack=pack) for pack in (True, False))
    assert len(packed) < len(apart) == len(TEXTS)
    loss, slopes, _ = gradients(name, packed, masks=True)
    expected, wanted, _ = gradients(name, apart, masks=False)
    # int4 files round activations to 8 bits, by blocks of a row: the same for each token.
    assert loss == pytest.approx(expected, abs=1e-6)
    for key, value in wanted.items():
        assert slopes[key] == pytest.approx(value, abs=1e-6 * max(1.0, np.abs(value).max())), key
        assert np.abs(value).max() > 1e-4


def test_a_row_may_be_padded_by_more_than_the_model_has_positions_for(files):
    """llama-fp32 has 128; the second row holds two tokens, and 298 of padding"""
    files[0].write_text("\n".join(json.dumps({"text": text}) for text in ("x" * 100, "y" * 100, "z" * 100, "no")))
    packed, apart = (Text(*files, max_length=300, pack=pack) for pack in (True, False))
    assert [len(row.token_ids) for row in packed.rows] == [300, 2]
    loss, expected = gradients("llama-fp32", packed, masks=True)[0], gradients("llama-fp32", apart, masks=False)[0]
    assert loss == pytest.approx(expected, abs=1e-6)


def test_queries_that_are_normalised_are_rotated_behind_that(files, tmp_path):
    """By q_norm_weight, as in files for GPUs, whose numbers differ within a head; and the export has it again"""
    model = onnx.load(FOLDER / "llama-fp32.onnx")
    for name in ("q_norm", "k_norm"):
        weight = np.random.default_rng(len(name)).uniform(0.3, 2, 16).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    for node in model.graph.node:
        if node.op_type == "GroupQueryAttention":
            node.input.extend([""] * (14 - len(node.input)) + ["q_norm", "k_norm"])
            node.attribute.append(onnx.helper.make_attribute("qk_norm_epsilon", 1e-5))
    onnx.save(model, tmp_path / "normalised.onnx")
    packed, apart = (Text(*files, max_length=32, pack=pack) for pack in (True, False))
    loss, slopes, trainer = gradients(tmp_path / "normalised.onnx", packed, masks=True)
    expected, wanted, _ = gradients(tmp_path / "normalised.onnx", apart, masks=False)
    assert loss == pytest.approx(expected, abs=1e-6)
    for key, value in wanted.items():
        assert slopes[key] == pytest.approx(value, abs=1e-6 * max(1.0, np.abs(value).max())), key
    trainer.export(tmp_path / "tuned.onnx")
    tuned = [node for node in onnx.load(tmp_path / "tuned.onnx").graph.node if node.op_type == "GroupQueryAttention"]
    before = [node for node in model.graph.node if node.op_type == "GroupQueryAttention"]
    assert [list(node.input) for node in tuned] == [list(node.input) for node in before]


def test_without_the_mask_packed_rows_are_refused(files):
    with pytest.raises(og.errors.DataError, match=r"mask_packed_texts\(program\)"):
        gradients("llama-fp32", Text(*files, max_length=32, pack=True), masks=False)


def test_rows_of_one_text_are_as_without_the_mask(files):
    apart = Text(*files, max_length=32)
    assert gradients("llama-fp32", apart, masks=True)[0] == pytest.approx(gradients("llama-fp32", apart, masks=False)[0], abs=1e-6)


def test_the_export_is_as_the_file_was(files, tmp_path):
    _, _, trainer = gradients("llama-fp32", Text(*files, max_length=32, pack=True), masks=True)
    trainer.export(tmp_path / "tuned.onnx")
    before, after = (onnx.load(path).graph for path in (FOLDER / "llama-fp32.onnx", tmp_path / "tuned.onnx"))
    assert [v.name for v in after.input] == [v.name for v in before.input]
    assert [(node.op_type, [*node.input][3:]) for node in after.node if node.op_type == "GroupQueryAttention"] == [
        (node.op_type, [*node.input][3:]) for node in before.node if node.op_type == "GroupQueryAttention"
    ]
    assert len(after.node) == len(before.node) and len(after.initializer) == len(before.initializer)


def test_positions_begin_anew_with_each_text():
    text = (
        '<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids, int64[N, S] position_ids, int64[N, S] packed_text_ids)'
        " => (int64[N, S] y) { z = Add(input_ids, position_ids) y = Add(z, packed_text_ids) }"
    )
    derived = DerivedInputs(og.from_onnx(onnx.parser.parse_model(text)))
    texts = np.array([[0, 0, 1, -1, -1, -1], [0, 0, 0, 0, 1, 2]])
    batch = derived.complete({"input_ids": np.ones((2, 6), np.int64), "packed_text_ids": texts})
    assert batch["position_ids"].tolist() == [[0, 1, 0, 0, 0, 0], [0, 1, 2, 3, 0, 0]]
    assert (derived.complete({"input_ids": np.ones((2, 6), np.int64)})["packed_text_ids"] == 0).all()


def test_models_that_mix_tokens_in_another_way_are_refused():
    scores = "s = MatMul(x, x) y = Softmax(s)"
    for body, said in (
        (scores, "no GroupQueryAttention"),
        (f"{scores} c = CumSum(input_ids, one)", "CumSum.*tokens of a packed row"),
    ):
        text = f'<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids, float[3, 3] x) => (float[3, 3] y) <int64 one = {{1}}> {{ {body} }}'
        with pytest.raises(og.errors.ModelError, match=said):
            mask_packed_texts(og.from_onnx(onnx.parser.parse_model(text)))
    program = og.from_onnx(str(FOLDER / "llama-fp32.onnx"))
    count = len(program.global_block().ops)
    mask_packed_texts(program)
    with pytest.raises(og.errors.ModelError, match="attention_bias already"):
        mask_packed_texts(program)
    unmask_packed_texts(program)
    assert len(program.global_block().ops) == count and "packed_text_ids" not in [v.name for v in program.inputs]
