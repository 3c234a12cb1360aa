"""One text for a value, the same in every process: sets are sorted, what has an address is left out."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import msgspec


def shown(value: Any) -> str:
    """As repr() of records, with the fields that differ from their defaults."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str | bytes | int | float | bool | type(None)):
        return repr(value)
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(shown, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{shown(key)}: {shown(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(shown, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown_fields = (field for field in dataclasses.fields(value) if field.repr)
        names = [field.name for field in shown_fields if not _is_default(field.default, getattr(value, field.name))]
        return _record(value, names)
    if isinstance(value, msgspec.Struct):
        first = len(value.__struct_fields__) - len(value.__struct_defaults__)
        defaults = dict(zip(value.__struct_fields__[first:], value.__struct_defaults__, strict=True))
        pairs = [(name, defaults.get(name, msgspec.NODEFAULT)) for name in value.__struct_fields__]
        return _record(value, [name for name, default in pairs if not _is_default(default, getattr(value, name))])
    if isinstance(value, Exception):
        return f"{type(value).__name__}({str(value)!r})"
    return type(value).__name__


def _is_default(default: Any, value: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _record(value: Any, names: list[str]) -> str:
    return f"{type(value).__name__}({', '.join(f'{name}={shown(getattr(value, name))}' for name in names)})"
