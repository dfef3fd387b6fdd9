"""to_training_info, from_training_info: training inside the file of the model, as ``ModelProto.training_info`` holds it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TrainingInfoProto

from onnxgrad.core.compile import compile
from onnxgrad.core.interop.messages import bodies_of, names_read
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.interop.onnx_import import checked_model, read_model, read_program
from onnxgrad.core.ir.defaults import default_startup_program
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.named import as_variables
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import LEARNING_RATE, Variable
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.export import Fetch, to_training_step
from onnxgrad.errors import ArgumentError, ModelError
from onnxgrad.internal.arguments import checked

_ADVICE = "The file is damaged; fetch it again."

__all__ = ["Training", "from_training_info", "to_training_info"]


class Training(NamedTuple):
    """The programs of a training file: run ``startup`` once, then ``program`` for each batch, fetching ``fetches``."""

    program: Program
    startup: Program
    fetches: list[Variable]


# Writing -------------------------------------------------------------------------------------------------------------


def to_training_info(
    program: Program, fetch: Fetch, outputs: Fetch | None = None, startup: Program | None = None, scope: Scope | None = None
) -> ModelProto:
    """The inference model with its training step beside it, in ``ModelProto.training_info``.

    Runtimes that only infer ignore the training step. Everything is standard operators; what inference computes already, and in the
    same way, the training step reads from there.

    Args:
        program: a program that ``minimize`` was called on.
        fetch: what the step returns beside new state, such as the loss.
        outputs: what inference returns; None for the program's own outputs.
        startup: initialises weights and optimizer state; None for the default startup program. Becomes ``initialization``.
        scope: where the present values are; default the program's.

    Returns:
        A model with one ``training_info``: ``algorithm``, ``update_binding``, ``initialization``, ``initialization_binding``.

    Raises:
        ArgumentError: if the program updates nothing, or has no outputs of its own and none are given.
        NotInitialized: if a weight has no value yet.

    Example:
        >>> model = to_training_info(program, [loss])  # doctest: +SKIP
    """
    if not program.updates:
        raise ArgumentError("no optimizer updates this program. Call minimize on the loss first.")
    if outputs is None and not program.outputs:
        raise ArgumentError("this program was built in Python and names no outputs. Pass outputs=[...].")
    step, manifest = to_training_step(program, fetch, scope)
    inference = program.clone(for_test=True)
    inference.scope = scope or program.active_scope()
    named = inference.outputs if outputs is None else [v.name for v in as_variables(program, outputs)]
    model = write_model(compile(inference, as_variables(inference, named)))
    for entry in step.opset_import:
        if entry not in model.opset_import:
            raise ModelError(f"inference and training need different versions of {entry.domain or 'the standard operators'}.")
    info = model.training_info.add()
    renamed = _write_algorithm(info.algorithm, model.graph, step.graph)
    _describe_rates(info.algorithm, manifest["learning_rate"])
    _bind(info.update_binding, ((e["input"], renamed.get(e["output"], e["output"])) for e in manifest["state"]))
    _write_initialization(info, startup or default_startup_program(), [e["input"] for e in manifest["state"]])
    return model


def _write_algorithm(algorithm: GraphProto, inference: GraphProto, step: GraphProto) -> dict[str, str]:
    """Fill the algorithm with what the step has beyond the inference graph; returns new names of what would clash."""
    shared = {node.output[0]: node.SerializeToString(deterministic=True) for node in inference.node if node.output}
    taken = {name for node in inference.node for name in node.output} | {v.name for v in inference.input}
    names = {tensor.name for tensor in inference.initializer}
    algorithm.name = "training"
    renamed: dict[str, str] = {}
    for node in step.node:
        again = shared.get(node.output[0]) == node.SerializeToString(deterministic=True)
        if again and not any(name in renamed for name in names_read(node)):
            continue
        copy = algorithm.node.add()
        copy.CopyFrom(node)
        _rename(copy, renamed)
        for i, name in enumerate(copy.output):
            if name in taken:
                copy.output[i] = renamed[name] = f"{name}/training"
    algorithm.initializer.extend(tensor for tensor in step.initializer if tensor.name not in names)
    state = names | {tensor.name for tensor in step.initializer}
    algorithm.input.extend(v for v in step.input if v.name not in state | taken)
    offered = {v.name for v in inference.output}
    for v in step.output:
        if v.name in renamed or v.name not in offered:
            algorithm.output.add().CopyFrom(v)
            algorithm.output[-1].name = renamed.get(v.name, v.name)
    return renamed


def _rename(node: NodeProto, renamed: dict[str, str]) -> None:
    """Let the node, and the bodies inside it, read the new names; a body that defines a name itself keeps it."""
    for i, name in enumerate(node.input):
        node.input[i] = renamed.get(name, name)
    for body in bodies_of(*node.attribute):
        own = {v.name for v in [*body.input, *body.initializer]} | {name for inner in body.node for name in inner.output}
        outer = {name: new for name, new in renamed.items() if name not in own}
        for inner in body.node:
            _rename(inner, outer)
        for v in body.output:
            v.name = outer.get(v.name, v.name)


def _describe_rates(algorithm: GraphProto, names: list[str]) -> None:
    for tensor in algorithm.initializer:
        if tensor.name in names:
            tensor.doc_string = LEARNING_RATE


def _bind(binding: Any, pairs: Iterable[tuple[str, str]]) -> None:
    for key, value in pairs:
        entry = binding.add()
        entry.key, entry.value = key, value


def _write_initialization(info: TrainingInfoProto, startup: Program, names: list[str]) -> None:
    initial = {v.name: new for v, new in startup.updates.items() if v.name in names}
    if not initial:
        return
    graph = compile(startup, list(initial.values()))
    info.initialization.CopyFrom(write_model(graph).graph)
    info.initialization.name = "initialization"
    _bind(info.initialization_binding, ((name, graph.name(new)) for name, new in initial.items()))


# Reading -------------------------------------------------------------------------------------------------------------


@checked
def from_training_info(
    source: str | Path | bytes | ModelProto,
    index: int = 0,
    *,
    expand: Literal["com.microsoft", "ai.onnx.preview.training"] | None = None,
) -> Training:
    """Read a model that holds its training: a program whose runs are training steps, and its initialisation.

    Args:
        source: path of a file, its bytes, or a message.
        index: which ``training_info`` to read.
        expand: as for ``from_onnx``; ``"ai.onnx.preview.training"`` for files whose algorithm uses Gradient and optimizers.

    Returns:
        (program, startup, fetches). The updated initializers of the inference graph are the program's parameters, except running
        statistics; ``fetches`` are the outputs of the algorithm that are no new state. ``to_onnx(program)`` writes inference.

    Raises:
        ModelError: if there is no such ``training_info``, or a binding names what the graphs do not hold.
        the errors of ``from_onnx``.

    Example:
        >>> training = from_training_info("model.onnx")  # doctest: +SKIP
        >>> executor.run(training.startup)  # doctest: +SKIP
        >>> executor.run(training.program, batch, training.fetches)  # doctest: +SKIP
    """
    model, folder = read_model(source)
    if not 0 <= index < len(model.training_info):
        raise ModelError(f"the model holds {len(model.training_info)} training_info, so there is no number {index}.")
    info = model.training_info[index]
    bindings = {entry.key: entry.value for entry in info.update_binding}
    statistics = {name for node in model.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}
    weights = [t.name for t in model.graph.initializer if t.name in bindings and t.name not in statistics and _is_real(t)]
    program = read_program(checked_model(_combined(model, info), "its training"), folder, parameters=weights, expand=expand)
    program.updates = _updates(program, info, bindings)
    _tell_inference(program, model, info)
    fetches = [program.find(v.name) for v in info.algorithm.output if v.name not in bindings.values()]
    return Training(program, _startup(model, info, folder, program), fetches)


def _updates(program: Program, info: TrainingInfoProto, bindings: dict[str, str]) -> dict[Variable, Variable]:
    """New values by state variable; a learning rate is state that no step changes"""
    block = program.global_block()
    for name in [*bindings, *(t.name for t in info.algorithm.initializer if t.doc_string == LEARNING_RATE)]:
        v = _bound(block.vars.get(name), name)
        if v.value is None:
            raise ModelError(f"update_binding names {name!r}, which is not an initializer. {_ADVICE}")
        v.persistable, v.is_data, v.entries = True, False, None
        v.doc = v.doc if name in bindings else LEARNING_RATE
    for op in block.ops:
        infer_leniently(op)  # what was known of the elements of state is true of the first step only
    updates = {block.vars[name]: _bound(block.vars.get(new), new) for name, new in bindings.items()}
    for old, new in updates.items():
        _check_equal(old, new)
    return updates


def _check_equal(old: Variable, new: Variable) -> None:
    """Refuse a new value of another element type or shape, as far as these are known"""
    if new.type is None:
        return
    known = old.static_shape is not None and new.static_shape is not None
    if not isinstance(new.type, TensorType) or old.dtype is not new.dtype or (known and old.static_shape != new.static_shape):
        raise ModelError(f"training_info binds {new!r} to {old!r}, which is of another type. {_ADVICE}")


def _tell_inference(program: Program, model: ModelProto, info: TrainingInfoProto) -> None:
    """Keep inputs, initializers, outputs and operators of the algorithm out of what ``to_onnx`` writes"""
    block = program.global_block()
    inference = {name for node in model.graph.node for name in node.output}
    for op in block.ops:
        op.loaded = op.loaded and any(v is not None and v.name in inference for v in op.outputs)
    for entry in info.algorithm.input:
        block.vars[entry.name].declared = None
    for tensor in info.algorithm.initializer:
        v = block.vars[tensor.name]
        assert v.value is not None  # as of every initializer
        v.value = TensorValue.of(v.value.numpy())  # one that is not from the file is written only where it is used
    block.outputs = block.outputs[: len(model.graph.output)]


def _is_real(tensor: Any) -> bool:
    return tensor.data_type in (1, 10, 11, 16)


def _bound(v: Variable | None, name: str) -> Variable:
    if v is None:
        raise ModelError(f"a binding of training_info names {name!r}, which neither graph holds.")
    return v


def _combined(model: ModelProto, info: TrainingInfoProto) -> ModelProto:
    """One graph of both, by the rule of the ONNX specification: the lists one after another."""
    whole = ModelProto()
    whole.CopyFrom(model)
    del whole.training_info[:]
    for field in ("input", "initializer", "output", "node", "value_info", "sparse_initializer"):
        getattr(whole.graph, field).extend(getattr(info.algorithm, field))
    return whole


def _startup(model: ModelProto, info: TrainingInfoProto, folder: Path | None, program: Program) -> Program:
    """The initialization graph as a program that sets the state of ``program``"""
    source = ModelProto(ir_version=model.ir_version, graph=info.initialization)
    source.opset_import.extend(model.opset_import)
    source.functions.extend(model.functions)
    startup = read_program(checked_model(source, "its initialization"), folder, parameters=[], expand=None)
    startup.scope = program.scope
    block = startup.global_block()
    initial = {entry.key: _bound(block.vars.get(entry.value), entry.value) for entry in info.initialization_binding}
    for name, new in initial.items():
        variable = _bound(program.global_block().vars.get(name), name)
        if name in block.vars:
            block.vars[name].name = startup.fresh_name(f"{name}/initial")
        startup.names.pop(name, None)
        if not variable.persistable or variable.value is None:
            raise ModelError(f"initialization_binding names {name!r}, which is not state of the training. {_ADVICE}")
        _check_equal(variable, new)
        startup.updates[startup.create_global_var(name, variable.value.numpy())] = new
    return startup
