"""One look at an object, and at all that its finalizers protect. An unreadable object is an error here: it leaves
nothing proved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, NodeSelector, PersistentVolume
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS, VolumeGroupSnapshotContent
from mooring.api.meta import Key, Kind, Object, finalizers_of, is_deleting
from mooring.api.migration import driver_and_handle, driver_of
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import CLAIM_FINALIZER, MANAGED_BY
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.clock import Clock
from mooring.base.json_text import from_json
from mooring.cluster.snapshots.decide_deletion import content_of
from mooring.cluster.snapshots.view import snapshot_of
from mooring.inspect.locks import CONTROLLER_LOCKS, PROTECTION_LOCKS
from mooring.inspect.objects import NotThere
from mooring.inspect.reading import Reading
from mooring.inspect.renewals import LeaseSight
from mooring.inspect.scene import Scene, Shelf
from mooring.inspect.scene_requests import SEEN_EVENTS
from mooring.inspect.served import as_served
from mooring.inspect.traces import Traces
from mooring.inspect.traces import handle_of as attached_handle
from mooring.inspect.unstick.driver_word import Witness
from mooring.inspect.unstick.facts import Author, DriverWord, Facts
from mooring.inspect.unstick.nearby import NearbySearch
from mooring.inspect.unstick.snapshots import group_handle_of, group_members_of, handle_of
from mooring.inspect.whole import decoded
from mooring.inspect.why.snapshotting import view_of
from mooring.kube.cluster import EVERYTHING, Cluster, Selection
from mooring.kube.errors import NotFound, NotServed
from mooring.kube.list_all import list_all
from mooring.sidecars.provisioner.names import CLONE_FINALIZER

T = TypeVar("T", bound=Object)

KINDS: Final[dict[str, Kind[Any]]] = {
    "pv": PERSISTENT_VOLUMES,
    "pvc": PERSISTENT_VOLUME_CLAIMS,
    "volumeattachment": VOLUME_ATTACHMENTS,
    "volumesnapshot": VOLUME_SNAPSHOTS,
    "volumesnapshotcontent": VOLUME_SNAPSHOT_CONTENTS,
    "volumegroupsnapshot": GROUP_SNAPSHOTS,
    "volumegroupsnapshotcontent": GROUP_SNAPSHOT_CONTENTS,
}
"""The kinds that can be freed."""
_FAILURES: Final = {
    "VolumeFailedDelete": "csi-provisioner",
    "SnapshotDeleteError": "csi-snapshotter",
    "GroupSnapshotDeleteError": "csi-snapshotter",
}
"""Events about tries that failed, with the program that tries."""


class Look:
    """Looks as often as it is asked. witness: the driver, None where it is not asked. watching: as for NearbySearch.
    search: one for several objects.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        kind: str,
        key: Key,
        witness: Witness | None,
        watching: Callable[[str], None],
        search: NearbySearch | None = None,
    ) -> None:
        self._cluster, self._clock, self._key, self._witness = as_served(cluster), clock, key, witness
        self._watching, self._search = watching, search
        self.kind = kind
        self._uid = ""
        self.told: DriverWord | None = None
        """The driver's word that it has detached the volume: it is asked nothing more."""

    async def first(self) -> Facts:
        """Raises NotThere, and what `again` raises."""
        facts = await self.again()
        if facts is None:
            raise NotThere(f'{self.kind} "{self._key}" does not exist')
        return facts

    def __str__(self) -> str:
        return f"{self.kind} {self._key}"

    async def again(self) -> Facts | None:
        """Look again; None once the object is gone or replaced. Raises ApiError, DriverError, CannotLook."""
        kind = KINDS[self.kind]
        try:
            whole = await self._cluster.get(kind.whole(), self._key.name, self._key.namespace)
        except NotFound:
            return None
        self._uid = self._uid or whole["metadata"]["uid"]
        if whole["metadata"]["uid"] != self._uid:
            return None
        obj, scene = decoded(kind, whole), Reading(self._cluster, self._clock.wall_s()).scene
        await _Surroundings(self._cluster, scene).read(self.kind, obj)
        driver = self._driver_of(obj, scene)
        if self._search is None:
            also = () if self.kind == "volumeattachment" else (*PROTECTION_LOCKS, *CONTROLLER_LOCKS.values())
            asks = self._witness is not None
            self._search = NearbySearch(self._cluster, self._clock, driver, self._watching, also, asks_driver=asks)
        traces, node_ids = await self._search.look(self.kind, obj, scene)
        return Facts(
            obj,
            self.kind,
            driver=driver,
            leases=LeaseSight(traces.live_leases, traces.silent_leases, traces.last_renewals),
            traces=traces,
            word=await self._word(obj, traces, node_ids),
            failures=await self._failures(obj),
            node_ids=node_ids,
            authors=authors_of(whole),
            scene=scene,
        )

    def _driver_of(self, obj: Any, scene: Scene) -> str:
        """ "" for unknown, or none."""
        match self.kind:
            case "pv":
                return driver_of(obj)
            case "volumeattachment":
                return str(obj.spec.attacher)
            case "volumesnapshotcontent" | "volumegroupsnapshotcontent":
                return str(obj.spec.driver)
            case "pvc":
                pv = scene.volumes.get(Key("", obj.spec.volume_name))
                return driver_of(pv) if pv is not None else ""
            case _:
                content = content_of(view_of(scene), obj)
                return content.spec.driver if content is not None else ""

    async def _word(self, obj: Any, traces: Traces, node_ids: Mapping[str, str]) -> DriverWord | None:
        witness = self._witness
        if witness is None or self.told is not None:
            return self.told
        if self.kind == "volumesnapshotcontent":
            return await witness.about_snapshot(traces.driver, handle_of(obj), *_node_of(obj, node_ids))
        if isinstance(obj, VolumeGroupSnapshotContent):
            return await witness.about_group(traces.driver, group_handle_of(obj), group_members_of(obj))
        pv = obj if isinstance(obj, PersistentVolume) else _volume_of(obj, traces)
        handle = driver_and_handle(pv)[1] if pv is not None else ""
        if isinstance(obj, VolumeAttachment):
            handle = attached_handle(obj, traces.volumes)
        others = [one for one in traces.volumes.values() if not is_deleting(one) and witness.may_reach(_nodes_of(one))]
        handles = [driver_and_handle(one)[1] for one in others if pv is None or one.metadata.uid != pv.metadata.uid]
        return await witness.about_volume(traces.driver, handle, _nodes_of(pv), handles)

    async def _failures(self, obj: Any) -> dict[str, str]:
        """The last error of each program's tries to let the object go, by program."""
        if isinstance(obj, VolumeAttachment):
            error = obj.status.detach_error
            return {"csi-attacher": error.message} if error is not None and error.message else {}
        if self.kind not in ("pv", "volumesnapshotcontent", "volumegroupsnapshotcontent"):
            return {}
        chosen = Selection(namespace="default", field_selector=f"involvedObject.uid={obj.metadata.uid}")
        events = [one async for one in list_all(self._cluster, SEEN_EVENTS, chosen) if one.reason in _FAILURES]
        return {_FAILURES[one.reason]: one.message for one in sorted(events, key=lambda event: event.last_s)}


class _Surroundings:
    """Puts into the scene what the judgements on one kind look at."""

    def __init__(self, cluster: Cluster, scene: Scene) -> None:
        self._cluster, self._scene = cluster, scene

    async def read(self, kind: str, obj: Any) -> None:
        """Raises ApiError."""
        scene, namespace = self._scene, obj.metadata.namespace
        match kind:
            case "pv":
                ref = obj.spec.claim_ref
                if ref is not None:
                    await self._get(scene.claims, PERSISTENT_VOLUME_CLAIMS, Key(ref.namespace, ref.name))
            case "pvc":
                await self._around_claim(obj)
            case "volumesnapshotcontent":
                key = snapshot_of(obj)
                await self._get(scene.snapshots, VOLUME_SNAPSHOTS, key)
                await self._list(scene.claims, PERSISTENT_VOLUME_CLAIMS)
            case "volumegroupsnapshotcontent":
                await self._list(scene.claims, PERSISTENT_VOLUME_CLAIMS)
                await self._snapshots(snapshot_of(obj).namespace)
            case "volumesnapshot" | "volumegroupsnapshot":
                await self._list(scene.claims, PERSISTENT_VOLUME_CLAIMS)
                await self._snapshots(namespace)

    async def _around_claim(self, claim: Any) -> None:
        scene, key = self._scene, Key(claim.metadata.namespace, claim.metadata.name)
        held = finalizers_of(claim)
        scene.claims.put(claim)
        await self._list(scene.pods, PODS, Selection(namespace=key.namespace))
        if claim.spec.volume_name:
            await self._get(scene.volumes, PERSISTENT_VOLUMES, Key("", claim.spec.volume_name))
        if CLONE_FINALIZER in held:
            await self._list(scene.claims, PERSISTENT_VOLUME_CLAIMS)
        if CLAIM_FINALIZER in held:
            await self._snapshots(key.namespace)

    async def _snapshots(self, namespace: str) -> None:
        scene, here = self._scene, Selection(namespace=namespace)
        await self._list(scene.snapshots, VOLUME_SNAPSHOTS, here)
        await self._list(scene.contents, VOLUME_SNAPSHOT_CONTENTS)
        await self._list(scene.groups, GROUP_SNAPSHOTS, here)
        await self._list(scene.group_contents, GROUP_SNAPSHOT_CONTENTS)

    async def _get(self, shelf: Shelf[T], kind: Kind[T], key: Key) -> None:
        with contextlib.suppress(NotFound, NotServed):
            shelf.put(await self._cluster.get(kind, key.name, key.namespace))

    async def _list(self, shelf: Shelf[T], kind: Kind[T], selection: Selection = EVERYTHING) -> None:
        """Put all objects of the kind on the shelf, none where the cluster does not serve it."""
        with contextlib.suppress(NotServed):
            async for one in list_all(self._cluster, kind, selection):
                shelf.put(one)


def _node_of(content: Any, node_ids: Mapping[str, str]) -> tuple[str, str]:
    """The node that alone has the snapshot, and the driver's id of that; "" for one that all have."""
    node = (content.metadata.labels or {}).get(MANAGED_BY, "")
    return node, node_ids.get(node, "") if node else ""


def _nodes_of(pv: PersistentVolume | None) -> NodeSelector | None:
    """The nodes from which the volume can be reached, None for all."""
    return pv.spec.node_affinity.required if pv is not None and pv.spec.node_affinity is not None else None


def _volume_of(obj: Any, traces: Traces) -> PersistentVolume | None:
    name = (
        obj.spec.source.persistent_volume_name
        if isinstance(obj, VolumeAttachment)
        else getattr(obj.spec, "volume_name", "")
    )
    return traces.volumes.get(name or "")


def authors_of(whole: Mapping[str, Any]) -> dict[str, Author]:
    """Finalizer → its last writer, by the entries' times. whole: the object as JSON."""
    found: dict[str, Author] = {}
    for entry in whole.get("metadata", {}).get("managedFields") or ():
        author = Author(str(entry.get("manager") or "an unnamed program"), str(entry.get("time") or "an unknown time"))
        for finalizer in _finalizers(entry.get("fieldsV1")):
            if finalizer not in found or found[finalizer].at <= author.at:
                found[finalizer] = author
    return found


def _finalizers(fields: Any) -> Iterator[str]:
    """The finalizers that managedFields name, in elements like `v:"kubernetes.io/pvc-protection"`."""
    for name in ("f:metadata", "f:finalizers"):
        fields = fields.get(name) if isinstance(fields, dict) else None
    for element in fields if isinstance(fields, dict) else ():
        if element.startswith("v:"):
            try:
                value = from_json(element[2:])
            except ValueError:
                continue
            if isinstance(value, str):
                yield value
