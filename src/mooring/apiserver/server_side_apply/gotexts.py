"""Writes JSON values as Go's formats do: so kube-apiserver shows values of a wrong type in an apply. Long ones are
cut.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.apiserver.field_errors import cut

_SHOWN_MAX: Final = 200


def plain(value: Any) -> str:
    """As `%v` of a pointer to it."""
    return f"&{{{cut(_plain(value), _SHOWN_MAX)}}}"


def syntax(value: Any) -> str:
    """As `%#v`."""
    return f"&value.valueUnstructured{{Value:{cut(_syntax(value), _SHOWN_MAX)}}}"


def type_name(value: Any) -> str:
    """As `%T`."""
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return (
        "bool"
        if isinstance(value, bool)
        else "string"
        if isinstance(value, str)
        else "float64"
        if isinstance(value, float)
        else "int64"
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_plain(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_plain, value))}]"
    return "<nil>" if value is None else value if isinstance(value, str) else _scalar(value)


def _syntax(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "map[string]interface "
            f"{{}}{{{', '.join(f'{_scalar(name)}:{_syntax(value[name])}' for name in sorted(value))}}}"
        )
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_syntax, value))}}}"
    return "interface {}(nil)" if value is None else _scalar(value)


def _scalar(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
