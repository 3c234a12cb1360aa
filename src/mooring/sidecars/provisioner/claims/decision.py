"""The next work for a claim, as values, for `control/decision.py`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mooring.sidecars.provisioner.claims.view import Wanted
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure


class Begin(msgspec.Struct, frozen=True):
    """Report to the user that an attempt has begun, once for each."""


class LookUp(msgspec.Struct, frozen=True):
    """Read an object that no cache holds from the API server; then decide again."""

    wanted: Wanted


class LeaveToPopulator(msgspec.Struct, frozen=True):
    """Report that a volume populator fills the volume."""


class Create(msgspec.Struct, frozen=True):
    """Hold the source, store the intent, call CreateVolume, store the volume. class_name, source_kind: for metrics."""

    order: Order
    class_name: str
    source_kind: str


class CleanUp(msgspec.Struct, frozen=True):
    """Call DeleteVolume again, for a volume of no use whose deletion was begun: the intent names it."""

    order: Order
    class_name: str
    source_kind: str


class Fail(msgspec.Struct, frozen=True):
    """The attempt failed before the driver was called."""

    failure: Failure
    class_name: str
    source_kind: str


class CountFailure(msgspec.Struct, frozen=True):
    """In the metrics alone."""

    class_name: str
    source_kind: str


class CloseIntent(msgspec.Struct, frozen=True):
    """Its volume is stored."""


class ReleaseSource(msgspec.Struct, frozen=True):
    """The claim has its volume, which needs no source any more."""


Action: TypeAlias = (
    Begin | LookUp | LeaveToPopulator | Create | CleanUp | Fail | CountFailure | CloseIntent | ReleaseSource
)
