"""The volume grows under its pod, is photographed, comes back as another one, and that one changes its class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolumeClaim
from mooring.api.pods import PODS, Pod
from mooring.api.quantity import parse_quantity
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name
from mooring.base.clock import Clock
from mooring.dev.demo.life import CLAIM, GREETING, LifeDemo, is_bound
from mooring.dev.demo.stage import CLASS, NAMESPACE, Diary, Stage
from mooring.dev.seed_objects import claim, pod, restored, snapshot
from mooring.kube.cluster import Patch, PatchType

SNAPSHOT: Final = "demo-snapshot"
RESTORED: Final = "demo-restored"
"""The claim, and its pod."""
BEFORE_CLASS, AFTER_CLASS = "demo-silver", "demo-gold"
ATTRIBUTES: Final = {BEFORE_CLASS: {"iops": "500"}, AFTER_CLASS: {"iops": "5000"}}
GROWN: Final = "2Gi"
_MIB: Final = 1 << 20
_GROWN_BY_MIB: Final = 900
"""At the least, of the 1024: a file system has its own use for some of them."""


class GrowthDemo:
    """life: of the volume, whose pod runs."""

    def __init__(self, stage: Stage, life: LifeDemo, clock: Clock) -> None:
        self._stage, self._life, self._diary = stage, life, Diary(clock)
        self._cluster, self._story, self._polling = stage.cluster, stage.story, stage.polling
        self._pv = self._handle = ""  # of the restored volume

    async def grow(self) -> None:
        """The claim asks for 2 GiB while its pod writes: the volume grows at the driver and on the node, under the
        pod.
        """
        path, began_s = self._life.path, self._story.elapsed_s
        before_mib = self._size_mib(path)
        async with self._diary.kept(path):
            await self._diary.more(5)
            await self._change(CLAIM, {"resources": {"requests": {"storage": GROWN}}})
            await self._polling.until(PERSISTENT_VOLUME_CLAIMS, CLAIM, _has_size(GROWN), f"has {GROWN}")
            await self._diary.more(5)
        self._story.checked(
            f"the claim has {GROWN}, {(self._story.elapsed_s - began_s) * 1000:.0f} ms after its pod began to write"
        )
        pv = await self._cluster.get(PERSISTENT_VOLUMES, self._life.pv)
        self._stage.expect("capacity of the PersistentVolume", GROWN, (pv.spec.capacity or {}).get("storage"))
        volume = await self._polling.driver_has(self._life.handle, on=[self._life.node])
        self._stage.expect("bytes that the driver gives the volume", _bytes(GROWN), volume.capacity_bytes)
        self._stage.expect("lines of the pod that are there", True, self._diary.is_in(path))
        self._story.checked(f"all {self._diary.lines} lines are there that the pod wrote meanwhile")
        self._stage.moment(f"the volume has grown to {GROWN} while the pod wrote{self._seen(path, before_mib)}")

    def _seen(self, path: Path, before_mib: int) -> str:
        """The size that the pod sees."""
        if not self._stage.fs_type:
            return ""
        after_mib = self._size_mib(path)
        self._stage.expect(
            f"{before_mib} MiB in the pod have grown to {after_mib}", True, after_mib - before_mib >= _GROWN_BY_MIB
        )
        self._story.checked(f"the file system that the pod sees has {after_mib} MiB, and had {before_mib}")
        return f", which sees {after_mib} MiB in place of {before_mib}"

    async def photograph(self) -> None:
        """A snapshot is asked for: the snapshot controller makes its content, the snapshotter has it made."""
        began_s = self._story.elapsed_s
        await self._cluster.create(VOLUME_SNAPSHOTS.whole(), snapshot(SNAPSHOT, CLAIM), NAMESPACE)
        ready = await self._polling.until(VOLUME_SNAPSHOTS, SNAPSHOT, _is_ready, "is ready to use")
        self._story.checked(
            f"the snapshot is ready to use, {(self._story.elapsed_s - began_s) * 1000:.0f} ms after it was asked for"
        )
        assert ready is not None
        assert ready.status is not None
        self._stage.expect("restoreSize", GROWN, ready.status.restore_size)
        content = await self._cluster.get(
            VOLUME_SNAPSHOT_CONTENTS, ready.status.bound_volume_snapshot_content_name or ""
        )
        self._stage.expect(
            "uid of the snapshot in its content", ready.metadata.uid, content.spec.volume_snapshot_ref.uid
        )
        assert content.status is not None
        self._polling.driver_has_snapshot(
            content.status.snapshot_handle or "", of=self._life.handle, size_bytes=_bytes(GROWN)
        )
        self._stage.moment("a snapshot of it is ready to use")

    async def lose(self) -> None:
        """The pod deletes all that it has written."""
        self._life.folder.empty(self._life.path)
        self._stage.moment("the pod has deleted all that it wrote")

    async def restore(self) -> None:
        """A claim asks for a volume from the snapshot, and its pod reads what the other one had written."""
        spec = {"volumeAttributesClassName": BEFORE_CLASS, **restored(SNAPSHOT)}
        await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim(RESTORED, CLASS, GROWN, **spec), NAMESPACE)
        bound = await self._polling.until(PERSISTENT_VOLUME_CLAIMS, RESTORED, is_bound, "is bound")
        assert bound is not None
        self._stage.expect("capacity of the restored claim", GROWN, (bound.status.capacity or {}).get("storage"))
        await self._cluster.create(PODS.whole(), pod(RESTORED, RESTORED), NAMESPACE)
        running = await self._polling.until(PODS, RESTORED, _runs, "runs")
        assert running is not None
        node = running.spec.node_name
        self._story.checked(f"its pod runs on {node}")
        self._pv = bound.spec.volume_name
        pv = await self._cluster.get(PERSISTENT_VOLUMES, self._pv)
        assert pv.spec.csi is not None
        self._handle = pv.spec.csi.volume_handle
        self._read(node, running)
        await self._end_pod(node)

    def _read(self, node: str, running: Pod) -> None:
        folder = self._stage.folders[node]
        path = folder.path(running.metadata.uid, self._pv)
        folder.read(running.metadata.uid, self._pv, GREETING)
        self._stage.expect("lines of the pod that are there", True, self._diary.is_in(path))
        self._story.checked(f"all {self._diary.lines} lines of the other pod are there")
        if self._stage.fs_type:
            least_mib = self._size_mib(self._life.path)
            self._stage.expect(
                f"the {self._size_mib(path)} MiB are as much as the {least_mib}",
                True,
                self._size_mib(path) >= least_mib,
            )
        self._stage.moment(f"restored into another volume of {GROWN}; a pod on {node} has read what was deleted")

    async def _end_pod(self, node: str) -> None:
        await self._cluster.delete(PODS, RESTORED, NAMESPACE)
        await self._polling.until(PODS, RESTORED, lambda one: one is None, "is gone")
        attachment = attachment_name(self._stage.driver_name, self._handle, node)
        await self._polling.until(VOLUME_ATTACHMENTS, attachment, lambda one: one is None, "is gone")
        self._story.checked("its pod is gone, and the restored volume is attached nowhere")

    async def modify(self) -> None:
        """The restored claim moves to another VolumeAttributesClass: the driver changes the volume."""
        volume = await self._polling.driver_has(self._handle, on=[], beside=[self._life.handle])
        self._stage.expect(
            f"parameters of {BEFORE_CLASS} in the driver", ATTRIBUTES[BEFORE_CLASS], volume.mutable_parameters
        )
        await self._change(RESTORED, {"volumeAttributesClassName": AFTER_CLASS})
        await self._polling.until(
            PERSISTENT_VOLUME_CLAIMS, RESTORED, _has_class(AFTER_CLASS), f"has the class {AFTER_CLASS}"
        )
        pv = await self._cluster.get(PERSISTENT_VOLUMES, self._pv)
        self._stage.expect("class of the PersistentVolume", AFTER_CLASS, pv.spec.volume_attributes_class_name)
        volume = await self._polling.driver_has(self._handle, on=[], beside=[self._life.handle])
        self._stage.expect(
            f"parameters of {AFTER_CLASS} in the driver", ATTRIBUTES[AFTER_CLASS], volume.mutable_parameters
        )
        self._story.checked(f"claim, PersistentVolume and driver agree: the volume is {AFTER_CLASS}")
        self._stage.moment(f"the restored volume has moved from {BEFORE_CLASS} to {AFTER_CLASS}")

    async def clear(self) -> None:
        """The snapshot and the restored claim are deleted, and with them what the driver had for them."""
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, RESTORED, NAMESPACE)
        await self._cluster.delete(VOLUME_SNAPSHOTS, SNAPSHOT, NAMESPACE)
        await self._polling.until(VOLUME_SNAPSHOTS, SNAPSHOT, lambda one: one is None, "is gone")
        await self._polling.until(PERSISTENT_VOLUMES, self._pv, lambda one: one is None, "is gone")
        await self._polling.until_none(VOLUME_SNAPSHOT_CONTENTS)
        self._polling.driver_has_no_snapshot()
        await self._polling.driver_has(self._life.handle, on=[self._life.node])
        self._stage.moment("the snapshot and the restored volume are deleted")

    def _size_mib(self, path: Path) -> int:
        return self._life.folder.size_bytes(path) // _MIB

    async def _change(self, name: str, spec: dict[str, object]) -> None:
        await self._cluster.patch(PERSISTENT_VOLUME_CLAIMS, name, Patch(PatchType.MERGE, {"spec": spec}), NAMESPACE)


def _bytes(text: str) -> int:
    return parse_quantity(text).whole


def _has_size(size: str) -> Callable[[PersistentVolumeClaim | None], bool]:
    """And nothing of the way there is left."""

    def has(one: PersistentVolumeClaim | None) -> bool:
        if one is None or (one.status.capacity or {}).get("storage") != size:
            return False
        return not one.status.conditions and not one.status.allocated_resource_statuses

    return has


def _has_class(name: str) -> Callable[[PersistentVolumeClaim | None], bool]:
    """And nothing of the way there is left."""

    def has(one: PersistentVolumeClaim | None) -> bool:
        status = None if one is None else one.status
        return (
            status is not None
            and status.current_volume_attributes_class_name == name
            and status.modify_volume_status is None
        )

    return has


def _is_ready(one: VolumeSnapshot | None) -> bool:
    return one is not None and one.status is not None and one.status.ready_to_use is True


def _runs(one: Pod | None) -> bool:
    return one is not None and one.status.phase == "Running"
