"""The decision about a group content: actions as values."""

from __future__ import annotations

import dataclasses

from mooring.control.result import Because
from mooring.controllers.snapshotter.decision import Failure, LoadSecret, Tell
from mooring.controllers.snapshotter.groups.requests import CreateGroupOrder, GroupHandles


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """Write down that the driver may have been asked to make the group."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unmark:
    """The mark has no meaning any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Call CreateVolumeGroupSnapshot."""

    order: CreateGroupOrder


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Call GetVolumeGroupSnapshot."""

    handles: GroupHandles


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Call DeleteVolumeGroupSnapshot."""

    handles: GroupHandles


@dataclasses.dataclass(frozen=True, slots=True)
class ClearStatus:
    """The group is no more: what is said of it goes from the status."""


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Remove our finalizer."""


Action = LoadSecret | Mark | Unmark | Create | Ask | Delete | Tell | ClearStatus | Release


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order. failure: told after them. uid: of the content that was decided on. done: one line for the log."""

    because: Because
    actions: tuple[Action, ...] = ()
    failure: Failure | None = None
    uid: str = ""
    done: str = ""
