"""Carries out the decisions of the snapshot controller, in order: each action is one request to the API server, or an
Event.

A claim is PUT, read the moment before: upstream's ClusterRole allows no patch of claims.

A write that gives a content to a snapshot, or to a group, and that got no answer, may still be carried out. If it makes
or binds the content after the snapshot has gone, the content stays behind for ever, and a driver makes a snapshot for
it. So a snapshot in deletion waits until the API server has surely given up such a write. A new process does not know
the lost writes of the former one: each object that exists at the start and has no content yet may have lost one.
Objects that are in deletion already at the start do not wait: they go at once, as with upstream's controller, and a
write that the former process lost in its last minute may leave a content behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.meta import Key, Kind, Object, OwnerReference, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_kinds import Content, Row, row_of
from mooring.api.snapshot_names import CLAIM_FINALIZER, TOUCHED, YES, is_marked
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.cluster.snapshots import decision as d
from mooring.cluster.snapshots.decide_protection import user_of
from mooring.cluster.snapshots.objects import as_json, kind_of, reference_of
from mooring.cluster.snapshots.own_writes import UnseenWrites
from mooring.cluster.snapshots.refusals import REFUSALS
from mooring.cluster.snapshots.view import View
from mooring.control.decision import Failed
from mooring.control.events import EventRecorder
from mooring.control.locks import KeyLocks
from mooring.control.object_writer import Json, ObjectWriter
from mooring.control.result import Stale, Vanished
from mooring.control.slim import changed
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch
from mooring.kube.errors import AlreadyExists, ApiError, NotFound
from mooring.kube.patch import add, add_finalizer, json_patch, merge_patch, remove_finalizer, set_fields

log = logger(__name__)

_WRITTEN: Final = (
    VOLUME_SNAPSHOTS,
    VOLUME_SNAPSHOT_CONTENTS,
    GROUP_SNAPSHOTS,
    GROUP_SNAPSHOT_CONTENTS,
    PERSISTENT_VOLUME_CLAIMS,
)


class Reconciler:
    """caches: by the plural of their kind, for what is written or looked up."""

    def __init__(
        self, cluster: Cluster, view: View, caches: Mapping[str, Informer[Any]], events: EventRecorder, clock: Clock
    ) -> None:
        self._cluster, self._view, self._caches, self._events = cluster, view, caches, events
        self._writers = {kind.plural: _writer(cluster, kind, caches) for kind in _WRITTEN if kind.plural in caches}
        self._holding: KeyLocks[Key] = KeyLocks()
        self.unseen = UnseenWrites(clock)

    async def carry_out(self, row: Row, key: Key, actions: tuple[d.Action, ...]) -> None:
        """Performs the actions in order. row: of the key's kind. Raises Stale, and Failed; its problem, if any, is for
        users.
        """
        claims = tuple(key_of(action.claim) for action in actions if isinstance(action, d.HoldClaim))
        with self.unseen.under_way(*claims):
            for action in actions:
                try:
                    await self._perform(action, claims)
                except (ApiError, Failed) as error:
                    refusal = REFUSALS[row.noun].get(type(action))
                    cause = error.__cause__ if isinstance(error.__cause__, ApiError) else error
                    failure = None if refusal is None else refusal.failure(key, cause)
                    raise Failed(failure.error if failure is not None else str(error), problem=failure) from error

    async def _perform(self, action: d.Action, claims: tuple[Key, ...]) -> None:
        """Perform one action. claims: those that a content needs."""
        match action:
            case d.LookUp():
                await look_up(self._cluster, self._caches[action.kind.plural], action)
            case d.HoldClaim(claim):
                await self.hold_claim(claim)
            case d.ReleaseClaim(key):
                await self.release_claim(key)
            case d.CreateContent(body) | d.CreateMemberContent(body):
                ref = body["spec"].get("volumeSnapshotRef") or body["spec"]["volumeGroupSnapshotRef"]
                with self.unseen.noted(ref["uid"], *claims):
                    await self._create(body)
            case d.CreateMember(body):
                await self._create(body)
            case d.BindContent(content, uid, class_name):
                with self.unseen.noted(uid):
                    await self.write(content, bound(content, uid, class_name), strictly=True)
            case d.DeleteContent(obj) | d.DeleteMember(obj):
                # A content is deleted as it was judged alone: it may be another's by now, or retained. A member goes
                # with its group, which does not come back.
                strictly = isinstance(action, d.DeleteContent)
                await self._writers[kind_of(obj).plural].delete(obj, strictly=strictly)
            case d.Tell(obj, type_, reason, message):
                self._events.event(reference_of(obj), type_, reason, message)
            case d.SaveStatus(obj, status) | d.SaveMemberStatus(obj, status):
                await self.save_status(obj, status)
            case _:
                change = changed_by(action)
                await self.write(change.obj, change.patch, strictly=change.strictly)

    # -- any object

    async def write(self, obj: Any, patch: Patch, subresource: str = "", *, strictly: bool = False) -> None:
        await self._writers[kind_of(obj).plural].patch(obj, patch, subresource, strictly=strictly)

    async def save_status(self, obj: Any, status: Mapping[str, Any]) -> None:
        """Writes the fields that differ from the object in hand."""
        patch = set_fields(obj, "status", as_json(obj.status), status)
        if patch is not None:
            await self.write(obj, patch, "status")

    async def _create(self, body: Mapping[str, Any]) -> None:
        """Create the object. Where one of its name exists, put that into the cache and raise Stale."""
        kind = next(one for one in _WRITTEN if one.name == body["kind"])
        cache, name, namespace = (
            self._caches[kind.plural],
            body["metadata"]["name"],
            body["metadata"].get("namespace", ""),
        )
        try:
            await cache.write(Key(namespace, name), self._cluster.create(kind, body, namespace))
        except AlreadyExists as error:
            cache.observed(await self._cluster.get(kind, name, namespace))
            raise Stale(name) from error

    # -- claims

    async def hold_claim(self, claim: PersistentVolumeClaim) -> None:
        """Adds our finalizer, unless it is there."""
        async with self._holding.of(key_of(claim)):
            now = self._claims.current(claim)
            if CLAIM_FINALIZER not in finalizers_of(now):
                await self._claims.edit(now, lambda body: _set_finalizer(body, held=True))

    async def release_claim(self, key: Key) -> None:
        """Removes our finalizer, unless a snapshot needs the claim: that is asked at the last moment, while nobody adds
        one. Raises Stale where a content may come for which it is to stay.
        """
        async with self._holding.of(key):
            claim = self._view.claims.get(key)
            if self.unseen.wait_s(key):
                raise Stale(f"a content of {key} is on its way")
            if claim is not None and not user_of(self._view, claim):
                with contextlib.suppress(Vanished):
                    await self._claims.edit(claim, lambda body: _set_finalizer(body, held=False))

    @property
    def _claims(self) -> ObjectWriter[PersistentVolumeClaim]:
        return self._writers[PERSISTENT_VOLUME_CLAIMS.plural]


def _writer(cluster: Cluster, kind: Kind[Any], caches: Mapping[str, Informer[Any]]) -> ObjectWriter[Any]:
    return ObjectWriter(cluster, kind, caches[kind.plural])


def _set_finalizer(body: Json, *, held: bool) -> bool:
    before = body["metadata"].get("finalizers") or []
    if held == (CLAIM_FINALIZER in before):
        return False
    others = [one for one in before if one != CLAIM_FINALIZER]
    body["metadata"]["finalizers"] = [*others, CLAIM_FINALIZER] if held else others
    return True


# -- patches


class _Change(NamedTuple):
    """A patch. strictly: of this version of the object alone, since it holds only while that is as it was judged."""

    obj: Any
    patch: Patch
    strictly: bool = False


def changed_by(action: d.Action) -> _Change:
    """Single annotations and fields are patched, so that what others have written meanwhile stays."""
    match action:
        case d.Protect(obj, finalizers, class_name):
            held = add_finalizer(obj, *finalizers) if finalizers else json_patch((), of=obj)
            chosen = [add(f"/spec/{row_of(obj).class_field}", class_name)] if class_name else []
            return _Change(obj, json_patch([*held.body, *chosen]), strictly=bool(chosen))  # its user may have chosen
        case d.Release(obj, finalizers):
            return _Change(obj, remove_finalizer(obj, *finalizers))
        case d.JoinGroup(obj, owner):  # a merge patch writes the whole list of owners
            owners = [*(_owner_json(one) for one in obj.metadata.owner_references or ()), dict(owner)]
            return _Change(obj, merge_patch({"metadata": {"ownerReferences": owners}}, of=obj), strictly=True)
        case d.ProtectContent(obj):
            return _Change(obj, add_finalizer(obj, row_of(obj).content_finalizer))
        case d.MarkDeleted(obj):
            return _Change(obj, annotation(obj, row_of(obj).being_deleted, YES), strictly=True)
        case d.UnmarkDeleted(obj):
            return _Change(obj, annotation(obj, row_of(obj).being_deleted, None), strictly=True)
        case d.Touch(obj):  # nobody reads it
            return _Change(obj, annotation(obj, TOUCHED, obj.metadata.resource_version))
    raise AssertionError(f"no patch: {action}")


def bound(content: Content, uid: str, class_name: str) -> Patch:
    """The patch that binds the content, with our finalizer, since from now on it is not to vanish. The mark of a former
    snapshot's deletion goes.
    """
    row, held = row_of(content), finalizers_of(content)
    protected = {"finalizers": [*held, row.content_finalizer]} if row.content_finalizer not in held else {}
    unmarked = {"annotations": {row.being_deleted: None}} if is_marked(content, row.being_deleted) else {}
    named = {row.class_field: class_name} if class_name else {}
    return merge_patch(
        {"metadata": {**protected, **unmarked}, "spec": {row.ref_field: {"uid": uid}, **named}}, of=content
    )


def annotation(obj: Object, name: str, value: str | None) -> Patch:
    """Sets this annotation, None takes it off; all others stay as they are."""
    return merge_patch({"metadata": {"annotations": {name: value}}}, of=obj)


def _owner_json(owner: OwnerReference) -> Mapping[str, Any]:
    """The owner reference as the API server takes it, without fields that say nothing."""
    flags = {"controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion}
    named = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return {**named, **{key: value for key, value in flags.items() if value is not None}}


# -- what the cache lacks


async def look_up(cluster: Cluster, cache: Informer[Any], look: d.LookUp) -> None:
    """GET the object once, since the watches of different kinds are not in step. Raises Stale where that is news, also
    where the cache does not take the answer: the cache is of before a set-back of the API server, and is about to list
    anew. strictly: raises ApiError, too.
    """
    kind, key = look.kind, look.key
    before = cache.store.get(key)
    try:
        answer = await cluster.get(kind, key.name, key.namespace)
        cache.observed(answer)
    except NotFound:
        return
    except ApiError as error:  # then the cache is all we know
        if look.strictly:
            raise
        log.info(2, "could not ask for what the cache lacks", resource=kind.plural, name=str(key), why=str(error))
        return
    found = cache.store.get(key)
    is_over = is_deleting(answer) and not finalizers_of(answer)
    if (found is None and not is_over) or (found is not None and changed(before, found)):
        raise Stale(str(key))
