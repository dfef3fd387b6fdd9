"""The functions of this package by the module that defines them, so that it is imported when one of them is first used.

Written by `scripts/write_tensor_stubs` from the lists of the modules; do not edit.
"""

HOMES: dict[str, tuple[str, ...]] = {
    "creation": (
        "arange", "assign", "block_diag", "cartesian_prod", "clone", "combinations", "diag", "diag_embed", "diagflat", "diagonal",
        "diagonal_scatter", "empty", "empty_like", "eye", "full", "full_like", "linspace", "logspace", "meshgrid", "ones",
        "ones_like", "trace", "tril", "tril_indices", "triu", "triu_indices", "vander", "zeros", "zeros_like",
    ),
    "elementwise": (
        "add", "add_n", "atan2", "copysign", "divide", "floor_divide", "floor_mod", "fmax", "fmin", "gcd", "heaviside", "hypot",
        "lcm", "ldexp", "lerp", "logaddexp", "maximum", "minimum", "mod", "multiplex", "multiply", "pow", "remainder", "subtract",
    ),
    "indexing": (
        "gather", "gather_nd", "index_add", "index_fill", "index_put", "index_sample", "index_select", "masked_fill",
        "masked_scatter", "masked_select", "put_along_axis", "scatter", "scatter_nd", "scatter_nd_add", "select_scatter",
        "shard_index", "slice_scatter", "take", "take_along_axis",
    ),
    "inplace": (
        "bernoulli_", "cauchy_", "exponential_", "fill_", "fill_diagonal_", "fill_diagonal_tensor", "fill_diagonal_tensor_",
        "geometric_", "log_normal_", "normal_", "uniform_", "where_", "zero_", "abs_", "acos_", "acosh_", "asin_", "asinh_",
        "atan_", "atanh_", "ceil_", "clip_", "cos_", "cosh_", "erf_", "exp_", "expm1_", "floor_", "frac_", "increment_", "log_",
        "log10_", "log1p_", "log2_", "logit_", "nan_to_num_", "neg_", "reciprocal_", "round_", "rsqrt_", "scale_", "sigmoid_",
        "sin_", "sinc_", "sinh_", "sqrt_", "square_", "stanh_", "tan_", "tanh_", "trunc_", "add_", "atan2_", "copysign_",
        "divide_", "floor_divide_", "floor_mod_", "gcd_", "hypot_", "lcm_", "ldexp_", "lerp_", "mod_", "multiply_", "pow_",
        "remainder_", "subtract_", "digamma_", "erfinv_", "gammaln_", "lgamma_", "multigammaln_", "polygamma_", "cumprod_",
        "cumsum_", "tril_", "triu_", "addmm_", "baddbmm_", "renorm_", "bitwise_and_", "bitwise_invert_", "bitwise_left_shift_",
        "bitwise_not_", "bitwise_or_", "bitwise_right_shift_", "bitwise_xor_", "equal_", "greater_equal_", "greater_than_",
        "less_", "less_equal_", "less_than_", "logical_and_", "logical_not_", "logical_or_", "logical_xor_", "not_equal_",
        "cast_", "flatten_", "reshape_", "squeeze_", "t_", "transpose_", "unsqueeze_", "index_add_", "index_fill_", "index_put_",
        "masked_fill_", "masked_scatter_", "put_along_axis_", "scatter_", "clamp_", "div_", "mul_", "scatter_add_", "sub_",
    ),
    "joining": (
        "chunk", "column_stack", "concat", "crop", "dsplit", "dstack", "hsplit", "hstack", "row_stack", "slice", "split", "stack",
        "strided_slice", "tensor_split", "unbind", "unstack", "vsplit", "vstack",
    ),
    "linalg": (
        "addmm", "baddbmm", "bmm", "cdist", "corrcoef", "cov", "cross", "dist", "dot", "einsum", "inner", "kron", "matmul",
        "matrix_norm", "matrix_transpose", "mm", "multi_dot", "mv", "norm", "outer", "pdist", "renorm", "tensordot", "vecdot",
        "vector_norm",
    ),
    "logic": (
        "allclose", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
        "bitwise_xor", "equal", "equal_all", "greater_equal", "greater_than", "is_complex", "is_empty", "is_floating_point",
        "is_integer", "is_tensor", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "less",
        "less_equal", "less_than", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
    ),
    "manipulation": (
        "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shape", "broadcast_tensors", "broadcast_to", "cast", "expand",
        "expand_as", "flatten", "flip", "moveaxis", "numel", "permute", "rank", "ravel", "repeat_interleave", "reshape",
        "reverse", "roll", "rot90", "shape", "squeeze", "swapaxes", "t", "tile", "transpose", "unflatten", "unfold", "unsqueeze",
        "view", "view_as",
    ),
    "math": (
        "abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "clip", "conj", "cos", "cosh", "deg2rad",
        "erf", "exp", "expm1", "floor", "frac", "increment", "log", "log1p", "log2", "log10", "logit", "nan_to_num", "neg",
        "negative", "positive", "rad2deg", "real", "reciprocal", "round", "rsqrt", "scale", "sgn", "sigmoid", "sign", "signbit",
        "sin", "sinc", "sinh", "sqrt", "square", "stanh", "tan", "tanh", "trunc",
    ),
    "random": (
        "bernoulli", "binomial", "gaussian", "log_normal", "multinomial", "normal", "rand", "randint", "randint_like", "randn",
        "randperm", "shuffle", "standard_normal", "uniform",
    ),
    "reduction": (
        "all", "amax", "amin", "any", "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp",
        "logsumexp", "max", "mean", "min", "nanmean", "nansum", "prod", "reduce_as", "sum",
    ),
    "search": (
        "argmax", "argmin", "argsort", "bucketize", "kthvalue", "mode", "nonzero", "searchsorted", "sort", "topk", "unique",
        "unique_consecutive", "where",
    ),
    "solvers": (
        "cholesky", "cholesky_inverse", "cholesky_solve", "det", "householder_product", "inv", "inverse", "matrix_power", "qr",
        "slogdet", "solve", "triangular_solve",
    ),
    "special": (
        "digamma", "erfinv", "gammaln", "lgamma", "multigammaln", "polygamma",
    ),
    "spellings": (
        "argwhere", "broadcast_shapes", "cat", "clamp", "concatenate", "div", "eq", "ge", "ger", "greater", "gt", "le", "lt",
        "msort", "mul", "narrow", "ne", "new_empty", "new_full", "new_ones", "new_zeros", "rand_like", "randn_like", "range",
        "repeat", "scatter_add", "scatter_reduce", "softmax", "split_with_sizes", "sub", "swapdims", "take_along_dim",
        "true_divide", "type_as",
    ),
    "stat": (
        "bincount", "cumulative_trapezoid", "histogram", "median", "nanmedian", "nanquantile", "quantile", "std", "trapezoid",
        "var",
    ),
    "types": (
        "finfo", "get_default_dtype", "iinfo", "set_default_dtype", "set_printoptions",
    ),
}  # fmt: skip
