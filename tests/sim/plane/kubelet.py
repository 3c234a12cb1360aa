"""A node as a script: its machine with what is mounted there, and a kubelet that keeps to the handshake in its Node's
status.

A volume is named in use before anything else, and until it is unmounted; it is mounted once the Node that shows it in
use lists it as attached, and its attachment says so. The machine can lose its power, and its kubelet can fall silent
while its pods run on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Final

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.api.storage import CSI_NODES
from mooring.api.volume_names import attachment_name, unique_name
from mooring.base.clock import rfc3339, rfc3339_micro
from mooring.base.randomness import Random
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError, NotFound
from mooring.node.agent import CONTROLLED_ATTACH
from tests.sim.plan import DRIVER
from tests.sim.plane.placing import HOST
from tests.sim.plane.stands import FINISHED, Json, is_active, is_alive, is_gone
from tests.support.builders import a_csi_node, a_node

RENEW_S: Final = 10.0


class _Died(Exception):
    """The kubelet has ended in the middle of something."""


class Kubelet:
    """alive: the kubelet runs. powered: so do its pods. mounted: handle → uids of the pods that have it. stamps: its
    Node's status says since when it is so. down_until: nobody brings it back before that, but for peace.
    """

    def __init__(self, world: Any, name: str) -> None:
        self._world, self._cluster, self._truth = world, world.cluster, world.truth
        self._randomness = world.randomness["actor"]
        self.name = name
        self.alive, self.powered = True, True
        self.mounted: dict[str, set[str]] = {}
        self._deaths_count = 0
        own, habits = Random(world.plan.seed * 64 + 8 + world.plan.nodes.index(name)), world.plan.manners
        self.stamps = own.happens(habits.stamped)
        self._own = own
        self.down_until = 0.0
        self._unmounted_at: dict[str, float] = {}  # by handle, since it is wanted no more
        self._looks = asyncio.Event()
        self._looks.set()

    def wake(self) -> None:
        self._looks.set()

    def has(self, uid: str) -> bool:
        """Whether the machine has anything mounted for the pod."""
        return any(uid in uids for uids in self.mounted.values())

    async def run(self) -> None:
        while True:
            await self._looks.wait()
            self._looks.clear()
            with contextlib.suppress(ApiError, _Died):
                await self._pause()
                await self._look()

    async def renew_for_ever(self) -> None:
        while True:
            if self.alive:
                body = {"spec": {"renewTime": rfc3339_micro(self._world.clock.wall_s())}}
                try:
                    await self._cluster.patch(LEASES, self.name, Patch(PatchType.MERGE, body), NODE_LEASE_NAMESPACE)
                except NotFound:
                    lease = {"metadata": {"name": self.name}, **body}
                    await self._cluster.create(LEASES.whole(), lease, NODE_LEASE_NAMESPACE)
            await self._world.clock.sleep(RENEW_S)

    # -- death and return

    def dies(self) -> None:
        """Without power nothing is mounted."""
        self.alive = self.powered = False
        self._deaths_count += 1
        self.mounted.clear()
        self._unmounted_at.clear()
        self._world.laws.rebooted(self.name)

    def is_cut(self) -> None:
        """From the network: pods run on."""
        self.alive = False
        self._deaths_count += 1

    def returns(self) -> None:
        self.alive = self.powered = True
        self._looks.set()

    # -- one look

    async def _look(self) -> None:
        node = await self._registered()
        self._unmount_unwanted()
        wanted = {handle for pod in self._pods() if is_active(pod) for handle in self._volumes(pod)}
        in_use = sorted(unique_name(DRIVER, handle) for handle in wanted | set(self.mounted))
        if in_use != sorted(node.status.volumes_in_use or ()):
            await self._pause()
            node = await self._patch_node({"volumesInUse": in_use or None})
        listed = {one.name for one in node.status.volumes_attached or ()} & set(in_use)
        for pod in self._pods():
            await self._tend(pod, listed)

    async def _registered(self) -> Any:
        node = self._truth.get(NODES, self.name)
        if node is None:
            self._tell("registers")
            await self._cluster.create(
                NODES.whole(), a_node(self.name, labels={HOST: self.name}, annotations={CONTROLLED_ATTACH: "true"})
            )
        if self._truth.get(CSI_NODES, self.name) is None:
            await self._cluster.create(CSI_NODES.whole(), a_csi_node(self.name, {DRIVER: self.name}))
        if node is None or not any(
            one.type == "Ready" and one.status == "True" for one in node.status.conditions or ()
        ):
            now = rfc3339(self._world.clock.wall_s())
            ready = {
                "type": "Ready",
                "status": "True",
                "lastHeartbeatTime": now,
                **({"lastTransitionTime": now} if self.stamps else {}),
            }
            node = await self._patch_node({"conditions": [ready]})
        return node

    async def _tend(self, pod: Json, listed: set[str]) -> None:
        name, namespace, uid = pod["metadata"]["name"], pod["metadata"]["namespace"], pod["metadata"]["uid"]
        if is_alive(pod):
            mine = self._volumes(pod)
            for handle in mine:
                if uid not in self.mounted.get(handle, ()) and unique_name(DRIVER, handle) in listed:
                    await self._mount(uid, handle)
            if (pod["status"]["phase"] == "Pending" or self._owes_ready(pod)) and self._has_all(pod):
                await self._pod_status(
                    name, namespace, {"phase": "Running", **self._ready(), "containerStatuses": [_RUNNING]}
                )
        elif is_active(pod):  # its containers end first
            await self._pause()
            await self._pod_status(name, namespace, self._ended())
        elif "deletionTimestamp" in pod["metadata"] and not self.has(uid):
            await self._pause()
            if pod["metadata"].get("finalizers") and pod["status"]["phase"] not in FINISHED:  # it never began
                await self._pod_status(name, namespace, {"phase": "Failed"})
            await self._cluster.delete(PODS, name, namespace, uid=uid, grace_period_s=0)

    def _owes_ready(self, pod: Json) -> bool:
        """Whether somebody has said that the pod is not ready, and workloads wait for it."""
        conditions = pod["status"].get("conditions") or ()
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        return self._world.plan.workloads.runs and pod["status"]["phase"] == "Running" and not is_ready

    def _ready(self) -> Json:
        """What a pod's status says, where somebody reads it."""
        if not self._world.plan.workloads.runs:
            return {}
        since = {"lastTransitionTime": rfc3339(self._world.clock.wall_s())} if self.stamps else {}
        return {"conditions": [{"type": "Ready", "status": "True", **since}]}

    def _ended(self) -> Json:
        """Of a pod whose containers were told to end."""
        exit_code = 143 if self._world.plan.workloads.runs and self._own.happens(0.5) else 0
        phase = {"phase": "Failed" if exit_code else "Succeeded"} if self._world.plan.workloads.runs else {}
        return {**phase, "containerStatuses": [_container({"terminated": {"exitCode": exit_code}})]}

    async def _mount(self, uid: str, handle: str) -> None:
        await self._pause()
        found = self._world.laws.attachments.get(attachment_name(DRIVER, handle, self.name))
        if found is None or found.deleting or not found.attached or uid not in self._world.laws.pods:
            return
        self._world.laws.mounts(self.name, handle)
        self.mounted.setdefault(handle, set()).add(uid)
        self._tell(f"mounts {handle}")

    def _has_all(self, pod: Json) -> bool:
        mine = self._volumes(pod)
        uid = pod["metadata"]["uid"]
        return len(mine) == len(pod["spec"].get("volumes") or ()) and all(
            uid in self.mounted.get(handle, ()) for handle in mine
        )

    def _unmount_unwanted(self) -> None:
        active = {pod["metadata"]["uid"] for pod in self._pods() if is_active(pod)}
        for handle in sorted(self.mounted):
            self.mounted[handle] &= active
            if self.mounted[handle]:
                self._unmounted_at.pop(handle, None)
            elif self._has_unmounted(handle):
                del self.mounted[handle]
                self._world.laws.unmounted(self.name, handle)
                self._tell(f"unmounts {handle}")

    def _has_unmounted(self, handle: str) -> bool:
        """Where that takes a while, the kubelet looks again when it is over."""
        longest_s, now = self._world.plan.manners.unmount_s if self._world.faulty else 0.0, self._world.clock.now()
        if not longest_s:
            return True
        if handle not in self._unmounted_at:
            takes_s = self._own.uniform(0.0, longest_s)
            self._unmounted_at[handle] = now + takes_s
            asyncio.get_running_loop().call_later(takes_s, self.wake)
        if now < self._unmounted_at[handle]:
            return False
        del self._unmounted_at[handle]
        return True

    # -- what it sees, and writes

    def _pods(self) -> list[Json]:
        return [
            pod
            for pod in self._world.laws.pods.values()
            if pod["spec"].get("nodeName") == self.name and not is_gone(pod)
        ]

    def _volumes(self, pod: Json) -> list[str]:
        """Handles of the pod's volumes whose claim is bound."""
        return list(self._handles(pod))

    def _handles(self, pod: Json) -> Iterator[str]:
        for volume in pod["spec"].get("volumes") or ():
            key = (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
            handle = self._world.laws.handle_of(key)
            if handle:
                yield handle

    async def _patch_node(self, status: Json) -> Any:
        self._tell(f"status {status}")
        return await self._cluster.patch(
            NODES, self.name, Patch(PatchType.STRATEGIC, {"status": status}), subresource="status"
        )

    async def _pod_status(self, name: str, namespace: str, status: Json) -> None:
        self._tell(f"pod {name}: {status}")
        kind = PatchType.STRATEGIC if self._world.plan.workloads.runs else PatchType.MERGE
        patch = Patch(kind, {"status": status})
        await self._cluster.patch(PODS.whole(), name, patch, namespace, subresource="status")

    async def _pause(self) -> None:
        """Raises _Died."""
        longest_s, deaths_count = self._world.plan.step_s, self._deaths_count
        await self._world.clock.sleep(self._randomness.uniform(0.0, longest_s) if longest_s else 0.0)
        if not self.alive or self._deaths_count != deaths_count:
            raise _Died

    def _tell(self, what: str) -> None:
        self._world.story.tell(self.name, what)


def _container(state: Json) -> Json:
    return {
        "name": "c",
        "image": "example.com/image:1",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
    }


_RUNNING: Final = _container({"running": {}})
