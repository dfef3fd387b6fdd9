"""Values and finite differences that gradients are compared with: recorded once in tests/data/oracle, computed where nothing is recorded.

An entry is found by a hash of all that is evaluated: the model, what is fed to it, the cotangents, the step, the versions of onnx
and numpy, the corrected operators of ``onnxgrad.testing`` and the code that takes the differences, without its docstrings, comments
and annotations. So a rule that writes another gradient is never compared with what an older one gave: its entries are missing and
computed on the spot. tests/data/oracle/of.json names the code and the versions that were recorded; a test compares the code.

``scripts/write_oracle`` records. The environment variable ONNXGRAD_ORACLE says what a test run does beside looking up:

    check:SALT      computes a tenth of what it looks up, chosen by SALT, and compares
    check:all       computes all of it
    record:FOLDER   leaves every entry that was used in FOLDER, for scripts/write_oracle
"""

import ast
import functools
import hashlib
import inspect
import json
import os
import textwrap
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto

import onnxgrad.testing
from onnxgrad.testing import Reference, reference_ops

FOLDER = Path(__file__).parent / "data" / "oracle"
MODE = os.environ.get("ONNXGRAD_ORACLE", "")

Arrays = list[np.ndarray]


class OracleMismatch(AssertionError):
    """What is recorded is not what is computed."""


COUNTS = {"looked up": 0, "computed": 0, "checked": 0}
"""How often this process did which."""


class Entries:
    """The recorded arrays of one group, as a dictionary in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays: dict[str, Arrays] = read_entries(path) if path.exists() else {}
        self.used: set[str] = set()


def read_entries(path: Path) -> dict[str, Arrays]:
    """The arrays of a file, by key."""
    with np.load(path) as file:
        index, data = json.loads(file["index"].tobytes()), file["data"].tobytes()
    entries: dict[str, Arrays] = {}
    start = 0
    for key, layouts in index.items():
        entries[key] = []
        for dtype, shape in layouts:
            count = int(np.prod(shape, dtype=int))
            entries[key].append(np.frombuffer(data, dtype, count, start).reshape(shape))
            start += count * np.dtype(dtype).itemsize
    return entries


def write_entries(path: Path, entries: dict[str, Arrays]) -> None:
    """Write arrays by key, in the order of the keys."""
    ordered = {key: entries[key] for key in sorted(entries)}
    index = {key: [[array.dtype.str, list(array.shape)] for array in arrays] for key, arrays in ordered.items()}
    data = b"".join(array.tobytes() for arrays in ordered.values() for array in arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}.npz")
    np.savez_compressed(
        written,
        index=np.frombuffer(json.dumps(index, separators=(",", ":")).encode(), np.uint8),
        data=np.frombuffer(data, np.uint8),
    )
    written.replace(path)


OPENED: dict[str, Entries] = {}
"""What this process has read, by group."""


def entries_of(group: str) -> Entries:
    if group not in OPENED:
        OPENED[group] = Entries(FOLDER / f"{group}.npz")
    return OPENED[group]


class Recorded(Reference):
    """Looks values and differences up.

    Args:
        group: the file of tests/data/oracle, as the type of an operator.
    """

    def __init__(self, group: str) -> None:
        self.group = group

    def values(self, model: ModelProto, feeds: dict[str, np.ndarray], operators: Sequence[Any] = ()) -> Arrays:
        key = key_of("values", model, feeds, operators)
        return self.look_up(key, lambda: super(Recorded, self).values(model, feeds, operators), 1e-4 if is_narrow(model) else 1e-6)

    def differences(
        self,
        model: ModelProto,
        feeds: dict[str, np.ndarray],
        name: str,
        weights: Sequence[np.ndarray],
        positions: np.ndarray,
        step: float,
        operators: Sequence[Any] = (),
    ) -> np.ndarray:
        moved = {"weights": weights, "positions": [positions], "step": [np.array(step)]}
        key = key_of(f"differences {name}", model, feeds, operators, moved)
        compute = super().differences
        # A difference of float32 numbers over a step of 1e-5 has two digits.
        slack = 0.1 if is_narrow(model) else 1e-6
        (found,) = self.look_up(key, lambda: [compute(model, feeds, name, weights, positions, step, operators)], slack)
        return found

    def look_up(self, key: str, compute: Any, slack: float = 1e-6) -> Arrays:
        """The arrays of a key, recorded or computed; where both, they differ by no more than ``slack``, and the computed ones count."""
        entries = entries_of(self.group)
        found = entries.arrays.get(key)
        if found is None:
            COUNTS["computed"] += 1
            arrays = compute()
            if not all(array.dtype.kind in "biufc" for array in arrays):  # texts are not recorded
                return arrays
            found = entries.arrays[key] = arrays
        else:
            COUNTS["looked up"] += 1
            if is_checked(key):
                COUNTS["checked"] += 1
                computed = compute()
                compare(key, found, computed, slack)
                found = computed
        entries.used.add(key)
        return found


def is_checked(key: str) -> bool:
    how, _, salt = MODE.partition(":")
    return how == "check" and (salt == "all" or zlib.crc32((salt + key).encode()) % 10 == 0)


def is_narrow(model: ModelProto) -> bool:
    """Whether something in a model is computed in float32, which processors round differently."""

    def narrows(node: Any) -> bool:
        return any(
            (attribute.name in ("to", "stash_type", "dtype") and attribute.i == TensorProto.FLOAT)
            or any(map(narrows, attribute.g.node))
            for attribute in node.attribute
        )

    infos = [*model.graph.input, *model.graph.output]
    held = any(tensor.data_type == TensorProto.FLOAT for tensor in model.graph.initializer)
    fed = any(info.type.tensor_type.elem_type == TensorProto.FLOAT for info in infos)
    return held or fed or any(map(narrows, model.graph.node))


def compare(key: str, recorded: Arrays, computed: Arrays, slack: float) -> None:
    """Equal but for what another processor rounds otherwise."""
    for old, new in zip(recorded, computed, strict=True):
        wide, again = old.astype(np.float64), np.asarray(new).astype(np.float64)
        scale = max(1.0, float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0)))
        if old.shape != np.shape(new) or not np.allclose(wide, again, rtol=0.0, atol=slack * scale, equal_nan=True):
            raise OracleMismatch(f"{key}: recorded is {old}, computed {new}. Run scripts/write_oracle --anew.")


# Keys ------------------------------------------------------------------------------------------------------------------


def key_of(
    what: str, model: ModelProto, feeds: dict[str, np.ndarray], operators: Sequence[Any], more: dict[str, Any] | None = None
) -> str:
    """A hash of all that is evaluated."""
    digest = hashlib.blake2b(fingerprint(), digest_size=12)
    digest.update(what.encode() + evaluated_part(model))
    digest.update("".join(map(code_of, operators)).encode())
    read = {v.name for v in model.graph.input}
    given = {name: [array] for name, array in feeds.items() if name in read}
    for name, arrays in sorted({**given, **(more or {})}.items()):
        for array in arrays:
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@functools.cache
def fingerprint() -> bytes:
    """A hash of everything but the model and its feeds that values depend on."""
    return hashlib.blake2b(json.dumps(made_of()).encode(), digest_size=16).digest()


@functools.cache
def made_of() -> dict[str, str]:
    """The code and the versions that compute values. A numpy that differs in its last number rounds as the others do."""
    files = sorted(Path(reference_ops.__path__[0]).glob("*.py"))
    parts = [code_of(Reference), code_of(onnxgrad.testing._evaluator), *(code_of_text(file.read_text()) for file in files)]
    code = hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
    return {"code": code, "onnx": onnx.__version__, "numpy": np.__version__.rpartition(".")[0]}


@functools.cache
def code_of(thing: Any) -> str:
    """``code_of_text`` of a class or function."""
    return code_of_text(inspect.getsource(thing))


def code_of_text(source: str) -> str:
    """Source as a text that is another one where it computes something else: without docstrings, comments, annotations, layout."""
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return _text_of(tree)


_NOT_COMPUTED = {"annotation", "returns", "type_comment", "type_params"}


def _text_of(node: Any) -> str:
    """As ``ast.dump``, the same in each version of Python."""
    if isinstance(node, list):
        return "[" + ",".join(map(_text_of, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if name not in _NOT_COMPUTED and value not in (None, [])]
    return f"{type(node).__name__}({','.join(f'{name}={_text_of(value)}' for name, value in fields)})"


def evaluated_part(model: ModelProto) -> bytes:
    """A model without what its evaluation does not read: names of operators, documents, metadata and the main graph's shapes.

    The shapes that a body declares are those of the empty results of a loop without a turn.
    """
    read = ModelProto()
    read.CopyFrom(model)
    for field in ("producer_name", "producer_version", "doc_string", "metadata_props"):
        read.ClearField(field)
    read.graph.ClearField("value_info")
    for info in [*read.graph.input, *read.graph.output]:
        _strip_type(info.type)
    _strip_graph(read.graph)
    for function in read.functions:
        _strip_nodes(function.node)
    return read.SerializeToString(deterministic=True)


def _strip_graph(graph: GraphProto) -> None:
    for field in ("name", "doc_string", "metadata_props"):
        graph.ClearField(field)
    for described in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        described.ClearField("doc_string")
        described.ClearField("metadata_props")
    _strip_nodes(graph.node)


def _strip_nodes(nodes: Any) -> None:
    for node in nodes:
        for field in ("name", "doc_string", "metadata_props"):
            node.ClearField(field)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _strip_graph(attribute.g)


def _strip_type(proto: TypeProto) -> None:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        proto.tensor_type.ClearField("shape")
    elif kind in ("sequence_type", "optional_type"):
        _strip_type(getattr(proto, kind).elem_type)


# Runs ------------------------------------------------------------------------------------------------------------------


def leave_used(folder: Path) -> None:
    """Write what this process used, for scripts/write_oracle to join."""
    for group, entries in OPENED.items():
        used = {key: entries.arrays[key] for key in entries.used}
        if used:
            write_entries(folder / str(os.getpid()) / f"{group}.npz", used)


def end_of_process() -> dict[str, int]:
    """Leave what was used where that is asked for; what was counted."""
    how, _, folder = MODE.partition(":")
    if how == "record":
        leave_used(Path(folder))
    return COUNTS
