"""Report which operators of a model propagate, stop or refuse gradients, then check its gradients numerically.

The numerical check compares directional derivatives of a randomly weighted sum of the outputs with finite differences in
onnxruntime, for one weight or input at a time. Near steps and kinks they may differ a little; a wrong gradient differs a lot.

examples:
  onnxgrad check m.onnx
  onnxgrad check m.onnx --feeds inputs.npz --wrt 'head.*'
  onnxgrad check m.onnx --no-numeric --json
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onnxgrad import func
from onnxgrad.cli.common import add_model, add_sizes, feeds_for, load, print_json, sizes_of
from onnxgrad.core.autodiff.explain import explain
from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError
from onnxgrad.training.selection import matching

Array = np.ndarray[Any, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_sizes(parser)
    parser.add_argument("--feeds", metavar="FILE.npz", help="inputs for the numerical check (default: random ones)")
    parser.add_argument("--wrt", nargs="+", metavar="NAME", help="weights and inputs to check, by name or pattern (default: all)")
    parser.add_argument("--tolerance", type=float, default=0.05, help="largest relative difference accepted (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of inputs and directions (default %(default)s)")
    parser.add_argument("--no-numeric", action="store_true", help="skip the numerical check")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    program = load(options)
    explanation = explain(program)
    rows: list[dict[str, Any]] = []
    if explanation.is_differentiable and not options.no_numeric:
        feeds = feeds_for(program, options.feeds, sizes_of(options.dim), options.seed)
        rows = compare(program, feeds, _chosen(program, options.wrt), options.seed, options.tolerance)
    right = explanation.is_differentiable and all(row["right"] for row in rows)
    if options.json:
        print_json({"differentiable": explanation.is_differentiable, "operators": explanation.to_rows(), "numeric": rows})
        return 0 if right else 1
    print(explanation)
    for row in rows:
        verdict = "" if row["right"] else "   DIFFERS"
        print(f"  {row['name']}: gradient {row['gradient']:.6g}, finite differences {row['differences']:.6g}{verdict}")
    if rows:
        print(f"numerical check: {sum(row['right'] for row in rows)} of {len(rows)} agree")
    return 0 if right else 1


def _chosen(program: Program, patterns: list[str] | None) -> list[str]:
    names = [p.name for p in program.parameters if p.trainable and p.is_float] + [v.name for v in program.inputs if v.is_float]
    chosen = names if patterns is None else [name for name in names if name in matching(names, patterns, "--wrt")]
    if not chosen:
        raise ArgumentError("the model has neither trainable weights nor floating-point inputs to check.")
    return chosen


def compare(program: Program, feeds: dict[str, Array], names: list[str], seed: int, tolerance: float) -> list[dict[str, Any]]:
    """For each name: the derivative along a random direction by the gradient and by differences."""
    rng = np.random.default_rng(seed)
    gradient = func.vjp(program, wrt=names)
    outputs = list(gradient.directions)
    executor = Executor()
    values = dict(zip(outputs, executor.run(program, feeds, outputs), strict=True))
    cotangents = {name: rng.normal(0, 1, value.shape).astype(value.dtype) for name, value in values.items()}
    _, gradients = gradient(feeds, cotangents)
    parameters = {p.name: p for p in program.parameters}

    def weighted(name: str, array: Array) -> dict[str, Array]:
        changed = feeds if name in parameters else {**feeds, name: array}
        if name in parameters:
            parameters[name].set_value(array)
        return dict(zip(outputs, executor.run(program, changed, outputs), strict=True))

    rows = []
    for name in names:
        start = parameters[name].get_value() if name in parameters else feeds[name]
        direction = _direction(gradients[name], rng)
        along = float((np.asarray(gradients[name], np.float64) * direction).sum())
        noise = 1e-6 * sum(float(np.abs(values[n].astype(np.float64) * cotangents[n]).sum()) for n in outputs)
        best = None
        for step in (3e-2, 1e-2, 3e-3, 1e-3):
            length = step * max(1.0, float(np.linalg.norm(start.astype(np.float64))))
            ends = [weighted(name, (start + sign * length * direction).astype(start.dtype)) for sign in (1, -1)]
            apart = sum(float(((ends[0][n].astype(np.float64) - ends[1][n]) * cotangents[n]).sum()) for n in outputs)
            found = apart / (2 * length)
            error = max(0.0, abs(found - along) - noise / length) / max(abs(along), abs(found), 1e-12)
            if best is None or error < best[0]:
                best = (error, found)
        weighted(name, start)
        assert best is not None
        row = {"name": name, "gradient": along, "differences": best[1], "error": best[0], "right": bool(best[0] <= tolerance)}
        rows.append(row)
    return rows


def _direction(gradient: Array, rng: np.random.Generator) -> Array:
    """Half along the gradient, so that there is something to see, half at random, so that what it lacks is seen"""
    random = rng.normal(0, 1, gradient.shape)
    random /= max(float(np.linalg.norm(random)), 1e-30)
    along = np.asarray(gradient, np.float64) / max(float(np.linalg.norm(gradient)), 1e-30)
    both: Array = along + random
    return both
