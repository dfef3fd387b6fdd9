"""DataParallel: an eager layer whose gradients are averaged over ranks in each backward pass.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.distributed.agreement import Subject, check_equal, versions
from onnxgrad.distributed.environment import all_reduce, broadcast, current, world_size
from onnxgrad.eager.creation import to_tensor
from onnxgrad.internal.arguments import checked

__all__ = ["DataParallel"]


class DataParallel:
    """A layer that several ranks train, each on its part of the batch.

    All begin with the weights of rank 0. In each backward pass a gradient becomes the mean over ranks, so parts are to be of
    one size; programs and ``Trainer(distributed=True)`` weigh uneven ones.

    Args:
        layers: an ``nn.Layer``; every parameter that trains must get a gradient on all ranks.
        strategy, comm_buffer_size, last_comm_buffer_size, find_unused_parameters, group: accepted for compatibility.

    Raises:
        TrainingError: on all ranks, if their layers have other parameters, or their versions differ.

    Example:
        >>> model = paddle.DataParallel(paddle.nn.Linear(3, 1))
        >>> model(paddle.ones([2, 3])).shape
        [2, 1]
    """

    @checked
    def __init__(
        self,
        layers: Any,
        strategy: object = None,
        comm_buffer_size: int = 25,
        last_comm_buffer_size: int = 1,
        find_unused_parameters: bool = False,
        group: object = None,
    ) -> None:
        self._layers = layers
        if world_size() == 1:
            return
        # Names are left out: they count the layers that a process has made.
        parameters = [(list(p.shape), str(p.dtype), "fixed" if p.stop_gradient else "trained") for p in layers.parameters()]
        subject = Subject(parameters, "Wrap the same layers on all ranks")
        check_equal(current(), {**versions(), "other parameters": subject})
        for p in layers.parameters():
            broadcast(p)
            if not p.stop_gradient:
                p.register_hook(self._mean)

    @staticmethod
    def _mean(gradient: Any) -> Any:
        array = np.array(gradient.numpy(), order="C")
        return to_tensor(all_reduce(array) / array.dtype.type(world_size()))

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self._layers(*inputs, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_layers"], name)
