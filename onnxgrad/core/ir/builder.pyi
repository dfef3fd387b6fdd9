"""Types of the operator builder: its own members, and a method for each operator of opset 26.

Written by `scripts/write_builder_stub` from builder.py and onnx's declarations; do not edit.
An operator with one output returns it; `emit` can name it. With several, a count of 1 returns a variable, other counts and
names return a tuple.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.origin import Origin
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import Type
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType

__all__ = ["Builder", "Operand"]
Operand: TypeAlias = Variable | np.ndarray[Any, Any] | np.generic | float | str | list[Any] | tuple[Any, ...] | None

class Builder:
    block: Block
    stage: list[Operator] | None
    role: Role
    key: str
    simplify: bool
    origin: Origin | None

    def __init__(
        self,
        block: Block,
        stage: list[Operator] | None = None,
        role: Role = Role.FORWARD,
        key: str = "",
        origin: Origin | None = None,
    ) -> None: ...
    @overload
    def emit(
        self, op_type: str, args: Sequence[Any], kwargs: dict[str, Any], outputs: Literal[1] = 1, key: str = "", domain: str = ""
    ) -> Variable: ...
    @overload
    def emit(
        self,
        op_type: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: Literal[2, 3, 4] | Sequence[str],
        key: str = "",
        domain: str = "",
    ) -> tuple[Variable, ...]: ...
    @overload
    def emit(
        self,
        op_type: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: int | Sequence[str] = 1,
        key: str = "",
        domain: str = "",
    ) -> Variable | tuple[Variable, ...]: ...
    def constant(self, value: Any, dtype: DType | None = None) -> Variable: ...
    def Abs(self, X: Operand) -> Variable: ...
    def Acos(self, input: Operand) -> Variable: ...
    def Acosh(self, input: Operand) -> Variable: ...
    def Add(self, A: Operand, B: Operand) -> Variable: ...
    def AffineGrid(self, theta: Operand, size: Operand, *, align_corners: int | None = None) -> Variable: ...
    def And(self, A: Operand, B: Operand) -> Variable: ...
    def ArgMax(
        self, data: Operand, *, axis: int | None = None, keepdims: int | None = None, select_last_index: int | None = None
    ) -> Variable: ...
    def ArgMin(
        self, data: Operand, *, axis: int | None = None, keepdims: int | None = None, select_last_index: int | None = None
    ) -> Variable: ...
    def Asin(self, input: Operand) -> Variable: ...
    def Asinh(self, input: Operand) -> Variable: ...
    def Atan(self, input: Operand) -> Variable: ...
    def Atanh(self, input: Operand) -> Variable: ...
    @overload
    def Attention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        attn_mask: Operand = None,
        past_key: Operand = None,
        past_value: Operand = None,
        nonpad_kv_seqlen: Operand = None,
        *,
        is_causal: int | None = None,
        kv_num_heads: int | None = None,
        left_window_size: int | None = None,
        q_num_heads: int | None = None,
        qk_matmul_output_mode: int | None = None,
        right_window_size: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        softmax_precision: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def Attention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        attn_mask: Operand = None,
        past_key: Operand = None,
        past_value: Operand = None,
        nonpad_kv_seqlen: Operand = None,
        *,
        outputs: Literal[2],
        is_causal: int | None = None,
        kv_num_heads: int | None = None,
        left_window_size: int | None = None,
        q_num_heads: int | None = None,
        qk_matmul_output_mode: int | None = None,
        right_window_size: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        softmax_precision: int | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def Attention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        attn_mask: Operand = None,
        past_key: Operand = None,
        past_value: Operand = None,
        nonpad_kv_seqlen: Operand = None,
        *,
        outputs: Literal[3],
        is_causal: int | None = None,
        kv_num_heads: int | None = None,
        left_window_size: int | None = None,
        q_num_heads: int | None = None,
        qk_matmul_output_mode: int | None = None,
        right_window_size: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        softmax_precision: int | None = None,
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def Attention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        attn_mask: Operand = None,
        past_key: Operand = None,
        past_value: Operand = None,
        nonpad_kv_seqlen: Operand = None,
        *,
        outputs: Literal[4],
        is_causal: int | None = None,
        kv_num_heads: int | None = None,
        left_window_size: int | None = None,
        q_num_heads: int | None = None,
        qk_matmul_output_mode: int | None = None,
        right_window_size: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        softmax_precision: int | None = None,
    ) -> tuple[Variable, Variable, Variable, Variable]: ...
    @overload
    def Attention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        attn_mask: Operand = None,
        past_key: Operand = None,
        past_value: Operand = None,
        nonpad_kv_seqlen: Operand = None,
        *,
        outputs: Sequence[str],
        is_causal: int | None = None,
        kv_num_heads: int | None = None,
        left_window_size: int | None = None,
        q_num_heads: int | None = None,
        qk_matmul_output_mode: int | None = None,
        right_window_size: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        softmax_precision: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def Attention(
        self,
        Q: Operand,
        K: Operand,
        V: Operand,
        attn_mask: Operand = None,
        past_key: Operand = None,
        past_value: Operand = None,
        nonpad_kv_seqlen: Operand = None,
        *,
        outputs: int,
        is_causal: int | None = None,
        kv_num_heads: int | None = None,
        left_window_size: int | None = None,
        q_num_heads: int | None = None,
        qk_matmul_output_mode: int | None = None,
        right_window_size: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        softmax_precision: int | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def AveragePool(
        self,
        X: Operand,
        *,
        kernel_shape: Sequence[int],
        auto_pad: str | None = None,
        ceil_mode: int | None = None,
        count_include_pad: int | None = None,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    @overload
    def BatchNormalization(
        self,
        X: Operand,
        scale: Operand,
        B: Operand,
        input_mean: Operand,
        input_var: Operand,
        *,
        epsilon: float | None = None,
        momentum: float | None = None,
        training_mode: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def BatchNormalization(
        self,
        X: Operand,
        scale: Operand,
        B: Operand,
        input_mean: Operand,
        input_var: Operand,
        *,
        outputs: Literal[2],
        epsilon: float | None = None,
        momentum: float | None = None,
        training_mode: int | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def BatchNormalization(
        self,
        X: Operand,
        scale: Operand,
        B: Operand,
        input_mean: Operand,
        input_var: Operand,
        *,
        outputs: Literal[3],
        epsilon: float | None = None,
        momentum: float | None = None,
        training_mode: int | None = None,
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def BatchNormalization(
        self,
        X: Operand,
        scale: Operand,
        B: Operand,
        input_mean: Operand,
        input_var: Operand,
        *,
        outputs: Sequence[str],
        epsilon: float | None = None,
        momentum: float | None = None,
        training_mode: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def BatchNormalization(
        self,
        X: Operand,
        scale: Operand,
        B: Operand,
        input_mean: Operand,
        input_var: Operand,
        *,
        outputs: int,
        epsilon: float | None = None,
        momentum: float | None = None,
        training_mode: int | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def Bernoulli(self, input: Operand, *, dtype: int | None = None, seed: float | None = None) -> Variable: ...
    def BitCast(self, input: Operand, *, to: int) -> Variable: ...
    def BitShift(self, X: Operand, Y: Operand, *, direction: str) -> Variable: ...
    def BitwiseAnd(self, A: Operand, B: Operand) -> Variable: ...
    def BitwiseNot(self, X: Operand) -> Variable: ...
    def BitwiseOr(self, A: Operand, B: Operand) -> Variable: ...
    def BitwiseXor(self, A: Operand, B: Operand) -> Variable: ...
    def BlackmanWindow(self, size: Operand, *, output_datatype: int | None = None, periodic: int | None = None) -> Variable: ...
    def Cast(self, input: Operand, *, to: int, round_mode: str | None = None, saturate: int | None = None) -> Variable: ...
    def CastLike(
        self, input: Operand, target_type: Operand, *, round_mode: str | None = None, saturate: int | None = None
    ) -> Variable: ...
    def Ceil(self, X: Operand) -> Variable: ...
    def Celu(self, X: Operand, *, alpha: float | None = None) -> Variable: ...
    def CenterCropPad(self, input_data: Operand, shape: Operand, *, axes: Sequence[int] | None = None) -> Variable: ...
    def Clip(self, input: Operand, min: Operand = None, max: Operand = None) -> Variable: ...
    def Col2Im(
        self,
        input: Operand,
        image_shape: Operand,
        block_shape: Operand,
        *,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def Compress(self, input: Operand, condition: Operand, *, axis: int | None = None) -> Variable: ...
    def Concat(self, *inputs: Operand, axis: int) -> Variable: ...
    def ConcatFromSequence(self, input_sequence: Operand, *, axis: int, new_axis: int | None = None) -> Variable: ...
    def Constant(
        self,
        *,
        sparse_value: Any | None = None,
        value: TensorValue | np.ndarray[Any, Any] | None = None,
        value_float: float | None = None,
        value_floats: Sequence[float] | None = None,
        value_int: int | None = None,
        value_ints: Sequence[int] | None = None,
        value_string: str | None = None,
        value_strings: Sequence[str] | None = None,
    ) -> Variable: ...
    def ConstantOfShape(self, input: Operand, *, value: TensorValue | np.ndarray[Any, Any] | None = None) -> Variable: ...
    def Conv(
        self,
        X: Operand,
        W: Operand,
        B: Operand = None,
        *,
        auto_pad: str | None = None,
        dilations: Sequence[int] | None = None,
        group: int | None = None,
        kernel_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def ConvInteger(
        self,
        x: Operand,
        w: Operand,
        x_zero_point: Operand = None,
        w_zero_point: Operand = None,
        *,
        auto_pad: str | None = None,
        dilations: Sequence[int] | None = None,
        group: int | None = None,
        kernel_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def ConvTranspose(
        self,
        X: Operand,
        W: Operand,
        B: Operand = None,
        *,
        auto_pad: str | None = None,
        dilations: Sequence[int] | None = None,
        group: int | None = None,
        kernel_shape: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def Cos(self, input: Operand) -> Variable: ...
    def Cosh(self, input: Operand) -> Variable: ...
    def CumProd(self, x: Operand, axis: Operand, *, exclusive: int | None = None, reverse: int | None = None) -> Variable: ...
    def CumSum(self, x: Operand, axis: Operand, *, exclusive: int | None = None, reverse: int | None = None) -> Variable: ...
    def DFT(
        self,
        input: Operand,
        dft_length: Operand = None,
        axis: Operand = None,
        *,
        inverse: int | None = None,
        onesided: int | None = None,
    ) -> Variable: ...
    def DeformConv(
        self,
        X: Operand,
        W: Operand,
        offset: Operand,
        B: Operand = None,
        mask: Operand = None,
        *,
        dilations: Sequence[int] | None = None,
        group: int | None = None,
        kernel_shape: Sequence[int] | None = None,
        offset_group: int | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def DepthToSpace(self, input: Operand, *, blocksize: int, mode: str | None = None) -> Variable: ...
    def DequantizeLinear(
        self,
        x: Operand,
        x_scale: Operand,
        x_zero_point: Operand = None,
        *,
        axis: int | None = None,
        block_size: int | None = None,
        output_dtype: int | None = None,
    ) -> Variable: ...
    def Det(self, X: Operand) -> Variable: ...
    def Div(self, A: Operand, B: Operand) -> Variable: ...
    @overload
    def Dropout(
        self,
        data: Operand,
        ratio: Operand = None,
        training_mode: Operand = None,
        *,
        seed: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def Dropout(
        self, data: Operand, ratio: Operand = None, training_mode: Operand = None, *, outputs: Literal[2], seed: int | None = None
    ) -> tuple[Variable, Variable]: ...
    @overload
    def Dropout(
        self,
        data: Operand,
        ratio: Operand = None,
        training_mode: Operand = None,
        *,
        outputs: Sequence[str],
        seed: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def Dropout(
        self, data: Operand, ratio: Operand = None, training_mode: Operand = None, *, outputs: int, seed: int | None = None
    ) -> Variable | tuple[Variable, ...]: ...
    @overload
    def DynamicQuantizeLinear(self, x: Operand, *, outputs: Literal[1] = 1) -> Variable: ...
    @overload
    def DynamicQuantizeLinear(self, x: Operand, *, outputs: Literal[2]) -> tuple[Variable, Variable]: ...
    @overload
    def DynamicQuantizeLinear(self, x: Operand, *, outputs: Literal[3]) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def DynamicQuantizeLinear(self, x: Operand, *, outputs: Sequence[str]) -> tuple[Variable, ...]: ...
    @overload
    def DynamicQuantizeLinear(self, x: Operand, *, outputs: int) -> Variable | tuple[Variable, ...]: ...
    def Einsum(self, *Inputs: Operand, equation: str) -> Variable: ...
    def Elu(self, X: Operand, *, alpha: float | None = None) -> Variable: ...
    def Equal(self, A: Operand, B: Operand) -> Variable: ...
    def Erf(self, input: Operand) -> Variable: ...
    def Exp(self, input: Operand) -> Variable: ...
    def Expand(self, input: Operand, shape: Operand) -> Variable: ...
    def EyeLike(self, input: Operand, *, dtype: int | None = None, k: int | None = None) -> Variable: ...
    def Flatten(self, input: Operand, *, axis: int | None = None) -> Variable: ...
    def Floor(self, X: Operand) -> Variable: ...
    @overload
    def GRU(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
        linear_before_reset: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def GRU(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        outputs: Literal[2],
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
        linear_before_reset: int | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def GRU(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        outputs: Sequence[str],
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
        linear_before_reset: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def GRU(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        outputs: int,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
        linear_before_reset: int | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def Gather(self, data: Operand, indices: Operand, *, axis: int | None = None) -> Variable: ...
    def GatherElements(self, data: Operand, indices: Operand, *, axis: int | None = None) -> Variable: ...
    def GatherND(self, data: Operand, indices: Operand, *, batch_dims: int | None = None) -> Variable: ...
    def Gelu(self, X: Operand, *, approximate: str | None = None) -> Variable: ...
    def Gemm(
        self,
        A: Operand,
        B: Operand,
        C: Operand = None,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        transA: int | None = None,
        transB: int | None = None,
    ) -> Variable: ...
    def GlobalAveragePool(self, X: Operand) -> Variable: ...
    def GlobalLpPool(self, X: Operand, *, p: int | None = None) -> Variable: ...
    def GlobalMaxPool(self, X: Operand) -> Variable: ...
    def Greater(self, A: Operand, B: Operand) -> Variable: ...
    def GreaterOrEqual(self, A: Operand, B: Operand) -> Variable: ...
    def GridSample(
        self,
        X: Operand,
        grid: Operand,
        *,
        align_corners: int | None = None,
        mode: str | None = None,
        padding_mode: str | None = None,
    ) -> Variable: ...
    def GroupNormalization(
        self,
        X: Operand,
        scale: Operand,
        bias: Operand,
        *,
        num_groups: int,
        epsilon: float | None = None,
        stash_type: int | None = None,
    ) -> Variable: ...
    def HammingWindow(self, size: Operand, *, output_datatype: int | None = None, periodic: int | None = None) -> Variable: ...
    def HannWindow(self, size: Operand, *, output_datatype: int | None = None, periodic: int | None = None) -> Variable: ...
    def HardSigmoid(self, X: Operand, *, alpha: float | None = None, beta: float | None = None) -> Variable: ...
    def HardSwish(self, X: Operand) -> Variable: ...
    def Hardmax(self, input: Operand, *, axis: int | None = None) -> Variable: ...
    def Identity(self, input: Operand) -> Variable: ...
    @overload
    def If(self, cond: Operand, *, else_branch: Block, then_branch: Block, outputs: Literal[1] = 1) -> Variable: ...
    @overload
    def If(self, cond: Operand, *, else_branch: Block, then_branch: Block, outputs: Literal[2]) -> tuple[Variable, Variable]: ...
    @overload
    def If(
        self, cond: Operand, *, else_branch: Block, then_branch: Block, outputs: Literal[3]
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def If(
        self, cond: Operand, *, else_branch: Block, then_branch: Block, outputs: Literal[4]
    ) -> tuple[Variable, Variable, Variable, Variable]: ...
    @overload
    def If(self, cond: Operand, *, else_branch: Block, then_branch: Block, outputs: Sequence[str]) -> tuple[Variable, ...]: ...
    @overload
    def If(self, cond: Operand, *, else_branch: Block, then_branch: Block, outputs: int) -> Variable | tuple[Variable, ...]: ...
    def ImageDecoder(self, encoded_stream: Operand, *, pixel_format: str | None = None) -> Variable: ...
    def InstanceNormalization(self, input: Operand, scale: Operand, B: Operand, *, epsilon: float | None = None) -> Variable: ...
    def IsInf(self, X: Operand, *, detect_negative: int | None = None, detect_positive: int | None = None) -> Variable: ...
    def IsNaN(self, X: Operand) -> Variable: ...
    def LRN(
        self, X: Operand, *, size: int, alpha: float | None = None, beta: float | None = None, bias: float | None = None
    ) -> Variable: ...
    @overload
    def LSTM(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        initial_c: Operand = None,
        P: Operand = None,
        *,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        input_forget: int | None = None,
        layout: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def LSTM(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        initial_c: Operand = None,
        P: Operand = None,
        *,
        outputs: Literal[2],
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        input_forget: int | None = None,
        layout: int | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def LSTM(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        initial_c: Operand = None,
        P: Operand = None,
        *,
        outputs: Literal[3],
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        input_forget: int | None = None,
        layout: int | None = None,
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def LSTM(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        initial_c: Operand = None,
        P: Operand = None,
        *,
        outputs: Sequence[str],
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        input_forget: int | None = None,
        layout: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def LSTM(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        initial_c: Operand = None,
        P: Operand = None,
        *,
        outputs: int,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        input_forget: int | None = None,
        layout: int | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    @overload
    def LayerNormalization(
        self,
        X: Operand,
        Scale: Operand,
        B: Operand = None,
        *,
        axis: int | None = None,
        epsilon: float | None = None,
        stash_type: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def LayerNormalization(
        self,
        X: Operand,
        Scale: Operand,
        B: Operand = None,
        *,
        outputs: Literal[2],
        axis: int | None = None,
        epsilon: float | None = None,
        stash_type: int | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def LayerNormalization(
        self,
        X: Operand,
        Scale: Operand,
        B: Operand = None,
        *,
        outputs: Literal[3],
        axis: int | None = None,
        epsilon: float | None = None,
        stash_type: int | None = None,
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def LayerNormalization(
        self,
        X: Operand,
        Scale: Operand,
        B: Operand = None,
        *,
        outputs: Sequence[str],
        axis: int | None = None,
        epsilon: float | None = None,
        stash_type: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def LayerNormalization(
        self,
        X: Operand,
        Scale: Operand,
        B: Operand = None,
        *,
        outputs: int,
        axis: int | None = None,
        epsilon: float | None = None,
        stash_type: int | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def LeakyRelu(self, X: Operand, *, alpha: float | None = None) -> Variable: ...
    def Less(self, A: Operand, B: Operand) -> Variable: ...
    def LessOrEqual(self, A: Operand, B: Operand) -> Variable: ...
    def Log(self, input: Operand) -> Variable: ...
    def LogSoftmax(self, input: Operand, *, axis: int | None = None) -> Variable: ...
    @overload
    def Loop(
        self, M: Operand = None, cond: Operand = None, *v_initial: Operand, body: Block, outputs: Literal[1] = 1
    ) -> Variable: ...
    @overload
    def Loop(
        self, M: Operand = None, cond: Operand = None, *v_initial: Operand, body: Block, outputs: Literal[2]
    ) -> tuple[Variable, Variable]: ...
    @overload
    def Loop(
        self, M: Operand = None, cond: Operand = None, *v_initial: Operand, body: Block, outputs: Literal[3]
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def Loop(
        self, M: Operand = None, cond: Operand = None, *v_initial: Operand, body: Block, outputs: Literal[4]
    ) -> tuple[Variable, Variable, Variable, Variable]: ...
    @overload
    def Loop(
        self, M: Operand = None, cond: Operand = None, *v_initial: Operand, body: Block, outputs: Sequence[str]
    ) -> tuple[Variable, ...]: ...
    @overload
    def Loop(
        self, M: Operand = None, cond: Operand = None, *v_initial: Operand, body: Block, outputs: int
    ) -> Variable | tuple[Variable, ...]: ...
    def LpNormalization(self, input: Operand, *, axis: int | None = None, p: int | None = None) -> Variable: ...
    def LpPool(
        self,
        X: Operand,
        *,
        kernel_shape: Sequence[int],
        auto_pad: str | None = None,
        ceil_mode: int | None = None,
        dilations: Sequence[int] | None = None,
        p: int | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def MatMul(self, A: Operand, B: Operand) -> Variable: ...
    def MatMulInteger(self, A: Operand, B: Operand, a_zero_point: Operand = None, b_zero_point: Operand = None) -> Variable: ...
    def Max(self, *data_0: Operand) -> Variable: ...
    @overload
    def MaxPool(
        self,
        X: Operand,
        *,
        kernel_shape: Sequence[int],
        auto_pad: str | None = None,
        ceil_mode: int | None = None,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        storage_order: int | None = None,
        strides: Sequence[int] | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def MaxPool(
        self,
        X: Operand,
        *,
        kernel_shape: Sequence[int],
        outputs: Literal[2],
        auto_pad: str | None = None,
        ceil_mode: int | None = None,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        storage_order: int | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def MaxPool(
        self,
        X: Operand,
        *,
        kernel_shape: Sequence[int],
        outputs: Sequence[str],
        auto_pad: str | None = None,
        ceil_mode: int | None = None,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        storage_order: int | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def MaxPool(
        self,
        X: Operand,
        *,
        kernel_shape: Sequence[int],
        outputs: int,
        auto_pad: str | None = None,
        ceil_mode: int | None = None,
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        storage_order: int | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def MaxRoiPool(
        self, X: Operand, rois: Operand, *, pooled_shape: Sequence[int], spatial_scale: float | None = None
    ) -> Variable: ...
    def MaxUnpool(
        self,
        X: Operand,
        I: Operand,
        output_shape: Operand = None,
        *,
        kernel_shape: Sequence[int],
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def Mean(self, *data_0: Operand) -> Variable: ...
    def MeanVarianceNormalization(self, X: Operand, *, axes: Sequence[int] | None = None) -> Variable: ...
    def MelWeightMatrix(
        self,
        num_mel_bins: Operand,
        dft_length: Operand,
        sample_rate: Operand,
        lower_edge_hertz: Operand,
        upper_edge_hertz: Operand,
        *,
        output_datatype: int | None = None,
    ) -> Variable: ...
    def Min(self, *data_0: Operand) -> Variable: ...
    def Mish(self, X: Operand) -> Variable: ...
    def Mod(self, A: Operand, B: Operand, *, fmod: int | None = None) -> Variable: ...
    def Mul(self, A: Operand, B: Operand) -> Variable: ...
    def Multinomial(
        self, input: Operand, *, dtype: int | None = None, sample_size: int | None = None, seed: float | None = None
    ) -> Variable: ...
    def Neg(self, X: Operand) -> Variable: ...
    def NegativeLogLikelihoodLoss(
        self,
        input: Operand,
        target: Operand,
        weight: Operand = None,
        *,
        ignore_index: int | None = None,
        reduction: str | None = None,
    ) -> Variable: ...
    def NonMaxSuppression(
        self,
        boxes: Operand,
        scores: Operand,
        max_output_boxes_per_class: Operand = None,
        iou_threshold: Operand = None,
        score_threshold: Operand = None,
        *,
        center_point_box: int | None = None,
    ) -> Variable: ...
    def NonZero(self, X: Operand) -> Variable: ...
    def Not(self, X: Operand) -> Variable: ...
    def OneHot(self, indices: Operand, depth: Operand, values: Operand, *, axis: int | None = None) -> Variable: ...
    def Optional(self, input: Operand = None, *, type: Type | None = None) -> Variable: ...
    def OptionalGetElement(self, input: Operand) -> Variable: ...
    def OptionalHasElement(self, input: Operand = None) -> Variable: ...
    def Or(self, A: Operand, B: Operand) -> Variable: ...
    def PRelu(self, X: Operand, slope: Operand) -> Variable: ...
    def Pad(
        self, data: Operand, pads: Operand, constant_value: Operand = None, axes: Operand = None, *, mode: str | None = None
    ) -> Variable: ...
    def Pow(self, X: Operand, Y: Operand) -> Variable: ...
    def QLinearConv(
        self,
        x: Operand,
        x_scale: Operand,
        x_zero_point: Operand,
        w: Operand,
        w_scale: Operand,
        w_zero_point: Operand,
        y_scale: Operand,
        y_zero_point: Operand,
        B: Operand = None,
        *,
        auto_pad: str | None = None,
        dilations: Sequence[int] | None = None,
        group: int | None = None,
        kernel_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Variable: ...
    def QLinearMatMul(
        self,
        a: Operand,
        a_scale: Operand,
        a_zero_point: Operand,
        b: Operand,
        b_scale: Operand,
        b_zero_point: Operand,
        y_scale: Operand,
        y_zero_point: Operand,
    ) -> Variable: ...
    def QuantizeLinear(
        self,
        x: Operand,
        y_scale: Operand,
        y_zero_point: Operand = None,
        *,
        axis: int | None = None,
        block_size: int | None = None,
        output_dtype: int | None = None,
        precision: int | None = None,
        saturate: int | None = None,
    ) -> Variable: ...
    def RMSNormalization(
        self, X: Operand, scale: Operand, *, axis: int | None = None, epsilon: float | None = None, stash_type: int | None = None
    ) -> Variable: ...
    @overload
    def RNN(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def RNN(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        outputs: Literal[2],
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def RNN(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        outputs: Sequence[str],
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def RNN(
        self,
        X: Operand,
        W: Operand,
        R: Operand,
        B: Operand = None,
        sequence_lens: Operand = None,
        initial_h: Operand = None,
        *,
        outputs: int,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        layout: int | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def RandomNormal(
        self,
        *,
        shape: Sequence[int],
        dtype: int | None = None,
        mean: float | None = None,
        scale: float | None = None,
        seed: float | None = None,
    ) -> Variable: ...
    def RandomNormalLike(
        self,
        input: Operand,
        *,
        dtype: int | None = None,
        mean: float | None = None,
        scale: float | None = None,
        seed: float | None = None,
    ) -> Variable: ...
    def RandomUniform(
        self,
        *,
        shape: Sequence[int],
        dtype: int | None = None,
        high: float | None = None,
        low: float | None = None,
        seed: float | None = None,
    ) -> Variable: ...
    def RandomUniformLike(
        self,
        input: Operand,
        *,
        dtype: int | None = None,
        high: float | None = None,
        low: float | None = None,
        seed: float | None = None,
    ) -> Variable: ...
    def Range(self, start: Operand, limit: Operand, delta: Operand) -> Variable: ...
    def Reciprocal(self, X: Operand) -> Variable: ...
    def ReduceL1(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceL2(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceLogSum(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceLogSumExp(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceMax(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceMean(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceMin(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceProd(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceSum(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def ReduceSumSquare(
        self, data: Operand, axes: Operand = None, *, keepdims: int | None = None, noop_with_empty_axes: int | None = None
    ) -> Variable: ...
    def RegexFullMatch(self, X: Operand, *, pattern: str | None = None) -> Variable: ...
    def Relu(self, X: Operand) -> Variable: ...
    def Reshape(self, data: Operand, shape: Operand, *, allowzero: int | None = None) -> Variable: ...
    def Resize(
        self,
        X: Operand,
        roi: Operand = None,
        scales: Operand = None,
        sizes: Operand = None,
        *,
        antialias: int | None = None,
        axes: Sequence[int] | None = None,
        coordinate_transformation_mode: str | None = None,
        cubic_coeff_a: float | None = None,
        exclude_outside: int | None = None,
        extrapolation_value: float | None = None,
        keep_aspect_ratio_policy: str | None = None,
        mode: str | None = None,
        nearest_mode: str | None = None,
    ) -> Variable: ...
    def ReverseSequence(
        self, input: Operand, sequence_lens: Operand, *, batch_axis: int | None = None, time_axis: int | None = None
    ) -> Variable: ...
    def RoiAlign(
        self,
        X: Operand,
        rois: Operand,
        batch_indices: Operand,
        *,
        coordinate_transformation_mode: str | None = None,
        mode: str | None = None,
        output_height: int | None = None,
        output_width: int | None = None,
        sampling_ratio: int | None = None,
        spatial_scale: float | None = None,
    ) -> Variable: ...
    def RotaryEmbedding(
        self,
        X: Operand,
        cos_cache: Operand,
        sin_cache: Operand,
        position_ids: Operand = None,
        *,
        interleaved: int | None = None,
        num_heads: int | None = None,
        rotary_embedding_dim: int | None = None,
    ) -> Variable: ...
    def Round(self, X: Operand) -> Variable: ...
    def STFT(
        self,
        signal: Operand,
        frame_step: Operand,
        window: Operand = None,
        frame_length: Operand = None,
        *,
        onesided: int | None = None,
    ) -> Variable: ...
    @overload
    def Scan(
        self,
        *initial_state_and_scan_inputs: Operand,
        body: Block,
        num_scan_inputs: int,
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def Scan(
        self,
        *initial_state_and_scan_inputs: Operand,
        body: Block,
        num_scan_inputs: int,
        outputs: Literal[2],
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def Scan(
        self,
        *initial_state_and_scan_inputs: Operand,
        body: Block,
        num_scan_inputs: int,
        outputs: Literal[3],
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def Scan(
        self,
        *initial_state_and_scan_inputs: Operand,
        body: Block,
        num_scan_inputs: int,
        outputs: Literal[4],
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
    ) -> tuple[Variable, Variable, Variable, Variable]: ...
    @overload
    def Scan(
        self,
        *initial_state_and_scan_inputs: Operand,
        body: Block,
        num_scan_inputs: int,
        outputs: Sequence[str],
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def Scan(
        self,
        *initial_state_and_scan_inputs: Operand,
        body: Block,
        num_scan_inputs: int,
        outputs: int,
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def ScatterElements(
        self, data: Operand, indices: Operand, updates: Operand, *, axis: int | None = None, reduction: str | None = None
    ) -> Variable: ...
    def ScatterND(self, data: Operand, indices: Operand, updates: Operand, *, reduction: str | None = None) -> Variable: ...
    def Selu(self, X: Operand, *, alpha: float | None = None, gamma: float | None = None) -> Variable: ...
    def SequenceAt(self, input_sequence: Operand, position: Operand) -> Variable: ...
    def SequenceConstruct(self, *inputs: Operand) -> Variable: ...
    def SequenceEmpty(self, *, dtype: int | None = None) -> Variable: ...
    def SequenceErase(self, input_sequence: Operand, position: Operand = None) -> Variable: ...
    def SequenceInsert(self, input_sequence: Operand, tensor: Operand, position: Operand = None) -> Variable: ...
    def SequenceLength(self, input_sequence: Operand) -> Variable: ...
    @overload
    def SequenceMap(
        self, input_sequence: Operand, *additional_inputs: Operand, body: Block, outputs: Literal[1] = 1
    ) -> Variable: ...
    @overload
    def SequenceMap(
        self, input_sequence: Operand, *additional_inputs: Operand, body: Block, outputs: Literal[2]
    ) -> tuple[Variable, Variable]: ...
    @overload
    def SequenceMap(
        self, input_sequence: Operand, *additional_inputs: Operand, body: Block, outputs: Literal[3]
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def SequenceMap(
        self, input_sequence: Operand, *additional_inputs: Operand, body: Block, outputs: Literal[4]
    ) -> tuple[Variable, Variable, Variable, Variable]: ...
    @overload
    def SequenceMap(
        self, input_sequence: Operand, *additional_inputs: Operand, body: Block, outputs: Sequence[str]
    ) -> tuple[Variable, ...]: ...
    @overload
    def SequenceMap(
        self, input_sequence: Operand, *additional_inputs: Operand, body: Block, outputs: int
    ) -> Variable | tuple[Variable, ...]: ...
    def Shape(self, data: Operand, *, end: int | None = None, start: int | None = None) -> Variable: ...
    def Shrink(self, input: Operand, *, bias: float | None = None, lambd: float | None = None) -> Variable: ...
    def Sigmoid(self, X: Operand) -> Variable: ...
    def Sign(self, input: Operand) -> Variable: ...
    def Sin(self, input: Operand) -> Variable: ...
    def Sinh(self, input: Operand) -> Variable: ...
    def Size(self, data: Operand) -> Variable: ...
    def Slice(self, data: Operand, starts: Operand, ends: Operand, axes: Operand = None, steps: Operand = None) -> Variable: ...
    def Softmax(self, input: Operand, *, axis: int | None = None) -> Variable: ...
    @overload
    def SoftmaxCrossEntropyLoss(
        self,
        scores: Operand,
        labels: Operand,
        weights: Operand = None,
        *,
        ignore_index: int | None = None,
        reduction: str | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def SoftmaxCrossEntropyLoss(
        self,
        scores: Operand,
        labels: Operand,
        weights: Operand = None,
        *,
        outputs: Literal[2],
        ignore_index: int | None = None,
        reduction: str | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def SoftmaxCrossEntropyLoss(
        self,
        scores: Operand,
        labels: Operand,
        weights: Operand = None,
        *,
        outputs: Sequence[str],
        ignore_index: int | None = None,
        reduction: str | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def SoftmaxCrossEntropyLoss(
        self,
        scores: Operand,
        labels: Operand,
        weights: Operand = None,
        *,
        outputs: int,
        ignore_index: int | None = None,
        reduction: str | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def Softplus(self, X: Operand) -> Variable: ...
    def Softsign(self, input: Operand) -> Variable: ...
    def SpaceToDepth(self, input: Operand, *, blocksize: int) -> Variable: ...
    @overload
    def Split(
        self,
        input: Operand,
        split: Operand = None,
        *,
        axis: int | None = None,
        num_outputs: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def Split(
        self, input: Operand, split: Operand = None, *, outputs: Literal[2], axis: int | None = None, num_outputs: int | None = None
    ) -> tuple[Variable, Variable]: ...
    @overload
    def Split(
        self, input: Operand, split: Operand = None, *, outputs: Literal[3], axis: int | None = None, num_outputs: int | None = None
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def Split(
        self, input: Operand, split: Operand = None, *, outputs: Literal[4], axis: int | None = None, num_outputs: int | None = None
    ) -> tuple[Variable, Variable, Variable, Variable]: ...
    @overload
    def Split(
        self,
        input: Operand,
        split: Operand = None,
        *,
        outputs: Sequence[str],
        axis: int | None = None,
        num_outputs: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def Split(
        self, input: Operand, split: Operand = None, *, outputs: int, axis: int | None = None, num_outputs: int | None = None
    ) -> Variable | tuple[Variable, ...]: ...
    def SplitToSequence(
        self, input: Operand, split: Operand = None, *, axis: int | None = None, keepdims: int | None = None
    ) -> Variable: ...
    def Sqrt(self, X: Operand) -> Variable: ...
    def Squeeze(self, data: Operand, axes: Operand = None) -> Variable: ...
    def StringConcat(self, X: Operand, Y: Operand) -> Variable: ...
    def StringNormalizer(
        self,
        X: Operand,
        *,
        case_change_action: str | None = None,
        is_case_sensitive: int | None = None,
        locale: str | None = None,
        stopwords: Sequence[str] | None = None,
    ) -> Variable: ...
    @overload
    def StringSplit(
        self, X: Operand, *, delimiter: str | None = None, maxsplit: int | None = None, outputs: Literal[1] = 1
    ) -> Variable: ...
    @overload
    def StringSplit(
        self, X: Operand, *, outputs: Literal[2], delimiter: str | None = None, maxsplit: int | None = None
    ) -> tuple[Variable, Variable]: ...
    @overload
    def StringSplit(
        self, X: Operand, *, outputs: Sequence[str], delimiter: str | None = None, maxsplit: int | None = None
    ) -> tuple[Variable, ...]: ...
    @overload
    def StringSplit(
        self, X: Operand, *, outputs: int, delimiter: str | None = None, maxsplit: int | None = None
    ) -> Variable | tuple[Variable, ...]: ...
    def Sub(self, A: Operand, B: Operand) -> Variable: ...
    def Sum(self, *data_0: Operand) -> Variable: ...
    def Swish(self, X: Operand, *, alpha: float | None = None) -> Variable: ...
    def Tan(self, input: Operand) -> Variable: ...
    def Tanh(self, input: Operand) -> Variable: ...
    def TensorScatter(
        self,
        past_cache: Operand,
        update: Operand,
        write_indices: Operand = None,
        *,
        axis: int | None = None,
        mode: str | None = None,
    ) -> Variable: ...
    def TfIdfVectorizer(
        self,
        X: Operand,
        *,
        max_gram_length: int,
        max_skip_count: int,
        min_gram_length: int,
        mode: str,
        ngram_counts: Sequence[int],
        ngram_indexes: Sequence[int],
        pool_int64s: Sequence[int] | None = None,
        pool_strings: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
    ) -> Variable: ...
    def ThresholdedRelu(self, X: Operand, *, alpha: float | None = None) -> Variable: ...
    def Tile(self, input: Operand, repeats: Operand) -> Variable: ...
    @overload
    def TopK(
        self,
        X: Operand,
        K: Operand,
        *,
        axis: int | None = None,
        largest: int | None = None,
        sorted: int | None = None,
        outputs: Literal[1] = 1,
    ) -> Variable: ...
    @overload
    def TopK(
        self,
        X: Operand,
        K: Operand,
        *,
        outputs: Literal[2],
        axis: int | None = None,
        largest: int | None = None,
        sorted: int | None = None,
    ) -> tuple[Variable, Variable]: ...
    @overload
    def TopK(
        self,
        X: Operand,
        K: Operand,
        *,
        outputs: Sequence[str],
        axis: int | None = None,
        largest: int | None = None,
        sorted: int | None = None,
    ) -> tuple[Variable, ...]: ...
    @overload
    def TopK(
        self,
        X: Operand,
        K: Operand,
        *,
        outputs: int,
        axis: int | None = None,
        largest: int | None = None,
        sorted: int | None = None,
    ) -> Variable | tuple[Variable, ...]: ...
    def Transpose(self, data: Operand, *, perm: Sequence[int] | None = None) -> Variable: ...
    def Trilu(self, input: Operand, k: Operand = None, *, upper: int | None = None) -> Variable: ...
    @overload
    def Unique(self, X: Operand, *, axis: int | None = None, sorted: int | None = None, outputs: Literal[1] = 1) -> Variable: ...
    @overload
    def Unique(
        self, X: Operand, *, outputs: Literal[2], axis: int | None = None, sorted: int | None = None
    ) -> tuple[Variable, Variable]: ...
    @overload
    def Unique(
        self, X: Operand, *, outputs: Literal[3], axis: int | None = None, sorted: int | None = None
    ) -> tuple[Variable, Variable, Variable]: ...
    @overload
    def Unique(
        self, X: Operand, *, outputs: Literal[4], axis: int | None = None, sorted: int | None = None
    ) -> tuple[Variable, Variable, Variable, Variable]: ...
    @overload
    def Unique(
        self, X: Operand, *, outputs: Sequence[str], axis: int | None = None, sorted: int | None = None
    ) -> tuple[Variable, ...]: ...
    @overload
    def Unique(
        self, X: Operand, *, outputs: int, axis: int | None = None, sorted: int | None = None
    ) -> Variable | tuple[Variable, ...]: ...
    def Unsqueeze(self, data: Operand, axes: Operand) -> Variable: ...
    def Where(self, condition: Operand, X: Operand, Y: Operand) -> Variable: ...
    def Xor(self, A: Operand, B: Operand) -> Variable: ...
