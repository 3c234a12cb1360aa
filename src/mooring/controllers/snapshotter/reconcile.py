"""Carries out the decisions of the snapshotter: calls to the driver, and writes to contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.api.core import ObjectReference, SecretReference
from mooring.api.meta import Key
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.base.clock import rfc3339
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.events import EventRecorder
from mooring.control.locks import KeyLocks
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.controllers.snapshotter import decision as d
from mooring.controllers.snapshotter.decide import CHECK_FAILED, CHECK_TEXT, DELETION_FAILED
from mooring.controllers.snapshotter.decide_after import (
    After,
    after_asked,
    after_believed,
    after_created,
    after_looked_for,
    after_refused,
    after_unlisted,
    after_unsaved,
    as_json,
    is_refusal,
)
from mooring.controllers.snapshotter.requests import delete_request, get_request, list_of_volume_request, list_request
from mooring.controllers.snapshotter.secrets import Secrets
from mooring.controllers.snapshotter.view import View, is_given_up, is_going, is_ready
from mooring.controllers.snapshotter.whose import stranger
from mooring.controllers.snapshotter.writes import Writes
from mooring.controllers.snapshotting.names import DELETE_POLICY
from mooring.controllers.snapshotting.told import Told
from mooring.csi.capabilities import controller_rpcs
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError, BadRequest, Invalid, TooLarge

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024
PAGES_MAX: Final = 1000
"""For the list of one volume's snapshots."""
_RPC = csi.ControllerServiceCapability.RPC


class _Unasked(MooringError):
    """The driver does not say how far a snapshot is that it makes: the request is sent again, as csi-snapshotter always does."""


class Reconciler:
    """Performs the actions of decisions, for one driver."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        contents: Informer[VolumeSnapshotContent],
        classes: Informer[VolumeSnapshotClass],
        driver: Driver,
        events: EventRecorder,
    ) -> None:
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._view, self._memory, self._classes = view, view.memory, classes
        self._driver, self._events = driver, events
        self._call = Call(view.options.timeout_s)
        self._secrets = Secrets(runtime, view.memory, CHECK_FAILED)
        self._writes = Writes(runtime.cluster, contents)
        self._deleting: KeyLocks[str] = KeyLocks()
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
                content = self._writes.find(name, decision.uid)
                if isinstance(action, d.LoadSecret):
                    loaded.add(action.ref)
                    secrets.update(await self._load_secret(action, content))
                else:
                    after = await self._perform(action, secrets, content)
        except _Unasked:
            self._memory.change(decision.uid, unlisted=True)
            return After(again=True)
        except d.Failed:  # perhaps it was the secret: read it anew next time
            for ref in loaded:
                self._secrets.invalidate(ref)
            raise
        return after

    async def _perform(self, action: d.Action, secrets: Mapping[str, str], content: VolumeSnapshotContent) -> After:
        match action:
            case d.LookUpClass(class_name):
                await self._look_up(class_name)
            case d.Mark():
                self._memory.change(content.metadata.uid, nothing_made=True)
                await self._writes.mark(content)
                self._memory.change(content.metadata.uid, mark_lost=False)
            case d.Unmark():
                await self._unmark(content)
                return After(again=True)
            case d.Create():
                return await self._keep(content, await self._create(action, secrets, content), secrets)
            case d.LookFor():
                return await self._save(content, await self._look_for(action, content))
            case d.Ask():
                return await self._save(content, await self._ask(action, secrets, content))
            case d.Delete(handle):
                await self._delete(content, handle, secrets)
                self._memory.change(content.metadata.uid, deleted_at=self._clock.now())
                return After(again=True)
            case d.Tell(reason, message):
                self._tell(content, reason, message)
            case d.ClearStatus():
                await self._writes.clear_status(content)
            case d.Release():
                await self._writes.release(content)
        return After()

    async def _look_up(self, class_name: str) -> None:
        """One GET before an error is shown, since the watches of different kinds are not in step. Raises Stale."""
        try:
            self._classes.wrote(await self._cluster.get(VOLUME_SNAPSHOT_CLASSES, class_name))
        except ApiError:
            return
        if self._classes.store.get(Key("", class_name)) is not None:
            raise Stale(class_name)

    async def _load_secret(self, load: d.LoadSecret, content: VolumeSnapshotContent) -> Mapping[str, str]:
        try:
            return await self._secrets.load(load, content.metadata.uid)
        except d.Failed as failure:
            if not load.needed:
                raise _Unasked(str(failure)) from failure
            raise

    # -- the driver

    async def _create(self, create: d.Create, secrets: Mapping[str, str], content: VolumeSnapshotContent) -> After:
        order, name, uid = create.order, content.metadata.name, content.metadata.uid
        is_first = self._memory.creation_begins(uid, order.parameters)
        try:
            answer = await self._driver.create_snapshot(order.request(secrets), self._call)
        except DriverError as error:
            self._memory.change(uid, nothing_made=is_first and error.unsent)
            after = after_refused(self._writes.find(name, uid), order, error, is_first=is_first)
            self._note(uid, after, refused=is_refusal(error))
            return after
        now = self._writes.find(name, uid)
        after = after_created(now, order.volume_handle, answer.snapshot, self._now_ns, stranger(self._view, now, answer.snapshot))
        self._note(uid, after)
        return after

    def _note(self, uid: str, after: After, *, refused: bool = False) -> None:
        """What is known of a creation by now. refused: its last request was, for sure."""
        if after.unmarks:
            self._memory.creation_ended(uid, nothing_made=after.nothing_made)
        else:
            self._memory.creation_is_open(uid, self._clock.now(), refused=refused)

    async def _look_for(self, look: d.LookFor, content: VolumeSnapshotContent) -> After:
        """Raises Failed for a Secret that can't be had."""
        uid = content.metadata.uid
        self._memory.change(uid, to_list=False)  # whatever comes of it, a request is next
        try:
            secrets = {} if look.secret is None else await self._load_secret(look.secret, content)
            listed = await self._listed(look.order.volume_handle, secrets)
        except DriverError as error:
            return after_unlisted(look.order, error)
        after = after_looked_for(look.order, [handle for handle in listed if not self._view.is_named(handle)])
        if after.unmarks:
            self._note(uid, after)
        return after

    async def _listed(self, volume_handle: str, secrets: Mapping[str, str]) -> list[str]:
        """The handles of all snapshots of the volume. Raises DriverError."""
        found, token = list[str](), ""
        for _ in range(PAGES_MAX):
            answer = await self._driver.list_snapshots(list_of_volume_request(volume_handle, token, secrets), self._call)
            found += [entry.snapshot.snapshot_id for entry in answer.entries]
            token = answer.next_token
            if not token:
                return found
        raise DriverError(Code.UNKNOWN, f"the list does not end: {PAGES_MAX} pages")

    async def _ask(self, ask: d.Ask, secrets: Mapping[str, str], content: VolumeSnapshotContent) -> After:
        try:
            way = await self._way(ask)
            if way is d.Way.NONE:
                return after_believed(content, ask.handle, self._now_ns)
            found = await self._found(way, ask.handle, secrets)
        except DriverError as error:
            if not ask.learn:
                raise _Unasked(str(error)) from error
            text = f"{CHECK_TEXT}failed to list snapshot for content {content.metadata.name}: {error}"
            return After(failure=d.Failure(CHECK_FAILED, text))
        other = "" if found is None else stranger(self._view, content, found)
        if (found is None or other) and not ask.learn:  # one that is being cut need not be listed, and only its name says whose it is
            raise _Unasked(ask.handle)
        return after_asked(content, ask.handle, found, self._now_ns, other)

    async def _way(self, ask: d.Ask) -> d.Way:
        """Raises DriverError."""
        if not ask.learn:
            return ask.way
        able = controller_rpcs(await self._driver.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest(), self._call))
        return d.Way.LIST if _RPC.LIST_SNAPSHOTS in able else d.Way.GET if _RPC.GET_SNAPSHOT in able else d.Way.NONE

    async def _found(self, way: d.Way, handle: str, secrets: Mapping[str, str]) -> csi.Snapshot | None:
        """Raises DriverError. Differs from csi-snapshotter: an entry about another snapshot is none."""
        if way is d.Way.LIST:
            answer = await self._driver.list_snapshots(list_request(handle, secrets), self._call)
            return next((entry.snapshot for entry in answer.entries if entry.snapshot.snapshot_id == handle), None)
        try:
            got = await self._driver.get_snapshot(get_request(handle, secrets), self._call)
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return None
            raise
        return got.snapshot if got.snapshot.snapshot_id == handle else None

    async def _delete(self, content: VolumeSnapshotContent, handle: str, secrets: Mapping[str, str]) -> None:
        """One call at once, of several contents that go. Raises Stale where the snapshot is to stay by now: that may have taken a while."""
        try:
            async with self._deleting.of(handle):
                now = self._writes.find(content.metadata.name, content.metadata.uid)
                goes = is_going(now) or is_given_up(now)  # also one whose status can't take the handle
                if now.spec.deletion_policy != DELETE_POLICY or not goes or self._view.other_of(now, handle):
                    raise Stale(content.metadata.name)
                await self._driver.delete_snapshot(delete_request(handle, secrets), self._call)
        except DriverError as error:
            raise d.Failed(d.Failure(DELETION_FAILED, f"Failed to delete snapshot: {error}", saved=False)) from error

    @property
    def _now_ns(self) -> int:
        return int(self._clock.wall_s() * 1e9)

    async def _keep(self, content: VolumeSnapshotContent, after: After, secrets: Mapping[str, str]) -> After:
        """Saves what was made. A snapshot that can't be saved, and would be deleted by the save, is deleted at once. Raises Failed."""
        try:
            return await self._save(content, after)
        except d.Unsaved:
            now, handle = self._writes.find(content.metadata.name, content.metadata.uid), after.status and after.status.snapshot_handle
            if not handle or not is_given_up(now) or now.spec.deletion_policy != DELETE_POLICY:
                raise
            await self._delete(now, handle, secrets)
            return await self._save(now, After(unmarks=True, nothing_made=True, again=True))

    async def _save(self, content: VolumeSnapshotContent, after: After) -> After:
        """Writes the consequences of an answer, the status first. Raises Failed."""
        name, uid = content.metadata.name, content.metadata.uid
        if after.status is not None:
            try:
                await self._writes.save_status(self._writes.find(name, uid), as_json(after.status) or {})
            except (BadRequest, TooLarge, Invalid) as error:
                raise d.Unsaved(after_unsaved(content, str(error))) from error
        if after.unmarks:
            await self._unmark(self._writes.find(name, uid))
        if after.tells is not None and self._warned.note(uid, after.tells.message, self._clock.now()):
            log.warning(after.tells.message, VolumeSnapshotContent=name)
            self._tell(content, after.tells.reason, after.tells.message)
        if after.failure is not None:
            raise d.Failed(after.failure)
        return after

    async def _unmark(self, content: VolumeSnapshotContent) -> None:
        try:
            await self._writes.unmark(content)
        except ApiError:
            self._memory.change(content.metadata.uid, mark_lost=True)
            raise

    # -- what users are told

    async def show(self, name: str, uid: str, failure: d.Failure) -> None:
        """Tells the failure by an Event and, if it is to be saved, in the status. One that stands there is told once by each process: the
        one that wrote it may have died before its Event was sent. Raises Stale where the snapshot has turned ready since it was judged.
        """
        content = self._writes.find(name, uid)
        if is_ready(content) and not is_going(content):
            raise Stale(name)
        text = shortened(failure.error, ERROR_BYTES_MAX)
        if failure.saved:
            status = as_json(content.status) or {}
            is_new = (status.get("error") or {}).get("message") != text or status.get("readyToUse") is not False
            if is_new:
                error = {"time": rfc3339(self._clock.wall_s()), "message": text}
                try:
                    await self._writes.save_error(content, {**status, "error": error, "readyToUse": False})
                except ApiError as problem:
                    log.error("could not save the error in the status", error=problem, VolumeSnapshotContent=name)
            if is_ready(self._writes.find(name, uid)) and not is_going(content):
                raise Stale(name)  # the answer shows that an earlier write has made it so
            if not self._told.note(uid, text, self._clock.now()) and not is_new:
                return
        self._tell(content, failure.event, text)

    def tell_refusal(self, name: str, uid: str, error: ApiError) -> None:
        """A write that the API server refuses, and may refuse for ever."""
        self._tell(self._writes.find(name, uid), CHECK_FAILED, f"{CHECK_TEXT}{error}")

    def _tell(self, content: VolumeSnapshotContent, reason: str, message: str) -> None:
        meta, kind = content.metadata, VOLUME_SNAPSHOT_CONTENTS
        ref = ObjectReference(kind.api_version, kind.name, "", meta.name, meta.uid, meta.resource_version)
        self._events.event(ref, "Warning", reason, message)
