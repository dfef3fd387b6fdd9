"""A walk through methods and functions of tensors."""

import numpy as np
import paddle

x = paddle.to_tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
print(x.sum().item(), x.mean(axis=0).numpy(), x.max(axis=1).numpy(), x.min().item(), x.prod(axis=1).numpy())
print(x.std().item(), x.var(axis=1, unbiased=False).numpy(), x.median().item(), x.abs().numpy().sum())
print(x.argmax().item(), x.argmin(axis=1).numpy(), x.cumsum(axis=1).numpy(), x.any().item(), (x > -7).all().item())
print(x.T.shape, x.t().shape, x.reshape([-1]).shape, x.flatten().shape, x.unsqueeze(0).shape, x.unsqueeze([0, -1]).squeeze().shape)
print(x.astype("int32").dtype, x.cast("float64").dtype, x.numpy().dtype, (x > 0).dtype, x.clone().stop_gradient)
print(paddle.concat([x, x], axis=0).shape, paddle.stack([x, x]).shape, x.tile([2, 1]).shape, x.expand([2, 2, 3]).shape)
print(x.transpose([1, 0]).tolist(), paddle.moveaxis(x, 0, 1).shape, x.flip([1]).numpy()[0], x.rot90().shape)
print(
    (x + 1).numpy()[0],
    (1 - x).numpy()[0],
    (x * x).numpy()[0],
    (x / 2).numpy()[0],
    (2**x).numpy()[0],
    (x // 2).numpy()[0],
    (x % 2).numpy()[0],
)
print((-x).numpy()[0], abs(x).numpy()[0], (x @ x.T).numpy(), (x == x).numpy().all(), (x != 0).numpy().all(), (x >= 1).numpy()[0])
print(
    x.clip(-1, 1).numpy()[0],
    x.sign().numpy()[0],
    x.square().numpy()[0],
    x.abs().sqrt().numpy().round(3)[0],
    x.exp().numpy().round(3)[0],
)
print(
    x.floor().numpy()[0],
    (x / 3).ceil().numpy()[0],
    (x / 3).round().numpy()[0],
    (x / 3).trunc().numpy()[0],
    x.reciprocal().numpy().round(3)[0],
)
print(x.sort(axis=1, descending=True).numpy(), x.argsort(axis=0).numpy(), x.topk(2)[0].numpy(), x.kthvalue(2)[0].numpy())
print(x.norm().item(), x.norm(p=1).item(), x.dist(x * 2).item(), x.isnan().any().item(), x.isfinite().all().item())
print(
    paddle.maximum(x, -x).numpy()[0],
    paddle.minimum(x, -x).numpy()[0],
    paddle.pow(x, 2).numpy()[0],
    paddle.log1p(x.abs()).numpy().round(3)[0],
)
print(x.numel().item(), x.dim(), x.ndim, x.size, len(x), x.element_size())
a = paddle.to_tensor([3, 5, 9])
b = paddle.to_tensor([1, 5, 2])
print(
    (a & b).numpy(),
    (a | b).numpy(),
    (a ^ b).numpy(),
    (~a).numpy(),
    (a // b).numpy(),
    (a % b).numpy(),
    (a / b).numpy(),
    paddle.gcd(a, b).numpy(),
)
print(
    paddle.logical_and(a > 3, b > 1).numpy(),
    paddle.equal_all(a, a).item(),
    paddle.allclose(x, x + 1e-9).item(),
    paddle.isclose(x, x).all().item(),
)
print(
    paddle.arange(1, 7, 2).numpy(),
    paddle.linspace(0, 1, 5).numpy(),
    paddle.eye(2).numpy(),
    paddle.full([2], 7).numpy(),
    paddle.zeros([2], "int32").dtype,
)
print(
    paddle.tril(x).numpy(),
    paddle.diag(paddle.to_tensor([1.0, 2.0])).numpy(),
    paddle.meshgrid(a, b)[0].numpy(),
    paddle.ones_like(a).numpy(),
)
print(
    paddle.unique(paddle.to_tensor([2, 1, 2, 3])).numpy(),
    paddle.searchsorted(paddle.to_tensor([1, 3, 5]), paddle.to_tensor([2, 5])).numpy(),
    paddle.bucketize(paddle.to_tensor([2.5]), paddle.to_tensor([1.0, 2.0, 3.0])).numpy(),
)
print(
    paddle.logsumexp(x).item(),
    paddle.cumprod(a, dim=0).numpy(),
    paddle.diff(a).numpy(),
    paddle.outer(a, b).numpy()[0],
    paddle.inner(a, b).item(),
)
print(
    paddle.repeat_interleave(a, 2).numpy(),
    paddle.nansum(x).item(),
    paddle.count_nonzero(x).item(),
    paddle.lerp(x, x * 2, 0.5).numpy()[0],
    paddle.nan_to_num(x / 0).numpy().max() > 1e30,
)
