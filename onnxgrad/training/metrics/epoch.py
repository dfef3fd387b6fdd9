"""Metrics of all examples together: by counts exactly, by scikit-learn of all scores, and by the neighbours of all embeddings.

Tests: tests/training/metrics/test_epoch.py, tests/training/test_characters.py, tests/training/run/test_plan.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.training.data.rows import Parts
from onnxgrad.training.metrics.detection import AveragePrecision
from onnxgrad.training.metrics.events import Events
from onnxgrad.training.surgery.activations import score_threshold

__all__ = ["WHOLE", "EpochMetric", "epoch_metric"]

Array = np.ndarray[Any, Any]
WHOLE = re.compile(
    r"auc|average_precision|cer|dice|f1|iou|map|map50|mean_iou|mrr|perplexity|precision|r2|recall(@[1-9]\d*)?|rmse|spearman"
    r"|wer(:\d+)?|(false_accepts|misses)(@0?\.\d+)?"
)
FALLING = re.compile(r"(val_)?(loss|mae|mse|rmse|perplexity|cer|wer(:\d+)?|(false_accepts|misses)(@0?\.\d+)?)")
"""Names of what is better when it is smaller."""
_OF_EVENTS = ("false_accepts", "misses")
_BLOCK = 1024
"""Embeddings that are compared with all others at a time."""


class EpochMetric:
    """One number of all examples.

    Args:
        name: one that ``WHOLE`` matches.
        kind: type of the operator that made the scores (Softmax, LogSoftmax, Sigmoid); empty for logits.
        steps_first: of ``cer`` and ``wer``, whether the scores are [steps, batch, classes].

    Raises:
        ArgumentError: if ``wer`` lacks the label of the space.

    Example:
        >>> metric = EpochMetric("f1")
        >>> metric.add(np.array([[2.0, 1], [0, 3], [1, 2]]), np.array([0, 1, 0]))
        >>> round(metric.value(), 4)
        0.6667
    """

    def __init__(self, name: str, kind: str = "", steps_first: bool = False) -> None:
        self.name, sign, number = name.partition("@" if "@" in name else ":")
        self.events = Events(float(number or 0.5), kind) if self.name in _OF_EVENTS else None
        number = number if self.events is None else ""
        self.nearest, space = (int(number), "") if sign == "@" and number else (0, number)
        self.kind, self.steps_first = kind, steps_first
        if self.name == "wer" and not space:
            raise ArgumentError("wer needs the label that stands between words: 'wer:1' where that is 1.")
        self.space = int(space) if space else -1
        self.totals: dict[str, Any] = {}
        self.scores: list[Array] = []
        self.targets: list[Array] = []
        self.pictures: list[AveragePrecision] = []

    def add(self, y: Any, target: Any) -> None:
        """Count a batch: scores with classes along axis 1, or a single score, and their targets; of ``map`` and ``map50`` for each
        picture its detections [D, 6] and its objects [M, 5], as ``AveragePrecision`` takes them."""
        if self.events is not None:
            raise DataError(f"{self.name} counts events in sounds, and the data has no sounds. Give sounds, or leave it out.")
        if self.name in ("map", "map50"):
            self.pictures.append(AveragePrecision())
            for detections, objects in zip(y, target, strict=True):
                self.pictures[-1].add(detections, objects)
            return
        y = np.asarray(y, np.float64)
        if self.name in ("mrr", "spearman") or self.nearest:
            self.scores.append(y)
            self.targets.append(np.asarray(target))
        elif self.name in ("cer", "wer"):
            self._sequences(y, target)
        elif self.name in ("rmse", "r2"):
            target = np.asarray(target, np.float64).reshape(y.shape)
            rows = (("count", y.size), ("error", ((y - target) ** 2).sum()), ("sum", target.sum()), ("square", (target**2).sum()))
            for key, value in rows:
                self.totals[key] = self.totals.get(key, 0.0) + float(value)
        elif self.name == "perplexity":
            self._likelihood(y, target)
        elif self.name in ("auc", "average_precision"):
            self._keep(y, target)
        else:
            self._confusion(y, target)

    def add_parts(self, y: Any, target: Any, parts: Parts) -> None:
        """Count examples in parts: scores and targets of each part, as for ``add``, and which belong together."""
        if self.events is not None:
            self.events.add(np.asarray(y), np.asarray(target), parts)
        else:
            self.add(parts.joined(np.asarray(y)), np.asarray(target)[parts.firsts])

    def state(self) -> dict[str, Array]:
        """Give what ``add`` has counted or kept as arrays by name, which ``take`` takes."""
        arrays = {f"totals/{key}": np.asarray(total) for key, total in self.totals.items()}
        for number, (scores, targets) in enumerate(zip(self.scores, self.targets, strict=True)):
            arrays[f"scores/{number}"] = scores
            # no file of numpy's knows the types of ml_dtypes
            arrays[f"targets/{number}"] = targets.astype(np.float64) if targets.dtype.kind == "V" else targets
        for number, pictures in enumerate(self.pictures):
            arrays.update({f"pictures/{number}/{key}": array for key, array in pictures.state().items()})
        return arrays

    def take(self, states: Sequence[Mapping[str, Array]]) -> None:
        """Replace what was added by what several have added in turns: the first one the first batch, the next one the next.

        Args:
            states: of each, in their order.

        Example:
            >>> metric, other = EpochMetric("f1"), EpochMetric("f1")
            >>> metric.add(np.array([[2.0, 1], [0, 3]]), np.array([0, 1]))
            >>> other.add(np.array([[1.0, 2]]), np.array([0]))
            >>> metric.take([metric.state(), other.state()])
            >>> round(metric.value(), 4)
            0.6667
        """
        self.totals, self.scores, self.targets, self.pictures = {}, [], [], []
        for state in states:
            for key in (name for name in state if name.startswith("totals/")):
                name = key.removeprefix("totals/")
                self.totals[name] = self.totals.get(name, 0) + state[key]
        batches = {int(name.split("/")[1]) for state in states for name in state if not name.startswith("totals/")}
        for number in sorted(batches):
            for state in states:
                if f"scores/{number}" in state:
                    self.scores.append(state[f"scores/{number}"])
                    self.targets.append(state[f"targets/{number}"])
                of_pictures = f"pictures/{number}/"
                pictures = {key.removeprefix(of_pictures): state[key] for key in state if key.startswith(of_pictures)}
                if pictures:
                    self.pictures.append(AveragePrecision())
                    self.pictures[-1].merge(pictures)

    def value(self) -> float:
        """The metric of all that was added.

        Raises:
            DataError: if the data does not define it.
        """
        value = self._recall_at(self.nearest) if self.nearest else getattr(self, f"_{self.name}")()
        if not np.isfinite(value):
            raise DataError(f"the metric {self.name} is not defined for this data: a class or a label is missing. Leave it out.")
        return float(value)

    def _false_accepts(self) -> float:
        assert self.events is not None
        return self.events.false_accepts()

    def _misses(self) -> float:
        assert self.events is not None
        return self.events.misses()

    def _map(self) -> float:
        return self._of_pictures().value()

    def _map50(self) -> float:
        return self._of_pictures().value(0.5)

    def _of_pictures(self) -> AveragePrecision:
        whole = AveragePrecision()
        for pictures in self.pictures:
            whole.merge(pictures.state())
        return whole

    # Counts ------------------------------------------------------------------------------------------------------------

    def _confusion(self, y: Array, target: Array) -> None:
        """Count targets (rows) and predictions (columns); a single score is compared with the threshold of its activation.

        Several masks [batch, masks, ...] that do not exclude each other are counted for each, under its number.
        """
        if self.name == "mean_iou" and y.ndim == np.ndim(target) > 2 and y.shape[1] > 1:
            for k in range(y.shape[1]):
                self._count_pairs(str(k), y[:, k : k + 1], np.asarray(target)[:, k : k + 1])
        else:
            self._count_pairs("pairs", y, np.asarray(target))

    def _count_pairs(self, key: str, y: Array, target: Array) -> None:
        if y.ndim == target.ndim + 1 and y.shape[1] > 1:
            classes, predictions = y.shape[1], y.argmax(axis=1).reshape(-1)
        else:
            classes, predictions = 2, (y.reshape(-1) > score_threshold(self.kind)).astype(np.int64)
        truth = target.reshape(-1)
        truth = (truth > 0.5).astype(np.int64) if classes == 2 and truth.dtype.kind == "f" else truth.astype(np.int64)
        kept = truth != -100
        pairs = np.bincount(truth[kept] * classes + predictions[kept], minlength=classes * classes).reshape(classes, classes)
        self.totals[key] = self.totals.get(key, 0) + pairs

    def shares(self) -> dict[int, float]:
        """The intersection over the union of each class that occurs, of ``mean_iou``; of several masks, of each that occurs."""
        shares: dict[int, float] = {}
        for key, pairs in self.totals.items():
            right, both = np.diag(pairs), pairs.sum(axis=0) + pairs.sum(axis=1)
            ratio = right / np.maximum(both - right, 1)
            kinds = {k: k for k in range(len(right))} if key == "pairs" else {int(key): 1}
            shares |= {kind: float(ratio[k]) for kind, k in kinds.items() if both[k] > 0}
        return shares

    def _mean_iou(self) -> float:
        """The mean over all classes that occur, of two classes both"""
        shares = self.shares()
        return float(np.mean(list(shares.values()))) if shares else float("nan")

    def _of_classes(self, ratio: Callable[[Array, Array, Array], Array]) -> float:
        """Return the score of class 1 of two, else the mean over the classes that occur, from the counts of each class"""
        pairs = self.totals["pairs"].astype(np.float64)
        right = np.diag(pairs)
        wrong, missed = pairs.sum(axis=0) - right, pairs.sum(axis=1) - right
        scores = ratio(right, wrong, missed)
        occurs = right + wrong + missed > 0
        return float(scores[1]) if len(scores) == 2 else float(scores[occurs].mean())

    def _precision(self) -> float:
        return self._of_classes(lambda right, wrong, missed: right / np.maximum(right + wrong, 1))

    def _recall(self) -> float:
        return self._of_classes(lambda right, wrong, missed: right / np.maximum(right + missed, 1))

    def _f1(self) -> float:
        return self._of_classes(lambda right, wrong, missed: 2 * right / np.maximum(2 * right + wrong + missed, 1))

    def _iou(self) -> float:
        return self._of_classes(lambda right, wrong, missed: right / np.maximum(right + wrong + missed, 1))

    _dice = _f1

    def _rmse(self) -> float:
        return float(np.sqrt(self.totals["error"] / self.totals["count"]))

    def _r2(self) -> float:
        spread = self.totals["square"] - self.totals["sum"] ** 2 / self.totals["count"]
        return float("nan") if spread <= 0 else 1 - self.totals["error"] / spread

    def _likelihood(self, y: Array, target: Array) -> None:
        if y.ndim != target.ndim + 1:
            raise ArgumentError("perplexity is for class scores with a label for each. Leave it out.")
        log = self._probabilities(y, log=True)
        truth = np.expand_dims(np.where(target == -100, 0, target), 1)
        picked = np.take_along_axis(log, truth, axis=1)[:, 0][target != -100]
        self.totals["nll"] = self.totals.get("nll", 0.0) - float(picked.sum())
        self.totals["count"] = self.totals.get("count", 0) + picked.size

    def _perplexity(self) -> float:
        return float(np.exp(self.totals["nll"] / self.totals["count"])) if self.totals["count"] else float("nan")

    def _probabilities(self, y: Array, log: bool = False) -> Array:
        """Return probabilities from scores along axis 1"""
        if self.kind == "Softmax":
            return np.log(np.maximum(y, 1e-300)) if log else y
        moved = y - y.max(axis=1, keepdims=True)
        log_p: Array = moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))
        return log_p if log else np.exp(log_p)

    # Embeddings --------------------------------------------------------------------------------------------------------

    def _ranks(self) -> Array:
        """For each row that has another of its group, which is at least 0: how many rows of others are nearer by cosine, or as
        near, than the nearest of its group"""
        y, group = np.concatenate(self.scores), np.concatenate(self.targets)
        if y.ndim != 2 or group.ndim != 1:
            raise ArgumentError(
                "recall@K and mrr are for embeddings [rows, size] with a number of the group for each. Leave them out."
            )
        unit = y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-6)
        ranks = []
        for first in range(0, len(unit), _BLOCK):
            near = unit[first : first + _BLOCK] @ unit.T
            same = group[first : first + _BLOCK, None] == group
            rows = np.arange(len(near))
            near[rows, first + rows] = -np.inf
            best = np.where(same, near, -np.inf).max(axis=1, initial=-np.inf)
            ahead = ((near >= best[:, None]) & ~same).sum(axis=1)
            ranks.append(ahead[np.isfinite(best) & (group[first : first + _BLOCK] >= 0)])
        return np.concatenate(ranks)

    def _recall_at(self, count: int) -> float:
        ranks = self._ranks()
        return float((ranks < count).mean()) if len(ranks) else float("nan")

    def _mrr(self) -> float:
        ranks = self._ranks()
        return float((1 / (ranks + 1)).mean()) if len(ranks) else float("nan")

    def _spearman(self) -> float:
        """Of one output against its target, or of embeddings the cosines of rows 2 i and 2 i + 1 against their scores"""
        y, target = np.concatenate(self.scores), np.concatenate(self.targets).astype(np.float64)
        if y.ndim == 2 and target.ndim == 1 and y.shape[1] > 1:
            if len(y) % 2:
                raise ArgumentError("spearman of embeddings is for pairs: rows 2 i and 2 i + 1. Leave it out.")
            unit = y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-6)
            y, target = (unit[0::2] * unit[1::2]).sum(axis=1), target[0::2]
        if y.size != target.size:
            raise ArgumentError("spearman is for one number for each example, or for embeddings of pairs. Leave it out.")
        places = [_places(values.reshape(-1)) for values in (y, target)]
        a, b = (place - place.mean() for place in places)
        spread = np.sqrt((a**2).sum() * (b**2).sum())
        return float((a * b).sum() / spread) if spread else float("nan")

    # Sequences ---------------------------------------------------------------------------------------------------------

    def _sequences(self, y: Array, target: Array) -> None:
        """Edits that turn the best path, without repeats and blanks (0), into the labels (those above -1), and their number"""
        best = (y.transpose(1, 0, 2) if self.steps_first else y).argmax(axis=2)
        for row, labels in zip(best, target, strict=True):
            path = row[np.concatenate([[True], row[1:] != row[:-1]])]
            decoded, truth = path[path > 0].tolist(), labels[labels >= 0].tolist()
            if self.name == "wer":
                decoded, truth = _split_words(decoded, self.space), _split_words(truth, self.space)
            self.totals["edits"] = self.totals.get("edits", 0) + _rapidfuzz().distance(decoded, truth)
            self.totals["count"] = self.totals.get("count", 0) + len(truth)

    def _cer(self) -> float:
        return self.totals["edits"] / self.totals["count"] if self.totals["count"] else float("nan")

    _wer = _cer

    # All scores --------------------------------------------------------------------------------------------------------

    def _keep(self, y: Array, target: Array) -> None:
        if y.ndim == target.ndim + 1 and y.shape[1] > 1:
            y = self._probabilities(np.moveaxis(y, 1, -1).reshape(-1, y.shape[1]))
            target = target.reshape(-1)
            y, target = (y[:, 1] if y.shape[1] == 2 else y)[target != -100], target[target != -100]
        elif y.ndim == 2 and y.shape[1] > 1:
            target = np.asarray(target) > 0.5
        else:
            y, target = y.reshape(-1), np.asarray(target).reshape(-1) > 0.5
        self.scores.append(y)
        self.targets.append(np.asarray(target))

    def _auc(self) -> float:
        y, target = np.concatenate(self.scores), np.concatenate(self.targets)
        if y.ndim == 2 and target.ndim == 1:
            present = np.unique(target)
            if len(present) < y.shape[1]:
                return float("nan")
            return float(_sklearn().roc_auc_score(target, y, multi_class="ovr", average="macro"))
        if len(np.unique(target)) < 2:
            return float("nan")
        return float(_sklearn().roc_auc_score(target, y))

    def _average_precision(self) -> float:
        y, target = np.concatenate(self.scores), np.concatenate(self.targets)
        if y.ndim == 2 and target.ndim == 1:
            target = target[:, None] == np.arange(y.shape[1])
        if not target.any(axis=0).all():
            return float("nan")
        return float(_sklearn().average_precision_score(target, y))


def epoch_metric(name: str, kind: str = "", steps_first: bool = False) -> EpochMetric:
    """A metric of all examples together, empty.

    Raises:
        OnnxGradError: if the package that computes it is missing: scikit-learn, or rapidfuzz for edits.
    """
    if name in ("auc", "average_precision"):
        _sklearn()
    elif name.startswith(("cer", "wer")):
        _rapidfuzz()
    return EpochMetric(name, kind, steps_first)


def _places(values: Array) -> Array:
    """The place of each value in their order; equal ones share the mean of theirs"""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    places: Array = (last - (counts - 1) / 2)[which]
    return places


def _sklearn() -> Any:
    try:
        import sklearn.metrics
    except ImportError as error:
        raise OnnxGradError("auc and average_precision need the package scikit-learn. Install onnxgrad[metrics].") from error
    return sklearn.metrics


def _rapidfuzz() -> Any:
    """Edit distances of sequences (Levenshtein 1966)."""
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise OnnxGradError("cer and wer need the package rapidfuzz. Install onnxgrad[metrics].") from error
    return Levenshtein


def _split_words(labels: list[int], space: int) -> list[tuple[int, ...]]:
    split: list[list[int]] = [[]]
    for label in labels:
        if label == space:
            split.append([])
        else:
            split[-1].append(label)
    return [tuple(word) for word in split if word]
