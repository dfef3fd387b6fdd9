"""Run a pass over places that differ in one thing from those that it was written for, and compare with what they say."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

from onnxgrad.core.graph.contract import Pass
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import OnnxGradError
from onnxgrad.internal import state
from onnxgrad.testing import evaluate
from tests.core.compile.corpus import _like, _ratios
from tests.core.compile.mutations import Mutation, mutations
from tests.core.compile.occurrences import Place, run, run_alone, run_by_onnxruntime
from tests.core.compile.rounding import UNDECIDED, evaluated

_NEAR, _NEAR_OF_HALF = 1e-4, 3e-2
"""Of the largest number of a result: what is nearer needs no measuring."""
_WIDE, _LARGEST = 2**14, 2**21
"""Numbers that are fed from which on it is asked how many a change would compute, and how many may be."""


@dataclasses.dataclass
class Tried:
    """What came of changed places.

    Attributes:
        counts: how many were rewritten and compared, were left as they were, are refused by us, or are no models.
        faults: what was rewritten and computes something else, and how.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    faults: list[str] = dataclasses.field(default_factory=list)


def tried(place: Place, provider: str, each: Pass, few: int | None = None) -> Tried:
    """Change a place in one thing at a time, with the origins that it has and without, and run the pass over each.

    Args:
        place: where the pass rewrites.
        provider: what it is compiled for.
        each: the pass.
        few: about how many changes are tried, evenly taken from all; None for all.
    """
    feed = varied(place.feed)
    result = Tried()
    changes = [Mutation("unchanged", place.model, feed), *mutations(place.model, feed, _numbers(place.model, feed))]
    for mutation in changes[:: 1 if few is None else max(1, len(changes) // few)]:
        _try(result, mutation, place, provider, each)
    return result


def varied(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Random real numbers, as gradients that are all 1 hide what is not multiplied"""
    draw = np.random.default_rng(1)
    return {
        name: draw.normal(size=a.shape).astype(a.dtype) if np.issubdtype(a.dtype, np.floating) else a for name, a in feed.items()
    }


def _numbers(model: ModelProto, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All tensors of a model"""
    shown = ModelProto()
    shown.CopyFrom(model)
    infos = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.value_info}
    shown.graph.output.extend(infos[name] for node in model.graph.node for name in node.output if name in infos)
    computed = dict(zip([v.name for v in shown.graph.output], run(shown, feed), strict=True))
    return {**{t.name: numpy_helper.to_array(t) for t in model.graph.initializer}, **computed, **feed}


def _try(result: Tried, mutation: Mutation, place: Place, provider: str, each: Pass) -> None:
    if _is_too_large(mutation):
        result.counts["too large"] += 1
        return
    plain: list[np.ndarray] | None = None
    for is_by_hand in (False, True):
        with state.isolated(), no_comparing():
            try:
                graph = run_alone(mutation.model, place, provider, each, is_by_hand, mutation.parameters)
            except OnnxGradError:
                result.counts["refused"] += 1
                return
            except Exception as error:
                if _is_model(mutation):
                    result.faults.append(f"{mutation.title}{_how(is_by_hand)}: {type(error).__name__}: {error}")
                result.counts["no model"] += 1
                return
            if not graph.rewrites:
                result.counts["as it was"] += 1
                continue
            written = write_model(graph)
        if plain is None:
            plain = _plain(mutation)
        if plain is None:
            result.counts["no model"] += 1
            return
        if each.rounding != "none" and not all(map(_is_finite, plain)):
            # Sums in another order reach another infinity, or none.
            result.counts["not finite"] += 1
            return
        result.counts["compared"] += 1
        reason = _difference(mutation, written, plain, each)
        if reason:
            result.faults.append(f"{mutation.title}{_how(is_by_hand)}: {reason}")


@contextmanager
def no_comparing() -> Iterator[None]:
    """Let ``==`` of two variables fail, which is an operator and true: who asks whether two are one says ``is``."""

    def refuse(self: Variable, other: object) -> bool:
        raise AssertionError("two variables were compared by ==, which writes an operator and is true")

    before = Variable.__eq__
    Variable.__eq__ = refuse
    try:
        yield
    finally:
        Variable.__eq__ = before


def _how(is_by_hand: bool) -> str:
    return ", by hand" if is_by_hand else ""


def _is_too_large(mutation: Mutation) -> bool:
    if sum(array.size for array in mutation.feed.values()) < _WIDE:
        return False
    sized = ModelProto()
    sized.CopyFrom(mutation.model)
    for v in sized.graph.input:
        for dim, size in zip(v.type.tensor_type.shape.dim, mutation.feed[v.name].shape, strict=False):
            dim.dim_value = size
    for v in sized.graph.output:
        v.type.tensor_type.ClearField("shape")
    graph = onnx.shape_inference.infer_shapes(sized, data_prop=True).graph
    shapes = ([dim.dim_value or 1 for dim in v.type.tensor_type.shape.dim] for v in (*graph.value_info, *graph.output))
    return any(math.prod(shape) > _LARGEST for shape in shapes)


def _is_model(mutation: Mutation) -> bool:
    try:
        onnx.checker.check_model(mutation.model, full_check=True)
        run_by_onnxruntime(mutation.model, mutation.feed)
    except Exception:
        return False
    return True


def _plain(mutation: Mutation) -> list[np.ndarray] | None:
    """What a model computes as it is written; None of what is none"""
    try:
        return run_by_onnxruntime(mutation.model, mutation.feed)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            return None
    try:
        return evaluate(mutation.model, mutation.feed)
    except Exception:
        return None


def _difference(mutation: Mutation, written: ModelProto, plain: list[np.ndarray], each: Pass) -> str:
    """How a model that was rewritten computes something else; empty where it does not"""
    try:
        results = run(written, mutation.feed)
    except Exception as error:
        return f"it does not run: {error}"
    if all(map(_is_near, plain, _like(plain, results))):
        return ""
    # onnxruntime writes new statistics over old ones, and a net may be so steep that rounding shows.
    try:
        exact = evaluated(mutation.model, mutation.feed)
        marked = evaluated(mutation.model, mutation.feed, marks=True)
    except Exception:
        return "other results"
    for v, y in zip(mutation.model.graph.output, results, strict=True):
        sized = exact.outputs[v.name]
        ratio = _ratios(sized, y.reshape(sized.value.shape) if y.size == sized.value.size else y, exact.eps)
        off = ratio > max(each.most, _ONCE)
        if off.shape == sized.value.shape:
            off &= marked.outputs[v.name].size < UNDECIDED
        if off.any():
            return f"{v.name} is {float(ratio[off].max()):.3g} eps off" if off.shape else f"{v.name} is off"
    return ""


_ONCE = 4.0
"""Eps that two kernels of an operator differ by."""


def _is_finite(y: np.ndarray) -> bool:
    return y.dtype.kind in "biu" or bool(np.isfinite(y.astype(np.float64)).all())


def _is_near(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    if a.size == 0:
        return True
    near = _NEAR_OF_HALF if a.dtype.itemsize == 2 else _NEAR
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(b[finite]).all():
        return False
    return bool(np.abs(a[finite] - b[finite]).max(initial=0.0) <= near * max(np.abs(a[finite]).max(initial=0.0), 1e-3))
