"""Files that a user can hand us besides models, and the process that tries damaged copies of them.

``python -m tests.fuzz.files FOLDER KEY FIRST STOP SECONDS MEGABYTES`` says what it begins and how each ended, as the worker for
models does.
"""

import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx.parser import parse_model

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad.cli.main import main as run_command
from onnxgrad.cli.quantized_run import as_rows
from onnxgrad.core.costs import read_overruled
from onnxgrad.errors import OnnxGradError
from onnxgrad.federated import Worker, save_step
from onnxgrad.internal import state
from onnxgrad.training import Images, Text, Texts, Trainer, add_lora, load_adapters, save_adapters
from onnxgrad.training.data import open_data
from onnxgrad.training.run.checkpoint import load_checkpoint, save_checkpoint
from tests.fuzz.damage import damaged
from tests.fuzz.worker import Outcome, serve
from tests.training import small
from tests.training.data.annotated.sets import SETS, wanted

__all__ = ["KINDS", "write_files"]


class Kind(NamedTuple):
    """A kind of file: writes sound ones into a folder, the names of those that are damaged, and what a user does with them.

    ``weight`` says how often it is drawn beside the others.
    """

    write: Callable[[Path], None]
    damaged: tuple[str, ...]
    use: Callable[[Path], Any]


_DATA = small.data(12)


def _trainer() -> Trainer:
    return Trainer(small.model(), loss="cross_entropy", metrics=["accuracy"], learning_rate=0.1, threads=1)


@cache
def _kept_trainer() -> Trainer:
    """One for what does not change it"""
    return _trainer()


# Data ------------------------------------------------------------------------------------------------------------------


def _rows() -> list[dict[str, Any]]:
    return [
        {**{f"x.{i}": round(float(value), 3) for i, value in enumerate(x)}, "target": int(t)}
        for x, t in zip(_DATA["x"], _DATA["target"], strict=True)
    ]


def _write_separated(path: Path, mark: str) -> None:
    rows = _rows()
    path.write_text("\n".join([mark.join(rows[0]), *(mark.join(map(str, row.values())) for row in rows)]))


def _write_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(_rows()), path)


def _write_npys(folder: Path) -> None:
    for name, array in _DATA.items():
        np.save(folder / f"{name}.npy", array)


def _evaluates(name: str) -> Callable[[Path], Any]:
    def use(folder: Path) -> None:
        _kept_trainer().evaluate(str(folder / name), batch_size=5)
        _kept_trainer().predict(str(folder / name))

    return use


# Text and images -------------------------------------------------------------------------------------------------------

_CHAT = [{"role": "user", "content": "héllo?"}, {"role": "assistant", "content": "yés"}]
_TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def _write_text(folder: Path) -> None:
    import tokenizers

    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        [], tokenizers.trainers.BpeTrainer(vocab_size=259, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "<|endoftext|>", "chat_template": _TEMPLATE, "bos_token": {"content": "<|im_start|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(_TEMPLATE)
    lines = [{"text": "añb"}, {"prompt": "2 + 2 =", "completion": " 4"}, {"messages": _CHAT}]
    (folder / "data.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (folder / "plain.txt").write_text("some words to learn\n" * 3)
    (folder / "labelled.csv").write_text("text,target\ngood,1\nbad,0\n")


def _use_text(folder: Path) -> None:
    for name in ("data.jsonl", "plain.txt"):
        data = Text(folder / name, folder / "tokenizer.json", max_length=16, pack=name == "data.jsonl")
        for batch in data.batches(2):
            data.decoders["input_ids"](batch["input_ids"][0])
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (int64[N, T] input_ids) => (float[N, 2] y) <float[1, 2] e = {0.5, 0.25}> {
        z = Sub(input_ids, input_ids)  r = Gather(e, z)  y = ReduceMean<axes = [1], keepdims = 0>(r) }"""
    )
    trainer = Trainer(model, loss="cross_entropy", learning_rate=0.1, threads=1)
    trainer.evaluate(Texts(folder / "labelled.csv", folder / "tokenizer.json", max_length=8), batch_size=2)


def _write_images(folder: Path) -> None:
    from PIL import Image

    draw = np.random.default_rng(0)
    for name in ("red", "blue"):
        (folder / name).mkdir()
        for i, suffix in enumerate(("png", "jpg", "bmp", "gif")):
            Image.fromarray(draw.integers(0, 255, (9, 8 + i, 3), np.uint8)).save(folder / name / f"{i}.{suffix}")
    rows = [f"{name}/{i}.{suffix},{name}" for name in ("red", "blue") for i, suffix in enumerate(("png", "jpg"))]
    (folder / "listed.csv").write_text("\n".join(["path,target", *rows]))


@cache
def _image_trainer() -> Trainer:
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 8, 8] x) => (float[N, 2] y)
        <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0, 0}> { m = GlobalAveragePool(x)  r = Flatten(m)  y = Gemm<transB = 1>(r, w, b) }"""
    )
    return Trainer(model, loss="cross_entropy", learning_rate=0.1, threads=1)


def _use_images(folder: Path) -> None:
    for path in (folder / "listed.csv", folder):
        if path == folder:
            (folder / "listed.csv").unlink()
        _image_trainer().evaluate(Images(path), batch_size=3)


# Pictures with boxes, regions and masks ----------------------------------------------------------------------------------


def _copies(name: str) -> Callable[[Path], None]:
    """Copy a set of tests/data/annotated"""

    def write(folder: Path) -> None:
        shutil.copytree(SETS / name, folder, dirs_exist_ok=True)

    return write


def _takes(kind: str, *paths: str) -> Callable[[Path], Any]:
    """Open each path as data of this kind and read all of it, changed at random and plain"""

    def use(folder: Path) -> None:
        spec = wanted("target", (None, 64, 64), "int64") if kind == "mask" else wanted(kind, (None, None, None))
        refusals = []
        for path in paths:
            refusals.append(_refusal(lambda path=path: list(_opened(folder / path, spec).batches(3))))
            refusals.append(_refusal(lambda path=path: list(_opened(folder / path, spec).plain().batches(3))))
        if any(refusals):
            raise next(filter(None, refusals))

    def _opened(path: Path, spec: Any) -> Any:
        return open_data(Images(path, flip=True, crop=True, scale=0.3), spec)

    return use


def _write_box_table(folder: Path) -> None:
    shutil.copytree(SETS / "coco" / "images", folder, dirs_exist_ok=True)
    rows = [["000.png", "bus", 27, 1, 44, 19], ["000.png", "car", 32, 16, 43, 29], ["002.png", "", "", "", "", ""]]
    (folder / "boxes.csv").write_text(
        "\n".join(",".join(map(str, row)) for row in (["path", "class", "x1", "y1", "x2", "y2"], *rows))
    )


def _write_coloured(folder: Path) -> None:
    shutil.copytree(SETS / "masks" / "images", folder / "images")
    shutil.copytree(SETS / "masks" / "coloured", folder / "masks")
    shutil.move(folder / "masks" / "class_dict.csv", folder)


# State -----------------------------------------------------------------------------------------------------------------


def _write_checkpoint(folder: Path) -> None:
    trainer = _trainer()
    trainer.fit(_DATA, 1, batch_size=4, verbose=False)
    trainer.save(folder / "run.safetensors")
    save_checkpoint(trainer.program, folder / "state.safetensors")


def _use_checkpoint(folder: Path) -> None:
    trainer = _trainer()
    trainer.load(folder / "run.safetensors")
    load_checkpoint(trainer.program, folder / "state.safetensors")


def _adapted() -> Any:
    program = og.from_onnx(small.model())
    add_lora(program, rank=2)
    return program


def _write_adapters(folder: Path) -> None:
    save_adapters(_adapted(), folder / "a.safetensors")


def _write_saved(folder: Path) -> None:
    og.save({"w": og.to_tensor(np.ones(3, np.float32)), "n": [1, 2.5, "x", None, (np.arange(2),)]}, folder / "o.safetensors")


def _linear() -> tuple[Any, Any, Any]:
    program, startup = og.static.Program(), og.static.Program()
    with og.static.program_guard(program, startup):
        x = og.static.data("x", [None, 2])
        y = og.static.nn.fc(x, 2, name="layer")
        loss = F.mse_loss(y, og.static.data("target", [None, 2]))
        og.optimizer.Adam(0.1).minimize(loss)
    og.Executor(threads=1).run(startup)
    return program, y, loss


def _write_static(folder: Path) -> None:
    program, y, _ = _linear()
    og.static.save(program, str(folder / "m"))
    og.static.save_inference_model(
        str(folder / "i"), [program.global_block().var("x")], [y], og.Executor(threads=1), program=program
    )
    og.fluid.io.save_params(None, str(folder / "f"), program)


def _use_static(folder: Path) -> None:
    program, _, _ = _linear()
    og.static.load(program, str(folder / "m"))
    og.static.set_program_state(program, og.static.load_program_state(str(folder / "m")))
    og.static.deserialize_persistables(program, (folder / "m.pdparams").read_bytes())
    og.static.load_inference_model(str(folder / "i"), og.Executor(threads=1))
    og.fluid.io.load_params(None, str(folder / "f"), program)


# Runs and steps --------------------------------------------------------------------------------------------------------


_HERE = b"/the-folder-of-the-run"
"""In the settings of a run: where it lies."""


def _write_run(folder: Path) -> None:
    og.save_onnx(og.from_onnx(small.model()), folder / "m.onnx")
    np.savez(folder / "data.npz", **_DATA)
    run_command([
        "train", str(folder / "m.onnx"), "--data", str(folder / "data.npz"), "--val", str(folder / "data.npz"), "--loss", "cross_entropy",
        "--out", str(folder / "run"), "--epochs", "1", "--batch-size", "4", "--threads", "1", "--optimizer", "adam", "--debug",
    ])  # fmt: skip
    settings = folder / "run" / "settings.json"
    settings.write_bytes(settings.read_bytes().replace(str(folder).encode(), _HERE))
    (folder / "costs.json").write_text(json.dumps({"plan.transpose": 1.2, "session.largest_message": {"value": 5}}))


def _use_run(folder: Path) -> None:
    settings = folder / "run" / "settings.json"
    settings.write_bytes(settings.read_bytes().replace(_HERE, str(folder).encode()))
    refusals: list[OnnxGradError | None] = []
    for action in (
        lambda: run_command(["evaluate", str(folder / "run"), "--data", str(folder / "data.npz"), "--debug"]),
        lambda: run_command(["train", "--resume", str(folder / "run"), "--more-epochs", "1", "--debug"]),
        lambda: run_command(["export", str(folder / "run"), "--inference", str(folder / "out.onnx"), "--debug"]),
        lambda: run_command(["check", str(folder / "m.onnx"), "--feeds", str(folder / "data.npz"), "--debug"]),
        lambda: as_rows(str(folder / "run")),
        lambda: read_overruled(folder / "costs.json"),
    ):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            refusals.append(_refusal(action))
    if any(refusals):
        raise next(filter(None, refusals))


def _refusal(action: Callable[[], Any]) -> OnnxGradError | None:
    """The error of ours that a command ends with: those after it are tried, too"""
    try:
        action()
    except OnnxGradError as error:
        return error
    return None


def _write_step(folder: Path) -> None:
    program, _, loss = _linear()
    save_step(program, folder / "step", [loss])
    og.save_training_step(program.clone(for_test=True), folder / "test", [loss.name])


def _use_step(folder: Path) -> None:
    worker = Worker(folder / "step.json", evaluation=folder / "test.json", threads=1)
    x = np.ones((4, 2), np.float32)
    worker.fit({"x": x, "target": x}, batch_size=2)
    worker.evaluate({"x": x, "target": x})


KINDS: dict[str, Kind] = {
    "npz": Kind(lambda folder: np.savez(folder / "data.npz", **_DATA), ("data.npz",), _evaluates("data.npz")),
    "npy": Kind(_write_npys, ("x.npy", "target.npy"), _evaluates("")),
    "csv": Kind(lambda folder: _write_separated(folder / "data.csv", ","), ("data.csv",), _evaluates("data.csv")),
    "tsv": Kind(lambda folder: _write_separated(folder / "data.tsv", "\t"), ("data.tsv",), _evaluates("data.tsv")),
    "jsonl": Kind(
        lambda folder: (folder / "data.jsonl").write_text("\n".join(map(json.dumps, _rows()))) and None,
        ("data.jsonl",),
        _evaluates("data.jsonl"),
    ),
    "parquet": Kind(lambda folder: _write_parquet(folder / "data.parquet"), ("data.parquet",), _evaluates("data.parquet")),
    "text": Kind(_write_text, ("data.jsonl", "plain.txt", "labelled.csv"), _use_text),
    "tokenizer": Kind(_write_text, ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"), _use_text),
    "images": Kind(_write_images, ("red/0.png", "red/1.jpg", "red/2.bmp", "red/3.gif", "listed.csv"), _use_images),
    "coco": Kind(_copies("coco"), ("annotations/*.json", "annotations/*.json", "images/000.png"), _takes("boxes", "")),
    "yolo": Kind(_copies("yolo"), ("data.yaml", "labels/train/*.txt"), _takes("boxes", "data.yaml")),
    "voc": Kind(_copies("voc"), ("Annotations/*.xml", "ImageSets/Main/train.txt"), _takes("boxes", "")),
    "box table": Kind(_write_box_table, ("boxes.csv",), _takes("boxes", "boxes.csv")),
    "text regions": Kind(
        _copies("regions"), ("icdar/gt_*.txt", "paddle/Label.txt"), _takes("regions", "icdar", "paddle/Label.txt")
    ),
    "masks": Kind(_copies("masks"), ("masks/*.png",), _takes("mask", "")),
    "coloured masks": Kind(_write_coloured, ("masks/*.png", "class_dict.csv", "class_dict.csv"), _takes("mask", "")),
    "checkpoint": Kind(_write_checkpoint, ("run.safetensors", "state.safetensors"), _use_checkpoint),
    "adapters": Kind(_write_adapters, ("a.safetensors",), lambda folder: load_adapters(_adapted(), folder / "a.safetensors")),
    "saved object": Kind(_write_saved, ("o.safetensors",), lambda folder: og.load(folder / "o.safetensors")),
    "static state": Kind(_write_static, ("m.pdparams", "m.pdopt", "i.pdmodel", "i.pdiparams", "f/*"), _use_static),
    "run folder": Kind(
        _write_run, ("run/settings.json", "run/last.safetensors", "run/best.safetensors", "costs.json", "data.npz"), _use_run
    ),
    "written step": Kind(_write_step, ("step.json", "step.bin", "step.onnx", "test.json"), _use_step),
}


def write_files(folder: Path) -> None:
    """Write the sound files of every kind into a folder of its own."""
    for name, kind in KINDS.items():
        (folder / name).mkdir()
        with state.isolated():
            kind.write(folder / name)


def make(folder: Path, key: str, number: int) -> tuple[str, Path, bytes]:
    """Kind, path within its folder and bytes of the damaged copy of a number."""
    draw = random.Random(f"{key}/{number}")
    name = list(KINDS)[number % len(KINDS)]
    paths = [path for pattern in KINDS[name].damaged for path in sorted((folder / name).glob(pattern)) if path.is_file()]
    path = draw.choice(paths)
    return name, path.relative_to(folder / name), damaged(path, draw)


def attempt(kind: str, folder: Path) -> Outcome:
    """What a user does with the files of a kind."""
    outcome = Outcome()
    outcome.attempt(kind, lambda: KINDS[kind].use(folder))
    return outcome


def main(arguments: list[str]) -> None:
    folder, key, first, stop, seconds, megabytes = arguments
    with tempfile.TemporaryDirectory() as place:

        def attempts(number: int) -> tuple[str, Callable[[], Outcome]]:
            kind, path, data = make(Path(folder), key, number)

            def tried() -> Outcome:
                shutil.rmtree(Path(place) / "copy", ignore_errors=True)
                shutil.copytree(Path(folder) / kind, Path(place) / "copy")
                (Path(place) / "copy" / path).write_bytes(data)
                return attempt(kind, Path(place) / "copy")

            return f"{kind}: {path}", tried

        serve(range(int(first), int(stop)), attempts, float(seconds), int(megabytes))


if __name__ == "__main__":
    main(sys.argv[1:])
