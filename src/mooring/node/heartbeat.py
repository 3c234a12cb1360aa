"""Signs of life: the Lease of the node, renewed four times in its duration, and the conditions and resources that a
kubelet posts.

Source: kubelet 1.36, pkg/kubelet/nodestatus and component-helpers' lease controller. Differs: conditions that another
changes, as node health does while the agent is away, are made good when the change is seen and not at the next look ten
seconds later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import NODES, Node
from mooring.api.meta import Key
from mooring.base.clock import Instant, rfc3339, rfc3339_micro
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.reasons import reason
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Selection
from mooring.kube.errors import AlreadyExists, ApiError, NotFound, Unreachable
from mooring.kube.patch import merge_patch, strategic_patch
from mooring.node.options import LEASE_S
from mooring.node.resources import Resources, decide_resources

_log = logger(__name__)

RENEW_SHARE: Final = 0.25
JITTER: Final = 0.04
AGAIN_S: Final = 1.0
REPORT_S: Final = 300.0
"""Seconds between two reports of conditions that have not changed."""


class Posted(NamedTuple):
    """A condition as the agent posts it."""

    type: str
    status: str
    reason: str
    message: str


CONDITIONS: Final = (
    Posted("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    Posted("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    Posted("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    Posted("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
"""The Node's conditions, which never change: no containers run here that could need anything."""


@reason("its conditions are posted")
class AsPosted:
    pass


@reason("there is no Node")
class NoNode:
    pass


def decide_conditions(node: Node, *, is_due: bool, now: str) -> tuple[Mapping[str, Any], ...]:
    """The conditions to post: everything if something is not as it should be, or is_due; else nothing."""
    found = {one.type: one for one in node.status.conditions or ()}
    right = [
        one
        for one in CONDITIONS
        if (there := found.get(one.type)) and one == (there.type, there.status, there.reason, there.message)
    ]
    if len(right) == len(CONDITIONS) and not is_due:
        return ()
    steady = {one.type for one in CONDITIONS if (there := found.get(one.type)) and there.status == one.status}
    return tuple(
        {**one._asdict(), "lastHeartbeatTime": now, **({} if one.type in steady else {"lastTransitionTime": now})}
        for one in CONDITIONS
    )


class Heartbeat:
    """controller: of the conditions and resources; it works once the agent is prepared. The Lease has a loop of its
    own.

    lease_s: how long it lasts. resources: None where others say what the node has.
    """

    def __init__(
        self,
        runtime: Runtime,
        caches: Caches,
        node_name: str,
        lease_s: float = LEASE_S,
        resources: Resources | None = None,
    ) -> None:
        assert lease_s > 0
        self._resources = resources
        self._cluster, self._clock, self._randomness, self._name = (
            runtime.cluster,
            runtime.clock,
            runtime.randomness,
            node_name,
        )
        self._nodes = caches.of(NODES, selection=Selection(field_selector=f"metadata.name={node_name}"))
        self._lease_s, self._renew_s = lease_s, lease_s * RENEW_SHARE
        self._posted_at: Instant | None = None
        self.controller: Controller[str] = Controller(
            runtime, "node-conditions", self._reconcile, workers=1, label="node", log=_log
        )
        self.controller.watch(self._nodes, lambda change: [change.key.name] if change.new is not None else ())

    # -- conditions

    async def _reconcile(self, name: str) -> Result:
        node, now = self._nodes.store.get(Key("", name)), self._clock.now()
        if node is None:
            return Result(NoNode())
        is_due = self._posted_at is None or now - self._posted_at >= REPORT_S
        conditions = decide_conditions(node, is_due=is_due, now=rfc3339(self._clock.wall_s()))
        lacking = {} if self._resources is None else decide_resources(node, self._resources)
        if conditions or lacking:
            status = {**lacking, **({"conditions": list(conditions)} if conditions else {})}
            patch = strategic_patch({"status": status}, of=node)
            await self._nodes.write(Key("", name), self._cluster.patch(NODES, name, patch, subresource="status"))
        if conditions:
            self._posted_at = now
        return Result(AsPosted(), done="posted its conditions" if conditions else "", after_s=self._due_s(now))

    def _due_s(self, now: Instant) -> float:
        return REPORT_S if self._posted_at is None else max(0.0, self._posted_at + REPORT_S - now)

    # -- the Lease

    async def renew_for_ever(self) -> None:
        """Renew until cancelled, however long the API server is away."""
        logged = ""
        while True:
            try:
                await self._renew_in_time()
            except ApiError as error:
                if str(error) != logged:
                    logged = str(error)
                    _log.error("The node's Lease could not be renewed, trying again", error=error, node=self._name)
                await self._clock.sleep(AGAIN_S)
                continue
            logged = ""
            await self._clock.sleep(self._renew_s * (1 + self._randomness.uniform(0.0, JITTER)))

    async def _renew_in_time(self) -> None:
        """Waits less long than the client would: the next try may have a better connection. Raises ApiError."""
        try:
            async with asyncio.timeout(self._renew_s):
                await self._renew()
        except TimeoutError:
            raise Unreachable(f"no answer within {self._renew_s:g} s") from None

    async def _renew(self) -> None:
        """Renew the Lease, unless there is no Node: the Lease goes with it."""
        node = self._nodes.store.get(Key("", self._name))
        if node is None:
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node.metadata.uid}
        body: dict[str, Any] = {"metadata": {"ownerReferences": [owner]}, "spec": self._spec()}
        try:
            await self._cluster.patch(LEASES, self._name, merge_patch(body), NODE_LEASE_NAMESPACE)
        except NotFound:
            await self._make(
                {**body, "metadata": {**body["metadata"], "name": self._name, "namespace": NODE_LEASE_NAMESPACE}}
            )

    def _spec(self) -> dict[str, Any]:
        duration_s = max(1, round(self._lease_s))
        return {
            "holderIdentity": self._name,
            "leaseDurationSeconds": duration_s,
            "renewTime": rfc3339_micro(self._clock.wall_s()),
        }

    async def _make(self, body: Mapping[str, Any]) -> None:
        try:
            await self._cluster.create(
                LEASES, {"apiVersion": LEASES.api_version, "kind": LEASES.name, **body}, NODE_LEASE_NAMESPACE
            )
        except AlreadyExists:
            pass  # an earlier try, whose answer was lost
