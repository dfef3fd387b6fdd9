"""A convolutional network on 8x8 digits, with accuracy and a test program."""

import numpy as np
import paddle
import paddle.nn.functional as F

paddle.enable_static()
rng = np.random.RandomState(31)


def assign(*shape):
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign((rng.randn(*shape) * 0.3).astype("float32")))


def convolutional_neural_network(img):
    conv_1 = paddle.static.nn.conv2d(img, num_filters=4, filter_size=3, padding=1, act="relu", param_attr=assign(4, 1, 3, 3))
    pool_1 = F.max_pool2d(conv_1, kernel_size=2, stride=2)
    conv_2 = paddle.static.nn.conv2d(pool_1, num_filters=6, filter_size=3, act="relu", param_attr=assign(6, 4, 3, 3))
    flat = paddle.flatten(conv_2, start_axis=1)
    return paddle.static.nn.fc(flat, size=4, activation="softmax", weight_attr=assign(24, 4))


main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    img = paddle.static.data("img", [None, 1, 8, 8], "float32")
    label = paddle.static.data("label", [None, 1], "int64")
    predict = convolutional_neural_network(img)
    cost = F.cross_entropy(predict, label, use_softmax=False, reduction="none")
    avg_cost = paddle.mean(cost)
    acc = paddle.static.accuracy(input=predict, label=label)
    test_program = main.clone(for_test=True)
    opt = paddle.optimizer.Adam(learning_rate=0.01)
    opt.minimize(avg_cost)

for block in main.blocks:
    print(block.idx, [(p.name, p.shape) for p in block.all_parameters()])
exe = paddle.static.Executor()
exe.run(startup)
images = rng.rand(32, 1, 8, 8).astype("float32")
labels = (images[:, 0, :4, :4].mean((1, 2)) > images[:, 0, 4:, 4:].mean((1, 2))).astype("int64")[:, None]
for step in range(5):
    avg, accuracy = exe.run(main, feed={"img": images, "label": labels}, fetch_list=[avg_cost, acc])
    print("Step %d, Cost %.4f, Acc %.4f" % (step, avg, accuracy))
out = exe.run(test_program, feed={"img": images[:8], "label": labels[:8]}, fetch_list=[avg_cost, acc, predict])
print("Test: %.3f" % out[0], out[2].shape, "%.4f" % out[2].sum(1).mean())
