"""State in a scope as a mapping of OrtValues by name: what the phases of a step read and write.

Tests: tests/distributed/test_pipeline.py, tests/distributed/test_trainer_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of

__all__ = ["ScopeState"]


class ScopeState(Mapping[str, Any]):
    """OrtValues by name, in a scope: what is set here is a weight for whoever reads the scope.

    A value that is read may be held by somebody else too, and is not written to.

    Args:
        scope: where the values are.
        variables: whose values these are.
    """

    def __init__(self, scope: Scope, variables: Iterable[Variable]) -> None:
        self.scope = scope
        self._variables = {v.name: v for v in variables}

    def __getitem__(self, name: str) -> Any:
        buffer = self.scope.present(name)
        if not isinstance(buffer, Buffer) or buffer.value.device_name() != "cpu":
            buffer = Buffer(value_of(np.asarray(self._variables[name].get_value(self.scope))))
            self.scope.put(name, buffer)
        return buffer.value

    def __setitem__(self, name: str, value: Any) -> None:
        self.scope.put(name, Buffer(value))

    def update(self, values: Mapping[str, Any]) -> None:
        """Set several."""
        for name, value in values.items():
            self[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._variables

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)
