"""A picture is trained to have the Gram matrices of another one."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(55)
features = nn.Sequential(nn.Conv2D(3, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2D(2, 2), nn.Conv2D(4, 6, 3, padding=1), nn.ReLU())
for p in features.parameters():
    p.set_value((rng.randn(*p.shape) * 0.25).astype("float32"))
    p.stop_gradient = True
layers = {"0": "conv1", "3": "conv2"}


def get_features(image):
    found = {}
    x = image
    for name, layer in features.named_children():
        x = layer(x)
        if name in layers:
            found[layers[name]] = x
    return found


def gram_matrix(tensor):
    _, d, h, w = tensor.shape
    tensor = paddle.reshape(tensor, [d, h * w])
    return paddle.mm(tensor, paddle.t(tensor)) / (d * h * w)


content = paddle.to_tensor(rng.rand(1, 3, 8, 8).astype("float32"))
style = paddle.to_tensor(rng.rand(1, 3, 8, 8).astype("float32") * 2)
content_features, style_grams = get_features(content), {k: gram_matrix(v) for k, v in get_features(style).items()}
target = content.clone()
target.stop_gradient = False
target = paddle.create_parameter(shape=target.shape, dtype="float32", default_initializer=nn.initializer.Assign(target.numpy()))
opt = paddle.optimizer.Adam(learning_rate=0.05, parameters=[target])
for step in range(5):
    found = get_features(target)
    content_loss = paddle.mean((found["conv2"] - content_features["conv2"]) ** 2)
    style_loss = sum(F.mse_loss(gram_matrix(found[k]), style_grams[k]) for k in style_grams)
    loss = content_loss + 50 * style_loss
    opt.clear_grad()
    loss.backward()
    opt.step()
    print("step %d content %.5f style %.5f" % (step, content_loss, style_loss))
image = target.detach().squeeze(0).transpose([1, 2, 0]).clip(0, 1)
print(image.shape, float(image.max()) <= 1.0)
