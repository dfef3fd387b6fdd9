"""Where samples are declared: ``@samples("Softmax")`` on a function that yields them."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

import tests.core.rules
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.testing import Draw, Sample, check_gradient, gradient_model
from tests.oracle import Recorded

DECLARED: dict[str, list[Callable[[Draw], Iterator[Sample]]]] = {}


def samples(*op_types: str):
    """Register a function ``(draw)`` that yields samples of one or several operators."""

    def enter(function):
        for op_type in op_types:
            DECLARED.setdefault(op_type, []).append(function)
        return function

    return enter


def all_samples() -> list[Sample]:
    """Every sample of the modules ``samples_*``, numbered within its operator."""
    for module in pkgutil.iter_modules(tests.core.rules.__path__):
        if module.name.startswith("samples_"):
            importlib.import_module(f"tests.core.rules.{module.name}")
    found = []
    for op_type in sorted(DECLARED):
        number = 0
        for function in DECLARED[op_type]:
            for sample in function(Draw(number)):
                sample.op_type, sample.number = op_type, number
                found.append(sample)
                number += 1
    return found


def thoroughly(found: Iterable[Sample]) -> list[Any]:
    """The samples as test parameters: the first two of each operator always, the others in the exhaustive suite only."""
    return [pytest.param(s, id=str(s), marks=() if s.number < 2 else pytest.mark.exhaustive) for s in found]


class _Differentiable(Recorded):
    """Refuses models with other operators than those of ONNX that are differentiable or stop gradients: rules emit no others."""

    def values(self, model: Any, feeds: dict[str, Any], operators: Sequence[Any] = ()) -> list[Any]:
        emitted = {(node.domain, node.op_type) for node in _nodes(model.graph)}
        refused = [name for name in emitted if name[0] or TABLE[name][0].state == "unsupported"]
        assert not refused, f"{self.group}: its rule emits {refused}, which are no operators of ONNX that have gradients"
        return super().values(model, feeds, operators)


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def check(sample: Sample, **options: Any) -> None:
    """``check_gradient`` against what is recorded of the operator, and that what its rule emits has gradients."""
    check_gradient(sample, reference=_Differentiable(sample.op_type), **options)


def values_of(sample: Sample, model: Any, feeds: dict[str, Any]) -> list[Any]:
    """``evaluate`` by what is recorded of the operator."""
    return Recorded(sample.op_type).values(model, feeds)


def gradients_as_model(sample: Sample, dtype: str, **options: Any) -> Any:
    """``gradient_model`` by what is recorded of the operator."""
    return gradient_model(sample, dtype, reference=Recorded(sample.op_type), **options)
