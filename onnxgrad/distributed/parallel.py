"""DataParallel: an eager layer whose gradients are averaged over ranks in each backward pass.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.distributed.agreement import StepCheck, Subject, check_equal, check_step, versions
from onnxgrad.distributed.environment import all_reduce, broadcast, current, world_size
from onnxgrad.eager.creation import to_tensor
from onnxgrad.internal.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnxgrad.eager.parameter import EagerParameter
    from onnxgrad.eager.tensor import Tensor
    from onnxgrad.nn.layer import Layer


__all__ = ["DataParallel"]


Call_co = TypeVar("Call_co", covariant=True)


class Wrapped(Protocol[Call_co]):
    """What may be wrapped: a layer, of which a call takes and gives what its ``forward`` does."""

    @property
    def forward(self) -> Call_co: ...

    @property
    def __call__(self) -> Call_co: ...

    def parameters(self) -> list[EagerParameter]: ...


class DataParallel(Generic[Call_co]):
    """A layer that several ranks train, each on its part of the batch.

    All begin with the weights of rank 0. In each backward pass a gradient becomes the mean over ranks, so parts are to be of
    one size; programs and ``Trainer(distributed=True)`` weigh uneven ones. Nor does it know what a loss does with examples: one
    that lets them meet, such as a contrastive one, sees those of each part alone; the Trainer gathers them. Before the first
    gradient of a pass ranks compare how many updates they have made.

    Args:
        layers: an ``nn.Layer``; every parameter that trains must get a gradient on all ranks.
        strategy, comm_buffer_size, last_comm_buffer_size, find_unused_parameters, group: accepted for compatibility.

    Raises:
        TrainingError: on all ranks, if their layers have other parameters, or their versions differ; and in a backward pass, if
            one has taken another number of optimizer steps.

    Example:
        >>> model = paddle.DataParallel(paddle.nn.Linear(3, 1))
        >>> model(paddle.ones([2, 3])).shape
        [2, 1]
    """

    @checked
    def __init__(
        self,
        layers: Wrapped[Call_co],
        strategy: object = None,
        comm_buffer_size: int = 25,
        last_comm_buffer_size: int = 1,
        find_unused_parameters: bool = False,
        group: object = None,
    ) -> None:
        self._layers = layers
        self._step = StepCheck()
        self._passed: set[int] = set()
        """Which parameters the present backward pass has given gradients."""
        if world_size() == 1:
            return
        # Names are left out: they count the layers that a process has made.
        parameters = [(list(p.shape), str(p.dtype), "fixed" if p.stop_gradient else "trained") for p in layers.parameters()]
        subject = Subject(parameters, "Wrap the same layers on all ranks")
        check_equal(current(), {**versions(), "other parameters": subject})
        self._trained = [p for p in layers.parameters() if not p.stop_gradient]
        self._updates = self._count()
        for p in layers.parameters():
            broadcast(p)
        for number, p in enumerate(self._trained):
            p.register_hook(partial(self._mean, number))

    def _count(self) -> int:
        """How many updates optimizers have made"""
        return max((p.updates for p in self._trained), default=0)

    def _mean(self, number: int, gradient: Tensor) -> Tensor:
        """The mean of a gradient over ranks; with the second one of a parameter another pass begins"""
        if not self._passed or number in self._passed:
            self._passed = set()
            self._step.number = self._count() - self._updates
            self._step.begin_eager()
            check_step(current(), self._step)
        self._passed.add(number)
        array = np.array(gradient.numpy(), order="C")
        return to_tensor(all_reduce(array) / array.dtype.type(world_size()))

    if TYPE_CHECKING:  # what it hands on, so that a checker knows a misspelt member

        @property
        def __call__(self) -> Call_co: ...

        def parameters(self, include_sublayers: bool = True) -> list[EagerParameter]: ...

        def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, EagerParameter]]: ...

        def state_dict(self) -> dict[str, Tensor]: ...

        def set_state_dict(self, state_dict: GivenByName, use_structured_name: bool = True) -> tuple[list[str], list[str]]: ...

        def train(self) -> Layer: ...

        def eval(self) -> Layer: ...

        def clear_gradients(self, set_to_zero: bool = True) -> None: ...

        def sublayers(self, include_self: bool = False) -> list[Layer]: ...
    else:

        def __call__(self, *inputs: object, **kwargs: object) -> object:
            """Call the layer.

            Args:
                inputs: what the layer takes.
                kwargs: likewise, by name.
            """
            return self._layers(*inputs, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.__dict__["_layers"], name)
