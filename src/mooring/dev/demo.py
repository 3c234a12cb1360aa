"""The demo: one volume's life from claim to deletion. After each step API, driver, state file and folders must agree, or it fails."""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import finalizers_of
from mooring.api.storage import CSI_NODES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.csi.driver import Driver
from mooring.dev.plane import Plane
from mooring.dev.polling import DemoFailed, Polling
from mooring.dev.seed_objects import claim, csi_node, storage_class, volume_attachment
from mooring.dev.story import Story
from mooring.kube.cluster import Cluster

__all__ = ["NODE", "Demo", "DemoFailed"]

NODE: Final = "demo-node"
CLASS: Final = "demo-class"
CLAIM: Final = "demo-claim"
VA: Final = "demo-attachment"
NAMESPACE: Final = "default"

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
PROVISIONING: Final = "external-provisioner.volume.kubernetes.io/finalizer"

_LEFT: Final = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS, STORAGE_CLASSES, CSI_NODES)


class Demo:
    """cluster: a client over HTTP; driver: a connection of the demo's own. run() once."""

    def __init__(self, plane: Plane, cluster: Cluster, driver: Driver, story: Story) -> None:
        self._driver_name = plane.driver_name
        self._cluster = cluster
        self._story = story
        self._polling = Polling(plane, cluster, driver, story)
        self._pv = ""  # names of what the controllers make
        self._handle = ""

    async def run(self) -> None:
        """Raises DemoFailed, or what the ports raise."""
        for step in (self._prepare, self._ask, self._attach, self._detach, self._give_back, self._clear_away):
            self._story.step((step.__doc__ or "").partition("\n")[0].rstrip("."))
            await step()
        self._count()

    # -- the steps; the first line of each is its title

    async def _prepare(self) -> None:
        """Creates the StorageClass of the driver, and the CSINode of the node."""
        await self._cluster.create(STORAGE_CLASSES.whole(), storage_class(self._driver_name, CLASS))
        await self._cluster.create(CSI_NODES.whole(), csi_node(self._driver_name, NODE, {}))

    async def _ask(self) -> None:
        """A claim asks for a volume: the binder says whose task that is, the provisioner has it made, the binder binds."""
        began_s = self._story.elapsed_s
        await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim(CLAIM, CLASS), NAMESPACE)
        bound = await self._polling.until(PERSISTENT_VOLUME_CLAIMS, CLAIM, _is_bound, "is bound")
        assert bound is not None
        self._story.checked(f"the claim is bound, {(self._story.elapsed_s - began_s) * 1000:.0f} ms after it was made")
        self._pv = bound.spec.volume_name
        self._expect("name of the PersistentVolume", f"pvc-{bound.metadata.uid}", self._pv)
        pv = await self._polling.until(PERSISTENT_VOLUMES, self._pv, _has_its_claim, "is bound")
        assert pv is not None
        self._check_bound(bound, pv)
        volume = await self._polling.driver_has(self._handle, on=[])
        self._expect("name that the driver knows the volume by", self._pv, volume.name)

    def _check_bound(self, bound: PersistentVolumeClaim, pv: PersistentVolume) -> None:
        """Both name each other, and what must not vanish yet is held."""
        assert pv.spec.claim_ref is not None
        self._expect("uid of the claim in the PersistentVolume", bound.metadata.uid, pv.spec.claim_ref.uid)
        assert pv.spec.csi is not None
        self._expect("driver in the PersistentVolume", self._driver_name, pv.spec.csi.driver)
        self._handle = pv.spec.csi.volume_handle
        self._story.checked(f"PersistentVolume {self._pv} and the claim name each other")
        self._expect("finalizers of the claim", (CLAIM_PROTECTION,), finalizers_of(bound))
        self._expect("finalizers of the PersistentVolume", {PROVISIONING, VOLUME_PROTECTION}, set(finalizers_of(pv)))
        self._story.checked(f"{PROVISIONING} holds the PersistentVolume as long as the volume is there")

    async def _attach(self) -> None:
        """A VolumeAttachment asks for it on the node: the attacher attaches."""
        began_s = self._story.elapsed_s
        await self._cluster.create(VOLUME_ATTACHMENTS.whole(), volume_attachment(self._driver_name, VA, self._pv, NODE))
        attached = await self._polling.until(VOLUME_ATTACHMENTS, VA, lambda va: va is not None and va.status.attached, "is attached")
        assert attached is not None
        self._story.checked(f"the VolumeAttachment says attached, {(self._story.elapsed_s - began_s) * 1000:.0f} ms after it was asked for")
        volume = await self._polling.driver_has(self._handle, on=[NODE])
        context = {"publication": str(volume.published[0].number)}
        self._expect("attachmentMetadata", context, attached.status.attachment_metadata)
        self._story.checked("attachmentMetadata is what the driver answered")
        await self._check_held(attached)

    async def _check_held(self, attached: VolumeAttachment) -> None:
        finalizer = f"external-attacher/{self._driver_name.replace('.', '-')}"
        self._expect("finalizers of the VolumeAttachment", (finalizer,), finalizers_of(attached))
        pv = await self._cluster.get(PERSISTENT_VOLUMES, self._pv)
        self._expect("finalizers of the PersistentVolume", {PROVISIONING, VOLUME_PROTECTION, finalizer}, set(finalizers_of(pv)))
        self._story.checked(f"{finalizer} holds the VolumeAttachment and the PersistentVolume")

    async def _detach(self) -> None:
        """The VolumeAttachment is deleted: the attacher detaches, then lets it go."""
        await self._cluster.delete(VOLUME_ATTACHMENTS, VA)
        await self._polling.until(VOLUME_ATTACHMENTS, VA, lambda va: va is None, "is gone")
        self._story.checked("the VolumeAttachment is gone")
        await self._polling.driver_has(self._handle, on=[])

    async def _give_back(self) -> None:
        """The claim is deleted: the binder releases the volume, the provisioner has it deleted."""
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM, NAMESPACE)
        await self._polling.until(PERSISTENT_VOLUME_CLAIMS, CLAIM, lambda one: one is None, "is gone")
        await self._polling.until(PERSISTENT_VOLUMES, self._pv, lambda pv: pv is None, "is gone")
        self._story.checked("the claim and the PersistentVolume are gone")
        await self._polling.driver_has_nothing()

    async def _clear_away(self) -> None:
        """The class and the node go, and nothing is left."""
        await self._cluster.delete(STORAGE_CLASSES, CLASS)
        await self._cluster.delete(CSI_NODES, NODE)
        for kind in _LEFT:
            left = [one["metadata"]["name"] for one in (await self._cluster.list(kind.whole())).items]
            self._expect(f"objects of kind {kind.name}", [], left)
        *names, last = (kind.name for kind in _LEFT)
        self._story.checked(f"the API server has no {', no '.join(names)} and no {last}")

    def _count(self) -> None:
        """Nothing failed, and nothing was done twice."""
        changing = ("CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume")
        calls = {name: self._story.calls[name] for name in changing}
        self._expect("changing calls to the driver", dict.fromkeys(changing, 1), calls)
        self._expect("failed calls", {}, dict(self._story.failed_calls))
        self._story.checked(f"{', '.join(changing)}: each was called once, and no call failed")

    def _expect(self, what: str, expected: object, found: object) -> None:
        self._polling.expect(what, expected, found)


def _is_bound(one: PersistentVolumeClaim | None) -> bool:
    return one is not None and one.status.phase == "Bound"


def _has_its_claim(pv: PersistentVolume | None) -> bool:
    return pv is not None and pv.status.phase == "Bound"
