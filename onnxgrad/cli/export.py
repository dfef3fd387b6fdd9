"""What ``onnxgrad export`` does; its arguments are in ``options/export.py``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from onnxgrad.cli.common import print_json
from onnxgrad.cli.settings import checkpoint_of, make_trainer, read_settings
from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.interop.model_file import files_read_by
from onnxgrad.core.interop.required_operators import required_operators
from onnxgrad.core.step.split import files_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import write_whole
from onnxgrad.training.surgery.adapters import ADAPTER
from onnxgrad.training.surgery.peft import CONFIG, TENSORS, save_peft
from onnxgrad.training.trainer import Trainer


def run(options: argparse.Namespace) -> int:
    if options.lowering and not options.training_step:
        raise ArgumentError("--lowering is for --training-step; the other files hold plain operators.")
    if options.required_operators and not options.training_step:
        raise ArgumentError("--required-operators lists the operators of a training step. Add --training-step FILE.onnx.")
    if options.split and (not options.training_step or options.required_operators):
        raise ArgumentError("--split is for --training-step, without --required-operators.")
    if options.batch_norm and not options.split:
        raise ArgumentError("--batch-norm is for --split, which cuts a batch into parts.")
    if options.observe and not options.inference:
        raise ArgumentError("--observe is for --inference, whose scales it sets.")
    if options.peft_base and not options.peft:
        raise ArgumentError("--peft-base is for --peft FOLDER. Name the folder.")
    if not (options.inference or options.merged or options.training_step or options.adapters or options.peft):
        raise ArgumentError("choose a file to write: --inference, --merged, --training-step, --adapters or --peft.")
    if options.requantise and not options.merged:
        raise ArgumentError("--requantise is for --merged FILE.onnx. Name the file.")
    trainer = make_trainer(read_settings(options.folder), options.folder)
    path = checkpoint_of(Path(options.folder), options.checkpoint)
    trainer.load(path)
    written, notes = [], []
    if options.inference:
        trainer.export(options.inference, fold=options.fold, observe=options.observe)
        written.append(options.inference)
    if options.merged:
        notes = trainer.export(options.merged, fold=options.fold, quantised="again" if options.requantise else "float")
        written.append(options.merged)
    if options.adapters:
        trainer.save_adapters(options.adapters)
        written.append(options.adapters)
        if Path(options.adapters).suffix == ADAPTER:
            written.append(str(Path(options.adapters).with_suffix(".onnx")))
    if options.peft:
        save_peft(trainer.inference, options.peft, base=options.peft_base, scope=trainer.averaged())
        written += [str(Path(options.peft) / name) for name in (CONFIG, TENSORS)]
    if options.split:
        manifest = trainer.save_training_step(options.training_step, options.lowering, split=True, batch_norm=options.batch_norm)
        described = Path(manifest["values"]).with_suffix(".json").name
        written += [str(Path(options.training_step).with_name(name)) for name in (*files_of(manifest), described)]
    elif options.training_step:
        written += _write_step(trainer, Path(options.training_step), options.lowering, options.required_operators)
    written, others = _with_weights(written)
    notes += others
    if options.json:
        result = {"checkpoint": str(path), "step": trainer.step_number, "epoch": trainer.epoch, "written": written}
        print_json({**result, "notes": notes} if notes else result)
    else:
        for line in notes:
            print(f"note: {line}")
        print(f"{path} (step {trainer.step_number}): wrote {', '.join(written)}")
    return 0


def _with_weights(paths: list[str]) -> tuple[list[str], list[str]]:
    """Each file with that of its weights, if it has one of its own, and notes on those that it reads of the model's"""
    files, notes = [], []
    for path in paths:
        files.append(path)
        for name in files_read_by(path) if Path(path).suffix == ".onnx" else ():
            if name == f"{Path(path).name}.data":
                files.append(f"{path}.data")
            else:
                notes.append(f"{path} reads {name}, which is beside it already. Copy both.")
    return files, notes


def _write_step(trainer: Trainer, path: Path, lowering: Lowering | None, operators: str | None) -> list[str]:
    model, manifest = trainer.to_training_step(lowering=lowering)
    write_whole(path, model.SerializeToString())
    described = path.with_suffix(".json")
    write_whole(described, json.dumps(manifest, indent=1).encode())
    if operators is None:
        return [str(path), str(described)]
    write_whole(Path(operators), required_operators(model).encode())
    return [str(path), str(described), operators]
