"""Executor: runs programs; weights and optimizer state stay on its device between runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, overload

import numpy as np

from onnxgrad.core.ir.defaults import default_main_program
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.exchange import Exchange
from onnxgrad.core.runtime.places import CPUPlace, Place, place_of
from onnxgrad.core.runtime.prepared import AppliesGradients, Prepared, in_memory
from onnxgrad.core.runtime.session_cache import SessionCache, prepare
from onnxgrad.core.runtime.staged import StagedSession
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.inputs import GivenByName, as_input, check_classes
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of, is_plain, value_of
from onnxgrad.core.step.step import Step
from onnxgrad.errors import ArgumentError, ArgumentTypeError, ExecutionError, FeedError, FetchError
from onnxgrad.internal.arguments import as_int

if TYPE_CHECKING:
    from onnxruntime import OrtValue


__all__ = ["Executor", "set_rates", "step_schedules"]


class HoldsProgram(Protocol):
    """What stands for the program that it holds, such as a ``CompiledProgram``."""

    @property
    def program(self) -> Program: ...


Feeds: TypeAlias = "GivenByName | Sequence[GivenByName] | None"
Fetches: TypeAlias = "Variable | str | Operator | Sequence[Fetches] | None"
"""Variables and names, one or several; lists may hold what ``minimize`` gave, of which operators are left out."""


class Executor:
    """Runs programs on a device with stock onnxruntime.

    Threads may share one: each run has its own binding, but that a training step has the scope whose state it replaces for itself.
    A run that is interrupted (Ctrl-C) has happened or has not: state, what is fed of it, and schedules are stored together.
    Threads that train on scopes of their own run side by side; on one scope, one after another.

    Args:
        place: ``CPUPlace()`` (default), ``CUDAPlace(i)`` or ``OpenVINOPlace()``.
        threads: threads within an operator; None for onnxruntime's choice. Tiny graphs run fastest on 1.
        cache: folder for graphs as onnxruntime has optimised them, so that the next process starts large programs in a
            fraction of the time. Files of other programs and versions of onnxruntime do no harm. On a CUDAPlace it has no effect.
        memory: ``"low"`` for training steps that hold one copy of weights and optimizer state instead of two: gradients are
            computed first, and then applied in parts. On the CPU only. What fails while gradients are computed leaves the state as
            it was; if applying them fails, the rest of the step is applied before anybody reads the state. ``"auto"``, the default,
            does so where it saves 32 MB or more and each part is computed piece by piece; None never does.
            Weights that a training step reads and does not replace are constants of its session, which packs them for its products
            once: one further copy for each product that reads them, of two for a layer. ``"auto"`` does so up to 512 MB of copies,
            smaller weights first; None always, and ``"low"`` never, nor does an Executor with a ``cache``. What is set in the
            scope counts from the next run on.
        shapes: for how many shapes of the feed a training step that convolves images gets a session of its own, in which their
            number is known and which runs faster; each holds its own activations. 0 for one session for all.
        precision: ``"full"``, or ``"fast"`` for forms of a training step that round more where they take less time. On the CPU
            these are 3x3 convolutions by tiles of 4x4 results: errors of 2e-6 to 8e-6 of the largest number, where otherwise they
            are 2e-7 to 7e-7.

    Raises:
        ArgumentTypeError: if ``place`` is not a place.
        ArgumentError: if ``precision`` or ``memory`` is another word, or ``memory="low"`` is asked of a place that is not the CPU.

    Example:
        >>> x = static.data("x", [None, 2])
        >>> y = x * 2.0
        >>> Executor().run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[y])
        [array([[2., 2.]], dtype=float32)]
    """

    def __init__(
        self,
        place: Place | str | None = None,
        *,
        threads: int | None = None,
        cache: str | Path | None = None,
        shapes: int = 4,
        precision: Literal["full", "fast"] = "full",
        memory: Literal["auto", "low"] | None = "auto",
    ) -> None:
        if precision not in ("full", "fast"):
            raise ArgumentError(f"Executor: precision is 'full' or 'fast', not {precision!r}.")
        self.place = place_of(place)
        if memory not in (None, "auto", "low"):
            raise ArgumentError(f"memory is 'auto', 'low' or None, not {memory!r}.")
        if memory == "low" and self.place.lowering != "cpu":
            raise ArgumentError(f"memory='low' is for the CPU. Leave it out on {self.place!r}.")
        self.threads = None if threads is None else as_int(self, "threads", threads)
        shapes = as_int(self, "shapes", shapes)
        self._options: dict[str, Any] = {"threads": threads, "cache": cache, "shapes": shapes}
        self._options |= {"precision": precision, "memory": memory}
        self._sessions = SessionCache(None if cache is None else Path(cache), shapes, precision == "fast", memory)
        self._closed = False

    def __reduce__(self) -> Any:
        """Another Executor of the same place and options, which opens sessions of its own."""
        return partial(Executor, **self._options), (self.place,), {"_closed": self._closed}

    def close(self) -> None:
        """Drop all sessions; the executor cannot run anything afterwards."""
        self._sessions.clear()
        self._closed = True

    def step(self, program: Program | HoldsProgram | None = None, fetch_list: Fetches = None, scope: Scope | None = None) -> Step:
        """Open the step that ``run`` runs for these fetches, and return it in printable form: phases, state, exchanges.

        Args:
            program, fetch_list, scope: as for ``run``.

        Raises:
            ExecutionError, ProviderError: as for ``run``.

        Example:
            >>> y = paddle.exp(static.data("x", [2])) * 2.0
            >>> print(Executor().step(fetch_list=[y]))
            1 phase, fetches tmp_0
            step: 2 operators
                feeds x
        """
        if self._closed:
            raise ExecutionError("this Executor is closed. Make a new one.")
        program = _program_of(program)
        computed = [v for v in _fetches(program, fetch_list) if not v.persistable]
        if scope is None and program.plan.exchange is None:
            scope = program.active_scope()
        # Ranks meet while they open sessions, and those of one process may share the scope that is not theirs to train in.
        with nullcontext() if scope is None else scope.lock:
            if program.plan.accumulation is None:
                return self._opened(program, computed, {}, "whole", program.plan.exchange, scope).step
            run = self._opened(program, computed, {}, "run", program.plan.exchange, scope)
            apply = self._opened(program, [], {}, "apply", program.plan.accumulation.exchange, scope)
            return run.step.followed_by(apply.step)

    def debug_string(self) -> str:
        """Describe the open steps as text: the phases of each step, its state, and the changes of each pass.

        Example:
            >>> executor = Executor()
            >>> y = paddle.exp(static.data("x", [2])) * 2.0
            >>> _ = executor.run(feed={"x": np.zeros(2, np.float32)}, fetch_list=[y])
            >>> print(executor.debug_string())
            on Place(cpu): 1 phase, fetches tmp_0
            step: 2 operators
                feeds x
        """
        texts = []
        for place, step in self._sessions.steps():
            passes = "".join(f"\n    pass {line}" for line in step.passes())
            texts.append(f"on {place!r}: {step}{passes}")
        return "\n".join(texts)

    @overload
    def run(
        self,
        program: Program | HoldsProgram | None = None,
        feed: Feeds = None,
        fetch_list: Fetches = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: Literal[True] = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[np.ndarray[Any, Any]]: ...
    @overload
    def run(
        self,
        program: Program | HoldsProgram | None = None,
        feed: Feeds = None,
        fetch_list: Fetches = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        *,
        return_numpy: Literal[False],
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[OrtValue]: ...
    @overload
    def run(
        self,
        program: Program | HoldsProgram | None = None,
        feed: Feeds = None,
        fetch_list: Fetches = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        *,
        return_numpy: bool,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[np.ndarray[Any, Any]] | list[OrtValue]: ...
    def run(
        self,
        program: Program | HoldsProgram | None = None,
        feed: Feeds = None,
        fetch_list: Fetches = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[np.ndarray[Any, Any]] | list[OrtValue]:
        """Run a program once: compute the fetches and replace the state that the program updates.

        Args:
            program: default: the default main program. A startup program initialises parameters and accumulators.
            feed: arrays by input name, also as the only item of a list. Numpy arrays and OrtValues have the dtype of the input, and
                OrtValues are read where they lie. Numbers, lists and what has ``__array__`` or ``__dlpack__`` are converted if the
                dtype holds their values: no 300 for uint8, no 0.9 for int64. What is fed to a persistable variable is its value
                from then on. Names it does not know are ignored.
            fetch_list: variables or names (one or several), or schedules, for the rate of this run. A fetched parameter is given as
                it is after the run.
            scope: where state is read and written; default the program's own, else the global scope.
            return_numpy: False for OrtValues that stay on the device.
            feed_var_name, fetch_var_name, use_program_cache, use_prune: accepted for compatibility. Sessions are always
                cached, and what nothing needs is never run.

        Returns:
            One array per fetch, in order. None shares memory with a feed, with the state or with what other runs give.

        Raises:
            FeedError: if a feed is missing, has the wrong dtype or shape, or holds what the dtype does not, or labels of
                cross-entropy that are no classes. Where labels are computed, such a label gives a loss of NaN.
            FetchError: if a fetched name is unknown.
            NotInitialized: if a parameter has no value; run the startup program first.
            ExecutionError: if onnxruntime refuses or fails; the state is then as before, or, where gradients are applied in parts
                and some are, as after the step.
            ProviderError: if the device's provider is not installed.
        """
        if self._closed:
            raise ExecutionError("this Executor is closed. Make a new one.")
        program = _program_of(program)
        if isinstance(feed, (list, tuple)) and len(feed) == 1:
            feed = feed[0]  # one for each device, as Paddle has it
        if feed is not None and not isinstance(feed, dict):
            raise ArgumentTypeError(f"feed is a dict of arrays by name, not {type(feed).__name__}.")
        fetches = _fetches(program, fetch_list)
        scope = scope or program.active_scope()
        plan = program.plan
        turn: Turn = "whole" if plan.accumulation is None else "run"
        fed: list[Any] = []
        for name in feed or ():
            state = program.global_block().vars.get(name)
            if state is not None and state.persistable:
                fed.append((name, _checked_feed(state, feed or {}), None))
        wanted = [*fetches, *(v for v, _ in plan.printers)] if plan.printers else fetches
        computed = [v for v in wanted if not v.persistable]
        run = computed or program.updates or program.training_pending
        if not fed and plan.exchange is None and (turn == "run" or not plan.schedulers):
            results = self._compute(program, feed or {}, computed, scope, return_numpy, turn) if run else []
        else:
            if plan.exchange is not None and not scope.changes:
                self.meet(program, feed or {}, fetch_list, scope)
            # Rates, and state that is fed, are stored with what the run makes of them, or not at all.
            whole = partial(self._compute_with, fed, bool(run), program, feed or {}, computed, scope, return_numpy, turn)
            results = whole() if scope.changes else scope.change(whole)
        values = dict(zip(computed, results, strict=True))
        for v, printer in plan.printers:
            printer(values[v] if return_numpy else array_of(values[v]), self.place)
        return [values[v] if v in values else v.get_value() if v.is_eager else v.get_value(scope) for v in fetches]

    def meet(self, program: Program, feed: GivenByName, fetch_list: Fetches, scope: Scope | None = None) -> None:
        """Let ranks come to an agreement about what they train before their first run, which may be undone where this is not.

        Args:
            program, feed, fetch_list, scope: as for ``run``.

        Raises:
            TrainingError: if ranks differ.
            ExecutionError, ProviderError: as for ``run``.
        """
        exchange, scope = program.plan.exchange, scope or program.active_scope()
        if exchange is None or exchange.has_met(scope):
            return
        computed = [v for v in [*_fetches(program, fetch_list), *(v for v, _ in program.plan.printers)] if not v.persistable]
        turn: Turn = "whole" if program.plan.accumulation is None else "run"
        with scope.lock:
            prepared = self._opened(program, computed, {**exchange.feeds(program, feed), **feed}, turn, exchange, scope)
        if prepared.applying is not None:
            exchange.begin(program, prepared.applying.cut.gradients, scope)

    def rehearse(self, program: Program, feed: GivenByName, fetch_list: Fetches, scope: Scope | None = None) -> None:
        """Open the sessions of a step and compute its gradients once, on this rank alone: nothing is sent, and nothing is kept.

        Sessions between which ranks exchange something are opened and not run.

        Args:
            program, feed, fetch_list, scope: as for ``run``.

        Raises:
            ExecutionError, ProviderError: as for ``run``.
        """
        exchange, scope = program.plan.exchange, scope or program.active_scope()
        turn: Turn = "whole" if program.plan.accumulation is None else "run"
        computed = [v for v in _fetches(program, fetch_list) if not v.persistable]
        fed = dict(feed) if exchange is None else {**exchange.feeds(program, feed), **feed}
        with scope.lock:
            prepared = self._opened(program, computed, fed, turn, program.plan.exchange_of(turn), scope)
            if prepared.session is None or isinstance(prepared.session, StagedSession):
                return
            bound = prepared.bind(scope, return_numpy=True)
            try:
                prepared.run(bound, [(v.name, _checked_feed(v, fed)) for v in prepared.feeds], scope)
            finally:
                prepared.unbind(scope)

    def apply(self, program: Program | HoldsProgram | None = None, scope: Scope | None = None) -> None:
        """Apply the gradients that runs of a program have added up, and clear the sums. Any number of runs may have been.

        Args:
            program: one whose optimizer was appended so that its gradients are added up, as ``Trainer(accumulate=)`` does; default:
                the default main program.
            scope: as for ``run``.

        Raises:
            ArgumentError: if the program applies its gradients in each run.
            NotInitialized, ExecutionError, ProviderError: as for ``run``.
        """
        if self._closed:
            raise ExecutionError("this Executor is closed. Make a new one.")
        program = _program_of(program)
        if program.plan.accumulation is None:
            raise ArgumentError("this program applies its gradients in each run, and adds none up. Leave apply out.")
        scope = scope or program.active_scope()

        def apply() -> None:
            set_rates(program, scope)
            self._compute(program, {}, [], scope, True, "apply")
            step_schedules(program, scope)

        if scope.changes:
            apply()
        else:
            scope.change(apply)

    def _compute_with(
        self,
        fed: list[Any],
        runs: bool,
        program: Program,
        feed: dict[str, Any],
        computed: list[Variable],
        scope: Scope,
        return_numpy: bool,
        turn: Turn,
    ) -> list[Any]:
        """A run with the state that is fed with it, and with what schedules give"""
        if turn == "whole":
            set_rates(program, scope)
        scope.set_all(fed)
        results = self._compute(program, feed, computed, scope, return_numpy, turn) if runs else []
        if turn == "whole":
            step_schedules(program, scope)
        return results

    def _compute(
        self,
        program: Program,
        feed: dict[str, Any],
        fetches: list[Variable],
        scope: Scope,
        return_numpy: bool,
        turn: Turn,
    ) -> list[Any]:
        # A session may hold frozen weights, which must not change between it being chosen and its run.
        with scope.lock if program.updates else nullcontext():
            return self._run(program, feed, fetches, scope, return_numpy, turn)

    def _run(
        self,
        program: Program,
        feed: dict[str, Any],
        fetches: list[Variable],
        scope: Scope,
        return_numpy: bool,
        turn: Turn,
    ) -> list[Any]:
        if not program.inputs and any(_is_random(op) for op in program.global_block().ops):
            # A seeded random operator continues its stream within a session, so initialisation gets a fresh one; and each provider
            # has a stream of its own, so that it is the CPU's: a seed gives the same weights wherever the steps run.
            prepared = prepare(program, fetches, CPUPlace(), self.threads)
        else:
            exchange = program.plan.exchange if turn == "whole" else program.plan.exchange_of(turn)
            if exchange is not None:
                feed = {**exchange.feeds(program, feed), **feed}
            prepared = self._opened(program, fetches, feed, turn, exchange, scope)
            applying = prepared.applying
            if exchange is not None and prepared.held is not None and applying is not None and not exchange.has_met(scope):
                # All ranks get the frozen weights of the first.
                exchange.begin(program, applying.cut.gradients, scope)
                prepared = self._opened(program, fetches, feed, turn, exchange, scope)
        feeds = [(v.name, _checked_feed(v, feed)) for v in prepared.feeds]
        for name, array in feeds:
            prepared.place.check(name, array)
        for at, (name, classes, ignored) in prepared.labels:
            check_classes(feeds[at][1], name, classes, ignored)
        if prepared.applying is not None:
            with scope.lock:
                fetched, state = self._run_in_parts(program, prepared, prepared.applying, feeds, scope, return_numpy)
        elif prepared.takes_turns:
            with scope.lock:
                bound = prepared.bind(scope, return_numpy)
                fetched, state = prepared.run(bound, feeds, scope)
                scope.swap([(name, state[output]) for name, output in prepared.replaced])
                if not return_numpy and fetched and not prepared.captures:
                    # The caller gets what this binding returns, which its next run would replace.
                    prepared.unbind(scope)
        else:
            with scope.lock:
                bound = prepared.bind(scope, return_numpy)
                # Another thread may train on this scope meanwhile.
                read = [buffer.hold() for buffer in bound.present()]
            try:
                fetched, state = prepared.run(bound, feeds, scope)
            finally:
                for buffer in read:
                    buffer.release()
            scope.swap([(name, state[output]) for name, output in prepared.replaced])
        names = prepared.fetch_names[: len(fetches)]
        # What an exchange gives is in memory of its own, which ends with the run.
        is_reused = prepared.applying is not None and prepared.applying.exchange is not None
        return [_fetched_result(fetched, state, name, return_numpy, is_reused or name in prepared.reused) for name in names]

    def _opened(
        self,
        program: Program,
        fetches: list[Variable],
        feed: dict[str, Any],
        turn: Turn,
        exchange: Exchange | None,
        scope: Scope | None,
    ) -> Prepared:
        """The sessions for these fetches, and for what ranks read besides"""
        place = self.place
        if exchange is not None:
            place = exchange.place(place)
            known = set(fetches)
            fetches = [*fetches, *(v for v in exchange.reads if v not in known)]
        return self._sessions.get(program, fetches, place, self.threads, feed, turn, scope if program.updates else None)

    def _run_in_parts(
        self,
        program: Program,
        prepared: Prepared,
        applying: AppliesGradients,
        feeds: list[tuple[str, Any]],
        scope: Scope,
        return_numpy: bool,
    ) -> tuple[dict[str, Any], dict[str, Buffer]]:
        """Compute gradients, exchange them where ranks do, then leave their application to the scope."""
        scope.finish()
        exchange = applying.exchange
        if exchange is not None:
            exchange.begin(program, applying.cut.gradients, scope)
        fetched: dict[str, Any] = {}
        state: dict[str, Buffer] = {}
        bindings = []
        if prepared.session is not None:
            bindings.append(prepared.bind(scope, return_numpy))
            fetched, state = prepared.run(bindings[0], feeds, scope)
            # Its gradients go with the binding, instead of staying beside what the next run computes.
            prepared.unbind(scope)
        gradients = applying.cut.computed
        names = prepared.fetch_names[len(prepared.fetch_names) - len(gradients) :]
        values = {v: fetched[name] if name in fetched else state[name].value for v, name in zip(gradients, names, strict=True)}
        if exchange is not None:
            names_of = {v: prepared.names[v] for v in exchange.reads}
            read = {v: array_of(fetched[name]) for v, name in names_of.items()}
            passed = {output: in_memory(state[output]) for name, output in prepared.replaced if _is_float(program, name)}
            for v, array in exchange.reduce(scope, read, list(passed.values())).items():
                fetched = {**fetched, names_of[v]: value_of(array)}
            state = {**state, **passed}
        others = [(name, state[output]) for name, output in prepared.replaced]
        applying.apply(scope, values, others, bindings)
        return fetched, state


def set_rates(program: Program, scope: Scope) -> None:
    """Set the state that the schedules of a program give."""
    for variable, scheduler in program.plan.schedulers:
        scope.set(variable.name, np.float32(scheduler()))


def step_schedules(program: Program, scope: Scope) -> None:
    """Move on the schedules of a program that do so with each update, together with the values that it makes."""
    for _, scheduler in program.plan.schedulers:
        if scheduler.steps_by_itself:
            for owner, attributes in scheduler.moved():
                scope.follow(owner, **attributes)


def _is_float(program: Program, name: str) -> bool:
    return program.global_block().vars[name].is_float


def _fetched_result(fetched: dict[str, Any], state: dict[str, Buffer], name: str, return_numpy: bool, is_reused: bool) -> Any:
    """Convert a result for the caller; what the next runs write over is copied, or lent."""
    if name in state:
        return array_of(state[name].value) if return_numpy else state[name].lend()
    if not return_numpy:
        return fetched[name]
    if not fetched[name].has_value():
        raise FetchError(f"{name!r} is an optional that holds nothing. Fetch OptionalHasElement of it.")
    if not fetched[name].is_tensor():
        data_type = fetched[name].data_type()
        raise FetchError(f"{name!r} is {data_type}, no tensor. Fetch its elements (SequenceAt, OptionalGetElement).")
    try:
        return array_of(fetched[name]) if is_reused or not is_plain(fetched[name]) else fetched[name].numpy()
    except (RuntimeError, ExecutionError) as error:
        data_type = fetched[name].data_type()
        raise FetchError(f"onnxruntime does not hand over {name!r}, a {data_type}. Cast it before it is fetched.") from error


def _program_of(program: Program | HoldsProgram | None) -> Program:
    if program is None:
        return default_main_program()
    program = getattr(program, "program", program)
    if not isinstance(program, Program):
        raise ArgumentTypeError(f"Executor.run takes a Program, not {type(program).__name__}.")
    return program


def _fetches(program: Program, fetch_list: Any) -> list[Variable]:
    if fetch_list is None:
        return []
    fetches: list[Variable] = []
    items = [fetch_list] if isinstance(fetch_list, (Variable, str)) else fetch_list
    if not isinstance(items, Sequence):
        raise ArgumentTypeError(f"fetch_list holds Variables and names, not {type(items).__name__}.")
    for item in items:
        if isinstance(item, (list, tuple)):
            fetches.extend(_fetches(program, item))
        elif isinstance(item, Operator):
            continue
        elif isinstance(item, (Variable, str)):
            fetches.append(_fetch(program, item))
        elif (rate := _rate_of(program, item)) is not None:
            fetches.append(rate)
        else:
            raise ArgumentTypeError(f"fetch_list holds Variables and names, not {type(item).__name__}.")
    return fetches


def _rate_of(program: Program, schedule: Any) -> Variable | None:
    """The state that a schedule of the program gives: scripts of Paddle 1, whose schedules are variables, fetch it."""
    return next((variable for variable, own in program.plan.schedulers if own is schedule), None)


def _fetch(program: Program, item: Variable | str) -> Variable:
    name = item if isinstance(item, str) else item.name
    variable = program.global_block().vars.get(name) if isinstance(item, str) or item.block.program is not program else item
    if variable is None and not isinstance(item, str) and item.is_eager and item.persistable:
        return item  # a weight of a layer that no operator has read yet
    if variable is None:
        raise FetchError(f"cannot fetch {name!r}: the program has no such variable. Check the name, or the program.")
    return program.last(variable)


def _is_random(op: Operator) -> bool:
    return op.type in ("RandomNormal", "RandomUniform") and bool(op.attrs.get("seed"))


def _checked_feed(v: Variable, feed: dict[str, Any]) -> Any:
    if v.name not in feed and v.default is not None:
        return v.default.numpy()
    if v.name not in feed:
        raise FeedError(f"the input {v.name!r} is not fed. Add it to feed=.")
    return as_input(v, feed[v.name])
