"""A Program: blocks of operators, weights, opsets, and which state a training step replaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxgrad import state
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.ir.block import Block
from onnxgrad.ir.operator import Expansion, Operator, Role
from onnxgrad.ir.opset import OLDEST_WITH_RULES
from onnxgrad.ir.printing import program_text
from onnxgrad.ir.scope import Scope
from onnxgrad.ir.tensor import Tensor
from onnxgrad.ir.traverse import copy_operators
from onnxgrad.ir.types import TensorType
from onnxgrad.ir.variable import Parameter, Variable

__all__ = ["Function", "Program"]

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


class Program:
    """A graph of ONNX operators with its weights.

    Attributes:
        parameters: weights in the order they were made.
        updates: for each persistable variable that a run replaces, the variable holding its new value.
        opset_imports: (domain, version) pairs as written to a file.
        functions: model-local functions by (domain, name, overload).
        gradient_names: names that earlier backward passes used up, also of gradients that nobody asked for.
        scope: values that belong to this program alone; a program built in Python uses the global scope.
        memory_plan: which tensors the last ``append_backward(checkpoints="auto")`` keeps, and the peak it expects, in bytes.
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
        self.functions: dict[tuple[str, str, str], Function] = {}
        self.scope: Scope | None = None
        self.metadata: dict[str, str] = {}
        self.doc = ""
        self.producer: tuple[str, str] = ("onnxgrad", "")
        self.domain = ""
        self.model_version = 0
        self.imported: Any = None
        self.random_seed = 0
        self.schedulers: list[tuple[Variable, Any]] = []
        self.printers: list[tuple[Variable, Any]] = []
        self.decisions: dict[str, str] = {}
        self.gradient_names: set[str] = set()
        self.is_oracle = False
        self.memory_plan: Any = None
        self._appending_grad_times = 0
        self._constants: dict[Any, Variable] = {}
        self._current: list[Block] = []
        self.new_block(None, "main")

    # Blocks ----------------------------------------------------------------------------------------------------------

    def new_block(self, parent: Block | None, name: str) -> Block:
        """A new block, entered into ``blocks``."""
        block = Block(self, parent, name)
        block.idx = len(self.blocks)
        self.blocks.append(block)
        return block

    def global_block(self) -> Block:
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """Block number ``index``; raises IndexError when there is none."""
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block that appended operators go to."""
        return self._current[-1] if self._current else self.blocks[0]

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    # Names and opsets ------------------------------------------------------------------------------------------------

    def fresh_name(self, wanted: str) -> str:
        """``wanted``, or with a number appended if it is taken; the name counts as taken from now on."""
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
        """The next counted name for ``key`` that this program does not hold yet."""
        while True:
            name = state.generate_name(key)
            if name not in self.names:
                self.names[name] = 0
                return name

    def opset_version(self, domain: str = "") -> int | None:
        """Imported version of an operator domain; None when it is not imported."""
        for name, version in self.opset_imports:
            if name == domain or (domain == "" and name == "ai.onnx"):
                return version
        return None

    def set_opset_version(self, version: int, domain: str = "") -> None:
        kept = [
            (name, number) for name, number in self.opset_imports if name not in (domain, "ai.onnx" if domain == "" else domain)
        ]
        self.opset_imports = [(domain, version), *kept]
        self.version += 1

    # Variables -------------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Variable]:
        """Graph inputs to be fed, in order; those with a default value are left out."""
        return [v for v in self.global_block().inputs if v.value is None]

    @property
    def outputs(self) -> list[Variable]:
        """Graph outputs, in order."""
        return self.global_block().outputs

    def all_parameters(self) -> list[Parameter]:
        """Weights in creation order, also those that are not trainable."""
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
            found = block.vars.get(name)
            if found is not None:
                return found
        raise UnknownName(f"the program has no variable {name!r}.")

    def constant(self, array: np.ndarray[Any, Any], register: bool = True) -> Variable:
        """A constant with these elements, shared by all that ask for equal ones."""
        key = (array.dtype.str if array.dtype.kind != "V" else array.dtype.name, array.shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            block = self.global_block()
            tensor = Tensor.of(array.copy())
            found = Variable(block, self.fresh_name(_constant_name(array)), TensorType(tensor.dtype, array.shape))
            found.value = tensor
            if tensor.dtype.is_integer and array.ndim <= 1 and array.size <= 64:
                found.entries = tuple(int(entry) for entry in array.reshape(-1))
            block.register(found)
            block.initializers.append(found)
            self._constants[key] = found
        return found

    def create_global_var(self, name: str, value: np.ndarray[Any, Any]) -> Variable:
        """A persistable variable with an initial value: optimizer state, a learning rate, a counter."""
        block = self.global_block()
        tensor = Tensor.of(value)
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
        if state.current.scope is None:
            state.current.scope = Scope()
        found: Scope = state.current.scope
        return found

    def state_dict(self, mode: str = "all", scope: Scope | None = None) -> dict[str, Any]:
        """Values of persistable variables by name: those of parameters ('param'), of the others ('opt'), or 'all'.

        Raises:
            ArgumentError: if the mode is another.
            NotInitialized: if one has no value yet.
        """
        if mode not in ("all", "param", "opt"):
            raise ArgumentError(f"state_dict: mode is 'all', 'param' or 'opt', not {mode!r}.")
        found = {id(v): v for v in [*self.parameters, *self.list_vars()] if v.persistable}
        chosen = [v for v in found.values() if mode == "all" or isinstance(v, Parameter) == (mode == "param")]
        return {v.name: v.get_value(scope) for v in chosen}

    def set_state_dict(self, state_dict: dict[str, Any], scope: Scope | None = None) -> None:
        """Set the persistable variables that a dictionary names; other names are ignored.

        Raises:
            ArgumentError: if an array does not have its variable's shape.
        """
        for v in self.list_vars():
            if v.persistable and v.name in state_dict:
                v.set_value(state_dict[v.name], scope)

    def serialize_to_string(self) -> bytes:
        """The program as bytes, without the values of its parameters; ``parse_from_string`` reads them."""
        from onnxgrad.static.io import write_program

        return write_program(self)

    @property
    def desc(self) -> Program:
        """The program itself, for scripts that write ``program.desc.serialize_to_string()``."""
        return self

    @staticmethod
    def parse_from_string(binary_str: bytes) -> Program:
        """A program from the bytes of ``serialize_to_string``, or of any ONNX model.

        Raises:
            ModelError: if they are neither.
        """
        from onnxgrad.static.io import parse_program

        return parse_program(binary_str)

    # Modes -----------------------------------------------------------------------------------------------------------

    def train(self) -> Program:
        """Switch Dropout and BatchNormalization to training, in place; returns the program."""
        from onnxgrad.passes.modes import set_training

        set_training(self, True)
        return self

    def eval(self) -> Program:
        """Switch Dropout and BatchNormalization to inference, in place; returns the program."""
        from onnxgrad.passes.modes import set_training

        set_training(self, False)
        return self

    # Copying ---------------------------------------------------------------------------------------------------------

    def clone(self, for_test: bool = False) -> Program:
        """A copy with the same names, which therefore shares its values through the scope.

        Args:
            for_test: leave out backward and optimizer operators and switch to inference.
        """
        copy = Program()
        copy.opset_imports = list(self.opset_imports)
        for field in ("ir_version", "functions", "doc", "producer", "domain", "model_version", "imported", "random_seed"):
            setattr(copy, field, getattr(self, field))
        copy.metadata = dict(self.metadata)
        copy.decisions = dict(self.decisions)
        copy.scope = self.scope
        copy._appending_grad_times = self._appending_grad_times
        copy.gradient_names = set(self.gradient_names)
        mapping = _copy_main_block(self, copy, for_test)
        if not for_test:
            copy.updates = {mapping[v]: mapping[new] for v, new in self.updates.items()}
            copy.schedulers = [(mapping[v], scheduler) for v, scheduler in self.schedulers]
        copy.printers = [(mapping[v], printer) for v, printer in self.printers if v in mapping]
        return copy

    def __str__(self) -> str:
        return program_text(self)

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """One operator a line, with types and shapes; with details, also whether gradients stop at each variable."""
        return program_text(self, with_details)


def _constant_name(array: np.ndarray[Any, Any]) -> str:
    """``const_float32_0.5`` for a scalar, ``const_int64_0_-1`` for a short vector, else by shape."""
    kind = dtype_of(array.dtype).name
    if array.size <= 4 and array.ndim <= 1:
        elements = "_".join(
            f"{entry:.6g}" if dtype_of(array.dtype).is_float else str(entry) for entry in array.reshape(-1).tolist()
        )
        return f"const_{kind}_{elements or 'empty'}" if array.ndim == 0 else f"const_{kind}_[{elements}]"
    return f"const_{kind}_{'x'.join(str(dim) for dim in array.shape)}"


def _copy_main_block(source: Program, copy: Program, for_test: bool) -> dict[Variable, Variable]:
    """Fill a new program's main block; sub-blocks come along with their operators."""
    old, new = source.global_block(), copy.global_block()
    new.name, new.doc, new.metadata = old.name, old.doc, old.metadata
    ops = [op for op in old.ops if not for_test or (op.role is Role.FORWARD and op.replaces is None)]
    mapping: dict[Variable, Variable] = {}
    computed = {id(v) for op in old.ops for v in op.outputs}
    for v in old.vars.values():
        if id(v) not in computed and (not for_test or v.op is None):
            _copy_leaf(v, new, mapping)
    for parameter in source.parameters:
        if parameter not in mapping:
            _copy_leaf(parameter, new, mapping)
    copy.parameters = [p for p in (mapping[p] for p in source.parameters) if isinstance(p, Parameter)]
    new.inputs = [mapping[v] for v in old.inputs]
    new.initializers = [mapping[v] for v in old.initializers if v in mapping]
    for op, twin in zip(ops, copy_operators(ops, mapping, new, lambda v: v.name), strict=True):
        for made, copied in zip(op.outputs, twin.outputs, strict=True):
            if made is not None and copied is not None and made is not copied:
                copied.declared, copied.doc, copied.metadata = made.declared, made.doc, made.metadata
        if any(v is not None and v.persistable for v in twin.outputs):
            twin.outputs = [None if w is None else mapping.get(w, w) for w in twin.outputs]
            new.ops.append(twin)
        else:
            new.append(twin)
    if not for_test:
        _copy_expansions(ops, new.ops, mapping)
    new.outputs = [mapping[v] for v in old.outputs if v in mapping]
    new.value_infos = [mapping[v] for v in old.value_infos if v in mapping]
    return mapping


def _copy_leaf(v: Variable, block: Block, mapping: dict[Variable, Variable]) -> None:
    if isinstance(v, Parameter):
        parameter = Parameter(block, v.name, v.type, v.trainable)
        parameter.optimize_attr = dict(v.optimize_attr)
        parameter.regularizer, parameter.need_clip, parameter.reason = v.regularizer, v.need_clip, v.reason
        twin: Variable = parameter
    else:
        twin = Variable(block, v.name, v.type)
    twin.value, twin.entries, twin._stop, twin.persistable = v.value, v.entries, v._stop, v.persistable
    twin.is_data, twin.declared, twin.doc, twin.metadata = v.is_data, v.declared, v.doc, v.metadata
    mapping[v] = block.register(twin)


def _copy_expansions(ops: list[Operator], twins: list[Operator], mapping: dict[Variable, Variable]) -> None:
    twin_of = dict(zip(map(id, ops), twins, strict=True))
    for op, twin in zip(ops, twins, strict=True):
        if op.replaces is not None:
            twin.replaces = twin_of[id(op.replaces)]
        if op.expansion is not None:
            outputs = [None if v is None else mapping[v] for v in op.expansion.outputs]
            inner_ops = [twin_of[id(inner)] for inner in op.expansion.operators]
            twin.expansion = Expansion(inner_ops, outputs, op.expansion.always)
