"""A language model tuned and exported from the command line, as the issue of its users goes: adapters beside int4 weights."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.cli.command import command

FILE = Path(__file__).parents[1] / "data" / "llm_models" / "llama-int4.onnx"


def feed(words):
    empty = {
        f"past_key_values.{i}.{part}": np.zeros((len(words), 2, 0, 16), np.float32) for i in range(2) for part in ("key", "value")
    }
    return {"input_ids": words, "attention_mask": np.ones_like(words), **empty}


def scores(path, words, options=None):
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    return onnxruntime.InferenceSession(path, quiet, providers=["CPUExecutionProvider"]).run(["logits"], feed(words), options)[0]


def loss(path, words):
    y = scores(path, words)[:, :-1].astype(np.float64)
    y -= y.max(-1, keepdims=True)
    y -= np.log(np.exp(y).sum(-1, keepdims=True))
    return -np.take_along_axis(y, words[:, 1:, None], -1).mean()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on words alone"""
    folder = tmp_path_factory.mktemp("llm")
    words = np.tile(np.arange(12), (8, 1)) + np.arange(8)[:, None] % 2
    np.savez(folder / "words.npz", input_ids=words)
    what = ("--lora", "4", "--on", "*q_proj*,*v_proj*,mlp", "--loss", "causal_lm", "--data", folder / "words.npz", "--lr", "0.02")
    said = command("train", FILE, *what, "--batch-size", "8", "--epochs", "6", "--explain", "--out", folder / "run")
    return folder, words, said


def test_training_says_what_it_makes_up_and_lowers_the_loss(run):
    _, _, said = run
    for text in ("past_key_values.* (4 inputs) are fed as an empty cache", "labels are input_ids", "'*q_proj*' names a part of"):
        assert said.count(text) == 1
    losses = [float(text) for text in re.findall(r"loss ([\d.]+)", said)]
    assert losses[-1] < losses[0] - 1


def test_exported_adapters_stay_beside_packed_weights(run):
    folder, words, _ = run
    command("export", folder / "run", "--inference", folder / "tuned.onnx")
    before, after = (onnx.load(path).graph for path in (FILE, folder / "tuned.onnx"))
    kinds = [Counter(n.op_type for n in graph.node) for graph in (before, after)]
    assert kinds[1] - kinds[0] == Counter(MatMul=16, Mul=8, Add=8) and not kinds[0] - kinds[1]
    assert [v.name for v in before.input] == [v.name for v in after.input]
    assert [v.name for v in before.output] == [v.name for v in after.output]
    assert loss(folder / "tuned.onnx", words) < loss(FILE, words) - 1


def test_merged_into_float_weights_or_rounded_again(run):
    folder, words, _ = run
    tuned = json.loads(command("export", folder / "run", "--merged", folder / "merged.onnx", "--json"))
    assert "notes" not in tuned
    said = command("export", folder / "run", "--merged", folder / "again.onnx", "--requantise")
    assert re.search(r"note: 8 weights are rounded to 4 bits again, with a relative error of [\d.]+ .* of the trained change", said)
    assert Counter(n.op_type for n in onnx.load(folder / "again.onnx").graph.node)["MatMulNBits"] == 11
    for name in ("merged", "again"):
        assert loss(folder / f"{name}.onnx", words) < loss(FILE, words) - 0.5
    assert "--requantise is for --merged" in command(
        "export", folder / "run", "--inference", folder / "x.onnx", "--requantise", code=2
    )


def test_adapters_for_onnxruntime(run):
    folder, words, _ = run
    command("export", folder / "run", "--inference", folder / "tuned.onnx")
    said = command("export", folder / "run", "--adapters", folder / "adapters.onnx_adapter")
    assert "adapters.onnx_adapter" in said and said.strip().endswith("adapters.onnx")
    np.testing.assert_array_equal(scores(folder / "adapters.onnx", words), scores(FILE, words))
    adapter, options = onnxruntime.LoraAdapter(), onnxruntime.RunOptions()
    adapter.Load(str(folder / "adapters.onnx_adapter"))
    options.add_active_adapter(adapter)
    found = scores(folder / "adapters.onnx", words, options)
    np.testing.assert_allclose(found, scores(folder / "tuned.onnx", words), rtol=1e-3, atol=1e-3)


def test_a_chat_is_learnt_and_the_run_resumes(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[UNK]": 0, "hello": 1, "who": 2, "me": 3, "<|im_start|>": 4}, "[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    turns = [{"role": "user", "content": "who"}, {"role": "assistant", "content": "hello me"}]
    (tmp_path / "chat.jsonl").write_text((json.dumps({"messages": turns}) + "\n") * 6)
    what = ["train", FILE, "--lora", "2", "--on", "attention", "--loss", "causal_lm", "--data", tmp_path / "chat.jsonl"]
    assert "is text, which needs a tokenizer" in command(*what, "--out", tmp_path / "no", code=1)
    what += ["--tokenizer", tmp_path / "tokenizer.json", "--max-length", "64", "--batch-size", "3", "--lr", "0.02"]
    said = command(*what, "--epochs", "2", "--pack", "--val", tmp_path / "chat.jsonl", "--out", tmp_path / "run")
    assert said.count("chats are formatted as ChatML") == 1
    losses = [float(text) for text in re.findall(r" val_loss ([\d.]+)", said)]
    assert losses[1] < losses[0]
    command("train", "--resume", tmp_path / "run", "--more-epochs", "1")
    with (tmp_path / "chat.jsonl").open("a") as file:
        file.write("\n")
    assert "has changed since the run" in command("train", "--resume", tmp_path / "run", "--more-epochs", "1", code=1)
