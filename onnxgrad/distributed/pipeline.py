"""A training step whose layers lie on several ranks: micro-batches pass through them, forward and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.autodiff.pipeline import PipelineStage, make_pipeline
from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.compile.cut import is_applied
from onnxgrad.core.compile.shards import make_shards
from onnxgrad.core.compile.stages import Stage
from onnxgrad.core.interop.loss_share import Share, share_of
from onnxgrad.core.interop.onnx_export import as_variables
from onnxgrad.core.interop.split_step import check_batch_norm
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.memory import value_of, view_of
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.scope import Scope
from onnxgrad.core.ir.traverse import dependent_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.distributed.application import Application
from onnxgrad.distributed.sessions import Session
from onnxgrad.distributed.transport import PointToPoint
from onnxgrad.errors import ArgumentError

__all__ = ["PipelineStep"]

Array = np.ndarray[Any, Any]
Values = dict[str, Any]

_RANK = 8
"""Dimensions that the header of a tensor has room for."""


class PipelineStep:
    """A rank's stage of the training step of a program.

    Each rank holds the weights and the optimizer's state of its layers, and passes activations on and gradients back. Micro-batches
    follow each other in the order one forward, one backward, so stage k of K keeps the activations of at most K - k of them. The
    result is that of one process with the whole batch, to rounding, but for what is computed of each micro-batch by itself:
    statistics (``batch_norm``), and masks of Dropout, which are drawn anew for each.

    Args:
        program: that ``minimize`` was called on; it is not changed.
        loss: what was minimized.
        cuts: a variable, or several, for each stage but the last: what it hands on. What else later stages read goes along.
        transport: between the ranks, one for each stage.
        micro_batches: into how many parts each batch is cut along the first axis.
        scope: where the first values are; None for the program's.
        loss_weight, batch_norm: as for ``to_split_training_step``; not ``"sync"``.
        lowering, threads: of the graphs and their sessions.

    Attributes:
        stage: the graphs of this rank.
        most_alive: the most micro-batches whose activations this rank has kept at a time.

    Raises:
        ArgumentError: if the number of ranks is not that of the stages, a cut is out of place, two stages train one parameter, or
            the optimizer reads something else than gradients of parameters, such as a scale of the loss.

    Example:
        >>> from onnxgrad.distributed import run_local
        >>> _ = paddle.seed(1)
        >>> x = static.data("x", ["N", 3])
        >>> h = static.nn.fc(x, 8, activation="tanh")
        >>> loss = paddle.mean(paddle.square(static.nn.fc(h, 1) - 1.0))
        >>> _ = paddle.optimizer.Adam(0.1).minimize(loss)
        >>> _ = static.Executor().run(static.default_startup_program())
        >>> rows = np.ones((4, 3), np.float32)
        >>> def train(transport):
        ...     step = PipelineStep(loss.block.program, loss, [h], transport, micro_batches=2)
        ...     return [step.run({"x": rows}) for _ in range(3)]
        >>> first, second = run_local(2, train)
        >>> first == second and first[-1] < first[0]
        True
    """

    def __init__(
        self,
        program: Program,
        loss: Variable | str,
        cuts: Sequence[Variable | str | Sequence[Variable | str]],
        transport: PointToPoint,
        *,
        micro_batches: int,
        scope: Scope | None = None,
        loss_weight: Variable | str | None = None,
        batch_norm: str | None = None,
        lowering: str | None = "cpu",
        threads: int | None = None,
    ) -> None:
        if transport.world_size != len(cuts) + 1:
            raise ArgumentError(f"{len(cuts)} cuts make {len(cuts) + 1} stages, but there are {transport.world_size} ranks.")
        if micro_batches < 1:
            raise ArgumentError(f"micro_batches is at least 1, not {micro_batches}.")
        if check_batch_norm(program, batch_norm):
            raise ArgumentError("statistics of all micro-batches are not known when the first goes back. Pass batch_norm='local'.")
        self.program, self.transport, self.micro_batches = program, transport, micro_batches
        self.most_alive = 0
        rank = transport.rank
        self._plan = plan = _planned(program, loss, cuts, loss_weight, lowering)
        self.stage = plan.stages[rank]
        self._forward = Session(Stage(self.stage.forward, []), threads)
        self._backward = None if self.stage.backward is None else Session(Stage(self.stage.backward, []), threads)
        is_last = rank == transport.world_size - 1
        self._weigh = Session(Stage(plan.weigh, []), threads) if plan.weigh is not None and is_last else None
        self._places = {name: number for number, stage in enumerate(plan.stages) for name in stage.parameters}
        shards = make_shards(program, len(plan.stages), self._places)
        self._application = Application(shards, rank, transport, lowering, threads, partial=True, spreads=False)
        self._gradients = {v: _parameter(v, self._places) for v in shards.cut.gradients}
        sessions = [session for session in (self._forward, self._backward, self._weigh) if session is not None]
        names = dict.fromkeys([*(name for session in sessions for name in session.state), *self._application.state])
        variables = {v.name: v for v in program.list_vars() if v.persistable}
        self._state: Values = {name: value_of(np.asarray(variables[name].get_value(scope))) for name in names}
        self._application.begin(self._state)

    # One step --------------------------------------------------------------------------------------------------------

    def run(self, feed: Mapping[str, Any]) -> float:
        """Take a step; gives the loss of the whole batch, on every rank.

        Args:
            feed: the whole batch, by input name, of which a rank reads what its stage needs.
        """
        parts = [dict(zip(feed, arrays, strict=True)) for arrays in zip(*map(self._cut, feed.values()), strict=True)]
        self._sums: dict[str, Array] = {}
        self._head = np.zeros(2)
        count, rank = len(parts), self.transport.rank
        ahead = min(count, self.transport.world_size - 1 - rank)
        alive: list[Values] = []
        for number in range(count + ahead):
            if number < count:
                alive.append(self._go_forward(parts[number]))
                self.most_alive = max(self.most_alive, len(alive))
            if number >= ahead:
                self._go_back(alive.pop(0))
        self.transport.all_reduce_(self._head)
        total, loss = self._head.tolist()
        factor = 1.0 if self._plan.share.reduction == "sum" else 1.0 / total if total else 0.0
        self._apply(factor)
        return float(loss * factor)

    def _cut(self, array: Any) -> list[Array]:
        rows = np.asarray(array)
        if rows.ndim == 0 or len(rows) < self.micro_batches:
            raise ArgumentError(f"a batch of {rows.shape} is not cut into {self.micro_batches} micro-batches along its first axis.")
        return np.array_split(rows, self.micro_batches)

    def _go_forward(self, feed: Mapping[str, Array]) -> Values:
        """One micro-batch; gives what its backward pass will read"""
        stage, transport = self.stage, self.transport
        values = {name: value_of(np.asarray(array, order="C")) for name, array in feed.items()}
        for v, name in stage.takes.items():
            values[name] = self._receive(transport.rank - 1, v)
        results = self._forward.run(values, self._state)
        for name in stage.gives.values():
            self._send(transport.rank + 1, results[name] if name in results else values[name])
        new = {self._plan.updates[v]: results[name] for v, name in stage.results.items() if v in self._plan.updates}
        self._state.update(new)
        kept = {name: values[name] for name in (self._backward.inputs if self._backward else ()) if name in values}
        kept.update({entering: results[name] for name, entering in stage.kept.items()})
        if self._plan.loss in stage.results:
            self._weigh_loss(values, results, kept)
        return kept

    def _weigh_loss(self, values: Values, results: Values, kept: Values) -> None:
        """Count a micro-batch's loss, and begin its backward pass with its weight"""
        plan, loss = self._plan, results[self.stage.results[self._plan.loss]]
        weight = 1.0
        if plan.weight is not None:
            weighed = results if self._weigh is None else self._weigh.run(values, self._state)
            name = self.stage.results[plan.weight] if self._weigh is None else self._weigh.outputs[0]
            weight = _number(weighed[name])
        self._head += np.array([weight, weight * _number(loss) if weight else 0.0])
        if self.stage.seed is not None:
            kept[self.stage.seed] = value_of(np.full(tuple(loss.shape()), weight, view_of(loss).dtype))

    def _go_back(self, values: Values) -> None:
        stage, transport = self.stage, self.transport
        for v, name in stage.receives.items():
            values[name] = self._receive(transport.rank + 1, v)
        if self._backward is None:
            return
        results = self._backward.run(values, self._state)
        for name in stage.returns.values():
            self._send(transport.rank - 1, results[name])
        if stage.seed is not None and not view_of(values[stage.seed]).any():
            return  # what weighs nothing may have gradients that are NaN
        for parameter, name in stage.parameters.items():
            view = view_of(results[name])
            if parameter in self._sums:
                np.add(self._sums[parameter], view, out=self._sums[parameter])
            else:
                self._sums[parameter] = view.copy()

    def _apply(self, factor: float) -> None:
        """Divide by the weight of the whole batch and update what this rank holds; small gradients go to all"""
        given = {}
        for v, parameter in self._gradients.items():
            place = self._places[parameter]
            mine = place == self.transport.rank
            if mine:
                found = self._sums.get(parameter)
                array = np.zeros(v.static_shape or (), v.dtype.numpy) if found is None else found
                np.multiply(array, array.dtype.type(factor), out=array)
            elif v not in self._application.shards.owners:
                array = np.empty(v.static_shape or (), v.dtype.numpy)
            else:
                continue
            if v not in self._application.shards.owners:
                self.transport.broadcast_(array.reshape(-1).view(np.uint8), place)
            given[v] = value_of(array)
        self._application.run(given, self._state)

    # Between stages --------------------------------------------------------------------------------------------------

    def _send(self, to: int, value: Any) -> None:
        """A tensor, after its shape"""
        view = view_of(value)
        self.transport.send(np.array([view.ndim, *view.shape, *[0] * (_RANK - 1 - view.ndim)], np.int64), to)
        self.transport.send(np.ascontiguousarray(view).reshape(-1).view(np.uint8), to)

    def _receive(self, source: int, v: Variable) -> Any:
        header = np.empty(_RANK, np.int64)
        self.transport.receive_(header, source)
        array = np.empty(tuple(header[1 : 1 + header[0]]), v.dtype.numpy)
        self.transport.receive_(array.reshape(-1).view(np.uint8), source)
        return value_of(array)

    # State -----------------------------------------------------------------------------------------------------------

    def bytes_of_state(self) -> int:
        """Bytes of weights and of the optimizer's state that this rank holds."""
        return sum(view_of(value).nbytes for value in self._state.values())

    def gather(self, scope: Scope) -> None:
        """Write the state of all ranks to a scope on each; called by all."""
        places: dict[str, int] = {}
        for number, stage in enumerate(self._plan.stages):
            for graph in (stage.forward, stage.backward):
                for v in graph.inputs if graph is not None else ():
                    if v.persistable:
                        places.setdefault(v.name, number)
        small = {v.name for v in self.program.list_vars() if v.name in self._application.state}
        self._application.gather(self._state, scope, {name: rank for name, rank in places.items() if name not in small})


def _number(value: Any) -> float:
    return float(view_of(value).reshape(-1)[0])


def _parameter(gradient: Variable, places: Mapping[str, int]) -> str:
    """The parameter whose gradient an optimizer reads"""
    program = gradient.block.program
    found = [p.name for p in program.parameters if p.grad_name == gradient.name or gradient.name.endswith(f"/{p.grad_name}")]
    if not found or found[0] not in places:
        raise ArgumentError(
            f"the optimizer reads {gradient.name}, which is no gradient of a parameter of one stage. A pipeline is written for "
            "plain gradients: leave scales of the loss, and further losses, out."
        )
    return found[0]


class _Plan(NamedTuple):
    """The stages of a step, and what of the graph that they were cut from is the loss, its weight, and new state, by its name.

    ``weigh`` computes the weight from what is fed alone, if it can be.
    """

    stages: list[PipelineStage]
    share: Share
    loss: Variable
    weight: Variable | None
    updates: dict[Variable, str]
    weigh: Graph | None


def _planned(
    original: Program,
    loss: Variable | str,
    cuts: Sequence[Variable | str | Sequence[Variable | str]],
    loss_weight: Variable | str | None,
    lowering: str | None,
) -> _Plan:
    program, twins = original.clone_with_variables()
    (found,) = (twins[v] for v in as_variables(original, loss))
    behind = [[twins[v] for v in as_variables(original, cut)] for cut in cuts]
    if isinstance(loss_weight, Variable):
        share = Share("mean", twins[loss_weight])
    elif loss_weight == "sum":
        share = Share("sum")
    else:
        share = share_of(found, Builder(program.global_block(), key="loss_weight"))
    new = {made: v.name for v, made in program.updates.items() if not is_applied(made)}
    weights = [] if share.weight is None else [share.weight]
    wanted = [found, *weights, *new, *(v for cut in behind for v in cut)]
    graph = compile(program, list(dict.fromkeys(wanted)), state_as_inputs=True, updates=False)
    updated = {v for v, made in program.updates.items() if is_applied(made)}
    read = set(graph.inputs)
    trained = [graph.of(p) for p in program.parameters if p in updated and graph.of(p) in read]
    weight = None if share.weight is None else graph.of(share.weight)
    on_cuts = dependent_operators(graph.operators, [graph.of(v) for cut in behind for v in cut])
    computed = {v for op in on_cuts for v in op.outputs}
    results = [graph.of(v) for v in new] + ([weight] if weight is not None and weight in computed else [])
    stages = make_pipeline(graph, graph.of(found), results, [[graph.of(v) for v in cut] for cut in behind], trained, lowering)
    weigh = None
    if weight is not None and weight not in computed:
        weigh = compile(graph.program, [weight], lowering, state_as_inputs=True, updates=False, ordered=True)
    return _Plan(stages, share, graph.of(found), weight, {graph.of(v): name for v, name in new.items()}, weigh)
