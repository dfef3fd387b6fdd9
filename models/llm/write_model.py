"""Write a small language model with random weights, as the model builder of onnxruntime-genai writes those that one downloads.

Usage: python models/llm/write_model.py FOLDER [--precision int4]

The folder has model.onnx, genai_config.json and a tokenizer whose words are bytes, made on the spot. Needs the packages
onnxruntime-genai, transformers and torch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_tokenizer(folder: Path) -> int:
    """A tokenizer of single bytes and the marks of a chat; returns how many words it has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=259, special_tokens=MARKS, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator([], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": MARKS[0],
        "eos_token": MARKS[2],
        "pad_token": MARKS[0],
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return int(tokenizer.get_vocab_size())


def write_model(folder: Path, precision: str = "int4", provider: str = "cpu", architecture: str = "qwen2") -> None:
    """The folder that the builder makes of a random model, for onnxruntime-genai."""
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        source.mkdir()
        words = write_tokenizer(source)
        torch.manual_seed(0)
        ends = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
        config = transformers.AutoConfig.for_model(architecture, vocab_size=-(-words // 32) * 32, **SIZES, **ends)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(source)
        transformers.GenerationConfig(do_sample=False, **ends).save_pretrained(source)
        arguments = ["-i", source, "-o", folder, "-p", precision, "-e", provider, "-c", Path(place) / "cache"]
        done = subprocess.run(
            [sys.executable, "-m", "onnxruntime_genai.models.builder", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"the model builder failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--precision", default="int4", choices=["int4", "int8", "fp16", "fp32"])
    parser.add_argument("--architecture", default="qwen2")
    options = parser.parse_args()
    write_model(options.folder, options.precision, architecture=options.architecture)
    print(f"wrote {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
