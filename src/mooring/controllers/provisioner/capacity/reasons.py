"""Every reason that the publishing of capacity can have, in a user's words."""

from __future__ import annotations

import dataclasses
from typing import Protocol


class Because(Protocol):
    """A reason; str() tells it to people."""

    def __str__(self) -> str: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Obsolete:
    """No such class, or no such place, any more."""

    def __str__(self) -> str:
        return "no class of the driver, or no node of it, is meant any more: nothing is published"


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    def __str__(self) -> str:
        return "the driver is asked how much room there is"


@dataclasses.dataclass(frozen=True, slots=True)
class UpToDate:
    def __str__(self) -> str:
        return "what is published is what the driver says"


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    capacity: str

    def __str__(self) -> str:
        return f"the driver says that there is room for {self.capacity}"
