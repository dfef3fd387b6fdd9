"""The operators of ai.onnx.preview.training (Gradient, Adam, Adagrad, Momentum), written out in standard operators.

No runtime of today has a kernel for them. Definitions: the text of their ONNX specification.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import dependent_operators, needed_operators, substitute
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.domains import expands
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.rules.common import zeros_like
from onnxgrad.errors import ModelError

__all__ = ["TRAINING_DOMAIN", "expand_training_operators"]

TRAINING_DOMAIN = "ai.onnx.preview.training"


@expands(TRAINING_DOMAIN)
def expand_training_operators(program: Program) -> None:
    """Write out every operator of ai.onnx.preview.training in the main graph, in place.

    Raises:
        ModelError: naming an operator that cannot be written out; UnsupportedGradient if Gradient meets an operator without one.
    """
    if program.opset_version() is None:
        program.set_opset_version(OLDEST_WITH_RULES)
    lift(program)
    for body in program.blocks[1:]:
        for op in body.ops:
            if op.domain == TRAINING_DOMAIN:
                raise ModelError(f"{op}: {op.type} is expanded in the main graph only, not inside a body.")
    block = program.global_block()
    ahead, block.ops = block.ops, []
    replaced: dict[Variable, Variable] = {}
    for op in ahead:
        substitute([op], replaced)
        if op.domain == TRAINING_DOMAIN:
            _write_out(block, op, replaced)
        else:
            infer_leniently(op)
            block.ops.append(op)
    program.opset_imports = [(domain, version) for domain, version in program.opset_imports if domain != TRAINING_DOMAIN]
    program.version += 1


def _write_out(block: Block, op: Operator, replaced: dict[Variable, Variable]) -> None:
    """Append what ``op`` computes. Its output variables stay, as outputs of an Identity, so that their names do."""
    if op.type not in _EXPANSIONS:
        raise ModelError(f"{op}: {TRAINING_DOMAIN} has no operator {op.type} that is known here. Known: {', '.join(_EXPANSIONS)}.")
    results = _EXPANSIONS[op.type](block, op)
    role = Role.BACKWARD if op.type == "Gradient" else Role.OPTIMIZE
    for old, new in zip(op.outputs, results, strict=False):
        if old is not None:
            old.op = Operator(block, "Identity", [new], [old])
            old.op.role = role
            old.type = new.type
            block.ops.append(old.op)


# Gradient --------------------------------------------------------------------------------------------------------------


def _gradient(block: Block, op: Operator) -> list[Variable]:
    """dy/dx for the x of ``xs``, where the tensors of ``xs`` and ``zs`` are independent and have the values of the inputs"""
    names = [*op.attrs["xs"], *op.attrs.get("zs", [])]
    independent = [_named(block, op, name) for name in names]
    y = _named(block, op, op.attrs["y"])
    inputs = [v for v in op.inputs if v is not None]
    if len(inputs) != len(names):
        raise ModelError(f"{op}: Gradient has {len(inputs)} inputs for {len(names)} tensors in xs and zs.")
    count = len(op.attrs["xs"])
    if len(inputs) == len(independent) and all(map(is_, inputs, independent)) and not _depend(block, independent):
        at = independent
    else:
        at, y = _moved(block, independent, inputs, y)
    for v in at[:count]:
        v.stop_gradient = False
    grads = gradients(y, at[:count], no_grad_set=at[count:]) if y.op is not None else [None] * count
    return [zeros_like(block.build, v) if g is None else g for v, g in zip(at[:count], grads, strict=True)]


def _named(block: Block, op: Operator, name: str) -> Variable:
    variable = block.vars.get(name)
    if variable is None:
        raise ModelError(f"{op}: Gradient names {name!r}, which the graph does not compute before it.")
    return variable


def _depend(block: Block, tensors: list[Variable]) -> bool:
    """Return whether one of these is computed from another"""
    dependent = {v for op in dependent_operators(block.ops, tensors) for v in op.outputs}
    return any(v in dependent for v in tensors)


def _moved(block: Block, tensors: list[Variable], values: list[Variable], y: Variable) -> tuple[list[Variable], Variable]:
    """Copy the operators from ``tensors`` to ``y``, at ``values``; return the inputs of the copy and its ``y``."""
    build = Builder(block, key=y.name, role=Role.BACKWARD)
    at: list[Variable] = [build.Identity(v) for v in values]
    mapping = dict(zip(tensors, at, strict=True))
    fixed = set(tensors)
    path = [op for op in dependent_operators(block.ops, tensors) if not all(v is None or v in fixed for v in op.outputs)]
    needed = _until(needed_operators(path, [y]), fixed, y)
    program = block.program
    for op in needed:
        for copy in copy_operators([op], mapping, block, lambda v: program.fresh_name(f"{v.name}/at")):
            copy.role = Role.BACKWARD
            block.append(copy)
        mapping.update(zip(tensors, at, strict=True))  # also where this operator computes one of them
    return at, mapping.get(y, y)


def _until(operators: list[Operator], fixed: set[Variable], y: Variable) -> list[Operator]:
    """Return the operators that ``y`` needs when the fixed tensors are known."""
    wanted, kept = {y} - fixed, []
    for op in reversed(operators):
        if any(v is not None and v in wanted for v in op.outputs):
            kept.append(op)
            wanted |= {v for v in op.operands() if v is not None} - fixed
    return kept[::-1]


# Optimizers ------------------------------------------------------------------------------------------------------------


def _optimizer(slots: int) -> Callable[[Callable[..., tuple[Variable, ...]]], Callable[[Block, Operator], list[Variable]]]:
    """Apply the update of one tensor to all; ``slots`` is how many inputs belong to a tensor: value, gradient, state."""

    def wrap(update: Callable[..., tuple[Variable, ...]]) -> Callable[[Block, Operator], list[Variable]]:
        def expand(block: Block, op: Operator) -> list[Variable]:
            rate, step, *rest = op.inputs
            count = len(rest) // slots
            if count * slots != len(rest) or len(op.outputs) > count * (slots - 1):
                raise ModelError(f"{op}: {op.type} takes R, T and {slots} lists of equal length; {len(rest)} tensors are given.")
            results = []
            for i in range(count):
                first = op.outputs[i]
                build = Builder(block, key=f"{op.type}.{i}" if first is None else first.name, role=Role.OPTIMIZE)
                x = rest[i]
                assert x is not None and rate is not None and step is not None
                steps = build.Cast(step, to=x.dtype.number)
                results.append(update(build, _Attributes(op), build.Cast(rate, to=x.dtype.number), steps, *rest[i::count]))
            return [result[slot] for slot in range(slots - 1) for result in results]

        return expand

    return wrap


class _Attributes:
    """Attributes with the defaults of the schema, as Python numbers"""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def __getattr__(self, name: str) -> Any:
        if name in self.op.attrs:
            return self.op.attrs[name]
        try:
            return _DEFAULTS[name]
        except KeyError:
            raise ModelError(f"{self.op}: the attribute {name} is missing.") from None


_DEFAULTS = {"norm_coefficient": 0.0, "norm_coefficient_post": 0.0, "epsilon": 1e-6, "decay_factor": 0.0}


def _regularized(op: Builder, at: _Attributes, x: Variable, g: Variable) -> Variable:
    return op.Add(g, op.Mul(x, at.norm_coefficient)) if at.norm_coefficient else g


@_optimizer(4)
def _adam(op: Builder, at: _Attributes, rate: Any, t: Any, x: Any, g: Any, v: Any, h: Any) -> tuple[Any, Any, Any]:
    """v' = alpha v + (1 - alpha) g;  h' = beta h + (1 - beta) g^2;  x' = x - r v' / (sqrt(h') + epsilon)"""
    alpha, beta = at.op.attrs.get("alpha", 0.9), at.op.attrs.get("beta", 0.999)
    g = _regularized(op, at, x, g)
    v = op.Add(op.Mul(v, alpha), op.Mul(g, 1 - alpha))
    h = op.Add(op.Mul(h, beta), op.Mul(op.Mul(g, g), 1 - beta))
    # At T = 0 both powers are 1 and the quotient 0/0: T = 1 stands in, and the result is not used.
    powers = op.Max(t, 1.0)
    corrected = op.Div(op.Mul(rate, op.Sqrt(op.Sub(1.0, op.Pow(beta, powers)))), op.Sub(1.0, op.Pow(alpha, powers)))
    rate = op.Where(op.Greater(t, 0.0), corrected, rate)
    x = op.Sub(x, op.Div(op.Mul(rate, v), op.Add(op.Sqrt(h), at.epsilon)))
    if at.norm_coefficient_post:
        x = op.Mul(x, 1 - at.norm_coefficient_post)
    return x, v, h


@_optimizer(3)
def _adagrad(op: Builder, at: _Attributes, rate: Any, t: Any, x: Any, g: Any, h: Any) -> tuple[Any, Any]:
    """h' = h + g^2;  x' = x - r / (1 + t decay) g / (sqrt(h') + epsilon)"""
    if at.decay_factor:
        rate = op.Div(rate, op.Add(op.Mul(t, at.decay_factor), 1.0))
    g = _regularized(op, at, x, g)
    h = op.Add(h, op.Mul(g, g))
    return op.Sub(x, op.Div(op.Mul(rate, g), op.Add(op.Sqrt(h), at.epsilon))), h


@_optimizer(3)
def _momentum(op: Builder, at: _Attributes, rate: Any, t: Any, x: Any, g: Any, v: Any) -> tuple[Any, Any]:
    """v' = alpha v + beta g, with beta = 1 at t = 0;  x' = x - r v', or with nesterov x - r (g + alpha v')"""
    g = _regularized(op, at, x, g)
    scaled = op.Where(op.Greater(t, 0.0), op.Mul(g, at.beta), g) if at.beta != 1 else g
    v = op.Add(op.Mul(v, at.alpha), scaled)
    if at.mode not in ("standard", "nesterov"):
        raise ModelError(f"{at.op}: mode is 'standard' or 'nesterov', not {at.mode!r}.")
    direction = v if at.mode == "standard" else op.Add(g, op.Mul(v, at.alpha))
    return op.Sub(x, op.Mul(rate, direction)), v


_EXPANSIONS: dict[str, Callable[[Block, Operator], list[Variable]]] = {
    "Gradient": _gradient,
    "Adam": _adam,
    "Adagrad": _adagrad,
    "Momentum": _momentum,
}
