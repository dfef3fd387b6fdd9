"""Four words to the next one: one shared embedding by its name."""

import numpy as np
import paddle

paddle.enable_static()
rng = np.random.RandomState(32)
EMBED, HIDDEN, DICT = 8, 16, 30
table = rng.uniform(-0.3, 0.3, (DICT, EMBED)).astype("float32")


def inference_program(words):
    embeds = []
    for word in words:
        attr = paddle.ParamAttr(name="shared_w", initializer=paddle.nn.initializer.Assign(table))
        embeds.append(paddle.static.nn.embedding(word, size=[DICT, EMBED], is_sparse=False, param_attr=attr))
    concat = paddle.concat([paddle.reshape(e, [-1, EMBED]) for e in embeds], axis=1)
    init = paddle.nn.initializer.Assign(rng.uniform(-0.2, 0.2, (4 * EMBED, HIDDEN)).astype("float32"))
    hidden = paddle.static.nn.fc(concat, size=HIDDEN, activation="sigmoid", weight_attr=paddle.ParamAttr(initializer=init))
    init = paddle.nn.initializer.Assign(rng.uniform(-0.2, 0.2, (HIDDEN, DICT)).astype("float32"))
    return paddle.static.nn.fc(hidden, size=DICT, activation="softmax", weight_attr=paddle.ParamAttr(initializer=init))


names = ["firstw", "secondw", "thirdw", "fourthw"]
words = [paddle.static.data(name, [None, 1], "int64") for name in names]
next_word = paddle.static.data("nextw", [None, 1], "int64")
predict = inference_program(words)
cost = paddle.nn.functional.cross_entropy(predict, next_word, use_softmax=False)
params_grads = paddle.static.append_backward(cost)
print([p.name for p, g in params_grads], [g.shape for p, g in params_grads])
optimizer = paddle.optimizer.Adagrad(learning_rate=0.1)
optimizer.apply_gradients(params_grads)

exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
data = rng.randint(0, DICT, (64, 5))
for epoch in range(4):
    feed = {name: data[:, i : i + 1] for i, name in enumerate(names + ["nextw"])}
    loss, g = exe.run(feed=feed, fetch_list=[cost, "shared_w@GRAD"])
    print("epoch %d loss %.4f" % (epoch, loss), "%.5f" % np.abs(g).sum())
print(len(paddle.static.default_main_program().all_parameters()))
