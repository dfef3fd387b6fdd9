"""Central differences of a forward model in float64, for cases recorded by others."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnxgrad.core.ir.opset import NEWEST, NEWEST_IR
from onnxgrad.dtypes import dtype_of, from_onnx_number
from onnxgrad.testing.reference_ops import CORRECTED

_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "softmax_precision", "stash_type")
TOLERANCE = {"float16": 2e-2, "bfloat16": 6e-2, "float32": 2e-4, "float64": 1e-5}


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a tensor, a sequence or an optional."""
    if value is None:
        return []
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


def like(value: Any, arrays: Any) -> Any:
    """The structure of ``value`` with other arrays, taken in order."""
    if value is None:
        return None
    return [like(item, arrays) for item in value] if isinstance(value, list) else next(arrays)


def is_real(array: np.ndarray) -> bool:
    return dtype_of(array.dtype).name in TOLERANCE


# The forward in float64 ----------------------------------------------------------------------------------------------


def widened(model: ModelProto) -> ModelProto:
    """The same model with float64 in place of every narrower floating-point type of 16 and 32 bits."""
    wide = ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    for function in wide.functions:
        _widen_nodes(function.node)
    return wide


def _widen_graph(graph: GraphProto) -> None:
    for info in [*graph.input, *graph.output, *graph.value_info]:
        _widen_type(info.type)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    _widen_nodes(graph.node)


_FLOAT32_BY_DEFAULT = {
    "ConstantOfShape": ("value", numpy_helper.from_array(np.zeros(1))),
    "SequenceEmpty": ("dtype", TensorProto.DOUBLE),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), ("output_datatype", TensorProto.DOUBLE)),
}


def _widen_nodes(nodes: Any) -> None:
    for node in nodes:
        name, value = _FLOAT32_BY_DEFAULT.get(node.op_type, ("", None))
        if name and all(attribute.name != name for attribute in node.attribute):
            node.attribute.append(helper.make_attribute(name, value))
        for attribute in list(node.attribute):
            if attribute.type == AttributeProto.GRAPH:
                _widen_graph(attribute.g)
            elif attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.type == AttributeProto.TYPE_PROTO:
                _widen_type(attribute.tp)
            elif attribute.name in _TYPE_ATTRIBUTES and attribute.i in _NARROW:
                attribute.i = TensorProto.DOUBLE
            elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                value = helper.get_attribute_value(attribute)
                node.attribute.remove(attribute)
                node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.asarray(value, np.float64))))


def _widen_type(proto: TypeProto) -> None:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type" and proto.tensor_type.elem_type in _NARROW:
        proto.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind == "sequence_type":
        _widen_type(proto.sequence_type.elem_type)
    elif kind == "optional_type":
        _widen_type(proto.optional_type.elem_type)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _NARROW:
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), name))


def widened_value(value: Any) -> Any:
    return like(value, iter([leaf.astype(np.float64) if is_real(leaf) else leaf for leaf in leaves(value)]))


def as_it_is(value: Any) -> Any:
    return value


def with_weights_as_inputs(model: ModelProto) -> ModelProto:
    """Initializers that are real become graph inputs, so that differences can move them."""
    moved = ModelProto()
    moved.CopyFrom(model)
    known = {info.name for info in moved.graph.input}
    for tensor in list(moved.graph.initializer):
        if tensor.data_type in (*_NARROW, TensorProto.DOUBLE):
            if tensor.name not in known:
                moved.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            moved.graph.initializer.remove(tensor)
    return moved


# Engines -------------------------------------------------------------------------------------------------------------


class Engine:
    """A forward model on one engine, made once and run many times."""

    def __init__(self, name: str, run: Any, widen: Any, steps: tuple[float, ...], slack: float) -> None:
        self.name = name
        self.widen = widen
        self._run = run
        self.steps = steps
        self.slack = slack

    def run(self, feeds: dict[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [_plain(value) for value in self._run(feeds)]


def _plain(value: Any) -> Any:
    if value is None:
        return None
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else np.asarray(value)


def on_reference(model: ModelProto, corrected: bool = True) -> Any:
    evaluator = ReferenceEvaluator(model, new_ops=list(CORRECTED) if corrected else None)
    names = set(evaluator.input_names)
    return lambda feeds: evaluator.run(None, {name: value for name, value in feeds.items() if name in names})


def stamped(model: ModelProto) -> ModelProto:
    """Opsets that are newer than onnxruntime stamped with its newest."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = min(copy.ir_version, NEWEST_IR)
    for entry in copy.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = min(entry.version, NEWEST)
    return copy


def on_onnxruntime(model: ModelProto) -> Any:
    """A function of the feeds."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {v.name for v in session.get_inputs()}
    return lambda feeds: session.run(None, {name: value for name, value in feeds.items() if name in names})


def engines(model: ModelProto) -> Any:
    wide = widened(model)
    yield "onnx.reference", lambda: on_reference(wide), (1e-5, 1e-3), 1e-5
    yield "onnx.reference as it is", lambda: on_reference(wide, corrected=False), (1e-5, 1e-3), 1e-5
    yield "onnxruntime in float64", lambda: on_onnxruntime(stamped(wide)), (1e-5, 1e-3), 1e-5
    yield "onnxruntime in float32", lambda: on_onnxruntime(stamped(model)), (1e-2, 3e-2), 2e-2


# The oracle ----------------------------------------------------------------------------------------------------------


class Oracle:
    """The forward of a case on an engine that reproduces its recorded outputs."""

    def __init__(self, engine: Engine, inputs: dict[str, Any], weights: dict[str, Any], recorded: list[Any]) -> None:
        self.engine = engine
        self.name = engine.name
        self.inputs = inputs
        self.weights = weights
        self.recorded = recorded
        self._points: dict[Any, Point | None] = {}

    def moved(self, attempt: int, fixed: frozenset[str] = frozenset()) -> "Point | None":
        """The recorded point, or one beside it; None if there the outputs have other sizes. ``fixed`` inputs stay."""
        key = (attempt, fixed) if attempt else 0
        if key not in self._points:
            self._points[key] = self._move(attempt, fixed)
        return self._points[key]

    def _move(self, attempt: int, fixed: frozenset[str]) -> "Point | None":
        if attempt == 0:
            return Point(self, self.inputs)
        rng = np.random.default_rng(attempt)

        def beside(name: str, leaf: np.ndarray) -> np.ndarray:
            if name in fixed or not is_real(leaf):
                return leaf
            wide = leaf.astype(np.float64)
            wide = np.where(_is_huge(wide), rng.uniform(-1, 1, leaf.shape), wide)
            return np.asarray(wide + rng.uniform(-0.02, 0.02, leaf.shape)).astype(leaf.dtype)

        inputs = {name: like(v, iter([beside(name, leaf) for leaf in leaves(v)])) for name, v in self.inputs.items()}
        point = Point(self, inputs)
        first = self.moved(0)
        assert first is not None
        # First beside the point where the same outputs are finite, then where others are (a divisor of 0 moves away from it).
        return point if point.same_structure(first, finite=attempt < 8) else None


def _is_huge(wide: np.ndarray) -> np.ndarray:
    """Finite numbers (some cases record uninitialized memory) beside which a difference drowns"""
    return np.isfinite(wide) & (np.abs(wide) > 1e6)


def find_oracle(model: ModelProto, inputs: dict[str, Any], recorded: list[Any]) -> Oracle:
    """The first engine that computes what is recorded.

    Raises:
        RuntimeError: if none does, with what each one said.
    """
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    weights = {name: value for name, value in weights.items() if is_real(value) and name not in inputs}
    said = []
    for name, make, steps, slack in engines(with_weights_as_inputs(model)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                engine = Engine(name, make(), as_it_is if name == "onnxruntime in float32" else widened_value, steps, slack)
            got = engine.run({n: engine.widen(v) for n, v in {**inputs, **weights}.items()})
            problem = difference(got, recorded)
            if not problem:
                return Oracle(engine, inputs, weights, recorded)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:150]}"
        said.append(f"{name}: {problem}")
    raise RuntimeError("; ".join(said))


def other_functions(model: ModelProto, inputs: dict[str, Any], recorded: list[Any]) -> Iterator[Oracle]:
    """onnxruntime's forward where it computes something else than is recorded (Resize, MaxUnpool): the gradient may be its."""
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name not in inputs}
    try:
        run = on_onnxruntime(stamped(with_weights_as_inputs(model)))
        found = [_plain(value) for value in run({**inputs, **weights})]
    except Exception:
        return
    if difference(found, recorded):
        real = {name: value for name, value in weights.items() if is_real(value)}
        yield Oracle(Engine("as onnxruntime computes it", run, as_it_is, (1e-2, 3e-2), 2e-2), inputs, real, found)


def _succeeds(action: Any) -> bool:
    try:
        action()
    except Exception:
        return False
    return True


def difference(got: list[Any], recorded: list[Any]) -> str:
    for i, (a, b) in enumerate(zip(got, recorded, strict=False)):
        for x, y in zip(leaves(a), leaves(b), strict=True):
            if x.shape != y.shape:
                return f"output {i} has shape {x.shape}, recorded is {y.shape}"
            if not is_real(y):
                continue
            x, y, slack = x.astype(np.float64), y.astype(np.float64), TOLERANCE[dtype_of(y.dtype).name]
            scale = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
            if not np.allclose(x, y, rtol=slack, atol=slack * max(scale, 1e-3), equal_nan=True):
                return f"output {i} differs from what is recorded by {np.nanmax(np.abs(x - y)):.3g}"
    return ""


class Point:
    """Where derivatives are compared."""

    def __init__(self, oracle: Oracle, inputs: dict[str, Any]) -> None:
        self.oracle = oracle
        self.inputs = inputs
        engine = oracle.engine
        self.wide = {n: engine.widen(v) for n, v in {**inputs, **oracle.weights}.items()}
        self.outputs = engine.run(self.wide)
        self.narrow = min(
            (dtype_of(x.dtype).name for v in (*inputs.values(), *oracle.recorded) for x in leaves(v) if is_real(x)),
            key=lambda name: -TOLERANCE[name],
        )
        self._directional: dict[Any, Any] = {}

    def same_structure(self, other: "Point", finite: bool) -> bool:
        """Whether the outputs have the same shapes, and, if asked, are finite at the same indices"""
        mine, theirs = ([x for v in point.outputs for x in leaves(v)] for point in (self, other))
        return len(mine) == len(theirs) and all(
            x.shape == y.shape and (not finite or not is_real(x) or np.array_equal(np.isfinite(x), np.isfinite(y)))
            for x, y in zip(mine, theirs, strict=True)
        )

    def cotangents(self, indices: list[int]) -> list[Any]:
        """Random numbers, 0 where the output is not finite."""
        rng = np.random.default_rng(99)

        def seed(value: np.ndarray, recorded: np.ndarray) -> np.ndarray:
            sampled = rng.uniform(-1, 1, value.shape).astype(recorded.dtype)
            return np.where(np.isfinite(value.astype(np.float64)), sampled, np.zeros_like(sampled)).astype(recorded.dtype)

        result = []
        for i in indices:
            pairs = zip(leaves(self.outputs[i]), leaves(self.oracle.recorded[i]), strict=True)
            result.append(like(self.outputs[i], iter([seed(value, recorded) for value, recorded in pairs])))
        return result

    def _total(self, feeds: dict[str, Any], indices: list[int], seeds: list[Any]) -> float:
        outputs = self.oracle.engine.run(feeds)
        total = 0.0
        for i, seed in zip(indices, seeds, strict=True):
            for y, w in zip(leaves(outputs[i]), leaves(seed), strict=True):
                if y.shape != w.shape:
                    return np.nan  # a size jumps here
                y, w = y.astype(np.float64), w.astype(np.float64)
                total += float((y * w)[w != 0].sum())
        return total

    def directional(
        self, name: str, indices: list[int], seeds: list[Any], step: float, still: list[np.ndarray], tied: bool
    ) -> tuple[float, bool, list[np.ndarray]]:
        """Derivative along a random direction of one input, whether it is one-sided there, and the direction.

        Elements of ``still`` are not moved. With ``tied``, equal elements move alike (the sizes that Unique finds stay).
        """
        key = (name, tuple(indices), step, tied, *(mask.tobytes() for mask in still))
        if key not in self._directional:
            rng = np.random.default_rng(7)
            base = self.wide[name]
            along = [rng.uniform(0.5, 1.5, x.shape) * rng.choice([-1.0, 1.0], x.shape) for x in leaves(base)]
            if tied:
                along = [v.reshape(-1)[_first_equal(x)].reshape(x.shape) for x, v in zip(leaves(base), along, strict=True)]
            fixed = [mask | ~np.isfinite(x.astype(np.float64)) for x, mask in zip(leaves(base), still, strict=True)]
            along = [np.where(mask, 0.0, v) for v, mask in zip(along, fixed, strict=True)]

            def at(t: float) -> float:
                ends = [np.asarray(x + t * v).astype(x.dtype) for x, v in zip(leaves(base), along, strict=True)]
                return self._total({**self.wide, name: like(base, iter(ends))}, indices, seeds)

            low, middle, high = at(-step), at(0.0), at(step)
            forward, backward = (high - middle) / step, (middle - low) / step
            size = max(abs(forward), abs(backward))
            bent = not np.isfinite(forward + backward) or abs(forward - backward) > 1e-3 * size + 1e-4
            self._directional[key] = ((high - low) / (2 * step), bent, along)
        return self._directional[key]

    def _undefined(self, grads: list[np.ndarray]) -> list[np.ndarray]:
        """Where a gradient is NaN because the output is (sqrt of a negative number): no more elements than the output has"""
        masks = [np.isnan(g.astype(np.float64)) for g in grads]
        outputs = sum(int(np.isnan(x.astype(np.float64)).sum()) for v in self.outputs for x in leaves(v) if is_real(x))
        return masks if sum(int(mask.sum()) for mask in masks) <= outputs else [np.zeros_like(mask) for mask in masks]

    def disagreement(self, name: str, value: Any, got: Any, indices: list[int], seeds: list[Any]) -> tuple[str, bool]:
        """How a gradient differs from central differences (empty if it does not), and whether there is a kink."""
        arrays = leaves(value)
        grads = [np.zeros(x.shape) for x in arrays] if got is None else leaves(got)
        for x, g in zip(arrays, grads, strict=True):
            if g.shape != x.shape:
                return f"the gradient has shape {g.shape}, not {x.shape}", False
            if got is not None and g.dtype != x.dtype:
                return f"the gradient is {g.dtype}, not {x.dtype}", False
        still = self._undefined(grads)
        expected, first, problem, kink = 0.0, np.nan, "", any(_is_huge(x.astype(np.float64)).any() for x in arrays)
        for step, tied in [*((s, False) for s in self.oracle.engine.steps), (self.oracle.engine.steps[0], True)]:
            if tied and np.isfinite(expected):
                break
            expected, bent, along = self.directional(name, indices, seeds, step, still, tied)
            kink = kink or bent or abs(expected - first) > 1e-2 * abs(first) + 1e-3
            first = expected if np.isnan(first) else first
            parts = [(g.astype(np.float64) * v)[v != 0].reshape(-1) for g, v in zip(grads, along, strict=True)]
            flat = np.concatenate([*parts, np.zeros(1)])
            slack = TOLERANCE[self.narrow] + self.oracle.engine.slack
            # What cancels in 16 bits leaves the rounding of what was added up.
            least = 0.1 if self.narrow in ("float16", "bfloat16") else 0.01
            allowed = slack * max(float(np.linalg.norm(flat)), abs(expected), least)
            actual = float(flat.sum())
            if abs(actual - expected) <= allowed:
                return "", False
            missing = " (no gradient came back)" if got is None else ""
            problem = problem or f"the derivative along a direction is {actual:.6g}{missing}, differences give {expected:.6g}"
        return problem, kink


def _first_equal(x: np.ndarray) -> np.ndarray:
    """For each element the flat position of the first that equals it"""
    _, first, inverse = np.unique(x.reshape(-1), return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)]


def passes_checker(model: ModelProto) -> bool:
    """Whether the forward does: some recorded models and some of their symbolic forms are refused by onnx itself."""
    return _succeeds(lambda: onnx.checker.check_model(model, full_check=True))


def runs_on_onnxruntime(model: ModelProto, inputs: dict[str, Any]) -> bool:
    """Whether onnxruntime computes the forward; opsets that are newer are stamped with its newest."""
    return _succeeds(lambda: on_onnxruntime(stamped(model))(inputs))


def run_gradient(model: ModelProto, feeds: dict[str, Any], on_engine: bool) -> list[Any]:
    """On onnxruntime; on onnx.reference only where onnxruntime cannot run even the forward.

    numpy's einsum knows no bfloat16: such a model runs in float64, on the same numbers.
    """
    if on_engine:
        return [_plain(value) for value in on_onnxruntime(model)(feeds)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        used = {node.op_type for node in model.graph.node}
        if "Einsum" not in used or all(v.type.tensor_type.elem_type != TensorProto.BFLOAT16 for v in model.graph.output):
            return [_plain(value) for value in on_reference(model)(feeds)]
        wide = on_reference(widened(model))({name: widened_value(value) for name, value in feeds.items()})
        types = [from_onnx_number(v.type.tensor_type.elem_type).numpy for v in model.graph.output]
        return [np.asarray(value).astype(dtype) for value, dtype in zip(wide, types, strict=True)]
