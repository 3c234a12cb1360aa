"""Reads an object's chain, and lists its objects in the order of a volume's life."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from mooring.api.binding import claims_of
from mooring.api.coordination import NODE_LEASE_NAMESPACE
from mooring.api.core import PersistentVolumeClaim
from mooring.api.group_snapshot import GROUP_SNAPSHOTS, VolumeGroupSnapshot
from mooring.api.meta import Key, Object, key_of
from mooring.api.snapshot import VolumeSnapshot
from mooring.cluster.binder.view import BY_CLAIM
from mooring.cluster.snapshots.view import claim_of, content_key, snapshot_of
from mooring.inspect.objects import NotThere
from mooring.inspect.reading import Reading
from mooring.inspect.scene import Scene
from mooring.inspect.timeline.traces import Lane, Traced, traced
from mooring.inspect.why.chains import explained
from mooring.kube.cluster import Cluster
from mooring.sidecars.attacher.view import BY_VOLUME

LABELS: Final[Mapping[str, str]] = {
    "pvc": "pvc",
    "pv": "pv",
    "pod": "pod",
    "volumeattachment": "va",
    "node": "node",
    "csinode": "csinode",
    "volumegroupsnapshot": "vgs",
    "volumegroupsnapshotcontent": "vgsc",
    "volumesnapshot": "vs",
    "volumesnapshotcontent": "vsc",
    "lease": "lease",
}
"""The kinds of lanes and their short names, in the order of a volume's life."""

Member = tuple[str, Object]
"""The kind and the object."""


class TracedChain:
    """An object's chain, read. now_s: seconds since 1970."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._traces: dict[str, Traced] = {}
        self._reading = Reading(cluster, now_s, self._note)
        self.scene: Scene = self._reading.scene
        self.lanes: dict[Lane, Traced] = {}

    def _note(self, whole: dict[str, Any]) -> None:
        found = traced(whole)
        self._traces[found.metadata.uid] = found

    async def read(self, kind: str, key: Key) -> None:
        """kind: one of the values of ALIASES. Raises NotThere, and ApiError for a server that does not answer."""
        await _READS[kind](self._reading, key)
        members = list({(one, key_of(obj)): (one, obj) for one, obj in _MEMBERS[kind](self.scene, key)}.values())
        if not members:
            hidden = next(iter(self.scene.unseen), None)
            raise NotThere(f'{kind} "{key}" {f"could not be seen: {hidden.why}" if hidden else "does not exist"}')
        for _, obj in members:
            if not self.scene.events(obj):
                await self._reading.events(obj)
        members += [
            ("lease", one) for one in self.scene.leases.values() if one.metadata.namespace != NODE_LEASE_NAMESPACE
        ]
        self.lanes = dict(self._labelled(members))

    async def blocked_by(self, kind: str, key: Key) -> str:
        """Who has to move now, as `mooring why` has it; "" for nobody. Raises what `read` raises."""
        blocking = (await explained(self._reading, kind, key)).blocking
        return blocking.who if blocking is not None else ""

    def _labelled(self, members: list[Member]) -> Iterator[tuple[Lane, Traced]]:
        order = list(LABELS)
        counts, numbers = Counter(kind for kind, _ in members), Counter[str]()
        for kind, obj in sorted(members, key=lambda one: (order.index(one[0]), key_of(one[1]))):
            numbers[kind] += 1
            label = LABELS[kind] + (f" {numbers[kind]}" if counts[kind] > 1 else "")
            yield Lane(label, kind, str(key_of(obj)), obj.metadata.uid), self._traces.get(obj.metadata.uid, Traced())


# -- what is read, by kind


async def _read_pod(reading: Reading, key: Key) -> None:
    await reading.pod(key)


async def _read_claim(reading: Reading, key: Key) -> None:
    """Read the claim, the pods that use it, and all attachments of its volume."""
    await reading.claim(key)
    claim = reading.scene.claims.get(key)
    if claim is not None:
        await reading.pods_of(key.namespace)
        if claim.spec.volume_name:
            await reading.attachments_of(claim.spec.volume_name)


async def _read_volume(reading: Reading, key: Key) -> None:
    await reading.volume(key.name)
    if reading.scene.volumes.get(key) is not None:
        await reading.attachments_of(key.name)


async def _read_attachment(reading: Reading, key: Key) -> None:
    await reading.attachment(key.name)


async def _read_node(reading: Reading, key: Key) -> None:
    await reading.node(key.name)
    if reading.scene.nodes.get(key) is not None:
        await reading.attachments_on(key.name)


async def _read_snapshot(reading: Reading, key: Key) -> None:
    await reading.snapshot(key)


async def _read_group(reading: Reading, key: Key) -> None:
    """Read the group, and the contents and sources of its members."""
    await reading.group(key)
    for member in members_of(reading.scene, reading.scene.groups.get(key)):
        await reading.snapshot(key_of(member))


async def _read_content(reading: Reading, key: Key) -> None:
    await reading.content(key.name)


async def _read_group_content(reading: Reading, key: Key) -> None:
    await reading.group_content(key.name)
    content = reading.scene.group_contents.get(key)
    if content is not None:
        await _read_group(reading, snapshot_of(content))


_READS: Final[Mapping[str, Callable[[Reading, Key], Awaitable[None]]]] = {
    "pod": _read_pod,
    "pvc": _read_claim,
    "pv": _read_volume,
    "volumeattachment": _read_attachment,
    "node": _read_node,
    "volumesnapshot": _read_snapshot,
    "volumesnapshotcontent": _read_content,
    "volumegroupsnapshot": _read_group,
    "volumegroupsnapshotcontent": _read_group_content,
}


# -- the objects of a chain, by kind


def _pod(scene: Scene, key: Key) -> Iterator[Member]:
    pod = scene.pods.get(key)
    if pod is not None:
        yield "pod", pod
        yield from _node(scene, Key("", pod.spec.node_name), with_volumes=False)
        for claim in claims_of(pod):
            yield from _claim(scene, claim, with_pods=False)


def _claim(scene: Scene, key: Key, *, with_pods: bool = True) -> Iterator[Member]:
    claim = scene.claims.get(key)
    if claim is None:
        return
    yield "pvc", claim
    if claim.spec.volume_name:
        yield from _volume(scene, Key("", claim.spec.volume_name))
    source = claim.spec.data_source_ref or claim.spec.data_source
    snapshot = (
        scene.snapshots.get(Key(key.namespace, source.name))
        if source is not None and source.kind == "VolumeSnapshot"
        else None
    )
    if snapshot is not None:
        yield "volumesnapshot", snapshot
    if with_pods:
        yield from (("pod", pod) for pod in scene.pods.by(BY_CLAIM, str(key)))


def _volume(scene: Scene, key: Key) -> Iterator[Member]:
    pv = scene.volumes.get(key)
    if pv is None:
        return
    yield "pv", pv
    yield from (("volumeattachment", one) for one in scene.attachments.by(BY_VOLUME, key.name))
    ref = pv.spec.claim_ref
    claim = scene.claims.get(Key(ref.namespace, ref.name)) if ref is not None else None
    if ref is not None and _is_meant(claim, ref.uid):
        assert claim is not None
        yield "pvc", claim


def _is_meant(claim: PersistentVolumeClaim | None, uid: str) -> bool:
    """False for a later claim of the same name."""
    return claim is not None and uid in ("", claim.metadata.uid)


def _attachment(scene: Scene, key: Key) -> Iterator[Member]:
    attachment = scene.attachments.get(key)
    if attachment is not None:
        yield "volumeattachment", attachment
        yield from _node(scene, Key("", attachment.spec.node_name), with_volumes=False)
        yield from _volume(scene, Key("", attachment.spec.source.persistent_volume_name or ""))


def _node(scene: Scene, key: Key, *, with_volumes: bool = True) -> Iterator[Member]:
    node, drivers = scene.nodes.get(key), scene.csi_nodes.get(key)
    if node is not None:
        yield "node", node
    if drivers is not None:
        yield "csinode", drivers
    if node is not None and with_volumes:
        yield from (("volumeattachment", one) for one in scene.attachments.values() if one.spec.node_name == key.name)


def _snapshot(scene: Scene, key: Key) -> Iterator[Member]:
    snapshot = scene.snapshots.get(key)
    if snapshot is None:
        return
    yield "volumesnapshot", snapshot
    content, source = scene.contents.get(content_key(snapshot)), claim_of(snapshot)
    if content is not None:
        yield "volumesnapshotcontent", content
    if source is not None:
        yield from _claim(scene, source, with_pods=False)


def _group(scene: Scene, key: Key) -> Iterator[Member]:
    group = scene.groups.get(key)
    if group is None:
        return
    yield "volumegroupsnapshot", group
    content = scene.group_contents.get(content_key(group))
    if content is not None:
        yield "volumegroupsnapshotcontent", content
    for one in members_of(scene, group):
        yield from _snapshot(scene, key_of(one))


def members_of(scene: Scene, group: VolumeGroupSnapshot | None) -> list[VolumeSnapshot]:
    """The snapshots of a group, as their owner references say."""
    owner = (GROUP_SNAPSHOTS.name, group.metadata.uid) if group is not None else None
    return [
        one
        for one in scene.snapshots.values()
        if owner in [(ref.kind, ref.uid) for ref in one.metadata.owner_references or ()]
    ]


def _content(scene: Scene, key: Key) -> Iterator[Member]:
    content = scene.contents.get(key)
    if content is not None:
        yield "volumesnapshotcontent", content
        yield from _snapshot(scene, snapshot_of(content))


def _group_content(scene: Scene, key: Key) -> Iterator[Member]:
    """Once: that of a group that is there is among the group's."""
    content = scene.group_contents.get(key)
    if content is None:
        return
    of_group = list(_group(scene, snapshot_of(content)))
    if content not in [one for _, one in of_group]:
        yield "volumegroupsnapshotcontent", content
    yield from of_group


_MEMBERS: Final[Mapping[str, Callable[[Scene, Key], Iterator[Member]]]] = {
    "pod": _pod,
    "pvc": _claim,
    "pv": _volume,
    "volumeattachment": _attachment,
    "node": _node,
    "volumesnapshot": _snapshot,
    "volumesnapshotcontent": _content,
    "volumegroupsnapshot": _group,
    "volumegroupsnapshotcontent": _group_content,
}
