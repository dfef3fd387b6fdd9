"""What chats become by the templates that the packages trl and transformers ship, as scripts/record_chat_templates recorded it."""

# ruff: noqa: RUF001 (templates of DeepSeek write marks with a wide bar)

import json
import re
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.training import Text
from onnxgrad.training.data import chat_jinja
from onnxgrad.training.data.chat_template import ChatTemplate

pytest.importorskip("jinja2")
FOLDER = Path(__file__).resolve().parents[2] / "data" / "chat_templates"
RECORDED = json.loads((FOLDER / "recorded.json").read_text(encoding="utf-8"))
SOURCES = json.loads((FOLDER / "sources.json").read_text(encoding="utf-8"))
MARKS = re.compile(r"<[|｜]?/?[\w▁ ]+[|｜]?>|\[/?INST\]")
IN_PARTS = ("idefics3", "llava_next", "smolvlm")
"""Templates that write a content only if it is a list of parts."""
TEXT_ALONE = (
    *("cohere", "cohere2", "deepseek_r1_distill", "deepseekv3", "gemma", "gptoss", "lfm2", "lfm2_v2", "llama3"),
    *("llama3_1", "llama3_2", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra", "phi3", "phi3_5", "qwen2_5", "qwen3"),
    "qwen3_instruct_2507",
)
"""Templates that write the list itself, or nothing, or fail where a content is a list of parts."""


WITHOUT_TOOLS = ("deepseek_r1_distill", "lfm2", "llama3", "phi3", "phi3_5", "qwen2_5_vl", "smolvlm_video")
"""Templates that write no calls of tools: a turn that is nothing else would be empty, and is refused."""
WITH_TEXT_ARGUMENTS = ("deepseekv3",)
"""Templates that take arguments of calls as JSON, or no content as "", which transformers leaves to the user."""
TURNS = {
    "deepseek_r1_distill": r"<｜Assistant｜>(?:<think>\n)?(.*?<｜end▁of▁sentence｜>)",
    "deepseekv3": r"(?:<｜Assistant｜>|<｜tool▁outputs▁end｜>)(.*?<｜end▁of▁sentence｜>)",
    "gemma4": r"<\|turn>model\n(.*?<turn\|>\n)",
    "gemma4_v5": r"<\|turn>model\n(.*?<turn\|>\n)",
    "glm4moe": r"<\|assistant\|>(.*?(?:<\|user\|>|(?=<\|)|$))",
    "llama3_1": r"<\|start_header_id\|>assistant<\|end_header_id\|>\n\n(.*?<\|eot_id\|>)",
    "llama3_2": r"<\|start_header_id\|>assistant<\|end_header_id\|>\n\n(.*?<\|eot_id\|>)",
    "llama4": r"<\|header_start\|>assistant<\|header_end\|>\n\n(.*?<\|eot\|>)",
    "qwen3": r"<\|im_start\|>assistant\n(.*?<\|im_end\|>\n)",
    "qwen3_5_think": r"<\|im_start\|>assistant\n(?:<think>\n)?(.*?<\|im_end\|>\n)",
    "qwen3_6": r"<\|im_start\|>assistant\n(?:<think>\n)?(.*?<\|im_end\|>\n)",
    "smolvlm_video": r"Assistant:(.*?<end_of_utterance>\n)",
}
"""What the model writes, by templates that trl has no twin with tags of, or whose twin writes another text."""
WRITTEN = {
    ("gemma4", "tools"): ['<|tool_call>call:weather{town:<|"|>Rome<|"|>}<tool_call|><|tool_response>', "It is sunny.<turn|>\n"],
    ("gemma4", "tools, more"): [
        '<|tool_call>call:weather{day:2,town:<|"|>Rome<|"|>}<tool_call|>',
        "I look.<turn|>",
        "Fine.<turn|>\n",
        '<|tool_call>call:weather{town:<|"|>Oslo<|"|>}<tool_call|><|tool_response>',
        "Snow.<turn|>\n",
    ],
    ("gemma4", "consecutive"): ["1<turn|>\n2<turn|>\n"],
    ("gemma4_v5", "consecutive"): ["12<turn|>\n"],
    ("gemma4_v5", "tools"): ['<|tool_call>call:weather{town:<|"|>Rome<|"|>}<tool_call|><|tool_response>', "It is sunny.<turn|>\n"],
    ("gemma4_v5", "tools, more"): [
        '<|tool_call>call:weather{day:2,town:<|"|>Rome<|"|>}<tool_call|>',
        "I look.Fine.<turn|>\n",
        '<|tool_call>call:weather{town:<|"|>Oslo<|"|>}<tool_call|><|tool_response>',
        "Snow.<turn|>\n",
    ],
    # A twin counts the mark behind a tool's reply, or does not count the one that this template itself ends a call with.
    ("deepseekv3", "tools, more"): [
        'I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"town": "Rome", "day": 2}\n'
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        "Fine.<｜end▁of▁sentence｜>",
        '\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"town": "Oslo"}\n'
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        "Snow.<｜end▁of▁sentence｜>",
    ],
    ("diffusion_gemma", "tools"): [
        '<|tool_call>call:weather{town:<|"|>Rome<|"|>}<tool_call|><|tool_response>',
        "It is sunny.<turn|>\n",
    ],
    ("diffusion_gemma", "tools, more"): [
        '<|tool_call>call:weather{day:2,town:<|"|>Rome<|"|>}<tool_call|>',
        "I look.",
        "Fine.<turn|>\n",
        '<|tool_call>call:weather{town:<|"|>Oslo<|"|>}<tool_call|><|tool_response>',
        "Snow.<turn|>\n",
    ],
    ("glm4moe", "kwargs"): ["\nA model."],
}
"""What the model writes where the marks of a turn do not tell."""


def base(name):
    return name.removesuffix("_training")


def template_of(name):
    return (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def then(monkeypatch):
    class Then(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromisoformat(RECORDED["today"])

    monkeypatch.setattr(chat_jinja, "datetime", Then)


@pytest.fixture
def opened(tmp_path):
    def open_template(name, marked=True):
        text = template_of(name)
        (tmp_path / "chat_template.jinja").write_text(text, encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(RECORDED["specials"]))
        marks = {*MARKS.findall(text), *RECORDED["specials"].values()} if marked else ()
        return ChatTemplate(tmp_path / "tokenizer.json", lambda word: None, sorted(marks))

    return open_template


def recorded(name, chat):
    """Text and spans of a chat, or None: with its contents in the form that the template takes"""
    entry = RECORDED["results"][name][chat]
    suffix = "_as_parts" if base(name) in IN_PARTS else "_as_text" if chat == "parts" and base(name) in TEXT_ALONE else ""
    if suffix:
        entry = {"text": entry.get(suffix[1:]), "spans": entry.get(f"spans{suffix}")}
    if entry.get("text") is None:
        return None
    return RECORDED["texts"][entry["text"]], entry.get("spans")


def merged(spans):
    joined = []
    for first, last in sorted(span for span in spans if span[0] < span[1]):
        if joined and first <= joined[-1][1]:
            joined[-1][1] = max(last, joined[-1][1])
        else:
            joined.append([first, last])
    return joined


def behind_prompt(text, spans, prompt, everywhere):
    """Spans without what the generation prompt holds at their beginning, or anywhere in them"""
    spans = [list(span) for span in spans]
    for span in spans:
        longest = max((n, -k) for n in range(len(prompt) + 1) for k in range(n + 1) if holds(text, span[0] - k, prompt[:n]))
        span[0] = max(span[0], span[0] + longest[0] + longest[1])
    split = []
    for first, last in spans:
        cuts = [at for at in range(first, last) if everywhere and prompt and holds(text, at, prompt)]
        edges = [first, *(edge for at in cuts for edge in (at, at + len(prompt))), last]
        split += zip(edges[::2], edges[1::2], strict=True)
    return merged(split)


def holds(text, at, piece):
    return at >= 0 and text.startswith(piece, at)


def shared(prompt, texts):
    """The longest beginning of a prompt that occurs in each of the texts"""
    return next(prompt[:n] for n in range(len(prompt), -1, -1) if all(prompt[:n] in text for text in texts))


def written_down(name, chat, text):
    """What the model writes; where the chat says not to think, the prompt holds an empty thought"""
    pieces = in_turns(name, chat, text)
    return [re.sub(r"^(<think>)?\s*</think>\s*", "", piece) for piece in pieces] if chat == "kwargs" else pieces


def in_turns(name, chat, text):
    """The stretches that the model writes, as pieces of text: by the twin with tags that trl has, or as the tables above say"""
    if (name, chat) in WRITTEN:
        return WRITTEN[name, chat]
    twin = recorded(f"{name}_training", chat) if f"{name}_training" in RECORDED["results"] else None
    if twin is None or twin[0] != text:
        return [match[1] for match in re.finditer(TURNS[name], text, re.DOTALL)]
    prompt = SOURCES[name]["prompt"]
    if chat == "consecutive":
        prompt = shared(prompt, [text])
    spans = behind_prompt(text, merged(twin[1]), prompt, chat == "consecutive")
    return [text[first:last] for first, last in spans]


TAGGED = [name for name in RECORDED["results"] if "{%- generation" in template_of(name) or "{% generation" in template_of(name)]


def is_refused(name, chat):
    """Whether a chat cannot be written: by the template, or since nothing would be written of a call"""
    if base(name) in WITH_TEXT_ARGUMENTS and chat.startswith("tools"):
        return False
    if base(name) in WITHOUT_TOOLS and chat.startswith("tools"):
        return True
    return recorded(name, chat) is None


def test_the_sources_are_named():
    for name in RECORDED["results"]:
        assert (FOLDER / f"{name}.jinja").is_file()
        assert SOURCES[name].keys() >= {"package", "version", "file", "licence"}
    assert {path.stem for path in FOLDER.glob("*.jinja")} == set(SOURCES) == set(RECORDED["results"])


def test_every_template_writes_a_plain_chat(opened):
    for name in RECORDED["results"]:
        text, spans = opened(name).written(RECORDED["chats"]["plain"], "line 1")
        assert len(spans) == 2, name
        assert ["A model." in text[a:b] for a, b in spans] == [True, False], name
        assert ["Who" in text[a:b] or "Say" in text[a:b] for a, b in spans] == [False, False], name


@pytest.mark.parametrize("name", RECORDED["results"])
def test_the_text_is_that_of_transformers(opened, name):
    template = opened(name)
    for chat, record in RECORDED["chats"].items():
        if is_refused(name, chat):
            with pytest.raises(og.errors.DataError, match="line 1: "):
                template.written(record, "line 1")
        elif recorded(name, chat) is not None:
            assert template.written(record, "line 1")[0] == recorded(name, chat)[0], chat


@pytest.mark.parametrize("name", TAGGED)
def test_generation_tags_say_what_counts(opened, name):
    template = opened(name)
    for chat, record in RECORDED["chats"].items():
        if not is_refused(name, chat) and recorded(name, chat) is not None:
            assert [list(span) for span in template.written(record, "line 1")[1]] == merged(recorded(name, chat)[1]), chat


@pytest.mark.parametrize("marked", [True, False], ids=["tokens of marks", "letters alone"])
@pytest.mark.parametrize("name", sorted(RECORDED["results"].keys() - set(TAGGED)))
def test_marks_say_what_counts(opened, name, marked):
    template = opened(name, marked)
    for chat, record in RECORDED["chats"].items():
        if not is_refused(name, chat):
            text, spans = template.written(record, "line 1")
            assert [text[first:last] for first, last in spans] == written_down(name, chat, text), chat


@pytest.fixture(scope="module")
def tokenizer():
    """The one that the tokens were recorded with: each byte and each special mark is a token"""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([], tokenizers.trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False))
    made.add_special_tokens(list(RECORDED["specials"].values()))
    return made


@pytest.mark.parametrize("name", TAGGED)
def test_the_tokens_that_count_are_those_of_transformers(opened, tmp_path, tokenizer, name):
    opened(name)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    suffix = "_as_parts" if base(name) in IN_PARTS else ""
    chats = [chat for chat in RECORDED["chats"] if not is_refused(name, chat) and chat != "parts"]
    chats = [chat for chat in chats if RECORDED["results"][name][chat].get(f"tokens{suffix}")]
    lines = "\n".join(json.dumps(RECORDED["chats"][chat]) for chat in chats)
    (tmp_path / "data.jsonl").write_text(lines, encoding="utf-8")
    data = Text(tmp_path / "data.jsonl", tmp_path / "tokenizer.json", max_length=20_000)
    assert len(data) == len(chats) >= 7
    for row, chat in zip(data.rows, chats, strict=True):
        expected = np.zeros(len(row.token_ids), bool)
        for first, last in RECORDED["results"][name][chat][f"tokens{suffix}"]:
            expected[first:last] = True
        assert ((row.labels != -100) == expected).all(), chat


class TestWhatIsSaid:
    TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}{{ topic }}"
    CHAT = ({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})

    def of(self, folder, text):
        (folder / "chat_template.jinja").write_text(text, encoding="utf-8")
        (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
        return ChatTemplate(folder / "tokenizer.json", lambda word: None, ["</s>"])

    def test_keys_go_to_the_template_and_unread_ones_are_named(self, tmp_path):
        template = self.of(tmp_path, self.TEMPLATE)
        record = {"messages": [*self.CHAT[:1], {**self.CHAT[1], "weight": 1}], "topic": "!", "id": 3, "range": 1}
        record["chat_template_kwargs"] = {"deep": True}
        assert template.written(record, "")[0] == "[user]a</s>[assistant]b</s>!"
        assert template.remarks[1:] == [
            "the template in chat_template.jinja reads none of the keys deep (1), id (1), range (1), weight (1)."
        ]
        record["chat_template_kwargs"] = {"topic": "?"}
        assert template.written(record, "")[0].endswith("?")

    def test_what_is_left_out_is_counted(self, tmp_path):
        template = self.of(
            tmp_path, "{% for m in messages %}{% if not loop.last or m.reasoning %}({{ m.content }}){% endif %}{% endfor %}"
        )
        text, spans = template.written({"messages": [*self.CHAT, *self.CHAT]}, "")
        assert text == "(a)(b)(a)" and [text[a:b] for a, b in spans] == ["b"]
        assert template.remarks[1:] == ["the template in chat_template.jinja leaves out of the assistant's messages: content (1)."]

    def test_content_that_is_no_text(self, tmp_path):
        template = self.of(tmp_path, self.TEMPLATE)
        for content in (3, None, [{"type": "image", "url": "x"}], {"text": "a"}):
            with pytest.raises(og.errors.DataError, match="a list of parts of text, or null beside tool_calls"):
                template.written({"messages": [{"role": "user", "content": content}]}, "line 1")
        text, spans = template.written(
            {"messages": [self.CHAT[0], {"role": "assistant", "content": ["b", {"type": "text", "text": "c"}]}]}, ""
        )
        assert text == "[user]a</s>[assistant]bc</s>" and [text[a:b] for a, b in spans] == ["bc</s>"]

    def test_arguments_as_json_are_read(self, tmp_path):
        template = self.of(
            tmp_path,
            "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }};{% endfor %}{% endfor %}",
        )
        call = {"function": {"name": "f", "arguments": '{"x": 1, "y": "z"}'}}
        text, spans = template.written(
            {"messages": [self.CHAT[0], {"role": "assistant", "content": None, "tool_calls": [call]}]}, ""
        )
        assert text == '{"x": 1, "y": "z"};' and spans

    def test_a_turn_that_comes_first_or_is_empty(self, tmp_path):
        template = self.of(
            tmp_path,
            "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
        )
        record = {"messages": [self.CHAT[1], self.CHAT[0], {"role": "assistant", "content": ""}, self.CHAT[0]]}
        text, spans = template.written(record, "")
        assert text == "<assistant>b</s><user>a</s><assistant></s><user>a</s>"
        assert [(text[:a], text[a:b]) for a, b in spans] == [
            ("<assistant>", "b</s>"),
            ("<assistant>b</s><user>a</s><assistant>", "</s>"),
        ]
        assert template.prompt({"messages": list(self.CHAT[:1])}, "") == "<user>a</s><assistant>"

    def test_a_template_that_writes_earlier_messages_in_another_way(self, tmp_path):
        text = "{% for m in messages %}{{ '#' if not loop.last }}[{{ m.role }}]{{ m.content }}{% endfor %}{{ 'x' if add_generation_prompt }}"
        text, spans = self.of(tmp_path, text).written({"messages": [*self.CHAT, *self.CHAT]}, "")
        assert text == "#[user]a#[assistant]b#[user]a[assistant]b" and [text[a:b] for a, b in spans] == ["b", "b"]

    def test_nested_and_trimmed_tags(self, tmp_path):
        body = "{% generation %}{{ m.content }}{% if m.more %}{% generation %}!{% endgeneration %}{% endif %}{% endgeneration %}"
        macro = "{% macro turn(m) %}" + body + "{% endmacro %}"
        template = self.of(tmp_path, macro + "{% for m in messages %}{{ m.content }}:{{ turn(m) }}{% endfor %}")
        text, spans = template.written({"messages": [self.CHAT[0], {**self.CHAT[1], "more": 1}]}, "")
        assert text == "a:ab:b!" and [text[a:b] for a, b in spans] == ["a", "b!"]

    def test_scripts_that_mark_contents_may_be_in_a_chat(self, tmp_path):
        template = self.of(tmp_path, self.TEMPLATE)
        odd = "\ua000\u2801\u2801\U00013000"
        text, spans = template.written({"messages": [{"role": "user", "content": odd}, {"role": "assistant", "content": odd}]}, "")
        assert [text[a:b] for a, b in spans] == [odd + "</s>"]
