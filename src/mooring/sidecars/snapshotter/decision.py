"""The actions of a decision about a content, as values."""

from __future__ import annotations

import enum

import msgspec

from mooring.api.core import SecretReference
from mooring.control.decision import Destroys
from mooring.sidecars.snapshotter.requests import CreateOrder, Made


class Way(enum.Enum):
    """How the driver is asked for what it has made. NONE: it can't be asked, and is believed to have it."""

    GET = "GetSnapshot"
    LIST = "ListSnapshots"
    GET_GROUP = "GetVolumeGroupSnapshot"
    NONE = "nothing"


class NoteClass(msgspec.Struct, frozen=True):
    """Remember since when the content's class is another driver's, or that it is no more."""

    is_foreign: bool


class LookUpClass(msgspec.Struct, frozen=True):
    """Ask the API server for the class that the cache lacks, before an error is shown."""

    name: str


class LoadSecret(msgspec.Struct, frozen=True):
    """Fetch the Secret that the next call needs. failed: reason and beginning of the text where that fails. saved: in
    the status, too. needed: False where there is another way without it.
    """

    ref: SecretReference
    failed: tuple[str, str]
    saved: bool = True
    needed: bool = True


class Mark(msgspec.Struct, frozen=True):
    """Write down that the driver may have been asked to make the snapshot."""


class Unmark(msgspec.Struct, frozen=True):
    """Remove the mark, which has no meaning any more."""


class Create(msgspec.Struct, frozen=True):
    """Call CreateSnapshot, or CreateVolumeGroupSnapshot."""

    order: CreateOrder


class Ask(msgspec.Struct, frozen=True):
    """Ask the driver for the state of a snapshot, or of a group. learn: ask for its capabilities first, and let these
    choose the way.
    """

    made: Made
    way: Way
    learn: bool = False


class Delete(Destroys, msgspec.Struct, frozen=True):
    """Call DeleteSnapshot, or DeleteVolumeGroupSnapshot."""

    made: Made


class Tell(msgspec.Struct, frozen=True):
    """Tell users by a Warning on the content."""

    reason: str
    message: str


class ClearStatus(msgspec.Struct, frozen=True):
    """The snapshot is no more: handle, size, time and readiness go from the status."""


class Release(msgspec.Struct, frozen=True):
    """Remove our finalizer. left_to: another content that stands for the snapshot, "" for none."""

    left_to: str = ""


Action = NoteClass | LookUpClass | LoadSecret | Mark | Unmark | Create | Ask | Delete | Tell | ClearStatus | Release


class Failure(msgspec.Struct, frozen=True):
    """A text for users. event: the reason. saved: in the status, too. A decision's own waits for a change; others are
    tried again.
    """

    event: str
    error: str
    saved: bool = True

    def __str__(self) -> str:
        return self.error
