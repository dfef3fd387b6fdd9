"""What a loader yields, for each kind of sample, of batch and of collate_fn."""

import numpy as np

import paddle
from paddle.io import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler


class Samples(Dataset):
    def __init__(self, sample):
        self.sample = sample

    def __getitem__(self, i):
        return self.sample(i)

    def __len__(self):
        return 3


kinds = [
    lambda i: (np.full(2, i), i),
    lambda i: [np.full(2, i, "float32"), i / 2],
    lambda i: np.full(2, i),
    lambda i: {"x": np.full(1, i), "y": i, "z": i * 0.5},
    lambda i: i + 0.5,
    lambda i: i,
    lambda i: (1.5, (i, i)),
    lambda i: np.float32(i),
    lambda i: (f"name{i}", i > 0),
    lambda i: (paddle.full([2], i), np.int32(i)),
]
for number, kind in enumerate(kinds):
    for size in (None, 2) if number < 4 else (2,):
        for batch in DataLoader(Samples(kind), batch_size=size):
            print(number, size, type(batch).__name__ if not isinstance(batch, paddle.Tensor) else "tensor", batch)
pairs = Samples(lambda i: (np.full(2, i, "float32"), i))
collates = [
    lambda batch: batch,
    lambda batch: tuple(np.stack([np.asarray(item[at]) for item in batch]) for at in range(2)),
    lambda batch: {"x": np.stack([item[0] for item in batch]), "names": [str(item[1]) for item in batch]},
    lambda batch: np.stack([item[0] for item in batch]),
]
for collate in collates:
    for batch in DataLoader(pairs, batch_size=2, drop_last=True, collate_fn=collate):
        print(batch)


class Backwards(Sampler):
    def __iter__(self):
        return iter(reversed(range(len(self.data_source))))

    def __len__(self):
        return len(self.data_source)


batches = BatchSampler(sampler=Backwards(pairs), batch_size=2)
print(list(batches), len(batches), [y.tolist() for _, y in DataLoader(pairs, batch_sampler=batches)])


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(5)


print([batch.tolist() for batch in DataLoader(Stream(), batch_size=2)])


def attempt(name, function):
    try:
        function()
        print(name, "passed")
    except (AssertionError, ValueError, TypeError):
        print(name, "refused")


attempt("sampler of a stream", lambda: DataLoader(Stream(), batch_sampler=batches))
attempt("shuffled stream", lambda: DataLoader(Stream(), shuffle=True))
attempt("two sizes", lambda: DataLoader(pairs, batch_size=2, batch_sampler=batches))
