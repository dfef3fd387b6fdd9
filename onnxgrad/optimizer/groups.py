"""Parameter groups: options that hold for some parameters of an optimizer alone.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import as_number, wrong_kind
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.regularizer import WeightDecay, as_decay

__all__ = ["Group", "Parameters", "as_clip", "own_group", "read_groups"]

Parameters: TypeAlias = "Sequence[Variable | str | dict[str, Any]] | None"
"""Of an optimizer: variables or names, or groups; None for all trainable ones."""

_KEYS = {"params", "learning_rate", "weight_decay", "grad_clip"}


class Group(NamedTuple):
    """Parameters (variables or names) with their factor on the learning rate, their decay, their clipping, and ``options`` of
    the optimizer, such as ``beta1``.
    """

    members: list[Variable | str]
    rate: float
    decay: WeightDecay | None
    clip: GradientClip | None
    options: dict[str, Any]

    def holds(self, p: Variable) -> bool:
        names = {member if isinstance(member, str) else member.name for member in self.members if _is_name(member)}
        return any(member is p for member in self.members) or p.name in names


def _is_name(member: Variable | str) -> bool:
    """Whether a parameter is known by its name: given so, or eager, in whose place a program has another."""
    return isinstance(member, str) or member.is_eager


def own_group(groups: Sequence[Group], p: Variable) -> Group | None:
    """The group a parameter is in, if any."""
    return next((group for group in groups if group.holds(p)), None)


def read_groups(
    owner: object, parameters: Parameters, decay: WeightDecay | None, clip: GradientClip | None, own_options: set[str]
) -> tuple[list[Variable | str] | None, list[Group]]:
    """Read the ``parameters`` of an optimizer: all members, and the groups among them.

    Args:
        owner: the optimizer, which an error names.
        parameters: Variables, names and groups, or None for all parameters.
        decay, clip: what holds for groups that have none of their own.
        own_options: the options of this optimizer that a group may have besides, such as ``beta1``.

    Raises:
        ArgumentTypeError: if it is not a list, or something in it is of a wrong kind.
        ArgumentError: if a group lacks ``params``, or has a key that is neither an option of all groups nor in ``own_options``.
    """
    if parameters is None:
        return None, []
    if isinstance(parameters, dict):
        name = type(owner).__name__
        raise ArgumentTypeError(f"{name}: parameters is a list. Give groups as a list of dicts, not one dict.")
    if isinstance(parameters, (str, Variable)) or not isinstance(parameters, Iterable):
        raise wrong_kind(owner, "parameters", "a list of Variables, names or groups", parameters)
    members: list[Variable | str] = []
    groups: list[Group] = []
    for item in parameters:
        if not isinstance(item, dict):
            members.append(_member(owner, "parameters", item))
            continue
        allowed = (_KEYS | own_options) - {"params"}
        if "params" not in item or set(item) - _KEYS - own_options:
            raise ArgumentError(f"a parameter group has 'params' and may have {sorted(allowed)}; found {sorted(item)}.")
        params = item["params"]
        if not isinstance(params, (str, Iterable)):
            raise wrong_kind(owner, "params of a group", "a list of Variables or names", params)
        listed = [params] if isinstance(params, (str, Variable)) else params
        own = [_member(owner, "params of a group", member) for member in listed]
        own_decay = as_decay(owner, item["weight_decay"]) if "weight_decay" in item else decay
        rate = as_number(owner, "learning_rate of a group", item.get("learning_rate", 1.0))
        options = {f"_{key}": value for key, value in item.items() if key not in _KEYS}
        groups.append(Group(own, rate, own_decay, as_clip(owner, item.get("grad_clip", clip)), options))
        members += own
    return members, groups


def _member(owner: object, argument: str, member: object) -> Variable | str:
    if not isinstance(member, (Variable, str)):
        raise wrong_kind(owner, argument, "a list of Variables or names", member)
    return member


def as_clip(owner: object, clip: GradientClip | None) -> GradientClip | None:
    """Read the ``grad_clip`` of an optimizer.

    Raises:
        ArgumentTypeError: if it does not clip gradients.
    """
    if clip is not None and not isinstance(clip, GradientClip):
        raise wrong_kind(owner, "grad_clip", "a ClipGradBy... object", clip)
    return clip
