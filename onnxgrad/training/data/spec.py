"""The columns that a program reads from its data.

Tests: tests/training/data/test_tables.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.training.data.record import DataRecord, record_of

__all__ = ["DataSpec"]


@dataclass(frozen=True)
class DataSpec:
    """Columns by name, and the variables that they become.

    Attributes:
        names: in the order in which tuples have them.
        variables: by name, as far as they are known.
        targets: names of those that only the loss reads.
        optional: names of columns that are taken where the data has them.
        beside: names of columns that are no inputs, and that the data may have.
        losses: by target, the name of the loss that reads it, which says of what kind it is.
        program: the model for inference, which sources look at to learn how images are prepared; None where it does not matter.
        record: what was found of data before, which counts.
    """

    names: Sequence[str]
    variables: Mapping[str, Variable] = field(default_factory=dict)
    targets: Sequence[str] = ()
    optional: Sequence[str] = ()
    program: Program | None = None
    beside: Sequence[str] = ()
    losses: Mapping[str, str] = field(default_factory=dict)
    record: DataRecord = field(default_factory=DataRecord)

    @classmethod
    def of(
        cls,
        inputs: Sequence[Variable],
        targets: Sequence[Variable] = (),
        optional: Sequence[str] = (),
        program: Program | None = None,
        beside: Sequence[str] = (),
        losses: Mapping[str, str] | None = None,
    ) -> DataSpec:
        """Return the spec of these variables without the optional ones, with the record of the program."""
        every = {v.name: v for v in [*inputs, *targets]}
        names = [name for name in every if name not in optional]
        return cls(names, every, [v.name for v in targets], optional, program, beside, losses or {}, record_of(program))
