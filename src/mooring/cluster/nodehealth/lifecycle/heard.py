"""When a node was last heard of, by the clock of this process: what its Lease and status say of time may come from a wrong clock. Pure."""

from __future__ import annotations

import dataclasses

from mooring.api.coordination import Lease
from mooring.api.core import Node
from mooring.api.nodes import READY, condition_of
from mooring.base.clock import Instant, parse_rfc3339


@dataclasses.dataclass(frozen=True, slots=True)
class Heard:
    """at: when the last sign of life was seen. has_ready, heartbeat, renewed: the condition Ready, its heartbeat and the Lease's renewTime
    as they were seen.
    """

    at: Instant
    has_ready: bool
    heartbeat: str | None = None
    renewed: str | None = None


def heard_of_node(before: Heard | None, node: Node, now: Instant, wall_s: float) -> Heard:
    """A node without a status counts from its creation; a first status, a lost one, and each heartbeat are signs of life."""
    ready = condition_of(node, READY)
    heartbeat = ready.last_heartbeat_time if ready is not None else None
    if before is None:
        return Heard(now if ready is not None else now - _age_s(node, wall_s), ready is not None, heartbeat)
    is_sign = before.has_ready != (ready is not None) or before.heartbeat != heartbeat
    return dataclasses.replace(before, at=now if is_sign else before.at, has_ready=ready is not None, heartbeat=heartbeat)


def heard_of_lease(before: Heard, lease: Lease | None, now: Instant) -> Heard:
    """Any other renewTime is a sign of life, an earlier one, too: a node's clock may be set back."""
    renewed = lease.spec.renew_time if lease is not None else None
    if renewed is None or renewed == before.renewed:
        return before
    return dataclasses.replace(before, at=now, renewed=renewed)


def _age_s(node: Node, wall_s: float) -> float:
    created = node.metadata.creation_timestamp
    return max(0.0, wall_s - parse_rfc3339(created)) if created else 0.0
