"""Hooks before and after a layer, and what their handles do."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(15)
net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
for p in net.parameters():
    p.set_value(rng.randn(*p.shape).astype("float32") * 0.5)

features = {}


def keep(name):
    def hook(layer, inputs, output):
        features[name] = output
        print(f"{name}: {type(layer).__name__} {len(inputs)} input(s) -> {list(output.shape)}")

    return hook


def double_input(layer, inputs):
    return (inputs[0] * 2,)


def halve_output(layer, inputs, output):
    return output * 0.5


handles = [layer.register_forward_post_hook(keep(name)) for name, layer in net.named_sublayers()]
x = paddle.to_tensor(rng.randn(5, 4).astype("float32"))
first = net(x)
print(sorted(features), np.allclose(features["2"].numpy(), first.numpy()))
for handle in handles:
    handle.remove()

pre = net[0].register_forward_pre_hook(double_input)
doubled = net(x)
print(np.allclose(doubled.numpy(), nn.Sequential(*list(net.children())[1:])(net[0].forward(x * 2)).numpy()))
post = net.register_forward_post_hook(halve_output)
print(np.allclose(net(x).numpy() * 2, doubled.numpy(), atol=1e-6))
pre.remove()
post.remove()
print(np.allclose(net(x).numpy(), first.numpy()))

print([name for name, _ in net.named_sublayers(include_self=True)])
for name, child in net.named_children():
    print(name, child)
features["1"].mean().backward()
print(net[0].weight.grad.shape, net[2].weight.grad)
