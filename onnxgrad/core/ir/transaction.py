"""Changes of programs that happen as a whole or not at all.

Before the first change everything that a program consists of is noted: each slot of each block, operator and variable. A failure
puts it back into the same objects, so the variables that a caller holds stay those of the program. Had we worked on a copy and
swapped it in, each callback, optimizer and caller that had seen a variable of the copy would hold one that belongs to no program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.operator import Expansion, Operator
from onnxgrad.core.ir.program import Function, Program
from onnxgrad.core.ir.variable import Parameter, Variable

__all__ = ["Snapshot", "all_or_nothing", "transaction"]


P = ParamSpec("P")
R = TypeVar("R")


def _slots(cls: type) -> tuple[str, ...]:
    slots = dict.fromkeys(name for base in cls.__mro__ for name in getattr(base, "__slots__", ()))
    return tuple(name for name in slots if name != "__weakref__")


_FIELDS: dict[type, tuple[str, ...]] = {c: _slots(c) for c in (Block, Operator, Variable, Parameter, Expansion, Function)}
_READ = {cls: attrgetter(*names) for cls, names in _FIELDS.items()}
_CHANGED_INSIDE: dict[type, tuple[str, ...]] = {
    Block: ("ops", "vars", "inputs", "outputs", "initializers", "value_infos"),
    Operator: ("inputs", "outputs", "attrs"),
    Variable: (),
    Parameter: ("optimize_attr",),
    Expansion: ("operators", "outputs"),
    Function: ("input_names", "attribute_names", "attribute_defaults"),
}
"""Lists and dicts that are changed as they are; in other slots a new value replaces the old one."""
_CONTAINERS = {cls: [_FIELDS[cls].index(name) for name in names] for cls, names in _CHANGED_INSIDE.items()}


class Snapshot:
    """The parts of a program at one moment; anything else is remembered by its attributes.

    What is noted lies in a few long lists: an object for each operator would make the garbage collector look at all of them, which
    takes four times as long as noting them.
    """

    def __init__(self, *things: Any) -> None:
        self._items: list[Any] = []
        self._values: list[Any] = []
        self._lists: list[list[Any]] = []
        self._elements: list[Any] = []
        self._lengths: list[int] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._attributes: list[tuple[Any, dict[str, Any]]] = []
        for thing in things:
            self._attributes.append((thing, {name: _copied(value) for name, value in vars(thing).items()}))
            if isinstance(thing, Program):
                self._note_program(thing)

    def _note_program(self, program: Program) -> None:
        self._note_blocks(program)
        self._attributes.append((program.plan, {name: _copied(value) for name, value in vars(program.plan).items()}))
        for function in program.functions.values():
            self._note(function)
            inner = function.body.program
            self._note_blocks(inner)
            self._attributes.append((inner, {name: _copied(v) for name, v in vars(inner).items() if name != "functions"}))

    def _note_blocks(self, program: Program) -> None:
        seen: set[Variable] = set(program.parameters)
        for block in program.blocks:
            self._note(block)
            seen.update(block.vars.values(), block.inputs, block.outputs)
            for op in block.ops:
                self._note(op)
                if op.expansion is not None:
                    self._note(op.expansion)
                seen.update(v for v in op.outputs if v is not None)
        for v in seen:
            self._note(v)

    def _note(self, item: Any) -> None:
        cls = type(item)
        values = _READ[cls](item)
        self._items.append(item)
        self._values.extend(values)
        for index in _CONTAINERS[cls]:
            container = values[index]
            if type(container) is list:
                self._lists.append(container)
                self._elements.extend(container)
                self._lengths.append(len(container))
            elif container is not None:
                self._dicts.append((container, container.copy()))

    def restore(self) -> None:
        """Put everything back as it was."""
        values = iter(self._values)
        for item in self._items:
            for name in _FIELDS[type(item)]:
                setattr(item, name, next(values))
        at = 0
        for container, length in zip(self._lists, self._lengths, strict=True):
            container[:] = self._elements[at : at + length]
            at += length
        for mapping, before in self._dicts:
            mapping.clear()
            mapping.update(before)
        for thing, attributes in self._attributes:
            for name in set(vars(thing)) - set(attributes) - {"functions"}:
                delattr(thing, name)
            vars(thing).update({name: _copied(value) for name, value in attributes.items()})


def _copied(value: Any) -> Any:
    """A container of its own, so that what is noted stays as it is."""
    container = type(value)
    return value.copy() if container is list or container is dict or container is set else value


@contextmanager
def transaction(*things: Any) -> Iterator[None]:
    """Inside a ``with`` block, change these programs and objects; an exception leaves each as it was before.

    A transaction inside another one of the same program is a part of it.
    """
    fresh = [thing for thing in things if not getattr(thing, "in_transaction", False)]
    before = Snapshot(*fresh)
    for thing in fresh:
        thing.in_transaction = True
    try:
        yield
    except BaseException:
        before.restore()
        raise
    for thing in fresh:
        thing.in_transaction = False


def all_or_nothing(function: Callable[P, R]) -> Callable[P, R]:
    """A function that changes the programs it is given: if it fails, they are as they were before."""

    @wraps(function)
    def changing(*args: P.args, **kwargs: P.kwargs) -> R:
        with transaction(*(item for item in (*args, *kwargs.values()) if isinstance(item, Program))):
            return function(*args, **kwargs)

    return changing
