"""Train a model on arrays or text, and write checkpoints and history to a folder.

The arrays of an .npz file are named after the inputs of the model, and the target. Ctrl-C writes a checkpoint and ends the run.

examples:
  onnxgrad train m.onnx --data train.npz --target y --loss cross_entropy --out run/
  onnxgrad train m.onnx --data train.npz --val val.npz --target y --loss cross_entropy --optimizer adamw --lr 1e-3
      --schedule cosine --epochs 5 --batch-size 64 --metric accuracy --patience 3 --train 'head.*' --out run/
  onnxgrad train m.onnx --data train.npz --target y --loss mse --lora 8 --out run/
  onnxgrad train m.onnx --data train.npz --term cross_entropy class label 1 --term mse box corners 0.5 --out run/
  onnxgrad train qwen.onnx --lora 8 --on '*q_proj*,*v_proj*' --loss causal_lm --data chat.jsonl --tokenizer tokenizer.json
      --max-length 256 --batch-size 4 --out run/
  onnxgrad train --resume run/ --more-epochs 2
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onnxgrad.cli.common import add_sizes, bytes_given, human
from onnxgrad.cli.progress import Working
from onnxgrad.cli.settings import LARGE, MANY, data_of, make_trainer, read_settings, write_settings
from onnxgrad.errors import ArgumentError
from onnxgrad.training.folder import LAST, RunFolder
from onnxgrad.training.loggers import LOGGERS, loggers
from onnxgrad.training.loss_formulas import LAYOUTS, LOSSES
from onnxgrad.training.metrics import METRICS
from onnxgrad.training.optimizers import optimizer_names
from onnxgrad.training.position import epochs_done
from onnxgrad.training.quantization import MODES as QUANTIZED
from onnxgrad.training.schedules import SHAPES
from onnxgrad.training.trainer import Trainer

_NOT_SETTINGS = ("command", "run", "resume", "json", "log", "more_epochs", "accept_changed_data")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", help="path of an .onnx file")
    parser.add_argument("--out", metavar="FOLDER", help="folder for checkpoints and history; it must not hold a run yet")
    parser.add_argument(
        "--resume",
        metavar="FOLDER",
        help="resume the run in this folder; only --epochs, --more-epochs, --accept-changed-data, --log and --json go with it",
    )
    parser.add_argument(
        "--accept-changed-data", action="store_true", help="with --resume: although a data file is not what the run was trained on"
    )
    parser.add_argument("--json", action="store_true", help="print lines of JSON: progress every two seconds, and each epoch")
    parser.add_argument("--expand", choices=["com.microsoft"], help="rewrite onnxruntime's own operators as standard ones")
    parser.add_argument("--threads", type=int, help="threads per operator (intra-op)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu, cuda:NUMBER or openvino (default %(default)s)")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="of products on the device openvino")
    parser.add_argument("--amp", choices=["bf16"], help="compute in bfloat16 where that is safe; weights stay in float32")
    _add_memory(parser.add_argument_group("memory"))
    _add_data(parser.add_argument_group("data"))
    _add_loss(parser.add_argument_group("loss and optimizer"))
    _add_choice(parser.add_argument_group("what trains"))
    _add_course(parser.add_argument_group("training loop"))


def _add_data(group: Any) -> None:
    group.add_argument("--data", metavar="FILE", help="training data: arrays (.npz), or text and chats (.jsonl, .txt)")
    group.add_argument("--val", metavar="FILE", help="validation data, evaluated after each epoch")
    group.add_argument("--tokenizer", metavar="FILE.json", help="tokenizer.json of a language model, for text and chats")
    group.add_argument("--max-length", type=int, default=512, help="words in a row of text at most (default %(default)s)")
    group.add_argument("--pack", action="store_true", help="put several short texts into one row")
    group.add_argument("--target", help="array with the targets (default target, for causal_lm labels)")
    group.add_argument("--batch-size", type=int, default=32, help="examples per batch (default %(default)s)")
    group.add_argument("--drop-last", action="store_true", help="drop the last batch if it is smaller")
    group.add_argument("--no-shuffle", action="store_true", help="do not shuffle the training data")


def _add_loss(group: Any) -> None:
    group.add_argument("--loss", choices=sorted(LOSSES), help="loss to minimize")
    group.add_argument("--of", metavar="OUTPUT", help="model output that the loss reads (default: the first that is no cache)")
    group.add_argument(
        "--term",
        nargs=4,
        action="append",
        metavar=("LOSS", "OUTPUT", "TARGET", "WEIGHT"),
        help="instead of --loss, --of and --target: one term of a weighted sum; may be repeated",
    )
    group.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="axes of the output for ctc and cross_entropy: N batch, T steps, C classes",
    )
    group.add_argument("--metric", nargs="+", choices=sorted(METRICS), default=[], help="metrics to report as well")
    group.add_argument("--optimizer", choices=optimizer_names(), default="adamw", metavar="NAME", help=", ".join(optimizer_names()))
    group.add_argument("--lr", type=float, default=1e-3, help="learning rate (default %(default)s)")
    group.add_argument("--schedule", choices=SHAPES, default="constant", help="learning rate schedule (default %(default)s)")
    group.add_argument(
        "--warmup", type=int, default=0, metavar="STEPS", help="warm-up steps, in which the learning rate rises linearly"
    )
    group.add_argument("--weight-decay", type=float, help="weight decay, for optimizers that have one")
    group.add_argument("--clip-norm", type=float, help="clip gradients to this global norm")
    group.add_argument("--accumulate", type=int, default=1, metavar="N", help="accumulate gradients over N batches per update")
    group.add_argument(
        "--loss-scale",
        type=float,
        metavar="START",
        help="scale the loss so that gradients in float16 do not vanish, 0 for not (default: 32768 for files in float16)",
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
        type=bytes_given,
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
        "output layer (default: '*')",
    )
    group.add_argument("--head", type=int, metavar="CLASSES", help="replace the last layer by a new one, named head")
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
        choices=QUANTIZED,
        help="a file with integer weights (QDQ): train them and all scales (learned), not the scales (fixed), weights of products "
        "on integers too (integers), or float weights alone (frozen) (default: learned, frozen beside --lora)",
    )
    group.add_argument("--dropout", type=float, metavar="RATIO", help="insert Dropout after the operators of --dropout-after")
    group.add_argument("--dropout-after", nargs="+", default=[], metavar="NAME", help="operators or tensors that Dropout follows")


def _add_course(group: Any) -> None:
    group.add_argument("--epochs", type=int, help="number of epochs in all, those before --resume included (default 5)")
    group.add_argument("--more-epochs", type=int, metavar="N", help="with --resume: N epochs more than the run has had")
    group.add_argument(
        "--patience", type=int, metavar="EPOCHS", help="early stopping: stop after so many epochs without a better loss"
    )
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
        choices=LOGGERS,
        default=[],
        help="log for these too: TensorBoard into the folder, MLflow by its settings",
    )
    group.add_argument("--curves", action="store_true", help="plot loss and metrics into the folder")


def run(options: argparse.Namespace) -> int:
    folder, settings = _settings(options)
    working = Working("reading the model and writing its gradient", options.json)
    with working, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        trainer = make_trainer(settings, folder if options.resume else None)
        working.say("reading the data")
        data = [data_of(settings, name) for name in ("data", "val")]
    if not options.json:
        read = [remark for given in data for remark in getattr(given, "remarks", ())]
        for remark in [*trainer.remarks, *dict.fromkeys(read), *(warning.message for warning in caught)]:
            print(f"note: {remark}")
        count = sum(p.get_value().size for p in trainer.trained)
        plan = trainer.program.memory_plan
        if plan is not None:
            share = f"{plan.recomputed} of {plan.operators} operators are recomputed"
            peak, without = human(plan.peak), human(plan.peak_without)
            print(f"activations and gradients take about {peak}, {without} without recomputation; {share}")
        print(f"training {len(trainer.trained)} of {len(trainer.program.parameters)} weights, {count:,} elements")
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: print(f"note: {message}", file=sys.stderr)
        history = _fit(trainer, data, settings, folder, options)
    if trainer._interrupt.requested:
        print(f"stopped at step {trainer.step_number}; resume with: onnxgrad train --resume {folder}", file=sys.stderr)
    if not options.json and history:
        print(f"the run is in {folder}; write the model with: onnxgrad export {folder} --inference FILE.onnx")
    return 0


def _settings(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Folder and settings: those of the command line, or those of the run to resume"""
    if options.resume is not None:
        others = _given(options) - {"resume", "epochs", "more_epochs", "accept_changed_data", "json", "log"}
        if others:
            what = "the model" if "model" in others else f"--{min(others).replace('_', '-')}"
            raise ArgumentError(f"--resume FOLDER continues that run with its settings; leave out {what}.")
        settings = read_settings(options.resume)
        if options.epochs is not None and options.more_epochs is not None:
            raise ArgumentError("--epochs says how many in all, --more-epochs how many more. Give one of them.")
        if options.epochs is not None:
            settings["epochs"] = options.epochs
        if options.more_epochs is not None:
            settings["epochs"] = epochs_done(Path(options.resume) / LAST) + options.more_epochs
        return options.resume, settings
    if options.accept_changed_data:
        raise ArgumentError("--accept-changed-data goes with --resume FOLDER. Leave it out for a new run.")
    if options.more_epochs is not None:
        raise ArgumentError("--more-epochs goes with --resume FOLDER. Say --epochs for a new run.")
    if options.term and (options.loss is not None or options.of is not None):
        raise ArgumentError("--term replaces --loss, --of and --target. Give one or the other.")
    for name in ("model", "data", "loss", "out"):
        if getattr(options, name) is None and not (name == "loss" and options.term):
            raise ArgumentError(f"train needs {'a model' if name == 'model' else '--' + name}. See onnxgrad train --help.")
    if options.precision != "f32" and options.device != "openvino":
        raise ArgumentError("--precision is for --device openvino. Leave it out.")
    if options.dropout and not options.dropout_after:
        raise ArgumentError("--dropout needs --dropout-after NAME: operators or tensors.")
    settings = {name: value for name, value in vars(options).items() if name not in (*_NOT_SETTINGS, "out")}
    settings["epochs"] = 5 if options.epochs is None else options.epochs
    settings["lora_layers"] = [name for given in options.lora_layers for name in given.split(",") if name]
    for name in ("model", "data", "val", "tokenizer"):
        settings[name] = None if settings[name] is None else str(Path(settings[name]).resolve())
    return options.out, settings


def _given(options: argparse.Namespace) -> set[str]:
    """Names of the options that differ from their defaults"""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return {name for name, default in vars(parser.parse_args([])).items() if getattr(options, name) != default}


def _fit(
    trainer: Trainer, data: list[Any], settings: dict[str, Any], folder: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    def show(_: Trainer, row: dict[str, Any]) -> None:
        if sys.stderr.isatty() and sys.stdout.isatty() and not options.json and find_spec("tqdm"):
            return  # the bar says it
        values = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in ("epoch", "step"))
        print(
            json.dumps({"event": "epoch", **row}) if options.json else f"epoch {row['epoch']}/{settings['epochs']}  {values}",
            flush=True,
        )

    with RunFolder(folder, settings["keep"]) as run:
        if options.resume is None:
            write_settings(run, settings)
        return trainer.fit(
            data[0],
            validation=data[1],
            total_epochs=settings["epochs"],
            batch_size=settings["batch_size"],
            shuffle=not settings["no_shuffle"],
            drop_last=settings["drop_last"],
            out=run,
            resume=options.resume is not None,
            patience=settings["patience"],
            checkpoint_every=settings["checkpoint_every"],
            curves=settings["curves"],
            callbacks=[show, *loggers(options.log, folder)],
            verbose="json" if options.json else True,
            accept_changed_data=options.accept_changed_data,
        )
