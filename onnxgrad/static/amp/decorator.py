"""decorate: an optimizer that trains in 16 bits, with float32 weights and dynamic loss scaling.

Tests: tests/amp/test_static.py.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from onnxgrad.core.autodiff.api import Checkpoints, Names
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import SizesGiven
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.mixed_precision import to_mixed_precision
from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists, Level, LowDtype, low_dtype
from onnxgrad.errors import ArgumentTypeError, Mismatch, NotAVariable
from onnxgrad.internal.arguments import as_kind, as_number
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer, Pairs
from onnxgrad.optimizer.scaling import LossScaler, ScalePolicy

__all__ = ["OptimizerWithMixedPrecision", "decorate"]


class OptimizerWithMixedPrecision:
    """An optimizer whose ``minimize`` rewrites the forward program, scales the loss and skips steps that overflow.

    ``decorate`` makes it. Learning rate and state are those of the optimizer inside.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        rewriting: dict[str, Any],
        init_loss_scaling: float,
        use_dynamic_loss_scaling: bool,
        policy: ScalePolicy,
    ) -> None:
        self._optimizer = optimizer
        self._rewriting = rewriting
        self._init_loss_scaling = float(init_loss_scaling)
        self._is_dynamic = use_dynamic_loss_scaling
        self._scaler = LossScaler(optimizer, self._init_loss_scaling, policy, use_dynamic_loss_scaling)
        self._scaled_loss: Variable | None = None

    # What is that of the optimizer inside ------------------------------------------------------------------------------

    def get_lr(self) -> float:
        """The present learning rate."""
        return self._optimizer.get_lr()

    def set_lr(self, value: float) -> None:
        """Change the learning rate of the next runs."""
        self._optimizer.set_lr(value)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Let a scheduler decide the learning rate of the next runs."""
        self._optimizer.set_lr_scheduler(scheduler)

    def state_dict(self) -> dict[str, Any]:
        """The accumulators by name, as numpy, and the schedule's state under ``LR_Scheduler``."""
        return self._optimizer.state_dict()

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the accumulators that ``state_dict`` names, and the schedule."""
        self._optimizer.set_state_dict(state_dict)

    # Reading -----------------------------------------------------------------------------------------------------------

    def get_loss_scaling(self) -> Variable:
        """The variable that holds the present scale, of shape [1].

        Raises:
            ArgumentError: (an AssertionError) before ``minimize`` or ``backward``.
        """
        if self._scaler.scale is None:
            raise Mismatch("there is no loss scaling yet. Call minimize() first.")
        return self._scaler.scale

    def get_scaled_loss(self) -> Variable | None:
        """The loss times the scale; None before ``minimize``."""
        return self._scaled_loss

    # Building ----------------------------------------------------------------------------------------------------------

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Variable | str] | None = None,
        no_grad_set: Names = None,
        *,
        checkpoints: Checkpoints = None,
        memory_budget: int | None = None,
        sizes: SizesGiven = None,
    ) -> tuple[list[Operator], Pairs]:
        """Rewrite the program of ``loss``, append the backward pass of the scaled loss and the update.

        A step in which an element of a gradient is infinite or NaN changes nothing but the scale and its counters: weights,
        state of the optimizer and running statistics keep their bits.

        Args:
            loss: variable of one element.
            startup_program: receives the initialisation of the state; None for the default one.
            parameter_list: which parameters to train; None for those of the optimizer, or all.
            no_grad_set, checkpoints, memory_budget, sizes: passed to ``append_backward``.

        Returns:
            (operators of the update, pairs of parameter and scaled gradient).

        Raises:
            NotAVariable: if ``loss`` is not a Variable.
            ArgumentError: if it does not have exactly one element, or its program has a backward pass in another type already.
        """
        with self._optimizer._changing(loss, startup_program), transaction(self):
            options: Any = {"checkpoints": checkpoints, "memory_budget": memory_budget, "sizes": sizes}
            pairs = self.backward(loss, startup_program, parameter_list, no_grad_set, **options)
            return self.apply_optimize(loss, startup_program, pairs), pairs

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Variable | str] | None = None,
        no_grad_set: Names = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        *,
        checkpoints: Checkpoints = None,
        memory_budget: int | None = None,
        sizes: SizesGiven = None,
    ) -> Pairs:
        """The pairs of parameter and scaled gradient, without an update."""
        if not isinstance(loss, Variable):
            raise NotAVariable(f"minimize needs a Variable as loss, not {type(loss).__name__}.")
        if loss.is_eager:
            raise ArgumentTypeError("this optimizer is for static programs. Use paddle.amp.GradScaler for eager tensors.")
        program = loss.block.program
        to_mixed_precision(program, **self._rewriting)
        self._optimizer._startup = startup_program
        self._scaler.begin(program)
        if self._scales:
            self._scaled_loss = self._scaler.scaled(loss)
        else:
            op = Builder(loss.block, role=Role.BACKWARD, key="scaled_loss")
            self._scaled_loss = op.Cast(loss, to=1) if loss.dtype.name in ("float16", "bfloat16") else loss
        options: Any = {"checkpoints": checkpoints, "memory_budget": memory_budget, "sizes": sizes}
        return self._optimizer.backward(self._scaled_loss, startup_program, parameter_list, no_grad_set, callbacks, **options)

    def apply_optimize(self, loss: Variable, startup_program: Program | None, params_grads: Pairs) -> list[Operator]:
        """``apply_gradients``, with the startup program to use."""
        return self.apply_gradients(params_grads, startup_program)

    def apply_gradients(self, params_grads: Pairs, startup_program: Program | None = None) -> list[Operator]:
        """Append the check, the update from gradients divided by the scale, and the update of the scale.

        Raises:
            ArgumentError: if there are no pairs, or ``backward`` was not called.
        """
        if not params_grads or not self._scales:
            return self._optimizer.apply_gradients(params_grads, startup_program)
        self.get_loss_scaling()
        block = params_grads[0][0].block.program.global_block()
        first = len(block.ops)
        self._scaler.apply(params_grads, startup_program)
        return block.ops[first:]

    def amp_init(
        self,
        place: Any,
        scope: Any = None,
        test_program: Program | None = None,
        use_fp16_test: bool = False,
        rewrite_master_weight: bool = False,
    ) -> None:
        """Rewrite a program for testing, at level O2 or if asked; weights need no preparation, they stay in float32.

        Raises:
            ArgumentError: (an AssertionError) before ``minimize``.
        """
        self.get_loss_scaling()
        if test_program is not None and (use_fp16_test or self._rewriting["level"] == "O2"):
            to_mixed_precision(test_program, **self._rewriting)

    @property
    def _scales(self) -> bool:
        return self._is_dynamic or self._init_loss_scaling != 1.0


@overload
def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    level: Level = "O1",
    dtype: LowDtype = "float16",
    master_weight: bool | None = None,
    master_grad: bool = False,
    init_loss_scaling: float = 65536.0,
    incr_every_n_steps: int = 2000,
    decr_every_n_nan_or_inf: int = 1,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.5,
    use_dynamic_loss_scaling: bool | None = None,
    use_amp_guard: bool = False,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision: ...


@overload
def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 32768.0,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    use_pure_fp16: bool = False,
    use_fp16_guard: bool | None = None,
    use_bf16: bool = False,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision: ...


def decorate(
    optimizer: Optimizer, amp_lists: AutoMixedPrecisionLists | None = None, *args: Any, **kwargs: Any
) -> OptimizerWithMixedPrecision:
    """An optimizer that trains in mixed precision.

    Weights and the optimizer's state stay in float32 at every level. Gradients are those of the loss times a scale, which
    halves when they overflow and grows when they have not for long; a step that overflows changes nothing else. All of that is
    in the step, as standard operators, so an exported step does the same.

    Paddle has two forms, told apart by the names of the arguments, or by a float as the third one.

    Args:
        optimizer: any optimizer.
        amp_lists: default ``AutoMixedPrecisionLists(dtype=dtype)``.
        level: ``'O1'`` by the lists, ``'O2'`` nearly everything in 16 bits, ``'OD'`` the white list alone.
        dtype: ``'float16'``, or ``'bfloat16'``, which needs no scale and gets none. onnxruntime computes in bfloat16 on the
            device only.
        master_weight, master_grad: accepted; weights and their gradients always are in float32.
        init_loss_scaling: 65536; 32768 in the older form.
        incr_every_n_steps: finite steps until the scale grows: 2000; 1000 in the older form.
        decr_every_n_nan_or_inf: overflows until it shrinks: 1; 2 in the older form.
        incr_ratio, decr_ratio: its factors: 2 and 0.5; 2 and 0.8 in the older form.
        use_dynamic_loss_scaling: False for a constant scale.
        use_amp_guard: only what was built inside ``fp16_guard`` computes in 16 bits.
        use_promote: at O2, operators that read a float32 result compute in float32.
        use_pure_fp16, use_fp16_guard, use_bf16: the older form of ``level='O2'``, ``use_amp_guard`` and ``dtype='bfloat16'``.

    Returns:
        An optimizer with ``minimize``, ``get_loss_scaling``, ``get_scaled_loss`` and ``amp_init``.

    Raises:
        ArgumentTypeError: if the arguments fit neither form, or ``optimizer`` is none.
        ArgumentError: if a level, dtype or number makes no sense.

    Example:
        >>> x = static.data("x", [None, 4])
        >>> loss = paddle.mean(static.nn.fc(x, size=2))
        >>> optimizer = static.amp.decorate(paddle.optimizer.Adam(0.001), init_loss_scaling=8.0)
        >>> operators, pairs = optimizer.minimize(loss)
        >>> optimizer.get_loss_scaling().name
        'loss_scaling_0'
    """
    as_kind("decorate", "optimizer", optimizer, Optimizer)
    older = set(kwargs) & {"use_pure_fp16", "use_fp16_guard", "use_bf16"} or (args and isinstance(args[0], float))
    form = _decorated_as_before if older else _decorated
    try:
        inspect.signature(form).bind(optimizer, amp_lists, *args, **kwargs)
    except TypeError as error:
        raise ArgumentTypeError(f"decorate(): {error}. See the documentation of decorate for the two forms.") from error
    return form(optimizer, amp_lists, *args, **kwargs)


def _decorated(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    level: Level = "O1",
    dtype: LowDtype = "float16",
    master_weight: bool | None = None,
    master_grad: bool = False,
    init_loss_scaling: float = 65536.0,
    incr_every_n_steps: int = 2000,
    decr_every_n_nan_or_inf: int = 1,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.5,
    use_dynamic_loss_scaling: bool | None = None,
    use_amp_guard: bool = False,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision:
    low = low_dtype(dtype)
    as_kind("decorate", "level", level, Literal["O1", "O2", "OD"])
    as_number("decorate", "init_loss_scaling", init_loss_scaling, above=0)
    as_number("decorate", "incr_ratio", incr_ratio, above=1)
    as_number("decorate", "decr_ratio", decr_ratio, above=0, below=1)
    as_number("decorate", "incr_every_n_steps", incr_every_n_steps, least=1)
    as_number("decorate", "decr_every_n_nan_or_inf", decr_every_n_nan_or_inf, least=1)
    policy = ScalePolicy(incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio)
    if low == "bfloat16":
        if use_dynamic_loss_scaling:
            warnings.warn("bfloat16 has the range of float32, so its loss is not scaled.", stacklevel=3)
        use_dynamic_loss_scaling, init_loss_scaling = False, 1.0
    lists = amp_lists if amp_lists is not None else AutoMixedPrecisionLists(dtype=low)
    rewriting = {"dtype": low, "lists": lists, "level": level, "use_guard": use_amp_guard, "use_promote": use_promote}
    return OptimizerWithMixedPrecision(optimizer, rewriting, init_loss_scaling, use_dynamic_loss_scaling is not False, policy)


def _decorated_as_before(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 32768.0,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    use_pure_fp16: bool = False,
    use_fp16_guard: bool | None = None,
    use_bf16: bool = False,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision:
    """Paddle's older form, in words of today's."""
    level: Level = "O2" if use_pure_fp16 else "O1"
    dtype: LowDtype = "bfloat16" if use_bf16 else "float16"
    changes = incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio
    dynamic = None if use_bf16 else use_dynamic_loss_scaling
    guard = use_pure_fp16 if use_fp16_guard is None else use_fp16_guard
    return _decorated(optimizer, amp_lists, level, dtype, None, False, init_loss_scaling, *changes, dynamic, guard, use_promote)
