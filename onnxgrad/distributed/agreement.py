"""Check that all ranks train the same: what they train before the first step, and in each step its number, rows and rates.

Tests: tests/distributed/test_agreement.py, tests/distributed/test_programs.py.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnx
import onnxruntime

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import LEARNING_RATE, Variable
from onnxgrad.core.state.scope import Scope
from onnxgrad.distributed.shared_state import copied_range
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import TrainingError
from onnxgrad.version import __version__

__all__ = ["MARKS", "StepCheck", "Subject", "broadcast_state", "check_equal", "check_step", "fingerprint", "versions"]

_SHOWN = 160
"""Characters of a value in a message."""
_BITS = 20
MARKS = 4
"""Numbers that a step adds to the table that it sums up over ranks anyway."""


class Subject(NamedTuple):
    """A thing that all ranks have alike.

    Attributes:
        value: compared by its repr; bytes are a hash, which messages do not show.
        action: what to do where ranks differ.
    """

    value: object
    action: str


def versions() -> dict[str, Subject]:
    """List the versions that decide what a step computes, for ``check_equal``."""
    packages = {module.__name__: module.__version__ for module in (onnx, onnxruntime, np)}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = ", ".join(f"{name} {number}" for name, number in {"onnxgrad": __version__, **packages, "python": python}.items())
    return {"other versions": Subject(text, "Install the same versions on all machines")}


def fingerprint(program: Program, gradients: Sequence[Variable], *others: object) -> dict[str, Subject]:
    """Hash a program's operators, the gradients that are exchanged in their order, and what else is alike, for ``check_equal``."""
    digest = hashlib.sha256(str(program).encode())
    for v in gradients:
        digest.update(f"\0{v.name} {v.dtype.name} {v.static_shape}".encode())
    digest.update(repr(others).encode())
    name = "another program, or trains other parameters"
    return {name: Subject(digest.digest(), "Start all ranks with the same model and options")}


def check_equal(transport: Transport, subjects: Mapping[str, Subject]) -> None:
    """Raise TrainingError on all ranks, naming the ranks that differ from most, unless all have equal values.

    Args:
        transport: between the ranks, which all call this with subjects of the same names; 8 bytes of each and rank are sent.
        subjects: by what a rank that differs has, as in "it has another batch size".
    """
    table = np.zeros((transport.world_size, len(subjects)), np.int64)
    table[transport.rank] = [int.from_bytes(_hashed(subject.value, 8), "little", signed=True) for subject in subjects.values()]
    transport.all_reduce_(table.reshape(-1))
    for hashes, (name, subject) in zip(table.T, subjects.items(), strict=True):
        if (hashes != hashes[0]).any():
            raise _difference(transport, hashes.tolist(), name, subject)


def _hashed(value: object, size: int) -> bytes:
    return hashlib.blake2b(repr(value).encode("utf-8", "backslashreplace"), digest_size=size).digest()


def _difference(transport: Transport, hashes: Sequence[int], name: str, subject: Subject) -> TrainingError:
    """The error, with the values of the first rank that differs and of most, for which all ranks exchange them"""
    ranks_of: dict[int, list[int]] = {}
    for rank, value in enumerate(hashes):
        ranks_of.setdefault(value, []).append(rank)
    most = max(ranks_of.values(), key=len)
    others = sorted(rank for ranks in ranks_of.values() if ranks is not most for rank in ranks)
    texts = np.zeros((transport.world_size, _SHOWN), np.uint8)
    text = "" if isinstance(subject.value, bytes) else ascii(subject.value)
    text = text[1:-1] if isinstance(subject.value, str) else text
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    texts[transport.rank, : len(text)] = np.frombuffer(text.encode(), np.uint8)
    transport.all_reduce_(texts.reshape(-1))
    his, ours = (bytes(texts[rank]).rstrip(b"\0").decode() for rank in (others[0], most[0]))
    named = f"rank {others[0]}" if len(others) == 1 else f"ranks {', '.join(map(str, others))}"
    has = "it has" if len(others) == 1 else "they have"
    shown = f" ({his}, not {ours})" if his != ours else ""
    return TrainingError(
        f"{named} of {transport.world_size} cannot train with rank {most[0]}: {has} {name}{shown}. {subject.action}."
    )


class StepCheck:
    """What ranks compare in each step: its number, the rows of the whole batch, and the learning rates.

    A step sums ``MARKS`` numbers up over ranks, in a table that it sends anyway; where these tell a difference, ranks exchange what
    they have, and all raise. That two steps that differ have the same marks happens once in 10^12.

    Attributes:
        number: of steps taken before the next one.
    """

    def __init__(self) -> None:
        self.number = 0
        self._rate_variables: list[Variable] = []
        self._read_from: tuple[Program, int] | None = None
        self._subjects: dict[str, Subject] = {}

    def begin(self, program: Program, scope: Scope, rows: int = 0) -> None:
        """Note what the step that begins has.

        Args:
            program: whose rates are compared: those that schedules give, and those that ``set_lr`` sets.
            scope: of the state.
            rows: a hash of the rows of the whole batch; 0 where each rank cuts its part itself.
        """
        self._subjects = {
            "another step number": self._subject_of_number(),
            "another learning rate": Subject(
                self._rates(program, scope), "Set the same rate, and move schedules on alike, on all ranks"
            ),
            "other rows in its batch": Subject(_hashed(rows, 8), "Give all ranks the same data in the same order"),
        }

    def begin_eager(self) -> None:
        """Note what a step of eager layers has: its number alone, as the rates are those of optimizers that nobody knows."""
        self._subjects = {"another step number": self._subject_of_number()}

    def _subject_of_number(self) -> Subject:
        return Subject(self.number + 1, "One was interrupted, or took a step more: load the same checkpoint on all ranks")

    def _rates(self, program: Program, scope: Scope) -> list[float]:
        scheduled = {v.name: scheduler for v, scheduler in program.plan.schedulers}
        if self._read_from != (program, program.version):
            self._rate_variables = [v for v in program.list_vars() if v.persistable and v.doc == LEARNING_RATE]
            self._read_from = (program, program.version)
        fixed = [v for v in self._rate_variables if v.name not in scheduled]
        return [*(float(rate()) for rate in scheduled.values()), *(_number(v.get_value(scope)) for v in fixed)]

    def marks(self) -> list[float]:
        """Return two integers of 20 bits and their squares: N ranks have the same x where N sum(x^2) = sum(x)^2.

        Sums are exact in float64 up to 8,192 ranks; beyond, ``check`` compares the values more often than need be.
        """
        values = [subject.value for subject in self._subjects.values()]
        high, low = divmod(int.from_bytes(_hashed(values, 2 * _BITS // 8), "little"), 1 << _BITS)
        return [float(high), float(high * high), float(low), float(low * low)]

    def check(self, transport: Transport, sums: Sequence[float]) -> None:
        """Raise TrainingError on all ranks, naming those that differ, unless the sums of the marks are those of equal ones."""
        total, squares, low_total, low_squares = map(int, sums)
        count = transport.world_size
        if count * squares != total**2 or count * low_squares != low_total**2:
            check_equal(transport, self._subjects)


def check_step(transport: Transport, step: StepCheck) -> None:
    """Compare a step by a message of its own, before anything of it is sent."""
    sums = np.array(step.marks())
    transport.all_reduce_(sums)
    step.check(transport, sums.tolist())


def _number(value: Any) -> float:
    return float(np.asarray(value).reshape(-1)[0])


class Shares(Protocol):
    """What says which elements of a state a rank keeps: ``SharedState``."""

    def keep_own(self, v: Variable, read: Callable[[int, int], Any], scope: Scope) -> bool: ...

    def is_own_part(self, v: Variable, scope: Scope) -> bool: ...


def broadcast_state(transport: Transport, state: Iterable[Variable], scope: Scope, shared: Shares | None = None) -> None:
    """Give all ranks the values that rank 0 has: a rank has all of them, or goes on with its own.

    What no rank has set, and begins alike on all, is not made.

    Args:
        shared: which elements of what ranks share out each keeps; None where all keep all.
    """
    variables = list(state)
    values: dict[str, np.ndarray[Any, Any]] = {}
    for v, is_alike in zip(variables, _are_alike(transport, variables, scope, shared), strict=True):
        value = np.zeros(0) if is_alike else np.array(v.get_value(scope), order="C")
        if is_alike or value.dtype.kind in "SUO":
            continue
        words = value.reshape(-1).view(np.uint8)
        before = _hashed_bytes(words)
        transport.broadcast_(words)
        if shared is not None and shared.keep_own(v, partial(copied_range, value), scope):
            continue
        if transport.rank and before != _hashed_bytes(words):
            values[v.name] = value
    scope.put_all(values)


def _are_alike(transport: Transport, state: Sequence[Variable], scope: Scope, shared: Shares | None) -> list[bool]:
    """For each state whether ranks have nothing to give each other: none has set it and all begin alike, or each has its share"""
    table = np.zeros((transport.world_size, len(state)), np.int64)
    for number, v in enumerate(state):
        if shared is not None and shared.is_own_part(v, scope):
            table[transport.rank, number] = -1
        elif scope.present(v.name) is None and v.value is not None and v.dtype.name != "string":
            table[transport.rank, number] = _hashed_bytes(np.ascontiguousarray(v.value.numpy()).reshape(-1).view(np.uint8))
    transport.all_reduce_(table.reshape(-1))
    return [bool((column < 0).any() or (column[0] and (column == column[0]).all())) for column in table.T]


def _hashed_bytes(words: np.ndarray[Any, Any]) -> int:
    """A hash of some bytes, above 0"""
    return 1 + int.from_bytes(hashlib.blake2b(words.data, digest_size=7).digest(), "little")
