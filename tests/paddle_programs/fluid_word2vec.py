"""Four words to the next one, as in the book of Paddle 1: one shared embedding by its name."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(32)
EMBED, HIDDEN, DICT = 8, 16, 30
table = rng.uniform(-0.3, 0.3, (DICT, EMBED)).astype("float32")


def inference_program(words):
    embeds = []
    for word in words:
        attr = fluid.ParamAttr(name="shared_w", initializer=fluid.initializer.NumpyArrayInitializer(table))
        embeds.append(fluid.layers.embedding(input=word, size=[DICT, EMBED], dtype="float32", is_sparse=False, param_attr=attr))
    concat = fluid.layers.concat(input=embeds, axis=1)
    init = fluid.initializer.NumpyArrayInitializer(rng.uniform(-0.2, 0.2, (4 * EMBED, HIDDEN)).astype("float32"))
    hidden = fluid.layers.fc(input=concat, size=HIDDEN, act="sigmoid", param_attr=fluid.ParamAttr(initializer=init))
    init = fluid.initializer.NumpyArrayInitializer(rng.uniform(-0.2, 0.2, (HIDDEN, DICT)).astype("float32"))
    return fluid.layers.fc(input=hidden, size=DICT, act="softmax", param_attr=fluid.ParamAttr(initializer=init))


names = ["firstw", "secondw", "thirdw", "fourthw"]
words = [fluid.layers.data(name, [1], dtype="int64") for name in names]
next_word = fluid.layers.data("nextw", [1], dtype="int64")
predict = inference_program(words)
cost = fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=next_word))
params_grads = fluid.backward.append_backward(cost)
print([p.name for p, g in params_grads], [g.shape for p, g in params_grads])
optimizer = fluid.optimizer.AdagradOptimizer(learning_rate=0.1)
optimizer.apply_gradients(params_grads)

exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
data = rng.randint(0, DICT, (64, 5))
for epoch in range(4):
    feed = {name: data[:, i : i + 1] for i, name in enumerate(names + ["nextw"])}
    loss, g = exe.run(feed=feed, fetch_list=[cost, "shared_w@GRAD"])
    print("epoch %d loss %.4f" % (epoch, loss), "%.5f" % np.abs(g).sum())
print(len(fluid.default_main_program().global_block().all_parameters()))
