"""Provide the names that are not where Paddle has them: another name, or a function that raises the reason.

Tests: tests/test_compat.py.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from importlib.abc import MetaPathFinder
from typing import Any

from onnxgrad.errors import NotOffered

__all__ = ["REFUSED", "AbsentModules", "absence_hooks", "absent", "maps_to", "reason", "refusals", "refused", "why_absent"]

# Patterns over full names; the first that fits holds.
_MAPS = {
    "paddle.fluid.dygraph": "paddle.autograd and eager tensors",
    **{
        f"paddle.fluid.layers.{name}": f"paddle.{name}"
        for name in (
            "acos", "argsort", "asin", "atan", "expand_as", "eye", "gather_nd", "linspace", "ones_like", "rank", "scatter",
            "strided_slice", "zeros_like",
        )
    },
    "paddle.fluid.layers.range": "paddle.arange",
    "paddle.fluid.layers.where": "paddle.nonzero",
    "paddle.fluid.layers.reduce_all": "paddle.all",
    "paddle.fluid.layers.reduce_any": "paddle.any",
    "paddle.fluid.layers.reverse": "paddle.flip",
    "paddle.fluid.layers.size": "paddle.numel",
    "paddle.fluid.layers.image_resize": "paddle.nn.functional.interpolate",
    "paddle.fluid.layers.resize_*": "paddle.nn.functional.interpolate",
    "paddle.fluid.layers.pad2d": "paddle.nn.functional.pad",
    "paddle.fluid.layers.shuffle_channel": "paddle.nn.functional.channel_shuffle",
    "paddle.fluid.layers.hard_sigmoid": "paddle.nn.functional.hardsigmoid",
    "paddle.fluid.layers.hard_swish": "paddle.nn.functional.hardswish",
    "paddle.fluid.layers.maxout": "paddle.nn.functional.maxout",
    "paddle.fluid.layers.selu": "paddle.nn.functional.selu",
    "paddle.fluid.ParallelExecutor": "paddle.static.CompiledProgram",
    "paddle.fluid.require_version": "nothing; leave the call out",
    "paddle.fluid.metrics": "paddle.static.accuracy and paddle.static.auc",
    "paddle.CUDAPinnedPlace": "paddle.CPUPlace",
    "paddle.XPUPinnedPlace": "paddle.CPUPlace",
    "paddle.uint16": "paddle.bfloat16, for which Paddle has this second name",
    "paddle.Size": "list",
    "paddle.Generator": "paddle.seed",
    **{
        f"{namespace}.{name}Tensor": f"paddle.to_tensor with dtype='{dtype}'"
        for namespace in ("paddle", "paddle.device")
        for name, dtype in {
            "BFloat16": "bfloat16", "Bool": "bool", "Byte": "uint8", "Char": "int8", "Double": "float64", "Float": "float32",
            "Half": "float16", "Int": "int32", "Long": "int64", "Short": "int16",
        }.items()
    },
    "paddle.device.device": "paddle.device.device_guard",
    "paddle.Tensor.broadcast_shape*": "paddle.broadcast_shape",
    "paddle.Tensor.broadcast_tensors": "paddle.broadcast_tensors",
    "paddle.Tensor.block_diag": "paddle.block_diag",
    "paddle.Tensor.multi_dot": "paddle.linalg.multi_dot",
    "paddle.Tensor.create_parameter": "paddle.create_parameter",
    "paddle.Tensor.create_tensor": "paddle.to_tensor",
    "paddle.Tensor.stft": "paddle.matmul with a matrix of cosines and sines",
    "paddle.distributed.spawn": "mpiexec, or onnxgrad.distributed.run_local in one process",
    "paddle.distributed.get_group": "nothing: all ranks are one group",
    "paddle.distributed.new_group": "nothing: all ranks are one group",
    "paddle.distributed.gloo_barrier": "paddle.distributed.barrier",
    "paddle.distributed.save_state_dict": "Trainer's checkpoints, which hold the state of all ranks",
    "paddle.distributed.load_*state_dict": "Trainer's checkpoints, which hold the state of all ranks",
    "paddle.distributed.fleet.Fleet": "paddle.distributed.fleet",
    "paddle.static.Variable.to_string": "repr(variable)",
}  # fmt: skip

_ONE_DEVICE = "a tensor lies on one device; use distributed.Strategy(sharding=) or a pipeline"
_QUANTISED = "quantise the exported ONNX model with onnxruntime's tools"
_SERVERS = "there are no parameter servers; use distributed.Strategy"
_SPARSE = "ONNX has no sparse tensors that onnxruntime computes with"
_COMPLEX = "stock runtimes compute no complex numbers; keep real and imaginary part as two tensors"
_OUTSIDE = "it is a package of its own, beside the parts of a model"
_HOST = "it concerns Paddle's own runtime; here onnxruntime runs programs"
_MEMORY = "it accesses the memory of a tensor, which belongs to onnxruntime"
_LOD = "ONNX tensors have no levels of detail (LoD)"
_ONCE = "variables are assigned once and never overwritten"
_WITHDRAWN = "Paddle 2 withdrew it"

# Patterns over what stands behind "paddle."; the first that fits holds.
_REASONS: dict[str, str] = {
    "it searches step by step, for which ONNX has no operator": (
        "nn.dynamic_decode nn.BeamSearchDecoder nn.RNNTLoss fluid.layers.edit_distance fluid.layers.crf_decoding "
        "fluid.layers.linear_chain_crf"
    ),
    "each sample takes another path through a tree; use CrossEntropyLoss": "nn.HSigmoidLoss",
    "each sample takes another branch; use CrossEntropyLoss": "nn.AdaptiveLogSoftmaxWithLoss",
    "its windows are sampled again in every run; use AdaptiveMaxPool": "nn.FractionalMaxPool*",
    _QUANTISED: "static.quantization",
    "values are never overwritten; use the function without the underscore": "*.[a-z]*_ [a-z]*_",
    _COMPLEX: "complex* cdouble cfloat Tensor.complex* Tensor.cdouble Tensor.cfloat Tensor.istft Tensor.imag",
    "element types of Paddle's own files are not offered": "pstring raw",
    "torch's names are Paddle's own; nothing is replaced": "enable_compat disable_compat",
    "it checks arguments within Paddle": "check_shape MmapStorage",
    "it names one vendor's kernel; use scaled_dot_product_attention": "nn.functional.flash_attention_v3_varlen",
    "it names one vendor's kernel; use gather and scatter_add": "nn.functional.moe_permute nn.functional.moe_unpermute",
    "onnxruntime manages streams, events and memory of the device": (
        "device.*tream* device.Event device.empty_cache device.ipc_collect device.*memory*"
    ),
    "onnxruntime does not report it; use the driver's tools": "device.get_device_*",
    "onnxruntime has no provider for these devices; use CPUPlace or CUDAPlace": "device.IPUPlace device.XPUPlace",
    _SPARSE: (
        "Tensor.coalesce Tensor.cols Tensor.crows Tensor.dense_dim Tensor.indices Tensor.is_coalesced Tensor.is_same_shape "
        "Tensor.is_selected_rows Tensor.get_selected_rows Tensor.nnz Tensor.rows Tensor.sparse_dim Tensor.to_dense "
        "Tensor.to_sparse_* Tensor.values"
    ),
    _ONE_DEVICE: (
        "Tensor.num_shard Tensor.placements Tensor.process_mesh distributed.ColWiseParallel "
        "distributed.ContextParallel distributed.ConvParallel distributed.DistAttr distributed.DistModel distributed.LocalLayer "
        "distributed.Partial distributed.Placement distributed.Prepare* distributed.ProcessMesh distributed.ReduceType "
        "distributed.Replicate distributed.RowWiseParallel distributed.SequenceParallel* distributed.Shard* distributed.SplitPoint "
        "distributed.build_sharded_state_dict distributed.dtensor_from_fn distributed.get_mesh distributed.local_map "
        "distributed.parallelize distributed.reshard distributed.set_mesh distributed.shard_* distributed.split "
        "distributed.to_distributed distributed.to_static distributed.unshard_dtensor"
    ),
    _SERVERS: (
        "distributed.CountFilterEntry distributed.ProbabilityEntry distributed.ShowClickEntry distributed.InMemoryDataset "
        "distributed.QueueDataset distributed.fleet.MultiSlot* distributed.fleet.PaddleCloudRoleMaker distributed.fleet.Role "
        "distributed.fleet.UserDefinedRoleMaker distributed.fleet.UtilBase"
    ),
    "its files and servers are Paddle's own; use Python's": (
        "distributed.fleet.utils.DistributedInfer distributed.fleet.utils.HDFSClient distributed.fleet.utils.LocalFS"
    ),
    "all ranks form one data-parallel group or a pipeline; see distributed.PipelineStep": (
        "distributed.fleet.CommunicateTopology distributed.fleet.HybridCommunicateGroup distributed.ParallelMode"
    ),
    "ranks exchange gradients and state by all_reduce and broadcast; send other things by mpi4py": (
        "distributed.all_gather* distributed.alltoall* distributed.broadcast_object_list distributed.gather distributed.irecv "
        "distributed.isend distributed.recv* distributed.reduce distributed.reduce_scatter distributed.scatter* "
        "distributed.send* distributed.wait distributed.create_nccl_config"
    ),
    "the ranks of a job do not change; end the process": (
        "distributed.destroy_process_group distributed.restart_process_group distributed.shutdown_process_group "
        "distributed.gloo_* distributed.get_backend"
    ),
    _OUTSIDE: "distributed.io incubate.inference incubate.cc",
    "how many neighbours there are depends on the data; sample them outside and feed their indices": (
        "incubate.graph_khop_sampler incubate.graph_reindex incubate.graph_sample_neighbors"
    ),
    _MEMORY: (
        "from_dlpack to_dlpack Tensor.get_tensor Tensor.inplace_version Tensor.pin_memory Tensor.data_ptr Tensor.offset "
        "Tensor.get_strides Tensor.stride Tensor.strides Tensor.layout Tensor.get_map_tensor Tensor.set_* Tensor.as_strided"
    ),
    _HOST: (
        "static.amp.debugging amp.debugging disable_signal_handler *_flags *rng_state LazyGuard "
        "fluid.memory_optimize fluid.release_memory fluid.cuda_pinned_places"
    ),
    "each of its rows takes a beta number of another concentration; compose it of Beta": "distribution.LKJCholesky",
    _LOD: "fluid.create_lod_tensor fluid.LoDTensor",
}

_NO_PYTHON = (
    "a program is run by stock onnxruntime, which cannot call Python. Write the function with tensor functions, or fetch its input "
    "and feed its result"
)
_MASTERS = "weights stay in float32, each its own master weight, and are cast where the program reads them. Leave the call out"
_LAYERS = {
    _NO_PYTHON: "py_func",
    "its negative sampling runs on the host. Use functional.cross_entropy on all classes": "nce",
    f"{_LOD}. Pad to [N, T, C] and use functional.conv1d": "sequence_conv",
    f"{_LOD}. Use paddle.gather with the row of each copy": "sequence_expand",
    f"{_LOD}. Pad to [N, T, C] and take x[:, 0]": "sequence_first_step",
    f"{_LOD}. Pad to [N, T, C] and gather the last row of each sequence": "sequence_last_step",
    f"{_LOD}. Pad to [N, T, C] and reduce over axis 1 under a mask": "sequence_pool",
    f"{_LOD}. Pad, add a large negative number under a mask, and use softmax": "sequence_softmax",
}
"""Of ``static.nn``, and of ``fluid.layers`` before it."""

# Names that stand in these namespaces and refuse when they are called.
_ITERATIVE = "it takes an iteration that no ONNX operator offers; compute it outside and feed it"
_REFUSED: dict[str, dict[str, str]] = {
    "paddle": {
        _COMPLEX: "as_complex as_real complex imag polar view_as_complex view_as_real",
        "it takes floating-point numbers apart into bits": "frexp nextafter",
        "no ONNX operator computes it, and no series for it is written": (
            "gammainc gammainc_ gammaincc gammaincc_ i0 i0_ i0e i1 i1e"
        ),
        _ITERATIVE: "lu lu_unpack pinv matrix_rank eigvals svd eig eigh lstsq",
        "it depends on how elements lie in memory; use reshape, transpose and slices": "as_strided",
        "use linspace between the two bounds": "histogram_bin_edges",
        "use histogram for each dimension, or searchsorted and bincount": "histogramdd",
        "no ONNX operator samples Poisson numbers; sample them outside and feed them": "poisson",
        "no ONNX operator samples gamma numbers; sample them outside and feed them": "standard_gamma",
        "onnxruntime computes nothing in it; use QuantizeLinear in a file": "float8_e4m3fn float8_e5m2",
        "compose it from sort, cumsum and multinomial": "top_p_sampling",
        "a program's variable has no value before it runs; fetch it with Executor.run": "tolist",
    },
    "paddle.linalg": {
        _ITERATIVE: (
            "cond eig eigh eigvals eigvalsh lstsq lu lu_solve lu_unpack matrix_exp matrix_rank ormqr pca_lowrank pinv svd "
            "svd_lowrank svdvals"
        ),
        "it names one vendor's kernel; use matmul": "fp8_fp8_half_gemm_fused",
    },
    "paddle.fft": {
        _COMPLEX: "fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftn",
    },
    "paddle.geometric": {
        "how many neighbours there are depends on the data; sample them outside and feed their indices": (
            "reindex_graph reindex_heter_graph sample_neighbors weighted_sample_neighbors"
        ),
    },
    "paddle.nn.functional": {
        "it sums over all alignments of two sequences, for which no ONNX operator exists; compute the loss outside": "rnnt_loss",
        "it names one vendor's kernel; use scaled_dot_product_attention": (
            "flash_attn_qkvpacked flash_attn_varlen_qkvpacked flash_attn_unpadded flashmask_attention sparse_attention"
        ),
        "its windows are sampled again in every run; use adaptive_max_pool": "fractional_max_pool2d fractional_max_pool3d",
        "each sample takes another branch; use cross_entropy, or a hierarchy of your own": "adaptive_log_softmax_with_loss",
        "the number of sampled classes depends on the data and the devices": "class_center_sample",
        "it walks back through beams; decode outside the program": "gather_tree",
        "each sample takes another path through a tree; use cross_entropy": "hsigmoid_loss",
        "it spreads classes over devices; use cross_entropy on logits with a margin": "margin_cross_entropy",
    },
    "paddle.static": {
        _NO_PYTHON: "py_func",
        "it feeds a parameter server. Use static.accuracy, static.auc and paddle.mean of an error": "ctr_metric_bundle",
        "onnxruntime's IPU provider was withdrawn. Use CPUPlace() or CUDAPlace(i)": (
            "IpuCompiledProgram IpuStrategy ipu_shard_guard set_ipu_shard"
        ),
        "onnxruntime has no provider for these devices. Use cpu_places() or cuda_places()": "xpu_places",
    },
    "paddle.static.nn": {
        **_LAYERS,
        "the backward pass comes from the rule of each operator. Register a rule for an operator or function of your own with "
        "@onnxgrad.gradient": "static_pylayer",
        "it needs a parameter server. Use static.nn.embedding": "sparse_embedding",
    },
    "paddle.static.amp": {_MASTERS: "cast_parameters_to_fp16"},
    "paddle.static.amp.bf16": {_MASTERS: "cast_parameters_to_bf16"},
    "paddle.fluid.layers": {
        **_LAYERS,
        f"{_ONCE}. Use while_loop, whose body returns the new values": "While",
        f"{_ONCE}. Use case or switch_case, whose functions return values": "Switch",
        "it splits the rows of a batch between two networks. Compute both and use paddle.where": "IfElse",
        f"{_ONCE}. Use while_loop, or write the steps out": "StaticRNN",
        f"{_LOD}. Pad to [N, T, C] and use while_loop": "DynamicRNN",
        f"{_LOD}. Pad to [N, T, C] and append an LSTM operator with block.append_op": "dynamic_lstm",
        f"{_LOD}. Pad to [N, T, C] and append a GRU operator with block.append_op": "dynamic_gru",
        f"{_ONCE}. Keep a Python list, or concatenate in a while_loop": "create_array array_write",
        f"{_ONCE}. Keep a Python list, or gather from a stacked tensor": "array_read",
        f"{_ONCE}. Keep a Python list": "array_length",
    },
    "paddle.fluid.optimizer": {
        f"{_WITHDRAWN}. Use RMSPropOptimizer": "DecayedAdagrad DecayedAdagradOptimizer",
        f"{_WITHDRAWN}. Use AdagradOptimizer with L1Decay": "Ftrl FtrlOptimizer",
        f"{_WITHDRAWN}. Add noise to the gradients before apply_gradients": "Dpsgd DpsgdOptimizer",
        f"{_WITHDRAWN}. Use LambOptimizer": "LarsMomentum LarsMomentumOptimizer",
        f"{_WITHDRAWN}. Use ExponentialMovingAverage": "LookaheadOptimizer ModelAverage",
        "it needs Paddle's parameter servers. Use Momentum": "DGCMomentumOptimizer",
        "it needs Paddle's fleet. Use SGD on one device": "PipelineOptimizer",
    },
    "paddle.fluid.nets": {f"{_LOD}. Pad to [N, T, C] and use functional.conv1d": "sequence_conv_pool"},
    "paddle.fluid.clip": {
        f"{_WITHDRAWN}. Pass grad_clip to the optimizer": "set_gradient_clip",
        "the backward pass is standard operators. Pass grad_clip to the optimizer": "ErrorClipByValue",
    },
}


def _by_name(reasons: dict[str, str]) -> dict[str, str]:
    return {name: because for because, names in reasons.items() for name in names.split()}


REFUSED = {namespace: _by_name(reasons) for namespace, reasons in _REFUSED.items()}

# Modules of Paddle whose names are not listed one by one.
_MODULES = _by_name(
    {
        "they belong to paddle.Model; use onnxgrad.training.Trainer": "callbacks",
        "use onnxgrad.training.Trainer": "hapi.callbacks hapi.logger hapi.progressbar",
        _OUTSIDE: "vision text audio hub strings dataset utils.download",
        "onnxruntime has a profiler: SessionOptions.enable_profiling": "profiler",
        "onnxruntime is the inference engine; use save_onnx": "inference",
        _SPARSE: "sparse",
        _QUANTISED: "quantization nn.quant",
        _COMPLEX: "signal",
        "it says where Paddle's headers and libraries lie; nothing here is compiled": "sysconfig",
        "it measures Paddle's own operators; onnxruntime has a profiler: SessionOptions.enable_profiling": "cost_model",
        _HOST: "base framework pir pir_utils decomposition library ops cuda_env common_ops_import amp.debugging",
        "onnxruntime manages the device; use set_device and CUDAPlace": "cuda device.cuda device.xpu",
        "no runtime of ONNX gains from zeros in a weight": "static.sparsity incubate.asp",
        "its layers name one vendor's kernels; layers of paddle.nn are fused for the provider that runs them": "incubate.nn",
        "its models name one vendor's kernels; use paddle.distributed": "incubate.distributed",
        "nothing here is compiled; write a layer from operators, or an ONNX function": "utils.cpp_extension",
        _MEMORY: "utils.dlpack",
        "ranks exchange gradients and state alone; call other processes by a package for that": "distributed.rpc",
        _SERVERS: "distributed.ps",
        _ONE_DEVICE: "distributed.auto_parallel",
        "use the checkpoints of onnxgrad.training.Trainer, which hold the state of all ranks": "distributed.checkpoint",
    }
)


def maps_to(name: str) -> str | None:
    """Return the replacement of ``name``."""
    return next((target for pattern, target in _MAPS.items() if fnmatchcase(name, pattern)), None)


def reason(name: str) -> str | None:
    """Why ``name`` is refused."""
    namespace, _, last = name.rpartition(".")
    behind = name.removeprefix("paddle.")
    matching = (because for because, patterns in _REASONS.items() if any(fnmatchcase(behind, each) for each in patterns.split()))
    return REFUSED.get(namespace, {}).get(last) or next(matching, None)


def why_absent(full: str) -> str | None:
    """The reason of a name of Paddle, of the function that a method is, or of the module that it lies in."""
    parts = full.split(".")
    modules = [".".join(parts[1:end]) for end in range(len(parts), 1, -1)]
    functions = [f"{home}.{parts[-1]}" for home in ("paddle", "paddle.linalg")] if parts[1:2] == ["Tensor"] else []
    return next(filter(None, map(reason, (full, *functions))), None) or next(
        (_MODULES[module] for module in modules if module in _MODULES), None
    )


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have, with what to use instead or the reason where Paddle has it."""
    hint = _hint(f"paddle{module.removeprefix('onnxgrad')}.{name}")
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)


def _hint(full: str) -> str:
    """The end of a sentence that tells what to use instead of a name of Paddle, or why there is nothing"""
    replacement, because = maps_to(full), why_absent(full)
    return f". Use {replacement}." if replacement is not None else f": {because}." if because is not None else ""


def absence_hooks(module: str) -> dict[str, Any]:
    """What a module puts among its globals by ``update``: names that it refuses, reasons for those that it lacks, its ``dir``.

    By ``update``, since checkers that see a ``__getattr__`` take every name for one, and where a condition hides it from them,
    editors read all of typing to judge that. A module that is no package gets an empty ``__path__``: from such a one Python asks
    finders, so ``AbsentModules``, for a name that ``from module import name`` does not find.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        raise absent(module, name)

    names = vars(sys.modules[module])
    namespace = f"paddle{module.removeprefix('onnxgrad')}"
    hooks = {"__getattr__": __getattr__, "__path__": names.get("__path__", []), "__dir__": lambda: names["__all__"]}
    return {**hooks, **refusals(namespace, REFUSED.get(namespace, {}))}


class AbsentModules(MetaPathFinder):
    """Gives the import of what Paddle has and this package has not the reason, as ``absent`` does for attributes."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Nothing, so that the import fails as any does.

        Raises:
            ModuleNotFoundError: with the reason, or with what to use instead, where one is known.
        """
        if fullname.startswith("onnxgrad.") and (hint := _hint(f"paddle{fullname.removeprefix('onnxgrad')}")):
            raise ModuleNotFoundError(f"{fullname} is not offered{hint}")


class refused:  # noqa: N801
    """Stands where Paddle has a function or class; calling it raises NotOffered.

    Args:
        name: how it is called, with its namespace.
        because: the reason and, if there is any, the advice, without the last full stop.
    """

    def __init__(self, name: str, because: str) -> None:
        self.__name__ = name
        self.reason = f"{because}."
        self.__doc__ = f"Not offered: {self.reason}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse.

        Raises:
            NotOffered: always, with the reason.
        """
        raise NotOffered(f"{self.__name__} is not offered: {self.reason}")

    def __repr__(self) -> str:
        return f"<{self.__name__}: not offered>"


def refusals(namespace: str, reasons: dict[str, str]) -> dict[str, refused]:
    """Refused functions of a namespace by name."""
    return {name: refused(f"{namespace}.{name}", reason) for name, reason in reasons.items()}
