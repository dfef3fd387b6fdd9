"""How ranks exchange gradients.

Tests: tests/distributed/test_programs.py, tests/distributed/test_trainer.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from onnxgrad.core.ir.variable import Variable
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import as_int, as_number, wrong_kind
from onnxgrad.internal.words import Compression

__all__ = ["COMPRESSIONS", "Strategy", "check_together", "refuse", "stages_of"]

COMPRESSIONS = (None, *get_args(Compression))

_RECOMPUTES = "a stage keeps the activations of few micro-batches and recomputes none. Pass more micro_batches"
_REFUSED = {
    ("pipeline", "sharding"): "each rank holds the optimizer's state of its layers alone already. Leave sharding out",
    ("pipeline", "compress"): "stages pass whole values on. Leave compress out",
    ("pipeline", "batch_norm='sync'"): (
        "statistics of all micro-batches are not known when the first goes back. Pass batch_norm='local'"
    ),
    ("pipeline", "checkpoints"): _RECOMPUTES,
    ("pipeline", "memory_budget"): _RECOMPUTES,
    ("pipeline", "frozen"): "each stage differentiates its own layers as they are. Leave frozen out",
    ("overlap", "one thread"): "this MPI takes calls of its first thread alone. Start it with threads, or pass overlap=1",
    ("sharding", "no ranges"): "this transport does not add up ranges of a buffer. Leave sharding out, or use MPI",
    ("compress", "no ranges"): "this transport does not exchange ranges of a buffer. Leave compress out, or use MPI",
}
"""What does not work together, and why. All else does."""


def check_together(**chosen: Any) -> None:
    """Refuse what does not work together.

    Args:
        chosen: options by name; 0, 1, False and None are none.

    Raises:
        ArgumentError: naming both, and why.
    """
    names = {name for name, value in chosen.items() if value not in (None, 0, 1)}
    names |= {f"{name}={value!r}" for name, value in chosen.items()}
    for (name, other), reason in _REFUSED.items():
        if name in names and other in names:
            raise ArgumentError(f"{other} does not work with {name}: {reason}.")


def refuse(name: str, other: str) -> ArgumentError:
    """The error for what does not work on a transport."""
    return ArgumentError(f"{name}: {_REFUSED[name, other]}.")


@dataclass(frozen=True)
class Strategy:
    """How ranks exchange gradients. All ranks have the same.

    Args:
        bucket_megabytes: how much travels at a time (10^6 bytes).
        compress: ``"bfloat16"`` or ``"float16"`` to send 16-bit numbers, which are added up in 32 bits or more, ``"top-k"`` to send
            the largest elements of each bucket alone. What is lost is added to the gradient of the next step. Statistics, losses
            and weights travel as they are.
        top_k: the share of the elements that ``"top-k"`` sends, to all ranks: from 1 / share ranks on (100 for 1 %) it sends more
            than whole gradients do, and from half as many on more than ``"bfloat16"``; with shares from half of these. They are
            found in main memory, also where gradients are a GPU's.
        batch_norm: what BatchNormalization by batch statistics, where there is one, does: ``"local"`` normalises each rank's part
            by its own, and running statistics are averaged; ``"sync"`` normalises by those of the whole batch (of a Trainer;
            ``ShardedStep`` has an argument for it); ``"frozen"`` says that there is none.
        sharding: 1 or 2 if each rank updates a range of the elements, holds the optimizer's state of these alone, and is sent the
            gradients of these alone (stages 1 and 2 of ZeRO are one here, and send no more than 0); 0 if all hold all.
        pipeline: of a Trainer, into how many stages its layers are cut, each on a rank (``PipelineStep``); more ranks are further
            rows of stages, which share each batch.
        micro_batches: of a pipeline, into how many parts a row cuts its part of the batch.
        cuts: of a pipeline, names of values of the model behind which it is cut; empty where they are to be chosen.
        overlap: in how many sessions the backward pass is computed, so that gradients travel while others are computed; None and 1
            for one, and no overlap. It gains where a network takes long and processors are free meanwhile; between ranks of one
            machine it costs time, and a small ResNet a third more memory. So a Trainer times its first steps with and without it,
            and keeps it where the slowest rank is faster; ``remarks`` says so. Other programs do as they are told. Sums over
            micro-batches travel when all is computed, while those that have arrived are applied, unless they are compressed. Where
            numbers of 16 bits would cross, everything travels when all is computed.

    Raises:
        ArgumentTypeError: if a value is of a wrong kind.
        ArgumentError: if a value makes no sense.

    Example:
        >>> paddle.distributed.Strategy(compress="bfloat16").bucket_megabytes
        25.0
    """

    bucket_megabytes: float = 25.0
    compress: Compression | None = None
    top_k: float = 0.01
    batch_norm: Literal["local", "sync", "frozen"] | None = None
    sharding: Literal[0, 1, 2] = 0
    overlap: int | None = None
    pipeline: int = 1
    micro_batches: int = 1
    cuts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for argument in ("bucket_megabytes", "top_k"):
            as_number(self, argument, getattr(self, argument))
        for argument in ("pipeline", "micro_batches"):
            as_int(self, argument, getattr(self, argument))
        if self.overlap is not None:
            as_int(self, "overlap", self.overlap)
        if isinstance(self.cuts, str) or not all(isinstance(cut, str) for cut in self.cuts):
            raise wrong_kind(self, "cuts", "a tuple of names", self.cuts)
        if self.compress not in COMPRESSIONS:
            raise ArgumentError(f"compress is one of {', '.join(map(str, COMPRESSIONS))}, not {self.compress!r}.")
        if not 0 < self.top_k <= 1:
            raise ArgumentError(f"top_k is a share of the elements, above 0 and at most 1, not {self.top_k}.")
        if self.batch_norm not in (None, "local", "sync", "frozen"):
            raise ArgumentError(f"batch_norm is 'sync', 'frozen' or 'local', not {self.batch_norm!r}.")
        if self.sharding not in (0, 1, 2):
            raise ArgumentError(f"sharding is 0, 1 or 2, not {self.sharding!r}.")
        if self.overlap is not None and (self.overlap < 1 or isinstance(self.overlap, bool)):
            raise ArgumentError(f"overlap is a number of sessions from 1, or None, not {self.overlap!r}.")
        if self.pipeline < 1 or self.micro_batches < 1:
            raise ArgumentError(f"pipeline and micro_batches are at least 1, not {self.pipeline} and {self.micro_batches}.")
        if self.pipeline == 1 and (self.micro_batches > 1 or self.cuts):
            raise ArgumentError("micro_batches and cuts are for a pipeline. Give the number of stages as pipeline=.")
        if self.cuts and len(self.cuts) != self.pipeline - 1:
            raise ArgumentError(f"{self.pipeline} stages have {self.pipeline - 1} cuts, not {len(self.cuts)}.")
        shares = bool(self.sharding) or None
        check_together(pipeline=self.pipeline, sharding=shares and "on", compress=self.compress, batch_norm=self.batch_norm)
        if self.bucket_megabytes <= 0:
            raise ArgumentError(f"bucket_megabytes is more than 0, not {self.bucket_megabytes}.")

    def attach(self, loss: Variable) -> None:
        """Let ranks exchange the gradients of a loss; ``append_backward(loss, distop_context=strategy)`` calls this.

        Args:
            loss: a scalar of the program.
        """
        from onnxgrad.distributed.environment import current
        from onnxgrad.distributed.exchange import distribute

        if current().world_size > 1:
            distribute(loss.block.program, loss, current(), self)


def stages_of(strategy: Strategy, transport: Transport) -> int:
    """In how many sessions the backward pass is computed.

    Raises:
        ArgumentError: if more than one is asked for, and the engine takes calls of one thread alone.
    """
    count = strategy.overlap or 1
    if count > 1 and not getattr(transport, "any_thread", True):
        raise refuse("overlap", "one thread")
    return count
