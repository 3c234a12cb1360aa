"""What the API server really holds, read past every fault and every cache."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, Kind, annotation, finalizers_of, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored, StoredChange
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION
from tests.sim.plan import DRIVER, FINALIZER, Plan

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """A VolumeAttachment as the laws look at it. node_id: of the claim, "" without one. volume: the plan's name for
    it.
    """

    name: str
    uid: str
    attacher: str
    volume: str
    handle: str
    node: str
    node_id: str
    held: bool
    deleting: bool
    attached: bool
    whole: VolumeAttachment

    @property
    def pair(self) -> tuple[str, str]:
        return self.handle, self.node_id


class Truth:
    def __init__(self, plan: Plan, store: ObjectStore) -> None:
        self._store = store
        self._handles = {volume.name: volume.handle for volume in plan.volumes}
        self._names = {volume.handle: volume.name for volume in plan.volumes if getattr(volume, "inline", False)}
        self._newest: dict[str, int] = {}
        self._decoded: dict[tuple[int, type], Any] = {}  # by version and type
        self._attachments: dict[int, Attachment] = {}  # by version, each decoded once
        store.on_change(self._remember)

    def _remember(self, resource: Resource, change: StoredChange) -> None:
        self._newest[resource.plural] = change.rv

    def forget(self) -> None:
        """The server was set back: versions that are known here will mean other objects."""
        self._decoded.clear()
        self._attachments.clear()
        self._newest = {resource.plural: self._newest_of(resource) for resource in self._store.resources}

    def _newest_of(self, resource: Resource) -> int:
        return max((stored.rv for stored in self._store.table(resource).items()), default=0)

    def resource(self, kind: Kind[Any]) -> Resource:
        found = self._store.resource(kind.group, kind.version, kind.plural)
        assert found is not None
        return found

    def versions(self, but: str) -> tuple[tuple[str, int], ...]:
        """The version of the newest change of each kind but this one."""
        return tuple(sorted((plural, version) for plural, version in self._newest.items() if plural != but))

    def version(self, kind: Kind[Any], name: str, namespace: str = "") -> int:
        """0 when the object is not there."""
        stored = self._store.table(self.resource(kind)).get(Key(namespace, name))
        return 0 if stored is None else stored.rv

    def uid(self, kind: Kind[Any], name: str, namespace: str = "") -> str:
        """ "" when the object is not there."""
        stored = self._store.table(self.resource(kind)).get(Key(namespace, name))
        return "" if stored is None else stored.uid

    def newest(self, plural: str) -> int:
        """The version of the kind's newest change, 0 when there was none."""
        return self._newest.get(plural, 0)

    def get(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        stored = self._store.table(self.resource(kind)).get(Key(namespace, name))
        return None if stored is None else self._typed(stored, kind)

    def all(self, kind: Kind[T]) -> list[T]:
        return [self._typed(stored, kind) for stored in self._store.table(self.resource(kind)).items()]

    def bodies(self, kind: Kind[Any]) -> dict[str, bytes]:
        """The JSON of each object of the kind, by name."""
        return {stored.key.name: stored.body for stored in self._store.table(self.resource(kind)).items()}

    def _typed(self, stored: Stored, kind: Kind[T]) -> T:
        """Each version is decoded once, but for plain dicts: whoever has one may write to it."""
        if kind.struct is dict:
            return msgspec.json.decode(stored.body, type=kind.struct)
        if (known := self._decoded.get((stored.rv, kind.struct))) is None:
            known = self._decoded[stored.rv, kind.struct] = msgspec.json.decode(stored.body, type=kind.struct)
        return known  # type: ignore[no-any-return]

    # -- in the words of the laws

    def attachment_of(self, stored: Stored) -> Attachment:
        known = self._attachments.get(stored.rv)
        if known is None:
            known = self._attachments[stored.rv] = self._attachment(
                msgspec.json.decode(stored.body, type=VolumeAttachment)
            )
        return known

    def attachments(self) -> list[Attachment]:
        """This driver's; the others' are `foreign_attachments`."""
        return [found for found in self._all_attachments() if found.attacher == DRIVER]

    def foreign_attachments(self) -> list[Attachment]:
        return [found for found in self._all_attachments() if found.attacher != DRIVER]

    def _all_attachments(self) -> list[Attachment]:
        return [self.attachment_of(stored) for stored in self._store.table(self.resource(VOLUME_ATTACHMENTS)).items()]

    def volume(self, name: str) -> PersistentVolume | None:
        return self.get(PERSISTENT_VOLUMES, name)

    def volume_is_there(self, name: str) -> bool:
        """True when it is there and nobody has deleted it."""
        pv = self.volume(name)
        return pv is not None and not is_deleting(pv)

    def csi_node(self, name: str) -> CSINode | None:
        return self.get(CSI_NODES, name)

    def _attachment(self, whole: VolumeAttachment) -> Attachment:
        source = whole.spec.source
        inline = source.inline_volume_spec
        if inline is not None:
            assert inline.csi is not None
            handle = inline.csi.volume_handle
        else:
            handle = self._handles[source.persistent_volume_name or ""]
        return Attachment(
            name=whole.metadata.name,
            uid=whole.metadata.uid,
            attacher=whole.spec.attacher,
            volume=source.persistent_volume_name or self._names[handle],
            handle=handle,
            node=whole.spec.node_name,
            node_id=annotation(whole, NODE_ID_ANNOTATION),
            held=FINALIZER in finalizers_of(whole),
            deleting=is_deleting(whole),
            attached=whole.status.attached,
            whole=whole,
        )
