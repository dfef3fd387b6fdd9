"""What ``onnxgrad check`` does; its arguments are in ``options/check.py``."""

from __future__ import annotations

import argparse
from typing import Any

from onnxgrad.cli.check_numerically import compare
from onnxgrad.cli.common import assumed_sizes, feeds_for, load, print_json, sizes_of
from onnxgrad.core.autodiff.explain import explain
from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError
from onnxgrad.training.run.progress import Working
from onnxgrad.training.surgery.selection import matching


def run(options: argparse.Namespace) -> int:
    with Working("reading the model") as working:
        program = load(options)
        working.say("trying every rule")
        explanation = explain(program)
        rows: list[dict[str, Any]] = []
        if explanation.is_differentiable and not options.no_numeric:
            feeds = feeds_for(program, options.feeds, sizes_of(options.dim), options.seed)
            rows = compare(program, feeds, _chosen(program, options.wrt), options.seed, options.tolerance, working)
    wrong = not explanation.is_differentiable or any(row["right"] is False for row in rows)
    if options.json:
        print_json({"differentiable": explanation.is_differentiable, "operators": explanation.to_rows(), "numeric": rows})
        return 1 if wrong else 0
    print(explanation)
    if rows and options.feeds is None and (assumed := assumed_sizes(program, feeds, sizes_of(options.dim))):
        print(f"dynamic dimensions were taken as {', '.join(f'{n}={k}' for n, k in assumed.items())} (--dim NAME=SIZE, or --feeds)")
    for row in rows:
        verdict = {True: "right", False: "WRONG", None: f"cannot be resolved by finite differences: {row['why']}"}[row["right"]]
        differences = f"finite differences {row['differences']:.6g} +- {row['error']:.1g}"
        print(f"  {row['name']}: gradient {row['gradient']:.6g}, {differences}: {verdict}")
    if rows:
        counts = [sum(row["right"] is verdict for row in rows) for verdict in (True, False, None)]
        print("numerical check: {} of {} right, {} wrong, {} cannot be resolved".format(counts[0], len(rows), *counts[1:]))
    return 1 if wrong else 0


def _chosen(program: Program, patterns: list[str] | None) -> list[str]:
    names = [p.name for p in program.parameters if p.trainable and p.is_float] + [v.name for v in program.inputs if v.is_float]
    chosen = names if patterns is None else [name for name in names if name in matching(names, patterns, "--wrt")]
    if not chosen:
        raise ArgumentError("the model has neither trainable weights nor floating-point inputs to check.")
    return chosen
