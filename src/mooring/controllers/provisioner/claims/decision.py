"""What can be decided for one claim: actions, and a decision of them with its reason."""

from __future__ import annotations

import dataclasses

from mooring.control.result import Because
from mooring.controllers.provisioner.claims.outcomes import Failure
from mooring.controllers.provisioner.claims.requests import Order
from mooring.controllers.provisioner.claims.view import Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the API server for what no cache holds; then decide again."""

    wanted: Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class LeaveToPopulator:
    """Tell the user that somebody else fills the volume."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Hold the source, write down the intent, call CreateVolume, store the volume."""

    order: Order


Action = LookUp | LeaveToPopulator | Create


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """attempting: an attempt has begun, which the user is told. failure: what the attempt came to, for the user; None: no failure.

    settled: the intent's volume is stored: it can be closed. has_volume: and needs no source any more. wait_s: nothing is tried before
    that, unless something changes. counts_failure: in the metrics, though the user is told nothing. class_name, source_kind: for metrics.
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
