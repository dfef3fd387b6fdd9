"""A convolutional program: trained, tested, saved for inference and loaded, its variables read from the scope."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
import paddle.static as static

paddle.enable_static()
x = static.data("img", [None, 1, 8, 8])
lab = static.data("lab", [None, 1], "int64")
c = static.nn.conv2d(
    x,
    4,
    3,
    act="relu",
    param_attr=paddle.ParamAttr(name="cw", initializer=nn.initializer.Constant(0.05)),
    bias_attr=paddle.ParamAttr(name="cb"),
)
b = static.nn.batch_norm(c, act="tanh", moving_mean_name="mm", moving_variance_name="mv")
p = F.adaptive_avg_pool2d(b, 1)
logits = static.nn.fc(
    p,
    3,
    num_flatten_dims=1,
    weight_attr=paddle.ParamAttr(initializer=nn.initializer.Uniform(-0.2, 0.2), name="fw"),
    name="head",
)
pred = F.softmax(logits)
loss = paddle.mean(F.cross_entropy(logits, lab))
acc = static.accuracy(pred, lab)
test = static.default_main_program().clone(for_test=True)
paddle.optimizer.Momentum(0.1, 0.9, weight_decay=paddle.regularizer.L2Decay(1e-3)).minimize(loss)
exe = static.Executor()
exe.run(static.default_startup_program())
static.global_scope().find_var("fw").get_tensor().set(np.linspace(-1, 1, 12).reshape(4, 3).astype("float32"), paddle.CPUPlace())
r = np.random.RandomState(0)
X, Y = r.rand(6, 1, 8, 8).astype("float32"), r.randint(0, 3, (6, 1))
for e in range(2):
    print(
        e, *[float(np.asarray(v).reshape(-1)[0]).__round__(4) for v in exe.run(feed={"img": X, "lab": Y}, fetch_list=[loss, acc])]
    )
print(exe.run(test, feed={"img": X, "lab": Y}, fetch_list=[loss, pred])[0])
print(np.array(static.global_scope().find_var("mm").get_tensor()), np.array(static.global_scope().find_var("cb").get_tensor()))
static.save_inference_model("inf/model", [x], [pred], exe)
prog, feeds, fetches = static.load_inference_model("inf/model", exe)
print(feeds, len(fetches), exe.run(prog, feed={feeds[0]: X}, fetch_list=fetches)[0][:2])
static.save(static.default_main_program(), "ck/m")
static.load(static.default_main_program(), "ck/m", exe)
state = static.load_program_state("ck/m")
print(sorted(k for k in state if "velocity" not in k))
print(
    [
        v.name
        for v in static.default_main_program().list_vars()
        if v.persistable and "velocity" not in v.name and "learning" not in v.name
    ][:8]
)
print(
    static.default_main_program().global_block().has_var("cw"),
    test.global_block().var("cw").shape,
    x.shape,
    x.dtype,
    pred.name,
    logits.stop_gradient,
    x.stop_gradient,
    lab.lod_level,
    x.persistable,
)
