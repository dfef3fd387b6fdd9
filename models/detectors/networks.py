"""Small detectors and segmenters of the common kinds, written down for torch.

They have the parts that tell their kinds apart (heads, decoding, anchors), and few channels. ``export.py`` trains and writes them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SIZE, CLASSES, BINS = 96, 3, 16
STRIDES = (8, 16, 32)


class Conv(nn.Sequential):
    def __init__(self, c_in: int, c_out: int, k: int = 1, s: int = 1) -> None:
        super().__init__(nn.Conv2d(c_in, c_out, k, s, k // 2, bias=False), nn.BatchNorm2d(c_out), nn.SiLU())


class Bottleneck(nn.Module):
    def __init__(self, c: int, add: bool) -> None:
        super().__init__()
        self.body, self.add = nn.Sequential(Conv(c, c, 3), Conv(c, c, 3)), add

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.add else self.body(x)


class CrossStage(nn.Module):
    """Part of the channels goes through bottlenecks, and all parts are joined."""

    def __init__(self, c_in: int, c_out: int, add: bool = True) -> None:
        super().__init__()
        self.half = c_out // 2
        self.first, self.last = Conv(c_in, 2 * self.half), Conv(3 * self.half, c_out)
        self.middle = Bottleneck(self.half, add)

    def forward(self, x: Tensor) -> Tensor:
        kept, y = self.first(x).split((self.half, self.half), 1)
        return self.last(torch.cat((kept, y, self.middle(y)), 1))


class Pyramid(nn.Module):
    """Features at strides 8, 16 and 32: down, up and down again."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 24, 32)) -> None:
        super().__init__()
        a, b, c, d = widths
        self.widths = widths[1:]
        self.stem = nn.Sequential(Conv(3, a, 3, 2), Conv(a, b, 3, 2), CrossStage(b, b))
        self.down8, self.down16, self.down32 = (
            nn.Sequential(Conv(i, o, 3, 2), CrossStage(o, o)) for i, o in ((b, b), (b, c), (c, d))
        )
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.spread = Conv(2 * d, d)
        self.up16, self.up8 = CrossStage(c + d, c, False), CrossStage(b + c, b, False)
        self.back16, self.back32 = Conv(b, b, 3, 2), Conv(c, c, 3, 2)
        self.out16, self.out32 = CrossStage(b + c, c, False), CrossStage(c + d, d, False)

    def forward(self, x: Tensor) -> list[Tensor]:
        f8 = self.down8(self.stem(x))
        f16 = self.down16(f8)
        f32 = self.down32(f16)
        f32 = self.spread(torch.cat((f32, self.pool(f32)), 1))
        m16 = self.up16(torch.cat((F.interpolate(f32, scale_factor=2.0, mode="nearest"), f16), 1))
        p8 = self.up8(torch.cat((F.interpolate(m16, scale_factor=2.0, mode="nearest"), f8), 1))
        p16 = self.out16(torch.cat((self.back16(p8), m16), 1))
        p32 = self.out32(torch.cat((self.back32(p16), f32), 1))
        return [p8, p16, p32]


def grid_points(size: int = SIZE) -> tuple[Tensor, Tensor]:
    """Centres of the cells [anchors, 2] in units of their strides, and the strides [anchors]"""
    points, strides = [], []
    for stride in STRIDES:
        n = size // stride
        y, x = torch.meshgrid(torch.arange(n) + 0.5, torch.arange(n) + 0.5, indexing="ij")
        points.append(torch.stack((x, y), -1).reshape(-1, 2))
        strides.append(torch.full((n * n,), float(stride)))
    return torch.cat(points), torch.cat(strides)


class Distributed(nn.Module):
    """A detector like YOLOv8: one branch for classes, one for distributions of the four distances to the box's sides."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.classes, self.pyramid = classes, Pyramid()
        c = 16
        self.sides = nn.ModuleList(
            nn.Sequential(Conv(w, c, 3), Conv(c, c, 3), nn.Conv2d(c, 4 * BINS, 1)) for w in self.pyramid.widths
        )
        self.scores = nn.ModuleList(
            nn.Sequential(Conv(w, c, 3), Conv(c, c, 3), nn.Conv2d(c, classes, 1)) for w in self.pyramid.widths
        )
        for branch in self.scores:
            nn.init.constant_(branch[-1].bias, -4.0)
        self.expectation = nn.Conv2d(BINS, 1, 1, bias=False).requires_grad_(False)
        self.expectation.weight.data[:] = torch.arange(BINS, dtype=torch.float).view(1, BINS, 1, 1)
        points, strides = grid_points()
        self.register_buffer("points", points.T.contiguous(), persistent=False)
        self.register_buffer("strides", strides[None], persistent=False)

    def maps(self, x: Tensor) -> list[Tensor]:
        features = self.pyramid(x)
        return [torch.cat((a(f), b(f)), 1) for a, b, f in zip(self.sides, self.scores, features, strict=True)]

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Distributions [batch, 4 * bins, anchors] and class logits [batch, classes, anchors]"""
        joined = torch.cat([m.view(m.shape[0], 4 * BINS + self.classes, -1) for m in self.maps(x)], 2)
        return joined.split((4 * BINS, self.classes), 1)

    def distances(self, sides: Tensor) -> Tensor:
        b, _, a = sides.shape
        return self.expectation(sides.view(b, 4, BINS, a).transpose(2, 1).softmax(1)).view(b, 4, a)

    def decoded(self, sides: Tensor, corners: bool = False) -> Tensor:
        near, far = self.distances(sides).chunk(2, 1)
        low, high = self.points[None] - near, self.points[None] + far
        box = torch.cat((low, high) if corners else ((low + high) / 2, high - low), 1)
        return box * self.strides

    def forward(self, x: Tensor) -> Tensor:
        """[batch, 4 + classes, anchors]: centre, width, height, probabilities"""
        sides, scores = self.raw(x)
        return torch.cat((self.decoded(sides), scores.sigmoid()), 1)


class Anchored(nn.Module):
    """A detector like YOLOv5: three anchors at each cell, an objectness, and classes."""

    ANCHORS = (
        ((12.0, 12.0), (18.0, 18.0), (24.0, 24.0)),
        ((24.0, 24.0), (30.0, 30.0), (36.0, 36.0)),
        ((36.0, 36.0), (44.0, 44.0), (56.0, 56.0)),
    )

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.classes, self.pyramid = classes, Pyramid()
        self.heads = nn.ModuleList(nn.Conv2d(w, 3 * (5 + classes), 1) for w in self.pyramid.widths)
        for head in self.heads:
            head.bias.data.view(3, -1)[:, 4:] = -3.0
        for i, (stride, sizes) in enumerate(zip(STRIDES, self.ANCHORS, strict=True)):
            n = SIZE // stride
            y, x = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
            grid = torch.stack((x, y), 2).float() - 0.5
            self.register_buffer(f"grid{i}", grid.expand(1, 3, n, n, 2).clone(), persistent=False)
            wide = torch.tensor(sizes).view(1, 3, 1, 1, 2).expand(1, 3, n, n, 2).clone()
            self.register_buffer(f"sizes{i}", wide, persistent=False)

    def maps(self, x: Tensor) -> list[Tensor]:
        raw = [head(f) for head, f in zip(self.heads, self.pyramid(x), strict=True)]
        return [m.view(m.shape[0], 3, 5 + self.classes, m.shape[2], m.shape[3]).permute(0, 1, 3, 4, 2).contiguous() for m in raw]

    def level(self, i: int, m: Tensor) -> Tensor:
        xy, wh, rest = m.sigmoid().split((2, 2, self.classes + 1), 4)
        xy = (xy * 2 + getattr(self, f"grid{i}")) * STRIDES[i]
        wh = (wh * 2) ** 2 * getattr(self, f"sizes{i}")
        return torch.cat((xy, wh, rest), 4).view(m.shape[0], -1, 5 + self.classes)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, anchors, 5 + classes]: centre, width, height, objectness, probabilities"""
        return torch.cat([self.level(i, m) for i, m in enumerate(self.maps(x))], 1)


class DefaultBoxes(nn.Module):
    """A detector like SSD: offsets from default boxes, and softmax with a background."""

    SIDES = ((14.0, 22.0), (28.0, 36.0), (44.0, 56.0))

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.classes, self.pyramid = classes, Pyramid()
        self.classifiers = nn.ModuleList(nn.Conv2d(w, 2 * (classes + 1), 3, padding=1) for w in self.pyramid.widths)
        self.regressors = nn.ModuleList(nn.Conv2d(w, 2 * 4, 3, padding=1) for w in self.pyramid.widths)
        boxes = []
        for stride, sides in zip(STRIDES, self.SIDES, strict=True):
            n = SIZE // stride
            for i in range(n):
                for j in range(n):
                    boxes += [((j + 0.5) / n, (i + 0.5) / n, side / SIZE, side / SIZE) for side in sides]
        self.register_buffer("defaults", torch.tensor(boxes), persistent=False)

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits [batch, boxes, classes + 1], background first, and offsets [batch, boxes, 4]"""
        features = self.pyramid(x)
        scores = [
            m(f).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes + 1)
            for m, f in zip(self.classifiers, features, strict=True)
        ]
        offsets = [m(f).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4) for m, f in zip(self.regressors, features, strict=True)]
        return torch.cat(scores, 1), torch.cat(offsets, 1)

    def decoded(self, offsets: Tensor) -> Tensor:
        centre = self.defaults[:, :2] + offsets[..., :2] * 0.1 * self.defaults[:, 2:]
        sides = self.defaults[:, 2:] * torch.exp(offsets[..., 2:] * 0.2)
        return torch.cat((centre - sides / 2, centre + sides / 2), 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [batch, boxes, classes + 1] and corners [batch, boxes, 4] from 0 to 1"""
        scores, offsets = self.raw(x)
        return scores.softmax(2), self.decoded(offsets)


class Queries(nn.Module):
    """A detector like DETR: each query of a transformer is a box or none."""

    QUERIES, WIDTH = 12, 48

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.classes = classes
        w = self.WIDTH
        self.backbone = nn.Sequential(
            Conv(3, 12, 3, 2),
            Conv(12, 24, 3, 2),
            CrossStage(24, 24),
            Conv(24, 32, 3, 2),
            CrossStage(32, 32),
            Conv(32, w, 3, 2),
            nn.Conv2d(w, w, 1),
        )
        n = SIZE // 16
        self.places = nn.Parameter(torch.randn(1, n * n, w) * 0.1)
        self.queries = nn.Parameter(torch.randn(1, self.QUERIES, w) * 0.5)
        self.encoder = nn.TransformerEncoderLayer(w, 4, 96, 0.0, batch_first=True)
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(w, 4, 96, 0.0, batch_first=True) for _ in range(2))
        self.classifier = nn.Linear(w, classes + 1)
        self.corners = nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits [batch, queries, classes + 1], none last, and boxes [batch, queries, 4] as centre and sides from 0 to 1"""
        f = self.backbone(x).flatten(2).transpose(1, 2) + self.places
        memory = self.encoder(f)
        y = self.queries.expand(x.shape[0], -1, -1)
        for layer in self.decoder:
            y = layer(y, memory)
        return self.classifier(y), self.corners(y).sigmoid()


class Cells(nn.Module):
    """A detector like YOLOX: decoupled branches at each cell for classes, for a box and for an objectness, and no anchors."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.classes, self.pyramid = classes, Pyramid((8, 12, 20, 28))
        c = 12
        widths = self.pyramid.widths
        self.stems = nn.ModuleList(Conv(w, c) for w in widths)
        self.class_branches, self.box_branches = (nn.ModuleList(Conv(c, c, 3) for _ in widths) for _ in range(2))
        self.classifiers = nn.ModuleList(nn.Conv2d(c, classes, 1) for _ in widths)
        self.regressors = nn.ModuleList(nn.Conv2d(c, 4, 1) for _ in widths)
        self.objectness = nn.ModuleList(nn.Conv2d(c, 1, 1) for _ in widths)
        for layer in (*self.classifiers, *self.objectness):
            nn.init.constant_(layer.bias, -3.0)
        points, strides = grid_points()
        self.register_buffer("grid", (points - 0.5)[None], persistent=False)
        self.register_buffer("strides", strides[None, :, None], persistent=False)

    def levels(self, x: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Of each stride four numbers, logits of objectness and logits of classes"""
        found = []
        for i, f in enumerate(self.pyramid(x)):
            f = self.stems[i](f)
            box = self.box_branches[i](f)
            found.append((self.regressors[i](box), self.objectness[i](box), self.classifiers[i](self.class_branches[i](f))))
        return found

    def raw(self, x: Tensor) -> Tensor:
        """[batch, cells, 5 + classes], logits"""
        return torch.cat([torch.cat(parts, 1).flatten(2) for parts in self.levels(x)], 2).transpose(1, 2)

    def decoded(self, y: Tensor) -> Tensor:
        return torch.cat(((y[..., :2] + self.grid) * self.strides, torch.exp(y[..., 2:4]) * self.strides, y[..., 4:]), 2)

    def undecoded(self, x: Tensor) -> Tensor:
        """[batch, cells, 5 + classes] as YOLOX writes it for servers: boxes in units of cells, probabilities"""
        parts = [torch.cat((box, o.sigmoid(), c.sigmoid()), 1).flatten(2) for box, o, c in self.levels(x)]
        return torch.cat(parts, 2).permute(0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, cells, 5 + classes]: centre, width, height, objectness, probabilities"""
        return self.decoded(self.undecoded(x))


def inverse_sigmoid(x: Tensor) -> Tensor:
    x = x.clamp(1e-5, 1 - 1e-5)
    return torch.log(x / (1 - x))


class DeformableAttention(nn.Module):
    """Attention over a few points of each level near a reference box."""

    HEADS, POINTS = 4, 2

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        h, p = self.HEADS, self.POINTS
        self.levels = levels
        self.offsets, self.weights = nn.Linear(width, h * levels * p * 2), nn.Linear(width, h * levels * p)
        self.value, self.last = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.normal_(self.offsets.weight, std=1e-2)
        nn.init.uniform_(self.offsets.bias, -1, 1)

    def forward(self, y: Tensor, reference: Tensor, memory: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        b, q, w = y.shape
        h, p, n = self.HEADS, self.POINTS, self.levels
        value = self.value(memory).view(b, -1, h, w // h)
        offsets = self.offsets(y).view(b, q, h, n, p, 2)
        weights = self.weights(y).view(b, q, h, n * p).softmax(-1).view(b, q, h, n, p)
        places = reference[:, :, None, None, None, :2] + offsets * reference[:, :, None, None, None, 2:] * 0.5 / p
        places = 2 * places - 1
        total = torch.zeros(())
        at = 0
        for i, (rows, columns) in enumerate(sizes):
            level = value[:, at : at + rows * columns].permute(0, 2, 3, 1).reshape(b * h, w // h, rows, columns)
            at += rows * columns
            grid = places[:, :, :, i].transpose(1, 2).reshape(b * h, q, p, 2)
            sampled = F.grid_sample(level, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
            own = weights[:, :, :, i].transpose(1, 2).reshape(b * h, 1, q, p)
            total = total + (sampled * own).sum(-1)
        return self.last(total.view(b, w, q).transpose(1, 2))


class RefiningLayer(nn.Module):
    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        self.among = nn.MultiheadAttention(width, 4, 0.0, batch_first=True)
        self.across = DeformableAttention(width, levels)
        self.forth = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, y: Tensor, place: Tensor, reference: Tensor, memory: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        q = y + place
        y = self.norms[0](y + self.among(q, q, y, need_weights=False)[0])
        y = self.norms[1](y + self.across(y + place, reference, memory, sizes))
        return self.norms[2](y + self.forth(y))


class Refined(nn.Module):
    """A detector like RT-DETR: the best places of the picture become queries, and each layer of the decoder refines their boxes."""

    QUERIES, WIDTH = 12, 28

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.classes = classes
        w = self.WIDTH
        self.fine = nn.Sequential(Conv(3, 8, 3, 2), Conv(8, 16, 3, 2), CrossStage(16, 16), Conv(16, 24, 3, 2), CrossStage(24, 24))
        self.coarse = nn.Sequential(Conv(24, w, 3, 2), CrossStage(w, w))
        self.lateral = Conv(24, w)
        self.mixed = Conv(2 * w, w)
        n = SIZE // 16
        self.sizes = [(2 * n, 2 * n), (n, n)]
        self.places = nn.Parameter(torch.randn(1, n * n, w) * 0.1)
        self.encoder = nn.TransformerEncoderLayer(w, 4, 2 * w, 0.0, batch_first=True)
        self.candidate = nn.Sequential(nn.Linear(w, w), nn.LayerNorm(w))
        self.candidate_classes, self.candidate_boxes = nn.Linear(w, classes), self._mlp(w, w, 4)
        self.position = self._mlp(4, w, w)
        self.layers = nn.ModuleList(RefiningLayer(w, 2) for _ in range(2))
        self.classifiers = nn.ModuleList(nn.Linear(w, classes) for _ in range(2))
        self.boxes = nn.ModuleList(self._mlp(w, w, 4) for _ in range(2))
        for layer in (self.candidate_classes, *self.classifiers):
            nn.init.constant_(layer.bias, -3.0)
        for mlp in (self.candidate_boxes, *self.boxes):
            nn.init.zeros_(mlp[-1].weight)
            nn.init.zeros_(mlp[-1].bias)
        boxes = []
        for (rows, columns), side in zip(self.sizes, (0.2, 0.4), strict=True):
            y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
            boxes.append(torch.stack((x, y, torch.full_like(x, side), torch.full_like(x, side)), -1).reshape(-1, 4))
        self.register_buffer("anchors", inverse_sigmoid(torch.cat(boxes))[None], persistent=False)

    @staticmethod
    def _mlp(c_in: int, hidden: int, c_out: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(c_in, hidden), nn.ReLU(), nn.Linear(hidden, c_out))

    def stages(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Class logits and boxes of the candidates, then of each layer"""
        f8 = self.fine(x)
        f16 = self.coarse(f8)
        b, w, rows, columns = f16.shape
        tokens = self.encoder(f16.flatten(2).transpose(1, 2) + self.places)
        f16 = tokens.transpose(1, 2).reshape(b, w, rows, columns)
        f8 = self.mixed(torch.cat((self.lateral(f8), F.interpolate(f16, scale_factor=2.0, mode="nearest")), 1))
        memory = torch.cat((f8.flatten(2), f16.flatten(2)), 2).transpose(1, 2)
        candidates = self.candidate(memory)
        scores, raw = self.candidate_classes(candidates), self.candidate_boxes(candidates) + self.anchors
        stages = [(scores, raw.sigmoid())]
        best = scores.max(-1)[0].topk(self.QUERIES, 1)[1][..., None]
        reference = raw.gather(1, best.expand(-1, -1, 4)).detach().sigmoid()
        y = candidates.gather(1, best.expand(-1, -1, w)).detach()
        for layer, classifier, box in zip(self.layers, self.classifiers, self.boxes, strict=True):
            y = layer(y, self.position(reference), reference, memory, self.sizes)
            refined = (box(y) + inverse_sigmoid(reference)).sigmoid()
            stages.append((classifier(y), refined))
            reference = refined.detach()
        return stages

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits [batch, queries, classes] and boxes [batch, queries, 4] as centre and sides from 0 to 1"""
        return self.stages(x)[-1]


class Maps(nn.Module):
    """A text detector like DBNet: a map of shrunk regions, and in training one of thresholds."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Conv(3, 8, 3, 2), Conv(8, 16, 3, 2), CrossStage(16, 16))
        self.deep = nn.Sequential(Conv(16, 24, 3, 2), CrossStage(24, 24))
        self.join = Conv(40, 24, 3)
        self.shrunk, self.threshold = self._branch(), self._branch()

    @staticmethod
    def _branch() -> nn.Sequential:
        up = nn.Sequential(nn.ConvTranspose2d(12, 12, 2, 2), nn.BatchNorm2d(12), nn.ReLU())
        return nn.Sequential(
            nn.Conv2d(24, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), up, nn.ConvTranspose2d(12, 1, 2, 2)
        )

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        f = self.stem(x)
        f = self.join(torch.cat((f, F.interpolate(self.deep(f), scale_factor=2.0, mode="nearest")), 1))
        return self.shrunk(f), self.threshold(f)

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities [batch, 1, height, width] that a pixel lies in a shrunk region"""
        return self.raw(x)[0].sigmoid()


class Segmenter(nn.Module):
    """A U-Net: class logits for each pixel, class 0 the background."""

    def __init__(self, classes: int = CLASSES + 1) -> None:
        super().__init__()
        self.one, self.two, self.three = Conv(3, 12, 3), Conv(12, 16, 3, 2), Conv(16, 24, 3, 2)
        self.four = nn.Sequential(Conv(24, 32, 3, 2), CrossStage(32, 32))
        self.up3, self.up2, self.up1 = Conv(56, 24, 3), Conv(40, 16, 3), Conv(28, 12, 3)
        self.last = nn.Conv2d(12, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.one(x)
        b = self.two(a)
        c = self.three(b)
        y = self.four(c)
        for skip, up in ((c, self.up3), (b, self.up2), (a, self.up1)):
            y = up(torch.cat((F.interpolate(y, scale_factor=2.0, mode="nearest"), skip), 1))
        return self.last(y)
