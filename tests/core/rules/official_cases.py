"""The single-operator cases that come inside the onnx package, differentiated and compared with central differences.

Which cases count is a rule, not a list (``out_of_scope``): operators of ai.onnx alone, nothing random, a floating-point input
and a path from it to a floating-point output. A case is checked in three settings: as recorded, with everything that is not
differentiated frozen to initializers, and with every dimension symbolic.

The oracle is the forward model in float64 on onnx.reference, or onnxruntime where that does not reproduce the recorded
outputs. At a recorded point that lies on a kink (Relu at 0, ties of Max) the derivative does not exist: all inputs are then
moved by a small fixed random offset, for both sides alike, and the outcome says so.

``python -m tests.core.rules.official_cases [part of a name ...]`` prints what passes, by setting and by operator.
"""

import importlib
import pkgutil
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from onnx import ModelProto, TensorProto, numpy_helper

from onnxgrad.core.autodiff.api import BackwardPass
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.infer import read_type
from onnxgrad.core.ir.types import OptionalType, SequenceType, TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.registry import find_entry
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.internal import state
from tests.core.rules.official_oracle import (
    Oracle,
    find_oracle,
    leaves,
    other_functions,
    passes_checker,
    run_gradient,
    runs_on_onnxruntime,
)

SETTINGS = ("recorded", "frozen", "symbolic")
REAL = ("float16", "bfloat16", "float32", "float64")
"""Types that are differentiated; those of 8, 6 and 4 bits are storage formats."""

EXCEPTIONS: dict[str, str] = {
    "test_loop16_seq_none": "a loop state is an optional at first and a sequence later, and one branch does not read it: "
    "what may be absent has no zero that could be its gradient there",
}
"""Cases whose gradient is refused, each with a reason that a mathematician accepts; the refusal itself is checked."""


class Case(NamedTuple):
    """A model with recorded inputs (by name) and outputs."""

    name: str
    model: ModelProto
    inputs: dict[str, Any]
    outputs: list[Any]


class Outcome(NamedTuple):
    """``problem`` is empty when the case passed; ``note`` says where the comparison needed more than the recorded point."""

    problem: str = ""
    refused: bool = False
    note: str = ""


# Cases ---------------------------------------------------------------------------------------------------------------


def groups() -> list[str]:
    """Names of the modules and folders that hold cases; found without reading them."""
    modules = [f"node.{module.name}" for module in pkgutil.iter_modules(node_cases.__path__) if not module.ispkg]
    folders = ["simple", "pytorch-converted", "pytorch-operator"]
    return [*modules, *(folder for folder in folders if (_DATA / folder).is_dir())]


_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
_loaded: dict[str, list[Case]] = {}


def cases_of(group: str) -> list[Case]:
    """The cases of one group, in scope or not; read once."""
    if group not in _loaded:
        _loaded[group] = read_group(group)
    return _loaded[group]


def read_group(group: str) -> list[Case]:
    return _node_group(group.removeprefix("node.")) if group.startswith("node.") else _folder_group(group)


def _node_group(module: str) -> list[Case]:
    """A module makes its cases while it is imported, so one that somebody imported before is read again."""
    name = f"{node_cases.__name__}.{module}"
    before = len(node_cases._NodeTestCases)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if name in sys.modules:
            node_cases._existing_names.clear()
            importlib.reload(sys.modules[name])
        else:
            importlib.import_module(name)
    made = node_cases._NodeTestCases[before:]
    return [_case(t.name, t.model, *t.data_sets[0]) for t in made]


def _folder_group(kind: str) -> list[Case]:
    found = []
    for path in sorted((_DATA / kind).glob("*/model.onnx")):
        model = onnx.load(path)
        recorded = [_stored(path.parent / "test_data_set_0", side, infos) for side, infos in _sides(model)]
        found.append(_case(path.parent.name, model, *recorded))
    return found


def _sides(model: ModelProto) -> list[tuple[str, list[Any]]]:
    held = {tensor.name for tensor in model.graph.initializer}
    return [("input", [v for v in model.graph.input if v.name not in held]), ("output", list(model.graph.output))]


def _stored(folder: Path, side: str, infos: list[Any]) -> list[Any]:
    values = []
    for i, info in enumerate(infos):
        path = folder / f"{side}_{i}.pb"
        if not path.exists():
            break
        kind = info.type.WhichOneof("value")
        proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind, TensorProto)()
        proto.ParseFromString(path.read_bytes())
        read = {"sequence_type": numpy_helper.to_list, "optional_type": numpy_helper.to_optional}
        values.append(read.get(kind, numpy_helper.to_array)(proto))
    return values


def _case(name: str, model: ModelProto, inputs: list[Any], outputs: list[Any]) -> Case:
    held = {tensor.name for tensor in model.graph.initializer}
    names = [v.name for v in model.graph.input]
    if len(inputs) < len(names):
        names = [n for n in names if n not in held]
    return Case(name, model, {n: _plain(v) for n, v in zip(names, inputs, strict=False)}, [_plain(v) for v in outputs])


def _plain(value: Any) -> Any:
    """Arrays, lists of arrays, or None"""
    if value is None:
        return None
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return np.asarray(value)


def representative(case: Case, position: int) -> bool:
    """What the default suite keeps: the first case of a group and every fifteenth of the rest."""
    return position == 0 or zlib.crc32(case.name.encode()) % 15 == 0


# Scope ---------------------------------------------------------------------------------------------------------------


def out_of_scope(case: Case) -> str:
    """Why a case is not asked for; empty if it is."""
    for node in case.model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            return "outside ai.onnx"
        if is_random(node, case):
            return "samples random numbers"
    if not any(_is_real_value(v) for v in case.inputs.values()) and not case.model.graph.initializer:
        return "no floating-point input"
    path = _Path(case.model)
    if not path.sources:
        return "no floating-point input"
    return "" if path.targets else "no differentiable path to a floating-point output"


def is_random(node: Any, case: Any) -> bool:
    """Whether a node of a case, or one inside it, draws random numbers."""
    version = next((entry.version for entry in case.model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    if node.op_type == "Dropout":
        mode = case.inputs.get(node.input[2]) if len(node.input) > 2 else None
        return bool(mode is not None and mode.any()) or (
            version < 7 and not any(a.name == "is_test" and a.i for a in node.attribute)
        )
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    if node.domain not in ("", "ai.onnx"):
        return False
    seeded = "seed" in onnx.defs.get_schema(node.op_type, version, "").attributes
    return seeded or any(is_random(inner, case) for body in bodies for inner in body.node)


def _is_real_value(value: Any) -> bool:
    return any(_is_real(leaf.dtype) for leaf in leaves(value))


def _is_real(dtype: Any) -> bool:
    return dtype_of(dtype).name in REAL


def _is_real_type(type: Any) -> bool:
    if isinstance(type, (SequenceType, OptionalType)):
        return _is_real_type(type.element)
    return isinstance(type, TensorType) and type.dtype.name in REAL


class _Path:
    """A model as a program, with the floating-point inputs and the outputs that depend on them."""

    def __init__(self, model: ModelProto) -> None:
        self.settings = settings_of(model)
        self.program = from_onnx(model)
        block = self.program.global_block()
        self.sources = [v for v in block.inputs if v.value is None and _is_real_type(v.type)]
        self.sources += [v for v in self.program.parameters if v.op is None and v.block is block]
        for v in self.sources:
            v.stop_gradient = False
        active = {id(v) for v in self.sources}
        for op in block.ops:
            entry = find_entry(op)
            stops = entry is not None and entry.state == "stops"
            read = op.operands()[:1] if op.type == "CastLike" else op.operands()  # of the other it reads the type alone
            if not stops and any(id(v) in active for v in read):
                active.update(id(v) for v in op.outputs if v is not None and (v.type is None or _is_real_type(v.type)))
        self.indices = [i for i, v in enumerate(block.outputs) if id(v) in active and _is_real_type(v.type)]
        self.targets = [block.outputs[i] for i in self.indices]


# Settings ------------------------------------------------------------------------------------------------------------


def arranged(case: Case, setting: str) -> ModelProto:
    """The model of a case in one of the three settings."""
    model = ModelProto()
    model.CopyFrom(case.model)
    if setting == "frozen":
        _freeze(model, case)
    elif setting == "symbolic":
        _forget_shapes(model)
    return model


def _freeze(model: ModelProto, case: Case) -> None:
    """Integer operands, and float ones that the schema says are no subject of differentiation, become initializers"""
    model.ir_version = max(model.ir_version, 4)
    real = {v.name for v in model.graph.input if _is_real_type(read_type(v.type))}
    settings = settings_of(model) if real - settings_of(model) else set()
    for info in list(model.graph.input):
        value = case.inputs.get(info.name)
        if isinstance(value, np.ndarray) and (not _is_real(value.dtype) or info.name in settings):
            model.graph.input.remove(info)
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))


def settings_of(model: ModelProto) -> set[str]:
    """Inputs that the schema says are no subject of differentiation: the scales of a Resize, the indices of a OneHot."""
    version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    category = onnx.defs.OpSchema.DifferentiationCategory
    found: set[str] = set()
    others: set[str] = set()
    for node in model.graph.node:
        schema = onnx.defs.get_schema(node.op_type, version, "")
        for i, name in enumerate(node.input):
            declared = schema.inputs[min(i, len(schema.inputs) - 1)]
            setting = declared.differentiation_category == category.NonDifferentiable or (node.op_type == "Upsample" and i == 1)
            (found if setting else others).add(name)
    return found - others


def _forget_shapes(model: ModelProto) -> None:
    """A symbol of its own for every dimension of every input, and nothing said about the rest"""
    held = {tensor.name for tensor in model.graph.initializer}
    for info in model.graph.input:
        if info.name not in held:
            _forget_dimensions(info.type, info.name)
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


def _forget_dimensions(type: Any, name: str) -> None:
    kind = type.WhichOneof("value")
    if kind == "tensor_type":
        for i, dim in enumerate(type.tensor_type.shape.dim):
            dim.Clear()
            dim.dim_param = f"{name}_{i}"
    elif kind is not None:
        _forget_dimensions(getattr(type, kind).elem_type, name)


# Checking ------------------------------------------------------------------------------------------------------------


def check_case(case: Case, settings: tuple[str, ...] = SETTINGS) -> dict[str, Outcome]:
    """One outcome per setting."""
    try:
        oracle = find_oracle(case.model, case.inputs, case.outputs)
    except Exception as error:
        return {setting: Outcome(f"no oracle: {error}") for setting in settings}
    outcomes = {}
    for setting in settings:
        state.current = state.State()
        try:
            with np.errstate(all="ignore"):
                outcomes[setting] = Outcome(note=_check(case, setting, oracle))
        except UnsupportedGradient as error:
            outcomes[setting] = Outcome(f"refused: {error}", refused=True)
        except Exception as error:
            outcomes[setting] = Outcome(f"{type(error).__name__}: {error}")
    return outcomes


class Mismatch(AssertionError):
    """A gradient is not what the oracle says."""


def _check(case: Case, setting: str, oracle: Oracle) -> str:
    """Compare with the function that is recorded, or with the one that onnxruntime computes instead; a note if all is well"""
    forward = arranged(case, setting)
    path = _Path(forward)
    cotangents = _add_cotangents(path, oracle, setting)
    found = _gradients(path, cotangents)
    present = [g for g in found if g is not None]
    model = to_onnx(path.program, present) if present else None
    if model is not None:
        if passes_checker(forward):
            onnx.checker.check_model(model, full_check=True)
        assert all(node.domain == "" for node in model.graph.node), "an operator outside ai.onnx"
    on_engine = runs_on_onnxruntime(forward, case.inputs)
    compare = _Comparison(path, cotangents, found, model, on_engine, set(case.inputs))
    problems = []
    for judge in [oracle, *other_functions(case.model, case.inputs, case.outputs)]:
        for attempt in range(_ATTEMPTS):
            point = judge.moved(attempt, compare.fixed)
            if point is None:
                continue
            problem, kink = compare.at(point)
            if not problem:
                notes = [judge.name] * (judge.name != "onnx.reference") + ["moved off a kink"] * (attempt > 0)
                return ", ".join(notes)
            problems.append(problem)
            if not kink:
                break
    raise Mismatch(problems[0])


_ATTEMPTS = 12


def _gradients(path: _Path, cotangents: list[Variable]) -> list[Variable | None]:
    """Of all sources; of those that are settings of an operator (the scales of a Resize) only where its rule has one.

    Without the zeros that the public function gives to what rules say nothing of.
    """
    pairs = list(zip(path.targets, cotangents, strict=True))
    block = path.targets[0].block
    try:
        found = BackwardPass(path.program, [], [], []).append(pairs, path.sources, block)
    except UnsupportedGradient:
        if path.settings >= {v.name for v in path.sources}:
            raise
        wanted = [v for v in path.sources if v.name not in path.settings]
        found = BackwardPass(path.program, [], [], []).append(pairs, wanted, block)
    return [found.get(v) for v in path.sources]


def _add_cotangents(path: _Path, oracle: Oracle, setting: str) -> list[Variable]:
    block = path.program.global_block()
    added = []
    for i, target in zip(path.indices, path.targets, strict=True):
        v = Variable(block, path.program.fresh_name(f"cotangent_{i}"), _type_like(oracle.recorded[i], target, setting))
        v.is_data = True
        block.inputs.append(block.register(v))
        added.append(v)
    return added


def _type_like(value: Any, target: Variable, setting: str) -> Any:
    if not isinstance(value, np.ndarray) or not isinstance(target.type, TensorType):
        return target.type
    dims = tuple(None for _ in value.shape) if setting == "symbolic" else value.shape
    return TensorType(target.type.dtype, dims)


class _Comparison:
    """Gradients of a case against its differences.

    ``fixed`` inputs take no part: they are frozen, or settings of an operator that gives them no gradient or zero.
    """

    def __init__(
        self,
        path: _Path,
        cotangents: list[Variable],
        found: list[Variable | None],
        model: ModelProto | None,
        on_engine: bool,
        inputs: set[str],
    ) -> None:
        self.path, self.cotangents, self.found, self.model, self.on_engine = path, cotangents, found, model, on_engine
        none = {v.name for v, g in zip(path.sources, found, strict=True) if g is None}
        live = {v.name for v in path.program.inputs}
        frozen = inputs - live
        self.fixed = frozenset(frozen | (none & path.settings if model is not None else set()))

    def at(self, point: Any) -> tuple[str, bool]:
        """The first disagreement at one point (empty if there is none), and whether the forward has a kink there."""
        indices = self.path.indices
        seeds = point.cotangents(indices)
        feeds = {**point.inputs, **{v.name: seed for v, seed in zip(self.cotangents, seeds, strict=True)}}
        values = iter(run_gradient(self.model, feeds, self.on_engine) if self.model is not None else [])
        for v, g in zip(self.path.sources, self.found, strict=True):
            value = point.inputs[v.name] if v.name in point.inputs else (v.value or v.default).numpy()
            got = next(values) if g is not None else None
            if got is not None and v.name in self.path.settings and not any(leaf.any() for leaf in leaves(got)):
                self.fixed |= {v.name}
            if v.name in self.fixed:
                continue
            problem, kink = point.disagreement(v.name, value, got, indices, seeds)
            if problem:
                return f"{v.name}: {problem}", kink
        return "", False


def moves(case: Case) -> bool:
    """Whether a real output changes with a real input, beside the recorded point and without a jump"""
    indices = [i for i, value in enumerate(case.outputs) if _is_real_value(value)]
    names = [name for name, value in case.inputs.items() if _is_real_value(value)]
    if not indices or not names:
        return False
    oracle = find_oracle(case.model, case.inputs, case.outputs)
    points = [point for attempt in range(1, _ATTEMPTS) if (point := oracle.moved(attempt)) is not None]
    seeds = points[0].cotangents(indices)
    return any(points[0].disagreement(name, case.inputs[name], None, indices, seeds)[0] for name in names)


# The command ---------------------------------------------------------------------------------------------------------


def _survey(group: str, parts: list[str]) -> list[tuple[str, str, str, dict[str, Outcome]]]:
    """(group, case, why it is not asked for, outcomes) of every case of a group."""
    rows = []
    for case in cases_of(group):
        if parts and not any(part in case.name for part in parts):
            continue
        try:
            reason = out_of_scope(case)
        except Exception as error:
            rows.append((group, case.name, "", {s: Outcome(f"import: {type(error).__name__}: {error}") for s in SETTINGS}))
            continue
        rows.append((group, case.name, reason, {} if reason else check_case(case)))
    return rows


def main(parts: list[str]) -> None:
    from collections import Counter
    from concurrent.futures import ProcessPoolExecutor

    warnings.simplefilter("ignore")
    with ProcessPoolExecutor(2) as pool:
        rows = [row for rows in pool.map(_survey, groups(), [parts] * len(groups())) for row in rows]
    print("not asked for:", dict(Counter(reason for _, _, reason, _ in rows if reason)))
    counted = [(group, name, outcomes) for group, name, reason, outcomes in rows if not reason]
    for setting in SETTINGS:
        outcomes = [found[setting] for _, _, found in counted]
        passed = sum(not outcome.problem for outcome in outcomes)
        refused = sum(name in EXCEPTIONS and found[setting].refused for _, name, found in counted)
        notes = dict(Counter(outcome.note for outcome in outcomes if outcome.note))
        print(f"{setting}: {passed} of {len(outcomes)} pass, {refused} are refused for a stated reason; {notes}")
    for group in groups():
        mine = [found for g, _, found in counted if g == group]
        if mine and any(outcome.problem for found in mine for outcome in found.values()):
            passed = {s: sum(not found[s].problem for found in mine) for s in SETTINGS}
            print(f"  {group}: {passed} of {len(mine)}")
    for _, name, found in counted:
        for setting, outcome in found.items():
            if outcome.problem:
                print(f"    {name} [{setting}] {outcome.problem[:300]!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
