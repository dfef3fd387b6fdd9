"""Embedding, LSTM and attention in a classic program, with a schedule and clipping."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
import paddle.static as static

paddle.enable_static()
words = static.data("words", [None, 6], "int64")
lab = static.data("lab", [None, 1], "int64")
emb = static.nn.embedding(words, [20, 5], param_attr=paddle.ParamAttr(name="emb", initializer=nn.initializer.Uniform(0.1, 0.2)))
lstm = nn.LSTM(
    5,
    4,
    weight_ih_attr=nn.initializer.Constant(0.1),
    weight_hh_attr=nn.initializer.Constant(0.05),
    bias_ih_attr=nn.initializer.Constant(0.0),
    bias_hh_attr=nn.initializer.Constant(0.0),
)
o, (h, c) = lstm(emb)
att = F.softmax(static.nn.fc(o, 1, num_flatten_dims=2, weight_attr=nn.initializer.Constant(0.3)), axis=1)
ctx = paddle.sum(o * att, axis=1)
logit = static.nn.fc(ctx, 2, weight_attr=nn.initializer.Constant(0.2), activation=None)
loss = paddle.mean(F.softmax_with_cross_entropy(logit, lab))
loss2 = F.cross_entropy(logit, lab)
sched = paddle.optimizer.lr.ExponentialDecay(0.1, 0.5)
opt = paddle.optimizer.Adam(sched, grad_clip=nn.ClipGradByGlobalNorm(0.5))
ops, pgs = opt.minimize(loss)
print([(p.name, g.name) for p, g in pgs], len(ops) > 0)
exe = static.Executor()
exe.run(static.default_startup_program())
w = np.arange(24).reshape(4, 6) % 20
y = np.array([[0], [1], [0], [1]])
static.global_scope().find_var("emb").get_tensor().set(np.linspace(-1, 1, 100).reshape(20, 5).astype("float32"), paddle.CPUPlace())
for e in range(3):
    l, l2, a = exe.run(feed={"words": w.astype("int64"), "lab": y.astype("int64")}, fetch_list=[loss, loss2, att])
    print(e, l, l2, a[0, :2, 0], sched.get_lr())
    sched.step()
