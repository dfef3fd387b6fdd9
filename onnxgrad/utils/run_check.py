"""run_check: whether training works on this machine.

Tests: tests/paddle_suite/test_layers.py.
"""

from __future__ import annotations

import numpy as np
import onnxruntime

from onnxgrad.core.ir.defaults import program_guard
from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace, Place, cuda_is_available
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import TrainingError
from onnxgrad.internal import state
from onnxgrad.nn.functional import mse_loss
from onnxgrad.optimizer import SGD
from onnxgrad.static.input import data
from onnxgrad.static.nn.common import fc
from onnxgrad.version import __version__

__all__ = ["run_check"]


def run_check() -> None:
    """Fit a line on each device that onnxruntime has here, and say so.

    Raises:
        TrainingError: if the line is not found.

    Example:
        >>> paddle.utils.run_check()  # doctest: +ELLIPSIS
        onnxgrad ... trains on Place(cpu) by onnxruntime ...
    """
    for place in (CPUPlace(), *([CUDAPlace(0)] if cuda_is_available() else [])):
        slope = _fitted(place)
        if not abs(slope - 2.0) < 0.01:
            raise TrainingError(f"on {place} a line of slope 2 is fitted by {slope:.3f}. Is onnxruntime whole? Install it again.")
        print(f"onnxgrad {__version__} trains on {place} by onnxruntime {onnxruntime.__version__}.")


def _fitted(place: Place) -> float:
    main, startup = Program(), Program()
    main.scope = startup.scope = Scope()
    with state.guard(static_mode=True), program_guard(main, startup):
        x = data("x", [None, 1])
        line = fc(x, 1)
        SGD(0.5).minimize(mse_loss(line, x * 2.0))
        executor = Executor(place)
        executor.run(startup)
        numbers = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
        for _ in range(40):
            executor.run(main, {"x": numbers})
        return float(main.all_parameters()[0].get_value().item())
