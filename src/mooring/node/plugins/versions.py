"""Which version of CSI a plugin and this node have in common. Pure. Source: kubelet 1.36, pkg/volume/csi."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Version = tuple[int, ...]

_VERSION: Final = re.compile(r"v?(\d+)((?:\.\d+)*)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
MAJOR: Final = 1


def highest_supported(versions: Iterable[str]) -> Version | None:
    """The highest of a plugin's versions that this node speaks, as numbers; None when there is none. What is no version is passed over."""
    known = [version for text in versions if (version := _numbers(text)) is not None and version[0] <= MAJOR]
    best = max(known, default=None)
    return best if best is not None and best[0] == MAJOR else None


def _numbers(text: str) -> Version | None:
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    return (int(found[1]), *(int(part) for part in found[2].split(".")[1:]))
