"""Nodes that live and die on a cluster of tests, and node health beside them.

`NodeTenant` acts on any cluster: it registers nodes as kubelets do, keeps them alive, and lets them fall silent.
`HealthWorld` is one with Mooring's node health on an embedded store, in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
from collections.abc import AsyncIterator
from typing import Any

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import LoopClock, rfc3339
from mooring.cluster.nodehealth.controller import NodeHealth
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.kube.cluster import Cluster, Patch, PatchType
from tests.support.builders import Json, a_lease, a_pod
from tests.support.cluster_world import ClusterUser, ClusterWorld

CONDITIONS = {
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


class NodeTenant(ClusterUser):
    """suffix: makes its names its own. renew_s: between two renewals of a Lease."""

    _numbers = itertools.count(1)

    def __init__(self, users: Cluster, *, wait_s: float = 2000.0, look_s: float = 0.01, renew_s: float = 10.0) -> None:
        super().__init__(users, wait_s=wait_s, look_s=look_s)
        self._suffix, self.renew_s = f"-{next(self._numbers)}", renew_s
        self._kubelets: dict[str, asyncio.Task[None]] = {}

    def __call__(self, base: str) -> str:
        return f"{base}{self._suffix}"

    # -- nodes

    async def add_node(self, base: str = "n", *, alive: bool = True, conditions: bool = True, **labels: str) -> Json:
        """As a kubelet registers it. alive: its Lease is renewed from now on."""
        name = self(base)
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        }
        made = await self.users.create(NODES.whole(), body)
        if conditions:
            await self.post_status(base)
        if alive:
            await self.revive(base)
        return made

    async def post_status(self, base: str = "n", **statuses: str) -> None:
        """The conditions, as a kubelet posts them. statuses: of the conditions of these names."""
        now = self._now()
        posted = [
            {
                "type": type,
                "status": statuses.get(type, status),
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
            }
            for type, (status, reason, message) in CONDITIONS.items()
        ]
        await self.users.patch(
            NODES.whole(),
            self(base),
            Patch(PatchType.STRATEGIC, {"status": {"conditions": posted}}),
            subresource="status",
        )

    async def revive(self, base: str = "n") -> None:
        """The kubelet works from now on."""
        await self.renew(base)
        self._kubelets[base] = asyncio.create_task(self._renew_for_ever(base), name=f"kubelet/{base}")

    async def silence(self, base: str = "n") -> None:
        """The kubelet is dead."""
        task = self._kubelets.pop(base)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def renew(self, base: str = "n") -> None:
        spec = {"holderIdentity": self(base), "leaseDurationSeconds": 40, "renewTime": self._now(micro=True)}
        if await self.find(LEASES, self(base), NODE_LEASE_NAMESPACE) is None:
            await self.users.create(
                LEASES.whole(), a_lease(self(base), namespace=NODE_LEASE_NAMESPACE, **spec), NODE_LEASE_NAMESPACE
            )
        else:
            await self.patch(LEASES, self(base), {"spec": spec}, NODE_LEASE_NAMESPACE)

    async def _renew_for_ever(self, base: str) -> None:
        while True:
            await asyncio.sleep(self.renew_s)
            await self.renew(base)

    async def taint(self, base: str = "n", *taints: Json) -> None:
        """The node has these taints beside those that others have put there; without any, all go."""
        node = await self.get(NODES, self(base))
        kept = node["spec"].get("taints", []) if taints else []
        await self.patch(NODES, self(base), {"spec": {"taints": [*kept, *taints]}})

    async def untaint(self, key: str, base: str = "n") -> None:
        node = await self.get(NODES, self(base))
        await self.patch(
            NODES,
            self(base),
            {"spec": {"taints": [one for one in node["spec"].get("taints", []) if one["key"] != key]}},
        )

    async def end(self) -> None:
        """All kubelets end."""
        for base in list(self._kubelets):
            await self.silence(base)

    def _now(self, *, micro: bool = False) -> str:
        moment = datetime.datetime.fromtimestamp(self.wall_s(), datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")

    def wall_s(self) -> float:
        return LoopClock().wall_s()

    # -- pods

    async def add_pod(self, base: str = "pod", node: str | None = "n", *, ready: bool = True, **fields: Any) -> Json:
        """A pod that runs on the node. fields: as for a_pod."""
        made = await self.create(a_pod(self(base), node=self(node) if node else None, **fields))
        if node and ready:
            conditions = [
                {"type": type, "status": "True"} for type in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ]
            await self.patch(
                PODS, self(base), {"status": {"phase": "Running", "conditions": conditions}}, subresource="status"
            )
        return made

    # -- what there is

    async def conditions(self, base: str = "n") -> dict[str, tuple[str, str, str]]:
        """Of the node: status, reason and message by type."""
        return {
            one["type"]: (one["status"], one.get("reason", ""), one.get("message", ""))
            for one in (await self.get(NODES, self(base)))["status"].get("conditions", [])
        }

    async def taints(self, base: str = "n") -> set[tuple[str, str]]:
        return {(one["key"], one["effect"]) for one in (await self.get(NODES, self(base)))["spec"].get("taints", [])}

    async def pod_condition(self, type: str, base: str = "pod") -> Json | None:
        pod = await self.find(PODS, self(base))
        return next(
            (one for one in ((pod or {}).get("status") or {}).get("conditions", []) if one["type"] == type), None
        )

    async def told(self, base: str) -> list[tuple[str, str, str, str]]:
        """Component, type, reason and message of the events about the object of this name."""
        found = await self.events_about(self(base))
        return [(event["source"]["component"], event["type"], event["reason"], event["message"]) for event in found]

    # -- waiting

    async def until_ready_is(self, status: str, base: str = "n") -> Json:
        def check(node: Json) -> bool:
            return any(
                (one["type"], one["status"]) == ("Ready", status) for one in node["status"].get("conditions", [])
            )

        return await self.shown(NODES, self(base), check, f"Ready is {status}")

    async def until_tainted(self, *taints: tuple[str, str], base: str = "n") -> None:
        """The node has exactly these taints."""

        async def check() -> bool:
            return await self.taints(base) == set(taints)

        await self.until(check, what=f"the taints of {self(base)} are {taints}")

    async def until_leaving(self, base: str = "pod") -> Json:
        return await self.shown(
            PODS, self(base), lambda pod: "deletionTimestamp" in pod["metadata"], "is being deleted"
        )

    async def until_gone(self, base: str = "pod") -> None:
        await self.gone(PODS, self(base))

    async def until_told(self, base: str, *event: str) -> None:
        async def check() -> bool:
            return event in await self.told(base)

        await self.until(check, what=f"event {event} about {self(base)}")


class HealthWorld(NodeTenant):
    """faults: of node health's requests. options: its own."""

    def __init__(self, faults: ServerFaults | None = None, **options: Any) -> None:
        self.ours = ClusterWorld(faults)
        super().__init__(self.ours.users, look_s=0.25)
        self._suffix = ""
        self.health = NodeHealth(self.ours.runtime, options=NodeHealthOptions(**options))

    def wall_s(self) -> float:
        return self.ours.clock.wall_s()

    async def create(self, body: Any) -> Json:
        return await self.ours.create(body)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def stamp(self) -> str:
        """The time of now, as it is written."""
        return rfc3339(self.wall_s())

    def seen(self) -> str:
        return self.ours.seen()

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[HealthWorld]:
        """Node health runs, and all kubelets end with it."""
        async with self.ours.running(self.health.run()):
            await self.until(self._has_synced)
            try:
                yield self
            finally:
                await self.end()

    @contextlib.asynccontextmanager
    async def working_once(self) -> AsyncIterator[None]:
        """A new process of node health, killed at the end; the kubelets go on."""
        async with self.ours.running(NodeHealth(self.ours.runtime, options=NodeHealthOptions()).run()):
            yield

    async def _has_synced(self) -> bool:
        return self.health.has_synced
