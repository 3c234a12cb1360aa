"""Reads the lock files, for tests that compare them with what they were made from."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def locked(file: str) -> dict[str, tuple[str, str]]:
    """Version and everything said about each package in a lock file."""
    parts = re.split(r"^(?=[A-Za-z0-9])", (ROOT / file).read_text(), flags=re.MULTILINE)[1:]
    heads = [re.match(r"(\S+)==(\S+)", part) for part in parts]
    return {head[1]: (head[2], part) for head, part in zip(heads, parts, strict=True) if head}
