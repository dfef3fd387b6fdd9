"""The part of a step that updates state, of which a rank may hold a share.

Tests: tests/distributed/test_sharded.py, tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import LEARNING_RATE, Parameter, Variable
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.runner import OpenPhase, run_phases
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.shards import Shards
from onnxgrad.core.step.stages import taking
from onnxgrad.core.step.step import Broadcast, Owner, Phase, State, Then, bytes_of_all, state_of
from onnxgrad.distributed.transport import Transport

__all__ = ["Application"]


class Application:
    """What a rank computes of gradients.

    Args:
        shards: who updates what.
        rank: whose share it is.
        transport: between ranks.
        lowering, place, threads: of the graphs and their sessions.
        partial: whether a rank has the large gradients of its own share alone.
        spreads: whether all ranks get the parameters that one has updated.
        statistics: names of running statistics, where updates decide about them; they are spread as parameters are.
        replaces: whether these are written to memory of their own, as somebody else may hold the old ones.
    """

    def __init__(
        self,
        shards: Shards,
        rank: int,
        transport: Transport,
        lowering: str | None,
        place: Place,
        threads: int | None,
        *,
        partial: bool,
        spreads: bool,
        replaces: bool = False,
        statistics: Collection[str] = (),
    ) -> None:
        self.shards, self.transport, self._spreads, self._replaces = shards, transport, spreads, replaces
        common, self._shared = shards.common(rank, lowering, partial=partial)
        self._statistics = set(statistics)
        self._common = [OpenPhase(phase, place, threads) for phase in common]
        own = shards.own(rank, lowering)
        self._own = None if own is None else OpenPhase(own, place, threads)
        self._variables = {v.name: v for v in shards.program.list_vars() if v.persistable}
        self._rates: dict[str, float] = {}

    @property
    def state(self) -> list[str]:
        """Names of the state that is read."""
        return list(dict.fromkeys(name for phase in self.phases for name in phase.state))

    @property
    def phases(self) -> list[OpenPhase]:
        """What is run: the phases of all ranks, and that of this one."""
        return [*self._common, *([] if self._own is None else [self._own])]

    def described(self) -> list[Phase]:
        """The phases, the last with what ranks give each other. Gradients come by the exchange."""
        found: list[Phase] = []
        for one in self.phases:
            phase = taking(one.phase, found)
            found.append(replace(phase, feeds=dict.fromkeys(phase.feeds, "exchange")))
        if not found:
            return []
        *before, last = found
        then: list[Then] = []
        for rank, states in enumerate(self.shards.owned if self._spreads else ()):
            given = [v for v in states if self.is_spread(v)]
            if given:
                then.append(Broadcast(tuple(v.name for v in given), rank, bytes_of_all(given)))
        return [*before, replace(last, then=(*last.then, *then))]

    def owned(self, phases: Sequence[Phase]) -> dict[str, State]:
        """The state that phases read or write, and the rank that holds it where one alone does."""
        owners: dict[str, Owner] = {}
        for rank, states in enumerate(self.shards.owned):
            owners.update((v.name, rank) for v in states if not (self._spreads and self.is_spread(v)))
        updated = {v.name for v in self.shards.program.updates} | {name for phase in phases for name in phase.writes}
        found = {}
        for phase in phases:
            for v in phase.graph.inputs:
                if v.persistable:
                    found[v.name] = state_of(v, v.name in updated, owners.get(v.name, "all"))
        return found

    def begin(self, state: MutableMapping[str, Any]) -> None:
        """Note the learning rates that were set before the first step, which are in the state."""
        self._rates = {name: rate for name, rate in self._rates_now(state).items() if not self._is_scheduled(name)}

    def run(self, gradients: Mapping[Variable, Any], state: MutableMapping[str, Any]) -> None:
        """Replace the state of this rank by what gradients of the whole batch make of it."""
        self._take_rates(state)
        cut, given = self.shards.cut, dict(gradients)
        entering = {name: value for phase in self._common for name, value in phase.named(given).items()}
        values = run_phases(self._common, entering, state, self.transport)
        given.update((v, values[self._shared[v]]) for v in cut.shared)
        small = set(cut.small)
        new = {v.name: values[self._shared[made]] for v, made in cut.updates.items() if made in small}
        if self._own is not None:
            new.update(self._own.replaced(self._own.run(self._own.named(given), state)))
        state.update(new)
        if self._spreads:
            for rank, states in enumerate(self.shards.owned):
                for v in states:
                    if self.is_spread(v):
                        if self._replaces and rank != self.transport.rank:
                            state[v.name] = value_of(np.empty(v.static_shape or (), v.dtype.numpy))
                        self.transport.broadcast_(view_of(state[v.name]).reshape(-1).view(np.uint8), rank)

    def _take_rates(self, state: MutableMapping[str, Any]) -> None:
        """The learning rates that schedulers give, or that ``set_lr`` has changed since the last step"""
        now = self._rates_now(state)
        for name, rate in now.items():
            if rate != self._rates.get(name):
                state[name] = value_of(np.asarray(rate, self._variables[name].dtype.numpy))
        self._rates = now

    def _rates_now(self, state: Mapping[str, Any]) -> dict[str, float]:
        program = self.shards.program
        given = {v.name: float(scheduler()) for v, scheduler in program.plan.schedulers if v.name in state}
        held = [v for name, v in self._variables.items() if name in state and v.doc == LEARNING_RATE and name not in given]
        return given | {v.name: float(v.get_value(program.active_scope())) for v in held}

    def _is_scheduled(self, name: str) -> bool:
        return any(v.name == name for v, _ in self.shards.program.plan.schedulers)

    @property
    def elsewhere(self) -> list[Variable]:
        """The large state of the optimizer that other ranks hold."""
        shares = [states for rank, states in enumerate(self.shards.owned) if rank != self.transport.rank]
        return [v for states in shares for v in states if not self.is_spread(v)] if self._spreads else []

    def is_spread(self, v: Variable) -> bool:
        """Whether all ranks hold a state that one of them updates."""
        return isinstance(v, Parameter) or v.name in self._statistics

    def gather(
        self,
        state: Mapping[str, Any],
        scope: Scope | None,
        places: Mapping[str, int] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """Write the state of all ranks to a scope on each; None where a rank gives its share alone.

        Args:
            places: ranks that hold further state, by name.
            only: names of what is wanted; None for all.
        """
        owners = {v.name: rank for rank, states in enumerate(self.shards.owned) for v in states}
        for name, v in self._variables.items() if only is None else ((name, self._variables[name]) for name in only):
            owner = owners.get(name, (places or {}).get(name))
            if owner is not None and self.transport.world_size > 1:
                mine = state[name] if owner == self.transport.rank else None
                array = np.empty(v.static_shape or (), v.dtype.numpy) if mine is None else view_of(mine).copy()
                self.transport.broadcast_(array.reshape(-1).view(np.uint8), owner)
                if scope is not None:
                    v.set_value(array, scope)
            elif name in state and scope is not None:
                v.set_value(view_of(state[name]).copy(), scope)
