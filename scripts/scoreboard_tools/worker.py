"""Runs one adapter over cases, in the environment of its tool: worker.py ADAPTER CASES RESULTS < names of cases.

For each case NAME a file RESULTS/NAME.json says what came of it, and RESULTS/NAME.npz holds the gradients. A crash ends this
process; scripts/scoreboard counts it for the case that has no result and starts a new process behind it.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import warnings
from pathlib import Path

# Beside this file stand adapters whose names are those of the tools they import.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402

from scoreboard_tools.shared import CannotLoad, read_values, write_values  # noqa: E402


def main(adapter: str, cases: Path, results: Path) -> None:
    warnings.simplefilter("ignore")
    tool = importlib.import_module(f"scoreboard_tools.{adapter}")
    (results / "started").touch()
    for name in sys.stdin.read().split():
        folder = cases / name
        try:
            with np.errstate(all="ignore"):
                inputs, cotangents = read_values(folder / "inputs.npz"), read_values(folder / "cotangents.npz")
                grads = tool.gradients(folder / "model.onnx", inputs, cotangents, json.loads((folder / "weights.json").read_text()))
            write_values(results / f"{name}.npz", grads)
            said = {"status": "gradients", "message": ""}
        except CannotLoad as error:
            said = {"status": "cannot load", "message": str(error)}
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = {"status": "refused", "message": f"{type(error).__name__}: {error} ({Path(place.filename).name})"}
        part = results / f"{name}.part"
        part.write_text(json.dumps(said))
        part.rename(results / f"{name}.json")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
