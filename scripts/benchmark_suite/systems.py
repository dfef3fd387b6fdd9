"""The systems that run the workloads: what each needs to be installed, and which workloads it cannot do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmark_suite.workloads import Workload


@dataclass(frozen=True)
class System:
    """One line of the table."""

    family: str
    """The systems of a family share the module ``in_<family>``, and the option --python."""
    about: str
    packages: tuple[str, ...]
    """What must be installed, by the name of the distribution; alternatives are separated by a bar."""
    form: str = ""
    devices: tuple[str, ...] = ("cpu",)
    refuses: Callable[[Workload], str | None] = lambda workload: None
    """Why a workload is left out; None where it runs."""
    spins: float = 0.0
    """Seconds that its threads go on waiting in a loop after a step; the next system must not pay for that."""
    bfloat16: bool = False
    """Whether its products round to bfloat16: it needs a processor that has it, and its losses may differ by more."""
    reads_model: bool = False
    """Whether it starts from a file with the forward model, which onnxgrad writes for it."""


@dataclass(frozen=True)
class Setting:
    """What a system runs with."""

    threads: int
    device: str
    form: str = ""
    model: str = ""
    """The file that systems with ``reads_model`` read."""
    clock: str = "wall"
    """What a step is measured by: the time that passes, or that of the processor in the process, which other work disturbs less."""


def _without_images(workload: Workload) -> str | None:
    return None if any(array.ndim == 4 for array in workload.feeds[0].values()) else "its data are no images"


def _with_known_sizes(workload: Workload) -> str | None:
    return "its batch changes" if workload.dynamic else None


def _with_momentum(workload: Workload) -> str | None:
    return "its optimizers have no momentum" if workload.optimizer[0] == "Momentum" else _of_layers(workload)


def _of_layers(workload: Workload) -> str | None:
    return "its model is a file" if workload.shipped is not None else None


_BOTH = ("cpu", "cuda")
_ONNXRUNTIME = "onnxruntime|onnxruntime-gpu"

SYSTEMS = {
    "onnxgrad": System("onnxgrad", "append_backward, minimize, Executor", (_ONNXRUNTIME, "onnx"), devices=_BOTH, spins=0.05),
    "onnxgrad CUDA graph": System(
        "onnxgrad", "CUDAPlace(0, enable_cuda_graph=True)", ("onnxruntime-gpu", "onnx"), "graph", ("cuda",)
    ),
    "onnxgrad openvino": System(
        "onnxgrad", "on OpenVINO's provider, float32", ("onnxruntime-ep-openvino", "onnxruntime", "onnx"), "openvino f32"
    ),
    "onnxgrad openvino bf16": System(
        "onnxgrad",
        "on OpenVINO's provider, products in bfloat16",
        ("onnxruntime-ep-openvino", "onnxruntime", "onnx"),
        "openvino bf16",
        bfloat16=True,
    ),
    "torch": System("torch", "eager, default optimizer loop: what the others are divided by", ("torch",), "eager", _BOTH),
    "torch fused": System("torch", "eager, optimizer with fused=True", ("torch",), "fused", _BOTH),
    "torch.compile": System("torch", "compiled model, optimizer with fused=True", ("torch",), "compile", _BOTH),
    "torch channels-last": System(
        "torch", "eager, images and filters in channels_last", ("torch",), "channels-last", _BOTH, _without_images
    ),
    "torch autocast": System(
        "torch", "channels-last, optimizer with fused=True, autocast to bfloat16", ("torch",), "autocast", bfloat16=True
    ),
    "torch CUDA graph": System(
        "torch", "fused, the step captured as one CUDA graph", ("torch",), "graph", ("cuda",), _with_known_sizes
    ),
    "jax": System("jax", "one jit of the step, state donated, images channels-last", ("jax", "jaxlib"), refuses=_of_layers),
    "paddle": System("paddle", "static graph", ("paddlepaddle|paddlepaddle-gpu",), refuses=_of_layers, spins=0.25),
    "onnxruntime-training": System(
        "onnxruntime-training",
        "its on-device training, version 1.19.2, discontinued",
        ("onnxruntime-training", "torch", "onnx"),
        refuses=_with_momentum,
        spins=0.05,
        reads_model=True,
    ),
}
"""By name, in the order of the table."""
