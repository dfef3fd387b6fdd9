"""nn.LSTM and nn.Embedding in a static program, with sequence lengths and a saved model."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(85)
main, startup = static.Program(), static.Program()
with static.program_guard(main, startup):
    words = static.data("words", [None, 6], "int64")
    lengths = static.data("lengths", [None], "int64")
    label = static.data("label", [None, 1], "int64")
    embedding, lstm, fc = nn.Embedding(15, 6), nn.LSTM(6, 5), nn.Linear(5, 2)
    output, (h, c) = lstm(embedding(words), sequence_length=lengths)
    logits = fc(h[-1])
    loss = paddle.mean(nn.functional.cross_entropy(logits, label))
    opt = paddle.optimizer.Adam(learning_rate=0.05)
    opt.minimize(loss)
print(logits.shape, output.shape)
exe = static.Executor()
exe.run(startup)
scope = static.global_scope()
for p in [*embedding.parameters(), *lstm.parameters(), *fc.parameters()]:
    value = rng.uniform(-0.3, 0.3, p.shape).astype("float32")
    scope.find_var(p.name).get_tensor().set(value, paddle.CPUPlace())
feed = {
    "words": rng.randint(0, 15, (5, 6)),
    "lengths": np.array([6, 3, 4, 1, 5], "int64"),
    "label": np.array([[0], [1], [1], [0], [1]], "int64"),
}
for step in range(4):
    value, hidden = exe.run(main, feed=feed, fetch_list=[loss, h])
    print("step %d %.5f" % (step, value), hidden.shape)
out = exe.run(main.clone(for_test=True), feed=feed, fetch_list=[output])[0]
print(float(np.abs(out[3, 1:]).sum()))
