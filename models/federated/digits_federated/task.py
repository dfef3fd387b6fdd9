"""What server and clients share: the model with its loss, and who has which images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from onnxgrad.training import Trainer

CLIENTS = 5


def trainer(model: str | Path, learning_rate: float) -> Trainer:
    """The classifier with its loss; statistics of BatchNormalization are learned, so they travel with the weights."""
    return Trainer(
        model, loss="cross_entropy", metrics=["accuracy"], optimizer="adam", learning_rate=learning_rate, batch_norm="train"
    )


def columns(images: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    return {"image": images, "target": labels}


def all_digits() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Columns for training, and held-out ones that only the server has."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    split = train_test_split(images, labels.astype(np.int64), test_size=0.2, stratify=labels, random_state=0)
    return columns(split[0], split[2]), columns(split[1], split[3])


def rows_of(labels: np.ndarray, clients: int = CLIENTS, concentration: float = 0.3, seed: int = 1) -> list[np.ndarray]:
    """Which examples each client has: of every label, shares drawn from a Dirichlet distribution.

    Small concentrations give clients few labels and very different sizes (Hsu, Qi and Brown, 2019, arXiv:1909.06335).
    """
    draw = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        rows = draw.permutation(np.flatnonzero(labels == label))
        ends = np.round(np.cumsum(draw.dirichlet(np.full(clients, concentration))) * len(rows)).astype(int)
        for part, chosen in zip(parts, np.split(rows, ends[:-1]), strict=True):
            part.append(chosen)
    return [np.sort(np.concatenate(part)) for part in parts]


def part_of(number: int) -> dict[str, np.ndarray]:
    """The columns of one client."""
    data, _ = all_digits()
    rows = rows_of(data["target"])[number]
    return {name: column[rows] for name, column in data.items()}
