"""Attention and positional encodings, differentiated through ONNX's function bodies."""

from __future__ import annotations

from onnxgrad.autodiff.registry import expands

expands("Attention", "RotaryEmbedding")
