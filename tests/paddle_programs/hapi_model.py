"""paddle.Model: prepare, fit, evaluate, predict."""

import numpy as np
import paddle
import paddle.nn as nn
from paddle.io import TensorDataset

rng = np.random.RandomState(110)
x = paddle.to_tensor(rng.randn(24, 4).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 2, (24, 1)).astype("int64"))
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
for p in net.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
model = paddle.Model(net)
model.prepare(paddle.optimizer.Adam(0.01, parameters=model.parameters()), nn.CrossEntropyLoss(), paddle.metric.Accuracy())
model.fit(TensorDataset([x, y]), batch_size=8, epochs=2, shuffle=False, verbose=0)
result = model.evaluate(TensorDataset([x, y]), batch_size=8, verbose=0)
print(sorted(result), "%.4f" % result["loss"][0], "%.4f" % result["acc"])
predicted = model.predict(TensorDataset([x]), batch_size=8, stack_outputs=True, verbose=0)
print(len(predicted), predicted[0].shape)
print("%.4f" % model.train_batch([x], [y])[0][0])
