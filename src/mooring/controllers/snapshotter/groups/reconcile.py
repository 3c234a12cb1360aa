"""Carries out the decisions about group contents: calls to the driver, and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import ObjectReference, SecretReference
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, VolumeGroupSnapshotContent
from mooring.api.meta import Key, finalizers_of
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.events import EventRecorder
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.controllers.snapshotter.decision import Failed, Failure, LoadSecret, Tell, Unsaved
from mooring.controllers.snapshotter.groups import decision as d
from mooring.controllers.snapshotter.groups.decide import CHECK_FAILED, CHECK_TEXT, DELETION_FAILED, group_handles
from mooring.controllers.snapshotter.groups.decide_after import After, after_answered, after_refused, after_unsaved, as_json
from mooring.controllers.snapshotter.groups.matching import as_told, matched
from mooring.controllers.snapshotter.groups.requests import GroupHandles
from mooring.controllers.snapshotter.groups.standing import kept_by_content, kept_by_group
from mooring.controllers.snapshotter.groups.view import View, is_given_up, is_going, is_ready, keeps_group
from mooring.controllers.snapshotter.reconcile import ERROR_BYTES_MAX
from mooring.controllers.snapshotter.secrets import Secrets
from mooring.controllers.snapshotting.names import GROUP_BEING_CREATED, GROUP_CONTENT_FINALIZER, is_marked
from mooring.controllers.snapshotting.told import Told
from mooring.controllers.snapshotting.writes import annotate_as_judged, mark_as_judged, patch_object, removal
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError, BadRequest, Invalid, TooLarge
from mooring.kube.patch import json_patch, set_fields, test

log = logger(__name__)

_KIND: Final = GROUP_SNAPSHOT_CONTENTS


class Reconciler:
    """Performs the actions of decisions, for one driver."""

    def __init__(
        self, runtime: Runtime, view: View, contents: Informer[VolumeGroupSnapshotContent], driver: Driver, events: EventRecorder
    ) -> None:
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._view, self._memory, self._contents, self._driver, self._events = view, view.memory, contents, driver, events
        self._call = Call(view.options.timeout_s)
        self._secrets = Secrets(runtime, view.memory, CHECK_FAILED)
        self._told, self._warned = Told(), Told()

    def forget(self, uid: str) -> None:
        """The content is gone."""
        self._told.forget(uid)
        self._warned.forget(uid)

    async def carry_out(self, name: str, decision: d.Decision) -> After:
        """Performs the actions in order; what follows from the last answer of the driver. Raises Failed, Stale, ApiError."""
        secrets, loaded, after = dict[str, str](), set[SecretReference](), After()
        try:
            for action in decision.actions:
                content = self._find(name, decision.uid)
                if isinstance(action, LoadSecret):
                    loaded.add(action.ref)
                    secrets.update(await self._secrets.load(action, decision.uid))
                else:
                    after = await self._perform(action, secrets, content)
        except Failed:  # perhaps it was the secret: read it anew next time
            for ref in loaded:
                self._secrets.invalidate(ref)
            raise
        return after

    async def _perform(self, action: d.Action, secrets: Mapping[str, str], content: VolumeGroupSnapshotContent) -> After:
        match action:
            case d.Mark():
                self._memory.change(content.metadata.uid, nothing_made=True)
                await self._patch(content, mark_as_judged(content, GROUP_BEING_CREATED, GROUP_CONTENT_FINALIZER))
                self._memory.change(content.metadata.uid, mark_lost=False)
            case d.Unmark():
                await self._unmark(content)
                return After(again=True)
            case d.Create():
                return await self._keep(content, await self._create(action, secrets, content), secrets)
            case d.Ask(handles):
                return await self._save(content, await self._ask(handles, secrets, content))
            case d.Delete(handles):
                if self._is_kept(content):
                    raise Stale(content.metadata.name)  # its Secret may have taken a while
                await self._delete(handles, secrets)
            case Tell(reason, message):
                self._tell(content, reason, message)
            case d.ClearStatus():
                await self._save_status(content, {k: v for k, v in (as_json(content.status) or {}).items() if k == "error"})
            case d.Release():
                if GROUP_CONTENT_FINALIZER in finalizers_of(content):
                    same = test("/spec/deletionPolicy", content.spec.deletion_policy)
                    await self._patch(content, json_patch([same, *removal(content, (GROUP_CONTENT_FINALIZER,))]))
        return After()

    def _find(self, name: str, uid: str) -> VolumeGroupSnapshotContent:
        """Raises Stale where it is no more, or another."""
        found = self._contents.store.get(Key("", name))
        if found is None or found.metadata.uid != uid:
            raise Stale(name)
        return found

    # -- the driver

    async def _create(self, create: d.Create, secrets: Mapping[str, str], content: VolumeGroupSnapshotContent) -> After:
        order, name, uid = create.order, content.metadata.name, content.metadata.uid
        is_first = self._memory.creation_begins(uid, order.parameters)
        try:
            answer = await self._driver.create_volume_group_snapshot(order.request(secrets), self._call)
        except DriverError as error:
            self._memory.change(uid, nothing_made=is_first and error.unsent)
            after = after_refused(self._find(name, uid), order.name, error, is_first=is_first)
        else:
            after = self._after_answered(self._find(name, uid), answer.group_snapshot)
        if after.unmarks:
            self._memory.creation_ended(uid, nothing_made=after.nothing_made)
        return after

    def _after_answered(self, content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot) -> After:
        wanted = content.spec.source.volume_handles
        if wanted is None:  # it was there before, and no volumes were asked for
            matching = as_told(group.snapshots)
        else:
            matching = matched(wanted, group.snapshots, lambda told: self._view.is_of_another(content, told))
        return after_answered(content, group, matching, self._now_ns)

    async def _ask(self, handles: GroupHandles, secrets: Mapping[str, str], content: VolumeGroupSnapshotContent) -> After:
        try:
            answer = await self._driver.get_volume_group_snapshot(handles.get_request(secrets), self._call)
        except DriverError as error:
            if content.spec.source.group_snapshot_handles is None:  # a group that is being cut need not be known
                return self._unasked(content)
            text = f"{CHECK_TEXT}failed to list group snapshot for group snapshot content {content.metadata.name}: {error}"
            return After(failure=Failure(CHECK_FAILED, text))
        after = self._after_answered(content, answer.group_snapshot)
        return self._unasked(content) if after.nothing_made else after

    def _unasked(self, content: VolumeGroupSnapshotContent) -> After:
        """Only a request by its name says how far the group is, and whose."""
        self._memory.change(content.metadata.uid, unlisted=True)
        return After(again=True)

    def _is_kept(self, content: VolumeGroupSnapshotContent) -> bool:
        """True where its group stays: by its own policy, or for another content."""
        return keeps_group(content) or bool(kept_by_group(self._view, content) or kept_by_content(self._view, content))

    async def _delete(self, handles: GroupHandles, secrets: Mapping[str, str]) -> None:
        try:
            await self._driver.delete_volume_group_snapshot(handles.delete_request(secrets), self._call)
        except DriverError as error:
            raise Failed(Failure(DELETION_FAILED, f"Failed to delete group snapshot: {error}", saved=False)) from error

    @property
    def _now_ns(self) -> int:
        return int(self._clock.wall_s() * 1e9)

    # -- writes

    async def _keep(self, content: VolumeGroupSnapshotContent, after: After, secrets: Mapping[str, str]) -> After:
        """Saves what was made. A snapshot that can't be saved, and would be deleted by the save, is deleted at once. Raises Failed."""
        try:
            return await self._save(content, after)
        except Unsaved:
            now = self._find(content.metadata.name, content.metadata.uid)
            as_answered = msgspec.structs.replace(now, status=after.status)
            handles = group_handles(as_answered)
            if handles is None or not is_given_up(now) or self._is_kept(as_answered):
                raise
            await self._delete(handles, secrets)
            return await self._save(now, After(unmarks=True, nothing_made=True, again=True))

    async def _save(self, content: VolumeGroupSnapshotContent, after: After) -> After:
        """Writes the consequences of an answer, the status first. Raises Failed."""
        name, uid = content.metadata.name, content.metadata.uid
        if after.status is not None:
            try:
                await self._save_status(self._find(name, uid), as_json(after.status) or {})
            except (BadRequest, TooLarge, Invalid) as error:
                raise Unsaved(after_unsaved(content, str(error))) from error
        if after.unmarks:
            await self._unmark(self._find(name, uid))
        if after.tells is not None and self._warned.note(uid, after.tells.message, self._clock.now()):
            log.warning(after.tells.message, VolumeGroupSnapshotContent=name)
            self._tell(content, after.tells.reason, after.tells.message)
        if after.failure is not None:
            raise Failed(after.failure)
        return after

    async def _unmark(self, content: VolumeGroupSnapshotContent) -> None:
        if not is_marked(content, GROUP_BEING_CREATED):
            return
        try:
            await self._patch(content, annotate_as_judged(content, GROUP_BEING_CREATED, None))
        except ApiError:
            self._memory.change(content.metadata.uid, mark_lost=True)
            raise

    async def _save_status(self, content: VolumeGroupSnapshotContent, status: Mapping[str, Any]) -> None:
        patch = set_fields(content, "status", as_json(content.status), status)
        if patch is not None:
            await self._patch(content, patch, "status")

    async def _patch(self, content: VolumeGroupSnapshotContent, patch: Patch, subresource: str = "") -> None:
        await patch_object(self._cluster, self._contents, _KIND, content, patch, subresource)

    # -- what users are told

    async def show(self, name: str, uid: str, failure: Failure) -> None:
        """Tells the failure by an Event and, if it is to be saved, in the status. One that stands there is told once by each process.

        Raises Stale where the group has turned ready since it was judged.
        """
        content = self._find(name, uid)
        if is_ready(content) and not is_going(content):
            raise Stale(name)
        text = shortened(failure.error, ERROR_BYTES_MAX)
        if failure.saved:
            status = as_json(content.status) or {}
            is_new = (status.get("error") or {}).get("message") != text or status.get("readyToUse") is not False
            if is_new:
                error = {"time": rfc3339(self._clock.wall_s()), "message": text}
                try:
                    await self._save_status(content, {**status, "error": error, "readyToUse": False})
                except ApiError as problem:
                    log.error("could not save the error in the status", error=problem, VolumeGroupSnapshotContent=name)
            if is_ready(self._find(name, uid)) and not is_going(content):
                raise Stale(name)  # the answer shows that an earlier write has made it so
            if not self._told.note(uid, text, self._clock.now()) and not is_new:
                return
        self._tell(content, failure.event, text)

    def tell_refusal(self, name: str, uid: str, error: ApiError) -> None:
        """A write that the API server refuses, and may refuse for ever."""
        self._tell(self._find(name, uid), CHECK_FAILED, f"{CHECK_TEXT}{error}")

    def _tell(self, content: VolumeGroupSnapshotContent, reason: str, message: str) -> None:
        meta = content.metadata
        ref = ObjectReference(_KIND.api_version, _KIND.name, "", meta.name, meta.uid, meta.resource_version)
        self._events.event(ref, "Warning", reason, message)
