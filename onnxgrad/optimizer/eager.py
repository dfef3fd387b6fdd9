"""Optimizers on eager tensors: the same update operators, in a small program of their own that ``step`` runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.state.scope import Scope
from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import ArgumentError
from onnxgrad.internal import state

__all__ = ["EagerSteps"]


class EagerSteps:
    """``step`` and ``clear_grad`` of every optimizer, for the eager tensors among its ``parameters``."""

    _parameters: Any
    _updates: _Updates | None = None

    def step(self) -> None:
        """Update each parameter that has a gradient.

        Raises:
            ArgumentError: if the optimizer was made without ``parameters``.

        Example:
            >>> w = paddle.create_parameter([1], "float32", is_bias=True)
            >>> sgd = paddle.optimizer.SGD(0.1, parameters=[w])
            >>> (w * 2.0).backward()
            >>> sgd.step()
            >>> w.tolist()
            [-0.20000000298023224]
        """
        ready = [p for p in self._eager_parameters() if p.grad is not None and not p.stop_gradient]
        if ready:
            if self._updates is None:
                self._updates = _Updates(self)
            self._updates.run(ready)

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Fill the gradients of all parameters with zeros, or with ``set_to_zero=False`` forget them.

        Args:
            set_to_zero: whether zeros remain, or None.
        """
        for p in self._eager_parameters():
            p.clear_gradient(set_to_zero)

    clear_gradients = clear_grad

    def _as_tensors(self, entries: dict[str, Any]) -> dict[str, Any]:
        """Make tensors with names of accumulators of eager parameters, in Paddle's order: by role, then by parameter."""
        names = [p.name for p in self._parameters or () if isinstance(p, Tensor)]
        owners = {key: max((n for n in names if key.startswith(f"{n}_")), key=len, default="") for key in entries}
        if not any(owners.values()):
            return entries
        roles = list(dict.fromkeys(key.removeprefix(owner) for key, owner in owners.items()))
        places = {name: at for at, name in enumerate(names)}

        def place(key: str) -> tuple[int, int]:
            return roles.index(key.removeprefix(owners[key])), places.get(owners[key], -1)

        ordered = {key: leaf(entries[key]) if owners[key] else entries[key] for key in sorted(entries, key=place)}
        for key in filter(owners.get, ordered):
            ordered[key].name = key
        return ordered

    def _eager_parameters(self) -> list[Tensor]:
        tensors = [p for p in self._parameters or () if isinstance(p, Tensor)]
        if not tensors:
            raise ArgumentError("this optimizer holds no eager tensors. Pass parameters=model.parameters() when making it.")
        return tensors


class _Updates:
    """One program per set of parameters that have gradients; their state has the same names, so it lives on in one scope."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.scope = Scope()
        self.executor = Executor()
        self.programs: dict[tuple[int, ...], Program] = {}
        self.written: dict[str, Any] = {}

    def run(self, parameters: list[Tensor]) -> None:
        key = tuple(map(id, parameters))
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = self._build(parameters)
        feed = {}
        for p in parameters:
            assert p.grad is not None
            feed[f"{p.name}@GRAD"] = p.grad._array()
            if self.written.get(p.name) is not p._array():
                self.scope.put(p.name, np.array(p._array()))
        try:
            self.executor.run(program, feed=feed, fetch_list=[], scope=self.scope)
            self._give(parameters)
        except KeyboardInterrupt:
            self._give(parameters)  # whether the run has happened or not
            raise

    def _give(self, parameters: list[Tensor]) -> None:
        """Let parameters hold what the scope does"""
        for p in parameters:
            p.set_value(np.asarray(self.scope.get(p.name)))
            self.written[p.name] = p._array()
            if isinstance(p, EagerParameter):
                p.updates += 1

    def _build(self, parameters: list[Tensor]) -> Program:
        program = Program()
        program.scope = self.scope
        block = program.global_block()
        pairs: list[tuple[Variable, Variable]] = []
        for p in parameters:
            copy = block.create_parameter(p.name, p.dims, p.dtype)
            for attribute in ("optimize_attr", "regularizer", "need_clip"):
                if hasattr(p, attribute):
                    setattr(copy, attribute, getattr(p, attribute))
            pairs.append((copy, block.add_input(f"{p.name}@GRAD", TensorType(p.dtype, p.dims))))
        with state.fresh_names():
            self.optimizer.apply_gradients(pairs, Program())
        return program
