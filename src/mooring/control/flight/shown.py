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
        names = [field.name for field in dataclasses.fields(value) if field.repr and not _is_default(field, getattr(value, field.name))]
        return _record(value, names)
    if isinstance(value, msgspec.Struct):
        pairs = zip(value.__struct_fields__, value.__struct_defaults__[-len(value.__struct_fields__) :] or (), strict=False)
        defaults = dict(pairs) if len(value.__struct_defaults__) == len(value.__struct_fields__) else {}
        return _record(value, [name for name in value.__struct_fields__ if name not in defaults or defaults[name] != getattr(value, name)])
    if isinstance(value, Exception):
        return f"{type(value).__name__}({str(value)!r})"
    return type(value).__name__


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    return field.default is not dataclasses.MISSING and type(value) is type(field.default) and bool(value == field.default)


def _record(value: Any, names: list[str]) -> str:
    return f"{type(value).__name__}({', '.join(f'{name}={shown(getattr(value, name))}' for name in names)})"
