"""What ``onnxgrad info`` does; its arguments are in ``options/info.py``."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from onnxgrad.cli.common import human, load, print_json, shape_text, sizes_of
from onnxgrad.cli.options.info import SHOWN
from onnxgrad.core.interop.weights import is_table
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ModelError
from onnxgrad.internal.words import DETECTION
from onnxgrad.training.data.derived_inputs import EMBEDDED, TOKENS, DerivedInputs, read_by_loss
from onnxgrad.training.data.record import record_of
from onnxgrad.training.detection.classes import class_names
from onnxgrad.training.detection.heads import DetectorHead, MapHead, freeze_decoding, recognise_head
from onnxgrad.training.losses.fitting import fitting_losses
from onnxgrad.training.losses.word_scores import check_word_scores, other_part
from onnxgrad.training.surgery.batch_norm import has_statistics
from onnxgrad.training.surgery.ties import find_ties

_MODES = ("BatchNormalization", "Dropout", "InstanceNormalization")


def run(options: argparse.Namespace) -> int:
    facts = describe(load(options), sizes_of(options.dim))
    if options.json:
        print_json(facts)
    else:
        _print(facts, options.all)
    return 0


def describe(program: Program, sizes: dict[str, int]) -> dict[str, Any]:
    """All that ``info`` knows, as plain values."""
    freeze_decoding(program)
    head = recognise_head(program)
    weights = [_weight(p) for p in program.parameters]
    names = {p.name for p in program.parameters}
    fixed = {name: text.partition(": ")[2] for name, text in program.decisions.items() if name not in names}
    operators = list(all_operators_of(program.global_block()))
    follows = DerivedInputs(program).follows
    return {
        "producer": " ".join(filter(None, program.producer)),
        "opset": {domain or "ai.onnx": version for domain, version in program.opset_imports},
        "inputs": [
            {"name": v.name, "type": shape_text(v), **({"follows": follows[v.name]} if v.name in follows else {})}
            for v in program.inputs
        ],
        "head": _head(program, head),
        "outputs": [{"name": v.name, "type": shape_text(v), "losses": _losses(v, program, head)} for v in program.outputs],
        "data": _recorded(program),
        "operators": len(operators),
        "parameters": {
            "count": len(weights),
            "elements": sum(w["elements"] for w in weights),
            "bytes": sum(w["bytes"] for w in weights),
            "trainable": sum(w["trainable"] for w in weights),
            "weights": weights,
            "not_weights": fixed,
            "tables": {p.name: p.reason for p in program.parameters if is_table(p)},
        },
        "ties": find_ties(program).warnings(),
        "hints": [*_hints(operators), *_unneeded(program), *_parts(program)],
        "training_mode_operators": {op_type: sum(op.type == op_type for op in operators) for op_type in _MODES},
        "keeps_statistics": has_statistics(program),
        "memory": _memory(program, sizes),
    }


def _recorded(program: Program) -> dict[str, Any]:
    """The record of the data that the model was trained with, if it can be read"""
    try:
        return {name: column.as_json() for name, column in record_of(program).columns.items()}
    except ModelError:
        return {"": {"kind": "a damaged record (--ignore-record)"}}


def _losses(v: Variable, program: Program, head: DetectorHead | MapHead | None) -> list[str]:
    """The losses that fit an output: a detector has one for all of its outputs"""
    if isinstance(head, DetectorHead):
        return [DETECTION]
    return [*fitting_losses(v, program), *([DETECTION] if head is not None and head.is_text_map else [])]


def _head(program: Program, head: DetectorHead | MapHead | None) -> dict[str, Any] | None:
    """What the outputs together are recognised as"""
    if head is None:
        return None
    if isinstance(head, MapHead):
        masks = "cross_entropy of masks" if (head.channels or 2) > 1 else "bce_with_logits of masks"
        return {"is": head.description, "loss": f"detection of text regions, or {masks}" if head.is_text_map else masks}
    names = class_names(program)
    known = {} if names is None else {"classes": names}
    return {"is": head.description, "loss": f"detection: {head.loss_terms}", **known}


def _hints(operators: list[Any]) -> list[str]:
    """Return hints on operators that an exporter may have dropped"""
    convolutions = sum(op.type in ("Conv", "ConvTranspose") for op in operators)
    if convolutions < 2 or any("Normalization" in op.type for op in operators):
        return []
    return [f"none of {convolutions} convolutions is normalised. If an exporter folded BatchNormalization, see train --batch-norm."]


def _unneeded(program: Program) -> list[str]:
    """Inputs that a loss of the first output would not read"""
    output = next((v for v in program.outputs if v.is_float), None)
    if output is None:
        return []
    _, left = read_by_loss(program.inputs, output)
    return [f"a loss of {output.name!r} does not need the input {', '.join(map(repr, left))}."] if left else []


def _parts(program: Program) -> list[str]:
    """What is said of a file that holds part of a language model"""
    other = other_part(program)
    if other is not None:
        return [f"this file is {other}. Train the file with logits on tokens."]
    said, whole = [], False
    for v in program.outputs:
        if v.is_float and v.rank == 3 and any(given.name == TOKENS for given in program.inputs):
            try:
                check_word_scores(v)
                whole = True
            except ArgumentError as error:
                said.append(str(error))
    if any(v.name == EMBEDDED for v in program.inputs):
        said.append(f"{EMBEDDED} are rows of the embedding table, which another file of the model computes from token ids.")
    return [] if whole else said


def _weight(p: Any) -> dict[str, Any]:
    size = int(np.prod(p.static_shape or (0,)))
    reason = (
        p.reason
        if p.trainable
        else f"frozen: {p.reason} (not a weight; train --train '{p.name}' trains it)"
        if is_table(p)
        else "frozen: the file says so"
    )
    entry = {"name": p.name, "type": shape_text(p), "elements": size, "bytes": size * np.dtype(p.dtype.numpy).itemsize}
    return {**entry, "trainable": bool(p.trainable), "reason": reason}


def _memory(program: Program, sizes: dict[str, int]) -> dict[str, Any]:
    """Weights, gradients and Adam's two moments; every float result once for the forward and once for the backward pass"""
    weights = sum(_bytes(p, sizes) for p in program.parameters)
    results = [v for op in program.global_block().ops for v in op.outputs if v is not None and v.value is None and v.is_float]
    known = [v for v in results if v.dims is not None]
    assumed = sorted({str(d) for v in known for i, d in enumerate(v.dims or ()) if isinstance(d, str) and d not in sizes})
    return {
        "weights_gradients_and_adam": 4 * weights,
        "results_and_their_gradients": 2 * sum(_bytes(v, sizes) for v in known),
        "results_of_unknown_shape": len(results) - len(known),
        "dimensions_taken_as_1": assumed,
    }


def _bytes(v: Variable, sizes: dict[str, int]) -> int:
    dims = [d if isinstance(d, int) else sizes.get(str(d), 1) for d in v.dims or ()]
    return math.prod(dims) * int(np.dtype(v.dtype.numpy).itemsize)


def _short(value: Any) -> str:
    """A value of the record, of a list the first six"""
    if not isinstance(value, list):
        return str(value)
    return " ".join(map(str, value[:6])) + (f" ... ({len(value)})" if len(value) > 6 else "")


def _print(facts: dict[str, Any], everything: bool) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opset"].items())
    print(f"opset {opsets}; {facts['operators']} operators; written by {facts['producer'] or 'an unknown producer'}")
    for section in ("inputs", "outputs"):
        for v in facts[section]:
            losses = f"; losses that fit: {', '.join(v['losses'])}" if v.get("losses") else ""
            follows = f"; {v['follows']}, unless the data has it" if v.get("follows") else ""
            print(f"{section[:-1]:<7} {v['name']}: {v['type']}{losses}{follows}")
    for name, column in facts["data"].items():
        known = ", ".join(f"{field} {_short(value)}" for field, value in column.items() if field != "kind")
        print(f"data    {name}: {column['kind']}{f' ({known})' if known else ''}")
    if facts["head"] is not None:
        print(f"this is {facts['head']['is']}")
        print(f"  its loss: {facts['head']['loss']}")
    parameters = facts["parameters"]
    print(
        f"{parameters['elements']:,} parameters in {parameters['count']} tensors ({parameters['trainable']} trainable), "
        f"{human(parameters['bytes'])}"
    )
    weights = parameters["weights"] if everything else parameters["weights"][:SHOWN]
    for w in weights:
        print(f"  {w['name']}: {w['type']}, {w['reason']}")
    if len(parameters["weights"]) > len(weights):
        print(f"  and {len(parameters['weights']) - len(weights)} more (--all)")
    for name, why in parameters["tables"].items():
        print(f"frozen, as it is not a weight: {name}: {why} (train --train '{name}' trains it)")
    floats = {name: why for name, why in parameters["not_weights"].items() if why != "not a floating-point tensor"}
    print(f"not trained: {len(parameters['not_weights'])} constants, {len(floats)} of them floating-point")
    for name, why in list(floats.items())[: None if everything else SHOWN // 2]:
        print(f"  {name}: {why}")
    for text in [*facts["ties"], *facts["hints"]]:
        print(f"note: {text}")
    modes = ", ".join(f"{count} {op_type}" for op_type, count in facts["training_mode_operators"].items() if count)
    frozen = [w["name"] for w in parameters["weights"] if not w["trainable"]]
    if frozen:
        named = ", ".join(frozen[:3]) + (f" and {len(frozen) - 3} more" if len(frozen) > 3 else "")
        print(f"training freezes {len(frozen)} of {parameters['count']} tensors: {named}")
    if facts["keeps_statistics"]:
        print("training keeps the file's BatchNormalization statistics, unless --batch-norm train is given")
    print(f"operators that training changes: {modes or 'none'}")
    memory = facts["memory"]
    total = memory["weights_gradients_and_adam"] + memory["results_and_their_gradients"]
    ones = ", ".join(memory["dimensions_taken_as_1"][:4])
    print(f"a training step takes about {human(total)}" + (f", with {ones} = 1 (set --dim)" if ones else ""))
