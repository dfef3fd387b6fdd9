"""The workloads in onnxruntime's own on-device training, from the forward model that onnxgrad writes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.training.api import CheckpointState, Module, Optimizer

from benchmark_suite.systems import Setting
from benchmark_suite.workloads import Workload


class Runner:
    """A training step as in its examples: train_step, optimizer step, reset of the gradients."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        name, rate = workload.optimizer
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = setting.threads
        with tempfile.TemporaryDirectory() as folder:
            # In a process of its own, as its memory is not that of a step.
            command = [sys.executable, "-m", __name__, setting.model, folder, name]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
            path = Path(folder)
            state = CheckpointState.load_checkpoint(str(path / "checkpoint"))
            self._module = Module(str(path / "training_model.onnx"), state, session_options=options)
            self._optimizer = Optimizer(str(path / "optimizer_model.onnx"), self._module)
        self._optimizer.set_learning_rate(rate)
        self._module.train()
        self._names = self._module.input_names()

    def step(self, feed: Any) -> Any:
        loss = self._module(*(feed[name] for name in self._names))
        self._optimizer.step()
        self._module.lazy_reset_grad()
        return loss

    def feed(self, arrays: dict[str, Any]) -> Any:
        return arrays


_READ_BY_GRADIENTS = {"SoftmaxCrossEntropyLoss": 2, "LayerNormalization": 3}
"""How many outputs an operator must have, as its gradient there reads them all."""


def _write_artifacts(model: str, folder: str, optimizer: str) -> None:
    """Write the graphs of the gradients and of the optimizer."""
    import onnx
    from onnxruntime.training import artifacts, onnxblock

    loaded = onnx.load(model)
    for node in loaded.graph.node:
        wanted = _READ_BY_GRADIENTS.get(node.op_type, 0)
        node.output.extend(f"{node.output[0]}.{number}" for number in range(len(node.output), wanted))
        if node.op_type == "LSTM":
            # The gradient's inputs are shifted where the forward operator has no first state.
            batch, hidden = loaded.graph.input[0].type.tensor_type.shape.dim[1].dim_value, node.attribute[0].i
            zeros = onnx.numpy_helper.from_array(np.zeros((1, batch, hidden), np.float32), "const_zeros")
            loaded.graph.initializer.append(zeros)
            node.input.extend(["", zeros.name, zeros.name])
    artifacts.generate_artifacts(
        loaded,
        requires_grad=[weight.name for weight in loaded.graph.initializer if not weight.name.startswith("const_")],
        optimizer=onnxblock.optim.AdamW(eps=1e-8) if optimizer == "Adam" else onnxblock.optim.SGD(),
        artifact_directory=folder,
    )


if __name__ == "__main__":
    _write_artifacts(*sys.argv[1:])
