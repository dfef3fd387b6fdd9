"""A hidden Markov model: likelihood by the forward pass, the best path by Viterbi's."""

import numpy as np

import paddle
import paddle.nn.functional as F

r = np.random.RandomState(3)
logA = F.log_softmax(paddle.to_tensor(r.randn(3, 3).astype("float32")), axis=1)
logB = F.log_softmax(paddle.to_tensor(r.randn(3, 5).astype("float32")), axis=1)
pi = paddle.log(paddle.full([3], 1 / 3))
obs = [0, 3, 2, 4, 1, 1]
alpha = pi + logB[:, obs[0]]
for o in obs[1:]:
    alpha = paddle.logsumexp(alpha.unsqueeze(1) + logA, axis=0) + logB[:, o]
print("loglik %.4f" % paddle.logsumexp(alpha))
delta, back = pi + logB[:, obs[0]], []
for o in obs[1:]:
    s = delta.unsqueeze(1) + logA
    back.append(s.argmax(0))
    delta = s.max(0) + logB[:, o]
path = [int(delta.argmax())]
for b in back[::-1]:
    path.insert(0, b[path[0]].item())
print(path, delta)
