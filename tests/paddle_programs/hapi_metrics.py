"""paddle.Model with a metric of one's own: what each method gives, and when the metric begins anew."""

import numpy as np

import paddle
import paddle.nn as nn


class MeanError(paddle.metric.Metric):
    def __init__(self, name="error"):
        super().__init__()
        self._name = name
        self.total, self.count = 0.0, 0

    def reset(self):
        self.total, self.count = 0.0, 0

    def compute(self, pred, label):
        return paddle.abs(pred - label)

    def update(self, errors):
        self.total += float(np.sum(errors))
        self.count += int(np.prod(errors.shape))
        return self.total / self.count

    def accumulate(self):
        return self.total / max(self.count, 1)

    def name(self):
        return self._name


xs = np.arange(12).reshape(6, 2).astype("float32") / 12
ys = xs.sum(1, keepdims=True)
net = nn.Linear(2, 1)
net.weight.set_value(np.array([[0.5], [-0.5]], "float32"))
net.bias.set_value(paddle.zeros([1]))
metric = MeanError()
model = paddle.Model(net)
model.prepare(paddle.optimizer.SGD(0.1, parameters=net.parameters()), nn.MSELoss(), metric)
data = paddle.io.TensorDataset([paddle.to_tensor(xs), paddle.to_tensor(ys)])
losses, values = model.train_batch([xs[:2]], [ys[:2]])
print(type(losses[0]).__name__, losses[0].shape, float(losses[0]), values)
print(model.train_batch([xs[2:4]], [ys[2:4]])[1], model.eval_batch([xs[:2]], [ys[:2]])[1], metric.count)
print(model.evaluate(data, batch_size=4, verbose=0), metric.count)
print(model.evaluate(data, batch_size=4, verbose=0))
model.fit(data, data, batch_size=3, epochs=2, shuffle=False, verbose=0)
print(metric.count, net.weight.numpy().ravel(), net.bias.numpy())
print([output.shape for output in model.predict(data, batch_size=6, stack_outputs=True, verbose=0)], model.predict_batch([xs[:1]]))
model.prepare(paddle.optimizer.SGD(0.1, parameters=net.parameters()), nn.MSELoss())
print([float(loss) for loss in model.train_batch([xs[:2]], [ys[:2]])], model.evaluate(data, batch_size=4, verbose=0))
