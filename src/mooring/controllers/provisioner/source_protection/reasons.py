"""Every reason that source protection can have, in a user's words."""

from __future__ import annotations

import dataclasses
from typing import Protocol


class Because(Protocol):
    """A reason; str() tells it to people."""

    def __str__(self) -> str: ...


@dataclasses.dataclass(frozen=True, slots=True)
class NotHeld:
    def __str__(self) -> str:
        return "it has no finalizer of source protection: nothing to do"


@dataclasses.dataclass(frozen=True, slots=True)
class OfAnother:
    def __str__(self) -> str:
        return "its volume is another driver's, or this one makes no clones: its finalizer is not ours to take off"


@dataclasses.dataclass(frozen=True, slots=True)
class NotDeleted:
    def __str__(self) -> str:
        return "nobody deletes it: its finalizer is in nobody's way, and serves the next clone"


@dataclasses.dataclass(frozen=True, slots=True)
class InUse:
    """claims: those that need it, by name."""

    claims: tuple[str, ...]

    def __str__(self) -> str:
        return f"volumes are being made from it, for {', '.join(self.claims[:3])}{' and others' * (len(self.claims) > 3)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Unused:
    def __str__(self) -> str:
        return "no volume is being made from it: the finalizer goes"


@dataclasses.dataclass(frozen=True, slots=True)
class Stray:
    """A finalizer that some process left behind, or has just put there for a claim that is not known here as yet."""

    grace_s: float

    def __str__(self) -> str:
        return f"no claim needs it; its finalizer goes if that holds for {self.grace_s:g} s"
