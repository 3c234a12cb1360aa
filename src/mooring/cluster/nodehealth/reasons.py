"""Every reason of node health, in a user's words: of the life of nodes, of evictions, and of pods that are removed by force."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


# -- the life of nodes


@reason("nothing was heard of it for {silent_s:g} s")
class Silent:
    """Neither its Lease nor its status has changed."""

    silent_s: float


@reason("its condition Ready is {ready}")
class Is:
    """ready: "" for a node that has none."""

    ready: str


@reason(
    "its condition Ready is {ready}, and no node of any zone is ready: that is more likely a broken network, so no pods are evicted"
)
class AllDown:
    ready: str


@reason('its condition Ready is {ready}; the nodes of zone "{zone}" that are not ready are tainted one after the other')
class WaitsForTurn:
    ready: str
    zone: str


@reason('the Ready condition of its node "{node_name}" is {ready}')
class OnUnwellNode:
    node_name: str
    ready: str


@reason("its node is well, or it is not ready already")
class AsItShouldBe:
    pass


# -- evictions


@reason("it is being deleted already")
class Leaves:
    pass


@reason("its node has no NoExecute taint")
class NoTaint:
    pass


@reason("it tolerates the taints of its node for ever")
class Tolerates:
    pass


@reason("it does not tolerate {taint}")
class NotTolerated:
    """taint: key and effect."""

    taint: str


@reason("it tolerates the taints of its node for {seconds} s, and {left_s:g} s are left")
class ToleratesFor:
    seconds: int
    left_s: float


@reason("it has tolerated the taints of its node for {seconds} s, as long as it may")
class TimeIsUp:
    seconds: int


# -- pods that are removed by force


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
