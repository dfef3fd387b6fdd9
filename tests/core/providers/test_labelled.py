"""Labelled cross-entropies written out equal the operators, in float64."""

import itertools

import numpy as np
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.losses.labelled import labelled_loss
from onnxgrad.testing import evaluate

CASES = list(
    itertools.product(
        ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"],
        ["none", "sum", "mean"],
        [None, -100, 2],
        [False, True],
        [(), (3, 2)],
    )
)


@pytest.mark.parametrize(("kind", "reduction", "ignored", "weighted", "space"), CASES)
def test_equals_the_operator(kind, reduction, ignored, weighted, space):
    draw = np.random.default_rng(0)
    scores, label = static.data("scores", [4, 5, *space], "float64"), static.data("label", [4, *space], "int64")
    operands = [scores, label] + ([static.data("w", [5], "float64")] if weighted else [])
    attrs = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
    found = scores.block.build.emit(kind, operands, attrs, 2 if kind.startswith("Softmax") else 1)
    results = list(found) if isinstance(found, tuple) else [found]
    feed = {"scores": draw.normal(size=(4, 5, *space)), "label": draw.integers(0, 5, (4, *space)), "w": draw.random(5)}
    if ignored is not None:
        feed["label"][1] = ignored
        feed["scores"][1] = np.inf if kind.startswith("Neg") else 1e30
    values = []
    for forms in ({}, {kind: labelled_loss}):
        graph = compile(scores.block.program, results)
        rewrite_operators(graph, forms)
        graph.settle()
        assert (kind in [op.type for op in graph.operators]) == (not forms)
        values.append(evaluate(write_model(graph), {v.name: feed[v.name] for v in graph.inputs}))
    for a, b in zip(*values, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
