"""What the reasons of binder and scheduler are made of.

`str()` is a sentence for people. A reason that users get an event for has an `event`, byte for byte as kube-controller-manager writes it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mooring.control import result
from mooring.control.reasons import reason


class EventText(NamedTuple):
    """An event. type: Normal or Warning."""

    type: str
    reason: str
    message: str


class Because(result.Because, Protocol):
    """A reason. event: for users, None for none."""

    @property
    def event(self) -> EventText | None: ...


class Quiet:
    """A reason without an event."""

    __slots__ = ()

    @property
    def event(self) -> EventText | None:
        return None


@reason('"{name}" does not exist: nothing to do')
class Gone(Quiet):
    name: str
