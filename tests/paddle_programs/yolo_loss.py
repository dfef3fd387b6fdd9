"""A detector's loss: boxes from a grid and anchors, objectness, classes of the masked cells."""

import numpy as np

import paddle
import paddle.nn.functional as F

r = np.random.RandomState(4)


def iou(a, b):
    lt = paddle.maximum(a[..., :2], b[..., :2])
    rb = paddle.minimum(a[..., 2:], b[..., 2:])
    wh = paddle.clip(rb - lt, min=0)
    inter = wh[..., 0] * wh[..., 1]
    area = lambda t: (t[..., 2] - t[..., 0]) * (t[..., 3] - t[..., 1])
    return inter / (area(a) + area(b) - inter + 1e-9)


pred = paddle.to_tensor(r.randn(2, 3, 4, 4, 7).astype("float32"), stop_gradient=False)
gx, gy = paddle.meshgrid(paddle.arange(4, dtype="float32"), paddle.arange(4, dtype="float32"))
grid = paddle.stack([gy, gx], axis=-1)
anchors = paddle.to_tensor([[1.0, 2.0], [2.0, 1.0], [1.5, 1.5]])
xy = (F.sigmoid(pred[..., :2]) + grid) / 4
wh = paddle.exp(pred[..., 2:4]) * anchors.reshape([1, 3, 1, 1, 2]) / 4
boxes = paddle.concat([xy - wh / 2, xy + wh / 2], axis=-1)
obj_t = paddle.zeros([2, 3, 4, 4])
obj_t[0, 1, 2, 3] = 1.0
obj_t[1, 0, 0, 1] = 1
mask = obj_t > 0.5
gt = paddle.to_tensor([[0.1, 0.2, 0.6, 0.8], [0.3, 0.1, 0.5, 0.9]])
chosen = paddle.masked_select(boxes, mask.unsqueeze(-1).expand(boxes.shape)).reshape([-1, 4])
i = iou(chosen, gt)
loss_box = (1 - i).sum()
loss_obj = F.binary_cross_entropy_with_logits(pred[..., 4], obj_t, reduction="sum", pos_weight=paddle.to_tensor([2.0]))
loss_cls = F.cross_entropy(pred[..., 5:][mask], paddle.to_tensor([0, 1]), reduction="sum")
loss = 5 * loss_box + loss_obj + loss_cls
loss.backward()
print(loss_box.item(), loss_obj.item(), loss_cls.item())
print(pred.grad.abs().sum(), paddle.nonzero(mask).tolist())
print(i)
print(paddle.where(mask)[0].shape)
idx = paddle.argsort(boxes[0].reshape([-1, 4])[:, 0], descending=True)[:5]
print(idx.tolist())
print(F.sigmoid_focal_loss(pred[..., 4], obj_t, normalizer=mask.sum().astype("float32"), alpha=0.25, gamma=2.0))
