"""What ``onnxgrad grad`` does; its arguments are in ``options/grad.py``."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

import numpy as np

from onnxgrad import func
from onnxgrad.cli.common import load, print_json, shape_text
from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.training.surgery.activations import Activation


def run(options: argparse.Namespace) -> int:
    if options.cotangent and options.label is not None:
        raise ArgumentError("--class K fixes the cotangent that --cotangent makes an input. Give one of them.")
    derive = func.vjp if options.cotangent else func.value_and_grad
    program = load(options)
    names, notes = ([], []) if options.cotangent else _differentiated(program, options.of, options.label)
    derived = derive(program, names or options.of, options.wrt)
    shown = [v.name for v in _outputs(program, options.of)] if names else []
    values = [derived.program.global_block().vars[name] for name in shown if name not in [v.name for v in derived._fetches]]
    fetches = [*values, *derived._fetches]
    save_onnx(derived.program, options.output, fetches, lowering=options.lowering)
    inputs = [{"name": v.name, "type": shape_text(v)} for v in derived.program.inputs]
    outputs = [{"name": v.name, "type": shape_text(v)} for v in fetches]
    if options.json:
        print_json({"file": options.output, "inputs": inputs, "outputs": outputs, "notes": notes})
        return 0
    for note in notes:
        print(f"note: {note}")
    print(f"wrote {options.output}")
    for role, entries in (("input", inputs), ("output", outputs)):
        for entry in entries:
            print(f"{role:<7} {entry['name']}: {entry['type']}")
    return 0


def _outputs(program: Program, names: list[str] | None) -> list[Variable]:
    """The floating-point outputs, or what is named of the main graph"""
    known = program.global_block().vars
    return [v for v in program.outputs if v.is_float] if names is None else [known[name] for name in names if name in known]


def _differentiated(program: Program, names: list[str] | None, label: int | None) -> tuple[list[str], list[str]]:
    """Names of what is differentiated instead of the outputs, and what to say of it; no names if it is the outputs."""
    chosen, notes = [], []
    if any(name not in program.global_block().vars for name in names or ()):
        return [], []  # func says which
    for y in _outputs(program, names):
        activation = Activation(y)
        if label is not None:
            chosen.append(_one_class(program, y, activation, label).name)
        elif activation.kind == "Softmax":
            chosen.append(activation.before.name)
            notes.append(
                f"{y.name} comes from Softmax, so its sum is constant; the gradient is of the logits before it, "
                f"{activation.before.name}. --class K takes one class, --cotangent any weights."
            )
        else:
            chosen.append(y.name)
    return (chosen, notes) if label is not None or notes else ([], [])


def _one_class(program: Program, y: Variable, activation: Activation, label: int) -> Variable:
    """Class ``label`` of an output, along the axis of its Softmax, or axis 1"""
    rank = 2 if y.rank is None else y.rank
    if rank == 0:
        raise ArgumentError(
            f"--class {label}: {y.name} is one number and has no classes. Leave --class out, or name another with --of."
        )
    along = [axis for axis in range(rank) if activation.kind in ("Softmax", "LogSoftmax") and activation.runs_along(axis)]
    axis = along[0] if along else min(1, rank - 1)
    count = y.dims[axis] if y.dims is not None else None
    if label < 0 or (isinstance(count, int) and label >= count):
        known = f"0 to {count - 1}" if isinstance(count, int) else "0 and above"
        raise ArgumentError(f"--class {label}: {y.name} has the classes {known}. Choose one of them.")
    class_score: Variable = program.global_block().build.emit(
        "Gather", [y, np.array(label)], {"axis": axis}, outputs=[program.fresh_name(f"{y.name}@CLASS")]
    )[0]
    return class_score
