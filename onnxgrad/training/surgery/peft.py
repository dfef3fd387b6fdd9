"""Adapters of Hugging Face's PEFT: a folder with adapter_config.json and adapter_model.safetensors, in and out.

PEFT names modules of the PyTorch model, a file its weights and operators. They are matched by the last word of both, by the numbers
of layers, and by what else they share. Where one side holds in one weight what the other holds in several (``qkv_proj``,
``gate_up_proj``), adapters are put together or taken apart, which changes nothing of what they compute.

Tests: tests/training/surgery/test_peft.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import ArgumentError, ModelError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import is_file, make_folder, read_whole, write_whole
from onnxgrad.internal.tensor_file import read_tensors, write_tensors
from onnxgrad.training.surgery.experts import expert_branches
from onnxgrad.training.surgery.lora import Branch, add_lora, branches_of
from onnxgrad.training.surgery.lora_targets import KEY, PACKED, LoraTarget, chosen_targets

__all__ = ["CONFIG", "TENSORS", "load_peft", "save_peft"]

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_NO_MODULE = re.compile(r"(MatMul|MatMulNBits|Gemm|weight|qweight|kernel|Transpose|base_layer)(_.*)?")
_PACKING = ("phi3", "phi4mm", "phi3small", "phi3v", "phimoe")
"""Kinds of models whose PyTorch modules hold q, k and v in one weight, and gate and up in another."""
_NOT_WRITTEN = {
    "lora_bias": "biases of adapters", "modules_to_save": "modules that were trained whole",
    "layer_replication": "layers that are repeated", "target_parameters": "adapters of bare parameters",
    "trainable_token_indices": "trained token embeddings",
}  # fmt: skip

Array = np.ndarray[Any, Any]


class _Adapter(NamedTuple):
    """One adapter as PEFT has it: y + scale * (x a^T) b^T, with a [rank, in] and b [out, rank]; of DoRA with sizes [out]."""

    module: str
    a: Array
    b: Array
    scale: float
    sizes: Array | None = None

    def rows(self, begin: int, end: int) -> _Adapter:
        """The part for some of the layer's outputs"""
        return self._replace(b=self.b[begin:end], sizes=None if self.sizes is None else self.sizes[begin:end])


@checked
def load_peft(program: Program, folder: str | Path) -> list[str]:
    """Add the adapters of a folder that PEFT wrote to the layers that they belong to, and freeze all other weights.

    Args:
        program: a loaded program without adapters or a backward pass; it is changed.
        folder: with ``adapter_config.json`` and ``adapter_model.safetensors``.

    Returns:
        Names of the new parameters, as ``add_lora`` does. A layer that holds several modules in one weight gets one adapter, of the
        sum of their ranks.

    Raises:
        UnknownName: if a module has no layer of its name and shape; the message names the nearest.
        ModelError: if the files cannot be read, or hold what is no LoRA.

    Example:
        >>> names = load_peft(program, "adapter/")  # doctest: +SKIP
    """
    adapters = _read(Path(folder))
    targets = [t for t in chosen_targets(program, "*") if t.op.type != "Conv"]
    shares: dict[int, dict[int, _Adapter]] = {}
    absent: list[str] = []
    for adapter in adapters:
        placed = _placed(adapter, targets)
        if not placed:
            absent.append(adapter.module)
        for at, part, share in placed:
            shares.setdefault(at, {})[part] = share
    if absent:
        known = {".".join(_words(t.name)): t.name for t in targets}
        near = get_close_matches(".".join(_words(absent[0])), known, 1, 0.0)
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        hint = f" The nearest is {known[near[0]]!r}, {_shape_text(targets, known[near[0]])}." if near else ""
        sizes = next(f"[{a.b.shape[0]}, {a.a.shape[1]}]" for a in adapters if a.module == absent[0])
        raise UnknownName(
            f"{str(folder)!r} adapts {absent[0]!r}{more}, of shape {sizes}, which is not a layer of this file.{hint} "
            "Give the file of the model that it was trained on."
        )
    names: list[str] = []
    for at, parts in shares.items():
        names += _add(program, targets[at], parts)
    own = set(names)
    for p in program.parameters:
        if p.name in own:
            p.trainable, p.stop_gradient = True, False
    return names


def _read(folder: Path) -> list[_Adapter]:
    path = folder / CONFIG
    if not is_file(path) or not is_file(folder / TENSORS):
        raise ModelError(f"{str(folder)!r} does not hold {CONFIG} and {TENSORS}. Name a folder that PEFT's save_pretrained wrote.")
    try:
        config = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{str(path)!r} is damaged: {error}. Fetch it again.") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else None
        raise ModelError(f"{str(path)!r} is of the kind {kind!r}. Only LORA is read.")
    for name, what in _NOT_WRITTEN.items():
        if config.get(name):
            raise ModelError(f"{str(path)!r} has {name}: {what} are not read. Merge them into the model in PEFT, and export that.")
    if config.get("bias", "none") != "none":
        raise ModelError(f"{str(path)!r} trains biases ({config['bias']!r}). Merge them into the model in PEFT, and export that.")
    arrays = read_tensors(folder / TENSORS).arrays
    modules = sorted({name.rpartition(".lora_")[0] for name in arrays if ".lora_" in name})
    strange = [n for n in arrays if not re.fullmatch(r".*\.lora_([AB]\.weight|magnitude_vector)", n)]
    if strange or not modules:
        raise ModelError(
            f"{str(folder / TENSORS)!r} holds {strange[0] if strange else 'no adapter'!r}, which is not a LoRA adapter of a matrix."
        )
    adapters = []
    for full in modules:
        a, b = (arrays.get(f"{full}.lora_{label}.weight") for label in "AB")
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
            raise ModelError(
                f"{str(folder / TENSORS)!r}: the two halves of {full!r} do not fit each other. Fetch the folder again."
            )
        module = full.removeprefix(_PREFIX)
        alpha = _by_pattern(config.get("alpha_pattern"), module, config.get("lora_alpha", 8))
        rank = a.shape[0]
        scale = float(alpha) / (rank**0.5 if config.get("use_rslora") else rank)
        sizes = arrays.get(f"{full}.lora_magnitude_vector")
        if (sizes is not None) != bool(config.get("use_dora")) or (sizes is not None and sizes.shape != b.shape[:1]):
            raise ModelError(
                f"{str(folder / TENSORS)!r}: the sizes of {full!r} do not match {CONFIG} (use_dora). Fetch the folder again."
            )
        sizes = None if sizes is None else np.asarray(sizes, np.float64)
        adapters.append(_Adapter(module, np.asarray(a, np.float64), np.asarray(b, np.float64), scale, sizes))
    return adapters


def _by_pattern(patterns: Any, module: str, usual: Any) -> Any:
    """The setting of a module: that of the first pattern that ends its name, as PEFT reads them"""
    for pattern, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return value
    return usual


def _words(name: str) -> list[str]:
    """A module, weight or operator as the words that say which layer it is"""
    words = [w for w in re.split(r"[./:]+", name) if w and not _NO_MODULE.fullmatch(w)]
    return ["attn" if w == "self_attn" else w for w in words]


def _found(module: str, targets: Sequence[LoraTarget]) -> int | None:
    """The layer of a module: of the same last word and numbers, with most words in common"""
    words = _words(module)
    best: list[tuple[int, int]] = []
    for at, target in enumerate(targets):
        for other in (_words(target.name), _words(target.op.name or "")):
            if other and other[-1:] == words[-1:] and _numbers(other) == _numbers(words):
                best.append((len(set(other) & set(words)), at))
    most = max((count for count, _ in best), default=0)
    places = {at for count, at in best if count == most}
    return places.pop() if len(places) == 1 else None


def _numbers(words: Sequence[str]) -> list[str]:
    return [w for w in words if w.isdigit()]


def _sizes(target: LoraTarget) -> tuple[int, int]:
    """Entries that a layer reads and gives"""
    rows, columns = target.shape
    return (columns, rows) if target.op.type == "Gemm" and target.op.attr("transB") else (rows, columns)


def _shape_text(targets: Sequence[LoraTarget], name: str) -> str:
    rows, columns = _sizes(next(t for t in targets if t.name == name))
    return f"of shape [{columns}, {rows}]"


def _placed(adapter: _Adapter, targets: Sequence[LoraTarget]) -> list[tuple[int, int, _Adapter]]:
    """Which layers an adapter belongs to, as which part of their weight (-1: all of it), and its share; none if it fits none"""
    at = _found(adapter.module, targets)
    rows, columns = adapter.a.shape[1], adapter.b.shape[0]
    if at is not None:
        return [(at, -1, adapter)] if _sizes(targets[at]) == (rows, columns) else []
    stem, _, leaf = adapter.module.rpartition(".")
    for packed, parts in PACKED.items():
        if leaf in parts:
            at = _found(f"{stem}.{packed}", targets)
            if at is not None and _sizes(targets[at])[0] == rows and _sizes(targets[at])[1] > columns:
                return [(at, parts.index(leaf), adapter)]
        if leaf == packed:
            places = [_found(f"{stem}.{part}", targets) for part in parts]
            if None in places:
                return []
            widths = [_sizes(targets[p])[1] for p in places if p is not None]
            if sum(widths) != columns:
                return []
            cuts = np.cumsum([0, *widths])
            return [(p, -1, adapter.rows(cuts[i], cuts[i + 1])) for i, p in enumerate(places) if p is not None]
    return []


def _add(program: Program, target: LoraTarget, parts: dict[int, _Adapter]) -> list[str]:
    """One branch for all that is adapted of a weight"""
    rows, columns = _sizes(target)
    scales = {adapter.scale for adapter in parts.values()}
    scale = scales.pop() if len(scales) == 1 else 1.0
    starts = {-1: 0} if -1 in parts else _starts(target, parts, columns)
    rank = sum(len(adapter.a) for adapter in parts.values())
    a, b = np.zeros((rows, rank)), np.zeros((rank, columns))
    at = 0
    for part, adapter in sorted(parts.items()):
        own = slice(at, at + len(adapter.a))
        a[:, own] = adapter.a.T
        b[own, starts[part] : starts[part] + len(adapter.b)] = adapter.b.T * (adapter.scale / scale)
        at += len(adapter.a)
    with_sizes = any(adapter.sizes is not None for adapter in parts.values())
    names = add_lora(program, [escape(target.name)], rank=rank, alpha=scale * rank, dora=with_sizes)
    if len(names) != 2 + with_sizes:
        raise ModelError(
            f"{target.name!r} is the weight of {len(names) // (2 + with_sizes)} layers, which one adapter cannot tell apart. "
            "Untie it."
        )
    values = [a, b]
    if with_sizes:  # columns that have no adapter keep their norms
        sizes = program.global_block().vars[names[2]].get_value().astype(np.float64)
        for part, adapter in parts.items():
            if adapter.sizes is not None:
                sizes[starts[part] : starts[part] + len(adapter.b)] = adapter.sizes
        values.append(sizes)
    for name, value in zip(names, values, strict=True):
        p = program.global_block().vars[name]
        assert isinstance(p, Parameter)
        p.set_value(value.astype(p.dtype.numpy))
    return names


def _starts(target: LoraTarget, parts: dict[int, _Adapter], columns: int) -> dict[int, int]:
    """Where the parts of a packed weight begin: k is as wide as v, and q takes the rest; gate and up are halves"""
    packed = next(parts_of for word, parts_of in PACKED.items() if word in target.name or word in (target.op.name or ""))
    known = {part: len(adapter.b) for part, adapter in parts.items()}
    if len(packed) == 2:
        widths = [columns // 2] * 2
    else:
        key = known.get(1, known.get(2, (columns - known.get(0, 0)) // 2))
        widths = [columns - 2 * key, key, key]
    if any(widths[part] != width for part, width in known.items()):
        raise UnknownName(f"adapters of {target.name!r} have the widths {known}, which do not fill its {columns} columns.")
    return dict(enumerate(np.cumsum([0, *widths[:-1]]).tolist()))


@checked
def save_peft(
    program: Program, folder: str | Path, *, base: str | None = None, packed: bool = False, scope: Scope | None = None
) -> list[str]:
    """Write the adapters of a program as a folder that ``PeftModel.from_pretrained`` loads.

    Args:
        program: with branches beside MatMul, Gemm and MatMulNBits layers.
        folder: to write ``adapter_config.json`` and ``adapter_model.safetensors`` to.
        base: name or folder of the PyTorch model, for ``base_model_name_or_path``. What its config.json says of its kind counts
            as ``packed``.
        packed: whether its modules hold q, k and v in one weight, and gate and up in another.
        scope: where the weights are; None for the program's own.

    Returns:
        Names of the modules that are adapted.

    Raises:
        ArgumentError: if the program has no branches, or one beside a Conv, or two beside one layer.

    Example:
        >>> modules = save_peft(program, "adapter/", base="Qwen/Qwen2.5-0.5B-Instruct")  # doctest: +SKIP
    """
    adapters: dict[str, _Adapter] = {}
    if expert_branches(program):
        raise ArgumentError("PEFT's folders are not written for adapters of experts. Merge them, or adapt other layers.")
    for branch in branches_of(program):
        for adapter in _taken_apart(program, branch, scope or program.active_scope()):
            if adapter.module in adapters:
                raise ArgumentError(f"{adapter.module!r} has two adapters. Merge one of them before.")
            adapters[adapter.module] = adapter
    if not adapters:
        raise ArgumentError("the program has no LoRA branches to save. Call add_lora first.")
    if packed or _is_packing(base):
        adapters = _put_together(adapters)
    tensors: dict[str, Array] = {}
    for adapter in adapters.values():
        for label, value in zip("AB", (adapter.a, adapter.b), strict=True):
            tensors[f"{_PREFIX}{adapter.module}.lora_{label}.weight"] = np.ascontiguousarray(value, np.float32)
        if adapter.sizes is not None:
            tensors[f"{_PREFIX}{adapter.module}.lora_magnitude_vector"] = np.ascontiguousarray(adapter.sizes, np.float32)
    plain = [module for module, adapter in adapters.items() if adapter.sizes is None]
    if 0 < len(plain) < len(adapters):
        raise ArgumentError(f"PEFT has DoRA for all adapters of a folder or for none, and {plain[0]!r} has no sizes. Merge some.")
    first = next(iter(adapters.values()))
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "inference_mode": True, "bias": "none",
        **({} if plain else {"use_dora": True}), "r": len(first.a), "lora_alpha": first.scale * len(first.a), "lora_dropout": 0.0,
        "use_rslora": False, "target_modules": sorted(adapters),
        "rank_pattern": {re.escape(m): len(x.a) for m, x in adapters.items() if len(x.a) != len(first.a)},
        "alpha_pattern": {
            re.escape(m): x.scale * len(x.a) for m, x in adapters.items() if x.scale * len(x.a) != first.scale * len(first.a)
        },
    }  # fmt: skip
    make_folder(Path(folder))
    write_tensors(Path(folder) / TENSORS, tensors, {"format": "pt"})
    write_whole(Path(folder) / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    return sorted(adapters)


def _is_packing(base: str | None) -> bool:
    """Whether the configuration of a PyTorch model in a folder says that its modules are packed"""
    path = None if base is None else Path(base) / "config.json"
    if path is None or not is_file(path):
        return False
    try:
        config = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{str(path)!r} is damaged: {error}. Fetch it again.") from error
    return isinstance(config, dict) and config.get("model_type") in _PACKING


def _taken_apart(program: Program, branch: Branch, scope: Scope) -> list[_Adapter]:
    """The adapter of a layer, or of each module that its weight holds"""
    if branch.base.type == "Conv":
        raise ArgumentError(
            f"{branch.base}: PEFT's folders are written for MatMul, Gemm and MatMulNBits. Merge the adapters instead."
        )
    a, b = (np.asarray(v.get_value(scope), np.float64).T for v in (branch.a, branch.b))
    sizes = None if branch.magnitude is None else np.asarray(branch.magnitude.sizes.get_value(scope), np.float64)
    module = _module(branch)
    stem, _, leaf = module.rpartition(".")
    whole = _Adapter(module, a, b, branch.scale, sizes)
    if leaf not in PACKED:
        return [whole]
    widths = _widths(program, branch, leaf, len(b))
    cuts = np.cumsum([0, *widths])
    return [
        whole.rows(cuts[i], cuts[i + 1])._replace(module=f"{stem}.{part}")
        for i, part in enumerate(PACKED[leaf])
        if sizes is not None or b[cuts[i] : cuts[i + 1]].any() or not b.any()
    ]


def _widths(program: Program, branch: Branch, leaf: str, columns: int) -> list[int]:
    if len(PACKED[leaf]) == 2:
        return [columns // 2] * 2
    readers = [op for op in all_operators_of(program.global_block()) if op.attrs.get("num_heads")]
    heads = next(((op.attrs["num_heads"], op.attrs.get("kv_num_heads") or op.attrs["num_heads"]) for op in readers), (1, 1))
    size, rest = divmod(columns, heads[0] + 2 * heads[1])
    if rest:
        raise ArgumentError(
            f"{branch.base}: its {columns} columns do not divide into {heads} heads, so q, k and v cannot be told apart."
        )
    return [heads[0] * size, heads[1] * size, heads[1] * size]


def _module(branch: Branch) -> str:
    """The PyTorch module of a layer: the path in the name of its weight, or of its operator"""
    named = (branch.add.metadata or {}).get(KEY, "")
    words = next((w for w in (_words(named), _words(branch.base.name or "")) if len(w) > 1 or w == ["lm_head"]), _words(named))
    return ".".join("self_attn" if word == "attn" and "layers" in words else word for word in words)


def _put_together(adapters: dict[str, _Adapter]) -> dict[str, _Adapter]:
    """Adapters of modules that hold several layers in one weight, each with the ranks of all"""
    joined: dict[str, _Adapter] = {}
    for module, adapter in adapters.items():
        stem, _, leaf = module.rpartition(".")
        packed = next((word for word, parts in PACKED.items() if leaf in parts), None)
        if packed is None:
            joined[module] = adapter
            continue
        name = f"{stem}.{packed}"
        if name in joined:
            continue
        parts = [adapters.get(f"{stem}.{part}") for part in PACKED[packed]]
        widths = [None if part is None else len(part.b) for part in parts]
        if len(widths) == 2:
            widths = [len(adapter.b)] * 2
        elif widths[0] is not None and widths[1:] != [None, None]:
            key = widths[1] or widths[2]
            widths = [widths[0], key, key]
        else:
            raise ArgumentError(f"{name!r} needs adapters of q_proj and of k_proj or v_proj. Train them too, or leave all out.")
        sizes = None
        if adapter.sizes is not None:
            held = [part.sizes for part in parts if part is not None and part.sizes is not None]
            if len(held) < len(parts):
                raise ArgumentError(f"{name!r} needs DoRA of all its parts, as their norms are one. Train them all.")
            sizes = np.concatenate(held)
        rank = sum(len(part.a) for part in parts if part is not None)
        a, b = np.zeros((rank, adapter.a.shape[1])), np.zeros((sum(w or 0 for w in widths), rank))
        row = column = 0
        for part, width in zip(parts, widths, strict=True):
            if part is not None:
                a[column : column + len(part.a)] = part.a
                b[row : row + len(part.b), column : column + len(part.a)] = part.b * (part.scale / adapter.scale)
                column += len(part.a)
            row += width or 0
        joined[name] = _Adapter(name, a, b, adapter.scale, sizes)
    return joined
