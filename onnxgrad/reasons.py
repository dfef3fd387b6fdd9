"""What stands for the names that are not where Paddle has them: another name, or a reason."""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["absent", "maps_to", "reason"]

# Patterns over full names; the first that fits holds.
_MAPS = {
    "paddle.fluid.dygraph": "paddle.autograd and eager tensors",
    "paddle.fluid.layers.range": "paddle.arange",
    "paddle.fluid.layers.where": "paddle.nonzero",
    "paddle.fluid.layers.image_resize": "paddle.nn.functional.interpolate",
    "paddle.fluid.layers.resize_*": "paddle.nn.functional.interpolate",
    "paddle.fluid.layers.pad2d": "paddle.nn.functional.pad",
    "paddle.fluid.layers.shuffle_channel": "paddle.nn.functional.channel_shuffle",
    "paddle.fluid.layers.hard_sigmoid": "paddle.nn.functional.hardsigmoid",
    "paddle.fluid.layers.hard_swish": "paddle.nn.functional.hardswish",
    "paddle.fluid.layers.maxout": "paddle.nn.functional.maxout",
    "paddle.fluid.layers.selu": "paddle.nn.functional.selu",
    "paddle.fluid.layers.reduce_all": "paddle.all",
    "paddle.fluid.layers.reduce_any": "paddle.any",
    "paddle.fluid.layers.reverse": "paddle.flip",
    "paddle.fluid.layers.size": "paddle.numel",
    "paddle.fluid.core": "CPUPlace and CUDAPlace of paddle.fluid",
    "paddle.fluid.ParallelExecutor": "paddle.static.CompiledProgram",
    "paddle.fluid.require_version": "nothing; leave the call out",
    "paddle.fluid.metrics": "paddle.static.accuracy and paddle.static.auc",
    "paddle.fluid.layers.acos": "paddle.acos",
    "paddle.fluid.layers.argsort": "paddle.argsort",
    "paddle.fluid.layers.asin": "paddle.asin",
    "paddle.fluid.layers.atan": "paddle.atan",
    "paddle.fluid.layers.expand_as": "paddle.expand_as",
    "paddle.fluid.layers.eye": "paddle.eye",
    "paddle.fluid.layers.gather_nd": "paddle.gather_nd",
    "paddle.fluid.layers.linspace": "paddle.linspace",
    "paddle.fluid.layers.ones_like": "paddle.ones_like",
    "paddle.fluid.layers.rank": "paddle.rank",
    "paddle.fluid.layers.scatter": "paddle.scatter",
    "paddle.fluid.layers.strided_slice": "paddle.strided_slice",
    "paddle.fluid.layers.zeros_like": "paddle.zeros_like",
    "paddle.CUDAPinnedPlace": "paddle.CPUPlace",
    "paddle.version": "onnxgrad.__version__",
    "paddle.static.Variable.type": "Variable.dtype and Variable.shape",
    "paddle.static.Variable.to_string": "repr(variable)",
}

_IN_PLACE = "values are never overwritten; use the function without the underscore"
_COMPLEX = "onnxruntime does not compute with complex numbers"
_DECOMPOSITION = "ONNX has no operator for this decomposition"
_OUTSIDE = "it is a package of its own, beside what a model is made of"
_HOST = "it concerns Paddle's own runtime; here onnxruntime runs programs"
_MEMORY = "it accesses the memory of a tensor, which belongs to onnxruntime"
_SHAPE = "the size of its result depends on values"
_SPECIAL = "ONNX has no operator for this special function"
_LOD = "ONNX tensors have no levels of detail (LoD)"
_DISTRIBUTED = "it belongs to Paddle's distributed training"
_SEARCH = "it searches step by step, for which ONNX has no operator"

_REASONS: list[tuple[str, str]] = [
    ("paddle.nn.dynamic_decode", _SEARCH),
    ("paddle.nn.BeamSearchDecoder", _SEARCH),
    ("paddle.nn.RNNTLoss", _SEARCH),
    ("paddle.nn.HSigmoidLoss", "each sample takes another path through a tree; use CrossEntropyLoss"),
    ("paddle.nn.AdaptiveLogSoftmaxWithLoss", "each sample takes another branch; use CrossEntropyLoss"),
    ("paddle.nn.FractionalMaxPool*", "its windows are sampled anew in every run; use AdaptiveMaxPool"),
    ("paddle.static.amp.debugging", _HOST),
    ("paddle.amp.debugging", _HOST),
    ("paddle.static.quantization", "quantise the exported ONNX model with onnxruntime's tools"),
    ("paddle.*.[a-z]*_", _IN_PLACE),
    ("paddle.[a-z]*_", _IN_PLACE),
    ("paddle.fft.*freq", "it is a constant: use numpy.fft and paddle.assign"),
    ("paddle.fft.*", _COMPLEX),
    ("paddle.as_complex", _COMPLEX),
    ("paddle.as_real", _COMPLEX),
    ("paddle.complex*", _COMPLEX),
    ("paddle.conj", _COMPLEX),
    ("paddle.Tensor.conj", _COMPLEX),
    ("paddle.imag", _COMPLEX),
    ("paddle.real", _COMPLEX),
    ("paddle.angle", _COMPLEX),
    ("paddle.polar", _COMPLEX),
    ("paddle.isreal", _COMPLEX),
    ("paddle.linalg.cond", _DECOMPOSITION),
    ("paddle.linalg.eig*", _DECOMPOSITION),
    ("paddle.linalg.householder_product", _DECOMPOSITION),
    ("paddle.linalg.lstsq", _DECOMPOSITION),
    ("paddle.linalg.lu*", _DECOMPOSITION),
    ("paddle.linalg.matrix_exp", _DECOMPOSITION),
    ("paddle.linalg.matrix_rank", _DECOMPOSITION),
    ("paddle.linalg.ormqr", _DECOMPOSITION),
    ("paddle.linalg.pca_lowrank", _DECOMPOSITION),
    ("paddle.linalg.pinv", _DECOMPOSITION),
    ("paddle.linalg.qr", _DECOMPOSITION),
    ("paddle.linalg.svd*", _DECOMPOSITION),
    ("paddle.as_strided", _MEMORY),
    ("paddle.from_dlpack", _MEMORY),
    ("paddle.to_dlpack", _MEMORY),
    ("paddle.Tensor.get_tensor", _MEMORY),
    ("paddle.Tensor.inplace_version", _MEMORY),
    ("paddle.Tensor.value", _MEMORY),
    ("paddle.Tensor.pin_memory", _MEMORY),
    ("paddle.batch", _HOST),
    ("paddle.disable_signal_handler", _HOST),
    ("paddle.flops", _HOST),
    ("paddle.summary", _HOST),
    ("paddle.*_flags", _HOST),
    ("paddle.*rng_state", _HOST),
    ("paddle.LazyGuard", _HOST),
    ("paddle.Model", "it is a training loop; use onnxgrad.training.Trainer"),
    ("paddle.fluid.memory_optimize", _HOST),
    ("paddle.fluid.release_memory", _HOST),
    ("paddle.fluid.cuda_pinned_places", _HOST),
    ("paddle.fluid.create_lod_tensor", _LOD),
    ("paddle.fluid.LoDTensor", _LOD),
    ("paddle.fluid.layers.edit_distance", _SEARCH),
    ("paddle.fluid.layers.crf_decoding", _SEARCH),
    ("paddle.fluid.layers.linear_chain_crf", _SEARCH),
    ("paddle.nn.functional.rnnt_loss", _SEARCH),
    ("paddle.nn.functional.gather_tree", _SEARCH),
    ("paddle.nn.functional.hsigmoid_loss", _SEARCH),
    ("paddle.nn.functional.class_center_sample", _DISTRIBUTED),
    ("paddle.nn.functional.margin_cross_entropy", _DISTRIBUTED),
    ("paddle.nn.functional.sparse_attention", "ONNX has no sparse tensors that onnxruntime computes with"),
    ("paddle.i0*", _SPECIAL),
    ("paddle.i1*", _SPECIAL),
    ("paddle.gammainc*", _SPECIAL),
    ("paddle.polygamma", _SPECIAL),
    ("paddle.frexp", _SPECIAL),
    ("paddle.nextafter", _SPECIAL),
    ("paddle.standard_gamma", "ONNX has no operator that samples this distribution"),
    ("paddle.poisson", "ONNX has no operator that samples this distribution"),
    ("paddle.binomial", "ONNX has no operator that samples this distribution"),
    ("paddle.combinations", _SHAPE),
]

# Modules of Paddle whose names are not listed one by one.
_MODULES = {
    "callbacks": "they belong to paddle.Model; use onnxgrad.training.Trainer",
    "hapi": "it is a training loop; use onnxgrad.training.Trainer",
    "vision": _OUTSIDE,
    "text": _OUTSIDE,
    "audio": _OUTSIDE,
    "hub": _OUTSIDE,
    "profiler": "onnxruntime has a profiler: SessionOptions.enable_profiling",
    "inference": "onnxruntime is the inference engine; use save_onnx",
    "sparse": "ONNX has no sparse tensors that onnxruntime computes with",
    "geometric": _OUTSIDE,
    "quantization": "quantise the exported ONNX model with onnxruntime's tools",
    "strings": _OUTSIDE,
    "dataset": _OUTSIDE,
    "reader": _OUTSIDE,
}


def maps_to(name: str) -> str | None:
    """What to use instead of ``name``."""
    return next((target for pattern, target in _MAPS.items() if fnmatchcase(name, pattern)), None)


def reason(name: str) -> str | None:
    """Why ``name`` is refused."""
    return next((because for pattern, because in _REASONS if fnmatchcase(name, pattern)), None)


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have, with what to use instead or the reason where Paddle has it."""
    full = f"paddle{module.removeprefix('onnxgrad')}.{name}"
    said = maps_to(full)
    because = reason(full) or _MODULES.get(full.split(".")[1])
    more = f". Use {said}." if said is not None else f": {because}." if because is not None else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{more}", name=name)
