"""Users and movies in the words of Paddle 1: embeddings, cosine, square error."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(81)
layers = fluid.layers


def uniform(*shape):
    value = rng.uniform(-0.3, 0.3, shape).astype("float32")
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(value))


def feature(name, size, dim):
    ids = layers.data(name=name, shape=[1], dtype="int64")
    emb = layers.embedding(input=ids, size=[size, dim], param_attr=uniform(size, dim))
    return ids, layers.fc(input=emb, size=dim, param_attr=uniform(dim, dim))


_, usr = feature("user_id", 20, 8)
_, gender = feature("gender_id", 2, 4)
_, mov = feature("movie_id", 30, 8)
_, cat = feature("category_id", 5, 4)
usr_combined = layers.fc(input=[usr, gender], size=10, act="tanh", param_attr=[uniform(8, 10), uniform(4, 10)])
mov_combined = layers.fc(input=layers.concat(input=[mov, cat], axis=1), size=10, act="tanh", param_attr=uniform(12, 10))
inference = layers.cos_sim(X=usr_combined, Y=mov_combined)
scale_infer = layers.scale(x=inference, scale=5.0)
label = layers.data(name="score", shape=[1], dtype="float32")
avg_cost = layers.mean(layers.square_error_cost(input=scale_infer, label=label))
print([p.name for p in fluid.default_main_program().global_block().all_parameters()])
print(scale_infer.shape, avg_cost.dtype)
test_program = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adam(learning_rate=0.01).minimize(avg_cost)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
for epoch in range(4):
    feed = {
        "user_id": rng.randint(0, 20, (16, 1)),
        "gender_id": rng.randint(0, 2, (16, 1)),
        "movie_id": rng.randint(0, 30, (16, 1)),
        "category_id": rng.randint(0, 5, (16, 1)),
        "score": rng.randint(1, 6, (16, 1)).astype("float32"),
    }
    (out,) = exe.run(feed=feed, fetch_list=[avg_cost.name])
    print("epoch", epoch, "%.4f" % out)
print("test %.4f" % exe.run(test_program, feed=feed, fetch_list=[avg_cost])[0])
