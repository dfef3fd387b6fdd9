"""Branches, loops, and what changes variables in place, which is refused."""

from __future__ import annotations

from onnxgrad.refusals import refused
from onnxgrad.static.metric import Print
from onnxgrad.static.nn import case, cond, py_func, switch_case, while_loop

__all__ = [
    "DynamicRNN",
    "IfElse",
    "Print",
    "StaticRNN",
    "Switch",
    "While",
    "array_length",
    "array_read",
    "array_write",
    "case",
    "cond",
    "create_array",
    "dynamic_gru",
    "dynamic_lstm",
    "py_func",
    "switch_case",
    "while_loop",
]

_ONCE = "variables are assigned once and never overwritten"
_LOD = "ONNX tensors have no levels of detail (LoD)"
While = refused("fluid.layers.While", _ONCE, "Use while_loop, whose body returns the new values.")
Switch = refused("fluid.layers.Switch", _ONCE, "Use case or switch_case, whose functions return values.")
IfElse = refused("fluid.layers.IfElse", "it splits the rows of a batch between two networks", "Compute both and use paddle.where.")
StaticRNN = refused("fluid.layers.StaticRNN", _ONCE, "Use while_loop, or write the steps out.")
DynamicRNN = refused("fluid.layers.DynamicRNN", _LOD, "Pad to [N, T, C] and use while_loop.")
dynamic_lstm = refused("fluid.layers.dynamic_lstm", _LOD, "Pad to [N, T, C] and append an LSTM operator with block.append_op.")
dynamic_gru = refused("fluid.layers.dynamic_gru", _LOD, "Pad to [N, T, C] and append a GRU operator with block.append_op.")
create_array = refused("fluid.layers.create_array", _ONCE, "Keep a Python list, or concatenate in a while_loop.")
array_read = refused("fluid.layers.array_read", _ONCE, "Keep a Python list, or gather from a stacked tensor.")
array_write = refused("fluid.layers.array_write", _ONCE, "Keep a Python list, or concatenate in a while_loop.")
array_length = refused("fluid.layers.array_length", _ONCE, "Keep a Python list.")
