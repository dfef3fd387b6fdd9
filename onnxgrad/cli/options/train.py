"""Train a model on arrays, tables, images or text, and write checkpoints and history to a folder.

Arrays and columns are named after the inputs of the model, and the target. Ctrl-C or SIGTERM writes a checkpoint and ends the run.

examples:
  onnxgrad train m.onnx --data train.npz --target y --loss cross_entropy --out run/
  onnxgrad train m.onnx --data train.npz --val val.npz --target y --loss cross_entropy --optimizer adamw --lr 1e-3
      --schedule cosine --epochs 5 --batch-size 64 --metric accuracy --patience 3 --train 'head.*' --out run/
  onnxgrad train m.onnx --data photos/ --val 0.1 --out run/
  onnxgrad train m.onnx --data pictures/ --val 0.2 --task segment --flip --out run/
  onnxgrad train m.onnx --data photos/ --val 0.1 --flip --loss cross_entropy --metric accuracy --out run/
  onnxgrad train m.onnx --data measured.csv --val 0.2 --target price --loss mse --out run/
  onnxgrad train m.onnx --data train.npz --target y --loss mse --lora 8 --out run/
  onnxgrad train m.onnx --data train.npz --term cross_entropy class label 1 --term mse box corners 0.5 --out run/
  onnxgrad train qwen.onnx --lora 8 --on '*q_proj*,*v_proj*' --loss causal_lm --data chat.jsonl --tokenizer tokenizer.json
      --max-length 256 --batch-size 4 --out run/
  onnxgrad train m.onnx --data photos/ --val 0.1 --loss cross_entropy --metric accuracy --teacher big.onnx --out run/
  onnxgrad train m.onnx --data photos/ --val 0.1 --loss cross_entropy --metric accuracy --qat int8 --out run/
  onnxgrad train detector.onnx --data data.yaml --val data.yaml --task detect --out run/
  onnxgrad train m.onnx --data photos/ --loss cross_entropy --preview first.html
  onnxgrad train m.onnx --data photos/ --loss cross_entropy --find-lr rates.png
  onnxgrad train --config settings.toml --lr 1e-4 --out run2/
  onnxgrad train --resume run/ --more-epochs 2
  onnxgrad train run/ --data more_photos/ --val 0.1 --lr 1e-4 --out run2/
  mpiexec -n 4 onnxgrad train m.onnx --data train.npz --target y --loss cross_entropy --out run/
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
from typing import Any, get_args

from onnxgrad.cli.options.shared import add_data, add_sizes, parse_bytes
from onnxgrad.internal.words import (
    DETECTION,
    EPOCH_METRICS,
    BatchMetric,
    Compression,
    LoggerName,
    LossName,
    OptimizerName,
    OutputLayout,
    QuantizedMode,
    ScheduleName,
    TaskName,
)

__all__ = ["LARGE", "MANY", "add_arguments"]

MANY, LARGE = 10_000, 16
"""Examples, and batches of them, from which on statistics of batches are better than those of the file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", help="path of an .onnx file, or folder of an earlier run, whose best model is taken")
    parser.add_argument(
        "--config", metavar="FILE", help="options from a .toml or .json file, such as a run's settings.json; others overrule them"
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder for checkpoints and history; it must not hold a run yet")
    parser.add_argument(
        "--resume",
        metavar="FOLDER",
        help="resume the run in this folder; only --epochs, --more-epochs, --accept-changed-data, --log, --json and those of a "
        "pipeline go with it",
    )
    parser.add_argument(
        "--accept-changed-data", action="store_true", help="with --resume: although a data file is not what the run was trained on"
    )
    parser.add_argument("--explain", action="store_true", help="print all notes on how model and data are understood")
    parser.add_argument("--json", action="store_true", help="print lines of JSON: progress every two seconds, and each epoch")
    parser.add_argument("--expand", choices=["com.microsoft"], help="rewrite onnxruntime's own operators as standard ones")
    parser.add_argument("--threads", type=int, help="threads per operator (intra-op)")
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="cpu, cuda:NUMBER, openvino, or auto: the fastest by the first steps (default cpu; with --resume, that of the run)",
    )
    parser.add_argument(
        "--precision",
        choices=["f32", "fast", "bf16"],
        default="f32",
        help="fast: convolutions in forms that round more and take less time, on the CPU; bf16: products on the device openvino",
    )
    parser.add_argument("--amp", choices=["bf16"], help="compute in bfloat16 where that is safe; weights stay in float32")
    _add_memory(parser.add_argument_group("memory"))
    _add_data(parser.add_argument_group("data"))
    _add_loss(parser.add_argument_group("loss and optimizer"))
    _add_choice(parser.add_argument_group("what trains"))
    _add_loop_options(parser.add_argument_group("training loop"))
    _add_ranks(parser.add_argument_group("several processes (mpiexec -n 4 onnxgrad train ...)"))


def _add_data(group: Any) -> None:
    add_data(group)
    group.add_argument("--target", help="array with the targets (default target, for causal_lm labels)")
    group.add_argument(
        "--compare",
        type=int,
        metavar="N",
        help="at the end, answer the first N chats of --data before and after training, also in the report",
    )
    group.add_argument(
        "--preview", metavar="PAGE.html", help="train nothing: write a page with the first batch as the model reads it"
    )
    group.add_argument("--batch-size", type=int, default=32, help="examples per batch (default %(default)s)")
    group.add_argument("--drop-last", action="store_true", help="drop the last batch if it is smaller")
    group.add_argument("--no-shuffle", action="store_true", help="do not shuffle the training data")


def _add_loss(group: Any) -> None:
    group.add_argument(
        "--task", choices=get_args(TaskName), help="what is to be learned (default: what the data holds and the output gives)"
    )
    group.add_argument(
        "--loss", choices=sorted([*get_args(LossName), DETECTION]), help="loss to minimize (default: that of the task)"
    )
    group.add_argument(
        "--output",
        "--of",
        dest="of",
        metavar="OUTPUT",
        help="output or other tensor that the loss reads, also bent: 'logits.transpose(1,0,2)' with transpose, reshape, squeeze, "
        "softmax, argmax, logit (of probabilities), mean (over the tokens that an input counts: 'hidden.mean(attention_mask)') "
        "and slices (default: the first output that is no cache)",
    )
    group.add_argument(
        "--term",
        nargs=4,
        action="append",
        metavar=("LOSS", "OUTPUT", "TARGET", "WEIGHT"),
        help="instead of --loss, --output and --target: one term of a weighted sum; may be repeated",
    )
    group.add_argument(
        "--layout",
        choices=get_args(OutputLayout),
        help="axes of the output for ctc and cross_entropy: N batch, T steps, C classes",
    )
    group.add_argument(
        "--characters",
        metavar="FILE.txt",
        help="for ctc with text as targets: a character on each line, of class 1 and so on (default: those that the model lists)",
    )
    group.add_argument("--label-smoothing", type=float, default=0.0, metavar="SHARE", help="share of a label given to all classes")
    group.add_argument("--class-weights", nargs="+", metavar="W", help="balanced, or a weight for each class")
    group.add_argument("--sample-weight", metavar="COLUMN", help="column with a weight for each example")
    group.add_argument(
        "--metric",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"metrics to report as well: {', '.join(sorted([*get_args(BatchMetric), *EPOCH_METRICS]))}",
    )
    optimizers = get_args(OptimizerName)
    group.add_argument("--optimizer", choices=optimizers, default="adamw", metavar="NAME", help=", ".join(optimizers))
    group.add_argument("--lr", type=float, default=1e-3, help="learning rate (default %(default)s)")
    group.add_argument(
        "--find-lr", nargs="?", const="", metavar="PLOT.png", help="train nothing: try rising learning rates, and suggest one"
    )
    group.add_argument(
        "--schedule", choices=get_args(ScheduleName), default="constant", help="learning rate schedule (default %(default)s)"
    )
    group.add_argument(
        "--warmup", type=int, default=0, metavar="STEPS", help="warm-up steps, in which the learning rate rises linearly"
    )
    group.add_argument("--weight-decay", type=float, help="weight decay, for optimizers that have one")
    group.add_argument("--clip-norm", type=float, help="clip gradients to this global norm")
    group.add_argument("--clip-value", type=float, help="clip each element of the gradients to this size")
    group.add_argument(
        "--rate",
        nargs=2,
        action="append",
        default=[],
        metavar=("PATTERN", "FACTOR"),
        help="factor of the learning rate of weights by pattern, such as 'head.*' 10; may be repeated, the first that fits counts",
    )
    group.add_argument("--accumulate", type=int, default=1, metavar="N", help="accumulate gradients over N batches per update")
    group.add_argument(
        "--loss-scale",
        type=float,
        metavar="START",
        help="scale the loss so that gradients in float16 do not vanish, 0 for not (default: 32768 for files in float16)",
    )
    group.add_argument("--teacher", metavar="FILE.onnx", help="larger model whose answers are targets beside the labels")
    group.add_argument(
        "--temperature", type=float, metavar="T", help="of the teacher (default 2), or of the loss info_nce (default 0.05)"
    )
    group.add_argument("--distill", type=float, default=0.5, metavar="WEIGHT", help="of the teacher's part (default %(default)s)")
    group.add_argument("--beta", type=float, help="of the loss dpo: what moving away from the file pays (default 0.1)")
    group.add_argument("--ema", type=float, metavar="DECAY", help="evaluate and export a moving average of the weights")


def _add_memory(group: Any) -> None:
    group.add_argument(
        "--recompute",
        action="store_true",
        help="recompute part of the forward pass in the backward pass (checkpointing): less memory, more time",
    )
    group.add_argument(
        "--memory-budget",
        type=parse_bytes,
        metavar="SIZE",
        help="memory for activations and gradients, such as 2GB; recomputes what does not fit",
    )
    group.add_argument(
        "--memory",
        choices=("auto", "low"),
        default="auto",
        help="low: hold one copy of weights and optimizer state instead of two, gradients are computed, then applied in parts; "
        "auto: where that saves much",
    )
    add_sizes(group)


def _add_choice(group: Any) -> None:
    group.add_argument(
        "--train", nargs="+", metavar="PATTERN", help="weights to train (default: all that info does not call frozen; '*' for all)"
    )
    group.add_argument("--freeze", nargs="+", metavar="PATTERN", help="weights to freeze")
    group.add_argument(
        "--untie",
        nargs="+",
        default=[],
        metavar="WEIGHT",
        help="untie a shared weight: each operator that reads it gets its own copy",
    )
    group.add_argument(
        "--tie",
        nargs=2,
        action="append",
        default=[],
        metavar=("KEPT", "REPLACED"),
        help="tie two equal weights, so that they are trained as one; may be repeated",
    )
    group.add_argument("--lora", type=int, metavar="RANK", help="train LoRA adapters of this rank; the layers are frozen")
    group.add_argument(
        "--on",
        dest="lora_layers",
        nargs="+",
        default=["*"],
        metavar="PATTERN",
        help="weights or operators that get an adapter, separated by spaces or commas, or a kind: attention, mlp, all but the "
        "output layer and experts, experts (default: '*')",
    )
    group.add_argument(
        "--alpha", type=float, metavar="A", help="multiply adapters by A / rank (default: twice the rank, a factor of 2)"
    )
    group.add_argument("--rslora", action="store_true", help="multiply them by A / root of the rank instead (a high rank)")
    group.add_argument("--dora", action="store_true", help="also train a size for each column of the adapted weights (DoRA)")
    group.add_argument("--lora-dropout", type=float, metavar="P", help="share of an adapter's inputs that a step sets to 0")
    group.add_argument(
        "--adapter",
        metavar="RUN|FOLDER",
        help="begin with the adapters of another run, or of an exported .safetensors file, of the same --lora, --on and --alpha, "
        "or with those of a folder that PEFT wrote (adapter_config.json), without --lora",
    )
    group.add_argument(
        "--classes",
        nargs="+",
        dest="detector_classes",
        metavar="NAME",
        help="names of all classes that a detector is to have; those of its file keep their weights (default: those of its file, "
        "or those of --data where one of these is new)",
    )
    group.add_argument(
        "--anchors",
        nargs="+",
        metavar="WIDTH,HEIGHT",
        help="anchors in pixels of a detector whose file gives maps before their decoding, those of the smallest stride "
        "first; what is exported keeps them",
    )
    group.add_argument(
        "--anchor-sides",
        choices=("square", "exp"),
        default="square",
        help="how sides grow from --anchors: (2 sigmoid)^2 of YOLOv5 and later, or exp of YOLOv3 (default: square)",
    )
    group.add_argument("--head", type=int, metavar="CLASSES", help="replace the last layer by a new one, named head")
    group.add_argument(
        "--pool", choices=("last",), help="with --head: the new layer reads the last token of each text, which attention_mask tells"
    )
    group.add_argument("--head-at", metavar="TENSOR", help="tensor that the new layer reads")
    group.add_argument(
        "--batch-norm",
        nargs="*",
        metavar="MODE",
        help="frozen: normalise by the statistics of the file; train: by batch, and replace them; insert [NAME ...]: insert "
        "BatchNormalization after these layers or all convolutions (default: frozen if the file has statistics and the data less "
        f"than {MANY:,} examples or batches of less than {LARGE}, else train)",
    )
    group.add_argument(
        "--quantized",
        choices=get_args(QuantizedMode),
        help="a file with integer weights (QDQ): train them and all scales (learned), not the scales (fixed), weights of products "
        "on integers too (integers), or float weights alone (frozen) (default: learned, frozen beside --lora)",
    )
    group.add_argument(
        "--frozen",
        choices=("int8",),
        help="forward products with weights that are not trained, in 8-bit integers: 0.2 to 0.4 of their time where the "
        "processor has VNNI, each result about 1 %% off",
    )
    group.add_argument(
        "--qat",
        choices=["int8"],
        help="quantise the float model to a QDQ file with scales calibrated on --data, and train that; a table compares the three",
    )
    group.add_argument("--dropout", type=float, metavar="RATIO", help="insert Dropout after the operators of --dropout-after")
    group.add_argument("--dropout-after", nargs="+", default=[], metavar="NAME", help="operators or tensors that Dropout follows")


def _add_ranks(group: Any) -> None:
    group.add_argument(
        "--compress",
        choices=get_args(Compression),
        help="send gradients in 16 bits, or the largest alone; what is left out is added to the next ones",
    )
    group.add_argument(
        "--rank-batch-norm",
        choices=("sync", "local", "frozen"),
        help="BatchNormalization by batch takes that of all ranks (sync) or each rank's part (local); frozen: there is none",
    )
    group.add_argument(
        "--sharding",
        type=int,
        choices=(0, 1, 2),
        default=0,
        help="ZeRO: each rank updates a range of the weights, and holds the optimizer's state of it alone (1 and 2 are the same)",
    )
    group.add_argument(
        "--overlap",
        type=int,
        metavar="N",
        help="compute the backward pass in so many sessions, so that gradients travel while others are computed (default: 1)",
    )
    group.add_argument(
        "--pipeline",
        type=int,
        default=1,
        metavar="STAGES",
        help="cut the layers into stages, one on each rank; more ranks share a batch",
    )
    group.add_argument(
        "--micro-batches", type=int, default=0, metavar="N", help="of a pipeline: parts of a batch in flight (default: two a stage)"
    )
    group.add_argument("--cuts", nargs="+", metavar="NAME", help="of a pipeline: values of the model behind which it is cut")
    group.add_argument(
        "--rank-timeout", type=float, default=600, metavar="SECONDS", help="end all if a rank waits so long (default %(default)s)"
    )


def _add_loop_options(group: Any) -> None:
    group.add_argument("--epochs", type=int, help="number of epochs in all, those before --resume included (default 5)")
    group.add_argument("--more-epochs", type=int, metavar="N", help="with --resume: N epochs more than the run has had")
    group.add_argument(
        "--patience", type=int, metavar="EPOCHS", help="early stopping: stop after so many epochs without a better loss"
    )
    group.add_argument("--monitor", metavar="NAME", help="what says which epoch is better, such as val_f1 (default: the loss)")
    group.add_argument("--max-steps", type=int, metavar="N", help="end after N steps in all")
    group.add_argument("--evaluate-every", type=int, metavar="STEPS", help="evaluate every so many steps, besides each epoch")
    group.add_argument(
        "--checkpoint-every",
        type=int,
        metavar="STEPS",
        help="write a checkpoint every so many steps, besides the one after each epoch",
    )
    group.add_argument("--keep", type=int, default=3, metavar="N", help="numbered checkpoints to keep (default %(default)s)")
    group.add_argument(
        "--seed", type=int, default=0, help="random seed of shuffling, dropout and new weights (default %(default)s)"
    )
    group.add_argument(
        "--log",
        nargs="+",
        choices=get_args(LoggerName),
        default=[],
        help="log for these too: TensorBoard into the folder, MLflow by its settings",
    )
    group.add_argument("--no-report", action="store_true", help="do not keep report.html in the folder")
    group.add_argument("--curves", action="store_true", help="plot loss and metrics into the folder")
