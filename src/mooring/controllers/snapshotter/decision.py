"""The decision about a content: actions as values."""

from __future__ import annotations

import dataclasses
import enum

from mooring.api.core import SecretReference
from mooring.base.errors import MooringError
from mooring.control.result import Because
from mooring.controllers.snapshotter.requests import CreateOrder


class Way(enum.Enum):
    """How the driver is asked for a snapshot whose handle is known. NONE: it can't be asked, and is believed to be there."""

    GET = "GetSnapshot"
    LIST = "ListSnapshots"
    NONE = "nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpClass:
    """Ask the API server for the class that the cache lacks, before an error is shown."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class LoadSecret:
    """Fetch the Secret that the next call needs. failed: reason and beginning of the text where that fails. saved: in the status, too.
    needed: False where there is another way without it.
    """

    ref: SecretReference
    failed: tuple[str, str]
    saved: bool = True
    needed: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """Write down that the driver may have been asked to make the snapshot."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unmark:
    """The mark has no meaning any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Call CreateSnapshot."""

    order: CreateOrder


@dataclasses.dataclass(frozen=True, slots=True)
class LookFor:
    """Look in the driver's list for what an earlier request of this order may have made. secret: that the question needs."""

    order: CreateOrder
    secret: LoadSecret | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Ask the driver for the state of a snapshot. learn: ask for its capabilities first, and let these choose the way."""

    handle: str
    way: Way
    learn: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Call DeleteSnapshot."""

    handle: str


@dataclasses.dataclass(frozen=True, slots=True)
class Tell:
    """A Warning on the content."""

    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class ClearStatus:
    """The snapshot is no more: handle, size, time and readiness go from the status."""


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Remove our finalizer."""


Action = LookUpClass | LoadSecret | Mark | Unmark | Create | LookFor | Ask | Delete | Tell | ClearStatus | Release


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What the user is told. retries: after a back-off; else the next change brings the content again. saved: in the status, too."""

    event: str
    error: str
    retries: bool = True
    saved: bool = True


class Failed(MooringError):
    """An action failed. failure: what the user is told."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class Unsaved(Failed):
    """The API server does not take what the driver has answered."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order. failure: told after them. uid: of the content that was decided on. done: one line for the log.

    after_s: until the next look, None for the next change. is_foreign: its class is another driver's.
    """

    because: Because
    actions: tuple[Action, ...] = ()
    failure: Failure | None = None
    uid: str = ""
    done: str = ""
    after_s: float | None = None
    is_foreign: bool = False
