"""Pairs, triplets and scored pairs of texts: how tables are read, and rows that stay together."""

import json

import numpy as np
import pytest

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Term, Texts, Trainer
from onnxgrad.training.data.kinds.groups import rows_together
from onnxgrad.training.data.rows import Columns
from onnxgrad.training.data.splitting import split
from tests.cli.command import command

tokenizers = pytest.importorskip("tokenizers")
WORDS = ["[PAD]", "[UNK]", "port", "left", "aft", "behind", "deck", "floor", "galley", "kitchen", "wet", "dry", "hot", "cold"]
SAME = [("port", "left"), ("aft", "behind"), ("deck", "floor"), ("galley", "kitchen")]
PAIRS = [(f"{a} {state}", f"{b} {state}") for a, b in SAME for state in ("wet", "dry", "hot", "cold")]


@pytest.fixture
def folder(tmp_path):
    """With a tokenizer of words, an encoder of tokens, and tables of pairs, triplets and scored pairs"""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    write(tmp_path / "pairs.jsonl", [{"query": a, "document": b} for a, b in PAIRS])
    others = [PAIRS[(i + 5) % len(PAIRS)][1] for i in range(len(PAIRS))]
    write(
        tmp_path / "triplets.jsonl", [{"anchor": a, "positive": b, "negative": c} for (a, b), c in zip(PAIRS, others, strict=True)]
    )
    scored = [(a, b, 0.9) for a, b in PAIRS] + [(a, c, 0.1) for (a, _), c in zip(PAIRS, others, strict=True)]
    write(tmp_path / "scored.jsonl", [{"sentence1": a, "sentence2": b, "score": s} for a, b, s in scored])
    write_encoder(tmp_path / "m.onnx")
    return tmp_path


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_encoder(path):
    """Vectors of tokens [batch, steps, 8]"""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        ids, mask = (static.data(name, ["batch", "steps"], "int64") for name in ("input_ids", "attention_mask"))
        vectors = F.embedding(ids, static.create_parameter([len(WORDS), 8], "float32", name="table"))
        hidden = vectors * mask.astype("float32").unsqueeze(-1)
    hidden.name = "hidden"
    static.Executor().run(startup)
    program.global_block().outputs.append(hidden)
    og.save_onnx(program, path)


def trainer_of(folder, loss, **options):
    return Trainer(folder / "m.onnx", loss=Term(loss, "hidden.mean(attention_mask)"), learning_rate=0.05, **options)


def opened(folder, file, loss, validation=None, **options):
    trainer = trainer_of(folder, loss)
    return trainer, *trainer.open(Texts(folder / file, folder / "tokenizer.json", **options), validation)


def texts_of(batch):
    return [" ".join(WORDS[i] for i in row if i) for row in batch["input_ids"]]


def test_each_pair_becomes_two_rows_of_one_group(folder):
    trainer, data, _ = opened(folder, "pairs.jsonl", "info_nce")
    assert (len(data), data.together) == (32, 2)
    batch = data.take(np.arange(4))
    assert texts_of(batch) == ["port wet", "left wet", "port dry", "left dry"]
    assert batch["target"].tolist() == [0, 0, 1, 1] and batch["target"].dtype == np.int64
    assert any("'query', 'document' mean the same" in remark for remark in trainer.remarks)


def test_each_triplet_becomes_three_rows_and_a_negative_that_is_an_answer_elsewhere_is_none_here(folder):
    _, data, _ = opened(folder, "triplets.jsonl", "info_nce")
    assert (len(data), data.together) == (48, 3)
    batch = data.take(np.arange(3))
    assert texts_of(batch) == ["port wet", "left wet", "behind dry"]
    assert batch["target"].tolist() == [0, 0, 5]
    write(folder / "own.jsonl", [{"anchor": "port", "positive": "left", "negative": "cold"}] * 2)
    _, data, _ = opened(folder, "own.jsonl", "triplet")
    assert data.column("target").tolist() == [0, 0, -1, 0, 0, -2]


def test_scored_pairs_have_their_score_twice(folder):
    _, data, _ = opened(folder, "scored.jsonl", "cosine_pairs")
    assert (len(data), data.together) == (64, 2)
    np.testing.assert_allclose(data.column("target")[[0, 1, 62, 63]], [0.9, 0.9, 0.1, 0.1])


def test_pairs_that_share_a_text_are_one_group_also_through_others(folder):
    rows = [("port", "left"), ("deck", "floor"), ("hot", "left"), ("hot", "behind")]
    write(folder / "shared.jsonl", [{"anchor": a, "positive": b} for a, b in rows])
    trainer, data, _ = opened(folder, "shared.jsonl", "info_nce")
    assert data.column("target").tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert any("2 rows of shared.jsonl share a text with an earlier one" in remark for remark in trainer.remarks)


@pytest.mark.parametrize("batch_size", [8, 9])
@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_hold_whole_pairs_in_an_order_that_the_seed_decides(folder, batch_size, shuffle):
    _, data, _ = opened(folder, "pairs.jsonl", "info_nce")
    batches = [batch["target"] for batch in data.batches(batch_size, shuffle=shuffle, seed=3)]
    assert [len(batch) for batch in batches] == [8] * 4 and data.count(batch_size) == 4
    for batch in batches:
        np.testing.assert_array_equal(batch[0::2], batch[1::2])
    order = np.concatenate(batches)[0::2].tolist()
    assert sorted(order) == list(range(16)) and (order == list(range(16))) is not shuffle
    again = [batch["target"].tolist() for batch in data.batches(batch_size, shuffle=shuffle, seed=3, skip=1)]
    assert again == [batch.tolist() for batch in batches[1:]]


def test_a_last_batch_and_a_batch_too_small(folder):
    _, data, _ = opened(folder, "triplets.jsonl", "info_nce")
    assert [len(batch["target"]) for batch in data.batches(32)] == [30, 18]
    assert (data.count(32, drop_last=True), data.examples(32, drop_last=True)) == (1, 30)
    with pytest.raises(ArgumentError, match=r"3 rows of the data stay together.*not 2"):
        next(data.batches(2))


def test_pairs_are_held_out_as_pairs(folder):
    _, train, held_out = opened(folder, "pairs.jsonl", "info_nce", 0.25)
    assert (len(train), len(held_out), train.together, held_out.together) == (24, 8, 2, 2)
    for part in (train, held_out):
        column = part.column("target")
        np.testing.assert_array_equal(column[0::2], column[1::2])
    assert not set(train.column("target").tolist()) & set(held_out.column("target").tolist())


def test_what_a_row_has_besides_is_repeated_for_each_of_its_texts(folder):
    lines = [json.loads(line) for line in (folder / "scored.jsonl").read_text().splitlines()]
    write(folder / "more.jsonl", [{**line, "own": [i, 2 * i]} for i, line in enumerate(lines)])
    write_encoder(folder / "m.onnx")
    loss = [Term("cosine_pairs", "hidden.mean(attention_mask)"), Term("mse", "hidden.mean(attention_mask)[:, :2]", "own", 0.1)]
    trainer = Trainer(folder / "m.onnx", loss=loss)
    data, _ = trainer.open(Texts(folder / "more.jsonl", folder / "tokenizer.json"))
    assert data.column("own")[:4].tolist() == [[0, 0], [0, 0], [1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("loss", "numbers", "size"),
    [
        ("info_nce", [3, 3, 0, 0], 2),
        ("info_nce", [3, 3, -1, 0, 0, -2], 3),
        ("info_nce", [0, 1, 0, 1], 1),
        ("triplet", [0, 0, 0, 0, 1, 1, 1, 1], 1),
        ("triplet", [4, 4, 5, 5], 2),
        ("cross_entropy", [0, 0, 1, 1], 1),
        ("cosine_pairs", [1, 1], 2),
    ],
)
def test_arrays_show_which_rows_stay_together(loss, numbers, size):
    assert rows_together(loss, np.array(numbers)) == size


def test_arrays_of_pairs_are_shuffled_as_pairs(folder):
    trainer = trainer_of(folder, "cosine_pairs")
    arrays = {"input_ids": np.arange(2, 14).reshape(12, 1), "attention_mask": np.ones((12, 1), int)}
    source, _ = trainer.open({**arrays, "target": np.repeat(np.linspace(0, 1, 6), 2).astype("f4")})
    assert source.together == 2
    for batch in source.batches(4, seed=1):
        np.testing.assert_array_equal(batch["input_ids"][0::2] + 1, batch["input_ids"][1::2])
    with pytest.raises(DataError, match=r"not a multiple of that"):
        Columns({"x": np.ones(3)}, together=2)


def test_shuffled_halves_of_scored_pairs_are_refused(folder):
    trainer = trainer_of(folder, "cosine_pairs")
    batch = {"input_ids": np.full((4, 1), 2), "attention_mask": np.ones((4, 1), int)}
    with pytest.raises(DataError, match="rows 2 i and 2 i \\+ 1"):
        trainer.step({**batch, "target": np.array([0, 1, 0, 1], "f4")})
    with pytest.raises(DataError, match="the score 5; scores are cosines"):
        trainer.step({**batch, "target": np.array([0, 0, 5, 5], "f4")})


def test_a_batch_in_which_nothing_is_alike_is_said_once(folder):
    trainer = trainer_of(folder, "info_nce")
    batch = {"input_ids": np.full((4, 1), 2), "attention_mask": np.ones((4, 1), int), "target": np.arange(4)}
    with pytest.warns(UserWarning, match="no two rows of the first batch have the same 'target', so info_nce has no positive"):
        row = trainer.step(batch)
    assert row["loss"] == 0.0
    trainer.step(batch)


def test_splitting_rows_that_stay_together_needs_no_class():
    data = Columns({"x": np.arange(12)}, together=3)
    train, held_out, _ = split(data, 0.25)
    assert sorted(len(part) for part in (train, held_out)) == [3, 9]
    assert (held_out.column("x") // 3 == held_out.column("x")[0] // 3).all()


REFUSED = [
    ("info_nce", [{"text": "port", "other": "left"}], "has no column 'target'"),
    ("info_nce", [{"one": "port", "two": "left"}], r"no column.*name pairs 'anchor' and 'positive' \(--columns\)"),
    ("cosine_pairs", [{"text": "port", "score": 1.0}], r"reads pairs of texts.*--columns input_ids=A,B"),
    ("cosine_pairs", [{"sentence1": "port", "sentence2": "left"}], "has no column 'target'"),
    ("info_nce", [{"anchor": "port", "positive": "left"}, {"anchor": "aft", "positive": ""}], "row 2, column 'positive'"),
    ("info_nce", [{"anchor": "port", "positive": "left", "negative": "left"}], "row 1, column 'negative' holds the text"),
]


@pytest.mark.parametrize(("loss", "rows", "message"), REFUSED)
def test_what_is_missing_is_said(folder, loss, rows, message):
    write(folder / "bad.jsonl", rows)
    with pytest.raises(DataError, match=message):
        opened(folder, "bad.jsonl", loss)


def test_pairs_without_a_tokenizer_say_so(folder):
    with pytest.raises(DataError, match="is text, which needs a tokenizer"):
        trainer_of(folder, "info_nce").open(str(folder / "pairs.jsonl"))


def test_columns_of_other_names_are_named(folder):
    write(folder / "named.jsonl", [{"a": a, "b": b} for a, b in PAIRS])
    _, data, _ = opened(folder, "named.jsonl", "info_nce", columns={"input_ids": ["a", "b"]})
    assert data.together == 2 and texts_of(data.take(np.arange(2))) == ["port wet", "left wet"]


def test_texts_with_classes_are_what_they_were_for_these_losses(folder):
    """Rows of one class are positives of each other, wherever they stand"""
    write(folder / "classes.jsonl", [{"text": a, "label": a.split()[0]} for a, _ in PAIRS])
    _, data, _ = opened(folder, "classes.jsonl", "info_nce")
    assert (len(data), data.together) == (16, 1) and sorted(set(data.column("target").tolist())) == [0, 1, 2, 3]


def test_a_run_learns_synonyms_and_its_model_reads_single_texts(folder):
    words = ["--tokenizer", folder / "tokenizer.json"]
    rows = [{"query": a, "document": b} for a, b in PAIRS]
    write(folder / "train.jsonl", [row for i, row in enumerate(rows) if i % 4])
    write(folder / "val.jsonl", rows[::4])
    said = command(
        *(
            "train",
            folder / "m.onnx",
            "--data",
            folder / "train.jsonl",
            "--val",
            folder / "val.jsonl",
            *words,
            "--loss",
            "info_nce",
        ),
        *("--output", "hidden.mean(attention_mask)", "--temperature", "0.1", "--metric", "recall@1", "mrr", "--lr", "0.05"),
        *("--epochs", "30", "--no-report", "--out", folder / "run"),
    )
    assert "'query', 'document' mean the same" in said and "how the losses of parts" not in said
    after = json.loads(command("evaluate", folder / "run", "--data", folder / "val.jsonl", "--json"))
    history = (folder / "run" / "history.csv").read_text().splitlines()
    before = dict(zip(history[0].split(","), history[1].split(","), strict=True))
    assert float(before["val_recall@1"]) < 0.5 and after["recall@1"] == 1.0
    assert json.loads((folder / "run" / "data.json").read_text())["columns"]["input_ids"]["parts"] == ["query", "document"]
    command("export", folder / "run", "--inference", folder / "tuned.onnx")
    write(folder / "named.jsonl", [{"a": a, "b": b} for a, b in PAIRS[::4]])
    of_file = ("--loss", "info_nce", "--output", "hidden.mean(attention_mask)", "--metric", "recall@1")
    tuned = ("evaluate", folder / "tuned.onnx", "--data", folder / "named.jsonl", *words, *of_file)
    assert "recall@1 1" in command(*tuned, "--columns", "input_ids=a,b")
    assert "name pairs 'anchor' and 'positive' (--columns)" in command(*tuned, code=1)
    write(folder / "single.jsonl", [{"text": "port wet"}, {"text": "left wet"}])
    command("predict", folder / "tuned.onnx", "--data", folder / "single.jsonl", *words, "--out", folder / "said.npz")
    assert np.load(folder / "said.npz")["hidden"].shape[::2] == (2, 8)
