"""What ``onnxgrad plan`` does; its arguments are in ``options/plan.py``."""

# Tests: tests/cli/test_plan.py.

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.cli.common import feeds_for, human, load, print_json, say, sizes_of
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import is_nameless
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.distributed.costs import link_of, plan_data_parallel, plan_pipeline_of, plan_shares
from onnxgrad.distributed.step_costs import costs_of_stages, costs_of_step, fix_sizes
from onnxgrad.errors import ArgumentError, ModelError
from onnxgrad.static import program_guard
from onnxgrad.tensor import add_n, mean, square
from onnxgrad.training.data.derived_inputs import DerivedInputs
from onnxgrad.training.data.open_batch import open_batch
from onnxgrad.training.detection.heads import freeze_decoding
from onnxgrad.training.optimizers import make_optimizer

_EXAMPLES = 32
"""Of each rank, where no batch is given."""
_STEPS = 3
"""That are measured, after one that is not."""


class _Step(NamedTuple):
    """A training step of a model with known sizes."""

    program: Program
    startup: Program
    loss: Variable
    feeds: dict[str, np.ndarray[Any, Any]]


def run(options: argparse.Namespace) -> int:
    facts = _plan(options)
    if options.json:
        print_json(facts)
    else:
        _print(facts)
    return 0


def _plan(options: argparse.Namespace) -> dict[str, Any]:
    """The plans by name, and what they were made from"""
    for name in ("ranks", "batch", "seq", "threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ArgumentError(f"--{name} is at least 1, not {value}.")
    if options.step_seconds is not None and not 0 < options.step_seconds < math.inf:
        raise ArgumentError(f"--step-seconds is above 0, not {options.step_seconds}.")
    if options.pipeline < 0 or options.micro_batches < 0:
        raise ArgumentError("--pipeline and --micro-batches are at least 1.")
    link, ranks, stages = link_of(options.link, options.latency), options.ranks, options.pipeline
    if stages > 1 and ranks % stages:
        raise ArgumentError(f"--ranks {ranks}: these are no rows of {stages} stages. Take a multiple of {stages}.")
    step = _step(options, -(-(options.batch or _EXAMPLES * ranks) // ranks))
    part = _examples(step)
    seconds = _measured(step, options.threads) if options.step_seconds is None else options.step_seconds
    costs = costs_of_step(step.program, step.loss, seconds)
    plans = {"data parallel": plan_data_parallel(costs, ranks, link), "shares": plan_shares(costs, ranks, link)}
    if stages > 1:
        parts = options.micro_batches or 2 * stages
        of_row = part * stages
        micro_step = _step(options, max(1, -(-of_row // parts)))
        of_stages = costs_of_stages(micro_step.program, micro_step.loss, stages)
        name = f"pipeline of {stages}"
        plans[name] = plan_pipeline_of(of_stages, ranks, min(parts, of_row), seconds * stages, link)
    return {
        "model": options.model,
        "ranks": ranks,
        "bytes_per_second": link.bandwidth,
        "latency": link.latency,
        "optimizer": options.optimizer,
        "batch": part * ranks,
        "batch_of_rank": part,
        "inputs": {name: list(feed.shape) for name, feed in step.feeds.items()},
        "step_seconds": seconds,
        "is_measured": options.step_seconds is None,
        "plans": {name: {**plan.as_json(), "examples_per_second": part * ranks / plan.seconds} for name, plan in plans.items()},
    }


def _examples(step: _Step) -> int:
    return int(next((feed.shape[0] for feed in step.feeds.values() if feed.ndim), 1))


def _step(options: argparse.Namespace, examples: int) -> _Step:
    """The step of a model with so many examples, or as many as its file takes"""
    program = load(options)
    freeze_decoding(program)
    open_batch(program)
    sizes = {**_open_sizes(program, examples, options.seq), **sizes_of(options.dim)}
    feeds = feeds_for(program, None, sizes, 0)
    fix_sizes(program, {name: feed.shape for name, feed in feeds.items()})
    outputs = [v for v in program.outputs if v.is_float]
    if not outputs:
        raise ModelError(f"{options.model} has no output of floating-point numbers, which a loss could be computed from.")
    startup = Program()
    with program_guard(program, startup):
        losses = [mean(square(v)) for v in outputs]
        loss = losses[0] if len(losses) == 1 else add_n(losses)
        make_optimizer(options.optimizer, 1e-6, None, None).minimize(loss, startup)
    return _Step(program, startup, loss, feeds)


def _open_sizes(program: Program, examples: int, others: int | None) -> dict[str, int]:
    """Sizes of the dynamic dimensions of inputs by name: first ones are the batch. The cache of a language model stays empty"""
    sizes: dict[str, int] = {}
    derived = DerivedInputs(program).names
    for v in program.inputs:
        is_cache = v.is_float and v.name in derived
        for axis, dim in enumerate(v.dims or ()):
            name = dim if isinstance(dim, str) and not is_nameless(dim) else f"{v.name}.{axis}"
            if not isinstance(dim, int) and (axis == 0 or (others is not None and not is_cache)):
                sizes.setdefault(name, examples if axis == 0 else others or 1)
    return sizes


def _measured(step: _Step, threads: int | None) -> float:
    """Seconds of a step here: the median of a few, after one that opens sessions"""
    executor = Executor(threads=threads)
    executor.run(step.startup)
    seconds = []
    for _ in range(1 + _STEPS):
        begun = time.perf_counter()
        executor.run(step.program, step.feeds, [step.loss])
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds[1:])


# Printing ------------------------------------------------------------------------------------------------------------


def _print(facts: Mapping[str, Any]) -> None:
    plans: Mapping[str, Any] = facts["plans"]
    rate = f"{facts['bytes_per_second'] * 8 / 1e9:g} Gbit/s and {_seconds(facts['latency'])} a message"
    print(f"{facts['ranks']:,} ranks, {rate}, {facts['optimizer']}")
    shapes = ", ".join(f"{name} {shape}" for name, shape in facts["inputs"].items())
    say(f"batch {facts['batch']:,}: {facts['batch_of_rank']:,} a rank, {shapes}")
    source = "measured here" if facts["is_measured"] else "as given"
    say(f"a rank computes for {_seconds(facts['step_seconds'])} a step, {source}")
    print()
    memories = [plan["memory"] for plan in plans.values()]
    rows = [["memory of a rank", *plans]]
    rows += [[f"  {part}", *(human(memory[part]) for memory in memories)] for part in memories[0]]
    rows += [["a step"], ["  sent by a rank", *(human(plan["bytes_sent"]) for plan in plans.values())]]
    for key, label in (("computes", "computes"), ("exchange", "waits"), ("seconds", "together")):
        rows.append([f"  {label}", *(_seconds(plan[key]) for plan in plans.values())])
    rows.append(["  of it computing", *(f"{plan['efficiency']:.0%}" for plan in plans.values())])
    rows.append(["  examples a second", *(f"{plan['examples_per_second']:,.0f}" for plan in plans.values())])
    rows.append(["sums travel by", *(plan["form"] for plan in plans.values())])
    for first, *others in rows:
        print((f"{first:<19}" + "".join(f"{cell:>20}" for cell in others)).rstrip())


def _seconds(value: float) -> str:
    """Seconds for people"""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if value * factor < 1000:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"
