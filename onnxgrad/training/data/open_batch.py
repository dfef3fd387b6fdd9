"""A batch of a fixed size that a file declares, opened where the file computes each example for itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.ir.examples import examples_of
from onnxgrad.core.ir.infer import infer_with_bodies
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.session import open_graph

__all__ = ["open_batch"]

_TRIED = 3


def open_batch(program: Program, *, several: bool = False) -> list[str]:
    """Let a program whose inputs all have a first axis of 1, and else known sizes, take any number of examples.

    It is done if no operator mixes examples, and several random ones at once give what each gives alone, in every output; else
    nothing is changed.

    Args:
        program: a loaded program without a backward pass.
        several: whether a first axis of another number is opened, too, as ranks that share a batch need it.

    Returns:
        A line that says so; none where the program is as it was.

    Example:
        >>> import onnx
        >>> from onnxgrad import from_onnx
        >>> file = '<ir_version: 8, opset_import: ["": 17]> m (float[1, 3] x) => (float[1, 3] y) { y = Tanh(x) }'
        >>> program = from_onnx(onnx.parser.parse_model(file))
        >>> open_batch(program), program.inputs[0].shape
        (['the file takes one example at a time (x); it takes any number here, as each gives the same outputs.'], (-1, 3))
    """
    inputs = program.inputs
    if any(list(op.blocks()) for op in program.global_block().ops):
        return []  # a branch is taken for all examples at once
    if not inputs or any(not v.dims or not all(isinstance(d, int) for d in v.dims) for v in inputs):
        return []
    sizes = {v.dims[0] for v in inputs if v.dims}
    size = sizes.pop()
    if sizes or not isinstance(size, int) or size < 1 or (size > 1 and not several):
        return []
    trial = program.clone(for_test=True)
    _open(trial)
    examples = examples_of(trial)
    if any(examples.mixed_by(v) is not None for v in trial.outputs):
        return []  # also where random examples hardly show it
    if not _is_separate(program.clone(for_test=True), trial, size):
        return []
    _open(program)
    names = ", ".join(v.name for v in inputs)
    takes = "one example" if size == 1 else f"{size} examples"
    return [f"the file takes {takes} at a time ({names}); it takes any number here, as each gives the same outputs."]


def _open(program: Program) -> None:
    block = program.global_block()
    for v in block.vars.values():
        if v.value is None and isinstance(v.type, TensorType):
            v.declared = None
    for v in program.inputs:
        assert v.dims is not None
        v.type = TensorType(v.dtype, (None, *v.dims[1:]))
    for op in block.ops:
        for result in op.outputs:
            if result is not None:
                result.type = TensorType(result.type.dtype, None) if isinstance(result.type, TensorType) else None
        infer_with_bodies(op)


def _is_separate(fixed: Program, opened: Program, size: int) -> bool:
    """Whether a few batches at once, and a single example, give what they give in batches of the size that the file takes"""
    rng = np.random.default_rng(0)
    batches = _TRIED if size == 1 else 2
    feed: dict[str, Any] = {}
    for v in fixed.inputs:
        assert v.dims is not None
        shape = (batches * size, *(int(d) for d in v.dims[1:] if isinstance(d, int)))
        values = rng.normal(size=shape) if v.dtype.is_float else rng.integers(0, 2, shape)
        feed[v.name] = values.astype(v.dtype.numpy)
    try:
        together = _session(opened).run(None, feed)
        single = _session(opened).run(None, {name: x[:1] for name, x in feed.items()})
        session = _session(fixed)
        alone = [session.run(None, {name: x[i * size : (i + 1) * size] for name, x in feed.items()}) for i in range(batches)]
    except Exception:  # onnxruntime's own types: the file cannot take another number of examples
        return False
    columns = [np.concatenate([np.atleast_1d(np.asarray(row[k])) for row in alone]) for k in range(len(together))]
    return all(map(_agree, together, columns)) and all(map(_agree, single, (column[:1] for column in columns)))


def _session(program: Program) -> Any:
    return open_graph(compile(program, None), CPUPlace())


def _agree(actual: Any, expected: Any) -> bool:
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return False
    return bool(np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=1e-4, atol=1e-5, equal_nan=True))
