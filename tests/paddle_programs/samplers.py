"""Data sets put together and split, and the samplers over them."""

import numpy as np
import paddle
from paddle.io import (
    BatchSampler,
    ChainDataset,
    ComposeDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedBatchSampler,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    random_split,
)


class Squares(Dataset):
    def __init__(self, start, count):
        self.values = np.arange(start, start + count)

    def __getitem__(self, i):
        return self.values[i], self.values[i] ** 2

    def __len__(self):
        return len(self.values)


class Stream(IterableDataset):
    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter(self.values)


both = ConcatDataset([Squares(0, 3), Squares(10, 2)])
print(len(both), [int(both[i][1]) for i in range(5)])
print([int(v) for v in ChainDataset([Stream([1, 2]), Stream([3])])])
composed = ComposeDataset([Squares(0, 2), Squares(5, 2)])
print(len(composed), [tuple(int(v) for v in composed[i]) for i in range(2)])
paddle.seed(3)
parts = random_split(both, [3, 2])
print([len(p) for p in parts], sorted(int(p[i][0]) for p in parts for i in range(len(p))))
print(int(Subset(both, [4, 1])[0][0]))
print(sorted(RandomSampler(both)), sorted(SubsetRandomSampler([3, 1])), set(WeightedRandomSampler([0.0, 1.0, 0.0], 4)))
batches = list(BatchSampler(sampler=RandomSampler(both), batch_size=2, drop_last=False))
print([len(b) for b in batches], sorted(i for b in batches for i in b))
for rank in range(2):
    sampler = DistributedBatchSampler(Squares(0, 8), batch_size=2, num_replicas=2, rank=rank, shuffle=False, drop_last=False)
    print(rank, list(sampler), len(sampler))
sampler = DistributedBatchSampler(Squares(0, 8), batch_size=2, num_replicas=2, rank=0, shuffle=True)
sampler.set_epoch(1)
print(len(list(sampler)))
loader = DataLoader(both, batch_size=5, shuffle=True)
((values, squares),) = list(loader)
print(sorted(values.tolist()), bool((values * values == squares).all()), len(loader))
loader = DataLoader(both, batch_sampler=BatchSampler(both, batch_size=2))
print([b[0].shape for b in loader])
it = iter(loader)
print(next(it)[0].tolist())
