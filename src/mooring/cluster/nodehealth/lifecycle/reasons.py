"""Every reason of the life of nodes, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


@reason("nothing was heard of it for {silent_s:g} s")
class Silent:
    """Neither its Lease nor its status has changed."""

    silent_s: float


@reason("its condition Ready is {ready}")
class Is:
    """ready: "" for a node that has none."""

    ready: str


@reason("its condition Ready is {ready}, and no node of any zone is ready: that is more likely a broken network, so no pods are evicted")
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
