"""Sentences through nn.TransformerEncoder with a padding mask."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(9)
vocab, d_model, heads = 20, 16, 4


class Classifier(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d_model, heads, 32, dropout=0.0, activation="gelu", normalize_before=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(d_model))
        self.out = nn.Linear(d_model, 2)
        position = np.arange(12)[:, None] / np.power(10000, 2 * (np.arange(d_model)[None] // 2) / d_model)
        table = np.where(np.arange(d_model) % 2 == 0, np.sin(position), np.cos(position)).astype("float32")
        self.register_buffer("position", paddle.to_tensor(table))

    def forward(self, ids):
        mask = (ids == 0).astype(paddle.get_default_dtype()).unsqueeze([1, 2]) * -1e4
        h = self.embed(ids) * d_model**0.5 + self.position[: ids.shape[1]]
        h = self.encoder(h, src_mask=mask)
        keep = (ids != 0).astype("float32").unsqueeze(-1)
        return self.out((h * keep).sum(axis=1) / keep.sum(axis=1))


model = Classifier()
for name, p in model.named_parameters():
    if "norm" not in name:
        p.set_value(rng.uniform(-0.3, 0.3, p.shape).astype("float32"))
for name, p in list(model.named_parameters())[:8]:
    print(name, p.shape)
ids = rng.randint(1, vocab, (6, 10))
for row, length in enumerate([10, 7, 5, 9, 3, 6]):
    ids[row, length:] = 0
label = paddle.to_tensor((ids.sum(1) % 2).astype("int64"))
ids = paddle.to_tensor(ids)
opt = paddle.optimizer.AdamW(
    learning_rate=5e-3,
    parameters=model.parameters(),
    weight_decay=0.01,
    apply_decay_param_fun=lambda name: "norm" not in name,
    grad_clip=nn.ClipGradByGlobalNorm(1.0),
)
criterion = nn.CrossEntropyLoss()
for step in range(5):
    loss = criterion(model(ids), label)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step", step, "loss", round(loss.item(), 4))
shorter = model(ids[1:2, :7])
print(np.allclose(shorter.numpy(), model(ids)[1:2].numpy(), atol=1e-5), list(model.buffers())[0].shape)
