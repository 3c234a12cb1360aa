"""Every reason of the pod garbage collector, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


@reason("somebody else takes care of it")
class Kept:
    pass


@reason("it was removed by force, and its finalizers keep it")
class Removed:
    pass


@reason("it is being deleted and was never on a node")
class Unscheduled:
    pass


@reason('its node "{node_name}" is gone')
class NodeGone:
    node_name: str


@reason('its node "{node_name}" is not to be seen; it may come within {left_s:g} s')
class NodeMissing:
    node_name: str
    left_s: float


@reason('it is being deleted, and its node "{node_name}" is not ready and out of service')
class OutOfService:
    node_name: str


@reason("{count} pods have ended, and {threshold} may stay")
class TooMany:
    count: int
    threshold: int


@reason("no more pods have ended than may stay")
class FewEnough:
    pass
