"""Ask a model of onnxruntime-genai questions, and say how fast it answers.

Usage: python models/llm/talk.py FOLDER QUESTION [QUESTION ...] [--adapters FILE.onnx_adapter]

FOLDER holds the model, genai_config.json and the tokenizer. Needs the package onnxruntime-genai alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import onnxruntime_genai


class Talker:
    """A model that answers, always with its likeliest words."""

    def __init__(self, folder: str, adapters: str | None = None) -> None:
        self.model = onnxruntime_genai.Model(folder)
        self.tokenizer = onnxruntime_genai.Tokenizer(self.model)
        self.adapters = None
        if adapters is not None:
            self.adapters = onnxruntime_genai.Adapters(self.model)
            self.adapters.load(adapters, "tuned")

    def _begin(self, question: str, longest: int, shortest: int = 0) -> onnxruntime_genai.Generator:
        prompt = self.tokenizer.apply_chat_template(
            messages=json.dumps([{"role": "user", "content": question}]), add_generation_prompt=True
        )
        words = self.tokenizer.encode(prompt)
        parameters = onnxruntime_genai.GeneratorParams(self.model)
        parameters.set_search_options(
            max_length=len(words) + longest, min_length=len(words) + shortest if shortest else 0, do_sample=False
        )
        generator = onnxruntime_genai.Generator(self.model, parameters)
        if self.adapters is not None:
            generator.set_active_adapter(self.adapters, "tuned")
        generator.append_tokens(words)
        return generator

    def answer(self, question: str, longest: int = 48) -> str:
        generator, words = self._begin(question, longest), []
        while not generator.is_done():
            generator.generate_next_token()
            words.append(generator.get_next_tokens()[0])
        return str(self.tokenizer.decode(words))

    def seconds_per_word(self, question: str, count: int = 64) -> float:
        """Processor time of the answer, a word at a time."""
        generator = self._begin(question, count, count)
        generator.generate_next_token()
        start = time.process_time()
        for _ in range(count - 2):
            generator.generate_next_token()
        return (time.process_time() - start) / (count - 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("questions", nargs="+", metavar="QUESTION")
    parser.add_argument("--adapters", metavar="FILE.onnx_adapter")
    options = parser.parse_args()
    talker = Talker(options.folder, options.adapters)
    for question in options.questions:
        print(f"{question} {talker.answer(question)!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
