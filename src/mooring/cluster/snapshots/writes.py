"""The snapshot controller's writes to the API server, each one request. An answer enters the cache at once.

All raise Stale where the object is not as it was at the decision, and ApiError. Single annotations and fields are patched, so that what
others have written meanwhile stays. A claim is PUT, read the moment before: upstream's ClusterRole allows no patch of claims.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import Key, finalizers_of, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_names import BEING_DELETED, CLAIM_FINALIZER, CONTENT_FINALIZER, TOUCHED, YES, is_marked
from mooring.base.clock import Clock
from mooring.cluster.snapshots.lost_writes import LostWrites
from mooring.cluster.snapshots.status import as_json
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
    """snapshots, contents, claims: their caches. lost: those that were not answered."""

    def __init__(
        self,
        cluster: Cluster,
        snapshots: Informer[VolumeSnapshot],
        contents: Informer[VolumeSnapshotContent],
        claims: Informer[PersistentVolumeClaim],
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self.lost = LostWrites(clock)
        self._snapshots, self._contents, self._claims = snapshots, contents, claims
        self._holding: KeyLocks[Key] = KeyLocks()

    # -- snapshots

    async def protect(self, snapshot: VolumeSnapshot, finalizers: tuple[str, ...], class_name: str) -> None:
        """Finalizers, and a class where there is none, in one patch."""
        chosen = [add("/spec/volumeSnapshotClassName", class_name)] if class_name else []
        await self._patch_snapshot(snapshot, json_patch([*addition(snapshot, finalizers), *chosen]))

    async def release(self, snapshot: VolumeSnapshot, finalizers: tuple[str, ...]) -> None:
        """Takes these off, and no others."""
        await self._patch_snapshot(snapshot, json_patch(removal(snapshot, finalizers)))

    async def join_group(self, snapshot: VolumeSnapshot, owner: Mapping[str, Any]) -> None:
        """A version goes with it: a merge patch writes the whole list of owners."""
        owners = [*(owner_json(one) for one in snapshot.metadata.owner_references or ()), dict(owner)]
        meta = {"resourceVersion": snapshot.metadata.resource_version, "ownerReferences": owners}
        await self._patch_snapshot(snapshot, merge_patch({"metadata": meta}, of=snapshot))

    async def save_status(self, snapshot: VolumeSnapshot, status: Mapping[str, Any]) -> None:
        """Writes the fields that differ from the snapshot in hand."""
        patch = set_fields(snapshot, "status", as_json(snapshot.status), status)
        if patch is not None:
            await self._patch_snapshot(snapshot, patch, "status")

    async def _patch_snapshot(self, snapshot: VolumeSnapshot, patch: Patch, subresource: str = "") -> None:
        await patch_object(self._cluster, self._snapshots, VOLUME_SNAPSHOTS, snapshot, patch, subresource)

    # -- contents

    async def create_content(self, body: Mapping[str, Any]) -> None:
        """One that is there already is looked at anew: Stale."""
        name = body["metadata"]["name"]
        try:
            with self.lost.noted(body["spec"]["volumeSnapshotRef"]["uid"]):
                await self._contents.write(Key("", name), self._cluster.create(VOLUME_SNAPSHOT_CONTENTS, body))
        except AlreadyExists as error:
            self._contents.wrote(await self._cluster.get(VOLUME_SNAPSHOT_CONTENTS, name))
            raise Stale(name) from error

    async def bind_content(self, content: VolumeSnapshotContent, uid: str, class_name: str) -> None:
        """With our finalizer in the same patch: from now on the content is not to vanish. The mark of a former snapshot's deletion goes."""
        held = finalizers_of(content)
        protected = {} if CONTENT_FINALIZER in held else {"finalizers": [*held, CONTENT_FINALIZER]}
        unmarked = {"annotations": {BEING_DELETED: None}} if is_marked(content, BEING_DELETED) else {}
        named = {"volumeSnapshotClassName": class_name} if class_name else {}
        spec = {"volumeSnapshotRef": {"uid": uid}, **named}
        with self.lost.noted(uid):
            await self._patch_content(content, as_judged(content, {**protected, **unmarked}, spec))

    async def protect_content(self, content: VolumeSnapshotContent) -> None:
        await self._patch_content(content, add_finalizer(content, CONTENT_FINALIZER))

    async def mark_deleted(self, content: VolumeSnapshotContent) -> None:
        await self._patch_content(content, annotate_as_judged(content, BEING_DELETED, YES))

    async def unmark_deleted(self, content: VolumeSnapshotContent) -> None:
        await self._patch_content(content, annotate_as_judged(content, BEING_DELETED, None))

    async def touch(self, content: VolumeSnapshotContent) -> None:
        """Changes nothing but an annotation that nobody reads."""
        await self._patch_content(content, annotate(content, TOUCHED, content.metadata.resource_version))

    async def delete_content(self, content: VolumeSnapshotContent) -> None:
        """One that is gone is fine."""
        meta = content.metadata
        with stale_where_moved(), contextlib.suppress(NotFound):
            await self._cluster.delete(VOLUME_SNAPSHOT_CONTENTS, meta.name, uid=meta.uid)

    async def _patch_content(self, content: VolumeSnapshotContent, patch: Patch) -> None:
        await patch_object(self._cluster, self._contents, VOLUME_SNAPSHOT_CONTENTS, content, patch)

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
