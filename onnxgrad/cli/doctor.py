"""What ``onnxgrad doctor`` does; its arguments are in ``options/doctor.py``."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import parser

from onnxgrad.cli.common import print_json
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.runtime.session import open_model
from onnxgrad.func import value_and_grad
from onnxgrad.internal.processors import usable_cores
from onnxgrad.training.trainer import Trainer
from onnxgrad.version import __version__

_CORE = ("onnx", "onnxruntime", "numpy", "ml_dtypes")
_EXTRAS = {
    "training": ("tqdm", "safetensors"),
    "images": ("PIL",),
    "text": ("tokenizers", "jinja2"),
    "plots": ("matplotlib",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "openvino": ("onnxruntime_ep_openvino",),
}
_MODEL = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 3] y)
<float[4, 3] w = {0.3, -0.2, 0.5, 0.1, 0.4, -0.6, -0.1, 0.2, 0.3, 0.7, -0.5, 0.2}, float[3] b = {0, 0.1, -0.1}> {
    h = MatMul(x, w)  s = Add(h, b)  y = Tanh(s) }"""


def run(options: argparse.Namespace) -> int:
    packages = {name: _version(name) for name in _CORE}
    extras = {name: [m for m in modules if find_spec(m) is None] for name, modules in _EXTRAS.items()}
    tests = [] if options.no_test else [_tried(name, test) for name, test in _TESTS.items()]
    failed = any(row["error"] for row in tests)
    report: dict[str, Any] = {
        "onnxgrad": __version__,
        "python": f"{platform.python_version()} at {sys.executable}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}, {usable_cores()} processors",
        "packages": packages,
        "older_than_required": _too_old(),
        "providers": onnxruntime.get_available_providers(),
        "extras": {name: {"missing": missing} for name, missing in extras.items()},
        "self_test": tests,
    }
    if options.json:
        print_json(report)
        return 1 if failed else 0
    print(f"onnxgrad {__version__}, Python {report['python']}\n{report['system']}")
    print("packages   " + ", ".join(f"{name} {number or 'MISSING'}" for name, number in packages.items()))
    for line in report["older_than_required"]:
        print(f"note: {line}")
    print(f"providers  {', '.join(report['providers'])}")
    for name, missing in extras.items():
        advice = f"no {', '.join(missing)}; pip install 'onnxgrad[{name}]'" if missing else "yes"
        print(f"extra      {name:<12} {advice}")
    for row in tests:
        print(f"self-test  {row['name']}: {row['error'] or 'works'} ({row['seconds']:.2f} s)")
    return 1 if failed else 0


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _too_old() -> list[str]:
    """Requirements of the installed package that what is installed does not meet"""
    try:
        from packaging.requirements import Requirement

        needed = [Requirement(text) for text in requires("onnxgrad") or []]
    except (ImportError, PackageNotFoundError):
        return []  # run from its source
    outdated = []
    for need in needed:
        have = _version(need.name)
        if need.marker is None and have is not None and not need.specifier.contains(have, prereleases=True):
            outdated.append(f"{need.name} {have} is installed, {need.specifier} is needed. pip install -U {need.name}")
    return outdated


def _tried(name: str, test: Callable[[], None]) -> dict[str, Any]:
    began = time.monotonic()
    try:
        test()
        error = ""
    except Exception as raised:  # whatever it is, it is what is asked for
        error = f"FAILED: {type(raised).__name__}: {' '.join(str(raised).split())}"
    return {"name": name, "error": error, "seconds": time.monotonic() - began}


def _gradient() -> None:
    """A gradient agrees with differences."""
    rng = np.random.default_rng(0)
    x, direction = (rng.normal(0, 1, (5, 4)).astype(np.float32) for _ in range(2))
    f = value_and_grad(parser.parse_model(_MODEL), wrt=["x"])
    along = float((f({"x": x})[1]["x"] * direction).sum())
    ends = [float(f({"x": x + np.float32(t) * direction})[0]["y"].sum()) for t in (-1e-2, 1e-2)]
    difference = (ends[1] - ends[0]) / 2e-2
    if not abs(along - difference) <= 1e-2 * max(1.0, abs(along)):
        raise ArithmeticError(f"the gradient is {along:.6g}, finite differences give {difference:.6g}")


def _training() -> None:
    """A few epochs lower the loss, and the exported file computes what the trainer does."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (64, 4)).astype(np.float32)
    data = {"x": x, "target": (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)}
    trainer = Trainer(from_onnx(parser.parse_model(_MODEL)), loss="cross_entropy", learning_rate=0.05)
    rows = trainer.fit(data, 5, batch_size=16, verbose=False)
    if not rows[-1]["loss"] < rows[0]["loss"]:
        raise ArithmeticError(f"the loss went from {rows[0]['loss']:.4g} to {rows[-1]['loss']:.4g}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trained.onnx"
        trainer.export(path)
        session = open_model(path)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], trainer.predict({"x": x})["y"], rtol=1e-5, atol=1e-6)


_TESTS: dict[str, Callable[[], None]] = {"a gradient against differences": _gradient, "training and export": _training}
