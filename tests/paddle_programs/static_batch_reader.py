"""A DataLoader feeds a static program by lists of dictionaries."""

import numpy as np
import paddle
import paddle.static as static
from paddle.io import DataLoader, Dataset

paddle.enable_static()


class Numbers(Dataset):
    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        x = rng.rand(3).astype("float32")
        return x, np.array([x.sum()], "float32")

    def __len__(self):
        return 12


x = static.data("x", [None, 3], "float32")
y = static.data("y", [None, 1], "float32")
out = static.nn.fc(x, 1, weight_attr=paddle.nn.initializer.Constant(0.2))
loss = paddle.mean(paddle.nn.functional.square_error_cost(out, y))
paddle.optimizer.SGD(0.3).minimize(loss)
exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
loader = DataLoader(Numbers(), feed_list=[x, y], places=[paddle.CPUPlace()], batch_size=4, return_list=False, shuffle=False)
for epoch in range(2):
    for data in loader:
        (value,) = exe.run(feed=data, fetch_list=[loss])
    print("epoch %d loss %.5f" % (epoch, value))
print(len(loader), sorted(data[0]) if isinstance(data, list) else sorted(data))
reader = paddle.batch(lambda: iter(range(7)), batch_size=3)
print([batch for batch in reader()])
