"""Every exception that onnxgrad raises on purpose.

::

    OnnxGradError
    ├── ModelError(ValueError)               a file or message that cannot be read as ONNX
    │   └── ExternalDataError                a weight file is missing, short or outside the model's folder
    ├── ProgramError(ValueError)             a program would become ill-formed
    │   ├── DuplicateName                    a name is used twice
    │   └── IllTyped(TypeError)              an operator does not accept its operands
    ├── UnknownName(ValueError, KeyError)    no variable, operand or attribute of that name
    ├── UnsupportedGradient(NotImplementedError)   no gradient exists, or none is written
    ├── RuleError(RuntimeError)              a gradient rule broke its contract
    ├── ArgumentError(ValueError)            an argument has an impossible value
    │   └── MemoryBudgetError                no choice of checkpoints keeps the budget
    ├── ArgumentTypeError(TypeError)         an argument has the wrong type
    │   ├── WrongKind(ArgumentError, AssertionError)  a number, a flag, a str or a list stands where another is meant
    │   └── NotAVariable(ValueError, AssertionError)   a Variable was expected
    ├── FeedError(ValueError)                a feed is missing or has the wrong dtype or shape
    │   └── DataError                        training data lacks a column, or holds what cannot be trained on
    ├── TrainingError(RuntimeError)          a run cannot go on: a loss that is not a number, a foreign checkpoint
    ├── FetchError(RuntimeError)             a fetched name is not in the program
    ├── NotInitialized(RuntimeError)         a parameter has no value yet
    ├── AxisError(ArgumentError, ArgumentTypeError)  an axis that a tensor does not have, or that is no int
    ├── OutOfRange(ArgumentError, IndexError)        an index beyond what there is
    ├── Mismatch(ArgumentError, AssertionError)      arguments do not fit each other
    │   └── BadBackward                      those of a backward pass
    ├── RepeatedTensor(ArgumentError, RuntimeError)  a tensor is given twice where each counts once
    ├── InPlaceOnLeaf(ArgumentError)         a leaf that gradients are recorded for would be changed in place
    ├── FreedGraph(SystemError)              a backward pass goes through a graph that an earlier one freed
    ├── HookOnStopped(RuntimeError)          a hook is put on a tensor at which gradients stop
    ├── NotOffered(NotImplementedError)      a function of Paddle that has no counterpart in ONNX
    ├── OutOfMemory(MemoryError)             a tensor does not fit into memory
    ├── FileError(OSError)                   a file cannot be written or read
    │   └── MissingFile(FileNotFoundError)   there is no such file
    ├── ExecutionError(RuntimeError)         onnxruntime refused or failed to run a graph
    │   └── UnfitOperands(ArgumentError, IndexError)   of eager tensors, which are arguments of a call
    └── ProviderError(RuntimeError, ValueError)  the device's execution provider is not installed

Each derives from the closest builtin too, so ``except ValueError`` works as a reader expects.
"""

# Tests: tests/test_compat.py.

__all__ = [
    "ArgumentError", "ArgumentTypeError", "AxisError", "BadBackward", "DataError", "DuplicateName", "ExecutionError",
    "ExternalDataError", "FeedError", "FetchError", "FileError", "FreedGraph", "HookOnStopped", "IllTyped", "InPlaceOnLeaf",
    "MemoryBudgetError", "Mismatch", "MissingFile", "ModelError", "NotAVariable", "NotInitialized", "NotOffered",
    "OnnxGradError", "OutOfMemory", "ProgramError", "ProviderError", "RepeatedTensor", "RuleError", "TrainingError",
    "UnknownDType", "UnknownName", "UnsupportedGradient", "WrongKind",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_CONTROL = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\t\n"}
_CONTROL |= {i: f"\\u{i:04x}" for i in range(0xD800, 0xE000)}  # halves of a character, which no stream takes


def escaped(text: str, keeps: str = "") -> str:
    """Show control characters, which the texts of a file may hold, as ``\\x1b``: a terminal would obey them.

    Args:
        text: to be shown.
        keeps: control characters besides tabulator and newline that are not escaped.
    """
    return text.translate({i: shown for i, shown in _CONTROL.items() if chr(i) not in keeps})


class OnnxGradError(Exception):
    """Base of all exceptions of this package. Control characters in its text are escaped."""

    def __str__(self) -> str:
        return escaped(super().__str__())


class ModelError(OnnxGradError, ValueError):
    """A file or message cannot be read as an ONNX model."""


class ExternalDataError(ModelError):
    """A weight stored outside the model file is missing, short, or not allowed to be read."""


class ProgramError(OnnxGradError, ValueError):
    """The program would become ill-formed."""


class DuplicateName(ProgramError):
    """A variable of that name exists already, with another shape or dtype."""


class IllTyped(ProgramError, TypeError, RuntimeError):
    """An operator does not accept its operands or attributes."""


class UnknownName(OnnxGradError, ValueError, KeyError):
    """No variable, operand or attribute has that name."""

    def __str__(self) -> str:
        return escaped(str(self.args[0])) if self.args else ""


class UnsupportedGradient(OnnxGradError, NotImplementedError):
    """A gradient was asked for that does not exist or is not written."""


class RuleError(OnnxGradError, RuntimeError):
    """A gradient rule returned something that its operator does not allow."""


class ArgumentError(OnnxGradError, ValueError):
    """An argument has a value that makes no sense."""


class MemoryBudgetError(ArgumentError):
    """No choice of checkpoints keeps a memory budget."""


class ArgumentTypeError(OnnxGradError, TypeError):
    """An argument has the wrong type."""


class WrongKind(ArgumentTypeError, ArgumentError, AssertionError):
    """An argument is of a wrong kind, for which Paddle raises TypeError, ValueError or AssertionError, by the function."""


class UnknownDType(ArgumentTypeError, ValueError):
    """There is no element type of this name."""


class NotAVariable(ArgumentTypeError, ValueError, AssertionError):
    """A Variable was expected."""


class FeedError(OnnxGradError, ValueError):
    """A feed is missing, or has the wrong dtype or shape."""


class DataError(FeedError):
    """Training data lacks a column, or holds values that cannot be trained on."""


class TrainingError(OnnxGradError, RuntimeError):
    """A training run cannot start or continue."""


class FetchError(OnnxGradError, RuntimeError):
    """A fetched name is not in the program."""


class NotInitialized(OnnxGradError, RuntimeError):
    """A parameter has no value yet."""


class AxisError(ArgumentError, ArgumentTypeError, IndexError):
    """An axis is none of a tensor's, or no int."""


class OutOfRange(ArgumentError, IndexError):
    """An index lies beyond what there is."""


class Mismatch(ArgumentError, AssertionError):
    """Arguments do not fit each other."""


class BadBackward(Mismatch):
    """The arguments of a backward pass do not fit each other."""


class RepeatedTensor(ArgumentError, RuntimeError):
    """A tensor is given twice where each counts once."""


class FreedGraph(OnnxGradError, SystemError):
    """A backward pass goes through a recorded graph that an earlier one freed."""


class HookOnStopped(OnnxGradError, RuntimeError):
    """A hook is put on a tensor at which gradients stop."""


class InPlaceOnLeaf(ArgumentError):
    """A leaf that gradients are recorded for would be changed in place."""


class NotOffered(OnnxGradError, NotImplementedError):
    """A function that Paddle has and ONNX cannot express."""


class OutOfMemory(OnnxGradError, MemoryError):
    """A tensor does not fit into memory."""


class FileError(OnnxGradError, OSError):
    """A file cannot be read or written; the old file is then unchanged."""


class MissingFile(FileError, FileNotFoundError):
    """There is no such file."""


class ExecutionError(OnnxGradError, RuntimeError):
    """onnxruntime refused a graph or failed while running it."""


class UnfitOperands(ExecutionError, ArgumentError, IndexError):
    """An operator does not take the eager tensors that it was called with: of these shapes, or with an index beyond them."""


class ProviderError(OnnxGradError, RuntimeError, ValueError):
    """The execution provider of a device is not installed."""
