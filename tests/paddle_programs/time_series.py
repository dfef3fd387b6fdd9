"""A forecast from sliding windows by Conv1D and GRU, scaled by the training data, several steps ahead."""

import numpy as np
import paddle
import paddle.nn as nn
from paddle.io import DataLoader, Dataset

t = np.arange(120)
series = (np.sin(t / 6) + 0.3 * np.cos(t / 2.5) + 0.01 * t).astype("float32")
mean, std = series[:80].mean(), series[:80].std()
scaled = (series - mean) / std


class Windows(Dataset):
    def __init__(self, values, window=10):
        self.values, self.window = values, window

    def __getitem__(self, i):
        return self.values[i : i + self.window, None], self.values[i + self.window]

    def __len__(self):
        return len(self.values) - self.window


class Forecaster(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1D(1, 4, 3, padding=1, data_format="NLC")
        self.gru = nn.GRU(4, 6)
        self.fc = nn.Linear(6, 1)

    def forward(self, x):
        _, h = self.gru(paddle.tanh(self.conv(x)))
        return self.fc(h[-1]).squeeze(-1)


rng = np.random.RandomState(100)
model = Forecaster()
for p in model.parameters():
    p.set_value(rng.uniform(-0.4, 0.4, p.shape).astype("float32"))
loader = DataLoader(Windows(scaled[:80]), batch_size=35, shuffle=False, drop_last=True)
opt = paddle.optimizer.Adam(0.02, parameters=model.parameters())
for epoch in range(3):
    losses = []
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.item())
    print("epoch %d loss %.4f" % (epoch, np.mean(losses)), x.shape, y.shape)
model.eval()
window = scaled[70:80].tolist()
with paddle.no_grad():
    for _ in range(4):
        x = paddle.to_tensor(window[-10:], dtype="float32").reshape([1, 10, 1])
        window.append(model(x).item())
print(np.round(np.array(window[-4:]) * std + mean, 2))
