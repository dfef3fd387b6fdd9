"""Pairs of answers as rows that stay together: what counts, what is refused, and training from the command line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Preferences, Trainer, add_lora
from onnxgrad.training.data import open_data
from tests.cli.command import command

tokenizers = pytest.importorskip("tokenizers")
FILE = Path(__file__).parents[2] / "data" / "llm_models" / "llama-fp32.onnx"
TEXTS = [{"prompt": "is it? ", "chosen": "yes", "rejected": "no, never", "margin": 0.5}, {"chosen": "aye", "rejected": "nay"}]
ASKED = [{"role": "user", "content": "hi?"}]
CHATS = [
    {"prompt": ASKED, "chosen": [{"role": "assistant", "content": "yes"}], "rejected": [{"role": "assistant", "content": "n"}]},
    {
        "chosen": [{"role": "assistant", "content": "old"}, *ASKED, {"role": "assistant", "content": "yes"}],
        "rejected": [{"role": "assistant", "content": "old"}, *ASKED, {"role": "assistant", "content": "no"}],
    },
]


@pytest.fixture
def folder(tmp_path):
    """With a tokenizer of the 256 bytes that the model has words for"""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([], tokenizers.trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False))
    made.save(str(tmp_path / "tokenizer.json"))
    shutil.copy(FILE, tmp_path / "model.onnx")
    return tmp_path


def opened(folder, lines, **options):
    (folder / "pairs.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return Preferences(folder / "pairs.jsonl", folder / "tokenizer.json", **options)


def learned(folder, data):
    """What counts of each row, as text"""
    made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    columns = open_data(data, ["input_ids", "labels", "margin"])
    batch = columns.take(np.arange(len(columns)))
    return [made.decode([int(w) for w in row if w != -100]) for row in batch["labels"]], columns


def test_answers_follow_each_other(folder):
    texts, columns = learned(folder, opened(folder, TEXTS))
    assert texts == ["yes", "no, never", "aye", "nay"]
    assert columns.together == 2 and columns.column("margin").tolist() == [0.5, 0.5, 0, 0]
    short = columns.take(np.array([2, 3]))
    assert short["input_ids"].shape == (2, 8) and short["attention_mask"].sum(1).tolist() == [3, 3]
    for batch in columns.batches(2, seed=3):
        assert len(batch["labels"]) == 2 and batch["margin"][0] == batch["margin"][1]


def test_of_chats_the_last_turn_counts(folder):
    texts, _ = learned(folder, opened(folder, CHATS))
    assert [text.replace("<|im_end|>", "").strip() for text in texts] == ["yes", "n", "yes", "no"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"prompt": "a", "chosen": "b"}, "line 1 .*: 'rejected' is NoneType"),
        ({"prompt": "a", "chosen": ASKED, "rejected": ASKED}, "both are texts, or both lists"),
        ({"chosen": "ab", "rejected": "cd", "margin": "much"}, "margin is a number, not 'much'"),
        ({"prompt": "a" * 9, "chosen": "b", "rejected": "c"}, "holds no pair of answers with tokens that count"),
    ],
)
def test_what_is_no_pair_is_named(folder, line, said):
    with pytest.raises(DataError, match=said):
        opened(folder, [line], max_length=8)


def test_pairs_without_an_answer_are_left_out_and_named(folder):
    data = opened(folder, [*TEXTS, {"prompt": "a" * 20, "chosen": "b", "rejected": "c"}], max_length=20)
    assert len(data) == 4 and "1 of 3 pairs of pairs.jsonl have no token that counts in the loss" in " ".join(data.remarks)
    with pytest.raises(ArgumentError, match=r"pairs of answers are read from \.jsonl files"):
        Preferences(folder / "pairs.csv", folder / "tokenizer.json")


def test_dpo_prefers_what_was_chosen(folder):
    """From a loss of log 2, as nothing differs from the reference at first; which is computed once"""
    program = og.from_onnx(folder / "model.onnx")
    names = add_lora(program, "all", rank=2)
    data = opened(folder, TEXTS, reference=folder / "model.onnx")
    trainer = Trainer(program, loss="dpo", trainable=names, learning_rate=0.01)
    history = trainer.fit(data, epochs=6, batch_size=4, shuffle=False)
    assert history[0]["loss"] == pytest.approx(np.log(2), abs=1e-5)
    assert history[-1]["loss"] < 0.4
    measured = data._measured
    trainer.evaluate(data)
    assert data._measured is measured
    with pytest.raises(DataError, match=r"Give Preferences\(reference=\)"):
        trainer.evaluate(opened(folder, TEXTS))


def test_from_the_command_line(folder):
    """A DPO run, resumed and exported; and a reward model, which is a head for the last token"""
    opened(folder, TEXTS * 2)
    on = ("--data", folder / "pairs.jsonl", "--tokenizer", folder / "tokenizer.json", "--batch-size", "4", "--lr", "0.01")
    said = command("train", folder / "model.onnx", *on, "--loss", "dpo", "--beta", "0.3", "--lora", "2", "--epochs", "2",
                   "--label-smoothing", "0.1", "--out", folder / "run")  # fmt: skip
    assert "loss" in said
    command("train", "--resume", folder / "run", "--more-epochs", "1")
    losses = [json.loads(line)["loss"] for line in (folder / "run" / "history.jsonl").read_text().splitlines()]
    losses = [loss for loss in losses if loss is not None]
    assert len(losses) == 3 and losses[-1] < 0.7 * losses[0] < 0.6
    command("export", folder / "run", "--inference", folder / "tuned.onnx")
    head = ("--loss", "bradley_terry", "--head", "1", "--pool", "last")
    command("train", folder / "model.onnx", *on, *head, "--epochs", "4", "--out", folder / "reward")
    command("export", folder / "reward", "--inference", folder / "reward.onnx")
    program = og.from_onnx(folder / "reward.onnx")
    assert [v.rank for v in program.outputs] == [2]
    said = command("train", folder / "model.onnx", *on, "--loss", "dpo", "--pack", "--out", folder / "no", code=2)
    assert "--pack puts texts into one row" in said
