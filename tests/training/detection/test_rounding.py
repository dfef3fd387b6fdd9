"""Detectors in 8-bit integers whose decoding is quantised, too, as onnxruntime's quantizer leaves them."""

import logging

import numpy as np
import pytest
from onnxruntime import quantization

from onnxgrad import from_onnx
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.training import Trainer
from onnxgrad.training.detection.geometry import Probe
from onnxgrad.training.detection.heads import recognise_head
from onnxgrad.training.detection.rounding import rounded_tensors, take_out_rounding
from tests.training.detection.pictures import file, shapes

NAMES = ["distributed", "distributed_nms", "anchored", "cells", "default_boxes"]


class Reader(quantization.CalibrationDataReader):
    def __init__(self):
        self.feeds = iter([{"images": shapes.pictures(9, 8)[0]}])

    def get_next(self):
        return next(self.feeds, None)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8")
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)
    for name in NAMES:
        quantization.quantize_static(
            str(file(name)), str(folder / f"{name}.onnx"), Reader(), per_channel=True, activation_type=quantization.QuantType.QUInt8
        )
    logging.getLogger().setLevel(level)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_quantised_decoding_is_recognised(name, quantized):
    program = from_onnx(quantized / f"{name}.onnx")
    head, plain = recognise_head(program), recognise_head(from_onnx(file(name)))
    assert (head.family, head.classes, head.background) == (plain.family, plain.classes, plain.background)
    assert head.boxes.tensor.op.type == "DequantizeLinear"  # the loss is of what the file gives, rounded
    assert all(v.block is program.global_block() for v in (head.boxes.tensor, *head.probes))


def test_a_detector_with_a_quantised_decoding_trains(quantized):
    image, boxes, _ = shapes.pictures(9, 8)
    trainer = Trainer(quantized / "cells.onnx", loss="detection", learning_rate=1e-4)
    row = trainer.evaluate({"images": image, "boxes": boxes})
    assert row["map50"] > 0.8  # the boxes are read where they are, within what 8 bits hold
    assert np.isfinite(trainer.step({"images": image, "boxes": boxes})["loss"])


def test_geometry_is_that_of_the_decoding_without_rounding(quantized):
    """Points of cells within what rounded constants allow: a step of 96 / 255 pixels and less"""
    rows = []
    for path in (file("distributed"), quantized / "distributed.onnx"):
        program = from_onnx(path)
        rows.append(Probe(program, recognise_head(program), Executor()).geometry())
    np.testing.assert_allclose(rows[1].points, rows[0].points, atol=0.5)
    np.testing.assert_allclose(rows[1].strides, rows[0].strides, rtol=0.02)


def test_what_is_taken_out_leaves_the_program_and_its_outputs(quantized):
    program = from_onnx(quantized / "cells.onnx")
    before = program.to_string()
    pairs = rounded_tensors(program)
    copy = program.clone(for_test=True)
    take_out_rounding(copy)
    assert program.to_string() == before
    assert len(pairs) > 50
    assert not rounded_tensors(copy)
    assert "QuantizeLinear" not in {op.type for op in copy.global_block().ops}
    image = shapes.pictures(1, 1)[0]
    (exact,) = Executor().run(copy, {"images": image}, list(copy.outputs))
    (rounded,) = Executor().run(program, {"images": image}, list(program.outputs))
    assert exact.shape == rounded.shape
    assert not np.array_equal(exact, rounded)
