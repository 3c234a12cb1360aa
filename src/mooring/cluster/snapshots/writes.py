"""The snapshot controller's writes to the API server, each one request. An answer enters the cache at once.

All raise Stale where the object is not as it was at the decision, and ApiError. Single annotations and fields are patched, so that what
others have written meanwhile stays. A claim is PUT, read the moment before: upstream's ClusterRole allows no patch of claims.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import Key, Kind, finalizers_of, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_names import CLAIM_FINALIZER, TOUCHED, YES, is_marked
from mooring.base.clock import Clock
from mooring.cluster.snapshots.kinds import Content, Snapshot
from mooring.cluster.snapshots.lost_writes import LostWrites
from mooring.cluster.snapshots.objects import as_json
from mooring.cluster.snapshots.view import row_of
from mooring.control.locks import KeyLocks
from mooring.control.object_writes import (
    addition,
    annotate,
    annotate_as_judged,
    as_judged,
    owner_json,
    patch_object,
    removal,
    stale_where_moved,
)
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.patch import add, add_finalizer, json_patch, merge_patch, set_fields


class Writes:
    """caches: by the plural of their kind. lost: writes that were not answered."""

    def __init__(self, cluster: Cluster, caches: Mapping[str, Informer[Any]], clock: Clock) -> None:
        self._cluster, self._caches = cluster, caches
        self.lost = LostWrites(clock)
        self._holding: KeyLocks[Key] = KeyLocks()

    # -- snapshots

    async def protect(self, snapshot: Snapshot, finalizers: tuple[str, ...], class_name: str) -> None:
        """Finalizers, and a class where there is none, in one patch."""
        chosen = [add(f"/spec/{row_of(snapshot).class_field}", class_name)] if class_name else []
        await self._patch_snapshot(snapshot, json_patch([*addition(snapshot, finalizers), *chosen]))

    async def release(self, snapshot: Snapshot, finalizers: tuple[str, ...]) -> None:
        """Takes these off, and no others."""
        await self._patch_snapshot(snapshot, json_patch(removal(snapshot, finalizers)))

    async def join_group(self, snapshot: VolumeSnapshot, owner: Mapping[str, Any]) -> None:
        """A version goes with it: a merge patch writes the whole list of owners."""
        owners = [*(owner_json(one) for one in snapshot.metadata.owner_references or ()), dict(owner)]
        meta = {"resourceVersion": snapshot.metadata.resource_version, "ownerReferences": owners}
        await self._patch_snapshot(snapshot, merge_patch({"metadata": meta}, of=snapshot))

    async def save_status(self, obj: Snapshot | Content, status: Mapping[str, Any]) -> None:
        """Writes the fields that differ from the object in hand."""
        patch, row = set_fields(obj, "status", as_json(obj.status), status), row_of(obj)
        if patch is not None:
            await self._patch(row.kind if isinstance(obj, row.kind.struct) else row.contents, obj, patch, "status")

    async def create_member(self, body: Mapping[str, Any]) -> None:
        await self._create(VOLUME_SNAPSHOTS, body)

    async def delete_member(self, snapshot: VolumeSnapshot) -> None:
        await self._delete(VOLUME_SNAPSHOTS, snapshot)

    async def _patch_snapshot(self, snapshot: Snapshot, patch: Patch) -> None:
        await self._patch(row_of(snapshot).kind, snapshot, patch)

    # -- contents

    async def create_content(self, kind: Kind[Any], body: Mapping[str, Any]) -> None:
        """One that is there already is looked at anew: Stale."""
        ref = body["spec"].get("volumeSnapshotRef") or body["spec"]["volumeGroupSnapshotRef"]
        with self.lost.noted(ref["uid"]):
            await self._create(kind, body)

    async def bind_content(self, content: Content, uid: str, class_name: str) -> None:
        """With our finalizer in the same patch: from now on the content is not to vanish. The mark of a former snapshot's deletion goes."""
        row, held = row_of(content), finalizers_of(content)
        protected = {"finalizers": [*held, row.content_finalizer]} if row.content_finalizer not in held else {}
        unmarked = {"annotations": {row.being_deleted: None}} if is_marked(content, row.being_deleted) else {}
        named = {row.class_field: class_name} if class_name else {}
        spec = {row.ref_field: {"uid": uid}, **named}
        with self.lost.noted(uid):
            await self._patch_content(content, as_judged(content, {**protected, **unmarked}, spec))

    async def protect_content(self, content: VolumeSnapshotContent) -> None:
        await self._patch_content(content, add_finalizer(content, row_of(content).content_finalizer))

    async def mark_deleted(self, content: Content) -> None:
        await self._patch_content(content, annotate_as_judged(content, row_of(content).being_deleted, YES))

    async def unmark_deleted(self, content: Content) -> None:
        await self._patch_content(content, annotate_as_judged(content, row_of(content).being_deleted, None))

    async def touch(self, content: VolumeSnapshotContent) -> None:
        """Changes nothing but an annotation that nobody reads."""
        await self._patch_content(content, annotate(content, TOUCHED, content.metadata.resource_version))

    async def delete_content(self, content: Content) -> None:
        await self._delete(row_of(content).contents, content)

    async def _patch_content(self, content: Content, patch: Patch) -> None:
        await self._patch(row_of(content).contents, content, patch)

    # -- claims

    async def hold_claim(self, claim: PersistentVolumeClaim) -> None:
        """Adds our finalizer, unless it is there."""
        async with self._holding.of(key_of(claim)):
            now = self._claims.store.get(key_of(claim))
            if now is not None and now.metadata.uid == claim.metadata.uid and CLAIM_FINALIZER in finalizers_of(now):
                return
            await self._put_claim(key_of(claim), claim.metadata.uid, lambda held: [*held, CLAIM_FINALIZER])

    async def release_claim(self, key: Key, is_needed: Callable[[], bool]) -> None:
        """Removes our finalizer. is_needed: asked at the last moment, while nobody adds one."""
        async with self._holding.of(key):
            if not is_needed():
                with contextlib.suppress(NotFound):
                    await self._put_claim(key, "", lambda held: [one for one in held if one != CLAIM_FINALIZER])

    async def _put_claim(self, key: Key, uid: str, edit: Callable[[list[str]], list[str]]) -> None:
        """The claim as it is now, with other finalizers. Another version by then is Stale. uid: that it must have, "" for any."""
        body = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS.whole(), key.name, key.namespace)
        if uid not in ("", body["metadata"]["uid"]):
            raise Stale(str(key))
        before = list(body["metadata"].get("finalizers") or ())
        after = edit([one for one in before if one != CLAIM_FINALIZER])
        if after == before:
            self._claims.wrote(await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace))
            return
        changed = {**body, "metadata": {**body["metadata"], "finalizers": after}}
        with stale_where_moved():
            await self._claims.write(key, self._cluster.replace(PERSISTENT_VOLUME_CLAIMS, changed, key.namespace))

    @property
    def _claims(self) -> Informer[PersistentVolumeClaim]:
        return self._caches[PERSISTENT_VOLUME_CLAIMS.plural]

    # -- any

    async def _create(self, kind: Kind[Any], body: Mapping[str, Any]) -> None:
        cache, name, namespace = self._caches[kind.plural], body["metadata"]["name"], body["metadata"].get("namespace", "")
        try:
            await cache.write(Key(namespace, name), self._cluster.create(kind, body, namespace))
        except AlreadyExists as error:
            cache.wrote(await self._cluster.get(kind, name, namespace))
            raise Stale(name) from error

    async def _patch(self, kind: Kind[Any], obj: Snapshot | Content, patch: Patch, subresource: str = "") -> None:
        await patch_object(self._cluster, self._caches[kind.plural], kind, obj, patch, subresource)

    async def _delete(self, kind: Kind[Any], obj: Snapshot | Content) -> None:
        """One that is gone is fine."""
        meta = obj.metadata
        with stale_where_moved(), contextlib.suppress(NotFound):
            await self._cluster.delete(kind, meta.name, meta.namespace, uid=meta.uid)
