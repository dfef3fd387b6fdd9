"""Random operators in eager mode: sampled at once from the generator that ``seed`` sets, so that every reader gets one sample.

Tests: tests/eager/test_tensors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad.dtypes import DType, dtype_of, from_onnx_number
from onnxgrad.eager.tensor import leaf
from onnxgrad.internal import state

__all__ = ["SAMPLERS", "generator"]


def generator() -> np.random.Generator:
    """The generator of all eager random numbers."""
    rng: np.random.Generator = state.current.make_once("generator", lambda: np.random.default_rng(state.current.seed))
    return rng


def _source(kwargs: dict[str, Any]) -> np.random.Generator:
    """A generator of its own for an operator that brings a seed."""
    seed = kwargs.get("seed")
    return generator() if not seed else np.random.default_rng(int(float(seed) * 2**8))


def _element(args: Any, kwargs: dict[str, Any]) -> DType:
    number = kwargs.get("dtype")
    if number is not None:
        return from_onnx_number(int(number))
    return args[0].dtype if args else dtype_of("float32")


def _dims(args: Any, kwargs: dict[str, Any]) -> tuple[int, ...]:
    return tuple(args[0].dims) if args else tuple(int(n) for n in kwargs["shape"])


def _normal(args: Any, kwargs: dict[str, Any]) -> Any:
    sampled = _source(kwargs).normal(float(kwargs.get("mean", 0.0)), float(kwargs.get("scale", 1.0)), _dims(args, kwargs))
    return leaf(sampled, _element(args, kwargs))


def _uniform(args: Any, kwargs: dict[str, Any]) -> Any:
    dtype = _element(args, kwargs)
    low, high = float(kwargs.get("low", 0.0)), float(kwargs.get("high", 1.0))
    sampled = np.asarray(_source(kwargs).uniform(low, high, _dims(args, kwargs)))
    # Rounding to a shorter type may reach the bound that the interval leaves out.
    return leaf(np.minimum(sampled, np.nextafter(*np.array([high, low], dtype.numpy))), dtype)


def _bernoulli(args: Any, kwargs: dict[str, Any]) -> Any:
    dtype = _element(args, kwargs)
    probability = np.asarray(args[0]._array(), np.float64)
    return leaf(_source(kwargs).random(probability.shape) < probability, dtype)


def _multinomial(args: Any, kwargs: dict[str, Any]) -> Any:
    scores = np.asarray(args[0]._array(), np.float64)
    count = int(kwargs.get("sample_size", 1))
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    cumulative = np.cumsum(weights / weights.sum(axis=-1, keepdims=True), axis=-1)
    points = _source(kwargs).random((scores.shape[0], count, 1))
    classes = np.minimum((points >= cumulative[:, None, :]).sum(axis=-1), scores.shape[-1] - 1)
    return leaf(classes, from_onnx_number(int(kwargs.get("dtype", 6))))


SAMPLERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "RandomNormal": _normal,
    "RandomNormalLike": _normal,
    "RandomUniform": _uniform,
    "RandomUniformLike": _uniform,
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
}
