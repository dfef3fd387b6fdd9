"""Differentially private gradients in the graph: each example's is clipped, their sum gets Gaussian noise.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang, "Deep learning with differential privacy", CCS 2016, algorithm 1. The
noise is from Threefry-2x32 with 20 rounds: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
normal by Box and Muller, 1958.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import ceil, prod

import numpy as np

from onnxgrad.core.autodiff.transforms import sum_over_examples
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.examples import check_separate, examples_of
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["private_gradients", "threefry"]

SEED, STEP = "noise_seed", "noise_step"

_WORD = 2**32
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA


@checked
def private_gradients(
    loss_per_example: Variable,
    parameters: Sequence[Variable] | None = None,
    *,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int | None = None,
    seed: int | None = None,
) -> list[tuple[Variable, Variable]]:
    """Append the gradients of DP-SGD: ``(sum of g_i min(1, C / |g_i|) + noise) / L``, for ``Optimizer.apply_gradients``.

    The norm is that of all parameters' gradients of an example together, and the noise has standard deviation
    ``noise_multiplier * clip_norm`` in each element. It follows from the constant ``noise_seed``, which has to be secret and new
    for each run, and the state ``noise_step``, so that a run goes on as it would have: ``Worker`` draws seeds from the system.
    What (epsilon, delta) that gives depends on how batches are drawn; an accountant computes it. An example whose gradient is not
    finite adds nothing to the sum, and changes no other.

    Examples are computed one at a time: as batches of one where their number is unknown and nothing is drawn at random; elsewhere
    as batches of copies of one example, so that sizes and masks stay, which takes time by the square of their number.

    Args:
        loss_per_example: a vector, one loss per example.
        parameters: what is trained; None for all that are trainable.
        clip_norm: C, a bound for the norm of an example's gradient.
        noise_multiplier: 0 for no noise, and no privacy.
        batch_size: L, what the sum is divided by; None for the examples fed. Where batches are drawn at random, their mean size.
        seed: the first value of ``noise_seed``, below 2^63, for tests; None to draw it from the system.

    Returns:
        Pairs of parameter and gradient.

    Raises:
        ArgumentError: if a number is out of range, a parameter's shape is unknown, or the loss of an example depends on other
            examples, so that clipping does not bound what one of them changes; the operator that mixes them is named.
        and the errors of ``vjp``.

    Example:
        >>> x = static.data("x", [None, 3], "float32")
        >>> loss = paddle.sum(static.nn.fc(x, size=1), axis=1)
        >>> pairs = private_gradients(loss, clip_norm=1.0, noise_multiplier=1.1)
        >>> _ = paddle.optimizer.SGD(0.1).apply_gradients(pairs)
    """
    if seed is None:
        seed = secrets.randbelow(2**63)
    if not clip_norm > 0 or noise_multiplier < 0 or (batch_size is not None and batch_size < 1) or not 0 <= seed < 2**63:
        raise ArgumentError(
            "clip_norm is above 0, noise_multiplier at least 0, batch_size at least 1 and seed between 0 and 2^63; given are "
            f"{clip_norm}, {noise_multiplier}, {batch_size} and {seed}."
        )
    program = loss_per_example.block.program
    trained = [p for p in program.parameters if p.trainable and not p.stop_gradient] if parameters is None else list(parameters)
    unknown = [p.name for p in trained if p.static_shape is None]
    if unknown:
        raise ArgumentError(f"the shapes of {unknown} are not known, so their noise is not either. Give them in the file.")
    with transaction(program):
        lift(program)
        _check_one_loss_each(loss_per_example)
        op = Builder(program.global_block(), role=Role.BACKWARD, key="private")
        sums = sum_over_examples(loss_per_example, trained, partial(_clipped, clip_norm))
        if noise_multiplier:
            shapes = [p.static_shape or () for p in trained]
            noise = _normal(op, program, shapes, seed)
            deviation = np.float32(noise_multiplier * clip_norm)
            sums = [op.Add(g, op.Cast(op.Mul(z, deviation), to=g.dtype.number)) for g, z in zip(sums, noise, strict=True)]
        examples = op.Max(op.Size(loss_per_example), np.array(1)) if batch_size is None else np.array(batch_size)
        pairs = []
        for p, g in zip(trained, sums, strict=True):
            mean = op.Div(g, op.Cast(examples, to=g.dtype.number) if isinstance(examples, Variable) else float(batch_size or 1))
            mean.name = program.fresh_name(p.grad_name)
            pairs.append((p, mean))
    return pairs


def _check_one_loss_each(loss: Variable) -> None:
    """Refuse a loss that is not one number for each example, computed from this example alone.

    Each row of all that is fed counts as an example, also where the number of rows is fixed.
    """
    inputs = [v for v in loss.block.program.inputs if v.value is None and not v.persistable and v.dims != ()]
    examples = examples_of(loss.block.program, dict.fromkeys(inputs, 0))
    check_separate(examples, loss, "Differential privacy")
    norm, total = examples.statistics_by(loss), examples.total_by(loss)
    if norm is not None:
        raise ArgumentError(f"{norm} mixes the examples of a batch. Freeze it: program.train(batch_norm='frozen').")
    if total is not None:
        raise ArgumentError(f"{total} adds up the losses of the examples in {loss.name}. Give it a vector, with reduction='none'.")
    if examples.depends(loss) and (examples.axis(loss) != 0 or examples.rows(loss) != 1):
        raise ArgumentError(f"{loss!r} is not a vector with one loss per example. Reduce every axis except the batch.")


def _clipped(limit: float, op: Builder, gradients: list[Variable]) -> list[Variable]:
    """One example's gradients, scaled by C / max(norm, C); zeros where the norm is not finite.

    It is computed in float32, as squares of float16 overflow where no gradient does.
    """
    wide = [op.Cast(g, to=1) for g in gradients]
    squares = [op.ReduceSum(op.Mul(g, g), keepdims=0) for g in wide]
    total = op.Sum(*squares) if len(squares) > 1 else squares[0]
    finite = op.Less(total, op.constant(np.inf, total.dtype))
    # A factor of 0 would leave inf * 0, so NaN in every weight.
    total, *wide = (op.Where(finite, x, op.constant(0.0, x.dtype)) for x in (total, *wide))
    factor = op.Div(float(limit), op.Max(op.Sqrt(total), float(limit)))
    return [op.Cast(op.Mul(x, factor), to=g.dtype.number) for x, g in zip(wide, gradients, strict=True)]


def _normal(op: Builder, program: Program, shapes: Sequence[Sequence[int]], seed: int) -> list[Variable]:
    """Standard normal numbers of these shapes, float32: others in every step, and for every seed."""
    seed_state = program.create_global_var(SEED, np.array(seed, np.int64))
    step = program.create_global_var(STEP, np.array(0, np.int64))
    program.updates[step] = op.Add(step, np.array(1))
    sizes = [prod(shape) for shape in shapes]
    half = ceil(sum(sizes) / 2)
    counters = op.Range(np.array(0), np.array(half), np.array(1))
    key = op.Mod(seed_state, np.array(_WORD)), op.Div(seed_state, np.array(_WORD))
    first, second = threefry(op, key, (counters, op.Mod(step, np.array(_WORD))))
    # Halfway between multiples of 2^-32, so that the logarithm is finite: at most 6.8 deviations.
    radius = op.Sqrt(op.Mul(op.Log(op.Mul(op.Add(op.Cast(first, to=1), 0.5), float(1 / _WORD))), -2.0))
    angle = op.Mul(op.Cast(second, to=1), float(2 * np.pi / _WORD))
    pair = op.Concat(op.Mul(radius, op.Cos(angle)), op.Mul(radius, op.Sin(angle)), axis=0)
    ends = np.cumsum([0, *sizes])
    parts = [op.Slice(pair, [int(a)], [int(b)], [0]) for a, b in pairwise(ends)]
    return [op.Reshape(part, [int(d) for d in shape]) for part, shape in zip(parts, shapes, strict=True)]


def threefry(op: Builder, key: tuple[Variable, Variable], counter: tuple[Variable, Variable]) -> tuple[Variable, Variable]:
    """Two words of 32 bits for each counter, all held in int64: Threefry-2x32 with 20 rounds."""
    mask = np.array(_WORD - 1)
    keys = [*key, op.BitwiseXor(op.BitwiseXor(key[0], key[1]), np.array(_PARITY))]
    x, y = (op.BitwiseAnd(op.Add(c, k), mask) for c, k in zip(counter, keys, strict=False))
    for number in range(20):
        rotation = _ROTATIONS[number % 8]
        x = op.BitwiseAnd(op.Add(x, y), mask)
        # No shift of int64 in ONNX: a product that stays below 2^61, and a quotient.
        rotated = op.Add(op.BitwiseAnd(op.Mul(y, np.array(2**rotation)), mask), op.Div(y, np.array(2 ** (32 - rotation))))
        y = op.BitwiseXor(rotated, x)
        if number % 4 == 3:
            group = number // 4 + 1
            x = op.BitwiseAnd(op.Add(x, keys[group % 3]), mask)
            y = op.BitwiseAnd(op.Add(op.Add(y, keys[(group + 1) % 3]), np.array(group)), mask)
    return x, y
