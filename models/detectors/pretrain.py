"""Teach the networks of ``networks.py`` to find shapes, with torch and plain losses."""

from __future__ import annotations

import networks
import numpy as np
import shapes
import torch
import torch.nn.functional as F
from networks import BINS, CLASSES, SIZE, STRIDES
from torch import Tensor
from torchvision.ops import box_iou, generalized_box_iou_loss

LEVELS = ((0.0, 26.0), (22.0, 40.0), (34.0, 1e9))
"""Sides of the boxes that the cells of each stride look for."""


def batch(draw: np.random.Generator, count: int = 16) -> tuple[Tensor, list[Tensor], Tensor]:
    drawn = [shapes.picture(draw, SIZE) for _ in range(count)]
    image = torch.from_numpy(np.stack([d[0] for d in drawn]))
    return image, [torch.from_numpy(d[1]) for d in drawn], torch.from_numpy(np.stack([d[2] for d in drawn]))


def owners(boxes: Tensor, centres: Tensor, sides: Tensor) -> Tensor:
    """For each cell the number of the box that it is to find, or -1: the nearest of those that it lies well inside"""
    c, half = (boxes[:, 1:3] + boxes[:, 3:]) / 2, (boxes[:, 3:] - boxes[:, 1:3]) / 2
    far = ((centres[:, None] - c[None]).abs() / half[None]).amax(-1)
    side = 2 * half.amax(-1)
    fits = (side[None] >= sides[:, :1]) & (side[None] < sides[:, 1:])
    near = torch.where((far < 0.6) & fits, far, torch.full_like(far, 9.0))
    best, who = near.min(1)
    return torch.where(best < 9, who, -1)


def dense_loss(scores: Tensor, boxes: Tensor, targets: list[Tensor], who: list[Tensor]) -> Tensor:
    """Focal loss of logits [batch, cells, classes] and generalised IoU of corners [batch, cells, 4]"""
    wanted = torch.zeros_like(scores)
    losses = []
    for i, (rows, own) in enumerate(zip(targets, who, strict=True)):
        at = torch.nonzero(own >= 0)[:, 0]
        wanted[i, at, rows[own[at], 0].long()] = 1
        losses.append(generalized_box_iou_loss(boxes[i, at], rows[own[at], 1:], reduction="sum"))
    count = max(sum(int((w >= 0).sum()) for w in who), 1)
    p = scores.sigmoid()
    focal = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * (wanted - p).abs() ** 1.5
    return 4 * focal.sum() / count + 2 * torch.stack(losses).sum() / count


def distributed_loss(net: networks.Distributed, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    sides, scores = net.raw(image)
    boxes = net.decoded(sides, corners=True).transpose(1, 2)
    centres = (net.points * net.strides).T
    spans = torch.cat([torch.tensor(level).expand((SIZE // s) ** 2, 2) for level, s in zip(LEVELS, STRIDES, strict=True)])
    who = [owners(rows, centres, spans) for rows in targets]
    loss = dense_loss(scores.transpose(1, 2), boxes, targets, who)
    logits = sides.view(len(image), 4, BINS, -1).permute(0, 3, 1, 2)
    terms = []
    for i, (rows, own) in enumerate(zip(targets, who, strict=True)):
        at = torch.nonzero(own >= 0)[:, 0]
        box = rows[own[at], 1:] / net.strides[0, at, None]
        p = net.points.T[at]
        want = torch.cat((p - box[:, :2], box[:, 2:] - p), 1).clamp(0, BINS - 1.01)
        low = want.floor().long()
        part = want - low
        log_p = logits[i, at].log_softmax(-1)
        terms.append(
            -(log_p.gather(-1, low[..., None])[..., 0] * (1 - part) + log_p.gather(-1, low[..., None] + 1)[..., 0] * part).mean(-1)
        )
    return loss + 0.5 * torch.cat(terms).mean()


def anchored_loss(net: networks.Anchored, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    maps = net.maps(image)
    raw = torch.cat([m.flatten(1, 3) for m in maps], 1)
    decoded = torch.cat([net.level(i, m) for i, m in enumerate(maps)], 1)
    corners = torch.cat((decoded[..., :2] - decoded[..., 2:4] / 2, decoded[..., :2] + decoded[..., 2:4] / 2), 2)
    centres = torch.cat([((getattr(net, f"grid{i}") + 1) * s).reshape(-1, 2) for i, s in enumerate(STRIDES)])
    size = torch.cat([getattr(net, f"sizes{i}").reshape(-1, 2) for i in range(3)])[:, 0]
    who = [owners(rows, centres, torch.stack((size * 0.7, size * 1.4), 1)) for rows in targets]
    is_box = torch.stack([(own >= 0).float() for own in who])
    objectness = raw[..., 4]
    focal = F.binary_cross_entropy_with_logits(objectness, is_box, reduction="none") * (is_box - objectness.sigmoid()).abs() ** 1.5
    total, box_loss = torch.zeros(()), torch.zeros(())
    count = max(float(is_box.sum()), 1.0)
    for i, (rows, own) in enumerate(zip(targets, who, strict=True)):
        at = torch.nonzero(own >= 0)[:, 0]
        label = F.one_hot(rows[own[at], 0].long(), CLASSES).float()
        total = total + F.binary_cross_entropy_with_logits(raw[i, at, 5:], label, reduction="sum")
        box_loss = box_loss + generalized_box_iou_loss(corners[i, at], rows[own[at], 1:], reduction="sum")
    return (4 * focal.sum() + total + 2 * box_loss) / count


def default_loss(net: networks.DefaultBoxes, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    scores, offsets = net.raw(image)
    corners = net.decoded(offsets) * SIZE
    d = net.defaults * SIZE
    spans = torch.stack((d[:, 2] * 0.7, d[:, 2] * 1.4), 1)
    wanted = torch.zeros(scores.shape[:2], dtype=torch.long)
    box_loss, count = torch.zeros(()), 0
    for i, rows in enumerate(targets):
        own = owners(rows, d[:, :2], spans)
        at = torch.nonzero(own >= 0)[:, 0]
        wanted[i, at] = rows[own[at], 0].long() + 1
        box_loss = box_loss + generalized_box_iou_loss(corners[i, at], rows[own[at], 1:], reduction="sum")
        count += len(at)
    each = F.cross_entropy(scores.transpose(1, 2), wanted, reduction="none")
    negative = torch.where(wanted == 0, each, torch.zeros_like(each)).flatten()
    hard = negative.topk(min(3 * count + 10, len(negative)))[0].sum()
    return (each[wanted > 0].sum() + hard + 2 * box_loss) / max(count, 1)


def pairs_of(cost: Tensor) -> Tensor:
    """Rows and columns of pairs, the cheapest one first, each row and column once: [2, columns]"""
    pairs = []
    for _ in range(cost.shape[1]):
        q, g = divmod(int(cost.argmin()), cost.shape[1])
        pairs.append((q, g))
        cost[q], cost[:, g] = 1e9, 1e9
    return torch.tensor(pairs).T


def query_loss(net: networks.Queries, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    scores, boxes = net(image)
    corners = torch.cat((boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2), 2)
    wanted = torch.full(scores.shape[:2], CLASSES)
    box_loss, count = torch.zeros(()), 0
    for i, rows in enumerate(targets):
        goal = rows[:, 1:] / SIZE
        goal_sides = torch.cat(((goal[:, :2] + goal[:, 2:]) / 2, goal[:, 2:] - goal[:, :2]), 1)
        with torch.no_grad():
            cost = 5 * torch.cdist(boxes[i], goal_sides, 1) - 2 * scores[i].softmax(-1)[:, rows[:, 0].long()]
            q, g = pairs_of(cost)
        wanted[i, q] = rows[g, 0].long()
        box_loss = (
            box_loss
            + 5 * (boxes[i, q] - goal_sides[g]).abs().sum()
            + 2 * generalized_box_iou_loss(corners[i, q], goal[g], reduction="sum")
        )
        count += len(rows)
    weight = torch.ones(CLASSES + 1)
    weight[-1] = 0.2
    return F.cross_entropy(scores.transpose(1, 2), wanted, weight=weight) * 2 + box_loss / count


def cell_loss(net: networks.Cells, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    raw = net.raw(image)
    box = net.decoded(raw)[..., :4]
    corners = torch.cat((box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2), 2)
    centres = ((net.grid + 0.5) * net.strides)[0]
    spans = torch.cat([torch.tensor(level).expand((SIZE // s) ** 2, 2) for level, s in zip(LEVELS, STRIDES, strict=True)])
    who = [owners(rows, centres, spans) for rows in targets]
    is_box = torch.stack([(own >= 0).float() for own in who])
    objectness = raw[..., 4]
    focal = F.binary_cross_entropy_with_logits(objectness, is_box, reduction="none") * (is_box - objectness.sigmoid()).abs() ** 1.5
    total, box_loss = torch.zeros(()), torch.zeros(())
    for i, (rows, own) in enumerate(zip(targets, who, strict=True)):
        at = torch.nonzero(own >= 0)[:, 0]
        label = F.one_hot(rows[own[at], 0].long(), CLASSES).float()
        total = total + F.binary_cross_entropy_with_logits(raw[i, at, 5:], label, reduction="sum")
        box_loss = box_loss + generalized_box_iou_loss(corners[i, at], rows[own[at], 1:], reduction="sum")
    return (4 * focal.sum() + total + 2 * box_loss) / max(float(is_box.sum()), 1.0)


def refined_loss(net: networks.Refined, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    """Of candidates and each layer: logistic loss of how well the box fits, L1 and generalised IoU, by pairs of least cost"""
    loss = torch.zeros(())
    count = max(sum(len(rows) for rows in targets), 1)
    for scores, boxes in net.stages(image):
        corners = torch.cat((boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2), 2)
        wanted = torch.zeros_like(scores)
        for i, rows in enumerate(targets):
            goal = rows[:, 1:] / SIZE
            goal_sides = torch.cat(((goal[:, :2] + goal[:, 2:]) / 2, goal[:, 2:] - goal[:, :2]), 1)
            with torch.no_grad():
                cost = 5 * torch.cdist(boxes[i], goal_sides, 1) - 2 * scores[i].sigmoid()[:, rows[:, 0].long()]
                q, g = pairs_of(cost)
                wanted[i, q, rows[g, 0].long()] = torch.diagonal(box_iou(corners[i, q], goal[g])).clamp(0.01)
            far = (boxes[i, q] - goal_sides[g]).abs().sum()
            loss = loss + (5 * far + 2 * generalized_box_iou_loss(corners[i, q], goal[g], reduction="sum")) / count
        weight = torch.where(wanted > 0, wanted, 0.75 * scores.detach().sigmoid() ** 2)
        loss = loss + (F.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * weight).sum() / count
    return loss


def map_loss(net: networks.Maps, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    shrunk, threshold = net.raw(image)
    wanted, border = torch.zeros_like(shrunk), torch.zeros_like(shrunk)
    for i, rows in enumerate(targets):
        for _, x1, y1, x2, y2 in rows.tolist():
            d = (x2 - x1) * (y2 - y1) * (1 - 0.4**2) / (2 * (x2 - x1 + y2 - y1))
            border[i, 0, int(max(y1 - d / 2, 0)) : int(y2 + d / 2), int(max(x1 - d / 2, 0)) : int(x2 + d / 2)] = 1
            wanted[i, 0, round(y1 + d) : round(y2 - d), round(x1 + d) : round(x2 - d)] = 1
    p = shrunk.sigmoid()
    dice = 1 - 2 * (p * wanted).sum() / (p.sum() + wanted.sum() + 1)
    return F.binary_cross_entropy_with_logits(shrunk, wanted) * 3 + dice + F.l1_loss(threshold.sigmoid(), 0.3 + 0.4 * border)


def pixel_loss(net: networks.Segmenter, image: Tensor, targets: list[Tensor], mask: Tensor) -> Tensor:
    return F.cross_entropy(net(image), mask)


LOSSES = {
    networks.Distributed: (distributed_loss, 1200, 4e-3),
    networks.Anchored: (anchored_loss, 1200, 4e-3),
    networks.DefaultBoxes: (default_loss, 1200, 4e-3),
    networks.Queries: (query_loss, 4000, 7e-4),
    networks.Cells: (cell_loss, 1200, 4e-3),
    networks.Refined: (refined_loss, 3000, 1e-3),
    networks.Maps: (map_loss, 300, 4e-3),
    networks.Segmenter: (pixel_loss, 500, 4e-3),
}
"""Loss, steps and learning rate by kind of network."""


def pretrained(kind: type, seed: int = 0, steps: int | None = None) -> torch.nn.Module:
    """A network of this kind that was taught for some steps; its weights follow from the seed"""
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)
    net = kind()
    loss_of, planned, rate = LOSSES[kind]
    steps = planned if steps is None else steps
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1, pct_start=0.1)
    for step in range(steps):
        image, boxes, mask = batch(draw)
        if kind is networks.Maps:
            arrays = shapes.lines(seed + step, len(image), SIZE)
            image, boxes = torch.from_numpy(arrays[0]), [torch.from_numpy(rows[rows[:, 0] >= 0]) for rows in arrays[1]]
        loss = loss_of(net, image, boxes, mask)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"{kind.__name__} step {step}: loss {loss.item():.3f}", flush=True)
    return net.eval()
