"""Teach a language model with int4 weights a few answers by QLoRA, and let onnxruntime-genai give them.

Usage: python models/llm/fine_tune.py [--model FOLDER] [--data chat.jsonl] [--out out/llm]

Without --model a small one with random weights is written first; it answers letters. Every step is a command that the script
prints, so it can be typed as well. Writes the run, and the folders tuned (adapters beside the packed weights) and adapters
(onnxruntime's adapter file and the model that takes it), which onnxruntime-genai opens.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from write_model import write_model

ANSWERS = {
    "Who are you?": "A tiny model, its weights are four bits each.",
    "What is ONNX?": "A format for models that every runtime reads.",
    "Who taught you?": "onnxgrad did, in less than a minute.",
    "Say hello.": "Hello from onnxruntime, the stock one!",
}


def command(*arguments: object) -> None:
    """Run ``onnxgrad`` as from a shell, and show the command."""
    print("$", shlex.join(["onnxgrad", *map(str, arguments)]), flush=True)
    subprocess.run([sys.executable, "-m", "onnxgrad", *map(str, arguments)], check=True)


def write_chats(path: Path, times: int = 20) -> None:
    """All answers so many times: an epoch is then long enough to be worth a checkpoint."""
    turns = [[{"role": "user", "content": q}, {"role": "assistant", "content": a}] for q, a in ANSWERS.items()]
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in turns * times))


def folder_like(source: Path, target: Path, model: str) -> Path:
    """A folder with the configuration and tokenizer of another, for a model of this name; the path that the model gets."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.suffix in (".json", ".jinja", ".txt", ".model"):
            shutil.copy(path, target)
    config = json.loads((target / "genai_config.json").read_text())
    config["model"]["decoder"]["filename"] = model
    (target / "genai_config.json").write_text(json.dumps(config, indent=1))
    return target / model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a model for onnxruntime-genai (default: a small one is written)")
    parser.add_argument("--data", type=Path, help="chats as .jsonl (default: four questions)")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--on", default="*", help="layers that are adapted, as in onnxgrad train (default %(default)s)")
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--question", nargs="+", default=list(ANSWERS), help="what the model is asked before and after")
    parser.add_argument("--out", type=Path, default=Path("out/llm"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    source, data = options.model, options.data
    if source is None:
        source = options.out / "model"
        if not source.exists():
            write_model(source)
    if data is None:
        data = options.out / "chat.jsonl"
        write_chats(data)

    run = options.out / "run"
    shutil.rmtree(run, ignore_errors=True)
    file = source / json.loads((source / "genai_config.json").read_text())["model"]["decoder"]["filename"]
    what = [
        "--lora",
        options.rank,
        "--on",
        options.on,
        "--loss",
        "causal_lm",
        "--data",
        data,
        "--tokenizer",
        source / "tokenizer.json",
    ]
    course = ["--max-length", options.max_length, "--batch-size", options.batch_size, "--epochs", options.epochs]
    # Each batch of our own has every answer once.
    course += ["--no-shuffle"] if options.data is None else []
    command("train", file, *what, *course, "--lr", options.lr, "--schedule", "cosine", "--out", run)
    tuned = folder_like(source, options.out / "tuned", "model.onnx")
    command("export", run, "--inference", tuned)
    adapters = folder_like(source, options.out / "adapters", "adapters.onnx").with_suffix(".onnx_adapter")
    command("export", run, "--adapters", adapters)

    from talk import Talker

    talkers = {
        "before": Talker(str(source)),
        "after": Talker(str(tuned.parent)),
        "with the adapter file": Talker(str(adapters.parent), str(adapters)),
    }
    for question in options.question:
        print(question)
        for when, talker in talkers.items():
            print(f"  {when}: {talker.answer(question)!r}", flush=True)
    times: dict[str, list[float]] = {when: [] for when in talkers}
    for _ in range(5):
        for when, talker in talkers.items():
            times[when].append(talker.seconds_per_word(options.question[0]))
    for when in list(talkers)[1:]:
        print(f"words per second {when}, over those before: {min(times['before']) / min(times[when]):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
