"""Texts that a language model goes on with: by its cache or without one, up to a stop, and from the command line."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnxgrad as og
from onnxgrad.training.data.derived_inputs import DerivedInputs
from onnxgrad.training.generation import Generator, questions_in
from tests.cli.command import command

tokenizers = pytest.importorskip("tokenizers")
FOLDER = Path(__file__).parents[1] / "data" / "llm_models"


def bytes_in(folder, extra=()):
    """A tokenizer of 256 bytes, and marks"""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([], tokenizers.trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False))
    made.add_special_tokens(list(extra))
    made.save(str(folder / "tokenizer.json"))
    return made


def greedy(path, token_ids, count):
    """The likeliest tokens, the whole text computed again for each"""
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, quiet, providers=["CPUExecutionProvider"])
    every = list(token_ids)
    for _ in range(count):
        words = np.array([every])
        empty = {v.name: np.zeros((1, 2, 0, 16), np.float32) for v in session.get_inputs() if v.name.startswith("past")}
        (scores,) = session.run(["logits"], {"input_ids": words, "attention_mask": np.ones_like(words), **empty})
        every.append(int(scores[0, -1].argmax()))
    return every[len(token_ids) :]


@pytest.mark.parametrize("name", ["llama-fp32", "qwen2-fp32", "llama-int4"])
def test_a_cache_gives_what_the_whole_text_gives(tmp_path, name):
    made = bytes_in(tmp_path)
    path = FOLDER / f"{name}.onnx"
    generator = Generator(og.from_onnx(str(path)), tmp_path / "tokenizer.json")
    assert generator.is_cached
    prompt = made.encode("Once upon a time").ids
    tokens = list(generator._tokens(prompt, 20, 0.0, 1.0, np.random.default_rng(0)))
    assert tokens == greedy(path, prompt, 20)


def test_a_file_for_gpus_goes_on_by_its_cache(tmp_path):
    """Whose attention the CPU has no kernel for, as it normalises queries: in the forms that training uses"""
    made = bytes_in(tmp_path)
    program = og.from_onnx(str(FOLDER.parent / "built_models" / "qwen3-int4-webgpu.onnx"))
    generator = Generator(program, tmp_path / "tokenizer.json")
    prompt = made.encode("Once upon").ids
    tokens = list(generator._tokens(prompt, 8, 0.0, 1.0, np.random.default_rng(0)))
    every, derived = list(prompt), DerivedInputs(program)
    for _ in range(8):
        feed = derived.complete({"input_ids": np.array([every])})
        (scores,) = og.Executor().run(program, {v.name: feed[v.name] for v in program.inputs}, ["logits"])
        every.append(int(scores[0, -1].argmax()))
    assert generator.is_cached and tokens == every[len(prompt) :]


def chain(folder, follows, extra=()):
    """A model without a cache in which each character is followed by one: {"a": "b"}"""
    made = bytes_in(folder, extra)
    size = made.get_vocab_size()
    table = np.zeros((size, size), np.float32)
    for before, after in follows.items():
        ids = [made.encode(text).ids for text in (before, after)]
        table[ids[0][-1], ids[1][0]] = 9
    words = helper.make_tensor_value_info("input_ids", 7, ["N", "S"])
    scores = helper.make_tensor_value_info("logits", 1, ["N", "S", size])
    node = helper.make_node("Gather", ["table", "input_ids"], ["logits"])
    graph = helper.make_graph([node], "chain", [words], [scores], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    return Generator(og.from_onnx(str(folder / "model.onnx")), folder / "tokenizer.json", folder)


def test_without_a_cache_up_to_a_stop_or_an_end(tmp_path):
    generator = chain(tmp_path, {"a": "b", "b": "c", "c": "d", "d": "a", "x": "<end>"}, ["<end>"])
    assert not generator.is_cached
    assert "".join(generator.go_on("a", max_tokens=6)) == "bcdabc"
    pieces = list(generator.go_on("a", max_tokens=60, stop=["da", "zz"]))
    assert pieces == ["b", "c"]
    assert "".join(generator.go_on("a", max_tokens=3, stop=["dz"])) == "bcd"
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [generator._number("<end>")]}))
    ended = Generator(og.from_onnx(str(tmp_path / "model.onnx")), tmp_path / "tokenizer.json", tmp_path)
    assert list(ended.go_on("x", max_tokens=9)) == []
    for options in ({"top_p": 0.0}, {"temperature": -1.0}, {"max_tokens": 0}, {"stop": [""]}):
        with pytest.raises(og.errors.ArgumentError):
            ended.go_on("x", **options)
    with pytest.raises(og.errors.ArgumentError, match="no token"):
        ended.go_on("")


def test_a_character_of_several_tokens_is_written_whole(tmp_path):
    generator = chain(tmp_path, {})
    made = generator._tokenizer
    pieces = list(generator._written(iter(made.encode("añ€b").ids), set(), ()))
    assert pieces == ["a", "ñ", "€", "b"]


def test_what_is_drawn_depends_on_seed_temperature_and_share(tmp_path):
    generator = chain(tmp_path, {"a": "b"})
    hot = ["".join(generator.go_on("a", max_tokens=12, temperature=3.0, seed=seed)) for seed in (1, 1, 2)]
    assert hot[0] == hot[1] != hot[2]
    assert "".join(generator.go_on("a", max_tokens=1, temperature=3.0, top_p=0.01, seed=5)) == "b"


def test_a_chat_ends_where_its_turns_end(tmp_path):
    marks = ["<|im_start|>", "<|im_end|>"]
    generator = chain(tmp_path, {"\n": "h", "h": "i", "i": "<|im_end|>"}, marks)
    assert generator.template.turn_end() == "<|im_end|>"
    assert "".join(generator.answer({"messages": [{"role": "user", "content": "?"}]}, max_tokens=9)) == "hi"


def test_models_that_are_none(tmp_path):
    bytes_in(tmp_path)
    for text, said in (
        (
            "(int64[N, S] words) => (float[N, S, 5] logits) { z = Cast<to=1>(words) logits = Unsqueeze(z, zero) }",
            "no input 'input_ids'",
        ),
        ("(int64[N, S] input_ids) => (int64[N, S] y) { y = Neg(input_ids) }", "no output of logits"),
        ("(int64[N, S] input_ids, float[N] z) => (float[N] y) { y = Neg(z) }", "no output of logits|nothing is known"),
    ):
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17]> f {text.replace("{", "<int64[1] zero = {0}> {", 1)}'
        )
        with pytest.raises(og.errors.ModelError, match=said):
            Generator(og.from_onnx(model), tmp_path / "tokenizer.json")


def test_questions_of_a_file(tmp_path):
    lines = [
        {"text": "a"},
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "tools": []},
        {"prompt": "2 + 2 =", "completion": " 4"},
        {"messages": [{"role": "user", "content": "q"}]},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    first, second = questions_in(tmp_path / "a.jsonl", 5)
    assert first == ({"messages": lines[1]["messages"][:1], "tools": []}, "q", "a") and second == (None, "2 + 2 =", " 4")
    (tmp_path / "b.jsonl").write_text('{"text": "a"}')
    with pytest.raises(og.errors.DataError, match="no chat that ends with the assistant"):
        questions_in(tmp_path / "b.jsonl", 5)


def test_from_the_command_line(tmp_path):
    """An answer is learnt, and shown beside the one before; a second run goes on from the adapters of the first"""
    bytes_in(tmp_path)
    chat = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"}]
    (tmp_path / "chat.jsonl").write_text((json.dumps({"messages": chat}) + "\n") * 8)
    what = [
        "train",
        FOLDER / "llama-fp32.onnx",
        "--lora",
        "8",
        "--on",
        "all",
        "--loss",
        "causal_lm",
        "--data",
        tmp_path / "chat.jsonl",
    ]
    what += [
        "--tokenizer",
        tmp_path / "tokenizer.json",
        "--batch-size",
        "8",
        "--alpha",
        "16",
        "--rslora",
        "--pack",
        "--max-length",
        "256",
    ]
    said = command(*what, "--lr", "0.01", "--epochs", "40", "--compare", "1", "--out", tmp_path / "run", "--lora-dropout", "0.05")
    shown = {line.strip().split("  ")[0]: line for line in said.split("\n")[-8:] if "  " in line}
    assert "yes" in shown["after"] and "yes" not in shown["before"] and "yes" in shown["in the data"]
    assert "Answers before and after" in (tmp_path / "run" / "report.html").read_text()
    said = command("generate", tmp_path / "run", "--chat", "x", "--max-tokens", "40", "--json")
    assert json.loads(said)["text"] == "yes"
    assert (
        command("generate", tmp_path / "run", "--chat", tmp_path / "chat.jsonl", "--max-tokens", "3", "--stop", "s").strip() == "ye"
    )
    table = json.loads(command("evaluate", tmp_path / "run", "--data", tmp_path / "chat.jsonl", "--compare", "2", "--json"))
    assert [answer["after"] for answer in table["answers"]] == ["yes", "yes"] and table["loss"] < 3
    assert "no tokenizer" in command("generate", FOLDER / "llama-fp32.onnx", "--prompt", "x", code=2)
    on = [*what, "--lr", "1e-6", "--epochs", "1", "--adapter", tmp_path / "run"]
    command(*on, "--out", tmp_path / "more")
    more = json.loads(command("evaluate", tmp_path / "more", "--data", tmp_path / "chat.jsonl", "--json"))
    assert more["loss"] == pytest.approx(table["loss"], rel=0.05)
    assert "would adapt other weights" in command(*(word for word in on if word != "--rslora"), "--out", tmp_path / "no", code=2)
    assert "--alpha is for adapters" in command(
        *what[:2], "--data", tmp_path / "chat.jsonl", "--alpha", "2", "--out", tmp_path / "no", code=2
    )
