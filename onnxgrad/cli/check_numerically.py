"""Gradients of a model compared with differences, along one direction for each weight and input."""

# Tests: tests/cli/test_check.py.

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad import func
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.passes.domains import EXPANSIONS
from onnxgrad.core.passes.double_precision import in_double_precision
from onnxgrad.core.rules.registry import find_entry
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ExecutionError, OnnxGradError
from onnxgrad.testing.differences import Estimate, differentiate, kink_at_zero, noise_of
from onnxgrad.training.run.progress import Working

__all__ = ["compare"]

Array = np.ndarray[Any, Any]

_FIRST_STEP = 3e-2
_MARGIN = 4.0
_TO_BYTES = 4
"""The accuracy_level by which MatMulNBits rounds its other operand to 8-bit integers."""
_NO_DOUBLE = re.compile(r"implementation for (\w+)\(|while running (\w+) node")
# The kernels are registered for float64 and refuse it when they run.
_REFUSED_LATE = ("LSTM", "GRU", "RNN")


class _Model:
    """A program at one point, as a function of one of its weights or inputs along a direction."""

    def __init__(self, program: Program, feeds: dict[str, Array], outputs: list[str], precision: float) -> None:
        self.program, self.outputs, self.precision = program, outputs, precision
        inputs = {v.name: v.dtype.numpy for v in program.inputs}
        self.feeds = {name: array.astype(inputs[name], copy=False) for name, array in feeds.items() if name in inputs}
        self.parameters = {p.name: p for p in program.parameters}
        self.executor = Executor()
        self.values = self.run({})

    def run(self, changed: dict[str, Array]) -> dict[str, Array]:
        values = self.executor.run(self.program, {**self.feeds, **changed}, self.outputs)
        return dict(zip(self.outputs, values, strict=True))

    def start(self, name: str) -> Array:
        return np.asarray(self.parameters[name].get_value() if name in self.parameters else self.feeds[name])

    def line(self, name: str, direction: Array, cotangents: dict[str, Array]) -> Callable[[float], float]:
        """t -> sum(cotangents * outputs) where ``name`` is moved by t times the direction."""
        start = self.start(name)

        def f(t: float) -> float:
            moved = (start + t * direction).astype(start.dtype)
            p = self.parameters.get(name)
            if p is None:
                return self.weigh(self.run({name: moved}), cotangents)
            p.set_value(moved)
            try:
                return self.weigh(self.run({}), cotangents)
            finally:
                p.set_value(start)

        return f

    def weigh(self, values: dict[str, Array], cotangents: dict[str, Array]) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(sum(np.vdot(np.asarray(values[n], np.float64), cotangents[n]) for n in self.outputs))


def compare(
    program: Program, feeds: dict[str, Array], names: list[str], seed: int, tolerance: float, working: Working
) -> list[dict[str, Any]]:
    """For each name: the derivative along a random direction by the gradient and by differences, and the verdict.

    ``right`` is True where both agree, False where the gradient is proven wrong, None where differences cannot tell; ``error`` is
    what the differences may be off, ``why`` says what they cannot tell.
    """
    rng = np.random.default_rng(seed)
    working.say("writing the gradient")
    gradient = func.vjp(program, wrt=names)
    outputs = [name for name in gradient.directions if name not in _unwritten(program)]
    working.say("running the model")
    own = _Model(program.clone(), feeds, outputs, 1e-7)
    cotangents = {name: np.asarray(rng.normal(size=value.shape), value.dtype) for name, value in own.values.items()}
    working.say("running the gradient")
    _, gradients = gradient(feeds, cotangents | _no_directions(program, feeds, gradient.directions, outputs))
    working.say("preparing differences")
    best = _in_double(program, feeds, own) or own
    judge = _Judge(program, best, cotangents, tolerance)
    rows = []
    for i, name in enumerate(names):
        working.say(f"checking {name}", i, len(names))
        rows.append(judge.row(name, gradients[name], _direction(gradients[name], rng)))
    return rows


def _unwritten(program: Program) -> set[str]:
    """Caches of a window, of which onnxruntime leaves the places behind the tokens as the memory was"""
    attentions = (op for op in program.global_block().ops if op.attrs.get("sliding_window_cache"))
    return {v.name for op in attentions for v in op.outputs[1:] if v is not None}


def _no_directions(program: Program, feeds: dict[str, Array], names: Any, chosen: list[str]) -> dict[str, Array]:
    """Zeros for the outputs that are not compared"""
    others = [name for name in names if name not in chosen]
    values = Executor().run(program, feeds, others) if others else []
    return {name: np.zeros_like(value) for name, value in zip(others, values, strict=True)}


class _Judge:
    def __init__(self, program: Program, model: _Model, cotangents: dict[str, Array], tolerance: float) -> None:
        self.model, self.tolerance, self.program = model, tolerance, program
        self.cotangents = {name: np.asarray(array, np.float64) for name, array in cotangents.items()}
        self.at = model.weigh(model.values, self.cotangents)
        weighted = [np.asarray(v, np.float64) * self.cotangents[n] for n, v in model.values.items()]
        scale = float(sum(np.square(array).sum() for array in weighted))
        self.noise, self.measured = model.precision * float(np.sqrt(scale)) * 0.1, 0
        self._double: dict[str, Array] | None = None

    def row(self, name: str, gradient: Array, direction: Array) -> dict[str, Any]:
        along = float((np.asarray(gradient, np.float64) * direction).sum())
        length = max(1.0, float(np.linalg.norm(np.asarray(self.model.start(name), np.float64))))
        f = self.model.line(name, direction, self.cotangents)
        if self.measured < 4:
            self.noise, self.measured = max(self.noise, noise_of(f, self.at, self.model.precision * length)), self.measured + 1
        tiny = self.model.precision * length
        estimate = differentiate(f, _FIRST_STEP * length, self.noise, claimed=along, tiny=tiny)
        right, why = self.verdict(along, estimate)
        if right is False:
            estimate, right, why = self._second_opinion(name, direction, along, estimate, f, length)
        row = {"name": name, "gradient": along, "differences": estimate.value, "error": estimate.error, "right": right, "why": why}
        return row

    def verdict(self, along: float, estimate: Estimate) -> tuple[bool | None, str]:
        """Right, wrong beyond the error of the differences, or neither"""
        size, apart = max(abs(along), abs(estimate.value)), abs(along - estimate.value)
        if not np.isfinite(estimate.error):
            return (None, "the outputs are not finite near this point")
        if along == 0.0 and estimate.value == 0.0:
            return True, ""
        if estimate.error <= self.tolerance * size and apart <= self.tolerance * size + estimate.error:
            return True, ""
        if apart > self.tolerance * size + _MARGIN * estimate.error:
            return False, ""
        if 2.0 * self.noise / estimate.step > 0.5 * estimate.error:
            return None, "rounding hides it"
        return None, "the function changes too fast for finite differences"

    def _second_opinion(
        self, name: str, direction: Array, along: float, estimate: Estimate, f: Callable[[float], float], length: float
    ) -> tuple[Estimate, bool | None, str]:
        """Other steps, the kinks that a gradient may choose a side of, and the same rules in float64"""
        tiny = self.model.precision * length
        again = differentiate(f, 0.6 * _FIRST_STEP * length, self.noise, claimed=along, tiny=tiny, shrink=3.0, steps=15)
        right, why = self.verdict(along, again)
        if right is not False:
            return again, right, why
        if again.error < estimate.error:
            estimate = again
        jump = kink_at_zero(f, self.at, estimate.step, self.noise)
        if jump:
            estimate = estimate._replace(error=estimate.error + jump / 2.0)
            if self.verdict(along, estimate)[0] is not False:
                return estimate, None, "the model has a kink here"
        exact = self._in_double(name)
        if exact is not None and self.verdict(float((exact * direction).sum()), estimate)[0] is not False:
            return estimate, None, "the gradient agrees in float64; in the file's type rounding is too large"
        rounds = _rounding(self.program)
        if rounds is not None:
            return estimate, None, f"the gradient passes through {rounds} by convention"
        return estimate, False, ""

    def _in_double(self, name: str) -> Array | None:
        """The gradient as the same rules give it in float64, if onnxruntime can"""
        if self._double is None:
            self._double = {}
            if self.model.precision < 1e-10:
                names = [*self.model.parameters, *self.model.feeds]
                known = [n for n in names if self.model.start(n).dtype == np.float64]
                try:
                    exact = func.vjp(self.model.program, self.model.outputs, known)
                    self._double = exact(self.model.feeds, self.cotangents)[1]
                except OnnxGradError:
                    pass
        gradient: Array | None = self._double.get(name)
        return gradient


def _in_double(program: Program, feeds: dict[str, Array], own: _Model) -> _Model | None:
    """The model in float64, with operators that have no kernel there as they were; None where that does not compute the same

    Operators of onnxruntime are written out: in 16 bits they round away the steps that differences take.
    """
    written = _written_out(program)
    if written is not None:
        model = _widened(written, feeds, own)
        if model is not None:
            return model
    return _widened(program, feeds, own)


def _written_out(program: Program) -> Program | None:
    """A copy in standard operators; None where there is nothing to write out, or no form for it"""
    if not any(op.domain == CONTRIB_DOMAIN for op in all_operators_of(program.global_block())):
        return None
    copy = program.clone()
    copy.scope = program.active_scope()
    try:
        EXPANSIONS[CONTRIB_DOMAIN](copy)
    except OnnxGradError:
        return None
    return copy


def _widened(program: Program, feeds: dict[str, Array], own: _Model) -> _Model | None:
    """The model in float64, if its values are those of the file but for how that rounds"""
    rounds = any(
        op.attrs.get("accuracy_level") == _TO_BYTES or any(v is not None and v.is_float and v.dtype.bits < 32 for v in op.outputs)
        for op in all_operators_of(own.program.global_block())
    )
    closeness = 5e-2 if rounds else 1e-2
    keep = {op.type for op in all_operators_of(program.global_block()) if op.type in _REFUSED_LATE}
    for _ in range(30):
        try:
            wide = in_double_precision(program, keep)
            model = _Model(wide, feeds, own.outputs, 1e-7 if keep else 1e-15)
        except ExecutionError as error:
            more = _without_kernel(program, str(error)) - keep
            if not more:
                return None
            keep |= more
            continue
        except OnnxGradError:
            return None
        for name, value in model.values.items():
            was = np.asarray(own.values[name], np.float64)
            if value.shape != was.shape or not np.linalg.norm(value - was) <= closeness * np.linalg.norm(was):
                return None
        return model
    return None


def _without_kernel(program: Program, message: str) -> set[str]:
    """Return the operator types that onnxruntime refused in float64: the named one, or the functions with it in their body"""
    named = _NO_DOUBLE.search(message)
    missing = {name for name in (named.groups() if named else ()) if name}
    operators = list(all_operators_of(program.global_block()))
    present = {op.type for op in operators}
    if missing & present:
        return missing & present
    bodies = {op.type: op.schema.raw for op in operators if op.schema is not None}
    written = {op_type for op_type, raw in bodies.items() if missing & {node.op_type for node in raw.function_body.node}}
    return written or {op_type for op_type, raw in bodies.items() if getattr(raw, "has_context_dependent_function", False)}


def _rounding(program: Program) -> str | None:
    """Return the type of the first operator that quantises: its gradient is not the derivative of its output"""
    for op in all_operators_of(program.global_block()):
        entry = find_entry(op)
        if (entry is not None and entry.quantizes) or op.attrs.get("accuracy_level") == _TO_BYTES:
            return str(op.type)
    return None


def _direction(gradient: Array, rng: np.random.Generator) -> Array:
    """Half along the gradient, so that there is something to see, half at random, so that what it lacks is seen"""
    random = rng.normal(0, 1, gradient.shape)
    random /= max(float(np.linalg.norm(random)), 1e-30)
    along = np.asarray(gradient, np.float64) / max(float(np.linalg.norm(np.asarray(gradient, np.float64))), 1e-30)
    both: Array = along + random
    return both
