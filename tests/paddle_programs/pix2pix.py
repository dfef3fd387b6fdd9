"""Image to image: a generator with skips, a patch critic, an adversarial and an L1 loss."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(135)


class Generator(nn.Layer):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2D(1, 4, 4, stride=2, padding=1)
        self.deep = nn.Conv2D(4, 6, 4, stride=2, padding=1)
        self.up = nn.Conv2DTranspose(6, 4, 4, stride=2, padding=1)
        self.out = nn.Conv2DTranspose(8, 1, 4, stride=2, padding=1)

    def forward(self, x):
        a = nn.functional.leaky_relu(self.down(x), 0.2)
        b = nn.functional.leaky_relu(self.deep(a), 0.2)
        return paddle.tanh(self.out(paddle.concat([nn.functional.relu(self.up(b)), a], axis=1)))


generator = Generator()
critic = nn.Sequential(nn.Conv2D(2, 4, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Conv2D(4, 1, 3, padding=1))
for net in (generator, critic):
    for p in net.parameters():
        p.set_value((rng.randn(*p.shape) * 0.2).astype("float32"))
adversarial, pixel = nn.MSELoss(), nn.L1Loss()
g_opt = paddle.optimizer.Adam(2e-3, beta1=0.5, parameters=generator.parameters())
d_opt = paddle.optimizer.Adam(2e-3, beta1=0.5, parameters=critic.parameters())
sketch = paddle.to_tensor((rng.rand(3, 1, 8, 8) > 0.7).astype("float32"))
photo = sketch * 1.5 - 0.5
for step in range(4):
    fake = generator(sketch)
    g_opt.clear_grad()
    scores = critic(paddle.concat([sketch, fake], 1))
    g_loss = adversarial(scores, paddle.ones_like(scores)) + 10 * pixel(fake, photo)
    g_loss.backward()
    g_opt.step()
    d_opt.clear_grad()
    real = critic(paddle.concat([sketch, photo], 1))
    made = critic(paddle.concat([sketch, fake.detach()], 1))
    d_loss = (adversarial(real, paddle.ones_like(real)) + adversarial(made, paddle.zeros_like(made))) / 2
    d_loss.backward()
    d_opt.step()
    print("step %d G %.4f D %.4f" % (step, g_loss.item(), d_loss.item()), scores.shape)
