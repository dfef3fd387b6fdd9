"""Functions that Paddle has and ONNX cannot express, each with the reason; calling one raises ``NotOffered``."""

from __future__ import annotations

__all__ = ["FFT", "LINALG", "TENSOR"]

_COMPLEX = "stock runtimes compute no complex numbers; keep real and imaginary part as two tensors"
_ITERATIVE = "it takes an iteration that no ONNX operator offers; compute it outside and feed it"
_BITS = "it takes floating-point numbers apart into bits"
_SERIES = "no ONNX operator computes it, and no series for it is written"

TENSOR: dict[str, str] = {
    **dict.fromkeys(("as_complex", "as_real", "complex", "imag", "polar", "view_as_complex", "view_as_real"), _COMPLEX),
    **dict.fromkeys(("frexp", "nextafter"), _BITS),
    **dict.fromkeys(("gammainc", "gammainc_", "gammaincc", "gammaincc_", "i0", "i0_", "i0e", "i1", "i1e"), _SERIES),
    **dict.fromkeys(("lu", "lu_unpack", "pinv", "matrix_rank", "eigvals", "svd", "eig", "eigh", "lstsq"), _ITERATIVE),
    "as_strided": "it depends on how elements lie in memory; use reshape, transpose and slices",
    "histogram_bin_edges": "use linspace between the two bounds",
    "histogramdd": "use histogram for each dimension, or searchsorted and bincount",
    "poisson": "no ONNX operator samples Poisson numbers; sample them outside and feed them",
    "standard_gamma": "no ONNX operator samples gamma numbers; sample them outside and feed them",
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), "onnxruntime computes nothing in it; use QuantizeLinear in a file"),
    "top_p_sampling": "compose it from sort, cumsum and multinomial",
    "tolist": "a program's variable has no value before it runs; fetch it with Executor.run",
}
LINALG: dict[str, str] = {
    **dict.fromkeys(
        (
            "cond", "eig", "eigh", "eigvals", "eigvalsh", "lstsq", "lu", "lu_solve", "lu_unpack", "matrix_exp", "matrix_rank",
            "ormqr", "pca_lowrank", "pinv", "svd", "svd_lowrank", "svdvals",
        ),
        _ITERATIVE,
    ),
    "fp8_fp8_half_gemm_fused": "it names one vendor's kernel; use matmul",
}  # fmt: skip
FFT: dict[str, str] = dict.fromkeys(
    (
        "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2",
        "irfftn", "rfft", "rfft2", "rfftn",
    ),
    _COMPLEX,
)  # fmt: skip
