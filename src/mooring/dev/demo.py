"""The demo: one volume from creation to deletion, attached and detached in between, and nobody is taken at his word.

What the API says is read over HTTP, as kubectl would; what the driver says is asked over its socket; and what the driver has is
read from its state file and its folders. The three must agree after each step, or the demo fails.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, TypeVar

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Kind, finalizers_of, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.errors import MooringError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.ground import CAPABILITY, VOLUME_BYTES
from mooring.dev.objects import csi_node, persistent_volume, volume_attachment
from mooring.dev.plane import Plane
from mooring.dev.story import Story
from mooring.dev.waiting import Seen, until
from mooring.driver.state import Volume
from mooring.driver.statefile import read_state
from mooring.kube.cluster import Cluster
from mooring.kube.patch import json_patch, remove, test

T = TypeVar("T")

NODE: Final = "demo-node"
PV: Final = "demo-pv"
VA: Final = "demo-attachment"
PROTECTION: Final = "kubernetes.io/pv-protection"

_WAIT_S_MAX: Final = 4.0
_CALL: Final = Call(timeout_s=5.0)


class DemoFailed(MooringError):
    """Something was not as the demo claims; str() says what was expected and what was found."""


class Demo:
    """cluster: a client over HTTP; driver: a connection of the demo's own. run() once."""

    def __init__(self, plane: Plane, cluster: Cluster, driver: Driver, story: Story) -> None:
        self._plane = plane
        self._cluster = cluster
        self._driver = driver
        self._story = story
        self._handle = ""

    async def run(self) -> None:
        """Raises DemoFailed, or what the ports raise."""
        for step in (self._create, self._apply, self._attach, self._detach, self._delete_pv, self._delete):
            self._story.step((step.__doc__ or "").partition("\n")[0].rstrip("."))
            await step()
        self._count()

    # -- the steps; the first line of each is its title

    async def _create(self) -> None:
        """The driver creates a volume."""
        request = csi.CreateVolumeRequest(name="demo", capacity_range={"required_bytes": VOLUME_BYTES}, volume_capabilities=[CAPABILITY])
        answer = await self._driver.create_volume(request, _CALL)
        self._handle = answer.volume.volume_id
        await self._driver_has(on=[])

    async def _apply(self) -> None:
        """A PersistentVolume names it, and a CSINode says how the driver knows the node."""
        await self._cluster.create(CSI_NODES.whole(), csi_node(self._plane.driver_name, NODE))
        pv = await self._cluster.create(PERSISTENT_VOLUMES.whole(), persistent_volume(self._plane.driver_name, PV, self._handle))
        self._expect("finalizers of the new PersistentVolume", [PROTECTION], pv["metadata"].get("finalizers"))
        self._story.checked(f"the API server protects the PersistentVolume with {PROTECTION}")

    async def _attach(self) -> None:
        """A VolumeAttachment asks for it on the node: the attacher attaches."""
        began_s = self._story.elapsed_s
        await self._cluster.create(VOLUME_ATTACHMENTS.whole(), volume_attachment(self._plane.driver_name, VA, PV, NODE))
        attached = await self._until(VOLUME_ATTACHMENTS, VA, lambda va: va is not None and va.status.attached, "is attached")
        assert attached is not None
        took_ms = (self._story.elapsed_s - began_s) * 1000
        self._story.checked(f"the VolumeAttachment says attached, {took_ms:.0f} ms after it was asked for")
        volume = await self._driver_has(on=[NODE])
        context = {"publication": str(volume.published[0].number)}
        self._expect("attachmentMetadata", context, attached.status.attachment_metadata)
        self._story.checked("attachmentMetadata is what the driver answered")
        await self._finalizers_hold(attached)

    async def _detach(self) -> None:
        """The VolumeAttachment is deleted: the attacher detaches, then lets it go."""
        await self._cluster.delete(VOLUME_ATTACHMENTS, VA)
        await self._until(VOLUME_ATTACHMENTS, VA, lambda va: va is None, "is gone")
        self._story.checked("the VolumeAttachment is gone")
        await self._driver_has(on=[])

    async def _delete_pv(self) -> None:
        """The PersistentVolume is deleted: the attacher takes its finalizer away."""
        await self._cluster.delete(PERSISTENT_VOLUMES, PV)
        await self._until(PERSISTENT_VOLUMES, PV, _only_protected, f"is held by {PROTECTION} alone")
        self._story.checked(f"only {PROTECTION} still holds it; a cluster's PV controller takes that away, here the demo does")
        only = "/metadata/finalizers/0"
        await self._cluster.patch(PERSISTENT_VOLUMES, PV, json_patch([test(only, PROTECTION), remove(only)]))
        await self._until(PERSISTENT_VOLUMES, PV, lambda pv: pv is None, "is gone")
        self._story.checked("the PersistentVolume is gone, the volume itself is not")
        await self._driver_has(on=[])

    async def _delete(self) -> None:
        """The driver deletes the volume, and nothing is left."""
        await self._cluster.delete(CSI_NODES, NODE)
        await self._driver.delete_volume(csi.DeleteVolumeRequest(volume_id=self._handle), _CALL)
        listed = await self._driver.list_volumes(csi.ListVolumesRequest(), _CALL)
        self._expect("volumes that the driver lists", [], [one.volume.volume_id for one in listed.entries])
        self._expect("the volume in the driver's state file", None, self._state_of_volume())
        self._expect("the volume's folder is there", False, self._folder_exists())
        self._story.checked("the driver, its state file and its folders agree: there is no volume")
        for kind in (VOLUME_ATTACHMENTS, PERSISTENT_VOLUMES, CSI_NODES):
            left = [one["metadata"]["name"] for one in (await self._cluster.list(kind.whole())).items]
            self._expect(f"objects of kind {kind.name}", [], left)
        self._story.checked("the API server has no VolumeAttachment, no PersistentVolume and no CSINode")

    # -- looking

    async def _driver_has(self, on: list[str]) -> Volume:
        """Asserts that the driver's word, its state file and its folders agree on the volume being on just these nodes."""
        answer = await self._driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id=self._handle), _CALL)
        self._expect("nodes that the driver names", on, list(answer.status.published_node_ids))
        volume = self._state_of_volume()
        if volume is None:
            raise DemoFailed("the volume is not in the driver's state file")
        self._expect("nodes in the driver's state file", on, [one.node_id for one in volume.published])
        self._expect("the volume's folder is there", True, self._folder_exists())
        self._story.checked(f"the driver, its state file and its folder agree: the volume is on {' and '.join(on) or 'no node'}")
        return volume

    async def _finalizers_hold(self, attached: VolumeAttachment) -> None:
        finalizer = f"external-attacher/{self._plane.driver_name.replace('.', '-')}"
        self._expect("finalizers of the VolumeAttachment", (finalizer,), finalizers_of(attached))
        pv = await self._cluster.get(PERSISTENT_VOLUMES, PV)
        self._expect("finalizers of the PersistentVolume", {PROTECTION, finalizer}, set(finalizers_of(pv)))
        self._story.checked(f"{finalizer} holds the VolumeAttachment and the PersistentVolume")

    async def _until(self, kind: Kind[T], name: str, wanted: Seen[T], what: str) -> T | None:
        """The object once it is as wanted. Raises DemoFailed, with what its status says, when that takes too long."""
        try:
            async with asyncio.timeout(_WAIT_S_MAX):
                return await until(self._cluster, kind, name, wanted)
        except TimeoutError:
            whole = [one for one in (await self._cluster.list(kind.whole())).items if one["metadata"]["name"] == name]
            seen = f"its status: {json.dumps(whole[0].get('status'))}" if whole else "it is not there"
            raise DemoFailed(f"{kind.name} {name} {what}: not within {_WAIT_S_MAX:g} s; {seen}") from None

    def _state_of_volume(self) -> Volume | None:
        return read_state(self._plane.state_folder).volumes.get(self._handle)

    def _folder_exists(self) -> bool:
        return (self._plane.state_folder / "volumes" / self._handle).is_dir()

    def _count(self) -> None:
        """Nothing failed, and nothing was done twice."""
        changing = ("CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume")
        calls = {name: self._story.calls[name] for name in changing}
        self._expect("changing calls to the driver", dict.fromkeys(changing, 1), calls)
        self._expect("failed calls", {}, dict(self._story.failed_calls))
        self._story.checked(f"{', '.join(changing)}: each was called once, and no call failed")

    def _expect(self, what: str, expected: Any, found: Any) -> None:
        if expected != found:
            raise DemoFailed(f"{what}: expected {expected!r}, found {found!r}")


def _only_protected(pv: PersistentVolume | None) -> bool:
    return pv is not None and is_deleting(pv) and finalizers_of(pv) == (PROTECTION,)
