"""Executor: runs programs; weights and optimizer state stay on its device between runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentTypeError, ExecutionError, FeedError, FetchError, NotInitialized
from onnxgrad.ir.defaults import default_main_program
from onnxgrad.ir.operator import Operator
from onnxgrad.ir.program import Program
from onnxgrad.ir.scope import Scope
from onnxgrad.ir.variable import Variable
from onnxgrad.runtime.places import Place, place_of
from onnxgrad.runtime.session_cache import SessionCache, prepare

__all__ = ["Executor"]


class Executor:
    """Runs programs on a device with stock onnxruntime.

    Args:
        place: ``CPUPlace()`` (default) or ``CUDAPlace(i)``.
        threads: threads within an operator; None for onnxruntime's choice. Tiny graphs run fastest on 1.
        cache: folder for graphs as onnxruntime has optimised them, so that the next process starts large programs in a
            fraction of the time. Files of other programs and versions of onnxruntime do no harm. On a CUDAPlace it has no effect.

        shapes: for how many shapes of the feed a training step that convolves images gets a session of its own, in which their
            number is known and which runs faster; each holds its own activations. 0 for one session for all.

    Raises:
        ArgumentTypeError: if ``place`` is not a place.

    Example:
        >>> x = static.data("x", [None, 2])
        >>> y = x * 2.0
        >>> Executor().run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[y])
        [array([[2., 2.]], dtype=float32)]
    """

    def __init__(
        self, place: Place | None = None, *, threads: int | None = None, cache: str | Path | None = None, shapes: int = 4
    ) -> None:
        self.place = place_of(place)
        self.threads = threads
        self._sessions = SessionCache(None if cache is None else Path(cache), shapes)
        self._closed = False

    def close(self) -> None:
        """Drop all sessions; the executor cannot run anything afterwards."""
        self._sessions.clear()
        self._closed = True

    def run(
        self,
        program: Program | None = None,
        feed: dict[str, Any] | None = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run a program once: compute the fetches and replace the state that the program updates.

        Args:
            program: default: the default main program. A startup program initialises parameters and accumulators.
            feed: arrays by input name, in the dtype of the input; lists are converted. Names it does not know are ignored.
            fetch_list: variables or names (one or several). A fetched parameter is given as it is after the run.
            scope: where state is read and written; default the program's own, else the global scope.
            return_numpy: False for OrtValues that stay on the device.
            feed_var_name, fetch_var_name, use_program_cache, use_prune: accepted for compatibility. Sessions are always
                cached, and what nothing needs is never run.

        Returns:
            One array per fetch, in order.

        Raises:
            FeedError: if a feed is missing or has the wrong dtype or shape.
            FetchError: if a fetched name is unknown.
            NotInitialized: if a parameter has no value; run the startup program first.
            ExecutionError: if onnxruntime refuses or fails; the state is then as before.
            ProviderError: if the device's provider is not installed.
        """
        if self._closed:
            raise ExecutionError("this Executor is closed. Make a new one.")
        program = _program_of(program)
        if feed is not None and not isinstance(feed, dict):
            raise ArgumentTypeError(f"feed is a dict of arrays by name, not {type(feed).__name__}.")
        fetches = _fetches(program, fetch_list)
        scope = scope or program.active_scope()
        for variable, scheduler in program.schedulers:
            scope.set(variable.name, np.float32(scheduler()))
        computed = [v for v in [*fetches, *(v for v, _ in program.printers)] if not v.persistable]
        if computed or program.updates:
            results = self._compute(program, feed or {}, computed, scope, return_numpy)
        else:
            results = []
        by_name = dict(zip(map(id, computed), results, strict=True))
        for _, scheduler in program.schedulers:
            if scheduler.steps_by_itself:
                scheduler.step()
        for v, printer in program.printers:
            printer(by_name[id(v)] if return_numpy else by_name[id(v)].numpy(), self.place)
        return [by_name[id(v)] if id(v) in by_name else _state_value(scope, v) for v in fetches]

    def _compute(
        self, program: Program, feed: dict[str, Any], fetches: list[Variable], scope: Scope, return_numpy: bool
    ) -> list[Any]:
        if not program.inputs and any(_draws_numbers(op) for op in program.global_block().ops):
            # A seeded random operator continues its stream within a session, so initialisation gets a fresh one.
            prepared = prepare(program, fetches, self.place, self.threads)
        else:
            prepared = self._sessions.get(program, fetches, self.place, self.threads, feed)
        lane = prepared.next_lane()
        for v in prepared.feeds:
            lane.binding.bind_cpu_input(v.name, _checked_feed(v, feed))
        for place in lane.outdated(scope.values):
            lane.read(place, self._on_device(scope, prepared.state_inputs[place]))
        device = (self.place.device, self.place.index)
        small = prepared.small_fetches if return_numpy else None
        lane.make_room(device, device if not return_numpy else ("cpu", 0), small)
        try:
            prepared.session.run_with_iobinding(lane.binding)
        except Exception as error:
            prepared.forget_lanes()
            raise ExecutionError(f"onnxruntime failed while running the program: {error}") from error
        values = lane.results()
        for variable, name in prepared.replaced:
            scope.values[variable] = values[name]
        if not return_numpy:
            return [values[name] for name in prepared.fetch_names]
        # The next run writes over a small fetch.
        return [np.array(values[n].numpy()) if n in prepared.small_fetches else values[n].numpy() for n in prepared.fetch_names]

    def _on_device(self, scope: Scope, v: Variable) -> Any:
        """The value of a state variable as an OrtValue on this executor's device."""
        import onnxruntime

        held = scope.values.get(v.name)
        if held is None and v.value is not None:
            held = v.value.numpy()
        if held is None:
            raise NotInitialized(f"{v.name} has no value. Run the startup program first: exe.run(default_startup_program()).")
        if not isinstance(held, np.ndarray) and held.device_name() == self.place.device:
            return held
        array = held if isinstance(held, np.ndarray) else held.numpy()
        if array.ndim:
            array = np.ascontiguousarray(array)
        value = onnxruntime.OrtValue.ortvalue_from_numpy(np.array(array), self.place.device, self.place.index)
        scope.values[v.name] = value
        return value


def _program_of(program: Any) -> Program:
    if program is None:
        return default_main_program()
    program = getattr(program, "program", program)
    if not isinstance(program, Program):
        raise ArgumentTypeError(f"Executor.run takes a Program, not {type(program).__name__}.")
    return program


def _fetches(program: Program, fetch_list: Any) -> list[Variable]:
    if fetch_list is None:
        return []
    found: list[Variable] = []
    items = [fetch_list] if isinstance(fetch_list, (Variable, str)) else fetch_list
    if not isinstance(items, Sequence):
        raise ArgumentTypeError(f"fetch_list holds Variables and names, not {type(items).__name__}.")
    for item in items:
        if isinstance(item, (list, tuple)):
            found.extend(_fetches(program, item))
        elif isinstance(item, Operator):
            continue
        elif isinstance(item, (Variable, str)):
            found.append(_fetch(program, item))
        else:
            raise ArgumentTypeError(f"fetch_list holds Variables and names, not {type(item).__name__}.")
    return found


def _fetch(program: Program, item: Variable | str) -> Variable:
    name = item if isinstance(item, str) else item.name
    variable = program.global_block().vars.get(name) if isinstance(item, str) or item.block.program is not program else item
    if variable is None:
        raise FetchError(f"cannot fetch {name!r}: the program has no such variable. Check the name, or the program.")
    return variable


def _draws_numbers(op: Operator) -> bool:
    return op.type in ("RandomNormal", "RandomUniform") and bool(op.attrs.get("seed"))


def _checked_feed(v: Variable, feed: dict[str, Any]) -> Any:
    if v.name not in feed:
        raise FeedError(f"the input {v.name!r} is not fed. Add it to feed=.")
    given = feed[v.name]
    dtype = v.dtype
    if not isinstance(given, (np.ndarray, np.generic)):
        given = np.asarray(given, dtype.numpy)
    if given.dtype != dtype.numpy:
        raise FeedError(f"the feed {v.name!r} is {given.dtype}, the program takes {dtype.name}. Use .astype({dtype.name!r}).")
    dims = v.dims
    if dims is not None:
        fits = given.ndim == len(dims) and all(not isinstance(d, int) or d == n for d, n in zip(dims, given.shape, strict=True))
        if not fits:
            raise FeedError(f"the feed {v.name!r} has shape {list(given.shape)}, the program takes {list(v.shape)}.")
    return np.ascontiguousarray(given) if given.ndim else np.array(given)


def _state_value(scope: Scope, v: Variable) -> Any:
    value = scope.get(v.name)
    if value is None and v.value is not None:
        value = v.value.numpy()
    if value is None:
        raise NotInitialized(f"{v.name} has no value. Run the startup program first.")
    return value
