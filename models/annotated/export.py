"""Write the networks of tests/data/annotated/models: small ones for several labels, several numbers and masks, with random weights.

    python models/annotated/export.py [FOLDER]

It takes torch and onnxscript, and some seconds.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

OUT = Path(__file__).parents[2] / "tests" / "data" / "annotated" / "models"
SIZE, CLASSES = 32, 3


def block(c_in: int, c_out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, stride, 1), nn.BatchNorm2d(c_out), nn.ReLU())


class Whole(nn.Module):
    """Some numbers for a picture."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.body = nn.Sequential(block(3, 8, 2), block(8, 16, 2), block(16, 24, 2))
        self.head = nn.Linear(24 * 16, count)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).flatten(1))


class Probabilities(Whole):
    """The same behind a Sigmoid."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).sigmoid()


class Pixels(nn.Module):
    """Scores for each pixel: down, up by a transposed convolution and by interpolation, with what was there before beside it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.first, self.down, self.deep = block(3, 8), block(8, 12, 2), block(12, 16, 2)
        self.up = nn.ConvTranspose2d(16, 12, 2, 2)
        self.join, self.last = block(24, 12), block(20, 8)
        self.head = nn.Conv2d(8, count, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.down(a)
        c = self.join(torch.cat((self.up(self.deep(b)), b), 1))
        wide = nn.functional.interpolate(c, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(self.last(torch.cat((wide, a), 1)))


class OnePixel(Pixels):
    """One probability for each pixel."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).sigmoid()


NETWORKS = {
    "labels": (lambda: Whole(CLASSES), "logits"),
    "labels_sigmoid": (lambda: Probabilities(CLASSES), "probabilities"),
    "numbers": (lambda: Whole(2), "place"),
    "masks": (lambda: Pixels(1 + CLASSES), "logits"),
    "masks_sigmoid": (lambda: OnePixel(1), "probabilities"),
}


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, (make, output) in NETWORKS.items():
        torch.manual_seed(0)
        net = make().eval()
        batch = torch.export.Dim("batch", min=1, max=512)
        program = torch.onnx.export(
            net,
            (torch.rand(2, 3, SIZE, SIZE),),
            dynamo=True,
            opset_version=18,
            input_names=["images"],
            output_names=[output],
            dynamic_shapes=({0: batch},),
            verbose=False,
        )
        path = out / f"{name}.onnx"
        program.save(str(path), external_data=False)
        model = onnx.load(path)
        for node in model.graph.node:  # traces of the exporter's machine
            del node.metadata_props[:]
            node.doc_string = ""
        for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
            del value.metadata_props[:]
        onnx.save(model, path)
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
