"""A program of somebody who trains on several ranks: accepted by type checkers, and run, here on the threads of one process."""

from typing import Any

import numpy as np

import onnxgrad as og
from onnxgrad import distributed, static, training
from onnxgrad.distributed import Strategy, fleet
from tests.training import small


class Scaled(og.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = og.nn.Linear(3, 1)

    def forward(self, x: og.Tensor, scale: float = 1.0) -> og.Tensor:
        return self.linear(x) * scale


def exchanged(transport: distributed.Transport) -> float:
    with distributed.using(transport):
        total = distributed.all_reduce(np.array([distributed.rank() + 1.0]), "sum")
        first = distributed.broadcast(og.to_tensor([float(distributed.rank())]), src=0)
        distributed.barrier()
        return float(total[0]) + float(first.item())


def trained(transport: distributed.Transport) -> float:
    data: dict[str, Any] = small.data()  # type: ignore[no-untyped-call]
    model: bytes = small.model().SerializeToString()  # type: ignore[no-untyped-call]
    with distributed.using(transport):
        trainer = training.Trainer(model, loss="cross_entropy", distributed=Strategy(sharding=1, batch_norm="sync"))
        rows = trainer.fit(data, epochs=1, batch_size=20, verbose=False)
    return float(rows[-1]["loss"])


def programmed() -> None:
    fleet.init(is_collective=True)
    program, startup = og.Program(), og.Program()
    with static.program_guard(program, startup):
        x = static.data("x", [None, 3], "float32")
        loss = static.nn.fc(x, 1).mean()
        optimizer = fleet.distributed_optimizer(og.optimizer.SGD(0.1), Strategy(compress="float16"))
        optimizer.minimize(loss)
    executor = og.Executor()
    executor.run(startup)
    (value,) = executor.run(program, {"x": np.ones((2, 3), np.float32)}, [loss])
    assert value.shape == () and fleet.is_first_worker() and fleet.worker_num() == 1


def main() -> None:
    assert distributed.run_local(2, exchanged) == [3.0, 3.0]
    first, second = distributed.run_local(2, trained)
    assert first == second
    programmed()
    layer = distributed.DataParallel(Scaled())
    y: og.Tensor = layer(og.ones([2, 3]), scale=2.0)
    assert y.shape == [2, 1] and len(layer.parameters()) == len(layer.state_dict()) == 2
    optimizer: og.optimizer.Adam = fleet.distributed_optimizer(og.optimizer.Adam(0.1, parameters=layer.parameters()))
    y.sum().backward()
    optimizer.step()
    plain: og.Tensor = distributed.DataParallel(og.nn.Linear(3, 1))(og.ones([2, 3]))
    assert plain.shape == [2, 1]


if __name__ == "__main__":
    main()
