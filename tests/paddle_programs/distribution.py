"""Densities, entropies and divergences of distributions."""

import numpy as np
import paddle
from paddle.distribution import Bernoulli, Beta, Categorical, Dirichlet, Laplace, Normal, Uniform, kl_divergence

normal = Normal(paddle.to_tensor([0.0, 1.0]), paddle.to_tensor([1.0, 2.0]))
other = Normal(0.5, 1.5)
value = paddle.to_tensor([0.3, -0.7])
print(normal.log_prob(value).numpy(), normal.probs(value).numpy())
print(normal.entropy().numpy(), kl_divergence(normal, other).numpy(), normal.kl_divergence(other).numpy())
print(normal.mean.numpy(), normal.variance.numpy(), normal.batch_shape, normal.event_shape)
print(normal.sample([3]).shape, normal.rsample([2, 2]).shape)

uniform = Uniform(low=-1.0, high=3.0)
print(uniform.log_prob(paddle.to_tensor(2.0)).item(), uniform.entropy().item())
drawn = uniform.sample([100]).numpy()
print(drawn.shape, drawn.min() >= -1, drawn.max() < 3)

categorical = Categorical(paddle.to_tensor([0.2, 0.3, 0.5]))
print(categorical.probs(paddle.to_tensor([2, 0])).numpy(), categorical.entropy().item())

beta = Beta(alpha=2.0, beta=3.0)
print(beta.mean.item(), beta.variance.item(), beta.log_prob(paddle.to_tensor(0.4)).item(), beta.entropy().item())
dirichlet = Dirichlet(paddle.to_tensor([1.0, 2.0, 3.0]))
print(dirichlet.mean.numpy(), dirichlet.entropy().item(), dirichlet.log_prob(paddle.to_tensor([0.2, 0.3, 0.5])).item())
bernoulli = Bernoulli(paddle.to_tensor(0.3))
print(bernoulli.log_prob(paddle.to_tensor(1.0)).item(), bernoulli.mean.item(), bernoulli.entropy().item())
laplace = Laplace(0.0, 2.0)
print(laplace.log_prob(paddle.to_tensor(1.0)).item(), laplace.stddev.item())

loc = paddle.to_tensor(0.1, stop_gradient=False)
scale = paddle.to_tensor(0.9, stop_gradient=False)
loss = -Normal(loc, scale).log_prob(paddle.to_tensor(np.array([0.5, 1.5, -0.2], "float32"))).mean()
loss.backward()
print(loss.item(), loc.grad.item(), scale.grad.item())
