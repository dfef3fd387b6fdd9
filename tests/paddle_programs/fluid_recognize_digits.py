"""A convolutional network on 8x8 digits, with accuracy and a test program, in the words of Paddle 1."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(31)


def assign(*shape):
    value = (rng.randn(*shape) * 0.3).astype("float32")
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(value))


def convolutional_neural_network(img):
    conv_1 = fluid.layers.conv2d(input=img, num_filters=4, filter_size=3, padding=1, act="relu", param_attr=assign(4, 1, 3, 3))
    pool_1 = fluid.layers.pool2d(input=conv_1, pool_size=2, pool_stride=2, pool_type="max")
    conv_2 = fluid.layers.conv2d(input=pool_1, num_filters=6, filter_size=3, act="relu", param_attr=assign(6, 4, 3, 3))
    return fluid.layers.fc(input=conv_2, size=4, act="softmax", param_attr=assign(24, 4))


main, startup = fluid.Program(), fluid.Program()
with fluid.program_guard(main, startup):
    img = fluid.data("img", [None, 1, 8, 8], "float32")
    label = fluid.data("label", [None, 1], "int64")
    predict = convolutional_neural_network(img)
    cost = fluid.layers.cross_entropy(input=predict, label=label)
    avg_cost = fluid.layers.mean(cost)
    acc = fluid.layers.accuracy(input=predict, label=label)
    test_program = main.clone(for_test=True)
    opt = fluid.optimizer.Adam(learning_rate=0.01)
    opt.minimize(avg_cost)

for block in main.blocks:
    print(block.idx, [(p.name, p.shape) for p in block.all_parameters()])
exe = fluid.Executor(fluid.CPUPlace())
exe.run(startup)
images = rng.rand(32, 1, 8, 8).astype("float32")
labels = (images[:, 0, :4, :4].mean((1, 2)) > images[:, 0, 4:, 4:].mean((1, 2))).astype("int64")[:, None]
for step in range(5):
    avg, accuracy = exe.run(main, feed={"img": images, "label": labels}, fetch_list=[avg_cost, acc])
    print("Step %d, Cost %.4f, Acc %.4f" % (step, avg, accuracy))
out = exe.run(test_program, feed={"img": images[:8], "label": labels[:8]}, fetch_list=[avg_cost, acc, predict])
print("Test: %.3f" % out[0], out[2].shape, "%.4f" % out[2].sum(1).mean())
