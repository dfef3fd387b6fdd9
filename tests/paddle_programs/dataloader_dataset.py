"""A map-style data set, shuffled by a seeded generator of numpy, in batches of dictionaries and tuples."""

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset, Subset, TensorDataset


class Points(Dataset):
    def __init__(self, count, mode="train"):
        super().__init__()
        self.mode = mode
        rng = np.random.RandomState(count)
        self.points = rng.randn(count, 2).astype("float32")
        self.labels = (self.points.sum(1) > 0).astype("int64")

    def __getitem__(self, index):
        if self.mode == "test":
            return self.points[index]
        return self.points[index], self.labels[index]

    def __len__(self):
        return len(self.points)


train = Points(10)
print(len(train), train[0][0].dtype)
loader = DataLoader(train, batch_size=4, shuffle=False, drop_last=False)
print(len(loader))
for i, (x, y) in enumerate(loader):
    print(i, type(x).__name__, x.shape, y.shape, y.dtype, y.tolist())
for data in DataLoader(train, batch_size=4, drop_last=True):
    print(type(data).__name__, len(data), data[0].shape)

sampler = BatchSampler(train, batch_size=3, shuffle=False, drop_last=True)
print(list(sampler), len(sampler))
for x, y in DataLoader(train, batch_sampler=sampler, num_workers=0):
    print("%.4f" % x.sum().item(), int(y.sum()))

tensors = TensorDataset([paddle.arange(6, dtype="float32").reshape([3, 2]), paddle.to_tensor([7, 8, 9])])
print(len(tensors), tensors[1][1].item())
for a, b in DataLoader(tensors, batch_size=2):
    print(a.numpy().tolist(), b.numpy().tolist())
part = Subset(train, [9, 0, 3])
print([float(part[i][0][0] == train[j][0][0]) for i, j in enumerate([9, 0, 3])], len(part))


class Named(Dataset):
    def __getitem__(self, index):
        return {"image": np.full([2, 2], index, "float32"), "label": index, "name": f"image{index}"}

    def __len__(self):
        return 3


for batch in DataLoader(Named(), batch_size=2):
    print(sorted(batch), batch["image"].shape, batch["label"].numpy(), batch["name"])
