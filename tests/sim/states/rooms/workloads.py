"""Deployments and StatefulSets: how one is told to work, what its user changes, and when the controllers begin anew
meanwhile.

A node beside them runs each pod, and ends it when it is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api.pods import PODS
from mooring.api.workloads import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from tests.sim.states.rooms.working import END_S, LOOK_S, READY_S, controllers, until_still
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import Json, a_template, a_workload
from tests.support.cluster_world import ClusterUser
from tests.support.eager_node import EagerNode
from tests.support.scripted_driver import ScriptedDriver

OLD, NEW = "example.com/image:1", "example.com/image:2"
CHANGED_S: Final = 120.0
"""When the user changes it: it has been rolled out."""
ROLLED_OUT_S: Final = 60.0
"""By then the change has been rolled out: some of the longer waits of the controllers would bring it about later,
whatever they miss.
"""
_TWO: Final = {"start": 2}
_PARTITION: Final = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
_WAY: Final[dict[str, Json]] = {
    "rolling": {},
    "surging": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}},
    "recreate": {"strategy": {"type": "Recreate"}},
    "ordered": {},
    "parallel": {"podManagementPolicy": "Parallel"},
    "partition": {"updateStrategy": _PARTITION},
    "ordered-from-two": {"ordinals": _TWO},
    "partition-from-two": {"updateStrategy": _PARTITION, "ordinals": _TWO},
    "on-delete": {"updateStrategy": {"type": "OnDelete"}},
}
_DEPLOYMENTS: Final = ("rolling", "surging", "recreate")
_CHANGE: Final[dict[str, tuple[bool, int, str]]] = {
    "none": (False, 0, ""),
    "template": (True, 0, ""),
    "template-and-first-lost": (True, 0, "first"),
    "template-and-last-lost": (True, 0, "last"),
    "more": (False, 2, ""),
    "fewer": (False, -1, "first"),
    "both": (True, 1, ""),
}
"""Whether the template is another one, how many more there are to be, and the pod that is lost afterwards."""
_RESTART: Final = {"never": None, "at-once": CHANGED_S + 0.1, "soon": CHANGED_S + 2.5, "later": CHANGED_S + 6.0}


class WorkloadsRoom:
    """way: of a Deployment, or of a StatefulSet. restart: of the controllers, after the change."""

    name = "workloads"
    rounds = ()
    space = Space(
        Axis("way", tuple(_WAY)),
        Axis("replicas", ("3", "1", "0")),
        Axis("change", tuple(_CHANGE)),
        Axis("restart", tuple(_RESTART)),
    )

    def bodies(self, state: State) -> list[Json]:
        fields = {**_WAY[state["way"]], "template": a_template(image=OLD)}
        return [
            a_workload(
                "Deployment" if _is_deployment(state) else "StatefulSet", replicas=int(state["replicas"]), **fields
            )
        ]

    def driver(self, state: State) -> ScriptedDriver:
        return ScriptedDriver()

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        node = EagerNode(ClusterUser(world.users), world.clock, ready_s=READY_S, end_s=END_S, look_s=LOOK_S)
        node.saw = lambda pods: _on_the_way(world, state, pods)
        return [controllers(world, _RESTART[state["restart"]]), until_still(node), _user(world, state)]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        pods = {pod["metadata"]["name"]: pod for pod in world.all(PODS)}
        wanted = _size(state)
        kind = DEPLOYMENTS if _is_deployment(state) else STATEFUL_SETS
        status = world.all(kind)[0]["status"]
        counts = {part: status.get(part, 0) for part in ("replicas", "readyReplicas", "availableReplicas")}
        if set(counts.values()) != {wanted}:
            yield "not-rolled-out", f"there should be {wanted} pods, and the status says {counts}"
        images = [_image(pod) for _, pod in sorted(pods.items())]
        if images != _images(state, is_lost=True):
            yield "other-pods", f"the pods are of {images}, and should be of {_images(state, is_lost=True)}"
        first = 2 if state["way"].endswith("from-two") else 0
        if not _is_deployment(state) and sorted(pods) != [f"web-{number}" for number in range(first, first + wanted)]:
            yield "other-pods", f"the pods are {sorted(pods)}"
        owned = {one["metadata"]["uid"] for one in (*world.all(REPLICA_SETS), *world.all(kind))}
        for name, pod in pods.items():
            if not {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()} & owned:
                yield "other-pods", f"{name} is nobody's"


def _is_deployment(state: State) -> bool:
    return state["way"] in _DEPLOYMENTS


def _size(state: State) -> int:
    """After the change."""
    return max(0, int(state["replicas"]) + _CHANGE[state["change"]][1])


def _images(state: State, *, is_lost: bool) -> list[str]:
    """In the order of the pods, once all is rolled out. Below the partition they stay old, and with OnDelete all but
    new ones do.

    is_lost: a pod was, by now.
    """
    (is_new, _, lost), size, before = _CHANGE[state["change"]], _size(state), int(state["replicas"])
    if not is_new:
        return [OLD] * size
    if state["way"].startswith("partition"):
        return [OLD] * min(1, size) + [NEW] * (size - 1)
    if state["way"] != "on-delete":
        return [NEW] * size
    images = [OLD] * min(size, before) + [NEW] * (size - before)
    if is_lost and lost and images:
        images[0 if lost == "first" else -1] = NEW
    return images


def _image(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _on_the_way(world: StateWorld, state: State, pods: list[Json]) -> None:
    """Of the pods at one moment."""
    if len({pod["metadata"]["name"] for pod in pods}) < len(pods):
        world.fail("two-pods", "two pods have one name")
    if state["way"] == "recreate" and len({_image(pod) for pod in pods}) > 1:
        world.fail("beside-old", "a new pod is there before the old ones have ended")
    most = max(int(state["replicas"]), _size(state)) + {"rolling": 1, "surging": 2}.get(state["way"], 0)
    staying = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    if len(staying) > most:
        world.fail("too-many", f"{len(staying)} pods at once, {most} are allowed")


async def _user(world: StateWorld, state: State) -> None:
    user, kind = ClusterUser(world.users), DEPLOYMENTS if _is_deployment(state) else STATEFUL_SETS
    is_new, _, lost = _CHANGE[state["change"]]
    await asyncio.sleep(CHANGED_S)
    spec: Json = {"replicas": _size(state), **({"template": a_template(image=NEW)} if is_new else {})}
    await user.patch(kind, "web", {"spec": spec})
    await asyncio.sleep(ROLLED_OUT_S)
    pods = sorted(await user.list(PODS), key=lambda pod: str(pod["metadata"]["name"]))
    if [_image(pod) for pod in pods] != _images(state, is_lost=False):
        world.fail(
            "slow-rollout", f"the pods are of {[_image(pod) for pod in pods]} {ROLLED_OUT_S:g} s after the change"
        )
    if lost and pods:
        await user.delete(PODS, pods[0 if lost == "first" else -1]["metadata"]["name"])
    await asyncio.Event().wait()
