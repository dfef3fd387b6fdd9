"""Sentences of many lengths: a sampler of one's own, a collate function that pads, an iterable data set."""

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, SequenceSampler


class Sentences(Dataset):
    lengths = [5, 2, 7, 3, 3, 6]

    def __getitem__(self, i):
        return np.arange(1, self.lengths[i] + 1), i % 2

    def __len__(self):
        return len(self.lengths)


class ByLength(Sampler):
    def __init__(self, data_source):
        super().__init__(data_source)

    def __iter__(self):
        return iter(np.argsort([len(self.data_source[i][0]) for i in range(len(self.data_source))], kind="stable").tolist())

    def __len__(self):
        return len(self.data_source)


def pad(samples):
    width = max(len(ids) for ids, _ in samples)
    ids = np.stack([np.pad(ids, (0, width - len(ids))) for ids, _ in samples])
    return ids, np.array([[label] for _, label in samples]), np.array([len(ids) for ids, _ in samples])


data = Sentences()
sampler = BatchSampler(sampler=ByLength(data), batch_size=2)
for ids, labels, lengths in DataLoader(data, batch_sampler=sampler, collate_fn=pad, return_list=True):
    print(ids.shape, labels.numpy().ravel(), lengths.numpy(), ids.sum().item())
print(list(SequenceSampler(data)), sorted(RandomSampler(data)), len(RandomSampler(data, replacement=True, num_samples=9)))


class Lines(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for i in range(self.count):
            yield np.array([i, i * i], "float32"), np.array([i], "int64")


for x, y in DataLoader(Lines(5), batch_size=2):
    print(x.numpy().tolist(), y.numpy().tolist())
for x, y in DataLoader(Lines(5), batch_size=2, drop_last=True):
    print(x.shape)
try:
    len(Lines(3))
except RuntimeError:
    print("lines have no length")
for item in DataLoader(Lines(2), batch_size=None):
    print([t.tolist() for t in item])
embedding = paddle.nn.Embedding(10, 2, weight_attr=paddle.nn.initializer.Constant(0.5))
for ids, labels, lengths in DataLoader(data, batch_size=3, collate_fn=pad):
    mask = paddle.arange(ids.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)
    print((embedding(ids) * mask.unsqueeze(-1).astype("float32")).sum(axis=[1, 2]).numpy())
