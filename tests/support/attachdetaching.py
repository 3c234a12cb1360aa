"""A cluster with an attach/detach controller in virtual time; the test plays the scheduler, the kubelets and the
attacher.

async with attaching() as world:
    volume, node = await world.volume(), await world.node()
    pod = await world.pod(node, volume)
    await world.attach(volume, node)
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.cluster.attachdetach.options import AttachDetachOptions
from tests.support.builders import DRIVER, NS, RWO, Json, a_claim, a_csi_driver, a_node, a_pod, a_pv, a_va
from tests.support.cluster_world import ClusterWorld
from tests.support.recording import Request

POST, DELETE, PATCH_NODE = "create volumeattachments", "delete volumeattachments", "patch nodes/status"
FENCE = "patch volumeattachments"
HOLD = "test/attacher"
FORCED = "attach_detach_controller_attachdetach_controller_forced_detaches"


@dataclasses.dataclass(frozen=True)
class Vol:
    """A volume with its claim; "" for one that pods define themselves."""

    pv: str
    claim: str
    driver: str
    handle: str
    namespace: str

    @property
    def unique(self) -> str:
        return unique_name(self.driver, self.handle)

    def va(self, node: str) -> str:
        return attachment_name(self.driver, self.handle, node)


class AttachDetachWorld(ClusterWorld):
    """story: the controller's requests."""

    def __init__(self, faults: ServerFaults | None = None, **options: Any) -> None:
        super().__init__(faults)
        self._options, self._numbers = options, itertools.count(1)

    @contextlib.asynccontextmanager
    async def controlling(self, **options: Any) -> AsyncIterator[AttachDetach]:
        """A running controller; cancelled at the end, as by kill -9."""
        controller = AttachDetach(self.runtime, AttachDetachOptions(**{**self._options, **options}))
        async with self.running(controller.run()):
            yield controller

    def _name(self, base: str) -> str:
        return f"{base}{next(self._numbers)}"

    # -- nodes

    async def node(
        self,
        name: str = "",
        *,
        managed: bool = True,
        in_use: Iterable[Vol] = (),
        reported: Iterable[Vol] = (),
        foreign: Iterable[Json] = (),
    ) -> str:
        name = name or self._name("n")
        listed = [*({"name": one.unique, "devicePath": ""} for one in reported), *foreign]
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "volumesInUse": [one.unique for one in in_use] or None,
            "volumesAttached": listed or None,
        }
        await self.create(a_node(name, annotations={MANAGED: "true"} if managed else None, **status))
        return name

    async def node_status(self, node: str, **status: Any) -> None:
        await self.patch(NODES, node, {"status": status}, subresource="status")

    async def set_in_use(self, node: str, *volumes: Vol) -> None:
        await self.node_status(node, volumesInUse=[one.unique for one in volumes] or None)

    async def set_ready(self, node: str, ready: bool) -> None:
        """As a kubelet, or node health, writes it: with the time of the transition."""
        since = rfc3339(self.clock.wall_s())
        await self.node_status(
            node, conditions=[{"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": since}]
        )

    async def manage(self, node: str) -> None:
        await self.patch(NODES, node, {"metadata": {"annotations": {MANAGED: "true"}}})

    async def taint(self, node: str) -> None:
        taint = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}
        await self.patch(NODES, node, {"spec": {"taints": [taint]}})

    async def entries(self, node: str) -> list[Json]:
        found: list[Json] = (await self.get(NODES, node))["status"].get("volumesAttached") or []
        return found

    async def reported(self, node: str) -> list[str]:
        return sorted(one["name"] for one in await self.entries(node))

    async def wait_reported(self, node: str, *volumes: Vol) -> None:
        wanted = sorted(one.unique for one in volumes)

        async def is_so() -> bool:
            return await self.reported(node) == wanted

        await self.until(is_so, what=f"{node} reports {wanted}")

    # -- volumes

    async def volume(
        self,
        handle: str = "",
        *,
        modes: Iterable[str] = RWO,
        driver: str = DRIVER,
        namespace: str = NS,
        claim: str = "",
        uid: str = "",
        bound: bool = True,
        owner: Json | None = None,
        **pv: Any,
    ) -> Vol:
        """A PersistentVolume and its claim. uid: a wrong one in claimRef. bound: False leaves the claim Pending. owner:
        of the claim.
        """
        name = self._name("pv")
        volume = Vol(name, claim or name, driver, handle or f"h-{name}", namespace)
        owners = [owner] if owner else None
        made = await self.create(
            a_claim(
                volume.claim,
                sc="",
                volume=name if bound else None,
                modes=modes,
                namespace=namespace,
                ownerReferences=owners,
            )
        )
        ref = {
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": volume.claim,
            "uid": uid or made["metadata"]["uid"],
        }
        source = {"csi": {"driver": driver, "volumeHandle": volume.handle}}
        await self.create(a_pv(name, modes=modes, **{"source": source, "claimRef": ref, **pv}))
        if bound:
            await self._bound(volume)
        return volume

    async def _bound(self, volume: Vol) -> None:
        await self.patch(
            PERSISTENT_VOLUME_CLAIMS, volume.claim, {"status": {"phase": "Bound"}}, volume.namespace, "status"
        )

    async def bind(self, volume: Vol) -> None:
        await self.patch(PERSISTENT_VOLUME_CLAIMS, volume.claim, {"spec": {"volumeName": volume.pv}}, volume.namespace)
        await self._bound(volume)

    async def csi_driver(self, **spec: Any) -> None:
        await self.create(a_csi_driver(**spec))

    # -- pods

    async def pod(self, node: str, *volumes: Vol, name: str = "", namespace: str = NS, **more: Any) -> str:
        name = name or self._name("p")
        claims = [one.claim for one in volumes if one.claim]
        await self.create(a_pod(name, *claims, node=node, namespace=namespace, terminationGracePeriodSeconds=0, **more))
        return name

    async def pod_uid(self, name: str) -> str:
        uid: str = (await self.get(PODS, name))["metadata"]["uid"]
        return uid

    async def delete_pod(self, name: str, namespace: str = NS) -> None:
        await self.users.delete(PODS, name, namespace, grace_period_s=0)
        await self.gone(PODS, name, namespace)

    async def terminate_pod(self, name: str) -> None:
        await self.users.delete(PODS, name, NS, grace_period_s=600)

    async def pod_status(self, name: str, phase: str = "Running", state: str | None = None) -> None:
        """state: of its one container: running, waiting, terminated; "none" of them."""
        states: Mapping[str, Json] = {
            "running": {"running": {}},
            "waiting": {"waiting": {"reason": "w"}},
            "terminated": {"terminated": {"exitCode": 0}},
            "none": {},
        }
        entry: Json = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        entries = None if state is None else [{**entry, "state": states[state]}]
        await self.patch(PODS, name, {"status": {"phase": phase, "containerStatuses": entries}}, NS, "status")

    async def told(self, pod: str) -> list[tuple[str, str, str]]:
        """Type, reason and text of what the pod heard, oldest first."""
        found = await self.events_about(pod)
        return [
            (one["type"], one["reason"], one["message"])
            for one in sorted(found, key=lambda one: str(one["metadata"]["name"]))
        ]

    async def wait_told(self, pod: str, reason: str, text: str = "") -> str:
        async def found() -> str:
            return next((message for _, why, message in await self.told(pod) if why == reason and text in message), "")

        message: str = await self.until(found, 400.0, what=f"{pod} hears {reason} {text}")
        return message

    # -- attachments, as an attacher

    async def va(self, volume: Vol, node: str) -> Json | None:
        return await self.find(VOLUME_ATTACHMENTS, volume.va(node))

    async def make_va(
        self, volume: Vol, node: str, *, attached: bool = True, hold: bool = False, name: str = "", **more: Any
    ) -> str:
        """As an earlier controller and its attacher left it."""
        name = name or volume.va(node)
        fields = {
            "attacher": volume.driver,
            "finalizers": [HOLD] if hold else None,
            "status": {"attached": attached},
            **more,
        }
        await self.create(a_va(name, fields.pop("pv", volume.pv), node, **fields))
        return name

    async def wait_va(self, volume: Vol, node: str) -> Json:
        found: Json = await self.shown(VOLUME_ATTACHMENTS, volume.va(node), bool, "there")
        return found

    async def wait_no_va(self, volume: Vol, node: str) -> None:
        await self.gone(VOLUME_ATTACHMENTS, volume.va(node))

    async def wait_deleting(self, volume: Vol, node: str) -> None:
        await self.shown(
            VOLUME_ATTACHMENTS, volume.va(node), lambda one: one["metadata"].get("deletionTimestamp"), "being deleted"
        )

    async def va_status(self, volume: Vol, node: str, **status: Any) -> None:
        await self.patch(
            VOLUME_ATTACHMENTS, volume.va(node), {"status": {"attached": False, **status}}, subresource="status"
        )

    async def set_attached(self, volume: Vol, node: str, attached: bool = True, *, hold: bool = False) -> None:
        if hold:
            await self.patch(VOLUME_ATTACHMENTS, volume.va(node), {"metadata": {"finalizers": [HOLD]}})
        await self.va_status(volume, node, attached=attached, attachError=None)

    async def release(self, volume: Vol, node: str) -> None:
        """The attacher has detached."""
        await self.patch(VOLUME_ATTACHMENTS, volume.va(node), {"metadata": {"finalizers": None}})

    async def attach(self, volume: Vol, node: str, *, hold: bool = False) -> None:
        await self.wait_va(volume, node)
        await self.set_attached(volume, node, hold=hold)

        async def is_reported() -> bool:
            return volume.unique in await self.reported(node)

        await self.until(is_reported, what=f"{volume.unique} reported on {node}")

    async def attached(self, *volumes: Vol, node: str = "", hold: bool = False, **pod: Any) -> tuple[str, str]:
        """A node, and a pod there whose volumes are attached."""
        node = node or await self.node()
        name = await self.pod(node, *volumes, **pod)
        for volume in volumes:
            await self.attach(volume, node, hold=hold)
        return node, name

    # -- what the controller did

    def of(self, short: str, name: str = "") -> list[Request]:
        return [one for one in self.cluster.requests if one.short == short and name in ("", one.name)]

    def writes(self) -> list[str]:
        """Without events."""
        return [one.short for one in self.cluster.requests if one.verb != "get" and one.resource != "events"]

    def forced(self, why: str) -> float:
        return self.metrics.registry.get_sample_value(FORCED, {"reason": why}) or 0.0

    async def attachments(self) -> list[str]:
        return [one["metadata"]["name"] for one in await self.list(VOLUME_ATTACHMENTS)]


@contextlib.asynccontextmanager
async def attaching(faults: ServerFaults | None = None, **options: Any) -> AsyncIterator[AttachDetachWorld]:
    """A new cluster with a running controller."""
    world = AttachDetachWorld(faults, **options)
    async with world.controlling():
        yield world
