"""JSON in a few words: for one line on a screen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from mooring.api.quantity import Quantity

LENGTH_MAX: Final = 120

_UUID: Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


_TYPE: Final = re.compile(r"\btype=")
"""What each entry of a list of capabilities would begin with."""


def brief_message(text: str) -> str:
    """A CSI message: `volume_id=vol-12345678… readonly=true`. text: its one-line JSON, "" gives ""."""
    return _cut(" ".join(_leaves("", json.loads(text)))) if text else ""


def brief_patch(body: Any) -> str:
    """A patch: `status.attached=true`; the steps of a JSON patch one after the other, without its tests."""
    if isinstance(body, list):
        return _cut(", ".join(_operation(step) for step in body if step["op"] != "test"))
    return _cut(" ".join(_fields("", body)))


def _leaves(name: str, value: Any) -> Iterator[str]:
    """Each value by its own name alone; those that say that all is well are left out."""
    if name == "volume_condition" and not value.get("abnormal"):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(key, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        words = [_TYPE.sub("", " ".join(_leaves("", one))) for one in value]
        yield f"{name}=[{', '.join(words)}]"
    else:
        yield f"{name}={_size(value) if name.endswith('_bytes') else _plain(value)}"


def _fields(path: str, value: Any) -> Iterator[str]:
    """Each value by its whole path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(f"{path}.{key}" if path else key, inner)
    else:
        yield f"{path.removeprefix('metadata.')}={_plain(value)}"


def _operation(step: dict[str, Any]) -> str:
    value = f" {_plain(step['value'])}" if "value" in step else ""
    return f"{step['op']} {step['path']}{value}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)


def _size(value: int) -> str:
    return str(Quantity(Decimal(value), "binary"))


def _cut(text: str) -> str:
    text = _UUID.sub(r"\1…", text)
    return text if len(text) <= LENGTH_MAX else f"{text[: LENGTH_MAX - 1]}…"
