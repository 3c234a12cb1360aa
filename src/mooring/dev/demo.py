"""The demo: one volume's life, from claim to deletion, with a pod that writes to it and another that reads what was written.

After each step API, driver, state file, folders and the mount table must agree, or it fails.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import finalizers_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.csi.driver import Driver
from mooring.dev.plane import Plane
from mooring.dev.pod_folder import PodFolder
from mooring.dev.polling import DemoFailed, Polling
from mooring.dev.seed_objects import claim, csi_driver, node, pod, storage_class
from mooring.dev.story import Story
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.mounts.namespace import MountSpace
from mooring.node.layout import attachment_name, unique_name

__all__ = ["NODE", "Demo", "DemoFailed"]

NODE: Final = "demo-node"
CLASS: Final = "demo-class"
CLAIM: Final = "demo-claim"
POD: Final = "demo-pod"
NAMESPACE: Final = "default"
GREETING: Final = "written by the first pod"

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
PROVISIONING: Final = "external-provisioner.volume.kubernetes.io/finalizer"

_LEFT: Final = (PODS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS, STORAGE_CLASSES)
_ONCE: Final = ("CreateVolume", "DeleteVolume")
_TWICE: Final = (
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
)
"""The calls for each of the two pods."""


class Demo:
    """cluster: a client over HTTP; driver: a connection of the demo's own; space: where this process mounts. run() once."""

    def __init__(self, plane: Plane, cluster: Cluster, driver: Driver, space: MountSpace, story: Story) -> None:
        assert plane.nodes is not None
        self._driver_name, self._nodes = plane.driver_name, plane.nodes
        self._cluster = cluster
        self._story = story
        self._polling = Polling(plane, cluster, driver, story)
        self._folder = PodFolder(plane.nodes.roots[NODE], space, self._polling, story)
        self._pv = ""  # names of what the controllers make
        self._handle = ""

    async def run(self) -> None:
        """Raises DemoFailed, or what the ports raise."""
        steps = (
            self._prepare,
            self._ask,
            self._run_pod,
            self._end_pod,
            self._run_next_pod,
            self._end_next_pod,
            self._give_back,
            self._clear_away,
        )
        for step in steps:
            self._story.step((step.__doc__ or "").partition("\n")[0].rstrip("."))
            await step()
        self._count()

    # -- the steps; the first line of each is its title

    async def _prepare(self) -> None:
        """Creates the driver's CSIDriver and StorageClass, and the Node: the driver registers with the node's agent."""
        await self._cluster.create(CSI_DRIVERS.whole(), csi_driver(self._driver_name, attaches=True, takes_inline=True))
        await self._cluster.create(STORAGE_CLASSES.whole(), storage_class(self._driver_name, CLASS))
        await self._cluster.create(NODES.whole(), node(NODE, {}))
        await self._cluster.patch(NODES, NODE, Patch(PatchType.MERGE, {"spec": {"taints": None}}))  # a new node begins as not ready
        await self._nodes.start()
        there = await self._cluster.get(CSI_NODES, NODE)
        self._expect("drivers in the CSINode", [(self._driver_name, NODE)], [(one.name, one.node_id) for one in there.spec.drivers or ()])
        self._story.checked(f"the CSINode names the driver {self._driver_name}, and what it calls the node: {NODE}")
        self._folder.begin()

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

    async def _run_pod(self) -> None:
        """A pod asks for the volume: it gets a node, the volume is attached, staged and published there, and the pod runs."""
        uid = await self._pod_runs()
        self._folder.check_there(uid, self._pv, self._driver_name, self._handle)
        self._folder.write(uid, self._pv, GREETING)

    async def _end_pod(self) -> None:
        """The pod is deleted: the volume is unpublished, unstaged and detached, and only then the pod is gone."""
        await self._pod_ends()

    async def _run_next_pod(self) -> None:
        """Another pod of that name has the same claim: the volume comes back, with what was written."""
        uid = await self._pod_runs()
        self._folder.check_there(uid, self._pv, self._driver_name, self._handle)
        self._folder.read(uid, self._pv, GREETING)

    async def _end_next_pod(self) -> None:
        """That one is deleted, too: nothing is mounted any more."""
        await self._pod_ends()

    async def _pod_runs(self) -> str:
        """The pod's uid."""
        began_s = self._story.elapsed_s
        await self._cluster.create(PODS.whole(), pod(POD, CLAIM), NAMESPACE)
        name = attachment_name(self._driver_name, self._handle, NODE)
        await self._polling.until(VOLUME_ATTACHMENTS, name, lambda one: one is not None and one.status.attached, "is attached")
        running = await self._polling.until(PODS, POD, _runs, "runs")
        assert running is not None
        self._story.checked(f"the pod runs, {(self._story.elapsed_s - began_s) * 1000:.0f} ms after it was made")
        self._expect("node of the pod", NODE, running.spec.node_name)
        await self._check_attached()
        return running.metadata.uid

    async def _check_attached(self) -> None:
        """The attacher's and the driver's word on it agree, and what must not vanish yet is held."""
        attachment = await self._cluster.get(VOLUME_ATTACHMENTS, attachment_name(self._driver_name, self._handle, NODE))
        self._expect("attached, in the VolumeAttachment", True, attachment.status.attached)
        volume = await self._polling.driver_has(self._handle, on=[NODE])
        context = {"publication": str(volume.published[0].number)}
        self._expect("attachmentMetadata", context, attachment.status.attachment_metadata)
        finalizer = f"external-attacher/{self._driver_name.replace('.', '-')}"
        self._expect("finalizers of the VolumeAttachment", (finalizer,), finalizers_of(attachment))
        pv = await self._cluster.get(PERSISTENT_VOLUMES, self._pv)
        self._expect("finalizers of the PersistentVolume", {PROVISIONING, VOLUME_PROTECTION, finalizer}, set(finalizers_of(pv)))
        self._story.checked(f"{finalizer} holds the VolumeAttachment and the PersistentVolume")
        await self._check_node([unique_name(self._driver_name, self._handle)])

    async def _pod_ends(self) -> None:
        await self._cluster.delete(PODS, POD, NAMESPACE)
        await self._polling.until(PODS, POD, lambda one: one is None, "is gone")
        self._story.checked("the pod is gone")
        name = attachment_name(self._driver_name, self._handle, NODE)
        await self._polling.until(VOLUME_ATTACHMENTS, name, lambda one: one is None, "is gone")
        self._story.checked("the VolumeAttachment is gone")
        self._folder.check_empty()
        await self._polling.driver_has(self._handle, on=[])
        await self._check_node([])

    async def _check_node(self, volumes: list[str]) -> None:
        """The Node's status names these volumes as attached, and as in use."""
        status = (await self._cluster.get(NODES, NODE)).status
        self._expect("volumesAttached of the Node", volumes, [one.name for one in status.volumes_attached or ()])
        self._expect("volumesInUse of the Node", volumes, list(status.volumes_in_use or ()))
        self._story.checked(f"the Node's status says so, too: {'attached and in use' if volumes else 'nothing attached, nothing in use'}")

    async def _give_back(self) -> None:
        """The claim is deleted: the binder releases the volume, the provisioner has it deleted."""
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM, NAMESPACE)
        await self._polling.until(PERSISTENT_VOLUME_CLAIMS, CLAIM, lambda one: one is None, "is gone")
        await self._polling.until(PERSISTENT_VOLUMES, self._pv, lambda pv: pv is None, "is gone")
        self._story.checked("the claim and the PersistentVolume are gone")
        await self._polling.driver_has_nothing()

    async def _clear_away(self) -> None:
        """The class goes, and nothing is left."""
        await self._cluster.delete(STORAGE_CLASSES, CLASS)
        for kind in _LEFT:
            left = [one["metadata"]["name"] for one in (await self._cluster.list(kind.whole())).items]
            self._expect(f"objects of kind {kind.name}", [], left)
        *names, last = (kind.name for kind in _LEFT)
        self._story.checked(f"the API server has no {', no '.join(names)} and no {last}")
        self._folder.check_as_at_first()

    def _count(self) -> None:
        """Nothing failed, and nothing was done twice."""
        expected = {**dict.fromkeys(_ONCE, 1), **dict.fromkeys(_TWICE, 2)}
        self._expect("changing calls to the driver", expected, {name: self._story.calls[name] for name in expected})
        self._expect("failed calls", {}, dict(self._story.failed_calls))
        self._story.checked(f"{', '.join(_ONCE)}: called once; {', '.join(_TWICE)}: once for each pod; no call failed")

    def _expect(self, what: str, expected: object, found: object) -> None:
        self._polling.expect(what, expected, found)


def _is_bound(one: PersistentVolumeClaim | None) -> bool:
    return one is not None and one.status.phase == "Bound"


def _has_its_claim(pv: PersistentVolume | None) -> bool:
    return pv is not None and pv.status.phase == "Bound"


def _runs(one: Pod | None) -> bool:
    return one is not None and one.status.phase == "Running"
