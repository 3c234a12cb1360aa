"""The actions for one claim, and a decision: an action with its reason."""

from __future__ import annotations

import dataclasses

from mooring.control.result import Because
from mooring.sidecars.provisioner.claims.view import Wanted
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure


@dataclasses.dataclass(frozen=True, slots=True)
class LookUp:
    """Read an object that no cache holds from the API server; then decide again."""

    wanted: Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class LeaveToPopulator:
    """Report that a volume populator fills the volume."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Hold the source, store the intent, call CreateVolume, store the volume."""

    order: Order


@dataclasses.dataclass(frozen=True, slots=True)
class CleanUp:
    """Call DeleteVolume again, for a volume of no use whose deletion was begun: the intent names it."""

    order: Order


Action = LookUp | LeaveToPopulator | Create | CleanUp


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """attempting: an attempt has begun, which is reported to the user. failure: of the attempt, for the user; None: no failure.

    closes_intent: the volume is stored. has_volume: and needs no source any more. wait_s: nothing is tried before
    that, unless something changes. counts_failure: in the metrics alone. class_name, source_kind: for metrics.
    """

    because: Because
    action: Action | None = None
    attempting: bool = False
    failure: Failure | None = None
    closes_intent: bool = False
    has_volume: bool = False
    counts_failure: bool = False
    wait_s: float | None = None
    class_name: str = ""
    source_kind: str = ""
