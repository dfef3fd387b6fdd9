"""Train a model on arrays, tables, images or text, and write checkpoints and history to a folder.

Arrays and columns are named after the inputs of the model, and the target. Ctrl-C writes a checkpoint and ends the run.

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
  mpiexec -n 4 onnxgrad train m.onnx --data train.npz --target y --loss cross_entropy --out run/
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onnxgrad.cli import quantized_run
from onnxgrad.cli.common import add_sizes, human, parse_bytes, print_notes
from onnxgrad.cli.data import add_data, resolve_paths
from onnxgrad.cli.detector_run import choose_classes
from onnxgrad.cli.settings import LARGE, MANY, choose_task, data_of, make_trainer, read_settings, write_settings
from onnxgrad.distributed.environment import init, is_started_by_mpi, rank
from onnxgrad.distributed.strategy import COMPRESSIONS
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.text import Text
from onnxgrad.training.detection.objective import DETECTION
from onnxgrad.training.losses.formulas import LAYOUTS, LOSSES
from onnxgrad.training.metrics.batch import METRICS
from onnxgrad.training.metrics.epoch import EPOCH_METRICS
from onnxgrad.training.optimizers import optimizer_names
from onnxgrad.training.quantized.learned import MODES as QUANTIZED
from onnxgrad.training.report.preview import write_preview
from onnxgrad.training.report.report import Report
from onnxgrad.training.run.callbacks import Callback
from onnxgrad.training.run.folder import LAST
from onnxgrad.training.run.loggers import LOGGERS, loggers
from onnxgrad.training.run.plan import check_fit_options
from onnxgrad.training.run.position import epochs_done
from onnxgrad.training.run.progress import Working
from onnxgrad.training.run.rate_finder import find_learning_rate
from onnxgrad.training.run.schedules import SHAPES
from onnxgrad.training.tasks import TASKS
from onnxgrad.training.trainer import Trainer

_STAGES = {"pipeline", "micro_batches", "cuts"}
"""What may be another with --resume, as ranks may be more or fewer."""

_NOT_SETTINGS = (
    "command", "config", "explain", "find_lr", "preview", "run", "resume", "json", "log", "more_epochs", "accept_changed_data",
    "rank_timeout",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", help="path of an .onnx file")
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
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu, cuda:NUMBER or openvino (default %(default)s)")
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
        "--preview", metavar="PAGE.html", help="train nothing: write a page with the first batch as the model reads it"
    )
    group.add_argument("--batch-size", type=int, default=32, help="examples per batch (default %(default)s)")
    group.add_argument("--drop-last", action="store_true", help="drop the last batch if it is smaller")
    group.add_argument("--no-shuffle", action="store_true", help="do not shuffle the training data")


def _add_loss(group: Any) -> None:
    group.add_argument("--task", choices=TASKS, help="what is to be learned (default: what the data holds and the output gives)")
    group.add_argument("--loss", choices=sorted([*LOSSES, DETECTION]), help="loss to minimize (default: that of the task)")
    group.add_argument(
        "--output",
        "--of",
        dest="of",
        metavar="OUTPUT",
        help="output or other tensor that the loss reads, also bent: 'logits.transpose(1,0,2)' with transpose, reshape, squeeze, "
        "softmax, argmax, mean (also over the tokens that an input counts: 'hidden.mean(attention_mask)') "
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
        choices=LAYOUTS,
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
        help=f"metrics to report as well: {', '.join(sorted([*METRICS, *EPOCH_METRICS]))}",
    )
    group.add_argument("--optimizer", choices=optimizer_names(), default="adamw", metavar="NAME", help=", ".join(optimizer_names()))
    group.add_argument("--lr", type=float, default=1e-3, help="learning rate (default %(default)s)")
    group.add_argument(
        "--find-lr", nargs="?", const="", metavar="PLOT.png", help="train nothing: try rising learning rates, and suggest one"
    )
    group.add_argument("--schedule", choices=SHAPES, default="constant", help="learning rate schedule (default %(default)s)")
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
        "output layer (default: '*')",
    )
    group.add_argument(
        "--classes",
        nargs="+",
        dest="detector_classes",
        metavar="NAME",
        help="names of all classes that a detector is to have; those of its file keep their weights (default: those of its file, "
        "or those of --data where one of these is new)",
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
        choices=[name for name in COMPRESSIONS if name],
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
        help="ZeRO: 1 shares out the optimizer's state over ranks, 2 sends each gradient to the rank that reads it alone",
    )
    group.add_argument(
        "--overlap",
        type=int,
        metavar="N",
        help="compute the backward pass in so many sessions, so that gradients travel while others are computed (default: 4 where "
        "ranks are on several machines, else 1)",
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
        choices=LOGGERS,
        default=[],
        help="log for these too: TensorBoard into the folder, MLflow by its settings",
    )
    group.add_argument("--no-report", action="store_true", help="do not keep report.html in the folder")
    group.add_argument("--curves", action="store_true", help="plot loss and metrics into the folder")


def run(options: argparse.Namespace) -> int:
    if is_started_by_mpi():
        init(timeout=options.rank_timeout)
    is_first = rank() == 0
    folder, settings = _settings(options)
    working = Working("reading the model and writing its gradient", options.json or not is_first)
    with working, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        task = None if options.resume else choose_task(settings)
        if not options.resume:
            choose_classes(settings)
        if settings.get("qat") and not options.resume:
            working.say("evaluating and quantising the model")
            quantized_run.begin(settings, folder)
        trainer = make_trainer(settings, folder if options.resume else None)
        names = ("batch_size", "epochs", "patience", "checkpoint_every", "keep", "max_steps", "evaluate_every")
        check_fit_options(trainer, settings["val"], settings.get("monitor"), **{name: settings.get(name) for name in names})
        working.say("reading the data")
        data = trainer.open(data_of(settings, "data", trainer.record), data_of(settings, "val", trainer.record))
        if settings.get("qat") and not options.resume:
            working.say("evaluating the quantised model")
            quantized_run.measured(trainer, data[1], settings, folder)
    if not options.json and is_first:
        if task is not None:
            print(task)
        read = [note for source in data if isinstance(source, Text) for note in source.remarks]
        print_notes([*(warning.message for warning in caught), *read, *trainer.remarks], options.explain)
        count = sum(p.get_value().size for p in trainer.trained)
        plan = trainer.program.memory_plan
        if plan is not None:
            recomputed = f"{plan.recomputed} of {plan.operators} operators are recomputed"
            peak, without = human(plan.peak), human(plan.peak_without)
            print(f"activations and gradients take about {peak}, {without} without recomputation; {recomputed}")
        print(f"training {count:,} parameters in {len(trainer.trained)} of {len(trainer.program.parameters)} tensors")
    if options.preview is not None:
        shown = write_preview(trainer, data[0], options.preview, settings["batch_size"])
        print(
            json.dumps({"event": "preview", "file": options.preview, "examples": shown})
            if options.json
            else f"wrote {options.preview}: {shown} examples"
        )
        return 0
    if options.find_lr is not None:
        return _find_rate(trainer, data[0], settings, options)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        said: set[str] = set()
        warnings.showwarning = lambda message, *_: _say_once(str(message), said) if is_first else None
        report = None if settings.get("no_report") else Report(shlex.join(["onnxgrad", *sys.argv[1:]]))
        history = _fit(trainer, data, settings, folder, options, report)
    if settings.get("qat") and not trainer.interrupt.stops:
        table = quantized_run.finish(trainer, data[1], settings, folder)
        if report is not None:
            report.add("Quantisation", *quantized_run.as_rows(folder))
        print(json.dumps({"event": "quantization", "table": table}) if options.json else table)
    if trainer.interrupt.stops and is_first:
        print(f"stopped at step {trainer.step_number}; resume with: onnxgrad train --resume {folder}", file=sys.stderr)
    if not options.json and history and is_first:
        print(f"the run is in {folder}; write the model with: onnxgrad export {folder} --inference FILE.onnx")
    return 0


def _say_once(note: str, said: set[str]) -> None:
    if note not in said:
        said.add(note)
        print(f"note: {note}", file=sys.stderr)


def _find_rate(trainer: Trainer, data: Any, settings: dict[str, Any], options: argparse.Namespace) -> int:
    result = find_learning_rate(trainer, data, batch_size=settings["batch_size"])
    if options.find_lr:
        result.plot(options.find_lr)
    if options.json:
        print(json.dumps({"event": "rate", **result._asdict()}))
    else:
        drawn = f"; loss over rate is in {options.find_lr}" if options.find_lr else ""
        print(f"suggested learning rate: {result.suggestion:.2g} (--lr {result.suggestion:.2g}){drawn}")
    return 0


def _settings(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return folder and settings, from the command line or from the run to resume"""
    if options.resume is not None:
        stages = _changed_options(options) & _STAGES
        others = (
            _changed_options(options)
            - {"resume", "epochs", "more_epochs", "accept_changed_data", "explain", "json", "log", "rank_timeout"}
            - stages
        )
        if others:
            what = "the model" if "model" in others else f"--{min(others).replace('_', '-')}"
            raise ArgumentError(f"--resume FOLDER continues that run with its settings; leave out {what}.")
        settings = read_settings(options.resume)
        if stages:
            settings.update((name, getattr(options, name)) for name in _STAGES)
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
        raise ArgumentError("--term replaces --loss, --output and --target. Give one or the other.")
    for name in ("model", "data", "out"):
        spared = name == "out" and (options.find_lr, options.preview) != (None, None)
        if getattr(options, name) is None and not spared:
            raise ArgumentError(f"train needs {'a model' if name == 'model' else '--' + name}. See onnxgrad train --help.")
    contrasts = options.loss == "info_nce" or any(loss == "info_nce" for loss, *_ in options.term or ())
    if options.temperature not in (None, 2.0) and options.teacher is None and not contrasts:  # 2 is in settings of older runs
        raise ArgumentError("--temperature is for a teacher (--teacher), and for the loss info_nce. Leave it out.")
    device = {"bf16": "openvino", "fast": "cpu"}.get(options.precision, options.device)
    if options.device != device:
        raise ArgumentError(f"--precision {options.precision} is for --device {device}. Leave it out.")
    if options.dropout and not options.dropout_after:
        raise ArgumentError("--dropout needs --dropout-after NAME: operators or tensors.")
    settings = {name: value for name, value in vars(options).items() if name not in (*_NOT_SETTINGS, "out")}
    settings["epochs"] = 5 if options.epochs is None else options.epochs
    settings["lora_layers"] = [name for text in options.lora_layers for name in text.split(",") if name]
    resolve_paths(settings)
    return options.out, settings


def _changed_options(options: argparse.Namespace) -> set[str]:
    """Names of the options that differ from their defaults"""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return {name for name, default in vars(parser.parse_args([])).items() if getattr(options, name) != default}


class _Rows(Callback):
    """Prints the row of each epoch, and what validation gave before the first one."""

    def __init__(self, epochs: int, as_json: bool) -> None:
        self._epochs, self._json = epochs, as_json

    def on_evaluate(self, trainer: Trainer, row: dict[str, Any]) -> None:
        if row["epoch"] == 0:
            self._print("before", "before training", row)

    def on_epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self._print("epoch", f"epoch {row['epoch']}/{self._epochs}", row)

    def _print(self, event: str, title: str, row: dict[str, Any]) -> None:
        if self._json:
            print(json.dumps({"event": event, **row}), flush=True)
        elif not (sys.stderr.isatty() and sys.stdout.isatty() and find_spec("tqdm")):  # where the progress prints it
            values = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in ("epoch", "step"))
            print(f"{title}  {values}", flush=True)


def _fit(
    trainer: Trainer, data: Sequence[Any], settings: dict[str, Any], folder: str, options: argparse.Namespace, report: Report | None
) -> list[dict[str, Any]]:
    with trainer.ranks.folder(folder, settings["keep"]) as run:
        if options.resume is None and run is not None and trainer.ranks.is_first:
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
            monitor=settings.get("monitor"),
            max_steps=settings.get("max_steps"),
            evaluate_every=settings.get("evaluate_every"),
            checkpoint_every=settings["checkpoint_every"],
            curves=settings["curves"],
            before=data[1] is not None,
            callbacks=[
                _Rows(settings["epochs"], options.json),
                *loggers(options.log, folder),
                *([] if report is None else [report]),
            ],
            verbose="json" if options.json else True,
            accept_changed_data=options.accept_changed_data,
        )
