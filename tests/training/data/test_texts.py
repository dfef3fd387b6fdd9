"""Tables of texts with labels, read with a tokenizer; what the report shows of them."""

import json

import numpy as np
import pytest

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Text, Texts, Trainer
from onnxgrad.training.report.examples import judge_examples
from tests.cli.command import command

tokenizers = pytest.importorskip("tokenizers")
ROWS = [("a fine film", "good"), ("fine fine", "good"), ("a bad film with no end", "bad"), ("bad", "bad")] * 5
WORDS = ["[PAD]", "[UNK]", "a", "fine", "bad", "film", "with", "no", "end"]


@pytest.fixture
def folder(tmp_path):
    """With a tokenizer of words, a table of texts and a classifier that reads words and mask"""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "data.jsonl").write_text("".join(json.dumps({"text": t, "label": k}) + "\n" for t, k in ROWS))
    write_classifier(tmp_path / "m.onnx")
    return tmp_path


def write_classifier(path, words="input_ids", mask="attention_mask", steps=None):
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        ids, shown = (static.data(name, ["batch", steps], "int64") for name in (words, mask))
        vectors = F.embedding(ids, static.create_parameter([len(WORDS), 6], "float32", name="table"))
        kept = shown.astype("float32").unsqueeze(-1)
        logits = static.nn.fc((vectors * kept).sum(axis=1) / kept.sum(axis=1), size=2)
    logits.name = "logits"
    static.Executor().run(startup)
    program.global_block().outputs.append(logits)
    og.save_onnx(program, path)


def opened(folder, model="m.onnx", **options):
    trainer = Trainer(folder / model, loss="cross_entropy", target="label", metrics=["accuracy"])
    return trainer, trainer.open(Texts(folder / "data.jsonl", folder / "tokenizer.json", **options))[0]


def test_texts_become_words_and_mask_of_one_length(folder):
    _, data = opened(folder)
    batch = data.take(np.array([0, 2]))
    np.testing.assert_array_equal(batch["input_ids"], [[2, 3, 5, 0, 0, 0, 0, 0], [2, 4, 5, 6, 7, 8, 0, 0]])
    np.testing.assert_array_equal(batch["attention_mask"], [[1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0]])
    np.testing.assert_array_equal(batch["label"], [1, 0])
    assert data.classes == {"label": ["bad", "good"]}


def test_long_texts_are_cut_and_said(folder):
    _, data = opened(folder, max_length=4)
    assert data.take(np.arange(3))["input_ids"].tolist() == [[2, 3, 5, 0], [3, 3, 0, 0], [2, 4, 5, 6]]
    assert "5 of 20 texts of data.jsonl are cut to 4 tokens." in data.remarks


def test_fixed_length_and_other_names_of_inputs_are_the_models(folder):
    write_classifier(folder / "fixed.onnx", "input.1", "input_mask", 5)
    _, data = opened(folder, "fixed.onnx")
    batch = data.take(np.array([2]))
    assert {name: array.tolist() for name, array in batch.items()} == {
        "input.1": [[2, 4, 5, 6, 7]],
        "input_mask": [[1, 1, 1, 1, 1]],
        "label": [0],
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": "", "label": "bad"}, r"row 21, column 'text' holds '', which is not text"),
        ({"text": 3, "label": "bad"}, r"row 21, column 'text' holds 3"),
        ({"text": "fine"}, r"row 21, column 'label' is empty"),
    ],
)
def test_rows_that_cannot_be_used_are_named(folder, line, message):
    with (folder / "data.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(DataError, match=message):
        opened(folder)


def test_column_of_text_must_be_known(folder):
    (folder / "data.jsonl").write_text('{"one": "a", "two": "b", "label": "bad"}\n')
    with pytest.raises(DataError, match=r"no column of data\.jsonl is known to be the text"):
        opened(folder)


def test_model_without_words_is_refused(folder):
    trainer = Trainer("models/digits/digits.onnx", loss="cross_entropy", target="label")
    with pytest.raises(DataError, match=r"no input is found that takes tokens.*'image'"):
        trainer.open(Texts(folder / "data.jsonl", folder / "tokenizer.json"))


@pytest.mark.parametrize("bad", [{"max_length": 0}, {"path": "notes.txt"}])
def test_arguments_are_checked(folder, bad):
    with pytest.raises(ArgumentError, match=r"max_length is at least 1|texts with labels are read from"):
        Texts(bad.pop("path", folder / "data.jsonl"), folder / "tokenizer.json", **bad)


def test_report_shows_the_texts_of_its_examples(folder):
    trainer, data = opened(folder)
    trainer.fit(data, 2, data, batch_size=4, verbose=False)
    found = judge_examples(trainer, data, 4)
    shown = {example["number"]: example for example in [*found["worst"], *found["best"]]}
    assert {i: (e["row"], e["target"]) for i, e in shown.items()} == {i: ([["input_ids", ROWS[i][0]]], ROWS[i][1]) for i in shown}


def test_report_shows_what_a_language_model_should_say_and_says(folder):
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        ids = static.data("input_ids", ["batch", "steps"], "int64")
        vectors = F.embedding(ids, static.create_parameter([len(WORDS), 16], "float32", name="table"))
        program.global_block().outputs.append(static.nn.fc(vectors, size=len(WORDS), num_flatten_dims=2))
    static.Executor().run(startup)
    (folder / "lm.jsonl").write_text('{"prompt": "a fine ", "completion": "film"}\n' * 8)
    data = Text(folder / "lm.jsonl", folder / "tokenizer.json")
    trainer = Trainer(program, loss="causal_lm", learning_rate=0.1)
    trainer.fit(data, 10, batch_size=4, verbose=False)
    example = judge_examples(trainer, data, 4)["best"][0]
    assert example["row"] == [["input_ids", "a fine film"]]
    assert (example["target"], example["predicted"]) == ("film", "film")


def test_command_trains_judges_and_predicts_from_texts(folder):
    given = ("--tokenizer", folder / "tokenizer.json")
    run = ("--loss", "cross_entropy", "--target", "label", "--metric", "accuracy", "--lr", "0.1", "--epochs", "8")
    command("train", folder / "m.onnx", "--data", folder / "data.jsonl", "--val", "0.2", *given, *run, "--out", folder / "run")
    assert "accuracy 1" in command("evaluate", folder / "run", "--data", folder / "data.jsonl")
    (folder / "new.jsonl").write_text('{"text": "a fine film"}\n{"text": "no end"}\n')
    command("predict", folder / "run", "--data", folder / "new.jsonl", "--out", folder / "said.csv")
    assert [line.split(",")[1] for line in (folder / "said.csv").read_text().splitlines()] == ["logits.class", "good", "bad"]


def test_another_tokenizer_than_the_one_of_the_training_is_refused(folder):
    given = ("--tokenizer", folder / "tokenizer.json")
    run = ("--loss", "cross_entropy", "--target", "label", "--epochs", "1", "--max-length", "6")
    command("train", folder / "m.onnx", "--data", folder / "data.jsonl", *given, *run, "--out", folder / "run")
    command("export", folder / "run", "--inference", folder / "out.onnx")
    recorded = og.from_onnx(folder / "out.onnx").metadata["onnxgrad.data"]
    assert '"tokenizer": "tokenizer.json"' in recorded and '"length": 6' in recorded and '"mask": "attention_mask"' in recorded
    judged = ("evaluate", folder / "out.onnx", "--data", folder / "data.jsonl", "--loss", "cross_entropy", "--target", "label")
    assert "are cut to 6 tokens" not in command(*judged, *given) and "becomes 6 tokens" in command(*judged, *given)
    other = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    other.add_tokens(["more"])
    other.save(str(folder / "other.json"))
    (folder / "lm.jsonl").write_text('{"text": "a fine film"}\n')
    for words in (
        judged,
        ("explain-text", folder / "out.onnx", "fine"),
        ("predict", folder / "run", "--data", folder / "lm.jsonl", "--out", "o.npz"),
    ):
        error = command(*words, "--tokenizer", folder / "other.json", code=1)
        assert "other.json: the model was trained with the tokenizer 'tokenizer.json' (sha256 " in error
