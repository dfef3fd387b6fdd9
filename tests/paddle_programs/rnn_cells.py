"""Cells, the RNN wrapper, BiRNN and stacked SimpleRNN: shapes and first values."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(42)


def fill(layer):
    for p in layer.parameters():
        p.set_value(rng.uniform(-0.4, 0.4, p.shape).astype("float32"))
    return layer


x = paddle.to_tensor(rng.randn(3, 5, 4).astype("float32"))
cell = fill(nn.SimpleRNNCell(4, 6))
y, h = cell(x[:, 0], paddle.zeros([3, 6]))
print(y.shape, h.shape, y.numpy()[0, :3].round(4))
lstm_cell = fill(nn.LSTMCell(4, 6))
y, (h, c) = lstm_cell(x[:, 0])
print(y.shape, c.shape, c.numpy()[0, :3].round(4))
gru_cell = fill(nn.GRUCell(4, 6))
print(gru_cell)
y, h = gru_cell(x[:, 0])
print(y.numpy()[1, :3].round(4))

rnn = nn.RNN(lstm_cell)
outputs, (h, c) = rnn(x)
print(outputs.shape, h.shape, float(outputs.sum()))
backward = nn.RNN(gru_cell, is_reverse=True)
outputs, final = backward(x)
print(outputs.numpy()[0, 0, :3].round(4), final.numpy()[0, :3].round(4))
both = nn.BiRNN(fill(nn.GRUCell(4, 5)), fill(nn.GRUCell(4, 5)))
outputs, (fw, bw) = both(x)
print(outputs.shape, fw.shape, bw.shape)
stacked = fill(nn.SimpleRNN(4, 6, num_layers=2, activation="relu", time_major=False))
outputs, final = stacked(x)
print(stacked)
print(outputs.shape, final.shape, outputs.numpy().sum().round(3))
major = fill(nn.GRU(4, 6, time_major=True))
outputs, final = major(x.transpose([1, 0, 2]))
print(outputs.shape, final.shape, np.allclose(outputs.numpy()[-1], final.numpy()[0], atol=1e-6))
loss = (outputs**2).mean()
loss.backward()
print([(n, round(float(p.grad.abs().mean()), 5)) for n, p in major.named_parameters()])
