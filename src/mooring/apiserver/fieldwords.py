"""What fields are for, in a few words of our own: `kubectl explain` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TEXT: Final = ""
_NOTHING: Final[Mapping[str, str]] = {}


def words_for(message: str) -> Mapping[str, str]:
    """By field; "" is the message itself."""
    return _NOTHING
