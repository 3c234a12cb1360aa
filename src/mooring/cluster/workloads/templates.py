"""Hashes of templates, for names and labels; shares of a number of pods. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Those of which no bad word is made."""


def template_hash(template: Mapping[str, Any], collisions: int | None) -> str:
    """Looks like upstream's, and is another one: that hashes Go's structs. collisions: how often the hash met another template's."""
    text = msgspec.json.encode([template, collisions], order="deterministic")
    number = int.from_bytes(hashlib.blake2b(text, digest_size=4).digest())
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def share_of(share: int | str | None, total: int, *, up: bool) -> int:
    """A number of pods, given as it is or as a percentage. up: rounds up."""
    if share is None:
        return 0
    if isinstance(share, int):
        return share
    part = int(share.removesuffix("%")) * total / 100
    return math.ceil(part) if up else math.floor(part)


def with_label(template: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    meta = template.get("metadata") or {}
    return {**template, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), name: value}}}


def without_label(template: Mapping[str, Any], name: str) -> dict[str, Any]:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != name}
    rest = {key: value for key, value in meta.items() if key != "labels"}
    return {**template, "metadata": {**rest, **({"labels": labels} if labels else {})}}
