"""The parts of all reasons of the binder and the scheduler; beside them the reasons of protections and ephemeral
volumes.

`str()` is a sentence for people. A reason that users get an event for has an `event`, byte for byte as
kube-controller-manager writes it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mooring.control.reasons import reason
from mooring.control.result import Because


class EventText(NamedTuple):
    """An event. type: Normal or Warning."""

    type: str
    reason: str
    message: str


class Told(Because, Protocol):
    """A reason that users get an event for."""

    @property
    def event(self) -> EventText: ...


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


# -- ephemeral volumes


@reason("{count} claims are to be made")
class ClaimsNeeded:
    count: int


@reason("{problem}")
class ForeignClaim:
    """A claim of that name has another owner."""

    problem: str

    @property
    def error(self) -> str:
        return self.problem


# -- protections


@reason("protection: {step}")
class Protection:
    """step: the next step for the finalizer."""

    step: str


@reason("still used by {holder}{over}")
class InUse:
    """holder: what keeps the object from being deleted. finished: the holder is a pod that has ended."""

    holder: str
    finished: bool = False

    @property
    def over(self) -> str:
        return ", which is finished and counts until it is deleted" if self.finished else ""
