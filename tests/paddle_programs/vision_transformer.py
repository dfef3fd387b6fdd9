"""Patches through attention: a class token, positions, pre-norm blocks with stochastic depth off."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(73)


class PatchEmbed(nn.Layer):
    def __init__(self, image=8, patch=4, channels=1, dim=16):
        super().__init__()
        self.num_patches = (image // patch) ** 2
        self.proj = nn.Conv2D(channels, dim, kernel_size=patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose([0, 2, 1])


class Block(nn.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=1e-6)
        self.attn = nn.MultiHeadAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, epsilon=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(0.0), nn.Linear(2 * dim, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Layer):
    def __init__(self, dim=16, depth=2, classes=3):
        super().__init__()
        self.patch_embed = PatchEmbed(dim=dim)
        zeros = nn.initializer.Constant(value=0.0)
        self.cls_token = self.create_parameter(shape=(1, 1, dim), default_initializer=zeros)
        self.pos_embed = self.create_parameter(shape=(1, self.patch_embed.num_patches + 1, dim), default_initializer=zeros)
        self.add_parameter("cls_token", self.cls_token)
        self.blocks = nn.LayerList([Block(dim, 4) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        B = paddle.shape(x)[0]
        x = self.patch_embed(x)
        x = paddle.concat((self.cls_token.expand((B, -1, -1)), x), axis=1) + self.pos_embed
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x)[:, 0])


model = ViT()
for name, p in model.named_parameters():
    if "norm" not in name:
        p.set_value((rng.randn(*p.shape) * 0.1).astype("float32"))
print(len(model.state_dict()), list(model.state_dict())[:3])
images, labels = paddle.to_tensor(rng.rand(4, 1, 8, 8).astype("float32")), paddle.to_tensor([0, 1, 2, 1])
scheduler = paddle.optimizer.lr.CosineAnnealingDecay(learning_rate=0.01, T_max=4)
opt = paddle.optimizer.AdamW(scheduler, parameters=model.parameters(), weight_decay=0.05)
for step in range(4):
    loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
    loss.backward()
    opt.step()
    scheduler.step()
    opt.clear_grad()
    print("step {} loss {:.4f} lr {:.5f}".format(step, loss.item(), opt.get_lr()))
