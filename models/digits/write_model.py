"""Write digits.onnx: an untrained convolutional classifier of 8x8 digits, built with the static API alone.

Usage: python models/digits/write_model.py
"""

from __future__ import annotations

from pathlib import Path

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static

PATH = Path(__file__).with_name("digits.onnx")


def build() -> static.Program:
    """The classifier as an initialised program for inference; its output is called ``logits``."""
    paddle.seed(7)
    main, startup = static.Program(), static.Program()
    with paddle.state.fresh_names(), static.program_guard(main, startup):
        image = static.data("image", ["batch", 1, 8, 8], "float32")
        x = image
        for filters in (32, 64):
            x = static.nn.conv2d(x, filters, 3, padding=1, bias_attr=False)
            x = static.nn.batch_norm(x, act="relu")
        x = F.max_pool2d(x, 2)
        x = static.nn.fc(x, size=128, activation="relu")
        x = F.dropout(x, 0.3)
        logits = static.nn.fc(x, size=10)
    logits.name = "logits"
    static.Executor().run(startup)
    inference = main.clone(for_test=True)
    inference.global_block().outputs.append(inference.global_block().var("logits"))
    return inference


if __name__ == "__main__":
    with static.scope_guard(static.Scope()):
        paddle.save_onnx(build(), PATH)
    print(f"wrote {PATH.name}")
