"""Short descriptions of fields in our own words, for `kubectl explain`: of the kinds about storage, not of all.

They stand in `fieldwords.txt`, a line for each message and field, which is read when somebody first asks.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping


def words_for(message: str) -> Mapping[str, str]:
    """The words by field; "" is the message itself."""
    return _by_message().get(message, {})


@functools.cache
def _by_message() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    lines = importlib.resources.files("mooring.apiserver.discovery").joinpath("fieldwords.txt").read_text("utf-8")
    for line in lines.splitlines():
        place, _, words = line.partition(": ")
        message, _, field = place.partition(".")
        found.setdefault(message, {})[field] = words
    return found
