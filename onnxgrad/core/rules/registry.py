"""The rule table: for every operator exactly one of four states.

========================  ==============================================================================================
``@gradient(...)``         a vector-Jacobian product is written
``@expansion(...)``        differentiated as other operators: our own body, or ONNX's (``expands``)
``stops_gradient(...)``    the derivative is zero or does not exist as a number; the reason is given
``unsupported(...)``       asking for it is an error that says why
========================  ==============================================================================================

Tests: tests/core/rules/test_table.py, tests/core/rules/test_custom_rule.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.errors import ArgumentError

__all__ = ["TABLE", "Entry", "expands", "expansion", "find_entry", "gradient", "stops_gradient", "unsupported"]

_NEWEST = 1000


class Entry:
    """The entry of one operator in the table, for a range of opsets."""

    __slots__ = (
        "because",
        "beside",
        "broadcasts",
        "function",
        "moves",
        "prepare",
        "quantizes",
        "segments",
        "since",
        "state",
        "until",
    )

    def __init__(
        self,
        state: str,
        function: Callable[..., Any] | None = None,
        because: str = "",
        broadcasts: bool | tuple[int, ...] = False,
        since: int = 0,
        until: int = _NEWEST,
        prepare: Callable[..., Any] | None = None,
        segments: Callable[..., Any] | None = None,
        moves: bool = False,
        quantizes: bool = False,
        beside: bool = False,
    ) -> None:
        self.state = state
        self.function = function
        self.because = because
        self.broadcasts = broadcasts
        self.since = since
        self.until = until
        self.prepare = prepare
        self.segments = segments
        self.moves = moves
        self.quantizes = quantizes
        self.beside = beside

    @property
    def formula(self) -> str:
        return (self.function.__doc__ or "").strip() if self.function is not None else self.because


Rule = TypeVar("Rule", bound=Callable[..., object])

TABLE: dict[tuple[str, str], list[Entry]] = {}


def _enter(names: tuple[str, ...], domain: str, entry: Entry) -> None:
    for name in names:
        entries = TABLE.setdefault((domain, name), [])
        for other in entries:
            if other.since <= entry.until and entry.since <= other.until:
                raise ArgumentError(
                    f"{domain or 'ai.onnx'}:{name} is in the rule table already ({other.state}). Give since=/until=."
                )
        entries.append(entry)


def gradient(
    *names: str,
    broadcasts: bool | tuple[int, ...] = False,
    domain: str = "",
    since: int = 0,
    until: int = _NEWEST,
    prepare: Callable[..., object] | None = None,
    segments: Callable[..., object] | None = None,
    moves: bool = False,
    quantizes: bool = False,
) -> Callable[[Rule], Rule]:
    """Declare the vector-Jacobian product of operators.

    The function takes ``(op, node, *gradients of the outputs)`` and returns one gradient per input; None means that the
    input receives nothing. Its docstring is the formula and becomes the entry of the operator table.

    Args:
        names: operator types.
        broadcasts: the inputs broadcast against each other; the walker sums the gradients back to their shapes. A tuple
            names the positions of those that do.
        domain: operator domain.
        prepare: writes the forward operator so that it leaves behind what its gradient needs, its tape. It returns the
            outputs, the new operator, and what the rule finds as ``node.tape``. Taped outputs that nobody reads are dropped.
        segments: for an operator with a body, writes it so that only some of its states are held.
        quantizes: its integer outputs stand for real numbers and carry gradients (in floating point), by convention.
        moves: it passes such integers on unchanged, or makes real numbers of them.
        since, until: opset versions (inclusive) for operators whose meaning changed after opset 21.

    Raises:
        ArgumentError: if an operator is in the table already.

    Example:
        >>> @gradient("Cube", domain="example.org")
        ... def cube(op, node, gy):
        ...     '''gx = 3 x^2 gy'''
        ...     (x,) = node.inputs
        ...     return op.Mul(gy, op.Mul(op.Mul(x, x), 3.0))
    """

    def enter(function: Rule) -> Rule:
        entry = Entry("rule", function, "", broadcasts, since, until, prepare, segments, moves, quantizes)
        _enter(names, domain, entry)
        return function

    return enter


def expansion(
    *names: str,
    domain: str = "",
    since: int = 0,
    until: int = _NEWEST,
    beside: bool = False,
    quantizes: bool = False,
    moves: bool = False,
) -> Callable[[Rule], Rule]:
    """Declare that operators are differentiated as the operators that this function ``(op, node)`` writes.

    It returns one variable per output of the node (None for those it leaves out). The expansion also replaces the forward
    operator wherever gradients are computed, so nothing runs twice. One that stands ``beside`` never does: the operator, which a
    runtime computes faster or in another precision, stays, and what its gradient reads is computed again. ``quantizes`` and
    ``moves`` are as for ``gradient``.

    Args:
        names: operator types.
        domain: operator domain.
        since: the oldest opset version.
        until: the newest one.
        beside: whether the operator itself stays.
        quantizes: as for ``gradient``.
        moves: as for ``gradient``.
    """

    def enter(function: Rule) -> Rule:
        entry = Entry("expands", function, "", False, since, until, moves=moves, quantizes=quantizes, beside=beside)
        _enter(names, domain, entry)
        return function

    return enter


def expands(*names: str, domain: str = "") -> None:
    """Declare that operators are differentiated through the function body that ONNX defines for them."""
    _enter(names, domain, Entry("expands", None, "through the function body that ONNX defines"))


def stops_gradient(*names: str, because: str, domain: str = "") -> None:
    """Declare operators through which no gradient flows, with the reason.

    Args:
        names: operator types.
        because: the reason, as a clause.
        domain: operator domain.
    """
    _enter(names, domain, Entry("stops", None, because))


def unsupported(*names: str, because: str, domain: str = "", quantizes: bool = False) -> None:
    """Declare operators whose gradient is refused, with the reason; ``quantizes`` if their outputs are integers.

    Args:
        names: operator types.
        because: the reason, as a clause.
        domain: operator domain.
        quantizes: as for ``gradient``.
    """
    _enter(names, domain, Entry("unsupported", None, because, quantizes=quantizes))


def find_entry(operator: Operator) -> Entry | None:
    """The entry for an operator in its program's opset; None for operators outside the table, unless their schema has a body.

    onnxruntime writes some operators of its own in the standard domain, where ONNX has none of that name.
    """
    entries = TABLE.get((operator.domain, operator.type))
    if operator.domain == "" and operator.schema is None:
        entries = TABLE.get((CONTRIB_DOMAIN, operator.type), entries)
    if entries is None:
        return _THROUGH_BODY if _has_schema_body(operator) else None
    if len(entries) == 1:
        return entries[0]
    version = operator.block.program.opset_version(operator.domain) or 0
    return next((entry for entry in entries if entry.since <= version <= entry.until), None)


_THROUGH_BODY = Entry("expands", None, "through the function body that its schema defines")


def _has_schema_body(operator: Operator) -> bool:
    """Whether an operator's schema says what it computes, and the model has no function of its own for it"""
    if (operator.domain, operator.type, operator.overload) in operator.block.program.functions or operator.schema is None:
        return False
    return operator.schema.has_body
