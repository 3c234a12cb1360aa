"""JSON in a few words for one line. Ids are whole, to be pasted; other long values are cut, and left out of a full
line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

from mooring.api.quantity import Quantity
from mooring.base.json_text import from_json

VALUE_MAX: Final = 120
LINE_MAX: Final = 400
"""Characters of a line from which on only ids are added."""
_ENTRIES_MAX: Final = 5

_ID: Final = re.compile(r"[-_](ids?|path)$")
"""Names of values that people paste: they are never cut."""
_PRECONDITIONS: Final = frozenset({"metadata.resourceVersion", "metadata.uid"})
"""Fields of a patch that change nothing."""
_TYPE: Final = re.compile(r"\btype=")
"""The common prefix of the entries of a list of capabilities."""


def message_summary(text: str) -> str:
    """A CSI message: `volume_id=vol-1 readonly=true`. text: its one-line JSON, "" gives ""."""
    return _line(" ", _leaves("", from_json(text))) if text else ""


def patch_summary(body: Any) -> str:
    """A patch: `status.attached=true`; the steps of a JSON patch one after the other, without its tests."""
    if isinstance(body, list):
        return _line(", ", ((step["path"], _operation(step)) for step in body if step["op"] != "test"))
    return _line(" ", _fields("", body))


def _line(between: str, parts: Iterable[tuple[str, str]]) -> str:
    """The parts, each given with its name, as far as there is room; ids in any case."""
    kept: list[str] = []
    length, is_full = 0, False
    for name, text in parts:
        length += len(text)
        if length > LINE_MAX and kept and not _ID.search(name):
            is_full = True
        else:
            kept.append(text)
    return between.join(kept) + (" …" if is_full else "")


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each value by its own name alone, as (name, name=value); those that say that all is well are left out."""
    if name == "volume_condition" and not value.get("abnormal"):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(key, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        words = [_TYPE.sub("", _line(" ", _leaves("", one))) for one in value[:_ENTRIES_MAX]]
        yield name, f"{name}=[{', '.join(words)}]{_more(value)}"
    else:
        yield name, f"{name}={Quantity(Decimal(value), 'binary') if name.endswith('_bytes') else _plain(name, value)}"


def _fields(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each value by its whole path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(f"{path}.{key}" if path else key, inner)
    else:
        if path not in _PRECONDITIONS:
            yield path, f"{path.removeprefix('metadata.')}={_plain(path, value)}"


def _operation(step: dict[str, Any]) -> str:
    value = f" {_plain(step['path'], step['value'])}" if "value" in step else ""
    return f"{step['op']} {step['path']}{value}"


def _plain(name: str, value: Any) -> str:
    if isinstance(value, list):
        return json.dumps(value[:_ENTRIES_MAX], ensure_ascii=False) + _more(value)
    text = value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_MAX or _ID.search(name) else f"{text[: VALUE_MAX - 1]}…"


def _more(values: list[Any]) -> str:
    return f" and {len(values) - _ENTRIES_MAX} more" if len(values) > _ENTRIES_MAX else ""
