"""Self-contained web pages: one file with its style, its script and its data, which loads nothing and sends nothing.

Tests: tests/pages/test_graph.py.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from importlib.resources import files
from typing import Any

__all__ = ["asset", "page"]


def asset(name: str) -> str:
    """Read a style or script next to this module."""
    return (files("onnxgrad.pages") / name).read_text(encoding="utf-8")


def page(title: str, body: str, style: str, script: str, data: Any) -> str:
    """An HTML document.

    Args:
        title: plain text.
        body: HTML. Text of a file is left to the script, which sets it as text.
        style: CSS, behind ``page.css``.
        script: JavaScript, behind ``page.js``; ``data`` is there.
        data: what JSON can hold; numbers that are not finite become null.

    Returns:
        The text. Its policy allows this script only, by its hash, so that no text of a file can run.
    """
    style, script = f"\n{asset('page.css')}{style}", f"\n{asset('page.js')}{script}"
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{hashed}'"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{style}</style>
{body}
<script type="application/json" id="data">{_embedded(data)}</script>
<script>{script}</script>
</html>
"""


def _embedded(data: Any) -> str:
    """JSON that no parser of HTML takes for the end of its element"""
    text = json.dumps(_finite(data), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
