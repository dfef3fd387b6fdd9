"""Clicks in a static program: sparse features, a sigmoid, auc that goes on from batch to batch."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(84)
ids = static.data("ids", [None, 3], "int64")
dense = static.data("dense", [None, 2], "float32")
label = static.data("label", [None, 1], "int64")
table = paddle.nn.initializer.Assign((rng.randn(50, 4) * 0.3).astype("float32"))
emb = static.nn.embedding(ids, [50, 4], param_attr=paddle.ParamAttr(name="SparseFeatFactors", initializer=table))
features = paddle.concat([paddle.reshape(emb, [-1, 12]), dense], axis=1)
init = paddle.nn.initializer.Assign((rng.randn(14, 8) * 0.3).astype("float32"))
hidden = static.nn.fc(features, 8, activation="relu", weight_attr=init)
init = paddle.nn.initializer.Assign((rng.randn(8, 2) * 0.3).astype("float32"))
predict = static.nn.fc(hidden, 2, activation="softmax", weight_attr=init)
cost = paddle.nn.functional.cross_entropy(predict, label, use_softmax=False)
avg_cost = paddle.mean(cost)
auc_var, batch_auc_var, _ = static.auc(input=predict, label=label, num_thresholds=2**12, slide_steps=20)
paddle.optimizer.Adam(0.02).minimize(avg_cost)
exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
for batch in range(4):
    i = rng.randint(0, 50, (40, 3))
    d = rng.rand(40, 2).astype("float32")
    y = ((i[:, 0] < 25) ^ (d[:, 0] > 0.7)).astype("int64")[:, None]
    loss, auc = exe.run(feed={"ids": i, "dense": d, "label": y}, fetch_list=[avg_cost, auc_var])
    print("batch %d loss %.4f auc %.4f" % (batch, loss, auc))
