"""A Program: blocks of operators, weights, opsets, and which state a training step replaces.

Tests: tests/core/ir/test_builder.py, tests/static/test_static.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.copying import Copy
from onnxgrad.core.ir.known import entries_of_constant
from onnxgrad.core.ir.named import Named, as_variables
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.plan import RunPlan
from onnxgrad.core.ir.printing import program_text
from onnxgrad.core.ir.summary import Summary, headline, summarize
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable, set_values
from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.core.state.scope import Scope
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, NotOffered, UnknownName
from onnxgrad.internal import state
from onnxgrad.internal.late import late

if TYPE_CHECKING:
    from onnxgrad.core.autodiff.memory import MemoryPlan
    from onnxgrad.core.runtime.exchange import Exchange


__all__ = ["Function", "Program", "unshare"]

_IR_VERSION = 10


class Function:
    """A model-local function: an operator defined by a body of other operators."""

    __slots__ = (
        "attribute_defaults",
        "attribute_names",
        "body",
        "doc",
        "domain",
        "input_names",
        "metadata",
        "name",
        "origin",
        "overload",
        "unread",
    )

    def __init__(self, domain: str, name: str, overload: str, body: Block) -> None:
        self.domain = domain
        self.name = name
        self.overload = overload
        self.body = body
        self.input_names: list[str] = []
        self.attribute_names: list[str] = []
        self.attribute_defaults: dict[str, Any] = {}
        self.doc = ""
        self.metadata: dict[str, str] | None = None
        self.origin: Any = None
        self.unread = b""

    def copy(self, functions: dict[tuple[str, str, str], Function]) -> Function:
        """The function with a body of its own, which may call ``functions``."""
        program = self.body.program.empty_copy()
        program.functions = functions
        _copy_main_block(self.body.program, program, for_test=False)
        function = Function(self.domain, self.name, self.overload, program.global_block())
        function.input_names, function.attribute_names = list(self.input_names), list(self.attribute_names)
        function.attribute_defaults, function.doc = dict(self.attribute_defaults), self.doc
        function.metadata, function.origin, function.unread = self.metadata, self.origin, self.unread
        return function


class Program:
    """A graph of ONNX operators with its weights.

    Attributes:
        parameters: weights in the order they were created.
        updates: for each persistable variable that a run replaces, the variable holding its new value.
        overwritten: for each variable that ``overwrite`` was called on, the value that it was given last.
        read_for: values that were read in place of a variable that was replaced before, and that variable.
        opset_imports: (domain, version) pairs as written to a file.
        functions: model-local functions by (domain, name, overload).
        gradient_names: names that earlier backward passes used up, also of gradients that nobody asked for.
        scope: values that belong to this program alone; a program built in Python uses the global scope.
        training_pending: whether Dropout and BatchNormalization get their training forms as soon as the program is lifted.
        batch_norm: what ``train`` was told of BatchNormalization, for then.
        plan: what a run does besides: schedules, printing, exchanging gradients, what memory it is to take.
        lifted_from: the opset that it had before it was lifted, if it was.
        is_oracle: for tests: also accept float64 where an operator declares float32 only, as onnx.reference does.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.version = 0
        self.opset_imports: list[tuple[str, int]] = [("", OLDEST_WITH_RULES)]
        self.ir_version = _IR_VERSION
        self.blocks: list[Block] = []
        self.parameters: list[Parameter] = []
        self.updates: dict[Variable, Variable] = {}
        self.overwritten: dict[Variable, Variable] = {}
        self.read_for: dict[Variable, Variable] = {}
        self.functions: dict[tuple[str, str, str], Function] = {}
        self.scope: Scope | None = None
        self.metadata: dict[str, str] = {}
        self.doc = ""
        self.producer: tuple[str, str] = ("onnxgrad", "")
        self.domain = ""
        self.model_version = 0
        self.imported: Any = None
        self.random_seed = 0
        self.decisions: dict[str, str] = {}
        self.gradient_names: set[str] = set()
        self.is_oracle = False
        self.lifted_from: int | None = None
        self.training_pending = False
        self.batch_norm = "train"
        self.plan = RunPlan()
        self.in_transaction = False
        self._appending_grad_times = 0
        self._constants: dict[Any, Variable] = {}
        self._current: list[Block] = []
        self.new_block(None, "main")

    # Blocks ----------------------------------------------------------------------------------------------------------

    def new_block(self, parent: Block | None, name: str) -> Block:
        """A new block, entered into ``blocks``.

        Args:
            parent: the block that holds its operator.
            name: the name of the block.
        """
        block = Block(self, parent, name)
        block.idx = len(self.blocks)
        self.blocks.append(block)
        return block

    def global_block(self) -> Block:
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """Block number ``index``; raises IndexError when there is none.

        Args:
            index: its number; 0 is the main block.
        """
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block that appended operators go to."""
        return self._current[-1] if self._current else self.blocks[0]

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    # Names and opsets ------------------------------------------------------------------------------------------------

    def fresh_name(self, wanted: str) -> str:
        """``wanted``, or with a number appended if it is taken; the name counts as taken from now on.

        Args:
            wanted: what it is called if that is free.
        """
        taken = self.names.get(wanted)
        if taken is None:
            self.names[wanted] = 0
            return wanted
        while True:
            taken += 1
            candidate = f"{wanted}_{taken}"
            if candidate not in self.names:
                self.names[wanted] = taken
                self.names[candidate] = 0
                return candidate

    def generate_name(self, key: str) -> str:
        """The next counted name for ``key`` that this program does not hold yet.

        Args:
            key: the stem, such as the name of a layer.
        """
        while True:
            name = state.generate_name(key)
            if name not in self.names:
                self.names[name] = 0
                return name

    def opset_version(self, domain: str = "") -> int | None:
        """Imported version of an operator domain; None when it is not imported.

        Args:
            domain: of operators; empty for ONNX's own.
        """
        for name, version in self.opset_imports:
            if name == domain or (domain == "" and name == "ai.onnx"):
                return version
        return None

    def set_opset_version(self, version: int, domain: str = "") -> None:
        """Say which opset the operators of a domain are of.

        Args:
            version: the number.
            domain: of operators; empty for ONNX's own.
        """
        kept = [
            (name, number) for name, number in self.opset_imports if name not in (domain, "ai.onnx" if domain == "" else domain)
        ]
        self.opset_imports = [(domain, version), *kept]
        self.version += 1

    # Variables -------------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Variable]:
        """Graph inputs that must be fed, in order; those with a default value may be, and are left out."""
        return [v for v in self.global_block().inputs if v.value is None and v.default is None]

    @property
    def outputs(self) -> list[Variable]:
        """Graph outputs, in order. Set them by names or variables of the main block, one or several.

        Raises:
            UnknownName: if one that is set is of another program, or is no name here.
            ArgumentError: if one is set twice.

        Example:
            >>> x = static.data("x", [None, 2], "float32")
            >>> program = x.block.program
            >>> program.outputs = x * 2
            >>> program.outputs
            [Variable(tmp_0: float32[?, 2])]
        """
        return self.global_block().outputs

    @outputs.setter
    def outputs(self, items: Named) -> None:
        variables = as_variables(self, items, "outputs", UnknownName)
        block = self.global_block()
        counts = Counter(variables)
        for v in variables:
            if v.block is not block:
                raise UnknownName(f"outputs: {v.name!r} is inside the body of an operator. Choose variables of the main block.")
            if counts[v] > 1:
                raise ArgumentError(f"outputs: {v.name!r} is named twice. Name each output once.")
        block.outputs = variables
        self.version += 1

    def all_parameters(self) -> list[Parameter]:
        """Weights in creation order, trainable or not."""
        return list(self.parameters)

    def list_vars(self) -> Iterator[Variable]:
        for block in self.blocks:
            yield from block.vars.values()

    def find(self, name: str) -> Variable:
        """The variable called ``name``, the main block first, then the others in order.

        Raises:
            UnknownName: if no block has it.
        """
        for block in self.blocks:
            v = block.vars.get(name)
            if v is not None:
                return v
        raise UnknownName(f"the program has no variable {name!r}.")

    def constant(self, array: np.ndarray[Any, Any], register: bool = True) -> Variable:
        """A constant with these elements, shared by all that ask for equal ones.

        Args:
            array: of any shape.
            register: whether the block knows it by name.
        """
        key = _constant_key(array)
        v = self._constants.get(key)
        if v is None:
            block = self.global_block()
            tensor = TensorValue.of(array.copy())
            v = Variable(block, self.fresh_name(_constant_name(array)), TensorType(tensor.dtype, array.shape))
            v.value = tensor
            v.entries = entries_of_constant(tensor)
            block.register(v)
            block.initializers.append(v)
            self._constants[key] = v
        return v

    def create_global_var(self, name: str, value: np.ndarray[Any, Any]) -> Variable:
        """A persistable variable with an initial value: optimizer state, a learning rate, a counter.

        Args:
            name: the name.
            value: the initial value.
        """
        block = self.global_block()
        tensor = TensorValue.of(value)
        variable = Variable(block, self.fresh_name(name), TensorType(tensor.dtype, tensor.shape))
        variable.persistable = True
        variable.value = tensor
        block.register(variable)
        block.initializers.append(variable)
        return variable

    def active_scope(self) -> Scope:
        """The program's own scope, or the global one."""
        if self.scope is not None:
            return self.scope
        scope: Scope = state.current.make_once("scope", Scope)
        return scope

    def state_dict(
        self, mode: Literal["all", "param", "opt"] = "all", scope: Scope | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Values of persistable variables by name: of parameters ('param'), of the others ('opt'), or 'all'.

        Args:
            mode: 'param', 'opt' or 'all'.
            scope: where the values are; the program's own, else the global one.

        Raises:
            ArgumentError: if the mode is another.
            NotInitialized: if one has no value yet.
        """
        if mode not in ("all", "param", "opt"):
            raise ArgumentError(f"state_dict: mode is 'all', 'param' or 'opt', not {mode!r}.")
        states = dict.fromkeys(v for v in [*self.parameters, *self.list_vars()] if v.persistable)
        chosen = [v for v in states if mode == "all" or isinstance(v, Parameter) == (mode == "param")]
        return {v.name: v.get_value(scope) for v in chosen}

    def set_state_dict(self, state_dict: GivenByName, scope: Scope | None = None) -> None:
        """Set the persistable variables that a dictionary names; other names are ignored.

        Args:
            state_dict: values by name, each of its variable's shape.
            scope: where they are set; the program's own, else the global one.

        Raises:
            ArgumentError: if an array does not have its variable's shape; then none is set.
        """
        set_values(((v, state_dict[v.name]) for v in self.list_vars() if v.persistable and v.name in state_dict), scope)

    def serialize_to_string(self) -> bytes:
        """The program as bytes, without the values of its parameters; ``parse_from_string`` reads them."""
        data: bytes = late("Program.serialize_to_string")(self)
        return data

    @property
    def desc(self) -> Program:
        """The program itself, for scripts that write ``program.desc.serialize_to_string()``."""
        return self

    @staticmethod
    def parse_from_string(binary_str: bytes) -> Program:
        """A program from the bytes of ``serialize_to_string``, or of any ONNX model.

        Args:
            binary_str: what ``serialize_to_string`` gave, or the bytes of an ONNX model.

        Raises:
            ModelError: if they are neither.
        """
        program: Program = late("Program.parse_from_string")(binary_str)
        return program

    # Runs ------------------------------------------------------------------------------------------------------------

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """The tensors that the last ``append_backward(checkpoints="auto")`` keeps, and the peak it expects, in bytes."""
        return self.plan.memory

    @property
    def exchange(self) -> Exchange | None:
        """The exchange of this program's gradients between ranks, after ``distribute``; None without one."""
        return self.plan.exchange

    # Modes -----------------------------------------------------------------------------------------------------------

    def train(self, batch_norm: Literal["train", "frozen"] = "train") -> Program:
        """Switch Dropout and BatchNormalization to training, in place; returns the program.

        Args:
            batch_norm: ``"train"`` to normalise by batch and replace the running statistics, ``"frozen"`` to go on normalising by
                those of the file, which is right for small batches and small data. What ``training.insert_batch_norm`` put in
                normalises by batch in any case.

        Raises:
            ArgumentError: if it is another word.
        """
        late("Program.train")(self, True, batch_norm)
        return self

    def eval(self) -> Program:
        """Switch Dropout and BatchNormalization to inference, in place; returns the program."""
        late("Program.train")(self, False)
        return self

    # Writing to variables --------------------------------------------------------------------------------------------

    def overwrite(self, v: Variable, value: Variable) -> Variable:
        """Let ``v`` be ``value`` for all that is appended from now on, and after the run too if ``v`` is persistable; return ``v``.

        Args:
            v: a variable of the block that is being written.
            value: its new value; of a persistable one of the same element type, and of a shape that fits.

        Raises:
            NotOffered: for a variable from outside the branch or loop that is written, and where runs add gradients up.
            ArgumentError: if the type of a persistable variable would change.
        """
        if v.block is not self.current_block():
            raise NotOffered(
                f"{v.name} is overwritten inside a branch or a loop. Return its new value from there, and assign that behind it."
            )
        new = self.present(value)
        if v.persistable:
            if self.plan.accumulation is not None:
                raise NotOffered(f"{v.name} is overwritten where gradients are added up over several runs. Write it before that.")
            if not _can_become(v.type, new.type):
                raise ArgumentError(
                    f"{v!r} cannot become {new!r}: state keeps its element type and shape. Cast or reshape the value."
                )
            unshare(self, v)
            self.updates[v] = new
        self.overwritten[v] = new
        self.version += 1
        return v

    def last(self, v: Variable) -> Variable:
        """The variable that a fetch of ``v`` reads: what it was overwritten with; of state ``v`` itself, which the run replaces.

        Args:
            v: a variable of this program.
        """
        return v if v.persistable else self.overwritten.get(v, v)

    def present(self, v: Variable) -> Variable:
        """The value of a variable at this point of the program: what it was overwritten with, or updated to, last.

        Args:
            v: a variable of this program.

        Raises:
            NotOffered: if it is updated only after several runs.
        """
        new = self.updates.get(v) if v.persistable else self.overwritten.get(v)
        if new is None:
            return v
        if self.plan.accumulation is not None and v.persistable and v not in self.plan.accumulation.each:
            raise NotOffered(f"{v.name} is read behind its update, which several runs precede. Read it before the update.")
        self.read_for[new] = v
        return new

    # Copying ---------------------------------------------------------------------------------------------------------

    def clone(self, for_test: bool = False) -> Program:
        """A copy with the same names, which therefore shares its values through the scope.

        Args:
            for_test: leave out backward and optimizer operators and switch to inference.
        """
        return self.clone_with_variables(for_test)[0]

    def clone_with_variables(self, for_test: bool = False) -> tuple[Program, dict[Variable, Variable]]:
        """``clone``, and the copy of each variable.

        Args:
            for_test: whether the copy is one for inference, as for ``clone``.
        """
        copy = self.empty_copy()
        copies = {key: function.copy(copy.functions) for key, function in self.functions.items()}
        copy.functions.clear()
        copy.functions.update(copies)
        copy.training_pending = self.training_pending and not for_test
        copy.batch_norm = self.batch_norm
        return copy, _copy_main_block(self, copy, for_test)

    def __copy__(self) -> Program:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        """A copy with values, and schedules, of its own."""
        copy, variables = self.clone_with_variables()
        memo[id(self)] = copy
        memo.update((id(v), other) for v, other in variables.items())
        copy.scope = self.active_scope().copy()
        copy.plan.schedulers = [(v, deepcopy(scheduler, memo)) for v, scheduler in copy.plan.schedulers]
        return copy

    def __reduce__(self) -> Any:
        advice = "Keep serialize_to_string() and state_dict(), or write it with onnxgrad.save_onnx"
        raise ArgumentTypeError(f"a Program is not pickled: its values lie in a scope. {advice}.")

    def empty_copy(self) -> Program:
        """A program without operators that is otherwise like this one, with the same functions and the same scope."""
        copy = Program()
        for field in _OWN:
            setattr(copy, field, getattr(self, field))
        copy.opset_imports = list(self.opset_imports)
        copy.functions = dict(self.functions)
        copy.metadata = dict(self.metadata)
        copy.decisions = dict(self.decisions)
        copy._appending_grad_times = self._appending_grad_times
        copy.gradient_names = set(self.gradient_names)
        return copy

    def __str__(self) -> str:
        return program_text(self)

    def __repr__(self) -> str:
        return f"Program({headline(self)})"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Summary:
        """Summarise layers, shapes, trained weights and the memory of a training step with Adam; print it."""
        return summarize(self)

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """One operator a line, with types and shapes; with details, also whether gradients stop at each variable.

        Args:
            throw_on_error: accepted for compatibility.
            with_details: accepted for compatibility.
        """
        return program_text(self, with_details)


_OWN = (
    *("ir_version", "doc", "producer", "domain", "model_version", "imported", "random_seed", "scope", "is_oracle"),
    "lifted_from",
)
"""Fields of one value that a copy shares."""


def _can_become(old: Any, new: Any) -> bool:
    """Whether a value of one type, as far as it is known, may be one of another, in element type and shape"""
    if not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return old is None or new is None or old == new
    if old.dtype is not new.dtype or old.dims is None or new.dims is None:
        return old.dtype is new.dtype
    sizes = [(a, b) for a, b in zip(old.dims, new.dims, strict=False) if isinstance(a, int) and isinstance(b, int)]
    return len(old.dims) == len(new.dims) and all(a == b for a, b in sizes)


def _constant_key(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return array.dtype.str if array.dtype.kind != "V" else array.dtype.name, array.shape, array.tobytes()


def unshare(program: Program, v: Variable) -> None:
    """Let nobody who asks for a constant of these elements get this variable, which is state from now on."""
    if v.value is None or v.value.origin is not None:
        return  # no constant that a program has made
    key = _constant_key(v.value.numpy())
    if program._constants.get(key) is v:
        del program._constants[key]


def _constant_name(array: np.ndarray[Any, Any]) -> str:
    """``const_float32_0.5`` for a scalar, ``const_int64_0_-1`` for a short vector, else by shape."""
    dtype = dtype_of(array.dtype).name
    if array.size <= 4 and array.ndim <= 1:
        elements = "_".join(
            f"{entry:.6g}" if dtype_of(array.dtype).is_float else str(entry) for entry in array.reshape(-1).tolist()
        )
        return f"const_{dtype}_{elements or 'empty'}" if array.ndim == 0 else f"const_{dtype}_[{elements}]"
    return f"const_{dtype}_{'x'.join(str(dim) for dim in array.shape)}"


def _copy_main_block(source: Program, home: Program, for_test: bool) -> dict[Variable, Variable]:
    """Fill a new program's main block; sub-blocks come along with their operators."""
    old, new = source.global_block(), home.global_block()
    copy = Copy(home, source)
    ops = [op for op in old.ops if not for_test or (op.role is Role.FORWARD and op.replaces is None)]
    computed = {v for op in old.ops for v in op.outputs if v is not None}
    for v in old.vars.values():
        if v not in computed and (not for_test or v.op is None):
            copy.read(v)
    for value, v in source.read_for.items():
        if for_test and value.op is not None and value.op.role is not Role.FORWARD:
            copy.variables[value] = copy.read(v)  # nothing replaces it in the copy
    for op in ops:
        copy.append(op, new)
    home.parameters = [p for p in map(copy.read, source.parameters) if isinstance(p, Parameter)]
    copies = copy.variables
    for field in ("inputs", "outputs", "initializers", "value_infos"):
        setattr(new, field, [copies[v] for v in getattr(old, field) if v in copies])
    home.plan = source.plan.copy(copies, for_test=for_test)
    if not for_test:
        copy.expansions()
        home.updates = {copies[v]: copies[new] for v, new in source.updates.items()}
    # A body that was written twice leaves values of the first one behind.
    home.overwritten = {copies[v]: copies[new] for v, new in source.overwritten.items() if v in copies and new in copies}
    home.read_for = {copies[new]: copies[v] for new, v in source.read_for.items() if v in copies and new in copies}
    if for_test:
        home.updates = {v: new for v, new in home.overwritten.items() if v.persistable}
    return copies
