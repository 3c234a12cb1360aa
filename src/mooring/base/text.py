"""Text that has to fit."""

from __future__ import annotations


def shortened(text: str, bytes_max: int) -> str:
    """The text in at most so many bytes of valid UTF-8; what was cut ends in `...`. bytes_max: at least 3."""
    assert bytes_max >= 3
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= bytes_max:
        return encoded.decode("utf-8")
    return encoded[: bytes_max - 3].decode("utf-8", "ignore") + "..."


def quoted(text: str) -> str:
    """In double quotes, as Go's %q has it for plain text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
