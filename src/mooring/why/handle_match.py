"""One volume has several names: a handle as an object has it, and as the driver lists it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from mooring.api.migration import UNSPECIFIED

_DASHES: Final = str.maketrans("", "", "-_")


def plain(text: str) -> str:
    """What two spellings of a name have in common: drivers change the case of letters and drop dashes."""
    return text.casefold().translate(_DASHES)


class Spellings:
    """The handles that a driver lists, to be found by other spellings of them."""

    def __init__(self, handles: Iterable[str]) -> None:
        self._exact = frozenset(handles)
        self._folded: dict[str, list[str]] = defaultdict(list)
        self._tails: dict[str, list[str]] = defaultdict(list)
        for handle in sorted(self._exact):
            self._folded[handle.casefold()].append(handle)
            self._tails[_tail(handle)].append(handle)

    def meant_by(self, handle: str) -> list[str]:
        """Listed handles that this one surely means: itself, or those that fit what a translated in-tree handle leaves open."""
        if handle in self._exact:
            return [handle]
        if UNSPECIFIED not in handle:
            return []
        return [listed for listed in self.alike(handle) if _fits(handle, listed)]

    def folded(self, handle: str) -> list[str]:
        """Those that differ in the case of letters at the most."""
        return self._folded.get(handle.casefold(), [])

    def named_by(self, handle: str) -> list[str]:
        """Those of which nobody would think that another one is meant."""
        return self.meant_by(handle) or self.folded(handle)

    def alike(self, handle: str) -> list[str]:
        """Those with the same last part of the path, in any case of letters."""
        tail = _tail(handle)
        return self._tails.get(tail, []) if tail else []


def _tail(handle: str) -> str:
    return handle.rstrip("/").rpartition("/")[2].casefold()


def _fits(handle: str, listed: str) -> bool:
    parts, others = handle.split("/"), listed.split("/")
    return len(parts) == len(others) and all(part in (UNSPECIFIED, other) for part, other in zip(parts, others, strict=True))
