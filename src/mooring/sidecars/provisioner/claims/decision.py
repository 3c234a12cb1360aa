"""The next work for a claim, as values, for `control/decision.py`."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from mooring.sidecars.provisioner.claims.view import Wanted
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure


@dataclasses.dataclass(frozen=True, slots=True)
class Begin:
    """Report to the user that an attempt has begun, once for each."""


@dataclasses.dataclass(frozen=True, slots=True)
class LookUp:
    """Read an object that no cache holds from the API server; then decide again."""

    wanted: Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class LeaveToPopulator:
    """Report that a volume populator fills the volume."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Hold the source, store the intent, call CreateVolume, store the volume. class_name, source_kind: for metrics."""

    order: Order
    class_name: str
    source_kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class CleanUp:
    """Call DeleteVolume again, for a volume of no use whose deletion was begun: the intent names it."""

    order: Order
    class_name: str
    source_kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class Fail:
    """The attempt failed before the driver was called."""

    failure: Failure
    class_name: str
    source_kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class CountFailure:
    """In the metrics alone."""

    class_name: str
    source_kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class CloseIntent:
    """Its volume is stored."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseSource:
    """The claim has its volume, which needs no source any more."""


Action: TypeAlias = Begin | LookUp | LeaveToPopulator | Create | CleanUp | Fail | CountFailure | CloseIntent | ReleaseSource
