"""What a detector's outputs mean is found by structure, in files of both exporters of torch."""

import numpy as np
import onnx
import pytest

from onnxgrad import from_onnx, to_onnx
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Trainer
from onnxgrad.training.detection.heads import (
    DetectorHead,
    MapHead,
    decoding_operators,
    fixed_parameters,
    freeze_decoding,
    names_in_metadata,
    recognise_head,
    require_head,
    set_anchors,
)
from tests.training.detection.pictures import FILES, file, shapes

KINDS = {
    "distributed": ("distances", None, False, True),
    "distributed_nms": ("distances", None, True, True),
    "distributed_best": ("distances", None, True, True),
    "distributed_maps": ("distances", None, False, False),
    "anchored": ("anchors", None, False, True),
    "anchored_nms": ("anchors", None, True, True),
    "cells": ("cells", None, False, True),
    "cells_raw": ("cells", None, False, False),
    "default_boxes": ("default boxes", 0, False, True),
    "queries": ("queries", 3, False, True),
    "queries_best": ("queries", 3, False, True),
    "refined": ("queries", None, False, True),
    "refined_best": ("queries", None, False, True),
}
ANCHORS = [[12, 12, 18, 18, 24, 24], [24, 24, 30, 30, 36, 36], [36, 36, 44, 44, 56, 56]]
BOTH = [f"{name}{exporter}" for name in KINDS for exporter in ("", "_dynamo")]
MAPS = {
    "segmenter": (),
    "segmenter_softmax": ("Softmax",),
    "segmenter_argmax": ("ArgMax",),
    "text_map": ("Sigmoid",),
    "text_maps": ("Sigmoid",),
}


def kind_of(head):
    return head.family, head.background, head.suppression is not None, head.boxes is not None


@pytest.mark.parametrize("name", BOTH)
def test_a_detector_is_recognised(name):
    head = recognise_head(from_onnx(file(name)))
    assert isinstance(head, DetectorHead)
    assert kind_of(head) == KINDS[name.removesuffix("_dynamo")]
    assert head.classes == 3
    assert [b.bins for b in head.bins] == [16] * len(head.bins)
    assert bool(head.bins) == (head.family == "distances")


@pytest.mark.parametrize("name", BOTH)
def test_names_of_tensors_and_operators_do_not_matter(name):
    model = onnx.load(file(name))
    names = {}

    def anonymous(name):
        return names.setdefault(name, f"t{len(names)}") if name else ""

    for node in model.graph.node:
        node.name = ""
        node.input[:] = map(anonymous, node.input)
        node.output[:] = map(anonymous, node.output)
    for entry in (*model.graph.initializer, *model.graph.input, *model.graph.output, *model.graph.value_info):
        entry.name = anonymous(entry.name)
    head = recognise_head(from_onnx(model))
    assert kind_of(head) == KINDS[name.removesuffix("_dynamo")]


@pytest.mark.parametrize("name", [f"{name}{exporter}" for name in MAPS for exporter in ("", "_dynamo")])
def test_a_map_is_recognised_behind_its_activation(name):
    program = from_onnx(file(name))
    head = recognise_head(program)
    assert isinstance(head, MapHead)
    assert head.through == MAPS[name.removesuffix("_dynamo")]
    assert head.is_text_map == name.startswith("text_map")
    assert head.logits.op.type in ("Conv", "ConvTranspose", "Identity", "Add")


def three_outputs(name):
    """The training form of DBNet with its maps as outputs of their own"""
    model = onnx.load(file(name))
    (join,) = [node for node in model.graph.node if node.output[0] == "maps"]
    model.graph.node.remove(join)
    del model.graph.output[:]
    for part in join.input:
        model.graph.output.append(onnx.helper.make_tensor_value_info(part, onnx.TensorProto.FLOAT, ["batch", 1, 96, 96]))
    return model


@pytest.mark.parametrize("model", [file("text_maps"), file("text_maps_dynamo"), three_outputs("text_maps")])
def test_the_maps_that_a_text_detector_trains_with_are_found(model):
    head = recognise_head(from_onnx(model))
    assert head.is_text_map
    assert "as it trains" in head.description
    assert head.thresholds.op.type == "Sigmoid"
    assert head.binary.op.type == "Reciprocal"
    assert recognise_head(from_onnx(file("text_map"))).thresholds is None


def test_three_masks_are_no_text_detector():
    """Three channels behind a Sigmoid each, none of which follows from the others"""
    model = onnx.load(file("text_maps"))
    (join,) = [node for node in model.graph.node if node.output[0] == "maps"]
    join.input[2] = join.input[1]
    head = recognise_head(from_onnx(model))
    assert head.thresholds is None
    assert not head.is_text_map


def test_every_file_is_looked_at():
    stems = {path.stem for path in FILES.glob("*.onnx")}
    assert stems == {f"{name}{exporter}" for name in (*KINDS, *MAPS, "anchored_maps") for exporter in ("", "_dynamo")}


@pytest.mark.parametrize("name", [name for name in BOTH if not name.startswith(("queries", "refined"))])
def test_the_constants_of_the_decoding_are_fixed(name):
    program = from_onnx(file(name))
    freeze_decoding(program)
    fixed = {p.name for p in fixed_parameters(program)}
    layers = {v for op in program.global_block().ops if op.type == "Conv" for v in op.inputs[1:] if v is not None}
    learned = {p.name for p in program.parameters if p in layers and p.shape != (1, 16, 1, 1)}
    assert {p.name for p in program.parameters if p.trainable} == learned
    assert fixed == {p.name for p in program.parameters} - learned


def test_the_decoding_is_not_trained_with_a_loss_of_ones_own_either():
    program = from_onnx(file("distributed"))
    before = {p.name: p.get_value() for p in fixed_parameters(program)}
    assert len(before) == 4
    trainer = Trainer(program, loss="mse", optimizer="sgd", learning_rate=1e-3)
    image = shapes.pictures(0, 2)[0]
    trainer.step({"images": image, "target": np.zeros((2, 7, 189), np.float32)})
    for name, value in before.items():
        np.testing.assert_array_equal(trainer.program.find(name).get_value(), value)
    assert not set(before) & {p.name for p in trainer.trained}


def test_a_named_constant_of_the_decoding_trains():
    trainer = Trainer(file("distributed"), loss="detection", trainable=["expectation.weight"])
    assert [p.name for p in trainer.trained] == ["expectation.weight"]


def test_what_follows_the_last_layers_is_the_decoding():
    operators = {op.type for op in decoding_operators(from_onnx(file("anchored_nms")))}
    assert {"Sigmoid", "NonMaxSuppression", "Split"} <= operators
    assert "Conv" not in operators
    assert decoding_operators(from_onnx(file("segmenter"))) == []


def test_names_in_the_metadata_are_read():
    program = from_onnx(file("anchored"))
    assert names_in_metadata(program) == ["circle", "square", "triangle"]
    program.metadata["names"] = "{0: 'a', 2: 'b'}"
    assert names_in_metadata(program) is None
    program.metadata["names"] = "['a', 'b']"
    assert names_in_metadata(program) == ["a", "b"]
    program.metadata["names"] = "no list"
    assert names_in_metadata(program) is None


def test_classes_of_refined_boxes_have_a_sigmoid_each_without_names_of_classes():
    """Four logits without a name could be three classes and none; who refines boxes has no such class"""
    for name, background in (("refined", None), ("queries", 3)):
        program = from_onnx(file(name))
        program.metadata.clear()
        assert recognise_head(program).background == background


def test_the_last_boxes_of_a_decoder_that_refines_them_are_taken():
    for name in ("refined", "refined_best_dynamo"):
        head = recognise_head(from_onnx(file(name)))
        readers = {op.type for op in head.boxes.tensor.block.ops if any(v is head.boxes.tensor for v in op.inputs)}
        assert not readers & {"Log", "Clip", "Sub"}  # as the boxes before them are read
        assert head.boxes.tensor.dims[1] == head.scores[0].tensor.dims[1] == 12


def parsed(text):
    return from_onnx(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> f {text}'))


def test_an_unknown_head_is_named_with_what_to_give():
    program = parsed("(float[N, 4] x) => (float[N, 3] y) <float[4, 3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { y = MatMul(x, w) }")
    assert recognise_head(program) is None
    with pytest.raises(ArgumentError, match=r"the outputs y \[N, 3\] are of no detector .*Term\(function"):
        require_head(program)


def test_anchors_that_the_file_lacks_are_named():
    program = parsed("(float[N, 3, 4, 4, 8] x) => (float[N, 3, 4, 4, 8] y) { y = Neg(x) }")
    with pytest.raises(ArgumentError, match="the file does not hold the anchors"):
        require_head(program)


def test_anchors_that_the_file_lacks_are_given():
    for name in ("anchored_maps", "anchored_maps_dynamo"):
        program = from_onnx(file(name))
        assert recognise_head(program) is None
        with pytest.raises(ArgumentError, match=r"the file does not hold the anchors. Give them \(set_anchors, --anchors\)"):
            require_head(program)
        set_anchors(program, ANCHORS)
        assert kind_of(recognise_head(program)) == ("anchors", None, False, False)
        again = from_onnx(to_onnx(program))
        assert recognise_head(again).anchors == recognise_head(program).anchors
        assert recognise_head(again).anchors[2] == ((36, 36), (44, 44), (56, 56))


def flat_maps():
    """The maps of the last convolutions, as many exporters leave them: [batch, anchors * numbers, height, width]"""
    model = onnx.load(file("anchored_maps"))
    producers = {name: node for node in model.graph.node for name in node.output}
    for v in model.graph.output:
        node = producers[v.name]
        while node.op_type != "Conv":
            node = producers[node.input[0]]
        size = v.type.tensor_type.shape.dim[2].dim_value
        v.CopyFrom(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, ["batch", 24, size, size]))
    return model


def test_maps_of_convolutions_are_taken_by_anchors_too():
    program = from_onnx(flat_maps())
    with pytest.raises(ArgumentError, match="the file does not hold the anchors"):
        require_head(program)
    set_anchors(program, ANCHORS)
    assert recognise_head(program).classes == 3
    assert [c.groups for c in recognise_head(program).scores] == [3, 3, 3]


def test_anchors_that_do_not_fit_are_named_and_change_nothing():
    program = from_onnx(file("anchored_maps"))
    before = dict(program.metadata)
    for anchors, message in (
        ([1, 2, 3], "not widths and heights"),
        ([4, -4] * 3, "not widths and heights"),
        ([10, 10] * 4, "4 anchors for 3 maps"),
        ([10, 10] * 6, "do not hold five numbers and the classes of 2 anchors"),
    ):
        with pytest.raises(ArgumentError, match=message):
            set_anchors(program, anchors)
    assert program.metadata == before
    with pytest.raises(ArgumentError, match="anchors are for a detector whose outputs are maps"):
        set_anchors(from_onnx(file("cells")), ANCHORS)


def test_a_segmenter_is_no_detector():
    with pytest.raises(ArgumentError, match=r"a segmenter: scores of 4 classes.*cross_entropy"):
        require_head(from_onnx(file("segmenter")))
