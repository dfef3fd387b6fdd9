"""Names of weights after the modules of the exporter, where a file calls them ``onnx::Conv_89`` or ``val_95``."""

from __future__ import annotations

import ast
import re

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of, readers_in

__all__ = ["module_names"]

_NUMBERED = re.compile(r"onnx::\w+|val_\d+|const_\d+|\d+")
_SCOPES = "pkg.torch.onnx.name_scopes"
_RECURRENT = {1: "weight_ih", 2: "weight_hh", 3: "bias"}
_OPERANDS = {
    "Conv": {1: "weight", 2: "bias"},
    "ConvTranspose": {1: "weight", 2: "bias"},
    "Gemm": {1: "weight", 2: "bias"},
    "MatMul": {0: "weight", 1: "weight"},
    "Add": {0: "bias", 1: "bias"},
    "Mul": {0: "scale", 1: "scale"},
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "RNN": _RECURRENT,
}


def module_names(program: Program) -> dict[str, str]:
    """Return a name for each weight: its own, or where that is a number, that of the module whose operator reads it.

    An exporter that folds a weight (a transposed matrix, BatchNormalization in a convolution) names the result by a number; the
    operator that reads it still knows its module, by its name or by its metadata. Names stay different: a second weight of the
    same name keeps its own behind it.

    Returns:
        Names by the names of the file, such as ``{"onnx::Conv_89": "layer1.0.conv1.weight"}``.

    Example:
        >>> import onnxgrad as og
        >>> module_names(og.from_onnx("tests/data/real_models/torch/convnext_block-legacy17/model.onnx"))["onnx::MatMul_37"]
        'p1.weight'
    """
    readers = readers_in(all_operators_of(program.global_block()))
    names: dict[str, str] = {}
    taken = {p.name for p in program.parameters}
    for p in program.parameters:
        names[p.name] = p.name
        if _NUMBERED.fullmatch(p.name) is None:
            continue
        for op, index in readers[p]:
            module = _module_of(op)
            if module:
                name = f"{module}.{_OPERANDS.get(op.type, {}).get(index, op.type)}"
                names[p.name] = f"{name} ({p.name})" if name in taken else name
                taken.add(names[p.name])
                break
    return names


def _module_of(op: Operator) -> str:
    """``stages.0.mlp.fc1`` of an operator; an empty text where neither its metadata nor its name tell"""
    try:
        scopes = ast.literal_eval((op.metadata or {}).get(_SCOPES, "[]"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        scopes = []
    if isinstance(scopes, list) and len(scopes) > 1 and isinstance(scopes[-2], str):
        return scopes[-2]
    if not (op.name or "").startswith("/"):
        return ""
    module: list[str] = []
    for part in op.name.strip("/").split("/")[:-1]:
        if module and part.startswith(f"{module[-1]}."):
            module[-1] = part  # torch writes "/stages/stages.0/"
        else:
            module.append(part)
    return ".".join(module)
