"""Parameter groups: options that hold for some parameters of an optimizer alone.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.regularizer import as_decay

__all__ = ["Group", "own_group", "read_groups"]

_KEYS = {"params", "learning_rate", "weight_decay", "grad_clip"}


class Group(NamedTuple):
    """Parameters (variables or names) with their factor on the learning rate, their decay, their clipping, and ``options`` of
    the optimizer, such as ``beta1``.
    """

    members: list[Variable | str]
    rate: float
    decay: Any
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
    parameters: Sequence[Variable | str | dict[str, Any]] | None, decay: Any, clip: GradientClip | None, own_options: set[str]
) -> tuple[list[Variable | str] | None, list[Group]]:
    """Read the ``parameters`` of an optimizer: all members, and the groups among them.

    Raises:
        ArgumentTypeError: if it is not a list.
        ArgumentError: if a group lacks ``params``, or has a key that is neither an option of all groups nor in ``own_options``.
    """
    if parameters is None:
        return None, []
    if isinstance(parameters, (str, Variable)):
        raise ArgumentTypeError(f"parameters is a list of Variables, names or groups, not one {type(parameters).__name__}.")
    members: list[Variable | str] = []
    groups: list[Group] = []
    for item in parameters:
        if not isinstance(item, dict):
            members.append(item)
            continue
        allowed = (_KEYS | own_options) - {"params"}
        if "params" not in item or set(item) - _KEYS - own_options:
            raise ArgumentError(f"a parameter group has 'params' and may have {sorted(allowed)}; found {sorted(item)}.")
        own = [item["params"]] if isinstance(item["params"], Variable) else list(item["params"])
        own_decay = as_decay(item["weight_decay"]) if "weight_decay" in item else decay
        options = {f"_{key}": value for key, value in item.items() if key not in _KEYS}
        groups.append(Group(own, float(item.get("learning_rate", 1.0)), own_decay, item.get("grad_clip", clip), options))
        members += own
    return members, groups
