"""House prices by one linear layer: the first example of the guide."""

import numpy as np
import paddle

rng = np.random.RandomState(0)
features = rng.randn(64, 13).astype("float32")
prices = (features @ rng.randn(13, 1) + 3.0).astype("float32")


class Regressor(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(
            13,
            1,
            weight_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.1)),
            bias_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0)),
        )

    def forward(self, inputs):
        return self.fc(inputs)


model = Regressor()
model.train()
print(model)
opt = paddle.optimizer.SGD(learning_rate=0.05, parameters=model.parameters())

for epoch in range(4):
    for start in range(0, 64, 16):
        x = paddle.to_tensor(features[start : start + 16])
        y = paddle.to_tensor(prices[start : start + 16])
        predicts = model(x)
        loss = paddle.nn.functional.square_error_cost(predicts, label=y)
        avg_loss = paddle.mean(loss)
        if start == 0:
            print("epoch: {}, loss is: {:.4f}".format(epoch, float(avg_loss.numpy())))
        avg_loss.backward()
        opt.step()
        opt.clear_grad()

print(model.fc.weight.shape, model.fc.bias)
model.eval()
with paddle.no_grad():
    one = model(paddle.to_tensor(features[:1]))
print("Inference result is {}, the corresponding label is {}".format(one.numpy()[0][-1], prices[0, 0]))
