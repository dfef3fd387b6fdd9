"""Read from a program what a rank holds and hands on in a step: the numbers that ``distributed.costs`` computes with.

Tests: tests/distributed/test_costs.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.graph.order import peak_of_run
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import bytes_of, know_sizes
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.step.cut import exchanged_gradients, is_applied, is_small
from onnxgrad.core.step.pipeline import PipelineStage
from onnxgrad.core.step.pipeline_plan import plan_pipeline
from onnxgrad.distributed.buckets import Buckets
from onnxgrad.distributed.costs import StageCosts, StepCosts
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.errors import ArgumentError

__all__ = ["costs_of_stages", "costs_of_step", "fix_sizes"]


def fix_sizes(program: Program, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give the inputs of a program, which has no backward pass yet, known shapes, and all that is computed from them.

    Args:
        program: is changed.
        shapes: of all its inputs, by name.
    """
    know_sizes(program.global_block().ops, lambda v: tuple(shapes[v.name]) if v.name in shapes else v.dims or ())


def costs_of_step(program: Program, loss: Variable, seconds: float, strategy: Strategy | None = None) -> StepCosts:
    """What a process holds in a step of a program, in bytes.

    Args:
        program: that an optimizer updates, with known sizes (``fix_sizes``); it is not changed. Of results whose size is not known
            all the same, an unknown dimension counts as 1.
        loss: what was minimized.
        seconds: that a step computes.
        strategy: how large buckets are; None for the default.

    Raises:
        ArgumentError: if no optimizer updates the program, or a gradient has no known shape.
    """
    limit = int((strategy or Strategy()).bucket_megabytes * 1e6)
    applied = [new for new in program.updates.values() if is_applied(new)]
    if not applied:
        raise ArgumentError("no optimizer updates this program. Call minimize on the loss first.")
    grads = [v for v in exchanged_gradients(program, applied) if v.is_float]
    weights = sum(map(bytes_of, program.parameters))
    return StepCosts(weights, _state(program), tuple(_bucket_bytes(grads, limit)), _activations(program, loss, grads), seconds)


def _activations(program: Program, loss: Variable, grads: list[Variable]) -> int:
    """The most bytes of results and of their gradients that live at once; gradients of parameters lie in buckets"""
    graph = compile(program, [loss, *grads], "cpu", state_as_inputs=True, updates=False, ordered=True)
    return peak_of_run(graph.operators, [graph.of(v) for v in grads], unknown_is_one=True) or 0


def _bucket_bytes(grads: list[Variable], limit: int) -> list[int]:
    """Bytes of the buckets of gradients; their memory is not touched, so it is never taken"""
    return [np.dtype(dtype).itemsize * size for dtype, size in Buckets([grads], limit).sizes]


def _state(program: Program) -> int:
    """Bytes of what an optimizer keeps"""
    return sum(bytes_of(v) for v, new in program.updates.items() if is_applied(new) and not isinstance(v, Parameter))


def costs_of_stages(program: Program, loss: Variable, stages: int) -> list[StageCosts]:
    """What each stage of a pipeline holds and hands on, cut where ``Strategy(pipeline=)`` cuts by itself.

    Args:
        program: that an optimizer updates, with the sizes of a micro-batch (``fix_sizes``); it is not changed.
        loss: what was minimized.
        stages: how many.

    Raises:
        ArgumentError: if the program cannot be cut into so many stages.
    """
    # Known sizes hide which axis counts examples; how micro-batches are weighed changes no size.
    plan = plan_pipeline(program, loss, stages, (), "sum", "cpu")
    if stages > 1 and any(not v.static_shape and v.rank for stage in plan.stages for v in stage.gives):
        raise ArgumentError("what a stage hands on has no known size. Give the sizes of all dimensions (--dim NAME=SIZE).")
    parameters = {p.name: p for p in program.parameters}
    users: dict[str, list[int]] = {}
    for number, stage in enumerate(plan.stages):
        for name in stage.parameters:
            users.setdefault(name, []).append(number)
    state_of_byte = _state(program) / (sum(bytes_of(parameters[name]) for name in users) or 1)
    costs = []
    for number, stage in enumerate(plan.stages):
        own = [parameters[name] for name in stage.parameters if users[name][0] == number]
        tied = [parameters[name] for name in stage.parameters if len(users[name]) > 1]
        costs.append(
            StageCosts(
                weights=sum(bytes_of(parameters[v.name]) for v in stage.forward.inputs if v.name in parameters),
                gradients=sum(bytes_of(parameters[name]) for name in stage.parameters),
                state=round(state_of_byte * sum(map(bytes_of, own))),
                kept=_kept(stage),
                runs=_runs(stage),
                gives=_sizes(stage.gives),
                returns=_sizes(stage.returns),
                sums=tuple(map(bytes_of, own)),
                small=tuple(bytes_of(p) for p in own if is_small(p)),
                tied=sum(_sent_of_tied(p, users[p.name], number) for p in tied),
            )
        )
    return costs


def _sent_of_tied(p: Parameter, users: list[int], stage: int) -> int:
    """Bytes that a stage sends of a parameter that several read: its gradient to the first of them, which sends new values back"""
    if stage != users[0]:
        return bytes_of(p)
    return 0 if is_small(p) else bytes_of(p) * (len(users) - 1)


def _kept(stage: PipelineStage) -> int:
    """Bytes of a micro-batch that the backward pass of a stage reads"""
    if stage.backward is None:
        return 0
    received = set(stage.receives.values())
    return sum(bytes_of(v) for v in stage.backward.inputs if not v.persistable and v.name not in received)


def _runs(stage: PipelineStage) -> int:
    """Bytes of results that live at once while a stage runs; what is kept, and gradients of parameters, not counted"""
    kept = [v for name, v in stage.forward.outputs if name in stage.kept]
    forward = peak_of_run(stage.forward.operators, kept, unknown_is_one=True) or 0
    if stage.backward is None:
        return forward
    names = set(stage.parameters.values())
    grads = [v for name, v in stage.backward.outputs if name in names]
    return max(forward, peak_of_run(stage.backward.operators, grads, unknown_is_one=True) or 0)


def _sizes(values: Iterable[Variable]) -> tuple[int, int]:
    """Bytes of some tensors, and how many they are"""
    sizes = [bytes_of(v) for v in values]
    return sum(sizes), len(sizes)
