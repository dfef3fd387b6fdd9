"""Adam (Kingma and Ba 2015) and its relatives, with Paddle's placing of epsilon.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentTypeError, NotOffered
from onnxgrad.internal.arguments import as_flag, as_function_or_none
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.groups import Parameters
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer, number_option
from onnxgrad.optimizer.regularizer import WeightDecay
from onnxgrad.optimizer.rows import ALL, SparseRows, looked_up

__all__ = ["Adam", "AdamW", "Adamax", "Lamb", "NAdam", "RAdam"]


class _Moments(Optimizer):
    """Base of the optimizers that average the gradient (beta1) and its square (beta2)."""

    _limits: ClassVar = {"beta1": {"least": 0, "below": 1}, "beta2": {"least": 0, "below": 1}, "epsilon": {"least": 0}}
    _powers = 2
    """How many of the betas have their power corrected for."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-08,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        self._beta1 = number_option(self, "beta1", beta1)
        self._beta2 = number_option(self, "beta2", beta2)
        self._epsilon = number_option(self, "epsilon", epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def _averages(self, op: Builder, m: Variable, v: Variable, g: Variable, rows: SparseRows = ALL) -> tuple[Variable, Variable]:
        """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2, by the square of (1 - b1) g, which a product can give as it is"""
        part = op.Mul(g, 1.0 - self._beta1)
        new_m = op.Add(op.Mul(rows.take(op, m), self._beta1), part)
        square = op.Mul(op.Mul(part, part), (1.0 - self._beta2) / (1.0 - self._beta1) ** 2)
        new_v = op.Add(op.Mul(rows.take(op, v), self._beta2), square)
        self._replace(m, rows.put(op, m, new_m))
        self._replace(v, rows.put(op, v, new_v))
        return new_m, new_v

    def _corrected(self, op: Builder, parameters: list[Variable], rate: Variable, *moments: str) -> list[_Scale]:
        """Scales whose corrections, ``_corrections`` of the powers of beta, are computed for all parameters at once.

        Every parameter has powers of its own, as it may be trained in other steps than the others.
        """
        betas = [("beta1_pow_acc", self._beta1), ("beta2_pow_acc", self._beta2)][: self._powers]
        rates: list[Variable] = super()._scales(op, parameters, rate)
        state, powers = [], []
        for p in parameters:
            state.append([self._filled(p, name) for name in moments])
            powers.append([self._number(p, name, beta) for name, beta in betas])
        scales: dict[int, _Scale] = {}
        for dtype in dict.fromkeys(p.dtype for p in parameters):
            chosen = [i for i, p in enumerate(parameters) if p.dtype == dtype]
            joined = [self._next_power(op, [powers[i][k] for i in chosen], beta) for k, (_, beta) in enumerate(betas)]
            same_rate = all(rates[i] is rates[chosen[0]] for i in chosen)
            together = rates[chosen[0]] if same_rate else _joined(op, [op.Unsqueeze(rates[i], [0]) for i in chosen])
            columns = [_apart(op, column, [parameters[i] for i in chosen]) for column in self._corrections(op, together, *joined)]
            for i, *corrections in zip(chosen, *columns, strict=True):
                scales[i] = _Scale(rates[i], state[i], corrections)
        return [scales[i] for i in range(len(parameters))]

    def _next_power(self, op: Builder, accumulators: list[Variable], beta: float) -> Variable:
        """beta^t of several parameters, whose accumulators start as beta"""
        power = _joined(op, accumulators)
        for accumulator, new in zip(accumulators, _split(op, op.Mul(power, beta), len(accumulators)), strict=True):
            self._replace(accumulator, new)
        return power

    def _corrections(self, op: Builder, rate: Variable, *powers: Variable) -> list[Variable]:
        """Compute the bias corrections of all parameters from the learning rates and the powers of beta."""
        raise NotImplementedError

    def _next_powers(self, op: Builder, p: Variable, names: tuple[str, ...], factors: tuple[float, ...]) -> list[Variable]:
        """Products of t factors, from accumulators of p's shape that start as 1"""
        powers = []
        for name, factor in zip(names, factors, strict=True):
            power = self._filled(p, name, 1.0)
            powers.append(op.Mul(power, factor))
            self._replace(power, powers[-1])
        return powers


class _Scale(NamedTuple):
    """The rate, moments and corrections for the step of one parameter."""

    rate: Variable
    state: list[Variable]
    corrections: list[Variable]
    """Scalars."""


def _joined(op: Builder, scalars: list[Variable]) -> Variable:
    """Accumulators of shape [1] as a vector."""
    return scalars[0] if len(scalars) == 1 else op.Concat(*scalars, axis=0)


def _split(op: Builder, vector: Variable, count: int) -> list[Variable]:
    """The elements of a vector, of shape [1]."""
    return [vector] if count == 1 else list(op.Split(vector, num_outputs=count, outputs=count))


def _apart(op: Builder, vector: Variable, parameters: list[Variable]) -> list[Variable]:
    """The elements of a vector; without their axis where a parameter has rank 0, so that it keeps its."""
    parts = _split(op, vector, len(parameters))
    return [op.Squeeze(part, [0]) if p.rank == 0 else part for p, part in zip(parameters, parts, strict=True)]


class Adam(_Moments):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr c m / (sqrt(v) + eps r), r = sqrt(1 - b2^t), c = r / (1 - b1^t).
    Kingma and Ba 2015.

    ``lazy_mode`` leaves rows of an embedding, and their averages, that a batch does not look up as they are: for
    ``embedding(is_sparse=True)``, and for every lookup of a loaded file, of float32 tables that nothing else reads and without
    regularization. Other parameters, and eager ones, are updated as a whole. AdamW decays the same rows.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        beta1, beta2: how much of the averages m and v a step keeps, in [0, 1).
        epsilon: added to the root, at least 0.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        lazy_mode: leave rows of an embedding that a batch does not look up and their averages as they are.
        multi_precision: accepted for compatibility; 16-bit parameters always have float32 master weights.
        use_multi_tensor: accepted for compatibility.
        amsgrad: put the largest v so far under the root. Reddi, Kale and Kumar 2018.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``beta1`` or ``beta2`` lies outside [0, 1), or ``epsilon`` is below 0.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.Adam(0.5, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.5], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-08,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ) -> None:
        self._lazy_mode = as_flag(self, "lazy_mode", lazy_mode)
        self._multi_precision = as_flag(self, "multi_precision", multi_precision)
        self._use_multi_tensor = as_flag(self, "use_multi_tensor", use_multi_tensor)
        self._amsgrad = as_flag(self, "amsgrad", amsgrad)
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)

    def _scales(self, op: Builder, parameters: list[Variable], rate: Variable) -> list[_Scale]:
        return self._corrected(op, parameters, rate, "moment1", "moment2", *["moment2_max"] * self._amsgrad)

    def _corrections(self, op: Builder, rate: Variable, *powers: Variable) -> list[Variable]:
        root = op.Sqrt(op.Sub(1.0, powers[1]))
        return [op.Div(op.Mul(root, rate), op.Sub(1.0, powers[0])), op.Mul(root, self._epsilon)]

    def _update(self, op: Builder, p: Variable, g: Variable, scale: _Scale) -> Variable:
        value = self._present(p)
        rows = looked_up(op, p, value, g, self._unclipped.get(g, g)) if self._lazy_mode else ALL
        m, v = self._averages(op, scale.state[0], scale.state[1], g if rows.gradient is None else rows.gradient, rows)
        if self._amsgrad:
            v = op.Max(rows.take(op, scale.state[2]), v)
            self._replace(scale.state[2], rows.put(op, scale.state[2], v))
        factor, epsilon = scale.corrections
        step = op.Mul(op.Div(m, op.Add(op.Sqrt(v), epsilon)), factor)
        return rows.put(op, value, op.Sub(self._shrunk(op, p, rows.take(op, value), scale.rate), step))

    def _shrunk(self, op: Builder, p: Variable, value: Variable, rate: Variable) -> Variable:
        """The value of the parameter, or of some of its rows, before its step."""
        return value


class AdamW(Adam):
    """Adam with decoupled decay: p is first multiplied by 1 - lr * weight_decay.
    Loshchilov and Hutter 2019.

    A parameter's own regularizer (``ParamAttr``) adds to its gradient besides.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        beta1, beta2: how much of the averages m and v a step keeps, in [0, 1).
        epsilon: added to the root, at least 0.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a float.
        use_lowprecision_moment: must be False: moments are of the type of the master weights.
        lr_ratio: takes a parameter and returns a factor on its learning rate.
        apply_decay_param_fun: takes a parameter's name and says whether it decays; None for all.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        lazy_mode: as in ``Adam``; the same rows decay.
        multi_precision: accepted for compatibility; 16-bit parameters always have float32 master weights.
        amsgrad: put the largest v so far under the root. Reddi, Kale and Kumar 2018.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``beta1`` or ``beta2`` lies outside [0, 1), or ``epsilon`` is below 0.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.AdamW(0.5, parameters=[w], weight_decay=0.5)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-08,
        parameters: Parameters = None,
        weight_decay: float = 0.01,
        use_lowprecision_moment: bool = False,
        lr_ratio: Callable[[Variable], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: GradientClip | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(weight_decay, float):
            raise ArgumentTypeError(f"AdamW: weight_decay is a float, not {weight_decay!r}.")
        for group in parameters if isinstance(parameters, (list, tuple)) else ():
            if isinstance(group, dict) and not isinstance(group.get("weight_decay", 0.0), (int, float)):
                raise ArgumentTypeError(f"AdamW: weight_decay of a group is a number, not {group['weight_decay']!r}.")
        if as_flag(self, "use_lowprecision_moment", use_lowprecision_moment):
            raise NotOffered("AdamW keeps its moments in the type of the master weights. Leave use_lowprecision_moment out.")
        self._lr_ratio = as_function_or_none(self, "lr_ratio", lr_ratio)
        self._apply_decay_param_fun = as_function_or_none(self, "apply_decay_param_fun", apply_decay_param_fun)
        common = learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip
        super().__init__(*common, lazy_mode, multi_precision, amsgrad=amsgrad, name=name)

    def _decayed(self, op: Builder, p: Variable, g: Variable) -> Variable:
        own = self._own_decay(p)
        return g if own is None else own.apply(op, self._present(p), g)

    def _factor(self, p: Variable) -> float:
        return super()._factor(p) * (1.0 if self._lr_ratio is None else float(self._lr_ratio(self._owner(p))))

    def _shrunk(self, op: Builder, p: Variable, value: Variable, rate: Variable) -> Variable:
        decay, decays = self._common_decay(p), self._apply_decay_param_fun
        if decay is None or decay.coeff == 0.0 or (decays is not None and not decays(self._owner(p).name)):
            return value
        return op.Mul(value, op.Sub(1.0, op.Mul(rate, decay.coeff)))


class Adamax(_Moments):
    """m = b1 m + (1 - b1) g;  u = max(|g|, b2 u + eps);  p -= lr / (1 - b1^t) * m / u. Kingma and Ba 2015.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        beta1, beta2: how much of m and u a step keeps, in [0, 1).
        epsilon: added to u, at least 0.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``beta1`` or ``beta2`` lies outside [0, 1), or ``epsilon`` is below 0.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.Adamax(0.5, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.5], dtype=float32)
    """

    _powers = 1

    def _scales(self, op: Builder, parameters: list[Variable], rate: Variable) -> list[_Scale]:
        return self._corrected(op, parameters, rate, "moment", "inf_norm")

    def _corrections(self, op: Builder, rate: Variable, *powers: Variable) -> list[Variable]:
        return [op.Div(rate, op.Sub(1.0, powers[0]))]

    def _update(self, op: Builder, p: Variable, g: Variable, scale: _Scale) -> Variable:
        m, u = scale.state
        new_m = op.Add(op.Mul(m, self._beta1), op.Mul(g, 1.0 - self._beta1))
        new_u = op.Max(op.Abs(g), op.Add(op.Mul(u, self._beta2), self._epsilon))
        for old, new in ((m, new_m), (u, new_u)):
            self._replace(old, new)
        return op.Sub(self._present(p), op.Mul(op.Div(new_m, new_u), scale.corrections[0]))


class Lamb(_Moments):
    """r = mhat / (sqrt(vhat) + eps) + decay p;  p -= lr |p| / |r| r. You et al. 2020.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        lamb_weight_decay: the decay, a number.
        beta1, beta2: how much of the averages m and v a step keeps, in [0, 1).
        epsilon: added to the root, at least 0.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of them.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        exclude_from_weight_decay_fn: takes a parameter and says whether it is left out; its decay and its ratio |p| / |r| are
            then 0 and 1.
        multi_precision: accepted for compatibility; 16-bit parameters always have float32 master weights.
        always_adapt: use the ratio without decay too.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``beta1`` or ``beta2`` lies outside [0, 1), or ``epsilon`` is below 0.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.Lamb(0.5, parameters=[w], lamb_weight_decay=0.5)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float | Variable = 0.01,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-06,
        parameters: Parameters = None,
        grad_clip: GradientClip | None = None,
        exclude_from_weight_decay_fn: Callable[[Variable], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        self._lamb_weight_decay = number_option(self, "lamb_weight_decay", lamb_weight_decay)
        excludes = exclude_from_weight_decay_fn
        self._exclude_from_weight_decay_fn = as_function_or_none(self, "exclude_from_weight_decay_fn", excludes)
        self._multi_precision = as_flag(self, "multi_precision", multi_precision)
        self._always_adapt = as_flag(self, "always_adapt", always_adapt)
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, None, grad_clip, name)

    def _scales(self, op: Builder, parameters: list[Variable], rate: Variable) -> list[_Scale]:
        return self._corrected(op, parameters, rate, "moment1", "moment2")

    def _corrections(self, op: Builder, rate: Variable, *powers: Variable) -> list[Variable]:
        return [op.Sub(1.0, power) for power in powers]

    def _update(self, op: Builder, p: Variable, g: Variable, scale: _Scale) -> Variable:
        rate, (correction1, correction2) = scale.rate, scale.corrections
        m, v = self._averages(op, scale.state[0], scale.state[1], g)
        root = op.Add(op.Sqrt(op.Div(v, correction2)), self._epsilon)
        direction = op.Div(op.Div(m, correction1), root)
        present = self._present(p)
        excludes = self._exclude_from_weight_decay_fn
        decay = 0.0 if excludes is not None and excludes(self._owner(p)) else self._lamb_weight_decay
        if decay:
            direction = op.Add(direction, op.Mul(present, decay))
        if decay or self._always_adapt:
            rate = op.Mul(rate, _trust_ratio(op, present, direction))
        return op.Sub(present, op.Mul(direction, rate))


def _trust_ratio(op: Builder, p: Variable, direction: Variable) -> Variable:
    """|p| / |direction| where both are positive, else 1"""
    length, step = op.ReduceL2(p, keepdims=0), op.ReduceL2(direction, keepdims=0)
    zero, one = op.constant(0.0, p.dtype), op.constant(1.0, p.dtype)
    both = op.And(op.Greater(length, zero), op.Greater(step, zero))
    return op.Where(both, op.Div(length, op.Where(both, step, one)), one)


class NAdam(_Moments):
    """Adam with Nesterov's momentum: with mu_t = b1 (1 - 0.5 * 0.96^(momentum_decay t)) and M_t their product,
    p -= lr (mu_{t+1} m / (1 - M_{t+1}) + (1 - mu_t) g / (1 - M_t)) / (sqrt(v / (1 - b2^t)) + eps). Dozat 2016.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        beta1, beta2: how much of the averages m and v a step keeps, in [0, 1).
        epsilon: added to the root, at least 0.
        momentum_decay: how fast mu rises to b1.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``beta1`` or ``beta2`` lies outside [0, 1), or ``epsilon`` is below 0.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.NAdam(0.5, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.4718], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.002,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-08,
        momentum_decay: float | Variable = 0.004,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        self._momentum_decay = number_option(self, "momentum_decay", momentum_decay)
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        decay, b1 = self._momentum_decay, self._beta1
        decayed, power2 = self._next_powers(op, p, ("momentum_decay_pow", "beta2_pow"), (0.96, self._beta2))
        product = self._filled(p, "mu_product", 1.0)
        now = op.Mul(op.Sub(1.0, op.Mul(op.Pow(decayed, op.constant(decay, p.dtype)), 0.5)), b1)
        later = op.Mul(op.Sub(1.0, op.Mul(op.Pow(decayed, op.constant(decay, p.dtype)), 0.5 * 0.96**decay)), b1)
        so_far = op.Mul(product, now)
        self._replace(product, so_far)
        m, v = self._averages(op, self._filled(p, "moment1"), self._filled(p, "moment2"), g)
        ahead = op.Mul(m, op.Div(later, op.Sub(1.0, op.Mul(so_far, later))))
        here = op.Mul(g, op.Div(op.Sub(1.0, now), op.Sub(1.0, so_far)))
        root = op.Add(op.Sqrt(op.Div(v, op.Sub(1.0, power2))), self._epsilon)
        return op.Sub(self._present(p), op.Mul(op.Div(op.Add(ahead, here), root), rate))


class RAdam(_Moments):
    """Adam once enough gradients are seen for its variance to be trusted (rho_t > 5), momentum before. Liu et al. 2020.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        beta1, beta2: how much of the averages m and v a step keeps, in [0, 1).
        epsilon: added to the root, at least 0.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``beta1`` or ``beta2`` lies outside [0, 1), or ``epsilon`` is below 0.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.RAdam(0.25, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.], dtype=float32)
    """

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        b2 = self._beta2
        power1, power2 = self._next_powers(op, p, ("beta1_pow", "beta2_pow"), (self._beta1, b2))
        rho = self._filled(p, "rho", 1.0)
        # It holds t b2^t / (1 - b2^t), kept up without counting t.
        new_rho = op.Div(op.Add(op.Mul(rho, op.Sub(b2, power2)), power2), op.Sub(1.0, power2))
        self._replace(rho, new_rho)
        m, v = self._averages(op, self._filled(p, "moment1"), self._filled(p, "moment2"), g)
        limit = 2.0 / (1.0 - b2) - 1.0
        rho_t = op.Sub(limit, op.Mul(new_rho, 2.0))
        enough = op.Greater(rho_t, op.constant(5.0, p.dtype))
        safe = op.Where(enough, rho_t, op.constant(6.0, p.dtype))
        ratio = op.Div(op.Mul(op.Mul(op.Sub(safe, 4.0), op.Sub(safe, 2.0)), limit), op.Mul(safe, (limit - 4.0) * (limit - 2.0)))
        factor = op.Sqrt(op.Mul(ratio, op.Sub(1.0, power2)))
        scaled = op.Where(enough, op.Div(factor, op.Add(op.Sqrt(v), self._epsilon)), op.constant(1.0, p.dtype))
        step = op.Div(rate, op.Sub(1.0, power1))
        return op.Sub(self._present(p), op.Mul(op.Mul(m, scaled), step))
