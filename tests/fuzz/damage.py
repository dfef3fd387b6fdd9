"""One damaged copy of a file that is no model: its bytes, or what its format holds. The same number gives the same copy."""

import io
import json
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.mutate import damaged_bytes

__all__ = ["damaged"]

_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**70), 0.5, 1e308, float("nan"), float("inf"), "", "x", "x\x1b[2J\x9b", "é",
    "0.1", "1e400", "../..", "/", "a" * 3000, "\0", "float32", [], [[]], {}, [None], {"": None}, [0, 0], ["x", 1], {"x": {"x": []}},
    "\ud800",
)  # fmt: skip
_CELLS = (
    "",
    " ",
    '"',
    "nan",
    "inf",
    "-",
    "1e999",
    "x",
    "\x1b[2J",
    "[1, 2",
    "[]",
    "9" * 400,
    "2.5",
    "-7",
    "\0",
    "é",
    ",",
    "\r",
    "null",
)
_ARRAYS = (
    lambda: np.array(["a", "b"]),
    lambda: np.array([b"x\0y", b""]),
    lambda: np.float32(1.5),
    lambda: np.zeros((0, 2), np.float32),
    lambda: np.zeros((3, 0), np.int64),
    lambda: np.full((4, 2), np.nan, np.float32),
    lambda: np.array([2**63 - 1, -(2**63)]),
    lambda: np.array([True, False]),
    lambda: np.array([1 + 2j, 3]),
    lambda: np.array(["2020-01-01"], "datetime64[D]"),
    lambda: np.zeros(3, [("a", "f4"), ("b", "i8")]),
    lambda: np.array([{}, None], dtype=object),
    lambda: np.ones((2, 2, 2, 2), np.float16),
    lambda: np.arange(6, dtype=">i4").reshape(3, 2),
)


def damaged(path: Path, draw: random.Random) -> bytes:
    """The bytes of a damaged copy of a file, by its suffix."""
    data = path.read_bytes()
    way = _WAYS.get(path.suffix)
    if way is None or draw.random() < 0.3:
        return damaged_bytes(bytearray(data), draw)
    return way(data, draw)


def _json(data: bytes, draw: random.Random) -> bytes:
    tree = json.loads(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        tree = _changed(tree, draw)
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _changed(tree: Any, draw: random.Random) -> Any:
    """The same tree but for one of its places"""
    places: list[tuple[Any, Any]] = []

    def visit(item: Any) -> None:
        entries = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for key, value in entries:
            places.append((item, key))
            visit(value)

    visit(tree)
    if not places or draw.random() < 0.03:
        return draw.choice(_ODD)
    holder, key = draw.choice(places)
    other_holder, other_key = draw.choice(places)
    way = draw.random()
    if way < 0.25:
        del holder[key]
    elif way < 0.4:
        holder[key] = json.loads(json.dumps(other_holder[other_key]))
    elif way < 0.5 and isinstance(holder, dict):
        holder[draw.choice(("x", "", "\x1b", str(other_key)))] = holder.pop(key)
    elif way < 0.6 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif way < 0.7 and isinstance(holder[key], (int, float)):
        holder[key] = holder[key] + draw.choice((1, -1, 0.5, 2**40))
    else:
        holder[key] = draw.choice(_ODD)
    return tree


def _json_lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines()
    at = draw.randrange(len(lines))
    lines[at] = draw.choice((b"", b"{", b"[]", b"null", lines[0][:-2])) if draw.random() < 0.2 else _json(lines[at], draw)
    return b"\n".join(lines)


def _separated(data: bytes, draw: random.Random) -> bytes:
    """Another cell, one more, one fewer; no line, or one twice"""
    mark = "\t" if b"\t" in data else ","
    rows = [line.split(mark) for line in data.decode().splitlines()]
    for _ in range(draw.choice((1, 1, 2))):
        row = draw.choice([rows[0], *rows])
        way = draw.random()
        if way < 0.6 and row:
            row[draw.randrange(len(row))] = draw.choice((*_CELLS, draw.choice(rows[0] or [""])))
        elif way < 0.7 and row:
            del row[draw.randrange(len(row))]
        elif way < 0.8:
            row.append(draw.choice(_CELLS))
        elif way < 0.9:
            rows.insert(draw.randrange(len(rows) + 1), list(row))
        elif len(rows) > 1:
            del rows[draw.randrange(len(rows))]
    return "\n".join(mark.join(row) for row in rows).encode()


def _text(data: bytes, draw: random.Random) -> bytes:
    text = data.decode()
    at = draw.randrange(len(text) + 1)
    piece = draw.choice(
        ("{{ x }}", "{% for %}", "{{ messages[99].content }}", "{{ 1 / 0 }}", "\0", "\x1b[2J", "{{ ''.__class__ }}", "")
    )
    return (text[:at] + piece + text[at + draw.choice((0, 1, 5)) :]).encode()


def _arrays(data: bytes, draw: random.Random) -> bytes:
    """Another array under a name, another name, or a member that is no array"""
    with np.load(io.BytesIO(data)) as file:
        arrays: dict[str, Any] = {name: file[name] for name in file.files}
    name = draw.choice(list(arrays))
    way = draw.random()
    if way < 0.7:
        arrays[name] = draw.choice(_ARRAYS)()
    elif way < 0.85:
        arrays[draw.choice(("x\x1b", "", "other", "a/b"))] = arrays.pop(name)
    else:
        arrays[name] = arrays[name][:1] if draw.random() < 0.5 else np.concatenate([arrays[name]] * 2)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for key, array in arrays.items():
            archive.writestr(f"{key}.npy", b"" if draw.random() < 0.03 else _npy_of(array))
    return written.getvalue()


def _npy_of(array: Any) -> bytes:
    written = io.BytesIO()
    np.save(written, array, allow_pickle=True)
    return written.getvalue()


def _npy(data: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.7:
        return _npy_of(draw.choice(_ARRAYS)())
    at = data.index(b"{")
    return data[:at] + bytes(damaged_bytes(bytearray(data[at : data.index(b"}") + 1]), draw)) + data[data.index(b"}") + 1 :]


def _tensors(data: bytes, draw: random.Random) -> bytes:
    """Another header of a safetensors file, or other bytes behind it"""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    strings = header.get("__metadata__", {})
    if strings and draw.random() < 0.5:
        name = draw.choice(list(strings))
        try:
            strings[name] = _json(strings[name].encode(), draw).decode("utf-8", "replace")
        except ValueError:
            strings[name] = str(draw.choice(_ODD)).encode("utf-8", "replace").decode()
        if draw.random() < 0.5:
            strings.pop("checksums", None)
    else:
        header = _changed(header, draw)
    packed = json.dumps(header).encode("utf-8", "replace")
    packed += b" " * (-len(packed) % 8)
    return len(packed).to_bytes(8, "little") + packed + data[start:]


def _parquet(data: bytes, draw: random.Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data))
    at = draw.randrange(table.num_columns)
    count = table.num_rows
    column = draw.choice((
        lambda: pa.array(["x"] * count), lambda: pa.array([None] * count), lambda: pa.array([[1.0, 2.0]] * count),
        lambda: pa.array([[1.0]] + [[1.0, 2.0]] * (count - 1)), lambda: pa.array([b"\xff"] * count), lambda: pa.array([{"a": 1}] * count),
        lambda: pa.array([True] * count), lambda: pa.array([float("nan")] * count), lambda: pa.array([2**63 - 1] * count),
        lambda: pa.array([[[1]]] * count), lambda: pa.array(["2020-01-01"] * count).dictionary_encode(),
        lambda: pa.array([None] + [1.0] * (count - 1)), lambda: pa.array([1] * count, pa.timestamp("s")),
        lambda: pa.array([1] * count, pa.decimal128(5, 2)),
    ))()  # fmt: skip
    name = table.column_names[at] if draw.random() < 0.8 else draw.choice(("", "x\x1b", *table.column_names))
    table = table.set_column(at, name, column)
    if draw.random() < 0.1:
        table = table.slice(0, 0)
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def _pickle(data: bytes, draw: random.Random) -> bytes:
    content = pickle.loads(data)
    if not isinstance(content, dict) or not content or draw.random() < 0.2:
        return pickle.dumps(draw.choice((*_ODD, {1: np.ones(2)}, [np.ones(2)], print)), 4)
    name = draw.choice(list(content))
    content[name] = draw.choice((*_ODD, *(make() for make in _ARRAYS)))
    return pickle.dumps(content, 4)


_WAYS = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".csv": _separated,
    ".tsv": _separated,
    ".txt": _text,
    ".jinja": _text,
    ".npz": _arrays,
    ".npy": _npy,
    ".safetensors": _tensors,
    ".parquet": _parquet,
    ".pdparams": _pickle,
    ".pdopt": _pickle,
}
