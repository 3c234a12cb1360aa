"""What the store answers."""

from __future__ import annotations

import dataclasses

from mooring.apiserver.table import Stored


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """A list or a page of it. remaining: None where it is not known."""

    items: tuple[Stored, ...]
    version: int
    continue_token: str = ""
    remaining: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What a create, update or patch left behind. gone: the last finalizer went, and the object with it."""

    stored: Stored
    created: bool = False
    gone: bool = False
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Deleted:
    """gone: False when finalizers hold the object, which is then marked."""

    stored: Stored
    gone: bool
