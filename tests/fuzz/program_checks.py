"""What must hold of a random program, and the process that tries many: ``python -m tests.fuzz.program_checks FIRST STOP SECONDS``.

The reference engine computes in float64 and says what is right; onnxruntime computes in float32.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

import onnxgrad as og
from onnxgrad import jvp, static
from onnxgrad.amp import AutoMixedPrecisionLists
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.mixed_precision import to_mixed_precision
from onnxgrad.errors import OnnxGradError
from onnxgrad.testing.reference_ops import CORRECTED
from onnxgrad.training import add_lora, merge_lora
from tests.fuzz.programs import Case, case

_STEP = 1e-5
_ROOT = os.path.dirname(og.__file__)
# It casts what a body captures to float32 in another body, where it is not found.
_FAULTS_OF_ONNXRUNTIME = ("InsertedPrecisionFreeCast",)


class Wrong(AssertionError):
    """A result that is not right."""


class Refused(Exception):
    """onnxruntime does not run the program itself, without any gradient."""


def _run(model: ModelProto, feeds: dict[str, Any], error: type[Exception] = Wrong) -> list[Any]:
    """The results of a model on onnxruntime"""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), _options(), providers=["CPUExecutionProvider"])
        return session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()})
    except Exception as caught:
        raise error(str(caught)) from caught


class Reference:
    """A model on the reference engine; stored weights can be fed as inputs can."""

    def __init__(self, model: ModelProto, feeds: dict[str, Any]) -> None:
        opened = ModelProto()
        opened.CopyFrom(model)
        graph = opened.graph
        taken = {v.name for v in graph.input}
        for tensor in [t for t in graph.initializer if t.name in feeds]:
            graph.initializer.remove(tensor)
            if tensor.name not in taken:
                graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        self.names = [v.name for v in graph.input]
        self.evaluator = ReferenceEvaluator(opened, new_ops=[*CORRECTED])

    def __call__(self, feeds: dict[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.asarray(v) for v in self.evaluator.run(None, {name: feeds[name] for name in self.names})]


class Checked:
    """A program in float64, its values and its gradients for random cotangents."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.draw = random.Random(f"checks/{number}")
        self.case = made = case(number, "float64")
        forward = og.to_onnx(made.program, [value.v for value in made.outputs])
        self.forward = Reference(forward, made.feeds)
        self.values = self.forward(made.feeds)
        for value, array in zip(made.outputs, self.values, strict=True):
            if array.shape != value.shape:
                raise Wrong(f"{value.v!r} has shape {array.shape}, not {value.shape}")
        rng = np.random.default_rng(number)
        self.weights = [rng.uniform(-1, 1, array.shape).astype(np.float32).astype(float) for array in self.values]
        self.feeds = made.feeds | {f"c{i}": w for i, w in enumerate(self.weights)}
        self.found = differentiated(made, self.weights)
        present = [g for g in self.found if g is not None]
        model = og.to_onnx(made.program, present) if present else None
        self.model = model
        arrays = iter(Reference(model, self.feeds)(self.feeds) if model is not None else [])
        self.gradients = [np.zeros(s.shape) if g is None else next(arrays) for s, g in zip(made.sources, self.found, strict=True)]

    def gradient(self) -> None:
        """Central differences, where the function has no kink: there the differences to both sides differ."""
        made = self.case
        if self.model is not None:
            onnx.checker.check_model(self.model, full_check=True)
        here = self._total(made.feeds)
        for source, gradient in zip(made.sources, self.gradients, strict=True):
            if gradient.shape != source.shape:
                raise Wrong(f"the gradient of {source.v.name!r} has shape {gradient.shape}, not {source.shape}")
            for at in self.draw.sample(range(source.size), min(3, source.size)):
                above, below = (
                    self._total(made.feeds | {source.v.name: _moved(made.feeds[source.v.name], at, h)}) for h in (_STEP, -_STEP)
                )
                central, sides = (above - below) / (2 * _STEP), (above - here, here - below)
                got = gradient.reshape(-1)[at]
                scale = max(1.0, abs(central), abs(here))
                smooth = abs(sides[0] - sides[1]) / _STEP <= 1e-3 * scale
                if smooth and not abs(got - central) <= 1e-5 * scale:
                    raise Wrong(f"the gradient of {source.v.name!r} at {at} is {got:.9g}, differences give {central:.9g}")

    def _total(self, feeds: dict[str, Any]) -> float:
        return sum(float((y * w).sum()) for y, w in zip(self.forward(feeds), self.weights, strict=True))

    def pushed(self) -> None:
        """The product of the Jacobian with a tangent, from the other side."""
        made = case(self.number, "float64")
        rng = np.random.default_rng(self.number + 1)
        tangents = [rng.uniform(-1, 1, source.shape) for source in made.sources]
        with static.program_guard(made.program, static.Program()):
            given = [static.data(f"t{i}", list(t.shape), "float64") for i, t in enumerate(tangents)]
        found = jvp([value.v for value in made.outputs], [source.v for source in made.sources], given)
        feeds = made.feeds | {f"t{i}": t for i, t in enumerate(tangents)}
        arrays = Reference(og.to_onnx(made.program, found), feeds)(feeds)
        for value, array in zip(made.outputs, arrays, strict=True):
            if array.shape != value.shape:
                raise Wrong(f"the tangent of {value.v.name!r} has shape {array.shape}, not {value.shape}")
        forward = sum(float((y * c).sum()) for y, c in zip(arrays, self.weights, strict=True))
        backward = sum(float((g * t).sum()) for g, t in zip(self.gradients, tangents, strict=True))
        if not abs(forward - backward) <= 1e-8 * max(1.0, abs(backward)):
            raise Wrong(f"<c, J t> is {forward:.12g}, <J^T c, t> is {backward:.12g}")

    def second(self) -> None:
        """The gradient of the gradient of a smooth program, by differences of the gradient."""
        made = self.case
        present = [g for g in self.found if g is not None]
        if not made.smooth or self.model is None:
            return
        rng = np.random.default_rng(self.number + 2)
        first = Reference(self.model, self.feeds)
        weights = [rng.uniform(-1, 1, array.shape) for array in first(self.feeds)]
        feeds = self.feeds | {f"d{i}": w for i, w in enumerate(weights)}
        with static.program_guard(made.program, static.Program()):
            seeds = [static.data(f"d{i}", list(w.shape), "float64") for i, w in enumerate(weights)]
        again = og.gradients(present, [source.v for source in made.sources], seeds)
        held = [g for g in again if g is not None]
        arrays = iter(Reference(og.to_onnx(made.program, held), feeds)(feeds) if held else [])

        def total(changed: dict[str, Any]) -> float:
            return sum(float((g * w).sum()) for g, w in zip(first(changed), weights, strict=True))

        for source, g in zip(made.sources, again, strict=True):
            array = np.zeros(source.shape) if g is None else next(arrays)
            for at in self.draw.sample(range(source.size), min(2, source.size)):
                ends = [total(feeds | {source.v.name: _moved(feeds[source.v.name], at, h)}) for h in (_STEP, -_STEP)]
                central, got = (ends[0] - ends[1]) / (2 * _STEP), array.reshape(-1)[at]
                if not abs(got - central) <= 1e-4 * max(1.0, abs(central), abs(ends[0])):
                    raise Wrong(f"the second gradient of {source.v.name!r} at {at} is {got:.9g}, differences give {central:.9g}")

    def lowered(self) -> None:
        """The plain export, the forms for the CPU, and what the Executor runs, each on onnxruntime, against the reference."""
        made = case(self.number, "float32")
        feeds = _narrow(self.feeds)
        outputs = [value.v for value in made.outputs]
        _run(og.to_onnx(made.program, outputs), feeds, Refused)
        found = [g for g in differentiated(made, self.weights) if g is not None]
        fetches = [*outputs, *found]
        self._compare("on onnxruntime", fetches, _run(og.to_onnx(made.program, fetches), feeds), 1e-3)
        self._compare("in the forms for the CPU", fetches, _run(og.to_onnx(made.program, fetches, lowering="cpu"), feeds), 1e-3)
        given = {v.name: feeds[v.name] for v in made.program.global_block().inputs}
        self._compare("by the Executor", fetches, og.Executor(threads=1).run(made.program, given, fetches), 1e-3)

    def stepped(self) -> None:
        """A training step of an optimizer moves each weight by its gradient."""
        made = case(self.number, "float32")
        right = {s.v.name: g for s, g in zip(made.sources, self.gradients, strict=True)}
        weights = [p for p in made.program.parameters if np.any(right[p.name])]
        if not weights:
            return
        loss = _loss(made, self.weights)
        with static.program_guard(made.program, static.Program()):
            og.optimizer.SGD(0.5).minimize(loss, parameters=weights)
        given = {v.name: _narrow(self.feeds)[v.name] for v in made.program.global_block().inputs}
        og.Executor(threads=1).run(made.program, given, [loss])
        for p in weights:
            moved = self.feeds[p.name] - p.get_value(made.program.scope)
            wanted = 0.5 * right[p.name]
            if not np.all(np.abs(moved - wanted) <= 1e-3 * max(1.0, np.abs(wanted).max())):
                raise Wrong(f"a step moves {p.name!r} by {moved} where {wanted} belongs")

    def _compare(self, how: str, fetches: Sequence[Variable], arrays: Sequence[Any], tolerance: float) -> None:
        """float32 against float64; intermediate results may be larger than what becomes of them"""
        wanted = [*self.values, *(g for g, v in zip(self.gradients, self.found, strict=True) if v is not None)]
        top = max([1.0, *(float(np.abs(v).max(initial=0.0)) for v in wanted)])
        for v, array, right in zip(fetches, arrays, wanted, strict=True):
            if array.shape != right.shape:
                raise Wrong(f"{v.name!r} has shape {array.shape} {how}, not {right.shape}")
            if not np.all(np.abs(array - right) <= tolerance * top):
                raise Wrong(f"{v.name!r} differs {how} by {np.abs(array - right).max():.3g}, of numbers up to {top:.3g}")

    def recomputed(self) -> None:
        """The same gradients where parts of the forward pass are computed again."""
        made = case(self.number, "float64")
        loss = _loss(made, self.weights)
        ops = [v for op in made.program.global_block().ops for v in op.outputs if v is not None and v.is_float]
        kept = "auto" if self.draw.random() < 0.3 else self.draw.sample(ops, min(len(ops), 2))
        pairs = og.append_backward(loss, [value.v for value in made.sources], checkpoints=kept)
        self._against(made, {v.name: g for v, g in pairs}, 1e-9)

    def _against(self, made: Case, found: dict[str, Variable], tolerance: float) -> None:
        if not found:
            return
        model = og.to_onnx(made.program, list(found.values()))
        arrays = dict(zip(found, Reference(model, self.feeds)(self.feeds), strict=True))
        for value, right in zip(made.sources, self.gradients, strict=True):
            got = arrays.get(value.v.name, np.zeros(value.shape))
            if got.shape != right.shape or not np.all(np.abs(got - right) <= tolerance * max(1.0, np.abs(right).max(initial=0.0))):
                raise Wrong(f"the gradient of {value.v.name!r} is {got} where {right} belongs")

    def halved(self) -> None:
        """Mixed precision: results, and where there is no kink gradients, within what 16 bits hold."""
        made = case(self.number, "float32")
        to_mixed_precision(made.program, "float16", AutoMixedPrecisionLists(dtype="float16"), "O1")
        found = [g for g in differentiated(made, self.weights) if g is not None] if made.smooth else []
        fetches = [*(value.v for value in made.outputs), *found]
        given = {v.name: array for v in made.program.global_block().inputs for array in [_narrow(self.feeds)[v.name]]}
        ran = og.Executor(threads=1).run(made.program, given, fetches)
        wanted = [*self.values, *(g for g, v in zip(self.gradients, self.found, strict=True) if v is not None)][: len(fetches)]
        top = max([1.0, *(float(np.abs(v).max(initial=0.0)) for v in wanted)])
        for v, array, right in zip(fetches, ran, wanted, strict=True):
            if array.shape != right.shape or not np.all(np.abs(array - right) <= 0.05 * top):
                raise Wrong(f"{v.name!r} differs in mixed precision by {np.abs(array - right).max(initial=0.0):.3g}, of {top:.3g}")

    def adapted(self) -> None:
        """LoRA branches, and the same merged into their weights, of what was written and read again."""
        made = case(self.number, "float32")
        program = og.from_onnx(og.to_onnx(made.program, [value.v for value in made.outputs]))
        try:
            names = add_lora(program, rank=2, seed=self.number)
        except og.errors.UnknownName:
            return
        rng = np.random.default_rng(self.number)
        for p in program.parameters:
            if p.name in names:
                p.set_value(rng.uniform(-1, 1, p.static_shape).astype(np.float32))
        given = {v.name: _narrow(self.feeds)[v.name] for v in program.inputs}
        merged = merge_lora(program)
        executor = og.Executor(threads=1)
        beside, inside = (executor.run(one, given, one.outputs) for one in (program, merged))
        top = max([1.0, *(float(np.abs(v).max(initial=0.0)) for v in beside)])
        for v, a, b in zip(program.outputs, beside, inside, strict=True):
            if a.shape != b.shape or not np.all(np.abs(a - b) <= 2e-4 * top):
                raise Wrong(f"{v.name!r} differs by {np.abs(a - b).max():.3g} once LoRA is merged, of {top:.3g}")


CHECKS = ("gradient", "recomputed", "pushed", "second", "lowered", "stepped", "halved", "adapted")


def _moved(array: Any, at: int, by: float) -> Any:
    found = np.array(array)
    found.reshape(-1)[at] += by
    return found


def _narrow(feeds: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(a).astype(np.float32) if np.asarray(a).dtype == np.float64 else a for name, a in feeds.items()}


def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def differentiated(made: Case, weights: Sequence[Any]) -> list[Variable | None]:
    """The gradients of all sources, for cotangents that are fed"""
    with static.program_guard(made.program, static.Program()):
        seeds = [static.data(f"c{i}", list(w.shape), value.v.dtype.name) for i, (w, value) in enumerate(zip(weights, made.outputs))]
    return og.gradients([value.v for value in made.outputs], [value.v for value in made.sources], seeds)


def _loss(made: Case, weights: Sequence[Any]) -> Variable:
    with static.program_guard(made.program, static.Program()):
        seeds = [static.data(f"c{i}", list(w.shape), value.v.dtype.name) for i, (w, value) in enumerate(zip(weights, made.outputs))]
        build = made.program.global_block().build
        parts = [build.ReduceSum(build.Mul(value.v, c), keepdims=0) for value, c in zip(made.outputs, seeds, strict=True)]
        return build.Reshape(build.Sum(*parts), np.zeros(0, np.int64))


def attempt(number: int, checks: Sequence[str] = CHECKS) -> tuple[dict[str, str], dict[str, str] | None]:
    """What became of each check, and the first that failed."""
    stages: dict[str, str] = {}
    checked: Checked | None = None
    for name in ("values", *checks):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if checked is None:
                    checked = Checked(number)
                else:
                    getattr(checked, name)()
            stages[name] = "ok"
        except Refused:
            stages[name] = "refused by onnxruntime"
            return stages, None
        except Exception as error:
            stages[name] = type(error).__name__
            if any(text in str(error) for text in _FAULTS_OF_ONNXRUNTIME):
                continue
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(_ROOT)]
            at = f"{frames[-1].filename.removeprefix(_ROOT + '/')}:{frames[-1].lineno} {frames[-1].name}" if frames else name
            at = name if isinstance(error, (Wrong, OnnxGradError)) else at
            return stages, {"stage": name, "type": type(error).__name__, "at": at, "text": str(error)[:400]}
    return stages, None


def main(arguments: list[str]) -> None:
    first, stop, seconds = arguments
    # What libraries print must not mix with what is said to the driver.
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()
    for number in range(int(first), int(stop)):
        print(json.dumps({"begin": number, "seed": "programs"}), file=said)
        faulthandler.dump_traceback_later(float(seconds), exit=True)
        started = time.perf_counter()
        stages, problem = attempt(number)
        faulthandler.cancel_dump_traceback_later()
        took = time.perf_counter() - started
        print(json.dumps({"end": number, "took": took, "stages": stages, "problem": problem, "rule": ""}), file=said)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
