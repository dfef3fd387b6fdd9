"""Worker: one participant of federated training, with stock onnxruntime: weights in, local steps, weights out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from onnx import ModelProto

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import DROPOUT_SEED
from onnxgrad.core.runtime.exported_step import WrittenStep
from onnxgrad.core.runtime.places import Place, place_of
from onnxgrad.core.state.inputs import COLUMN, GivenByName, as_input
from onnxgrad.core.step.export import Manifest, to_training_step
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, DataError, TrainingError
from onnxgrad.federated.privacy import SEED as NOISE_SEED
from onnxgrad.federated.proximal import ANCHORS, MU, with_proximal
from onnxgrad.internal.arguments import checked
from onnxgrad.training.trainer import Trainer

__all__ = ["Array", "Columns", "Worker"]

Array: TypeAlias = "np.ndarray[Any, Any]"
Columns: TypeAlias = "GivenByName"


Exported: TypeAlias = "str | Path | tuple[ModelProto, Manifest]"
"""A step as ``save_step`` wrote it, or as ``to_training_step`` gives it."""
Source: TypeAlias = "Exported | Trainer | Program"


class Worker:
    """One participant: takes the weights of all, trains on data of its own, and gives its weights back.

    What travels is a list of arrays in the order of ``names``: the weights that train, then the running statistics, each sorted by
    name, so that steps written in different ways agree. What else the optimizer holds (moments, counters) stays here.

    Args:
        step: a Trainer; a Program that ``minimize`` was called on, with ``loss``; the path of a manifest that
            ``save_training_step`` wrote, or a pair of model and manifest as ``to_training_step`` gives them.
        loss: of a Program, what to report.
        evaluation: for a step in files, the manifest of one without updates (``save_training_step(program.clone(for_test=True),
            ...)``), whose scalar fetches are averaged over examples. A Trainer and a Program need none.
        proximal: whether the term of FedProx is part of the step; of files, ``federated.save_step`` decides.
        threads: of onnxruntime within an operator; None for its choice.
        place: where the steps run; None for that of ``set_device``. Weights are exchanged in main memory.

    Raises:
        ArgumentError: if the step updates no weight.
        FileError, ModelError: if a file is missing or is not what its manifest says.

    Example:
        >>> worker = Worker("out/step.json")  # doctest: +SKIP
        >>> worker.set(arrays)  # doctest: +SKIP
        >>> worker.fit({"image": images, "label": labels}, epochs=1, batch_size=32)  # doctest: +SKIP
        {'examples': 200, 'loss': 0.41}
    """

    @checked
    def __init__(
        self,
        step: Source,
        *,
        loss: Variable | str | None = None,
        evaluation: Exported | None = None,
        proximal: bool = False,
        threads: int | None = None,
        place: Place | None = None,
    ) -> None:
        place = place_of(place)
        self.trainer = step if isinstance(step, Trainer) else None
        if isinstance(step, Trainer):
            self._step = _Step(_exported(step._step(), [step.loss.name], proximal, place), place, threads)
        elif isinstance(step, Program):
            if loss is None:
                raise ArgumentError("which variable of this program is the loss is not known. Pass loss=.")
            evaluation = evaluation or to_training_step(step.clone(for_test=True), [_name(loss)], lowering=place.lowering)
            self._step = _Step(_exported(step, [_name(loss)], proximal, place), place, threads)
        elif isinstance(step, (str, Path, tuple)):
            self._step = _Step(step, place, threads)
        else:
            step_type = type(step).__name__
            raise ArgumentTypeError(f"a step is a Trainer, a Program, the path of a manifest or a pair, not {step_type}.")
        self._evaluation = None if evaluation is None else _Step(evaluation, place, threads)
        state = self._step.manifest["state"]
        names = [sorted(e["input"] for e in state if e[role]) for role in ("parameter", "statistic")]
        self.names: list[str] = [*names[0], *names[1]]
        if not any(e["parameter"] for e in state):
            raise ArgumentError("this step updates no weight. Call minimize on the loss before it is written.")
        self._first = {name: value for name, value in self._step.values.items() if name not in self.names}

    @property
    def is_private(self) -> bool:
        """Whether the step adds the noise of ``private_gradients``, so that nothing exact may leave this participant."""
        return any(name.startswith(NOISE_SEED) for name in self._step.values)

    def get(self) -> list[Array]:
        """The present weights and statistics, in the order of ``names``."""
        return [self._step.values[name].copy() for name in self.names]

    def set(self, arrays: Sequence[Array]) -> None:
        """Take over weights and statistics; they are converted to the types of the step.

        Args:
            arrays: weights and statistics, in the order of ``names``.

        Raises:
            DataError: if their number or a shape differs, or one is not finite, of another kind or too large for its type.
        """
        if len(arrays) != len(self.names):
            raise DataError(f"{len(arrays)} arrays came for the {len(self.names)} of this step. Let all sides use one model.")
        present = self._step.values
        taken = {}
        for name, array in zip(self.names, arrays, strict=True):
            value = np.array(as_input(_Entry(name, dtype_of(present[name].dtype), present[name].shape), array, _SENT))
            if not np.isfinite(value.astype(np.float32)).all():
                raise DataError(f"{name} came with values that are not finite. Lower the learning rate, or the noise.")
            taken[name] = value
        present.update(taken)

    def local_state(self) -> dict[str, Array]:
        """The state that stays here between rounds: the optimizer's state and counters, by name."""
        changed = [e["input"] for e in self._step.manifest["state"]]
        return {name: self._step.values[name].copy() for name in changed if name not in self.names}

    def set_local_state(self, state: Mapping[str, Array] | None) -> None:
        """Load the state that ``local_state`` returned; None for the state of a new run.

        Args:
            state: what ``local_state`` gave; None for that of the step.

        Raises:
            DataError: if it holds what is no state of this step; nothing is changed then.
        """
        known, taken = self.local_state(), dict(self._first)
        for name, value in (state or {}).items():
            if name not in known or known[name].shape != np.shape(value):
                raise DataError(f"{name} is not state of this step. Was it kept for another model or optimizer?")
            taken[name] = np.array(as_input(_Entry(name, dtype_of(known[name].dtype), known[name].shape), value, _SENT))
        self._step.values.update(taken)

    def fit(
        self,
        data: Columns,
        *,
        epochs: int = 1,
        batch_size: int = 32,
        sampling: Literal["shuffle", "poisson"] = "shuffle",
        seed: int | None = None,
        proximal: float = 0.0,
        learning_rate: float | None = None,
        noise_seed: int | None = None,
    ) -> dict[str, float]:
        """Train from the present weights.

        Args:
            data: columns by the names of the step's feeds, all of one length.
            epochs: passes over the data.
            batch_size: examples in a step; the last batch of an epoch may be smaller.
            sampling: ``"shuffle"`` for every example once in an epoch, ``"poisson"`` for each example in each step with probability
                ``batch_size`` over their number, which the accounting of ``private_gradients`` supposes.
            seed: of the order of the data and of Dropout; None for 0, or where the step is private for one that is drawn from the
                system: who knows which examples are in which batch learns more than epsilon says. Only tests give one there.
            proximal: mu of FedProx: the loss has mu / 2 times the squared distance from the weights of this call's beginning.
            learning_rate: of these steps; None for that of the step.
            noise_seed: of ``private_gradients``; None to draw one from the system, as privacy needs.

        Returns:
            ``examples``, the length of the data, and ``loss``, its mean over the steps.

        Raises:
            DataError: if a column is missing or lengths differ.
            ArgumentError: if ``proximal`` is not 0 and the step has no such term.
            TrainingError: if the loss is not finite; the weights are then those of the beginning. A private step goes on, as an
                example whose gradient is not finite adds nothing, and its loss is of the examples that have one.
        """
        step, before = self._step, dict(self._step.values)
        columns, count = self.columns(data)
        if seed is None:
            seed = secrets.randbits(128) if self.is_private else 0
        step.begin(seed, noise_seed, proximal, learning_rate)
        order = np.random.default_rng(seed)
        total = seen = 0.0
        draw = {"shuffle": _rows, "poisson": _drawn}.get(sampling)
        if draw is None:
            raise ArgumentError(f"sampling is 'shuffle' or 'poisson', not {sampling!r}.")
        for _ in range(epochs):
            for rows in draw(count, batch_size, order):
                loss = float(np.asarray(step.run({k: v[rows] for k, v in columns.items()})[0]))
                if not len(rows) or (self.is_private and not np.isfinite(loss)):
                    continue
                if not np.isfinite(loss):
                    step.values = before
                    raise TrainingError(f"the loss is {loss}. Lower the learning rate; the weights are those before this call.")
                total, seen = total + loss * len(rows), seen + len(rows)
        return {"examples": count, "loss": total / max(seen, 1)}

    def evaluate(self, data: Columns, *, batch_size: int = 256) -> dict[str, float]:
        """Mean loss and metrics of the present weights in inference mode, and ``examples``.

        Args:
            data: arrays by column.
            batch_size: examples at a time.

        Raises:
            ArgumentError: if the step came from files without ``evaluation``.
        """
        if self.trainer is not None:
            self.trainer.program.set_state_dict(dict(zip(self.names, self.get(), strict=True)))
            metrics = self.trainer.evaluate(dict(data), batch_size=batch_size)
            return {"examples": len(np.asarray(next(iter(data.values())))), **metrics}
        if self._evaluation is None:
            raise ArgumentError("a step in files has no evaluation model. Pass evaluation=, the manifest of such a step.")
        step = self._evaluation
        columns, count = self._columns(data, step)
        step.values.update({name: value for name, value in self._step.values.items() if name in step.values})
        scalars = [i for i, fetch in enumerate(step.manifest["fetches"]) if fetch["shape"] in ([], [1])]
        totals = np.zeros(len(scalars))
        for rows in _rows(count, batch_size, None):
            results = step.run({k: v[rows] for k, v in columns.items()})
            totals += [float(np.asarray(results[i]).reshape(())) * len(rows) for i in scalars]
        names = ["loss", *(step.manifest["fetches"][i]["name"] for i in scalars[1:])]
        return {"examples": count, **{name: float(value) / count for name, value in zip(names, totals, strict=True)}}

    def columns(self, data: Columns) -> tuple[dict[str, Array], int]:
        """The columns that the step takes, in its element types, and their length.

        Args:
            data: arrays by column.

        Raises:
            DataError: if one is missing, of another kind, shape or range, or lengths differ.
        """
        return self._columns(data, self._step)

    @staticmethod
    def _columns(data: Columns, step: _Step) -> tuple[dict[str, Array], int]:
        feeds = {feed["name"]: feed for feed in step.manifest["feeds"]}
        missing = [name for name in feeds if name not in data]
        if missing:
            raise DataError(f"the data lacks {missing}. Give a column for each of {list(feeds)}.")
        columns = {name: as_input(_column(feed), data[name], COLUMN) for name, feed in feeds.items()}
        lengths = {len(column) if column.ndim else 0 for column in columns.values()}
        if len(lengths) != 1 or not min(lengths):
            raise DataError(f"the columns have lengths {sorted(lengths)}. All must have one row per example, and at least one.")
        return columns, lengths.pop()


class _Entry(NamedTuple):
    """How a value of a step looks."""

    name: str
    dtype: DType
    dims: Sequence[int | None] | None


_SENT = COLUMN._replace(what="the array for", owner="this step")


def _column(feed: Mapping[str, Any]) -> _Entry:
    """A column of data, as a manifest describes what a step takes; it may be longer or shorter than a batch"""
    dims = feed["shape"]
    return _Entry(feed["name"], dtype_of(feed["dtype"]), [None, *dims[1:]] if dims else dims)


class _Step(WrittenStep):
    """A written step whose rates, seeds and proximal term are set anew for each round."""

    def __init__(self, source: Any, place: Place, threads: int | None) -> None:
        super().__init__(source, place, threads)
        constants = {e["name"] for e in self.manifest["constants"]}
        self._rates = {name: self.values[name] for name in self.manifest["learning_rate"] if name in constants}

    def begin(self, seed: int, noise_seed: int | None, proximal: float, learning_rate: float | None) -> None:
        drawn = np.random.SeedSequence().entropy if noise_seed is None else noise_seed
        assert isinstance(drawn, int)
        for name, value in ((DROPOUT_SEED, seed % 2**33), (NOISE_SEED, drawn % 2**63)):
            for held in [held for held in self.values if held.startswith(name)]:
                self.values[held] = np.array(value, np.int64)
        self.values.update(self._rates)
        if learning_rate is not None:
            for name in self.manifest["learning_rate"]:
                self.values[name] = np.full_like(self.values[name], learning_rate)
        if proximal and MU not in self.values:
            raise ArgumentError("this step has no proximal term. Write it by federated.save_step, or give its Program or Trainer.")
        if MU in self.values:
            self.values[MU] = np.array(proximal, np.float32)
            for name in [name for name in self.values if name.endswith(ANCHORS)]:
                self.values[name] = self.values[name.removesuffix(ANCHORS)]


def _exported(program: Program, fetch: list[str], proximal: bool, place: Place) -> tuple[ModelProto, dict[str, Any]]:
    return to_training_step(with_proximal(program) if proximal else program, fetch, lowering=place.lowering)


def _name(loss: Variable | str) -> str:
    return loss if isinstance(loss, str) else loss.name


def _rows(count: int, batch_size: int, order: np.random.Generator | None) -> Iterator[Array]:
    if batch_size < 1:
        raise ArgumentError(f"batch_size is at least 1, not {batch_size}.")
    rows = np.arange(count) if order is None else order.permutation(count)
    for start in range(0, count, batch_size):
        yield rows[start : start + batch_size]


def _drawn(count: int, batch_size: int, order: np.random.Generator) -> Iterator[Array]:
    for rows in _rows(count, batch_size, None):
        del rows  # as many steps
        yield np.flatnonzero(order.random(count) < batch_size / count)
