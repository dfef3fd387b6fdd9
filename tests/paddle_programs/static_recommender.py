"""Users and movies in a static program: embeddings, cosine, square error, a loss every epoch."""

import numpy as np
import paddle

paddle.enable_static()
rng = np.random.RandomState(81)
static = paddle.static


def uniform(*shape):
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(rng.uniform(-0.3, 0.3, shape).astype("float32")))


def feature(name, size, dim):
    ids = static.data(name, [None, 1], "int64")
    emb = static.nn.embedding(ids, size=[size, dim], param_attr=uniform(size, dim))
    return ids, static.nn.fc(paddle.reshape(emb, [-1, dim]), size=dim, weight_attr=uniform(dim, dim))


_, usr = feature("user_id", 20, 8)
_, gender = feature("gender_id", 2, 4)
_, mov = feature("movie_id", 30, 8)
_, cat = feature("category_id", 5, 4)
usr_combined = static.nn.fc([usr, gender], size=10, activation="tanh", weight_attr=[uniform(8, 10), uniform(4, 10)])
mov_combined = static.nn.fc(paddle.concat([mov, cat], axis=1), size=10, activation="tanh", weight_attr=uniform(12, 10))
inference = paddle.nn.functional.cosine_similarity(usr_combined, mov_combined, axis=1)
scale_infer = paddle.scale(paddle.reshape(inference, [-1, 1]), scale=5.0)
label = static.data("score", [None, 1], "float32")
avg_cost = paddle.mean(paddle.nn.functional.square_error_cost(scale_infer, label))
print([p.name for p in static.default_main_program().all_parameters()])
print(scale_infer.shape, avg_cost.dtype)
test_program = static.default_main_program().clone(for_test=True)
paddle.optimizer.Adam(0.01).minimize(avg_cost)
exe = static.Executor()
exe.run(static.default_startup_program())
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
