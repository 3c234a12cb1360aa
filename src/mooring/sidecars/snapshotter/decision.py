"""The actions of a decision about a content, as values."""

from __future__ import annotations

import dataclasses
import enum

from mooring.api.core import SecretReference
from mooring.sidecars.snapshotter.requests import CreateOrder, Made


class Way(enum.Enum):
    """How the driver is asked for what it has made. NONE: it can't be asked, and is believed to have it."""

    GET = "GetSnapshot"
    LIST = "ListSnapshots"
    GET_GROUP = "GetVolumeGroupSnapshot"
    NONE = "nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class NoteClass:
    """Remember since when the content's class is another driver's, or that it is no more."""

    is_foreign: bool


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
    """Call CreateSnapshot, or CreateVolumeGroupSnapshot."""

    order: CreateOrder


@dataclasses.dataclass(frozen=True, slots=True)
class LookFor:
    """Look in the driver's list for what an earlier request of this order may have made. secret: that the question needs."""

    order: CreateOrder
    secret: LoadSecret | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Ask the driver for the state of a snapshot, or of a group. learn: ask for its capabilities first, and let these choose the way."""

    made: Made
    way: Way
    learn: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Call DeleteSnapshot, or DeleteVolumeGroupSnapshot."""

    made: Made


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


Action = NoteClass | LookUpClass | LoadSecret | Mark | Unmark | Create | LookFor | Ask | Delete | Tell | ClearStatus | Release


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A text for users. event: the reason. saved: in the status, too. A decision's own waits for a change; others are tried again."""

    event: str
    error: str
    saved: bool = True

    def __str__(self) -> str:
        return self.error
