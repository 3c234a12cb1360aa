"""The decision about a group snapshot: writes as values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mooring.api.meta import Kind, Object
from mooring.cluster.snapshots.decision import Failure, HoldClaim, LookUp, Tell
from mooring.control.result import Because
from mooring.kube.cluster import Patch


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Create this object; one of its name that is there already is looked at anew. failed: the reason of the Warning where it fails.

    text: the beginning of its message. saved: in the status, too. also: reason and beginning of a second Warning.
    """

    kind: Kind[Any]
    body: Mapping[str, Any]
    failed: str
    text: str = ""
    saved: bool = False
    also: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """Patch this very object. binds: the uid of the group to which that gives a content."""

    kind: Kind[Any]
    obj: Object
    patch: Patch
    failed: str
    subresource: str = ""
    binds: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    kind: Kind[Any]
    obj: Object
    failed: str
    text: str = ""


Action = Create | Write | Delete | HoldClaim | LookUp | Tell


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order. failure: told after them. again: there is more to decide at once. done: one line for the log.

    after_s: until the next look, None for the next change.
    """

    because: Because
    actions: tuple[Action, ...] = ()
    failure: Failure | None = None
    again: bool = False
    done: str = ""
    after_s: float | None = None
