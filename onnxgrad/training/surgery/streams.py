"""Models that read a stream chunk by chunk, with a state that one call gives the next, as models of all chunks at once.

The chunk's operators become the body of a Scan, whose gradient flows through the states from the last chunk to the first
(back-propagation through time). For an export the body is put back, so that the file is again one of a single chunk.

Tests: tests/training/surgery/test_streams.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.bodies import finish_body, move_into
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.infer import infer_with_bodies
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.traverse import dependent_operators, needed_operators, substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["KEY", "RATES", "roll_up", "states_of", "unroll"]

KEY = "onnxgrad.stream"
"""Metadata of an unrolled program: what ``roll_up`` puts back."""
RATES = ("sr", "rate", "sample_rate", "sampling_rate")
"""Names of inputs of one integer that say how many samples a second has."""
_ENDINGS = (("", "N"), ("", "n"), ("", "_n"), ("", "_out"), ("_in", "_out"), ("prev", "next"), ("past", "present"))


def states_of(program: Program) -> dict[str, str]:
    """Return inputs that are states, with the outputs that the next call gets for them, as far as names and shapes say so.

    Args:
        program: a loaded model.

    Example:
        >>> from onnx import parser
        >>> file = '<ir_version: 8, opset_import: ["": 17]> m (float[N, 4] x, float[N, 4] h) => (float[N, 4] y, float[N, 4] hn) '
        >>> states_of(onnxgrad.from_onnx(parser.parse_model(file + "{ hn = Add(x, h)  y = Tanh(hn) }")))
        {'h': 'hn'}
    """
    outputs = {v.name: v for v in program.outputs}
    states = {}
    for v in program.inputs:
        names = [v.name.replace(old, new) if old else v.name + new for old, new in _ENDINGS if old in v.name]
        fitting = [name for name in [*names, f"new_{v.name}"] if name != v.name and name in outputs and _alike(v, outputs[name])]
        if v.is_float and fitting:
            states[v.name] = fitting[0]
    return states


@checked
def unroll(program: Program, states: Mapping[str, str] | None = None, rate: int | None = None) -> list[str]:
    """Let a program of one chunk of a stream take all chunks, in place: [batch, chunk] becomes [batch, chunks, chunk].

    Outputs get the axis of chunks behind that of the batch. States begin as zeros, and are no inputs and outputs any more. What
    ``Trainer.export`` writes is again the program of one chunk.

    Args:
        program: a loaded model, without a backward pass.
        states: by input, the output that the next chunk gets for it; None for what ``states_of`` says.
        rate: what an input that asks for the samples in a second gets, where there is one.

    Returns:
        Lines on what was found.

    Raises:
        ArgumentError: if no state or no input is found for chunks, an output does not depend on it, or the rate is missing.
    """
    found = dict(states_of(program) if states is None else states)
    inputs, outputs = ({v.name: v for v in values} for values in (program.inputs, program.outputs))
    for start, end in found.items():
        if start not in inputs or end not in outputs:
            raise ArgumentError(
                f"{start!r} and {end!r} are not an input and an output: there are {list(inputs)} and {list(outputs)}."
            )
    if not found:
        raise ArgumentError(f"no state is found among {list(inputs)} and {list(outputs)}. Name them (--state IN=OUT).")
    rates = [v for v in inputs.values() if v.name in RATES and v.dtype.is_integer and v.rank in (0, 1)]
    others = [v for v in inputs.values() if v.name not in found and not any(v is r for r in rates)]
    if len(others) != 1 or not others[0].is_float or others[0].rank is None:
        raise ArgumentError(f"one input takes chunks of numbers besides the states {list(found)}; there are {others}.")
    if rates and rate is None:
        raise ArgumentError(f"the input {rates[0].name!r} needs the sample rate. Give it (--sound-rate).")
    with transaction(program):
        _unroll(program, others[0], found, rates, rate or 0)
    names = " and ".join(f"{start!r} from {end!r}" for start, end in found.items())
    return [f"{others[0].name!r} takes all chunks of a stream; each gets {names} of the one before, the first one zeros."]


def _unroll(program: Program, x: Variable, states: Mapping[str, str], rates: Sequence[Variable], rate: int) -> None:
    main = program.global_block()
    kept_outputs = [v for v in program.outputs if v.name not in states.values()]
    record: dict[str, Any] = {
        "input": x.name,
        "states": dict(states),
        "inputs": [[v.name, _dims(v), v.dtype.name] for v in program.inputs],
        "outputs": [v.name for v in program.outputs],
        "rates": {},
    }
    for v in rates:
        constant = program.constant(np.full([1] * (v.rank or 0), rate, v.dtype.numpy))
        # A result of its own: other operators may read the same constant, and the input is put back in place of this one.
        op = main.append_op("Identity", [constant], [program.fresh_name(f"{v.name}/stream")])
        main.ops.insert(0, main.ops.pop())
        assert op.outputs[0] is not None
        record["rates"][v.name] = op.outputs[0].name
        substitute(main.ops[1:], {v: op.outputs[0]})
    old = [next(v for v in program.inputs if v.name == name) for name in states]
    moved = dependent_operators(main.ops, [x, *old])
    kept = {id(op) for op in moved}
    main.ops = [op for op in main.ops if id(op) not in kept]
    results = {id(v) for op in moved for v in op.outputs if v is not None}
    apart = [v.name for v in [*kept_outputs, *(program.find(end) for end in states.values())] if id(v) not in results]
    if apart:
        raise ArgumentError(f"the output {apart[0]!r} does not depend on the chunks {x.name!r}. Leave it out of the model.")
    body = program.new_block(main, "stream")
    inner = [Variable(body, program.fresh_name(f"{v.name}/chunk"), v.type) for v in [*old, x]]
    body.inputs = [body.register(v) for v in inner]
    ends = [program.find(end) for end in states.values()]
    for op in moved:
        for result in op.outputs:
            if result is not None:
                del main.vars[result.name]
                result.block = body
        for nested in op.blocks():
            nested.parent = body
        body.append(op)
    substitute(body.ops, dict(zip([*old, x], inner, strict=True)))
    names = {v.name: v for v in kept_outputs}
    for v in [*kept_outputs, *ends]:
        v.name = program.fresh_name(f"{v.name}/chunk")
    record["results"] = {name: v.name for name, v in names.items()}
    record["ends"] = {end: v.name for end, v in zip(states.values(), ends, strict=True)}
    finish_body(body, [*ends, *kept_outputs], Builder(body, key="stream"))
    for v in [*old, *rates]:
        del main.vars[v.name]
    main.inputs = [v for v in main.inputs if v is x]
    x.type, x.declared = TensorType(x.dtype, (*(x.dims or ())[:1], None, *(x.dims or ())[1:])), None
    build = Builder(main, key="stream")
    starts = [_zeros(build, x, v) for v in old]
    attrs = {"body": body, "num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [1] * len(names)}
    scan = Operator(main, "Scan", [*starts, x], [], attrs)
    finals = [Variable(main, program.fresh_name(f"{end}/last"), None, scan) for end in states.values()]
    scan.outputs = [*finals, *(Variable(main, name, None, scan) for name in names)]
    infer_with_bodies(scan)
    main.append(scan)
    main.outputs = [v for v in scan.outputs[len(finals) :] if v is not None]
    for v, end in zip(main.outputs, kept_outputs, strict=True):
        if not isinstance(v.type, TensorType) or v.type.dims is None:
            v.type = TensorType(end.dtype, None if end.dims is None else (*end.dims[:1], None, *end.dims[1:]))
    program.metadata[KEY] = json.dumps(record)


def roll_up(program: Program) -> Program:
    """Return the program of one chunk of what ``unroll`` has changed; other programs as they are."""
    text = program.metadata.get(KEY)
    if text is None:
        return program
    program = program.clone()
    record = json.loads(text)
    main = program.global_block()
    scan = next(op for op in main.ops if op.type == "Scan" and op.attrs["body"].name == "stream")
    body = scan.attrs["body"]
    states, x = list(record["states"]), main.inputs[0]
    main.ops.remove(scan)
    for v in scan.outputs:
        if v is not None:
            del main.vars[v.name]
    types = {name: TensorType(dtype_of(kind), _read_dims(dims)) for name, dims, kind in record["inputs"]}
    x.type, x.declared = types[x.name], None
    given = {x.name: x}
    for name in [*states, *record["rates"]]:
        v = Variable(main, name, types[name])
        v.is_data = True
        given[name] = main.register(v)
    main.inputs = [given[name] for name, _, _ in record["inputs"]]
    renamed = {**record["results"], **record["ends"]}
    inside = {v.name: v for v in (main.vars | body.vars).values()}
    move_into(main, body, [*(given[name] for name in states), x])
    for name, inner in renamed.items():
        inside[inner].name = name
    for name, fixed in record["rates"].items():
        substitute(main.ops, {main.vars[fixed]: given[name]})
    main.outputs = [main.vars[name] for name in record["outputs"]]
    needed = {id(op) for op in needed_operators(main.ops, main.outputs)}
    for op in [op for op in main.ops if id(op) not in needed]:
        for v in op.outputs:
            if v is not None and not v.persistable:
                main.vars.pop(v.name, None)
    main.ops = [op for op in main.ops if id(op) in needed]
    for op in main.ops:
        infer_with_bodies(op)
    del program.metadata[KEY]
    return program


def _alike(start: Variable, end: Variable) -> bool:
    if start.dims is None or end.dims is None:
        return True
    fixed = zip(start.dims, end.dims, strict=False)
    return len(start.dims) == len(end.dims) and all(a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in fixed)


def _zeros(op: Builder, x: Variable, state: Variable) -> Variable:
    """A state of zeros, as large along the axis of the batch as the chunks are

    Raises:
        ArgumentError: if the state leaves another size open.
    """
    dims = list(state.dims or ())
    free = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
    batch = [axis for axis in free if dims[axis] == (x.dims or (None,))[0]]
    if not state.dims or (len(free) > 1 and len(batch) != 1):
        raise ArgumentError(f"the shape {dims} of the state {state.name!r} does not show the axis of the batch.")
    if not free:
        shape: Any = np.array(dims, np.int64)
    else:
        axis = batch[0] if len(batch) == 1 else free[0]
        size = op.Slice(op.Shape(x), [0], [1])
        parts = [op.constant(np.array([dim], np.int64)) if i != axis else size for i, dim in enumerate(dims)]
        shape = parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)
    zeros: Variable = op.Expand(np.zeros([1] * len(dims), state.dtype.numpy), shape)
    return zeros


def _dims(v: Variable) -> list[Any] | None:
    return None if v.dims is None else list(v.dims)


def _read_dims(dims: list[Any] | None) -> tuple[Any, ...] | None:
    return None if dims is None else tuple(dims)
