"""A training step whose layers lie on several ranks: micro-batches pass through them, forward and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.ir.examples import batch_axes, examples_of
from onnxgrad.core.ir.named import as_variables
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.runtime.applying import OpenApplying
from onnxgrad.core.runtime.executor import set_rates
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.runtime.runner import OpenPhase
from onnxgrad.core.runtime.scope_state import ScopeState
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.cut import Cut, is_small
from onnxgrad.core.step.make import StepTarget, applied_phases, make_exchanged, step_of
from onnxgrad.core.step.pipeline_plan import Cuts, plan_pipeline
from onnxgrad.core.step.shards import Shards, Share, shares_of_stages
from onnxgrad.core.step.split import Statistics, check_batch_norm
from onnxgrad.core.step.step import Step, phase_of
from onnxgrad.core.step.synchronise import Synchronised
from onnxgrad.distributed.agreement import StepCheck, check_step
from onnxgrad.distributed.exchange import Part
from onnxgrad.distributed.groups import grid_of
from onnxgrad.distributed.memory import MainMemory
from onnxgrad.distributed.shared_state import FollowedRates, SharedState
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.processors import usable_cores

__all__ = ["PipelineStep"]

Array = np.ndarray[Any, Any]
Values: TypeAlias = "dict[str, Any]"

_RANK = 8
"""Dimensions that the header of a tensor has room for."""


class PipelineStep:
    """A rank's stage of the training step of a program.

    Each rank holds the weights and the optimizer's state of its layers, and passes activations on and gradients back. Micro-batches
    follow each other in the order one forward, one backward, so stage k of K keeps the activations of at most K - k of them. With
    more ranks than stages, each row of K ranks takes its part of the batch, and ranks of one stage add their gradients up. The
    result is that of one process with the whole batch, to rounding, but for statistics (``batch_norm``), which are of each
    micro-batch by itself. A parameter that several stages read is updated by the first of them, which gets the others' gradients.

    Masks of Dropout are those of the whole batch if ``core.passes.modes.take_parts`` was called before ``minimize``; else they are
    drawn anew for each micro-batch.

    An optimizer with ``lazy_mode`` updates the rows of a table that any micro-batch looks up, if
    ``core.step.lookups.share_lookups`` was called after ``minimize``.

    Args:
        program: that ``minimize`` was called on; it is not changed. The loss may be scaled.
        loss: what was minimized, without a scale.
        cuts: a variable, or several, for each stage but the last: what it hands on. What else later stages read goes along. Or how
            many stages there are; then cuts are chosen that need few values and balance bytes of weights and activations.
        transport: between the ranks: one for each stage, or a multiple. Rank r has stage ``r % K``.
        micro_batches: into how many parts the batch of a row is cut along the axis that counts examples, the first one unless
            ``program.plan.example_axes`` says otherwise, or fewer, if it has fewer examples.
        scope: where the first values are; None for the program's.
        fetch: what ``compute`` gives on the last stage, of which each has the examples along one axis.
        loss_weight, batch_norm: as for ``to_split_training_step``; not ``"sync"``.
        lowering, threads: of the graphs and their sessions. A place that is named decides of the first.
        place: where sessions run; None for the CPU. Ranks exchange in main memory, where the state lies, too.
        in_scope: keep the state in the scope, where an Executor reads and writes the same values. What other ranks hold is zeros
            there, which take no memory.

    Attributes:
        stage: the graphs of this rank.
        grid: where it stands among the ranks.
        check: what ranks compare in each step, before values travel.
        most_alive: the most micro-batches whose activations this rank has kept at a time.
        most_bytes: the most bytes that these had.

    Raises:
        ArgumentError: if the number of ranks is no multiple of that of the stages, a cut is out of place, or the optimizer reads
            something of the batch that is no gradient of a parameter.

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

    @checked
    def __init__(
        self,
        program: Program,
        loss: Variable | str,
        cuts: Cuts,
        transport: Transport,
        *,
        micro_batches: int,
        scope: Scope | None = None,
        fetch: Sequence[Variable | str] = (),
        loss_weight: Variable | str | None = None,
        batch_norm: Statistics | None = None,
        lowering: Lowering | None = "cpu",
        place: Place | None = None,
        threads: int | None = None,
        in_scope: bool = False,
    ) -> None:
        count = cuts if isinstance(cuts, int) else len(cuts) + 1
        if count < 1 or transport.world_size % count:
            request = f"{count} stages were asked for" if isinstance(cuts, int) else f"{count - 1} cuts make {count} stages"
            raise ArgumentError(f"{request}, but there are {transport.world_size} ranks, which is not a multiple of that.")
        if micro_batches < 1:
            raise ArgumentError(f"micro_batches is at least 1, not {micro_batches}.")
        if check_batch_norm(program, batch_norm):
            raise ArgumentError("statistics of all micro-batches are not known when the first goes back. Pass batch_norm='local'.")
        self.program, self.transport, self.micro_batches = program, transport, micro_batches
        self.grid = grid_of(transport, count)
        self.most_alive = self.most_bytes = self._done = 0
        self.check = StepCheck()
        self._is_last = self.grid.stage == count - 1
        lowering, place = (lowering, CPUPlace()) if place is None else (place.lowering, place)
        self._axes = {v.name: axis for v, axis in batch_axes(program).items() if axis}
        self._fetch_axes = _axes_of(program, fetch) if self._axes else [0] * len(fetch)
        self._plan = plan = plan_pipeline(program, loss, cuts, fetch, loss_weight, lowering)
        self.stage = plan.stages[self.grid.stage]
        self._forward, *backward = [OpenPhase(phase, place, threads) for phase in self.stage.phases(self.grid.stage)]
        self._backward = backward[0] if backward else None
        self._weigh = self._still = None
        if plan.weigh is not None and self._is_last:
            weigh = replace(phase_of("weigh the loss", plan.weigh, part_inputs=[PART]), runs="per micro-batch")
            self._weigh = OpenPhase(weigh, place, threads)
        if plan.still is not None:
            self._still = OpenPhase(phase_of("without data", plan.still), place, threads)
        self._users: dict[str, list[int]] = {}
        for number, stage in enumerate(plan.stages):
            for name in stage.parameters:
                self._users.setdefault(name, []).append(number)
        self._rank_of = {name: users[0] for name, users in self._users.items()}
        self._accumulation = program.plan.accumulation
        for total in [] if self._accumulation is None else self._accumulation.sums:
            self._rank_of[total.name] = self._rank_of.get(total.name.rpartition("@")[0], 0)  # that of weights is small: all have it
        held = scope or program.active_scope()
        self._scope = held if in_scope else held.copy()
        target = StepTarget(lowering, threads=threads or usable_cores())
        turns: list[Turn] = ["whole"] if self._accumulation is None else ["run", "apply"]
        self._appliers = {turn: self._opened(turn, target, place, threads) for turn in turns}
        shards = self._appliers[turns[0]].applying.shards
        assert shards is not None
        self._owned = shards.gradients
        weights = set() if self._accumulation is None else set(self._accumulation.weights)
        self._weights = [v for v in shards.cut.gradients if v in weights]
        left_out = {*plan.constant, *self._weights, *plan.flags.values()}
        self._gradients = {v: _parameter(v, self._rank_of) for v in shards.cut.gradients if v not in left_out}
        self._variables = {v.name: v for v in program.list_vars() if v.persistable}
        self._state = ScopeState(self._scope, self._variables.values())
        opened = [one for one in (self._forward, self._backward, self._weigh, self._still) if one is not None]
        applied = [name for one in self._appliers.values() for name in one.applying.state()]
        self._names = list(dict.fromkeys([*(name for one in opened for name in one.state), *applied]))
        self._rates = FollowedRates(program, self._scope)
        self.step: Step = self._described()
        """What this rank runs, as a value that prints well."""
        self.forget()

    def _opened(self, turn: Turn, target: StepTarget, place: Place, threads: int | None) -> OpenApplying:
        """The sessions that replace the state of this stage by what gradients, or sums of them, make of it"""
        applying = make_exchanged(self.program, turn, target, _BetweenStages(self.grid.pipeline, self._rank_of))
        return OpenApplying(self.program, applying, place, threads)

    def _described(self) -> Step:
        opened = [self._still, self._forward, self._weigh, self._backward]
        phases = [one.phase for one in opened if one is not None]
        for turn, applier in self._appliers.items():
            every = self._accumulation.runs if turn == "apply" and self._accumulation is not None else 1
            phases += [replace(phase, every=every) for phase in applied_phases(applier.applying, {})]
        name = self.stage.results.get(self._plan.loss)
        fetches = [] if name is None else [("forward", name)]
        shards = next(iter(self._appliers.values())).applying.shards
        return step_of(phases, self.stage.forward, fetches, shards, len(self._plan.stages) - 1 - self.grid.stage)

    # One step --------------------------------------------------------------------------------------------------------

    def run(self, feed: GivenByName) -> float:
        """Take a step; gives the loss of the whole batch, on every rank.

        Args:
            feed: the whole batch, by input name, of which a rank reads what its stage needs.
        """
        arrays = {name: np.asarray(array) for name, array in feed.items()}
        rows = np.array_split(np.arange(_length(arrays, self._axes)), self.grid.replicas)
        first = sum(map(len, rows[: self.grid.replica]))
        count = len(rows[self.grid.replica])
        results = self.compute(self._examples(arrays, slice(first, first + count)), Part(first, count))
        self._done += 1
        if self._accumulation is None or self._done % self._accumulation.runs == 0:
            self.apply()
        return float(results[self._plan.names[0]])

    def compute(self, feed: GivenByName, part: Part | None = None) -> dict[str, Array]:
        """The first half of ``run``: gradients of this row's part of the batch; running statistics are replaced.

        Args:
            feed: the part, by input name; all ranks of a row are given the same.
            part: which examples of the whole batch these are; None for the whole.

        Returns:
            The loss of the whole batch, and on the last stage what was fetched.

        Raises:
            TrainingError: on all ranks, if they take another step.
        """
        arrays = {name: np.asarray(array, order="C") for name, array in feed.items()}
        part = part or Part(0, _length(arrays, self._axes))
        self.check.begin(self.program, self.program.active_scope(), part.rows)
        check_step(self.transport, self.check)
        length = _length(arrays, self._axes) if part.counts else 0
        self._sums: dict[str, Array] = {}
        self._looked_up = {flag: np.zeros(flag.static_shape or (), np.uint8) for flag in self._plan.flags.values()}
        self._head, self._unit = np.zeros(4), 0.0
        self._fetched: list[list[Array]] = []
        self._scale = 1.0
        self._steady = {} if self._still is None else self._still.run({}, self._state)
        if self._plan.scale is not None:
            self._scale = _number(self._steady[self._plan.scale])
        rows = np.array_split(np.arange(length), min(self.micro_batches, length)) if length else []
        alive: list[Values] = []
        for phase, number in self.step.order(len(rows)):
            if phase == "forward":
                own = slice(rows[number][0], rows[number][-1] + 1)
                part_feed = self._examples(arrays, own)
                part_feed[PART] = np.array([part.first + own.start, own.stop - own.start], np.int64)
                alive.append(self._go_forward(part_feed))
                self.most_alive = max(self.most_alive, len(alive))
                self.most_bytes = max(self.most_bytes, sum(view_of(value).nbytes for kept in alive for value in kept.values()))
            if phase == "backward" or (phase == "forward" and self._backward is None and number >= self.step.ahead):
                self._go_back(alive.pop(0))
        while alive:
            self._go_back(alive.pop(0))
        if self._plan.takes_parts:
            self._count()
        self._average(length)
        self.transport.all_reduce_(self._head)
        total, loss, raw, seen = self._head.tolist()
        loss = loss if self._plan.term.reduction == "sum" else loss / total if total else raw / max(seen, 1.0)
        self._total = total
        if self._accumulation is not None:
            self._take_gradients("run")
        self.check.number += 1
        return {self._plan.names[0]: np.asarray(loss), **self._results(length)}

    def _examples(self, arrays: Mapping[str, Array], own: slice) -> dict[str, Array]:
        """Some examples of a feed"""
        return {name: array[(*[slice(None)] * self._axes.get(name, 0), own)] for name, array in arrays.items()}

    @property
    def weight(self) -> float | None:
        """What the loss of the last batch counts in all; None where losses of parts are added up."""
        return None if self._plan.weight is None else float(self._total)

    def _results(self, length: int) -> dict[str, Array]:
        """Concatenate the fetched values of all micro-batches"""
        if not self._is_last:
            return {}
        results = {}
        for name, axis, arrays in zip(self._plan.names[1:], self._fetch_axes, zip(*self._fetched, strict=True), strict=False):
            if any(array.ndim <= axis for array in arrays) or sum(array.shape[axis] for array in arrays) != length:
                raise ArgumentError(
                    f"{name} has not the examples along axis {axis}, by which micro-batches are put together. Do not fetch it."
                )
            results[name] = np.concatenate(arrays, axis)
        return results

    def _average(self, length: int) -> None:
        """Let running statistics be the mean over rows, each counting by its examples"""
        names = [self._plan.updates[v] for v in self.stage.results if v in self._plan.updates]
        if not names or self.grid.replicas == 1:
            return
        total = np.array([float(length)])
        self.grid.beside.all_reduce_(total)
        for name in names:
            view = view_of(self._state[name])
            mean = view.astype(np.float64).reshape(-1) * (length / float(total[0]))
            self.grid.beside.all_reduce_(mean)
            self._state[name] = value_of(mean.reshape(view.shape).astype(view.dtype))

    def _count(self) -> None:
        """Let the state go on that does not depend on data, such as the number of the step"""
        new = {name: self._steady[output] for name, output in self._plan.counters.items()}
        self._state.update(new)

    def _go_forward(self, feed: Mapping[str, Array]) -> Values:
        """One micro-batch; gives what its backward pass will read"""
        stage = self.stage
        values = {name: value_of(np.asarray(array, order="C")) for name, array in feed.items()}
        for v, name in stage.takes.items():
            values[name] = self._receive(self.grid.stage - 1, v)
        results = self._forward.run(values, self._state)
        for name in stage.gives.values():
            self._send(self.grid.stage + 1, results[name] if name in results else values[name])
        new = {self._plan.updates[v]: results[name] for v, name in stage.results.items() if v in self._plan.updates}
        self._state.update(new)
        for v, flag in self._plan.flags.items():
            if v in stage.results:  # also of examples that weigh nothing
                self._looked_up[flag] |= view_of(results[stage.results[v]]).view(np.uint8)
        kept = {name: values[name] for name in (self._backward.inputs if self._backward else ()) if name in values}
        kept.update({entering: results[name] for name, entering in stage.kept.items()})
        if self._plan.loss in stage.results:
            self._weigh_loss(values, results, kept)
            names = {**stage.takes, **stage.results}
            fetched = {name: results[name] if name in results else values[name] for name in names.values()}
            self._fetched.append([view_of(fetched[names[v]]).copy() for v in self._plan.fetched])
        if self._still is not None and not self._plan.takes_parts:
            self._count()
            self._steady = self._still.run({}, self._state)
        return kept

    def _weigh_loss(self, values: Values, results: Values, kept: Values) -> None:
        """Count a micro-batch's loss, and begin its backward pass with its weight, in units of the first micro-batches' weight"""
        plan, loss = self._plan, results[self.stage.results[self._plan.loss]]
        weight = 1.0
        if plan.weight is not None:
            weighed = results if self._weigh is None else self._weigh.run(values, self._state)
            name = self.stage.results[plan.weight] if self._weigh is None else self._weigh.outputs[0]
            weight = _number(weighed[name])
        raw = _number(loss)
        self._head += np.array([weight, weight * raw if weight else 0.0, raw, 1.0])
        self._unit = self._unit or (1.0 if plan.term.reduction == "sum" else weight * self.micro_batches)
        if self.stage.seed is not None:
            begun = weight / self._unit * self._scale if weight else 0.0
            kept[self.stage.seed] = value_of(np.full(tuple(loss.shape()), begun, view_of(loss).dtype))

    def _go_back(self, values: Values) -> None:
        stage = self.stage
        for v, name in stage.receives.items():
            values[name] = self._receive(self.grid.stage + 1, v)
        if self._backward is None:
            return
        results = self._backward.run(values, self._state)
        # What weighs nothing may have gradients that are NaN.
        counts = stage.seed is None or bool(view_of(values[stage.seed]).any())
        for name in stage.returns.values():
            self._send(self.grid.stage - 1, results[name] if counts else value_of(np.zeros_like(view_of(results[name]))))
        for parameter, name in stage.parameters.items() if counts else ():
            view = view_of(results[name])
            if parameter in self._sums:
                np.add(self._sums[parameter], view, out=self._sums[parameter])
            else:
                self._sums[parameter] = view.copy()

    def apply(self) -> None:
        """The second half of ``run``: gradients, or sums of gradients, update the state of this rank."""
        self._rates.take()
        set_rates(self.program, self._scope)
        if self._accumulation is None:
            self._take_gradients("whole")
        else:
            with self._scope.lock:
                self._appliers["apply"].apply(self._scope, {})
            for total in self._accumulation.sums:
                if total.name in self._names:
                    MainMemory(self.grid.pipeline).state(self._scope, total).fill(0)
        for parameter, users in self._users.items():
            if len(users) > 1 and not is_small(self._variables[parameter]):
                self._hand_out(parameter)

    def _take_gradients(self, turn: Turn) -> None:
        """Add up the gradients of the whole batch, and apply them to the state that this rank holds"""
        unit = np.array([self._unit])
        self.grid.pipeline.all_reduce_(unit)  # the last stage alone knows it
        factor = 1.0 if self._plan.term.reduction == "sum" else float(unit[0]) / self._total if self._total else 0.0
        grads = {v: self._steady[name] for v, name in self._plan.constant.items()}
        grads.update({v: value_of(np.full(v.static_shape or (), self._total, v.dtype.numpy)) for v in self._weights})
        for flag, looked_up in self._looked_up.items():
            self.transport.all_reduce_(looked_up, "max")
            grads[flag] = value_of(looked_up.astype(bool))
        for v, parameter in self._gradients.items():
            grad = self._summed(v, parameter, factor)
            if v not in self._owned:
                grad = np.empty(v.static_shape or (), v.dtype.numpy) if grad is None else grad
                self.grid.pipeline.broadcast_(grad.reshape(-1).view(np.uint8), self._rank_of[parameter])
            grads[v] = value_of(np.zeros(0, v.dtype.numpy) if grad is None else grad)
        with self._scope.lock:
            self._appliers[turn].apply(self._scope, grads)
        self._sums = {}

    def _summed(self, v: Variable, parameter: str, factor: float) -> Array | None:
        """The gradient of a parameter, on the stage that updates it; small parts go before all is added up over rows"""
        owner, *others = self._users[parameter]
        stage, pipeline = self.grid.stage, self.grid.pipeline
        if stage != owner and stage not in others:
            return None
        array = self._sums.pop(parameter, None)
        array = np.zeros(v.static_shape or (), v.dtype.numpy) if array is None else array
        np.multiply(array, array.dtype.type(factor), out=array)
        flat = array.reshape(-1)
        if stage != owner:
            pipeline.send(flat.view(np.uint8), owner)
            return None
        for other in others:
            received = np.empty_like(flat)
            pipeline.receive_(received.view(np.uint8), other)
            np.add(flat, received, out=flat)
        self.grid.beside.all_reduce_(flat)
        return array

    def _hand_out(self, parameter: str) -> None:
        """Send the state that several stages read to the stages that do not update it"""
        owner, *others = self._users[parameter]
        if self.grid.stage == owner:
            for other in others:
                self.grid.pipeline.send(view_of(self._state[parameter]).reshape(-1).view(np.uint8), other)
        elif self.grid.stage in others:
            v = self._variables[parameter]
            array = np.empty(v.static_shape or (), v.dtype.numpy)
            self.grid.pipeline.receive_(array.reshape(-1).view(np.uint8), owner)
            self._state[parameter] = value_of(array)

    # Between stages --------------------------------------------------------------------------------------------------

    def _send(self, to: int, value: Any) -> None:
        """A tensor, after its shape"""
        view = view_of(value)
        pipeline = self.grid.pipeline
        pipeline.send(np.array([view.ndim, *view.shape, *[0] * (_RANK - 1 - view.ndim)], np.int64), to)
        pipeline.send(np.ascontiguousarray(view).reshape(-1).view(np.uint8), to)

    def _receive(self, source: int, v: Variable) -> Any:
        header = np.empty(_RANK, np.int64)
        self.grid.pipeline.receive_(header, source)
        array = np.empty(tuple(header[1 : 1 + header[0]]), v.dtype.numpy)
        self.grid.pipeline.receive_(array.reshape(-1).view(np.uint8), source)
        return value_of(array)

    # State -----------------------------------------------------------------------------------------------------------

    def bytes_of_state(self) -> int:
        """Bytes of weights and of the optimizer's state that this rank holds."""
        return sum(view_of(self._state[name]).nbytes for name in self._names)

    @property
    def forward_state(self) -> dict[str, int]:
        """Names of the state that the forward pass reads, and the first stage that does."""
        stages: dict[str, int] = {}
        for number, stage in enumerate(self._plan.stages):
            stages.update((v.name, number) for v in stage.forward.inputs if v.persistable and v.name not in stages)
        return stages

    def forget(self) -> None:
        """Free the state of other ranks, after a checkpoint was read into the scope or written from it."""
        self._shared().forget(self._scope, self._names)

    def gather(self, scope: Scope | None, only: Collection[str] | None = None) -> None:
        """Write the state of all ranks to a scope on each; called by all. A rank that shall hold nothing more passes None.

        ``only`` names what is wanted, if not all is.

        Args:
            scope: where the state is; the program's own unless given.
            only: the rank that gets it; all unless given.
        """
        self._shared().gather(self._scope, scope, only)

    def _shared(self) -> SharedState:
        """Map the state that one stage alone holds to that stage: what it updates, and what else its passes read"""
        owners: dict[str, int] = {}
        for number, stage in enumerate(self._plan.stages):
            for graph in (stage.forward, stage.backward):
                for v in graph.inputs if graph is not None else ():
                    if v.persistable:
                        owners.setdefault(v.name, number)
        appliers = [one.applying for one in self._appliers.values()]
        everywhere = {name for one in appliers for first in one.first for name in first.phase.reads}
        everywhere |= set(() if self._still is None else self._still.state)
        owners = {**{name: rank for name, rank in owners.items() if name not in everywhere}, **self._rank_of}
        shards = appliers[-1].shards
        assert shards is not None
        others = {v: owners[name] for name, v in self._variables.items() if name in owners and v not in shards.states}
        further = {v: [Share(rank, 0, prod(v.static_shape or ()))] for v, rank in others.items()}
        return SharedState(self.grid.pipeline, shards._replace(states={**shards.states, **further}))


class _BetweenStages:
    """The exchange of a pipeline whose stages each apply the gradients of their own layers.

    Args:
        transport: between the stages.
        rank_of: the stage of each parameter, by name.
    """

    reads: Sequence[Variable] = ()
    sends = False
    sharding = 1
    synchronises: Synchronised | None = None

    def __init__(self, transport: Transport, rank_of: Mapping[str, int]) -> None:
        self.transport, self.rank, self._rank_of = transport, transport.rank, rank_of

    def groups(self, gradients: Sequence[Variable]) -> Sequence[Sequence[Variable]]:
        return ()

    def share_out(self, program: Program, cut: Cut) -> Shards:
        return shares_of_stages(program, cut, self.rank, self._rank_of)

    def stop(self) -> None:
        """Nothing is on its way."""

    def wait(self, names: Collection[str] | None) -> None:
        """Nothing is on its way."""

    def settled(self, scope: Scope) -> Mapping[str, Buffer]:
        """Nothing travels from where state lies."""
        return {}

    def applied(self, scope: Scope) -> None:
        """Other stages read nothing of what one updates, but for parameters of several, which ``PipelineStep`` hands out."""


def _length(arrays: Mapping[str, Array], axes: Mapping[str, int]) -> int:
    """The number of examples, which lie along the first axis or another one by name"""
    lengths = {array.shape[axes.get(name, 0) :][:1] for name, array in arrays.items()}
    if len(lengths) != 1 or () in lengths:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise ArgumentError(
            f"a batch is cut along its first axis, or the one that program.plan.example_axes names, and that is not one number of "
            f"examples: {shapes}."
        )
    return int(lengths.pop()[0])


def _axes_of(program: Program, fetch: Sequence[Variable | str]) -> list[int]:
    """The axis along which the examples of each fetch lie"""
    examples = examples_of(program)
    return [examples.axis(v) or 0 for one in fetch for v in as_variables(program, one)]


def _number(value: Any) -> float:
    return float(view_of(value).reshape(-1)[0])


def _parameter(gradient: Variable, stages: Mapping[str, int]) -> str:
    """The parameter whose gradient an optimizer reads"""
    program = gradient.block.program
    names = [p.name for p in program.parameters if p.grad_name == gradient.name or gradient.name.endswith(f"/{p.grad_name}")]
    if not names or names[0] not in stages:
        raise ArgumentError(
            f"the optimizer reads {gradient.name}, which is not the gradient of a parameter of one stage. A pipeline is written "
            "for plain gradients: leave scales of the loss and further losses out, and of an optimizer with lazy_mode call "
            "core.step.lookups.share_lookups(program) before."
        )
    return names[0]
