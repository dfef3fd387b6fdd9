"""DCGAN on small pictures: two networks, two optimizers, detached fakes."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(12)


class Generator(nn.Layer):
    def __init__(self):
        super(Generator, self).__init__()
        self.gen = nn.Sequential(
            nn.Conv2DTranspose(in_channels=8, out_channels=6, kernel_size=4, stride=1, padding=0, bias_attr=False),
            nn.BatchNorm2D(num_features=6),
            nn.ReLU(),
            nn.Conv2DTranspose(6, 1, kernel_size=4, stride=2, padding=1, bias_attr=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.gen(x)


class Discriminator(nn.Layer):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.dis = nn.Sequential(
            nn.Conv2D(1, 6, kernel_size=4, stride=2, padding=1, bias_attr=False),
            nn.LeakyReLU(0.2),
            nn.Conv2D(6, 1, kernel_size=4, stride=1, padding=0, bias_attr=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.dis(x)


def weights_init(m):
    classname = m.__class__.__name__
    if hasattr(m, "weight") and classname.find("Conv") != -1:
        m.weight.set_value((0.1 * rng.standard_normal(m.weight.shape)).astype("float32"))
    elif classname.find("BatchNorm") != -1:
        m.weight.set_value((1.0 + 0.02 * rng.standard_normal(m.weight.shape)).astype("float32"))
        m.bias.set_value(np.zeros(m.bias.shape, "float32"))


netG, netD = Generator(), Discriminator()
netG.apply(weights_init)
netD.apply(weights_init)
print(netG)
print(netD)
loss = nn.BCELoss()
optimizerD = paddle.optimizer.Adam(parameters=netD.parameters(), learning_rate=2e-3, beta1=0.5, beta2=0.999)
optimizerG = paddle.optimizer.Adam(parameters=netG.parameters(), learning_rate=2e-3, beta1=0.5, beta2=0.999)
real_label = paddle.full((4, 1, 1, 1), 1.0, dtype="float32")
fake_label = paddle.full((4, 1, 1, 1), 0.0, dtype="float32")
for step in range(4):
    optimizerD.clear_grad()
    real = paddle.to_tensor(rng.uniform(0.2, 1.0, (4, 1, 8, 8)).astype("float32"))
    errD_real = loss(netD(real), real_label)
    errD_real.backward()
    fake = netG(paddle.to_tensor(rng.standard_normal((4, 8, 1, 1)).astype("float32")))
    errD_fake = loss(netD(fake.detach()), fake_label)
    errD_fake.backward()
    optimizerD.step()
    optimizerD.clear_grad()
    optimizerG.clear_grad()
    errG = loss(netD(fake), real_label)
    errG.backward()
    optimizerG.step()
    optimizerG.clear_grad()
    print("[%d] Loss_D: %.4f Loss_G: %.4f" % (step, errD_real.item() + errD_fake.item(), errG.item()))
print(fake.shape, fake.numpy().min() >= -1)
