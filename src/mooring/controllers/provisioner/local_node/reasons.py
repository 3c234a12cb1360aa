"""Every reason that a node bids for a claim, or does not, in a user's words."""

from __future__ import annotations

import dataclasses
from typing import Protocol


class Because(Protocol):
    """A reason; str() tells it to people."""

    def __str__(self) -> str: ...


@dataclasses.dataclass(frozen=True, slots=True)
class NotFree:
    """why: in the claim's or the class's words."""

    why: str

    def __str__(self) -> str:
        return f"no node bids for it: {self.why}"


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    node_name: str

    def __str__(self) -> str:
        return f'node "{self.node_name}" makes its volume'


@dataclasses.dataclass(frozen=True, slots=True)
class NotAllowedHere:
    why: str

    def __str__(self) -> str:
        return f"its class does not allow this node: {self.why}"


@dataclasses.dataclass(frozen=True, slots=True)
class LookingUp:
    what: str

    def __str__(self) -> str:
        return f"{self.what} is looked up first"


@dataclasses.dataclass(frozen=True, slots=True)
class Bidding:
    node_name: str

    def __str__(self) -> str:
        return f'node "{self.node_name}" bids for it'


@dataclasses.dataclass(frozen=True, slots=True)
class NoRoom:
    needed_bytes: int

    def __str__(self) -> str:
        return f"there is no room for its {self.needed_bytes} bytes here: another node may have it"
