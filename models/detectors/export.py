"""Write the files of tests/data/detectors: each network with both exporters of torch, where these can.

python models/detectors/export.py [FOLDER [NAME ...]]

It takes torch, torchvision and onnxscript, and a quarter of an hour on one core.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import networks
import onnx
import onnxruntime
import pretrain
import shapes
import torch
import torchvision
from networks import CLASSES, SIZE
from onnxscript import opset18 as ops
from torch import Tensor, nn

OUT = Path(__file__).parents[2] / "tests" / "data" / "detectors"
NAMES = dict(enumerate(shapes.NAMES[:CLASSES]))


@torch.library.custom_op("detectors::suppress", mutates_args=())
def suppress(boxes: Tensor, scores: Tensor) -> Tensor:
    """The operator of ONNX, which torch has not: exporters write it, and torch runs a stand-in of its shape."""
    return torch.zeros((5, 3), dtype=torch.int64)


@suppress.register_fake
def _(boxes: Tensor, scores: Tensor) -> Tensor:
    return torch.empty((torch.library.get_ctx().new_dynamic_size(), 3), dtype=torch.int64)


LIMITS = (30, 0.5, 0.05)
"""Boxes of a class in a picture at most, the largest overlap, the least score."""


def suppress_by_torchscript(g, boxes, scores):
    most, overlap, least = (g.op("Constant", value_t=torch.tensor([limit])) for limit in LIMITS)
    return g.op("NonMaxSuppression", boxes, scores, most, overlap, least)


def suppress_by_dynamo(boxes, scores):
    most, overlap, least = LIMITS
    return ops.NonMaxSuppression(
        boxes, scores, ops.Constant(value_ints=[most]), ops.Constant(value_floats=[overlap]), ops.Constant(value_floats=[least])
    )


def selected(boxes: Tensor, scores: Tensor) -> Tensor:
    """Rows (picture, x1, y1, x2, y2, class, score) of boxes [batch, n, 4] and scores [batch, classes, n]"""
    chosen = suppress(boxes, scores)
    picture, kind, at = chosen[:, 0], chosen[:, 1], chosen[:, 2]
    return torch.cat((picture[:, None].float(), boxes[picture, at], kind[:, None].float(), scores[picture, kind, at][:, None]), 1)


class Suppressed(nn.Module):
    """A detector with ONNX's suppression behind it, for any batch."""

    def __init__(self, net: nn.Module, objectness: bool = False) -> None:
        super().__init__()
        self.net, self.objectness = net, objectness

    def forward(self, x: Tensor) -> Tensor:
        y = self.net(x)
        if self.objectness:
            box, scores = y[..., :4], (y[..., 5:] * y[..., 4:5]).transpose(1, 2)
        else:
            box, scores = y[:, :4].transpose(1, 2), y[:, 4:]
        corners = torch.cat((box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2), 2)
        return selected(corners, scores)


class BestBoxes(nn.Module):
    """A detector with torchvision's suppression behind it, for one picture: the best class of each box counts."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        y = self.net(x)[0].transpose(0, 1)
        box, (score, kind) = y[:, :4], y[:, 4:].max(1)
        corners = torch.cat((box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2), 1)
        kept = torchvision.ops.nms(corners + kind[:, None] * 1000.0, score, 0.5)[:30]
        return torch.cat((corners[kept], score[kept][:, None], kind[kept][:, None].float()), 1)


class Outputs(nn.Module):
    """A network whose outputs a function makes."""

    def __init__(self, net: nn.Module, make) -> None:
        super().__init__()
        self.net, self.make = net, make

    def forward(self, x: Tensor):
        return self.make(self.net, x)


def corners_and_classes(net: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """DETR as it is often put behind a server: corners in pixels, the best class that is one, its probability"""
    logits, box = net(x)
    score, kind = logits.softmax(-1)[..., :-1].max(-1)
    corners = torch.cat((box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2), 2) * SIZE
    return corners, kind, score


def sorted_queries(net: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """RT-DETR as it is put behind a server: the best pairs of query and class, corners in pixels"""
    logits, box = net(x)
    score, at = logits.sigmoid().flatten(1).topk(net.QUERIES, 1)
    corners = torch.cat((box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2), 2) * SIZE
    return at % net.classes, corners.gather(1, (at // net.classes)[..., None].expand(-1, -1, 4)), score


def three_maps(net: nn.Module, x: Tensor) -> Tensor:
    """DBNet as it trains: probabilities, thresholds, and what is above its threshold, softly"""
    p, t = (m.sigmoid() for m in net.raw(x))
    return torch.cat((p, t, 1 / (1 + torch.exp(-50 * (p - t)))), 1)


FILES = {
    "distributed": (networks.Distributed, lambda net: net, ["output0"]),
    "distributed_nms": (networks.Distributed, Suppressed, ["detections"]),
    "distributed_best": (networks.Distributed, BestBoxes, ["detections"]),
    "distributed_maps": (networks.Distributed, lambda net: Outputs(net, lambda n, x: tuple(n.maps(x))), ["p3", "p4", "p5"]),
    "anchored": (networks.Anchored, lambda net: net, ["output0"]),
    "anchored_nms": (networks.Anchored, lambda net: Suppressed(net, True), ["detections"]),
    "anchored_maps": (networks.Anchored, lambda net: Outputs(net, lambda n, x: tuple(n.maps(x))), ["p3", "p4", "p5"]),
    "cells": (networks.Cells, lambda net: net, ["output"]),
    "cells_raw": (networks.Cells, lambda net: Outputs(net, lambda n, x: n.undecoded(x)), ["output"]),
    "default_boxes": (networks.DefaultBoxes, lambda net: net, ["scores", "boxes"]),
    "queries": (networks.Queries, lambda net: net, ["logits", "pred_boxes"]),
    "queries_best": (networks.Queries, lambda net: Outputs(net, corners_and_classes), ["boxes", "labels", "scores"]),
    "refined": (networks.Refined, lambda net: net, ["logits", "pred_boxes"]),
    "refined_best": (networks.Refined, lambda net: Outputs(net, sorted_queries), ["labels", "boxes", "scores"]),
    "text_map": (networks.Maps, lambda net: net, ["map"]),
    "text_maps": (networks.Maps, lambda net: Outputs(net, three_maps), ["maps"]),
    "segmenter": (networks.Segmenter, lambda net: net, ["logits"]),
    "segmenter_softmax": (networks.Segmenter, lambda net: Outputs(net, lambda n, x: n(x).softmax(1)), ["probabilities"]),
    "segmenter_argmax": (networks.Segmenter, lambda net: Outputs(net, lambda n, x: n(x).argmax(1)), ["classes"]),
}
"""Name of the file: network, what stands behind it, outputs."""


def write(path: Path, net: nn.Module, outputs: list[str], dynamo: bool) -> None:
    one = path.stem.startswith("distributed_best")
    image = torch.rand(1 if one else 2, 3, SIZE, SIZE)
    if dynamo:
        axes = {} if one else {"dynamic_shapes": ({0: torch.export.Dim("batch", min=1, max=64)},)}
        program = torch.onnx.export(
            net,
            (image,),
            dynamo=True,
            opset_version=18,
            input_names=["images"],
            output_names=outputs,
            custom_translation_table={torch.ops.detectors.suppress.default: suppress_by_dynamo},
            verbose=False,
            **axes,
        )
        program.save(str(path), external_data=False)
    else:
        axes = {} if one else {name: {0: "batch"} for name in ("images", *outputs)}
        torch.onnx.export(
            net,
            (image,),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=["images"],
            output_names=outputs,
            dynamic_axes=axes,
        )
    model = onnx.load(path)
    if not path.stem.startswith(("text_map", "segmenter")):
        model.metadata_props.add(key="names", value=str(NAMES))
    for node in model.graph.node:  # traces of the exporter's machine
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    if path.stem.startswith(("refined", "anchored_maps")):
        number_names(model.graph)
    onnx.save(model, path)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"images": image.numpy()})


def number_names(graph: onnx.GraphProto) -> None:
    """Give what the operators compute short names, as a file of a thousand of them is a third names"""
    del graph.value_info[:]
    kept = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    names: dict[str, str] = {}

    def short(name: str) -> str:
        return name if name in kept or not name else names.setdefault(name, f"v{len(names)}")

    for node in graph.node:
        node.name = ""
        node.input[:] = map(short, node.input)
        node.output[:] = map(short, node.output)


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.onnx.register_custom_op_symbolic("detectors::suppress", suppress_by_torchscript, 17)
    taught: dict[type, nn.Module] = {}
    failed = {}
    for name in sys.argv[2:] or FILES:
        kind, behind, outputs = FILES[name]
        if kind not in taught:
            taught[kind] = pretrain.pretrained(kind)
        net = behind(taught[kind]).eval()
        for dynamo in (False, True):
            path = out / f"{name}{'_dynamo' if dynamo else ''}.onnx"
            try:
                write(path, net, outputs, dynamo)
                print(path.name, path.stat().st_size)
            except Exception as error:  # an exporter that cannot: its file is left out, and the reason is kept
                path.unlink(missing_ok=True)
                failed[path.name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                print(path.name, "failed:", failed[path.name])
    (out / "failed.json").write_text(json.dumps(failed, indent=1) + "\n")


if __name__ == "__main__":
    main()
