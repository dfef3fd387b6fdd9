"""The public names of Paddle's API, by namespace: those that Paddle 3.3.1 lists, and those of earlier releases and of modules.

``names.json`` is written by ``scripts/record_paddle`` where Paddle is installed, with the kind and the signature of each name.

``earlier.json`` holds names of 2.x and 1.x that 3.3.1 does not list, and modules that it has without listing them.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["NAMES", "RECORD"]

_HERE = Path(__file__).parent

RECORD: dict[str, dict[str, dict[str, str]]] = json.loads((_HERE / "names.json").read_text(encoding="utf-8"))["names"]
"""Kind and signature of each name of Paddle 3.3.1, by namespace."""

_EARLIER: dict[str, list[str]] = json.loads((_HERE / "earlier.json").read_text(encoding="utf-8"))

NAMES: dict[str, list[str]] = {
    namespace: sorted({*RECORD.get(namespace, ()), *_EARLIER.get(namespace, ())}, key=lambda name: (name.lower(), name))
    for namespace in dict.fromkeys([*RECORD, *_EARLIER])
}
