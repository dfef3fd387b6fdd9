"""Whether an operator has the form of its schema, and what to say when the work on one fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnxgrad.core.ir.infer import reason_against
from onnxgrad.core.ir.operator import AttributeReference, Operator, has_attribute_type
from onnxgrad.errors import IllTyped, OnnxGradError, OutOfMemory, RuleError

__all__ = ["check_form", "naming_operator"]


def check_form(operator: Operator) -> None:
    """Refuse an operator whose operands are too few or too many, or whose attributes are missing or of another type.

    Files were checked when they were read; this is for what a pass, or the call of a function, has put together since.

    Raises:
        IllTyped: naming the operator.
    """
    schema = operator.schema
    if schema is None:
        return
    for name, attr_type in schema.attributes.items():
        value = operator.attrs.get(name)
        if value is not None and not isinstance(value, AttributeReference) and not has_attribute_type(value, attr_type):
            raise IllTyped(f"{operator}: the attribute {name!r} cannot be {value!r}. Give it the type that ONNX declares.")
    for name in schema.required:
        if name not in operator.attrs:
            raise IllTyped(f"{operator}: the attribute {name!r} is required.")
    count = len(operator.inputs)
    while count and operator.inputs[count - 1] is None:
        count -= 1
    declared = schema.inputs
    missing = [o for o in declared if not o.optional and not o.variadic and (o.index >= count or operator.inputs[o.index] is None)]
    if missing or len(operator.inputs) < schema.min_input or (count > len(declared) and not (declared and declared[-1].variadic)):
        raise IllTyped(f"{operator}: {count} operands given; its inputs are {[o.name for o in declared]}.")


@contextmanager
def naming_operator(operator: Operator, task: str, *, infers: bool = True) -> Iterator[None]:
    """Name the operator that is being worked on in what goes wrong, and why onnx's inference would refuse it, if it does.

    Args:
        operator, task: what is worked on, and what for.
        infers: whether to ask inference; not while the operator is half rewritten.

    Raises:
        IllTyped: if its operands or attributes do not fit.
        RuleError: if nothing is found wrong with them.
    """
    try:
        yield
    except IllTyped as error:
        # Of an operator that was to be written; the fault may be in the one it is written for.
        reason = reason_against(operator) if infers else None
        if reason is not None:
            raise IllTyped(reason) from error
        raise
    except OnnxGradError:
        raise
    except MemoryError as error:
        raise OutOfMemory(f"{operator}: no memory to {task}. Use smaller sizes, or a larger machine.") from error
    except Exception as error:
        reason = reason_against(operator) if infers else None
        if reason is not None:
            raise IllTyped(reason) from error
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise RuleError(f"{operator}: cannot {task} ({message}). Check its attributes and the shapes of its operands.") from error
