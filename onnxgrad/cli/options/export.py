"""Write the model of a run: for inference, as a training step for any onnxruntime, or its LoRA adapters alone.

Adapters of float weights are merged into the weights. Adapters of quantised weights stay branches in --inference;
--merged stores these weights in float and merges the adapters, and --requantise quantises them again.

examples:
  onnxgrad export run/ --inference tuned.onnx
  onnxgrad export run/ --inference small.onnx --fold
  onnxgrad export run/ --inference quantised.onnx --observe train.npz
  onnxgrad export run/ --checkpoint last --training-step step.onnx
  onnxgrad export run/ --training-step step.onnx --lowering cpu
  onnxgrad export run/ --training-step step.onnx --required-operators step.config
  onnxgrad export run/ --training-step step.onnx --split --batch-norm sync
  onnxgrad export run/ --merged merged.onnx
  onnxgrad export run/ --adapters adapters.safetensors
  onnxgrad export run/ --adapters adapters.onnx_adapter
  onnxgrad export run/ --peft adapter/ --peft-base Qwen/Qwen2.5-0.5B-Instruct
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_lowering

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="folder of a run of onnxgrad train")
    parser.add_argument("--checkpoint", default="best", help="best (default), last, or the path of a checkpoint")
    parser.add_argument("--inference", metavar="FILE.onnx", help="write the inference model with its trained weights")
    parser.add_argument(
        "--merged",
        metavar="FILE.onnx",
        help="write the inference model with adapters of quantised weights merged into float weights",
    )
    parser.add_argument("--requantise", action="store_true", help="with --merged: quantise these weights again")
    parser.add_argument("--fold", action="store_true", help="fold BatchNormalization into the layers before it")
    parser.add_argument("--observe", metavar="DATA.npz", help="set the scales of a QDQ file by the activations of these inputs")
    parser.add_argument("--training-step", metavar="FILE.onnx", help="write one training step, and its manifest as .json")
    parser.add_argument(
        "--required-operators",
        metavar="FILE",
        help="with --training-step: write the list of its operators for a reduced build of onnxruntime",
    )
    parser.add_argument("--split", action="store_true", help="with --training-step: write gradients and update as two models")
    parser.add_argument(
        "--batch-norm",
        choices=["sync", "frozen", "local"],
        help="with --split: BatchNormalization normalises by the whole batch (sync), each part (local), or its statistics (frozen)",
    )
    add_lowering(parser, "the training step")
    parser.add_argument(
        "--adapters",
        metavar="FILE",
        help="write only the LoRA adapters: .safetensors, or .onnx_adapter for onnxruntime together with the .onnx model "
        "that loads it",
    )
    parser.add_argument("--peft", metavar="FOLDER", help="write the LoRA adapters for PEFT's PeftModel.from_pretrained")
    parser.add_argument(
        "--peft-base",
        metavar="MODEL",
        help="with --peft: name or folder of the PyTorch model; the config.json of a folder lists its packed modules",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
