"""Adam (Kingma and Ba 2015) and its relatives, with Paddle's placing of epsilon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.variable import Variable
from onnxgrad.nn.clip import GradientClip
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer, Parameters

__all__ = ["Adam", "AdamW", "Adamax", "Lamb", "NAdam", "RAdam"]


class _Moments(Optimizer):
    """Base of those that average the gradient (beta1) and its square (beta2)."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        beta1: float,
        beta2: float,
        epsilon: float,
        parameters: Parameters,
        weight_decay: Any,
        grad_clip: GradientClip | None,
        name: str | None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        for label, value in (("beta1", beta1), ("beta2", beta2), ("epsilon", epsilon)):
            if value is None:
                raise ArgumentError(f"{label} is missing. Give a number.")
        for label, beta in (("beta1", beta1), ("beta2", beta2)):
            if not 0 <= beta < 1:
                raise ArgumentError(f"{label} must lie in [0, 1), not {beta}.")
        self._beta1, self._beta2, self._epsilon = float(beta1), float(beta2), float(epsilon)

    def _averages(self, op: Builder, m: Variable, v: Variable, g: Variable) -> tuple[Variable, Variable]:
        """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2"""
        new_m = op.Add(op.Mul(m, self._beta1), op.Mul(g, 1.0 - self._beta1))
        new_v = op.Add(op.Mul(v, self._beta2), op.Mul(op.Mul(g, g), 1.0 - self._beta2))
        self._replace(m, new_m)
        self._replace(v, new_v)
        return new_m, new_v

    def _powers(self, op: Builder, p: Variable, names: tuple[str, str]) -> tuple[Variable, Variable]:
        """b1^t and b2^t, from accumulators that start as b1 and b2"""
        first, second = self._number(p, names[0], self._beta1), self._number(p, names[1], self._beta2)
        self._replace(first, op.Mul(first, self._beta1))
        self._replace(second, op.Mul(second, self._beta2))
        return _scalar(op, first), _scalar(op, second)

    def _next_powers(self, op: Builder, p: Variable, names: tuple[str, ...], factors: tuple[float, ...]) -> list[Variable]:
        """Products of t factors, from accumulators of p's shape that start as 1"""
        found = []
        for name, factor in zip(names, factors, strict=True):
            power = self._filled(p, name, 1.0)
            found.append(op.Mul(power, factor))
            self._replace(power, found[-1])
        return found


def _scalar(op: Builder, x: Variable) -> Variable:
    """An accumulator of shape [1] without its axis, so that parameters of rank 0 keep theirs."""
    return op.Squeeze(x, [0])  # type: ignore[no-any-return]


class Adam(_Moments):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr c m / (sqrt(v) + eps r), r = sqrt(1 - b2^t), c = r / (1 - b1^t).

    ``amsgrad`` puts the largest v so far under the root. Reddi, Kale and Kumar 2018.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)
        self._amsgrad = amsgrad

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        m, v = self._averages(op, self._filled(p, "moment1"), self._filled(p, "moment2"), g)
        if self._amsgrad:
            largest = self._filled(p, "moment2_max")
            v = op.Max(largest, v)
            self._replace(largest, v)
        power1, power2 = self._powers(op, p, ("beta1_pow_acc", "beta2_pow_acc"))
        root = op.Sqrt(op.Sub(1.0, power2))
        step = op.Div(op.Mul(rate, root), op.Sub(1.0, power1))
        denominator = op.Add(op.Sqrt(v), op.Mul(root, self._epsilon))
        return op.Sub(self._shrunk(op, p, rate), op.Mul(op.Div(m, denominator), step))  # type: ignore[no-any-return]

    def _shrunk(self, op: Builder, p: Variable, rate: Variable) -> Variable:
        """The parameter before its step."""
        return self._present(p)


class AdamW(Adam):
    """Adam with decoupled decay: p is first multiplied by 1 - lr * weight_decay.

    ``apply_decay_param_fun`` takes a parameter's name and says whether it decays; ``lr_ratio`` takes the parameter and gives
    a factor on its learning rate.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters = None,
        weight_decay: float = 0.01,
        lr_ratio: Callable[[Variable], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: GradientClip | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(weight_decay, (int, float)):
            raise ArgumentTypeError(f"AdamW: weight_decay is a number, not {type(weight_decay).__name__}.")
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, amsgrad=amsgrad, name=name)
        self._decays, self._ratio = apply_decay_param_fun, lr_ratio

    def _decayed(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return g

    def _rate_of(self, op: Builder, p: Variable, rate: Variable) -> Variable:
        found = super()._rate_of(op, p, rate)
        return found if self._ratio is None else op.Mul(found, float(self._ratio(p)))

    def _shrunk(self, op: Builder, p: Variable, rate: Variable) -> Variable:
        group = self._group(p)
        decay = self._decay if group is None else group.decay
        if decay is None or decay.coeff == 0.0 or (self._decays is not None and not self._decays(p.name)):
            return self._present(p)
        return op.Mul(self._present(p), op.Sub(1.0, op.Mul(rate, decay.coeff)))  # type: ignore[no-any-return]


class Adamax(_Moments):
    """m = b1 m + (1 - b1) g;  u = max(|g|, b2 u + eps);  p -= lr / (1 - b1^t) * m / u. Kingma and Ba 2015."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        m, u = self._filled(p, "moment"), self._filled(p, "inf_norm")
        power = self._number(p, "beta1_pow_acc", self._beta1)
        new_m = op.Add(op.Mul(m, self._beta1), op.Mul(g, 1.0 - self._beta1))
        new_u = op.Max(op.Abs(g), op.Add(op.Mul(u, self._beta2), self._epsilon))
        for old, new in ((m, new_m), (u, new_u), (power, op.Mul(power, self._beta1))):
            self._replace(old, new)
        step = op.Div(rate, op.Sub(1.0, _scalar(op, power)))
        return op.Sub(self._present(p), op.Mul(op.Div(new_m, new_u), step))  # type: ignore[no-any-return]


class Lamb(_Moments):
    """r = mhat / (sqrt(vhat) + eps) + decay p;  p -= lr |p| / |r| r. You et al. 2020.

    Args:
        exclude_from_weight_decay_fn: takes a parameter and says whether it is left out; its decay and its ratio |p| / |r| are
            then 0 and 1.
        always_adapt: use the ratio without decay too.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: Parameters = None,
        grad_clip: GradientClip | None = None,
        exclude_from_weight_decay_fn: Callable[[Variable], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, None, grad_clip, name)
        self._coefficient, self._excluded, self._always = float(lamb_weight_decay), exclude_from_weight_decay_fn, always_adapt

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        m, v = self._averages(op, self._filled(p, "moment1"), self._filled(p, "moment2"), g)
        power1, power2 = self._powers(op, p, ("beta1_pow_acc", "beta2_pow_acc"))
        root = op.Add(op.Sqrt(op.Div(v, op.Sub(1.0, power2))), self._epsilon)
        direction = op.Div(op.Div(m, op.Sub(1.0, power1)), root)
        present = self._present(p)
        excluded = self._excluded is not None and self._excluded(p)
        decay = 0.0 if excluded else self._coefficient
        if decay:
            direction = op.Add(direction, op.Mul(present, decay))
        if decay or self._always:
            rate = op.Mul(rate, _trust_ratio(op, present, direction))
        return op.Sub(present, op.Mul(direction, rate))  # type: ignore[no-any-return]


def _trust_ratio(op: Builder, p: Variable, direction: Variable) -> Variable:
    """|p| / |direction| where both are positive, else 1"""
    length, step = op.ReduceL2(p, keepdims=0), op.ReduceL2(direction, keepdims=0)
    zero, one = op.constant(0.0, p.dtype), op.constant(1.0, p.dtype)
    both = op.And(op.Greater(length, zero), op.Greater(step, zero))
    return op.Where(both, op.Div(length, op.Where(both, step, one)), one)  # type: ignore[no-any-return]


class NAdam(_Moments):
    """Adam with Nesterov's momentum: with mu_t = b1 (1 - 0.5 * 0.96^(momentum_decay t)) and M_t their product,
    p -= lr (mu_{t+1} m / (1 - M_{t+1}) + (1 - mu_t) g / (1 - M_t)) / (sqrt(v / (1 - b2^t)) + eps). Dozat 2016."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1.0e-8,
        momentum_decay: float = 0.004,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)
        self._momentum_decay = float(momentum_decay)

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
        return op.Sub(self._present(p), op.Mul(op.Div(op.Add(ahead, here), root), rate))  # type: ignore[no-any-return]


class RAdam(_Moments):
    """Adam once enough gradients are seen for its variance to be trusted (rho_t > 5), momentum before. Liu et al. 2020."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1.0e-8,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name)

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
        return op.Sub(self._present(p), op.Mul(op.Mul(m, scaled), step))  # type: ignore[no-any-return]
