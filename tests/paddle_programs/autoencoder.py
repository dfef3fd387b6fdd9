"""A convolutional autoencoder that removes noise, with resizing and a custom loss layer."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(74)


class Denoiser(nn.Layer):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2D(1, 6, 3, stride=2, padding=1), nn.PReLU(), nn.Conv2D(6, 8, 3, stride=2, padding=1), nn.PReLU(num_parameters=8)
        )
        self.decoder = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2D(8, 6, 3, padding=1),
            nn.Swish(),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            nn.Conv2D(6, 1, 3, padding=1),
        )

    def forward(self, x):
        return F.sigmoid(self.decoder(self.encoder(x)))


class EdgeLoss(nn.Layer):
    def __init__(self):
        super().__init__()
        kernel = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], "float32").reshape(1, 1, 3, 3)
        self.register_buffer("kernel", paddle.to_tensor(kernel))

    def forward(self, x, y):
        ex, ey = F.conv2d(x, self.kernel, padding=1), F.conv2d(y, self.kernel, padding=1)
        return F.l1_loss(ex, ey)


model, edges = Denoiser(), EdgeLoss()
print([list(p.shape) for p in model.encoder[1].parameters()], model.encoder[3])
for p in model.parameters():
    if p.ndim == 4:
        p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
opt = paddle.optimizer.Adagrad(learning_rate=0.05, parameters=model.parameters())
grid = np.stack(np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8)))
clean = np.stack([(np.abs(grid).sum(0) < r) for r in (0.4, 0.8, 1.2, 1.6)]).astype("float32")[:, None]
for step in range(4):
    noisy = np.clip(clean + 0.3 * rng.randn(*clean.shape), 0, 1).astype("float32")
    output = model(paddle.to_tensor(noisy))
    target = paddle.to_tensor(clean)
    mse, edge = F.mse_loss(output, target), edges(output, target)
    loss = mse + 0.1 * edge
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d mse %.4f edge %.4f" % (step, mse, edge))
psnr = 10 * paddle.log10(1.0 / F.mse_loss(output, target))
print("psnr %.2f" % psnr.item(), list(edges.state_dict()))
