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
        "--config",
        metavar="FILE",
        help="options from a .toml or .json file, such as a run's settings.json; options of the command line override them",
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder for checkpoints and history; it must not hold a run yet")
    parser.add_argument(
        "--resume",
        metavar="FOLDER",
        help="resume the run in this folder; besides --epochs, --more-epochs, --accept-changed-data, --device, --log, --json and "
        "those of a pipeline, options must be those of the run",
    )
    parser.add_argument(
        "--accept-changed-data", action="store_true", help="with --resume: continue although a data file has changed since the run"
    )
    parser.add_argument("--explain", action="store_true", help="print all notes on how model and data are interpreted")
    parser.add_argument("--json", action="store_true", help="print lines of JSON: progress every two seconds, and each epoch")
    parser.add_argument("--expand", choices=["com.microsoft"], help="rewrite onnxruntime's own operators as standard ones")
    parser.add_argument("--threads", type=int, help="threads per operator (intra-op)")
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="cpu, cuda:NUMBER, openvino, or auto: the one with the fastest first steps (default cpu; with --resume, that "
        "of the run)",
    )
    parser.add_argument(
        "--precision",
        choices=["f32", "fast", "bf16"],
        default="f32",
        help="fast: faster convolutions with a larger rounding error, on the CPU; bf16: matrix products in bfloat16 on the "
        "device openvino",
    )
    parser.add_argument("--amp", choices=["bf16"], help="compute in bfloat16 where that is safe; weights stay in float32")
    _add_memory(parser.add_argument_group("memory"))
    _add_data(parser.add_argument_group("data"))
    _add_loss(parser.add_argument_group("loss and optimizer"))
    _add_choice(parser.add_argument_group("trained weights"))
    _add_loop_options(parser.add_argument_group("training loop"))
    _add_ranks(parser.add_argument_group("several processes (mpiexec -n 4 onnxgrad train ...)"))


def _add_data(group: Any) -> None:
    add_data(group)
    group.add_argument("--target", help="column with the targets (default: target; labels for causal_lm)")
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
    group.add_argument("--task", choices=get_args(TaskName), help="task (default: chosen by data and model output)")
    group.add_argument("--loss", choices=sorted([*get_args(LossName), DETECTION]), help="loss to minimize (default: by the task)")
    group.add_argument(
        "--output",
        "--of",
        dest="of",
        metavar="OUTPUT",
        help="output or other tensor that the loss reads, also transformed: 'logits.transpose(1,0,2)' with transpose, "
        "reshape, squeeze, "
        "softmax, argmax, logit (of probabilities), mean (over the tokens that a mask selects: 'hidden.mean(attention_mask)') "
        "and slices (default: the first output that is not a cache)",
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
        help="for ctc with text targets: file with one character per line, for classes from 1 on (default: characters in "
        "the model's metadata)",
    )
    group.add_argument(
        "--label-smoothing", type=float, default=0.0, metavar="SHARE", help="share of each label that is spread over all classes"
    )
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
        help="initial loss scale, which keeps float16 gradients from underflow; 0 for none (default: 32768 for files in float16)",
    )
    group.add_argument(
        "--teacher", metavar="FILE.onnx", help="teacher model, whose outputs are targets beside the labels (knowledge distillation)"
    )
    group.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="temperature of the teacher (default 2), or of the loss info_nce (default 0.05)",
    )
    group.add_argument(
        "--distill", type=float, default=0.5, metavar="WEIGHT", help="weight of the teacher in the loss (default %(default)s)"
    )
    group.add_argument(
        "--beta", type=float, help="beta of the loss dpo, the penalty for moving away from the reference model (default 0.1)"
    )
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
        help="memory for activations and gradients, such as 2GB; tensors that do not fit are recomputed",
    )
    group.add_argument(
        "--memory",
        choices=("auto", "low"),
        default="auto",
        help="low: hold one copy of weights and optimizer state instead of two, gradients are computed, then applied in parts; "
        "auto: low where it saves 32 MB or more",
    )
    add_sizes(group)


def _add_choice(group: Any) -> None:
    group.add_argument(
        "--train",
        nargs="+",
        metavar="PATTERN",
        help="weights to train (default: all that info does not list as frozen; '*' for all)",
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
        help="tie two equal weights, which are then trained as one; may be repeated",
    )
    group.add_argument("--lora", type=int, metavar="RANK", help="train LoRA adapters of this rank; the layers are frozen")
    group.add_argument(
        "--on",
        dest="lora_layers",
        nargs="+",
        default=["*"],
        metavar="PATTERN",
        help="weights or operators that get an adapter, separated by spaces or commas, or a kind: attention, mlp, all (without the "
        "output layer and experts), experts (default: '*')",
    )
    group.add_argument("--alpha", type=float, metavar="A", help="scale adapters by A / rank (default: A is twice the rank)")
    group.add_argument(
        "--rslora", action="store_true", help="scale adapters by A / sqrt(rank), for high ranks (rank-stabilised LoRA)"
    )
    group.add_argument("--dora", action="store_true", help="also train a magnitude for each column of the adapted weights (DoRA)")
    group.add_argument("--lora-dropout", type=float, metavar="P", help="dropout of the adapters' inputs")
    group.add_argument(
        "--adapter",
        metavar="RUN|FOLDER",
        help="start from the adapters of another run or an exported .safetensors file, with the same --lora, --on and --alpha, "
        "or from a folder that PEFT wrote (adapter_config.json), without --lora",
    )
    group.add_argument(
        "--classes",
        nargs="+",
        dest="detector_classes",
        metavar="NAME",
        help="names of all classes of a detector; classes of its file keep their weights (default: the classes of its file, "
        "or of --data if --data has a new class)",
    )
    group.add_argument(
        "--anchors",
        nargs="+",
        metavar="WIDTH,HEIGHT",
        help="anchors in pixels, smallest stride first, for a detector whose outputs are not decoded; "
        "the exported file stores them",
    )
    group.add_argument(
        "--anchor-sides",
        choices=("square", "exp"),
        default="square",
        help="how box sides follow from --anchors: (2 sigmoid)^2 as in YOLOv5, or exp as in YOLOv3 (default: square)",
    )
    group.add_argument("--head", type=int, metavar="CLASSES", help="replace the last layer by a new layer named head")
    group.add_argument(
        "--pool", choices=("last",), help="with --head: the new layer reads the last token of each text, by attention_mask"
    )
    group.add_argument("--head-at", metavar="TENSOR", help="tensor that the new layer reads")
    group.add_argument(
        "--batch-norm",
        nargs="*",
        metavar="MODE",
        help="frozen: normalise by the file's statistics; train: normalise by batch and update the statistics; insert [NAME "
        "...]: insert "
        "BatchNormalization after these layers or all convolutions (default: frozen if the file has statistics and the "
        "data has less "
        f"than {MANY:,} examples or batches of less than {LARGE}, else train)",
    )
    group.add_argument(
        "--quantized",
        choices=get_args(QuantizedMode),
        help="for a file with integer weights (QDQ): train weights and scales (learned), weights with fixed scales (fixed), "
        "also weights "
        "of integer products (integers), or float weights alone (frozen) (default: learned; frozen with --lora)",
    )
    group.add_argument(
        "--frozen",
        choices=("int8",),
        help="compute forward products with frozen weights in 8-bit integers: 0.2 to 0.4 of their time where the "
        "processor has VNNI, with an error of about 1 %%",
    )
    group.add_argument(
        "--qat",
        choices=["int8"],
        help="quantise the model to a QDQ file with scales calibrated on --data, and train it; a table compares float, "
        "quantised and trained",
    )
    group.add_argument("--dropout", type=float, metavar="RATIO", help="insert Dropout after the operators of --dropout-after")
    group.add_argument("--dropout-after", nargs="+", default=[], metavar="NAME", help="operators or tensors that Dropout follows")


def _add_ranks(group: Any) -> None:
    group.add_argument(
        "--compress",
        choices=get_args(Compression),
        help="send gradients in 16 bits, or only the largest elements; the error is added to the next gradients",
    )
    group.add_argument(
        "--rank-batch-norm",
        choices=("sync", "local", "frozen"),
        help="BatchNormalization normalises by the batch of all ranks (sync), by each rank's part (local), or not by batch "
        "(frozen)",
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
        help="compute the backward pass in so many sessions, so that gradients travel while others are computed, if the first "
        "steps, timed with it and without, are faster with it (default: 1)",
    )
    group.add_argument(
        "--pipeline",
        type=int,
        default=1,
        metavar="STAGES",
        help="cut the layers into pipeline stages, one on each rank; further ranks share the batch",
    )
    group.add_argument(
        "--micro-batches",
        type=int,
        default=0,
        metavar="N",
        help="for a pipeline: number of micro-batches (default: two for each stage)",
    )
    group.add_argument("--cuts", nargs="+", metavar="NAME", help="for a pipeline: tensors after which the model is cut")
    group.add_argument(
        "--rank-timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="end all ranks if one waits longer than this (default %(default)s)",
    )


def _add_loop_options(group: Any) -> None:
    group.add_argument("--epochs", type=int, help="total number of epochs, including the epochs before --resume (default 5)")
    group.add_argument("--more-epochs", type=int, metavar="N", help="with --resume: train N epochs more")
    group.add_argument(
        "--patience", type=int, metavar="EPOCHS", help="early stopping: stop after this number of epochs without improvement"
    )
    group.add_argument("--monitor", metavar="NAME", help="metric that selects the best epoch, such as val_f1 (default: the loss)")
    group.add_argument("--max-steps", type=int, metavar="N", help="stop after N steps in total")
    group.add_argument("--evaluate-every", type=int, metavar="STEPS", help="evaluate every STEPS steps, besides each epoch")
    group.add_argument(
        "--checkpoint-every",
        type=int,
        metavar="STEPS",
        help="write a checkpoint every STEPS steps, besides each epoch",
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
        help="also log to TensorBoard, in the folder of the run, or to MLflow, by its settings",
    )
    group.add_argument("--no-report", action="store_true", help="do not write report.html into the folder")
    group.add_argument("--curves", action="store_true", help="plot loss and metrics into the folder")
