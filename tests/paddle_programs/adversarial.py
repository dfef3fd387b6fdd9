"""Fast gradient sign: the picture changes, the weights stay."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(54)
model = nn.Sequential(nn.Conv2D(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
for p in model.parameters():
    p.set_value((rng.randn(*p.shape) * 0.2).astype("float32"))
model.eval()
images = paddle.to_tensor(rng.rand(5, 1, 8, 8).astype("float32"))
labels = model(images).argmax(axis=1)
print("clean accuracy", (model(images).argmax(1) == labels).astype("float32").mean().item())


def fgsm_attack(image, epsilon, data_grad):
    return paddle.clip(image + epsilon * data_grad.sign(), 0, 1)


for epsilon in [0.0, 0.05, 0.3]:
    image = images.clone().detach()
    image.stop_gradient = False
    loss = F.nll_loss(F.log_softmax(model(image), axis=1), labels)
    loss.backward()
    perturbed = fgsm_attack(image, epsilon, image.grad)
    changed = model(perturbed)
    print(
        "Epsilon: {}\tloss {:.4f} -> {:.4f}\tlargest change {:.3f}".format(
            epsilon, loss.item(), F.cross_entropy(changed, labels).item(), float((perturbed - image).abs().max())
        )
    )
    model.clear_gradients()

noise = paddle.zeros_like(images)
noise.stop_gradient = False
opt = paddle.optimizer.SGD(learning_rate=1.0, parameters=[noise])
for step in range(3):
    loss = -F.cross_entropy(model(images + noise), labels) + 0.1 * noise.square().mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d %.4f %.5f" % (step, loss, noise.abs().mean()))
