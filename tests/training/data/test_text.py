"""Text and chats as rows of words: what counts, how rows are cut, packed and padded, and how a chat is written."""

import json

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.training import Text

tokenizers = pytest.importorskip("tokenizers")
CHAT = [{"role": "user", "content": "héllo?"}, {"role": "assistant", "content": "yés"}, {"role": "user", "content": "a"}]
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture
def folder(tmp_path):
    """With a tokenizer of bytes"""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(
        [], tokenizers.trainers.BpeTrainer(vocab_size=259, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False)
    )
    made.enable_truncation(3)
    made.enable_padding(length=7)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def opened(folder, lines, name="data.jsonl", **options):
    text = lines if isinstance(lines, str) else "\n".join(json.dumps(line) for line in lines)
    (folder / name).write_text(text, encoding="utf-8")
    return Text(folder / name, folder / "tokenizer.json", **options)


def shown(folder, words):
    made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return made.decode([int(w) for w in words if w != -100], skip_special_tokens=False)


def whole(data, **options):
    (batch,) = data.batches(len(data), shuffle=False, **options)
    return batch


class TestWhatCounts:
    def test_all_of_a_text_and_its_end(self, folder):
        batch = whole(opened(folder, [{"text": "añb"}]))
        assert shown(folder, batch["labels"][0]) == "añb<|endoftext|>"
        assert batch["attention_mask"][0].tolist() == [1] * 5 + [0] * 3
        assert batch["labels"][0].tolist()[5:] == [-100] * 3

    def test_the_completion(self, folder):
        batch = whole(opened(folder, [{"prompt": "2 + 2 =", "completion": " 4"}]))
        assert shown(folder, batch["input_ids"][0][:10]) == "2 + 2 = 4<|endoftext|>"
        assert shown(folder, batch["labels"][0]) == " 4<|endoftext|>"

    def test_what_the_assistant_says_and_that_it_ends(self, folder):
        data = opened(folder, [{"messages": CHAT}])
        batch = whole(data)
        assert shown(folder, batch["labels"][0]) == "yés<|im_end|>\n"
        text = "<|im_start|>user\nhéllo?<|im_end|>\n<|im_start|>assistant\nyés<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        assert shown(folder, batch["input_ids"][0][batch["attention_mask"][0] == 1]) == text
        assert data.remarks == ["chats are formatted as ChatML: <|im_start|>role, the content, <|im_end|>."]

    def test_a_plain_text_is_cut_into_pieces(self, folder):
        data = opened(folder, "abcdefghijk", "data.txt", max_length=5)
        assert [shown(folder, row.labels) for row in data.rows] == ["abcde", "fghij"]


class TestTemplates:
    TEMPLATE = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )

    def write(self, folder, template=TEMPLATE, **more):
        config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": template, **more}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))

    def test_of_the_tokenizer(self, folder):
        pytest.importorskip("jinja2")
        self.write(folder)
        data = opened(folder, [{"messages": CHAT}, {"text": "b"}])
        assert [shown(folder, row.labels) for row in data.rows] == ["yés</s>", "b</s>"]
        assert data.remarks == ["chats are formatted by the template in tokenizer_config.json."]

    def test_in_a_file_of_its_own(self, folder):
        pytest.importorskip("jinja2")
        self.write(folder)
        (folder / "chat_template.jinja").write_text(
            self.TEMPLATE.replace("assistant", "model").replace("[{{", "({{").replace("}}]", "}})")
        )
        data = opened(folder, [{"messages": CHAT}])
        assert [shown(folder, row.labels) for row in data.rows] == ["yés</s>"]
        assert data.remarks == ["chats are formatted by the template in chat_template.jinja."]

    def test_without_jinja(self, folder, monkeypatch):
        self.write(folder)
        monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
        data = opened(folder, [{"messages": CHAT}])
        assert "<|im_start|>" in data.remarks[0] and "tokenizer_config.json needs the package jinja2" in data.remarks[0]

    def test_that_refuses(self, folder):
        pytest.importorskip("jinja2")
        self.write(folder, "{{ raise_exception('roles must alternate') }}")
        with pytest.raises(og.errors.DataError, match=r"line 1 .*roles must alternate.*prompt and completion"):
            opened(folder, [{"messages": CHAT}])
        self.write(folder, "{% generation %}")
        with pytest.raises(og.errors.DataError, match=r"tokenizer_config.json cannot be read"):
            opened(folder, [{"messages": CHAT}])

    def test_cannot_reach_the_machine(self, folder):
        pytest.importorskip("jinja2")
        self.write(folder, "{{ ''.__class__.__mro__[1].__subclasses__() }}")
        with pytest.raises(og.errors.DataError, match="refuses the chat"):
            opened(folder, [{"messages": CHAT}])


def bytes_with(tokenizers, trims):
    """A tokenizer of bytes, whose merges join spaces as that of GPT-NeoX does"""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=trims)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=trims)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=MARKS, show_progress=False)
    made.train_from_iterator(["def f(x):\n    return x\n" * 9, "and so  on"], trainer)
    return made


class TestOffsets:
    ANSWER = "def f(x):\n    return x  \n\n  y "

    @pytest.mark.parametrize("trims", [False, True])
    def test_spaces_of_an_answer_count(self, tmp_path, trims):
        bytes_with(tokenizers, trims).save(str(tmp_path / "tokenizer.json"))
        chat = [{"role": "user", "content": " a  b "}, {"role": "assistant", "content": self.ANSWER}]
        data = opened(tmp_path, [{"messages": chat}, {"prompt": "a  ", "completion": "  b c"}])
        assert [shown(tmp_path, row.labels) for row in data.rows] == [self.ANSWER + "<|im_end|>\n", "  b c<|endoftext|>"]

    def test_pieces_that_replace_spaces(self, tmp_path):
        made = tokenizers.Tokenizer(
            tokenizers.models.Unigram([("<unk>", 0.0), *((c, -2.0) for c in "▁abcdefghxy():return\n<|im_start>user")], 0)
        )
        made.normalizer = tokenizers.normalizers.Sequence(
            [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
        )
        made.decoder = tokenizers.decoders.Sequence(
            [tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.Fuse(), tokenizers.decoders.Strip(" ", 1, 0)]
        )
        made.add_special_tokens(MARKS)
        made.save(str(tmp_path / "tokenizer.json"))
        data = opened(tmp_path, [{"prompt": "a b", "completion": "  def  f(x): y "}])
        kept = [made.id_to_token(int(word)) for word in data.rows[0].labels if word >= 0]
        assert "".join(kept[:-1]).strip("▁") == "def▁▁f(x):▁y" and kept[-1] == "<|endoftext|>"


class TestRows:
    def test_few_lengths_occur_and_each_row_once(self, folder):
        rng = np.random.default_rng(0)
        sizes = rng.integers(2, 60, 200)
        data = opened(folder, [{"text": "x" * size} for size in sizes], max_length=50)
        batches = list(data.batches(8, seed=3))
        assert len(batches) == data.count(8) == 25 and data.examples(8) == 200
        assert {b["input_ids"].shape[1] for b in batches} <= {8, 12, 16, 24, 32, 48, 50}
        found = sorted(int(mask.sum()) for b in batches for mask in b["attention_mask"])
        assert found == sorted(min(size + 1, 50) for size in sizes)
        padding = np.mean([1 - b["attention_mask"].mean() for b in batches])
        assert padding < 0.25
        assert data.remarks == [f"{(sizes > 49).sum()} of 200 examples of data.jsonl are cut to 50 tokens."]

    def test_the_order_is_that_of_the_seed_and_the_epoch(self, folder):
        data = opened(folder, [{"text": chr(97 + at) * (1 + at % 9)} for at in range(26)])

        def order(**options):
            return [b["input_ids"].tolist() for b in data.batches(4, **options)]

        assert order(seed=1, epoch=2) == order(seed=1, epoch=2) != order(seed=1, epoch=3)
        assert order(seed=1, skip=2) == order(seed=1)[2:]
        assert len(order(drop_last=True)) == data.count(4, drop_last=True) == 6

    def test_packed_rows_hold_every_example(self, folder):
        texts = [chr(97 + at) * (1 + at % 9) for at in range(26)]
        data = opened(folder, [{"text": text} for text in texts], max_length=12, pack=True)
        assert all(len(row.token_ids) <= 12 for row in data.rows)
        assert len(data) <= 1.2 * sum(len(text) + 1 for text in texts) / 12
        found = "".join(shown(folder, row.token_ids) for row in data.rows).split("<|endoftext|>")
        assert sorted(found) == sorted([*texts, ""])
        # The first word of an example does not follow from the one before it.
        assert sum((row.labels == -100).sum() for row in data.rows) == len(texts)

    def test_examples_without_words_that_count_are_left_out(self, folder):
        data = opened(folder, [{"messages": CHAT}, {"messages": CHAT[:1]}])
        assert (
            len(data) == 1
            and "1 of 2 examples of data.jsonl have no token that counts in the loss, and are left out." in data.remarks
        )

    def test_a_damaged_file_is_named_with_its_line(self, folder):
        for lines, said in (
            ('{"text": "a"}\n\n{"text"', "line 3 of .* is not valid JSON"),
            ("[1]", "line 1 of .* is not an object"),
            ('{"words": "a"}', r"neither text, nor prompt and completion, nor messages; it has \['words'\]"),
            ('{"messages": [{"role": "user"}]}', "messages are a list of objects with role and content"),
            ('{"prompt": "a", "completion": null}', "neither text"),
            ("", "holds no token to learn"),
        ):
            with pytest.raises(og.errors.DataError, match=said):
                opened(folder, lines)
        with pytest.raises(og.errors.ArgumentError, match=r"from \.jsonl or \.txt files"):
            opened(folder, "a", "data.csv")
        (folder / "tokenizer.json").write_text("{}")
        with pytest.raises(og.errors.DataError, match="is not a tokenizer"):
            opened(folder, [{"text": "a"}])
