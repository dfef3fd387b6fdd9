"""Programs as bytes: an ONNX message without the values of parameters, which names the state and the updates.

Tests: tests/static/test_static.py, tests/core/interop/test_damaged_bytes.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ModelError
from onnxgrad.internal.late import provides

__all__ = ["parse_program", "write_program"]

_KEY = "onnxgrad.program"


@provides("Program.serialize_to_string")
def write_program(program: Program) -> bytes:
    """A program as ONNX bytes without the values of its persistable variables; ``parse_program`` reads them."""
    block = program.global_block()
    read = {v for op in block.ops for v in op.operands()}
    ends = [v for op in block.ops if op.replaces is None for v in op.outputs if v is not None and v not in read]
    graph = compile(program, list(dict.fromkeys([*block.outputs, *ends])), state_as_inputs=True)
    inputs = {v.name for v in graph.inputs}
    # An input or parameter that nothing reads belongs to the program too.
    graph.inputs += [graph.of(v) for v in [*block.inputs, *program.parameters] if v.name not in inputs and v.value is None]
    model = write_model(graph)
    state = [v for v in graph.inputs if v.persistable]
    held = {v.name for v in state}
    entry = model.metadata_props.add()
    entry.key = _KEY
    entry.value = json.dumps(
        {
            "parameters": {p.name: p.trainable for p in program.parameters if p.name in held},
            "state": [v.name for v in state],
            "updates": {v.name: graph.name(new) for v, new in program.updates.items()},
            "outputs": [v.name for v in block.outputs],
        }
    )
    data: bytes = model.SerializeToString()
    return data


@provides("Program.parse_from_string")
def parse_program(data: bytes) -> Program:
    """A program from the bytes of ``serialize_program``; its values are in the global scope. Other ONNX models are read too.

    Raises:
        ModelError: if they are not ONNX, or what they say of the state does not fit the graph.
        ArgumentTypeError: if they are not bytes.
    """
    program = from_onnx(data, parameters=[]) if isinstance(data, bytes) and _KEY.encode() in data else from_onnx(data)
    described = program.metadata.pop(_KEY, None)
    if described is None:
        return program
    details = _details(described)
    block = program.global_block()
    known = {v.name for v in block.inputs if v.value is None and isinstance(v.type, TensorType)}
    _check_named(known, [*details["parameters"], *details["state"], *details["updates"]], "which is not an input without a value")
    _check_named(set(block.vars), [*details["updates"].values(), *details["outputs"]], "which is not there")
    program.scope = None
    parameters: dict[Variable, Variable] = {}
    for name, trainable in details["parameters"].items():
        old = block.vars[name]
        parameter = Parameter(block, name, old.type, trainable)
        block.vars[name] = parameters[old] = parameter
        program.parameters.append(parameter)
        block.initializers.append(parameter)
    substitute(block.ops, parameters)
    states = {*details["state"], *details["parameters"]}
    block.inputs = [v for v in block.inputs if v.name not in states]
    for name in states:
        block.vars[name].is_data = False
        block.vars[name].persistable = True
    program.updates = {block.vars[old]: block.vars[new] for old, new in details["updates"].items()}
    for old, new in program.updates.items():
        if old.name not in states or not (new.type is None or (isinstance(new.type, TensorType) and old.dtype is new.dtype)):
            raise ModelError(f"the program's update of {old.name!r} to {new.name!r} does not fit. The bytes are damaged.")
    block.outputs = [block.vars[name] for name in details["outputs"]]
    return program


def _details(described: str) -> dict[str, Any]:
    """Parse the description of the state, and check the types that ``write_program`` gives it"""
    try:
        state = json.loads(described)
        names = [*state["state"], *state["parameters"], *state["outputs"], *state["updates"], *state["updates"].values()]
        lists = isinstance(state["state"], list) and isinstance(state["outputs"], list)
        fits = lists and all(isinstance(name, str) for name in names)
        fits = fits and all(isinstance(trainable, bool) for trainable in state["parameters"].values())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError("the bytes do not describe the state of a program. They are damaged.") from error
    if not fits:
        raise ModelError("the bytes do not describe the state of a program. They are damaged.")
    return dict(state)


def _check_named(known: set[str], names: Iterable[str], why: str) -> None:
    for name in names:
        if name not in known:
            raise ModelError(f"the program's state names {name!r}, {why}. The bytes are damaged.")
