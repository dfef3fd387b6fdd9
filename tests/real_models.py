"""The exporter-made models in tests/data/real_models, with what is known about them."""

import json
from pathlib import Path

import numpy as np

from onnxgrad import Program, Variable, add_n, from_onnx, mean, static

FOLDER = Path(__file__).parent / "data" / "real_models"
ALL = sorted(path.parent for path in FOLDER.glob("*/*/model.onnx"))
WITH_REFERENCE = [folder for folder in ALL if (folder / "ref.npz").exists()]

# onnxruntime refuses this file at run time: RotaryEmbedding wants cos and sin caches with the batch of its input.
REFUSED_BY_ONNXRUNTIME = {"qwen3_sdpa-dyn23"}


class RealModel:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "model.onnx"
        self.meta = json.loads((folder / "meta.json").read_text())
        with np.load(folder / "feed.npz") as file:
            self.feed = dict(file)
        self.target = self.feed.pop("__target", None)
        reference = folder / "ref.npz"
        if reference.exists():
            with np.load(reference) as file:
                self.reference = dict(file)

    def gradients(self) -> dict[str, np.ndarray]:
        """Reference gradients by name of initializer or input."""
        return {key.split(":", 1)[1]: value for key, value in self.reference.items() if key.startswith(("grad:", "gradin:"))}

    def trained(self) -> tuple[Program, list[Variable]]:
        """The file in training mode, and the mean of its squared outputs with its gradients by all weights."""
        program = from_onnx(self.path)
        program.train()
        with static.program_guard(program):
            loss = add_n([mean(y * y) for y in program.outputs if y.is_float])
            pairs = static.append_backward(loss)
        return program, [loss, *(g for _, g in pairs)]

    def copies_of(self, name: str) -> list[str]:
        """All initializers that hold the same tied parameter."""
        for first, others in (self.meta.get("shared") or {}).items():
            if name in (first, *others):
                return list(dict.fromkeys([first, *others]))
        return [name]
