"""Pods on nodes of a real control plane: the attach/detach controller wants, Mooring attaches, and it shows on the
nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.wire.grpc.codes import Code
from tests.e2e.processes import ProcessTarget, on_server
from tests.e2e.targets import KINDS
from tests.support.builders import a_csi_node
from tests.support.control_plane import ControlPlane
from tests.support.scripted_driver import PUBLISH, UNPUBLISH, Fail

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOM = {"storage": "1Gi"}
NAMESPACE = "default"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with the two controllers that pods with volumes need."""
    plane = ControlPlane.start()
    try:
        plane.start_controllers("persistentvolume-binder-controller", "persistentvolume-attach-detach-controller")
        yield plane
    finally:
        plane.stop()


class Pods:
    """Pods with claims, on a target whose control plane attaches and detaches."""

    def __init__(self, target: ProcessTarget) -> None:
        self.target = target

    async def node(self, base: str) -> str:
        """A node whose volumes the controller manages, as a kubelet announces it; no kubelet runs there."""
        managed = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        name = self.target.name(base)
        await self.target.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": managed}}
        )
        return await self.target.create(a_csi_node(name, {self.target.driver.name: self.target.node_id(name)}))

    async def claim(self, base: str, mode: str = "ReadWriteOnce") -> str:
        """A claim that is bound to a volume of the driver; gives the name of both."""
        name = self.target.name(base)
        await self.target.volume(base, modes=(mode,), spec={"claimRef": {"namespace": NAMESPACE, "name": name}})
        spec = {"storageClassName": "", "volumeName": name, "accessModes": [mode], "resources": {"requests": ROOM}}
        meta = {"namespace": NAMESPACE, "name": name}
        await self.target.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
        await self._bound("PersistentVolumeClaim", name, NAMESPACE)
        await self._bound("PersistentVolume", name, "")
        return name

    async def _bound(self, kind: str, name: str, namespace: str) -> None:
        async def is_bound() -> bool:
            found = await self.target.get(kind, name, namespace)
            return bool(found.get("status", {}).get("phase") == "Bound")

        await self.target.until(f"{kind} {name} is bound", is_bound)

    async def run(self, base: str, node: str, *claims: str) -> str:
        """A pod on the node, as if a scheduler had put it there."""
        volumes = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}} for number, claim in enumerate(claims)
        ]
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        meta = {"namespace": NAMESPACE, "name": self.target.name(base)}
        return await self.target.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def end(self, pod: str) -> None:
        await self.target.delete("Pod", pod, NAMESPACE, grace_s=0)

    async def shown(self, node: str) -> set[str]:
        """The names of the volumes that the node's status shows as attached."""
        status = (await self.target.get("Node", node)).get("status", {})
        prefix = f"kubernetes.io/csi/{self.target.driver.name}^handle-of-"
        return {str(entry["name"]).removeprefix(prefix) for entry in status.get("volumesAttached") or ()}

    async def attached(self, node: str, claims: set[str], *pods: str) -> None:
        """Just these volumes are shown on the node, and the backend agrees.

        Pods may be touched: the controller forgets one whose first event overtakes that of its node or volume in its
        caches, and looks again when the pod changes.
        """
        rounds = 0

        async def as_wanted() -> bool:
            nonlocal rounds
            rounds += 1
            if rounds % 100 == 0:
                for pod in pods:
                    await self.target.patch(
                        "Pod", pod, {"metadata": {"annotations": {"touched": str(rounds)}}}, namespace=NAMESPACE
                    )
            return await self.shown(node) == claims

        await self.target.until(f"node {node} shows {sorted(claims)}", as_wanted)
        on_it = {claim for claim in claims if self.target.node_id(node) in self.target.where(claim)}
        assert claims == on_it

    async def no_attachment(self, claim: str, node: str) -> None:
        await self.target.gone("VolumeAttachment", self.attachment(claim, node))

    def attachment(self, claim: str, node: str) -> str:
        """The name that the controller gives it."""
        source = self.target.handle(claim) + self.target.driver.name + node
        return f"csi-{hashlib.sha256(source.encode()).hexdigest()}"

    async def events(self, pod: str, reason: str) -> list[dict[str, Any]]:
        page = await self.target.users.list(KINDS["Event"])
        return [one for one in page.items if (one["involvedObject"].get("name"), one.get("reason")) == (pod, reason)]


@asynccontextmanager
async def a_target(plane: ControlPlane) -> AsyncIterator[Pods]:
    async with asyncio.timeout(120), on_server(plane.kubeconfig()) as target:
        driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": target.driver.name}}
        await target.create({**driver, "spec": {"attachRequired": True}})
        yield Pods(target)


async def test_pods_get_their_volumes_and_give_them_back(plane: ControlPlane) -> None:
    async with a_target(plane) as pods, pods.target.attaching():
        target = pods.target
        nodes = [await pods.node(f"node{number}") for number in range(2)]
        shared = await pods.claim("shared", "ReadWriteMany")
        own = [await pods.claim(f"own{number}") for number in range(4)]
        first = [await pods.run(f"first{number}", nodes[0], claim, shared) for number, claim in enumerate(own[:2])]
        second = [await pods.run(f"second{number}", nodes[1], claim, shared) for number, claim in enumerate(own[2:])]
        await pods.attached(nodes[0], {shared, *own[:2]}, *first)
        await pods.attached(nodes[1], {shared, *own[2:]}, *second)
        assert 6 == len(target.driver.made(PUBLISH))
        assert (await target.get("VolumeAttachment", pods.attachment(shared, nodes[0])))["status"] == {"attached": True}

        await pods.end(first[0])
        await pods.attached(nodes[0], {shared, own[1]}, *first[1:])
        await pods.no_attachment(own[0], nodes[0])
        assert set() == target.where(own[0])
        for pod in (first[1], *second):
            await pods.end(pod)
        for node in nodes:
            await pods.attached(node, set())
        for claim, node in [
            (own[1], nodes[0]),
            *((claim, nodes[1]) for claim in own[2:]),
            *((shared, node) for node in nodes),
        ]:
            await pods.no_attachment(claim, node)
        assert ({}, 6, 6) == (target.left_over(), len(target.driver.made(PUBLISH)), len(target.driver.made(UNPUBLISH)))
        assert [] == target.driver.overlaps


async def test_a_volume_follows_its_pod_to_another_node(plane: ControlPlane) -> None:
    async with a_target(plane) as pods, pods.target.attaching():
        old, new, claim = await pods.node("old"), await pods.node("new"), await pods.claim("data")
        before = await pods.run("before", old, claim)
        await pods.attached(old, {claim}, before)
        after = await pods.run("after", new, claim)
        await pods.end(before)
        await pods.attached(new, {claim}, after)
        await pods.no_attachment(claim, old)
        assert {pods.target.node_id(new)} == pods.target.where(claim)
        assert [PUBLISH, UNPUBLISH, PUBLISH] == [call.method for call in pods.target.driver.calls]
        await pods.end(after)
        await pods.no_attachment(claim, new)


async def test_a_pods_events_tell_what_the_driver_said(plane: ControlPlane) -> None:
    async with a_target(plane) as pods, pods.target.attaching("--retry-interval-start=500ms"):
        target, node, claim = pods.target, await pods.node("node"), await pods.claim("data")
        target.driver.always(PUBLISH, Fail(Code.INTERNAL, "the array is on fire"))
        pod = await pods.run("pod", node, claim)
        await target.asked(PUBLISH)
        told = await target.until("an event about it", lambda: pods.events(pod, "FailedAttachVolume"))
        assert "rpc error: code = Internal desc = the array is on fire" in told[0]["message"]
        target.driver.forget_scripts()
        await pods.attached(node, {claim}, pod)
        await pods.end(pod)
        await pods.no_attachment(claim, node)
