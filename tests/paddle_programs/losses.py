"""Losses with their reductions, weights and ignored labels."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(76)
logits = paddle.to_tensor(rng.randn(4, 3).astype("float32"), stop_gradient=False)
labels = paddle.to_tensor([0, 2, 1, -100])
weight = paddle.to_tensor([0.5, 1.0, 2.0])
for reduction in ("mean", "sum", "none"):
    print(reduction, F.cross_entropy(logits, labels, reduction=reduction).numpy().ravel().round(4))
print("weighted %.4f" % F.cross_entropy(logits, labels, weight=weight))
print("ignored %.4f" % nn.CrossEntropyLoss(ignore_index=2)(logits, paddle.to_tensor([0, 2, 1, 1])))
soft = F.softmax(paddle.to_tensor(rng.randn(4, 3).astype("float32")))
print("soft %.4f" % F.cross_entropy(logits, soft, soft_label=True))
print(
    "smooth %.4f"
    % F.cross_entropy(logits, F.label_smooth(F.one_hot(paddle.to_tensor([0, 2, 1, 1]), 3), epsilon=0.1), soft_label=True)
)
loss, softmax = F.softmax_with_cross_entropy(logits, paddle.to_tensor([[0], [2], [1], [1]]), return_softmax=True)
print(loss.shape, loss.numpy().ravel().round(4), softmax.shape)
print("nll %.4f" % F.nll_loss(F.log_softmax(logits), paddle.to_tensor([0, 2, 1, 1]), weight=weight))
x, y = logits[:, 0], paddle.to_tensor([1.0, 0.0, 1.0, 1.0])
print(
    "bce %.4f" % F.binary_cross_entropy(F.sigmoid(x), y),
    "%.4f" % F.binary_cross_entropy_with_logits(x, y, pos_weight=paddle.to_tensor([2.0])),
)
print("focal %.4f" % F.sigmoid_focal_loss(x.unsqueeze(1), y.unsqueeze(1)))
a, b = paddle.to_tensor(rng.randn(5).astype("float32")), paddle.to_tensor(rng.randn(5).astype("float32"))
print("l1 %.4f mse %.4f smooth %.4f" % (F.l1_loss(a, b), F.mse_loss(a, b), F.smooth_l1_loss(a, b, delta=0.5)))
print("kl %.4f" % F.kl_div(F.log_softmax(logits), soft, reduction="batchmean"))
print("margin %.4f" % F.margin_ranking_loss(a, b, paddle.sign(b), margin=0.2), "%.4f" % F.hinge_embedding_loss(a, paddle.sign(b)))
print(
    "multi %.4f" % F.multi_label_soft_margin_loss(logits, (soft > 0.3).astype("float32")),
    "%.4f" % F.soft_margin_loss(a, paddle.sign(b)),
)
print("poisson %.4f" % F.poisson_nll_loss(a, paddle.abs(b)), "gauss %.4f" % F.gaussian_nll_loss(a, b, paddle.ones([5]) * 0.5))
print("dice %.4f" % F.dice_loss(F.softmax(logits), paddle.to_tensor([[0], [2], [1], [1]])))
print(
    "square",
    F.square_error_cost(a, b).numpy().round(4),
    "log",
    F.log_loss(F.sigmoid(a).unsqueeze(1), (b > 0).astype("float32").unsqueeze(1)).numpy().ravel().round(4),
)
total = F.cross_entropy(logits, labels) + F.kl_div(F.log_softmax(logits), soft)
total.backward()
print(logits.grad.numpy().round(5))
