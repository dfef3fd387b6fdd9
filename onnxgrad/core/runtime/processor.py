"""Detect the instructions of this machine's processor, and what onnxruntime needs where it lacks them."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from onnx import ModelProto, TensorProto

__all__ = ["has_integer_products", "separate_bytes"]


@cache
def has_integer_products() -> bool:
    """Whether products of bytes are summed in 32 bits (VNNI, or another kind of processor than x86). False where nobody says."""
    if platform.machine().lower() not in ("x86_64", "amd64", "x86", "i686"):
        return True
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
    return "avx512_vnni" in flags or "avx_vnni" in flags


def separate_bytes(model: ModelProto) -> None:
    """Give each reader of a constant of signed bytes a constant of its own, in place.

    Where products of bytes are not summed in 32 bits, ``session.x64quantprecision`` lets onnxruntime write the signed constants of
    each such operator as unsigned ones. For two readers of one constant it does so twice under one name, and refuses the second
    (1.32: "Attempt to replace the existing tensor").
    """
    signed = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.INT8}
    inputs = {v.name for v in model.graph.input}
    read: set[str] = set()
    for number, node in enumerate(model.graph.node):
        for i, name in enumerate(node.input):
            if name in read:
                own = model.graph.initializer.add()
                own.CopyFrom(signed[name])
                own.name = node.input[i] = f"{name}/{number}/{i}"
            elif name in signed and name not in inputs:
                read.add(name)
