"""The life of a volume: from its claim through its pods, from node to node, to its detachment.

After each step API, driver, state file, folders and the mount table must agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mooring.api.binding import own_volume_name
from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.meta import finalizers_of
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.pods import PODS, Pod
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.api.workloads import DEPLOYMENTS
from mooring.base.units import format_duration
from mooring.dev.demo.stage import (
    CLAIM_PROTECTION,
    CLASS,
    NAMESPACE,
    NODE_NAMES,
    PATIENCE,
    PROVISIONING,
    VOLUME_PROTECTION,
    Stage,
)
from mooring.dev.options import Patience
from mooring.dev.polling import PodFolder
from mooring.dev.seed_objects import claim, deployment
from mooring.kube.cluster import Selection

CLAIM: Final = "demo-claim"
NAME: Final = "demo"
"""For the Deployment, and in the label of its pods."""
GREETING: Final = "written by the first pod"

_PODS: Final = Selection(namespace=NAMESPACE, label_selector=f"app={NAME}")


class LifeDemo:
    """One volume's."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._cluster, self._story, self._polling, self._folders = (
            stage.cluster,
            stage.story,
            stage.polling,
            stage.folders,
        )
        self.pv = ""  # names of what the controllers make
        self.handle = ""
        self._pod: Pod | None = None  # the last one that ran

    # -- the steps; the first line of each is its title

    async def ask(self) -> None:
        """A claim asks for a volume: the binder says whose task that is, the provisioner has it made, the binder
        binds.
        """
        began_s = self._story.elapsed_s
        await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim(CLAIM, CLASS), NAMESPACE)
        bound = await self._polling.until(PERSISTENT_VOLUME_CLAIMS, CLAIM, is_bound, "is bound")
        assert bound is not None
        self._stage.moment("the claim is bound to a new volume")
        self._story.checked(f"the claim is bound, {(self._story.elapsed_s - began_s) * 1000:.0f} ms after it was made")
        self.pv = bound.spec.volume_name
        self._stage.expect("name of the PersistentVolume", own_volume_name(bound), self.pv)
        pv = await self._polling.until(PERSISTENT_VOLUMES, self.pv, _has_its_claim, "is bound")
        assert pv is not None
        self._check_bound(bound, pv)
        volume = await self._polling.driver_has(self.handle, on=[])
        self._stage.expect("name that the driver knows the volume by", self.pv, volume.name)

    def _check_bound(self, bound: PersistentVolumeClaim, pv: PersistentVolume) -> None:
        """Both name each other, and what must not vanish yet is held."""
        assert pv.spec.claim_ref is not None
        self._stage.expect("uid of the claim in the PersistentVolume", bound.metadata.uid, pv.spec.claim_ref.uid)
        assert pv.spec.csi is not None
        self._stage.expect("driver in the PersistentVolume", self._stage.driver_name, pv.spec.csi.driver)
        self.handle = pv.spec.csi.volume_handle
        self._story.checked(f"PersistentVolume {self.pv} and the claim name each other")
        self._stage.expect("finalizers of the claim", (CLAIM_PROTECTION,), finalizers_of(bound))
        self._stage.expect(
            "finalizers of the PersistentVolume", {PROVISIONING, VOLUME_PROTECTION}, set(finalizers_of(pv))
        )
        self._story.checked(f"{PROVISIONING} holds the PersistentVolume as long as the volume is there")

    async def run_pod(self) -> None:
        """A Deployment of one pod asks for the volume: it is attached, staged and published where the pod goes, and the
        pod runs.
        """
        await self._cluster.create(DEPLOYMENTS.whole(), deployment(NAME, CLAIM), NAMESPACE)
        first = await self._pod_runs()
        self._folders[first.spec.node_name].write(first.metadata.uid, self.pv, GREETING)
        self._stage.moment(f"a pod on {self.node} has written to it")

    async def move(self) -> None:
        """Its node is closed for new pods and the pod deleted: the next one has the volume on the other node, and
        reads.
        """
        old = self.node
        await self._stage.patch_node(old, {"unschedulable": True})
        self._stage.moment(f"{old} takes no new pods, and the pod is deleted")
        await self._cluster.delete(PODS, self._name, NAMESPACE)
        await self._polling.until(PODS, self._name, lambda one: one is None, "is gone")
        self._story.checked(f"the pod on {old} is gone")
        await self._moved_from(old)
        self._folders[old].check_empty(old)
        await self._stage.check_node(old, [])
        await self._stage.patch_node(old, {"unschedulable": None})

    async def lose_node(self) -> None:
        """That node's power is cut: after its time of grace it is not ready, and nothing is taken from it, for it may
        still run.
        """
        dead, began_s = self.node, self._story.elapsed_s
        self._stage.moment(f"the power of {dead} is cut")
        await self._stage.nodes.kill(dead)
        self._folders[dead].check_unmounted()
        await self._polling.until(NODES, dead, _is_silent, "is Unknown", more_s=PATIENCE.grace_s)
        self._stage.moment(f"{dead} is Unknown; the volume stays attached there")
        grace, usual = format_duration(PATIENCE.grace_s), format_duration(Patience().grace_s)
        self._story.checked(
            f"{dead} is Unknown and unreachable, {(self._story.elapsed_s - began_s) * 1000:.0f} ms after the cut "
            f"(here --node-monitor-grace-period={grace}, not the usual {usual})"
        )
        await self._check_attached(dead)

    async def let_go(self) -> None:
        """Somebody who knows that the machine is off says so, by a taint: pod and volume leave it, and the next pod
        reads.
        """
        dead = self.node
        taint = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}
        await self._stage.patch_node(dead, {"taints": [*await self._stage.taints(dead), taint]})
        self._stage.moment(f"{dead} is tainted {OUT_OF_SERVICE_TAINT}")
        await self._polling.until(PODS, self._name, lambda one: one is None, "is removed")
        self._story.checked(f"the pod on {dead} was evicted and removed")
        await self._moved_from(dead)

    async def return_node(self) -> None:
        """The node's power comes back: its agent tidies up what it had, and it is taken back into service."""
        back = next(name for name in NODE_NAMES if name != self.node)
        await self._stage.nodes.revive(back)
        taints = [one for one in await self._stage.taints(back) if one["key"] != OUT_OF_SERVICE_TAINT]
        await self._stage.patch_node(back, {"taints": taints})
        await self._polling.until(NODES, back, _is_well, "is ready, untainted and without volumes")
        self._folders[back].check_empty(back)
        await self._stage.check_node(back, [])
        await self._polling.driver_has(self.handle, on=[self.node])
        self._stage.moment(f"{back} is back, and has tidied up")

    async def end_pod(self) -> None:
        """The Deployment is deleted, and its pod with it: the volume is unpublished, unstaged and detached."""
        await self._cluster.delete(DEPLOYMENTS, NAME, NAMESPACE)
        await self._polling.until(PODS, self._name, lambda one: one is None, "is gone")
        self._story.checked("the pod is gone")
        await self._detached_from(self.node)
        self._folders[self.node].check_empty(self.node)
        await self._polling.driver_has(self.handle, on=[])
        await self._stage.check_node(self.node, [])

    # -- what several steps do

    @property
    def _name(self) -> str:
        """The name of the pod that ran last."""
        assert self._pod is not None
        return self._pod.metadata.name

    @property
    def node(self) -> str:
        """Its node."""
        assert self._pod is not None
        return self._pod.spec.node_name

    @property
    def folder(self) -> PodFolder:
        """That node's."""
        return self._folders[self.node]

    @property
    def path(self) -> Path:
        """Where that pod sees the volume."""
        assert self._pod is not None
        return self.folder.path(self._pod.metadata.uid, self.pv)

    async def _pod_runs(self) -> Pod:
        """The Deployment's next pod."""
        began_s, before = self._story.elapsed_s, self._pod
        self._pod = running = await self._polling.until_any(
            PODS, _PODS, lambda one: _runs(one) and not _is(one, before), f"of {NAME} runs"
        )
        self._story.checked(f"the pod runs on {self.node}, {(self._story.elapsed_s - began_s) * 1000:.0f} ms later")
        await self._check_attached(self.node)
        await self._stage.check_node(self.node, [unique_name(self._stage.driver_name, self.handle)])
        self._folders[self.node].check_there(running.metadata.uid, self.pv, self._stage.driver_name, self.handle)
        return running

    async def _moved_from(self, old: str) -> None:
        """The next pod runs on the other node, and reads; the volume has left the old one."""
        await self._detached_from(old)
        running = await self._pod_runs()
        self._stage.expect("node of the pod", next(name for name in NODE_NAMES if name != old), self.node)
        self._folders[self.node].read(running.metadata.uid, self.pv, GREETING)
        self._stage.moment(f"detached from {old}; a pod on {self.node} has read what was written")

    async def _detached_from(self, name: str) -> None:
        attachment = attachment_name(self._stage.driver_name, self.handle, name)
        await self._polling.until(VOLUME_ATTACHMENTS, attachment, lambda one: one is None, "is gone")
        self._story.checked(f"the VolumeAttachment to {name} is gone")

    async def _check_attached(self, name: str) -> None:
        """Attacher and driver agree that the volume is on this node alone. Finalizers hold the objects that must not
        vanish yet.
        """
        attachment = await self._cluster.get(
            VOLUME_ATTACHMENTS, attachment_name(self._stage.driver_name, self.handle, name)
        )
        self._stage.expect("attached, in the VolumeAttachment", True, attachment.status.attached)
        volume = await self._polling.driver_has(self.handle, on=[name])
        context = {"publication": str(volume.published[0].number)}
        self._stage.expect("attachmentMetadata", context, attachment.status.attachment_metadata)
        finalizer = f"external-attacher/{self._stage.driver_name.replace('.', '-')}"
        self._stage.expect("finalizers of the VolumeAttachment", (finalizer,), finalizers_of(attachment))
        pv = await self._cluster.get(PERSISTENT_VOLUMES, self.pv)
        self._stage.expect(
            "finalizers of the PersistentVolume", {PROVISIONING, VOLUME_PROTECTION, finalizer}, set(finalizers_of(pv))
        )
        self._story.checked(f"{finalizer} holds the VolumeAttachment and the PersistentVolume")


def is_bound(one: PersistentVolumeClaim | None) -> bool:
    return one is not None and one.status.phase == "Bound"


def _has_its_claim(pv: PersistentVolume | None) -> bool:
    return pv is not None and pv.status.phase == "Bound"


def _runs(one: Pod) -> bool:
    return one.status.phase == "Running" and one.metadata.deletion_timestamp is None


def _is(one: Pod, before: Pod | None) -> bool:
    return before is not None and one.metadata.uid == before.metadata.uid


def _readiness(one: Node) -> str:
    return next((condition.status for condition in one.status.conditions or () if condition.type == "Ready"), "")


def _is_silent(one: Node | None) -> bool:
    """And says so to the scheduler."""
    return one is not None and _readiness(one) == "Unknown" and bool(one.spec.taints)


def _is_well(one: Node | None) -> bool:
    return one is not None and _readiness(one) == "True" and not one.spec.taints and not one.status.volumes_in_use
