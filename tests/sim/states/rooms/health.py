"""Node health: a node that is silent, well, marked or gone, beside one that is well, and a pod in each step of its
life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import NODES
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.pods import PODS
from mooring.base.clock import rfc3339_micro
from mooring.cluster.nodehealth.controller import NodeHealth
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.kube.cluster import Patch, PatchType
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import Json, a_lease, a_node, a_pod
from tests.support.health import NOT_READY, UNREACHABLE
from tests.support.scripted_driver import ScriptedDriver

FOREIGN: Final = "example.com/other"
RENEW_S: Final = 40.0
"""Within the grace period of 50 s."""
_AT: Final = "2026-01-01T00:00:00Z"
_CONDITIONS: Final = ("ready", "unknown", "false", "none", "odd")
_LEASE: Final = ("renewed", "old", "none", "blank")
_TAINTS: Final[dict[str, list[str]]] = {
    "none": [], "unreachable": [UNREACHABLE], "not-ready": [NOT_READY], "both": [UNREACHABLE, NOT_READY],
    "service": [OUT_OF_SERVICE_TAINT],
}  # fmt: skip
_FOR_A_WHILE: Final = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
_POD: Final[dict[str, Json | None]] = {
    "runs": {"phase": "Running"},
    "absent": None,
    "ended": {"phase": "Succeeded"},
    "tolerates": {"phase": "Running", "tolerations": [{"operator": "Exists"}]},
    "for-a-while": {"phase": "Running", "tolerations": [_FOR_A_WHILE]},
    "leaves": {"phase": "Running", "deletionTimestamp": _AT, "deletionGracePeriodSeconds": 30},
    "kept": {"phase": "Running", "deletionTimestamp": _AT, "deletionGracePeriodSeconds": 30, "finalizers": [FOREIGN]},
    "unplaced": {"phase": "Pending", "deletionTimestamp": _AT, "deletionGracePeriodSeconds": 30, "on": None},
    "elsewhere": {"phase": "Running", "on": "n-lost"},
    "unknown-phase": {"phase": "Wondering"},
}  # fmt: skip


class HealthRoom:
    """node: whether n1's Node is there, and its condition Ready; lease: of n1. The Lease of n2 is always renewed."""

    name = "health"
    rounds = ()
    space = Space(
        Axis("pod", tuple(_POD)),
        Axis("node", (*_CONDITIONS, "absent", "deleting")),
        Axis("taints", tuple(_TAINTS)),
        Axis("lease", _LEASE),
    )

    def bodies(self, state: State) -> list[Json]:
        made = [_node("n2", "ready", [])]
        if state["node"] != "absent":
            made.append(_node("n1", state["node"], _TAINTS[state["taints"]]))
        if state["lease"] in ("old", "blank"):
            spec = {"renewTime": "2026-01-01T00:00:00.000000Z"} if state["lease"] == "old" else {"holderIdentity": None}
            made.append(a_lease("n1", namespace=NODE_LEASE_NAMESPACE, **spec))
        if (fields := _POD[state["pod"]]) is not None:
            more = dict(fields)
            made.append(a_pod("pod", node=more.pop("on", "n1"), **more))
        return made

    def driver(self, state: State) -> ScriptedDriver:
        return ScriptedDriver()

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        alive = ["n2", *(["n1"] if state["lease"] == "renewed" else [])]
        return [
            NodeHealth(world.runtime, options=NodeHealthOptions()).run(),
            *(_kubelet(world, name) for name in alive),
        ]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        node, pod = world.find(NODES, "n1"), world.find(PODS, "pod")
        alive = state["lease"] == "renewed"
        if node is not None:
            ready = next(
                (one["status"] for one in node.get("status", {}).get("conditions") or () if one["type"] == "Ready"), ""
            )
            taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
            if not alive and ready not in ("Unknown", "False"):
                yield "silent-node", f"n1 has said nothing for hours, and is Ready: {ready!r}"
            if not alive and ready == "Unknown" and UNREACHABLE not in taints:
                yield "taint-missing", f"n1 is unknown, and has the taints {taints}"
            if alive and ready == "True" and taints & {UNREACHABLE, NOT_READY}:
                yield "taint-left", f"n1 is ready, and has the taints {taints}"
        if pod is None:
            return
        where, deleting = pod["spec"].get("nodeName"), "deletionTimestamp" in pod["metadata"]
        held = pod["metadata"].get("finalizers")
        if not deleting and (where == "n-lost" or (where == "n1" and node is None)):
            yield "pod-left", f"the pod is on {where}, which is not there"
        if deleting and not held and not where:
            yield "pod-left", "the pod was deleted, is on no node, and still there"
        tainted = node is not None and any(taint["effect"] == "NoExecute" for taint in node["spec"].get("taints") or ())
        if where == "n1" and tainted and not deleting and state["pod"] not in ("tolerates",):
            yield "pod-left", f"the pod does not tolerate the taints of n1: {node and node['spec'].get('taints')}"


def _node(name: str, value: str, taints: list[str]) -> Json:
    status: Json = {}
    ready = {"ready": "True", "unknown": "Unknown", "false": "False", "odd": "Perhaps", "deleting": "True"}.get(value)
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": ready, "lastTransitionTime": _AT, "lastHeartbeatTime": _AT}]
    marks = [
        {"key": key, "effect": "NoExecute", **({"value": "v"} if key == OUT_OF_SERVICE_TAINT else {"timeAdded": _AT})}
        for key in taints
    ]
    gone = {"deletionTimestamp": _AT, "finalizers": [FOREIGN]} if value == "deleting" else {}
    return a_node(name, {"taints": marks} if marks else None, **gone, **status)


async def _kubelet(world: StateWorld, name: str) -> None:
    """Renews the Lease of a node that is well."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": rfc3339_micro(world.clock.wall_s())}
    await world.users.create(
        LEASES.whole(), a_lease(name, namespace=NODE_LEASE_NAMESPACE, **spec), NODE_LEASE_NAMESPACE
    )
    while True:
        await asyncio.sleep(RENEW_S)
        renewed = Patch(PatchType.MERGE, {"spec": {"renewTime": rfc3339_micro(world.clock.wall_s())}})
        await world.users.patch(LEASES.whole(), name, renewed, NODE_LEASE_NAMESPACE)
