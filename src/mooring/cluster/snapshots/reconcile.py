"""Carries out the decisions of the snapshot controller, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.meta import Key
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.cluster.snapshots import decision as d
from mooring.cluster.snapshots.decide_protection import user_of
from mooring.cluster.snapshots.kinds import Row
from mooring.cluster.snapshots.telling import REFUSALS, Telling
from mooring.cluster.snapshots.view import View
from mooring.cluster.snapshots.writes import Writes
from mooring.control.result import Stale
from mooring.control.slim import changed
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound

log = logger(__name__)


class Failed(MooringError):
    """An action failed. failure: what the user is told."""

    def __init__(self, failure: d.Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class Reconciler:
    """For snapshots of one kind. caches: by the plural of their kind, for what can be looked up."""

    def __init__(
        self, cluster: Cluster, row: Row, view: View, writes: Writes, telling: Telling, caches: Mapping[str, Informer[Any]]
    ) -> None:
        self._cluster, self._row, self._view, self._writes, self._caches = cluster, row, view, writes, caches
        self.telling, self.lost = telling, writes.lost

    async def carry_out(self, key: Key, actions: tuple[d.Action, ...]) -> None:
        """Performs the actions in order. Raises Failed where the user is to be told, ApiError where nobody is, and Stale."""
        for action in actions:
            try:
                await self._perform(action)
            except ApiError as error:
                refusal = REFUSALS[self._row.noun].get(type(action))
                if refusal is None:
                    raise
                raise Failed(refusal.failure(key, error)) from error

    async def _perform(self, action: d.Action) -> None:
        writes = self._writes
        match action:
            case d.LookUp():
                await look_up(self._cluster, self._caches[action.kind.plural], action)
            case d.Protect(snapshot, finalizers, class_name):
                await writes.protect(snapshot, finalizers, class_name)
            case d.JoinGroup(snapshot, owner):
                await writes.join_group(snapshot, owner)
            case d.HoldClaim(claim):
                await writes.hold_claim(claim)
            case d.ReleaseClaim(key):
                await writes.release_claim(key, lambda: self._is_needed(key))
            case d.CreateContent(body):
                await writes.create_content(self._row.contents, body)
            case d.BindContent(content, uid, class_name):
                await writes.bind_content(content, uid, class_name)
            case d.ProtectContent(content):
                await writes.protect_content(content)
            case d.MarkDeleted(content):
                await writes.mark_deleted(content)
            case d.UnmarkDeleted(content):
                await writes.unmark_deleted(content)
            case d.Touch(content):
                await writes.touch(content)
            case d.DeleteContent(content):
                await writes.delete_content(content)
            case d.Release(snapshot, finalizers):
                await writes.release(snapshot, finalizers)
            case d.SaveStatus(obj, status) | d.SaveMemberStatus(obj, status):
                await writes.save_status(obj, status)
            case d.CreateMember(body):
                await writes.create_member(body)
            case d.CreateMemberContent(body):
                await writes.create_content(VOLUME_SNAPSHOT_CONTENTS, body)
            case d.DeleteMember(snapshot):
                await writes.delete_member(snapshot)
            case d.Tell(obj, type_, reason, message):
                self.telling.tell(obj, type_, reason, message)

    def _is_needed(self, key: Key) -> bool:
        claim = self._view.claims.get(key)
        return claim is not None and bool(user_of(self._view, claim))


async def look_up(cluster: Cluster, cache: Informer[Any], look: d.LookUp) -> None:
    """One GET, since the watches of different kinds are not in step. Raises Stale; strictly: ApiError."""
    kind, key = look.kind, look.key
    before = cache.store.get(key)
    try:
        cache.wrote(await cluster.get(kind, key.name, key.namespace))
    except NotFound:
        return
    except ApiError as error:  # then the cache is all we know
        if look.strictly:
            raise
        log.info(2, "could not ask for what the cache lacks", resource=kind.plural, name=str(key), why=str(error))
        return
    found = cache.store.get(key)
    if found is not None and changed(before, found):
        raise Stale(str(key))
