"""Texts are tokenised, and examples of streams decoded, by one rank alone; batches and losses are those of one process."""

import json
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.distributed import run_local
from onnxgrad.distributed.environment import current, using
from onnxgrad.errors import DataError, TrainingError
from onnxgrad.training import Preferences, Shuffled, Table, Text, Texts, Trainer, add_lora
from onnxgrad.training.data import preferences
from onnxgrad.training.data.by_rank import gathered, own_share, reading_together
from onnxgrad.training.data.opening import open_data
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import _Pieces
from onnxgrad.training.ranks.ranks import ranks_of

_BUILDING = threading.Lock()
NET = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 3] y)
         <float[3, 2] w = {0.1, 0.2, -0.3, 0.4, 0.1, -0.2}> { y = Gemm<transB = 1>(x, w) }"""


def on_ranks(count, work):
    def one(transport):
        with using(transport):
            return work(transport)

    return run_local(count, one)


class Counting:
    """A tokenizer that counts the texts of each rank."""

    def __init__(self, tokenizer):
        self.tokenizer, self.texts = tokenizer, Counter()

    def encode_batch(self, texts, **options):
        self.texts[current().rank] += len(texts)
        return self.tokenizer.encode_batch(texts, **options)

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)


def save_tokenizer(path, marks=()):
    """Write a tokenizer of the 256 bytes, and of these marks."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=256 + len(marks), special_tokens=list(marks), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([], trainer)
    tokenizer.save(str(path))


@pytest.fixture
def folder(tmp_path):
    """With a tokenizer of bytes, and lines of texts of many lengths, chats and a completion."""
    save_tokenizer(tmp_path / "tokenizer.json", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    lines = [{"text": "ab" * (number % 7 + 1)} for number in range(17)]
    lines += [{"messages": [{"role": "user", "content": "a", "name": "b"}, {"role": "assistant", "content": "yes"}]}] * 4
    lines += [{"prompt": "1 + 1 =", "completion": " 2"}, {"text": "x" * 60}]
    (tmp_path / "data.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    (tmp_path / "data.txt").write_text("one text " * 9)
    (tmp_path / "data.csv").write_text("text,label\n" + "\n".join(f"{'ab' * (n % 5 + 1)},{n % 2}" for n in range(11)))
    return tmp_path


def as_lists(data):
    return [{name: values.tolist() for name, values in batch.items()} for batch in data.batches(4, seed=3, epoch=1)]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(("name", "pack", "texts"), [("data.jsonl", False, 23), ("data.jsonl", True, 23), ("data.txt", False, 1)])
def test_texts_are_tokenised_once(folder, name, pack, texts, count):
    alone = Text(folder / name, folder / "tokenizer.json", max_length=32, pack=pack)

    def work(transport):
        data = Text(folder / name, folder / "tokenizer.json", max_length=32, pack=pack)
        data._tokenizer = Counting(data._tokenizer)
        for _ in range(2):  # the second time there is nothing to do
            with reading_together(transport):
                open_data(data, ["input_ids"])
        return as_lists(data), list(data.remarks), data._tokenizer.texts

    ranks = on_ranks(count, work)
    tokenised = [found.total() for _, _, found in ranks]
    assert sum(tokenised) == texts and max(tokenised) <= -(-texts // count) + 6
    for batches, remarks, _ in ranks:
        assert batches == as_lists(alone) and remarks == alone.remarks


def test_a_column_of_texts_is_tokenised_once(folder):
    variables = {v.name: v for v in text_inputs()}
    wanted = DataSpec([*variables, "label"], variables, ["label"])

    def work(transport=None):
        texts = Texts(folder / "data.csv", folder / "tokenizer.json")
        texts.file.tokenizer = Counting(texts.file.tokenizer)
        with reading_together(transport):
            rows = open_data(texts, wanted)
        return as_lists(rows), list(rows.remarks), texts.file.tokenizer.texts.total()

    *alone, count = work()
    assert count == 11
    ranks = on_ranks(2, work)
    assert [found[:2] for found in map(list, ranks)] == [alone] * 2
    assert sorted(found[2] for found in ranks) == [5, 6]


def text_inputs():
    model = """<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids, int64[N, S] attention_mask) => (int64[N, S] y)
               { y = Add(input_ids, attention_mask) }"""
    return from_onnx(parse_model(model)).inputs


def test_each_rank_computes_the_reference_of_its_share_of_pairs(tmp_path, monkeypatch):
    """And DPO gives the losses of one process"""
    save_tokenizer(tmp_path / "tokenizer.json")
    file = Path(__file__).parents[1] / "data" / "llm_models" / "llama-fp32.onnx"
    pairs = [{"prompt": "is it? ", "chosen": "yes" * n, "rejected": "no", "margin": n / 8} for n in range(1, 6)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    computed = Counter()

    class Executor(preferences.Executor):
        def run(self, program, feed, *arguments):
            computed[current().rank] += len(next(iter(feed.values())))
            return super().run(program, feed, *arguments)

    monkeypatch.setattr(preferences, "Executor", Executor)

    def work(transport=None):
        with _BUILDING:
            program = from_onnx(file)
            names = add_lora(program, "all", rank=2)
            trainer = Trainer(
                program, loss="dpo", trainable=names, learning_rate=0.05, threads=1, distributed=transport is not None
            )
        data = Preferences(tmp_path / "pairs.jsonl", tmp_path / "tokenizer.json", reference=file, batch_size=4)
        history = trainer.fit(data, 2, batch_size=4, verbose=False)
        return data._measured, [row["loss"] for row in history]

    measured, losses = work()
    assert computed == {0: 10} and losses[1] < losses[0]
    computed.clear()
    for of_rank, losses_of_rank in on_ranks(2, work):
        np.testing.assert_allclose(of_rank, measured, rtol=1e-5)
        np.testing.assert_allclose(losses_of_rank, losses, rtol=1e-4)
    assert sum(computed.values()) == 10 and min(computed.values()) >= 2


def test_an_error_of_one_share_is_that_of_one_process_on_all_ranks(folder):
    (folder / "bad.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n{"text":\n')
    with pytest.raises(DataError, match="line 4") as alone:
        Text(folder / "bad.jsonl", folder / "tokenizer.json")

    def work(transport):
        data = Text(folder / "bad.jsonl", folder / "tokenizer.json")
        with pytest.raises(DataError) as caught, reading_together(transport):
            open_data(data, ["input_ids"])
        return str(caught.value)

    assert on_ranks(3, work) == [str(alone.value)] * 3


def test_ranks_that_fail_alone_or_read_other_data_are_named():
    def failing(transport):
        with pytest.raises(DataError) as caught, reading_together(transport):
            if transport.rank == 1:
                raise DataError("there is no file 'x'.")
            gathered(dict)
        return str(caught.value)

    named = "rank 1 of 3 cannot read the data: there is no file 'x'."
    assert on_ranks(3, failing) == [named, "there is no file 'x'.", named]

    def differing(transport):
        with pytest.raises(TrainingError) as caught, reading_together(transport):
            if transport.rank == 0:
                gathered(dict)
        return str(caught.value)

    assert on_ranks(2, differing) == ["ranks read other data than ranks 1. Give all ranks the same data."] * 2


def test_shares_cover_all_items_and_weigh_about_the_same():
    weights = [5, 0, 0, 1, 1, 9, 2, 2, 2, 2]

    def work(transport):
        with reading_together(transport):
            return list(own_share(weights)), list(own_share([])), list(own_share([0, 0]))

    shares, none, weightless = zip(*on_ranks(3, work), strict=True)
    assert [number for share in shares for number in share] == list(range(10)) and none == ([], [], [])
    assert [sum(weights[number] for number in share) for share in shares] == [7, 9, 8]
    assert sorted(number for share in weightless for number in share) == [0, 1]


# Streams -----------------------------------------------------------------------------------------------------------------


def write_table(path, count=41):
    rng = np.random.default_rng(0)
    rows = [{"a": float(a), "b": float(b), "label": "xyz"[n % 3]} for n, (a, b) in enumerate(rng.normal(size=(count, 2)).round(3))]
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    elif path.suffix == ".csv":
        path.write_text("a,b,label\n" + "".join(f"{row['a']},{row['b']},{row['label']}\n" for row in rows))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    return Table(path, stream=True, buffer=12, columns={"x": ["a", "b"], "t": ["label"]})


def net(is_distributed):
    with _BUILDING:
        return Trainer(parse_model(NET), loss="cross_entropy", target="t", learning_rate=0.1, threads=1, distributed=is_distributed)


@pytest.fixture
def decoded(monkeypatch):
    """How many rows of tables each rank has decoded."""
    counts = Counter()
    decode = _Pieces.decode

    def counted(self, rows):
        counts[current().rank] += len(next(iter(rows.values())))
        return decode(self, rows)

    monkeypatch.setattr(_Pieces, "decode", counted)
    monkeypatch.setattr("onnxgrad.training.data.readers._READ", 8)
    monkeypatch.setattr("onnxgrad.training.data.tables._AT_ONCE", 16)
    return counts


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_row_of_a_stream_is_decoded_by_the_rank_that_uses_it(tmp_path, suffix, decoded):
    """Two epochs of 41 rows in batches of 6, of which the last has 5; the run of one process, also from the middle of an epoch"""
    pytest.importorskip("pyarrow")
    table = write_table(tmp_path / f"t{suffix}")

    def work(transport=None):
        trainer = net(transport is not None)
        source = trainer.open(table)[0]
        before = decoded[current().rank]
        history = trainer.fit(source, 2, batch_size=6, prefetch=0, verbose=False)
        used = decoded[current().rank] - before
        order = {"seed": 4, "epoch": 1, "skip": 2}
        parts = [
            {name: array.tolist() for name, array in part.items()} for part in trainer.ranks.source(source).batches(6, **order)
        ]
        evaluated = trainer.evaluate(source, batch_size=6)["loss"]
        return [row["loss"] for row in history], used, parts, evaluated

    losses, used, batches, evaluated = work()
    assert used == 2 * 41
    decoded.clear()
    ranks = on_ranks(2, work)
    assert [found[1] for found in ranks] == [2 * (6 * 3 + 3), 2 * (6 * 3 + 2)]
    for found in ranks:
        np.testing.assert_allclose(found[0], losses, rtol=1e-5)
        assert found[3] == pytest.approx(evaluated, rel=1e-5)
    for batch, *parts in zip(batches, *(found[2] for found in ranks), strict=True):
        assert {name: [value for part in parts for value in part[name]] for name in batch} == batch


def test_what_the_user_decodes_is_decoded_by_the_rank_that_uses_it():
    seen = Counter()

    def decode(raw):
        seen[current().rank] += len(raw["number"])
        number = raw["number"].astype(np.float32)
        return {"x": np.stack([number, -number], axis=1), "t": raw["number"] % 3}

    pieces = [{"number": np.arange(start, start + 5)} for start in range(0, 20, 5)]

    def work(transport=None):
        trainer = net(transport is not None)
        before = seen[current().rank]
        history = trainer.fit(Shuffled(pieces, buffer=7, decode=decode), 1, batch_size=8, prefetch=0, verbose=False)
        return history[0]["loss"], seen[current().rank] - before

    loss, count = work()
    looked_at = count - 20
    seen.clear()
    ranks = on_ranks(2, work)
    assert [found[1] - looked_at for found in ranks] == [10, 10]
    assert [found[0] for found in ranks] == pytest.approx([loss] * 2, rel=1e-5)


def test_a_rank_alone_reads_alone():
    """As callbacks do, which are called on rank 0 alone"""

    def work(transport):
        trainer = net(True)
        assert trainer.ranks.readers is transport
        with trainer.ranks.rank0_only():
            return trainer.ranks.readers, ranks_of(False).readers

    assert on_ranks(2, work) == [(None, None)] * 2
