"""Text to numbers to batches: a vocabulary, padding, attention masks, a classifier over averages, saved and loaded."""

import collections

import numpy as np
import paddle
import paddle.nn as nn
from paddle.io import DataLoader, Dataset

texts = ["spam offer now", "meeting at noon", "cheap offer offer", "lunch at noon today", "win cheap now", "see you today"]
labels = [1, 0, 1, 0, 1, 0]


class Vocab:
    def __init__(self, texts):
        counter = collections.Counter(word for text in texts for word in text.split())
        self.words = ["[PAD]", "[UNK]"] + sorted(counter, key=lambda w: (-counter[w], w))
        self.index = {w: i for i, w in enumerate(self.words)}

    def encode(self, text):
        return [self.index.get(w, 1) for w in text.split()]


class Texts(Dataset):
    def __init__(self, texts, labels, vocab):
        self.rows = [{"ids": vocab.encode(t), "label": l} for t, l in zip(texts, labels)]

    def __getitem__(self, i):
        return self.rows[i]

    def __len__(self):
        return len(self.rows)


def collate(rows):
    width = max(len(r["ids"]) for r in rows)
    ids = np.array([r["ids"] + [0] * (width - len(r["ids"])) for r in rows], "int64")
    return {"ids": ids, "mask": (ids != 0).astype("float32"), "label": np.array([r["label"] for r in rows], "float32")}


vocab = Vocab(texts)
print(vocab.words[:5], len(vocab.words), vocab.encode("cheap pills now"))
embed, out = nn.Embedding(len(vocab.words), 6, padding_idx=0), nn.Linear(6, 1)
rng = np.random.RandomState(134)
embed.weight.set_value((rng.randn(len(vocab.words), 6) * 0.3).astype("float32"))
out.weight.set_value((rng.randn(6, 1) * 0.3).astype("float32"))
opt = paddle.optimizer.Adam(0.05, parameters=embed.parameters() + out.parameters())


def predict(batch):
    mask = paddle.to_tensor(batch["mask"]).unsqueeze(-1)
    return out((embed(batch["ids"]) * mask).sum(axis=1) / mask.sum(axis=1)).squeeze(-1)


for epoch in range(4):
    for batch in DataLoader(Texts(texts, labels, vocab), batch_size=3, collate_fn=collate):
        loss = nn.functional.binary_cross_entropy_with_logits(predict(batch), batch["label"])
        loss.backward()
        opt.step()
        opt.clear_grad()
    print(f"epoch {epoch} loss {float(loss):.4f}", batch["ids"].shape)
paddle.save({"embed": embed.state_dict(), "out": out.state_dict(), "words": vocab.words}, "text.pdparams")
loaded = paddle.load("text.pdparams")
print(sorted(loaded), loaded["words"][2], loaded["out"]["weight"].shape)
embed.set_state_dict(loaded["embed"])
print((nn.functional.sigmoid(predict(batch)) > 0.5).astype("int64").tolist(), batch["label"].astype("int64").tolist())
