"""One log record as one line: klog's text, and Kubernetes' JSON.

Pure functions of the record. Only `Lines` spread a record of the text form over several lines. No record fails: the
line names a value that can't be shown, since logging must not break the work that is logged. Source: klog's text header
and key=value form; Kubernetes' JSON logging (component-base).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final


@dataclasses.dataclass(frozen=True, slots=True)
class LineHead:
    """The beginning of every line. letter: I, W or E. level: 0 for warnings, without meaning for errors. caller:
    file.py:12.
    """

    letter: str
    level: int
    message: str
    caller: str
    wall_s: float
    pid: int


class Lines(str):
    """A text to be read as lines, such as a traceback. The JSON form has it in one field, as any text.

    Differs from klog, which shows every text with a line end in it so: what others have written into a value never
    looks like a record.
    """

    __slots__ = ()


def text_line(head: LineHead, values: Mapping[str, Any], error: BaseException | None) -> str:
    """`I1120 07:04:00.123456       1 file.py:12] "message" err="why" key="value"`."""
    return (
        f"{head.letter}{_klog_time(head.wall_s)} {head.pid:7d} {head.caller}] "
        f"{_with_values(go_quote(head.message), values, error)}"
    )


def plain_text(message: str, values: Mapping[str, Any], error: BaseException | None) -> str:
    """`message err="why" key="value"`: a record without its head, for the forms of others."""
    return _with_values(message, values, error)


def _with_values(message: str, values: Mapping[str, Any], error: BaseException | None) -> str:
    parts = [message]
    if error is not None:
        parts.append(f"err={go_quote(_shown(error))}")
    parts.extend(
        f"{_text_key(key)}={_block(value) if isinstance(value, Lines) else _text_value(value)}"
        for key, value in values.items()
    )
    return " ".join(parts)


def json_line(head: LineHead, values: Mapping[str, Any], error: BaseException | None) -> str:
    """`{"ts":1.5,"caller":"file.py:12","msg":"message","v":0,"key":"value","err":"why"}`; ts in milliseconds, no v on
    errors.
    """
    fields: dict[str, Any] = {"ts": round(head.wall_s * 1000, 3), "caller": head.caller, "msg": head.message}
    if head.letter != "E":
        fields["v"] = head.level
    if error is not None:
        fields["err"] = None  # takes the name, so that a value called err can't hide it
    for key, value in values.items():
        fields[f"{key}_" if key in fields else key] = _json_value(value)
    if error is not None:
        del fields["err"]
        fields["err"] = _shown(error)
    return _dumps(fields)


_AS_IS: Final = frozenset('"\\\t')  # what a block shows although quoted text escapes it
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def go_quote(text: str) -> str:
    """The text as Go's %q writes it. Bytes that were no UTF-8 (surrogate escapes) come out as \\x80, other lone
    surrogates as \\ufffd.
    """
    if text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f'"{"".join(map(_go_escape, text))}"'


def _go_escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    point = ord(char)
    if 0xDC80 <= point <= 0xDCFF:
        return f"\\x{point - 0xDC00:02x}"
    if 0xD800 <= point <= 0xDFFF:
        return "\\ufffd"
    if point < 0x20 or point == 0x7F:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _text_key(key: str) -> str:
    return key if key.isprintable() and " " not in key and "=" not in key else go_quote(key)


def _text_value(value: Any) -> str:
    """Strings and what has a text of its own are quoted, references are namespace/name; numbers, booleans, null,
    collections are JSON.
    """
    reference = _safely(_reference, value)
    if isinstance(reference, tuple):
        return go_quote("/".join(filter(None, reference)))
    value = _json_value(value)
    return go_quote(value) if isinstance(value, str) else _dumps(value)


def _block(text: Lines) -> str:
    """`<`, the lines after a tab each, ` >`: so that none of them looks like the head of a record."""
    lines = (
        "\t" + "".join(char if char in _AS_IS else _go_escape(char) for char in line)
        for line in text.rstrip("\n").split("\n")
    )
    return "\n".join(["<", *lines, " >"])


def _reference(value: Any) -> tuple[str, str] | None:
    """(namespace, name) of whatever names an object; None for anything else."""
    name, namespace = getattr(value, "name", None), getattr(value, "namespace", None)
    return (str(namespace), str(name)) if isinstance(name, str) and isinstance(namespace, str) else None


def _json_value(value: Any) -> Any:
    """The value as plain JSON data: str, bool, int, float, None, dict and list pass; all else becomes one of these."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return _safely(_composite, value)


def _composite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(_json_value(key)): _json_value(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted((_json_value(item) for item in value), key=str)
    reference = _reference(value)
    if reference is None:
        return [_json_value(item) for item in value] if isinstance(value, list | tuple) else str(value)
    namespace, name = reference
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _number(value: float) -> float | int | str:
    """Go's JSON writes 15.0 as 15, and has no infinity."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _shown(error: BaseException) -> str:
    """The error's text; its class where it has none."""
    text = str(_safely(str, error))
    return text or type(error).__name__


def _safely(convert: Callable[[Any], Any], value: Any) -> Any:
    """convert(value), or what is wrong with it. Differs from our rule on `except Exception`: a value's own code runs
    here.
    """
    try:
        return convert(value)
    except RecursionError:
        return f"<{type(value).__name__}: nested too deeply>"
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__} while it was shown>"


_UNSAFE: Final = re.compile("[^\x20-\x7e]")


def _dumps(value: Any) -> str:
    """One line of JSON, also for readers that know more line ends than JSON, without lone surrogates, and as a terminal
    may show it.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda other: str(_safely(str, other)))
    return text if text.isprintable() else _UNSAFE.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


_second: tuple[int, str] = (-1, "")


def _klog_time(wall_s: float) -> str:
    """`1120 07:04:00.123456`, local time. The text of the second is kept: most lines share it with the one before."""
    global _second
    micros = int(wall_s * 1_000_000)
    second, fraction = divmod(micros, 1_000_000)
    known, text = _second
    if known != second:
        text = time.strftime("%m%d %H:%M:%S", time.localtime(second))
        _second = (second, text)
    return f"{text}.{fraction:06d}"
