"""DataParallel: an eager layer whose gradients are averaged over ranks in each backward pass.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

import numpy as np

from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.distributed.agreement import Subject, check_equal, versions
from onnxgrad.distributed.environment import all_reduce, broadcast, current, world_size
from onnxgrad.eager.creation import to_tensor
from onnxgrad.internal.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnxgrad.eager.parameter import EagerParameter
    from onnxgrad.eager.tensor import Tensor
    from onnxgrad.nn.layer import Layer


__all__ = ["DataParallel"]


P = ParamSpec("P")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Wrapped(Protocol[P, Result_co]):
    """What may be wrapped: a layer, of which a call takes and gives what its ``forward`` does."""

    @property
    def forward(self) -> Callable[P, Result_co]: ...

    def __call__(self, *inputs: P.args, **kwargs: P.kwargs) -> Result_co: ...

    def parameters(self) -> list[EagerParameter]: ...


class DataParallel(Generic[P, Result]):
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
        layers: Wrapped[P, Result],
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
    def _mean(gradient: Tensor) -> Tensor:
        array = np.array(gradient.numpy(), order="C")
        return to_tensor(all_reduce(array) / array.dtype.type(world_size()))

    def __call__(self, *inputs: P.args, **kwargs: P.kwargs) -> Result:
        """Call the layer.

        Args:
            inputs: what the layer takes.
            kwargs: likewise, by name.
        """
        return self._layers(*inputs, **kwargs)

    if TYPE_CHECKING:  # what it hands on, so that a checker knows a misspelt member

        def parameters(self, include_sublayers: bool = True) -> list[EagerParameter]: ...

        def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, EagerParameter]]: ...

        def state_dict(self) -> dict[str, Tensor]: ...

        def set_state_dict(self, state_dict: GivenByName, use_structured_name: bool = True) -> tuple[list[str], list[str]]: ...

        def train(self) -> Layer: ...

        def eval(self) -> Layer: ...

        def clear_gradients(self, set_to_zero: bool = True) -> None: ...

        def sublayers(self, include_self: bool = False) -> list[Layer]: ...
    else:

        def __getattr__(self, name: str) -> Any:
            return getattr(self.__dict__["_layers"], name)
