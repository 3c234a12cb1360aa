"""Carries out the decisions of the snapshotter: calls to the driver, and writes to contents, of one kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import SecretReference
from mooring.api.meta import Key, finalizers_of, is_deleting
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Content, Row, handle_of, row_of
from mooring.api.snapshot_names import DELETE_POLICY, TOUCHED, YES, is_marked
from mooring.base.errors import MooringError
from mooring.control.call_slots import CallSlots, call_over
from mooring.control.decision import PATIENCE, Decision, Failed
from mooring.control.events import EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache, SecretError
from mooring.csi.capabilities import rpcs
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import FreshCache, Informer
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError, BadRequest, Invalid, NotFound, NotServed, TooLarge
from mooring.kube.patch import json_patch, merge_patch, remove_finalizer, set_fields, test
from mooring.sidecars.snapshotter import decision as d
from mooring.sidecars.snapshotter.creation import Event, event_of
from mooring.sidecars.snapshotter.decide_after import (
    After,
    after_asked,
    after_believed,
    after_created,
    after_refused,
    after_unasked,
    after_unsaved,
    as_json,
)
from mooring.sidecars.snapshotter.decide_after_group import after_group
from mooring.sidecars.snapshotter.requests import Made
from mooring.sidecars.snapshotter.telling import Telling
from mooring.sidecars.snapshotter.view import View, given_up_s, is_given_up, is_going, members_of
from mooring.wire.grpc.codes import Code

_OF_THE_MADE: Final = frozenset(
    {
        "snapshotHandle",
        "volumeGroupSnapshotHandle",
        "readyToUse",
        "creationTime",
        "restoreSize",
        "volumeSnapshotInfoList",
    }
)
"""The fields of a status that tell of the snapshot, or of the group."""

_RPC: Final = csi.ControllerServiceCapability.RPC


class OfKind(msgspec.Struct, frozen=True):
    """The caches of one kind, and the ways to its contents in the API server."""

    row: Row
    contents: Informer[Any]
    classes: Informer[Any]
    fresh: FreshCache[Any]
    writer: ObjectWriter[Any]


class _Unasked(MooringError):
    """The driver does not say how far a snapshot is that it makes: the request is sent again, as csi-snapshotter always
    does.
    """


class _Unsaved(Failed):
    """The API server does not take what the driver has answered."""


class Reconciler:
    """Performs the actions of decisions, for one driver and one kind of content. caches_of: by the noun of each kind.
    calls: those that delete.
    """

    def __init__(
        self,
        runtime: Runtime,
        row: Row,
        view: View,
        caches_of: Mapping[str, OfKind],
        driver: Driver,
        calls: CallSlots[str],
        events: EventRecorder,
    ) -> None:
        self._cluster, self._clock, self._row = runtime.cluster, runtime.clock, row
        self._view, self._memory, self._caches_of, self._driver = view, view.memory, caches_of, driver
        self._caches = caches_of[row.noun]
        self._call = Call(view.options.timeout_s)
        self._secrets = SecretCache(runtime.cluster, runtime.clock)
        self._calls = calls
        self.telling = Telling(row, events, runtime.clock, self)

    async def carry_out(self, name: str, decision: Decision[d.Action]) -> After:
        """Performs the actions in order; what follows from the last answer of the driver. Raises Failed, Stale,
        ApiError.
        """
        secrets, loaded, after = dict[str, str](), set[SecretReference](), After()
        try:
            for action in decision.actions:
                content = self.find(name, decision.uid)
                if isinstance(action, d.LoadSecret):
                    loaded.add(action.ref)
                    secrets.update(await self._load_secret(action, decision.uid))
                else:
                    after = await self._perform(action, secrets, content)
        except _Unasked:
            self._memory.change(decision.uid, by_name=True)
            return After(again=True)
        except Failed as failed:
            for ref in (
                loaded if failed.problem is not None else ()
            ):  # perhaps it was the secret: read it anew next time
                self._secrets.invalidate(ref)
            raise
        return after

    async def _perform(self, action: d.Action, secrets: Mapping[str, str], content: Any) -> After:
        match action:
            case d.NoteClass(is_foreign):
                self._memory.note_class(content.metadata.uid, self._clock.now(), is_foreign=is_foreign)
            case d.LookUpClass(class_name):
                await self._look_up(class_name)
            case d.Mark():
                self._memory.advance(content.metadata.uid, Event.MARKED, self._clock.now())
                await self._mark(content)
                self._memory.change(content.metadata.uid, mark_lost=False)
            case d.Unmark():
                await self._unmark(content)
                return After(again=True)
            case d.Create():
                return await self._save_or_delete(content, await self._create(action, secrets, content), secrets)
            case d.Ask():
                return await self._save(content, await self._ask(action, secrets, content))
            case d.Delete(made):
                return await self._delete(content, made, secrets)
            case d.Tell(reason, message):
                self.telling.tell(content, reason, message)
            case d.ClearStatus():  # an error stays
                left = as_json(content.status) or {}
                await self._save_status(
                    content, {name: value for name, value in left.items() if name not in _OF_THE_MADE}
                )
            case d.Release():
                if self._row.content_finalizer in finalizers_of(content):
                    await self.patch(content, release(content))
        return After()

    async def _look_up(self, class_name: str) -> None:
        """One GET before an error is shown, since the watches of different kinds are not in step. Raises Stale."""
        try:
            self._caches.classes.observed(await self._cluster.get(self._row.classes, class_name))
        except ApiError:
            return
        if self._caches.classes.store.get(Key("", class_name)) is not None:
            raise Stale(class_name)

    async def _load_secret(self, load: d.LoadSecret, uid: str) -> Mapping[str, str]:
        """The Secret's values, for a call about the content with this uid. Notes since when the Secret of any call but
        a question is missing. Raises Failed, _Unasked.
        """
        reason, text = load.failed
        try:
            values = await self._secrets.get(load.ref)
        except (ApiError, SecretError) as error:
            if (
                isinstance(error, NotFound)
                and self._memory.of(uid).secret_gone_at is None
                and reason != f"{self._row.title}ContentCheckandUpdateFailed"
            ):
                self._memory.change(uid, secret_gone_at=self._clock.now())
            where = f"failed to get credentials of secret {load.ref.namespace}/{load.ref.name}"
            refused = failed_by(d.Failure(reason, f"{text}{where}: {error}", saved=load.saved))
            raise (refused if load.needed else _Unasked(str(refused))) from error
        self._memory.change(uid, secret_gone_at=None)
        return values

    # -- the driver

    async def _create(self, create: d.Create, secrets: Mapping[str, str], content: Content) -> After:
        order, name, uid = create.order, content.metadata.name, content.metadata.uid
        self._memory.advance(uid, Event.SENT, self._clock.now(), order.parameters)
        try:
            if self._row is SINGLES:
                made = (await self._driver.create_snapshot(order.request(secrets), self._call)).snapshot
                after = after_created(self.find(name, uid), made, self._now_ns)
            else:
                group = await self._driver.create_volume_group_snapshot(order.group_request(secrets), self._call)
                after = after_group(self.find(name, uid), group.group_snapshot, self._now_ns)
        except DriverError as error:
            now = self.find(name, uid)
            event = event_of(error, given_up_s(now, self._clock.wall_s()))
            return after_refused(now, order, error, self._memory.advance(uid, event, self._clock.now()))
        self._memory.advance(uid, Event.ANSWERED if after.unmarks else Event.UNCLEAR, self._clock.now())
        return after

    async def _ask(self, ask: d.Ask, secrets: Mapping[str, str], content: Any) -> After:
        """Ask how far a snapshot is. Only a request by its name tells of one that the driver does not know yet: then
        _Unasked is raised. A question that fails for the moment is asked again later: each CreateSnapshot is dear.
        """
        try:
            way = await self._way(ask)
            if way is d.Way.NONE:
                return after_believed(content, ask.made.handle, self._now_ns)
            if way is d.Way.GET_GROUP:
                got = await self._driver.get_volume_group_snapshot(ask.made.get_group_request(secrets), self._call)
                return after_group(content, got.group_snapshot, self._now_ns)
            found = await self._found(way, ask.made, secrets)
        except DriverError as error:
            if ask.learn:
                return after_unasked(content, error)
            if not error.final:
                return After(polls=True)
            raise _Unasked(str(error)) from error
        if not ask.learn and (found is None or found.snapshot_id != ask.made.handle):
            raise _Unasked(ask.made.handle)
        return after_asked(content, ask.made.handle, found, self._now_ns)

    async def _way(self, ask: d.Ask) -> d.Way:
        """Raises DriverError."""
        if not ask.learn or ask.way is d.Way.GET_GROUP:
            return ask.way
        able = rpcs(await self._driver.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest(), self._call))
        return d.Way.LIST if _RPC.LIST_SNAPSHOTS in able else d.Way.GET if _RPC.GET_SNAPSHOT in able else d.Way.NONE

    async def _found(self, way: d.Way, made: Made, secrets: Mapping[str, str]) -> csi.Snapshot | None:
        """The first entry of an answer to a question about one id is the answer: the driver may spell that id in a way
        of its own. Differs from csi-snapshotter where another entry has the very id: some drivers list all of a volume.
        Raises DriverError.
        """
        if way is d.Way.LIST:
            answer = await self._driver.list_snapshots(made.list_request(secrets), self._call)
            listed = [entry.snapshot for entry in answer.entries]
            return next((one for one in listed if one.snapshot_id == made.handle), next(iter(listed), None))
        try:
            got = await self._driver.get_snapshot(made.get_request(secrets), self._call)
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return None
            raise
        return got.snapshot

    async def _delete(self, content: Content, made: Made, secrets: Mapping[str, str]) -> After:
        """Delete the snapshot, in one call at a time for all contents that name it. Raises Stale where it is to stay by
        now: the Secret took a while.
        """
        now = self.find(content.metadata.name, content.metadata.uid)
        if made.handle in self._calls.in_flight:
            return After(waits_for=frozenset({call_over(made.handle)}))
        if self._is_kept(now, made.handle):
            raise Stale(content.metadata.name)
        try:
            with self._calls.begin(made.handle, content.metadata.name):
                if self._row is SINGLES:
                    await self._driver.delete_snapshot(made.delete_request(secrets), self._call)
                else:
                    await self._driver.delete_volume_group_snapshot(made.delete_group_request(secrets), self._call)
        except DriverError as error:
            text = f"Failed to delete {self._row.noun}: {error}"
            raise failed_by(d.Failure(f"{self._row.title}DeleteError", text, saved=False)) from error
        self._memory.advance(content.metadata.uid, Event.DELETED, self._clock.now())
        return After(again=True)

    def _is_kept(self, content: Content, handle: str) -> bool:
        """True where its snapshot stays: by its own policy, or for another content."""
        goes = is_going(content) or is_given_up(content)  # also one whose status can't take the handle
        if content.spec.deletion_policy != DELETE_POLICY or not goes:
            return True
        return bool(self._view.other_of(content, handle) or self._view.single_of(content))

    @property
    def _now_ns(self) -> int:
        return int(self._clock.wall_s() * 1e9)

    async def look_at_all_of(self, content: Content) -> None:
        """Read from the API server what the end of a snapshot depends on: its content, and all others that name it. One
        that a silent watch hides is found by a list. Raises Failed, Stale.
        """
        await self._read(FreshCache.look)
        for one in (content, *self._view.others_of(content)):
            await self._caches_of[row_of(one).noun].writer.look(one)

    async def _read(self, read: Callable[[FreshCache[Any]], Awaitable[None]]) -> None:
        """Read the contents of each kind: one may keep what the other names. Raises Failed."""
        for caches in self._caches_of.values():
            try:
                await read(caches.fresh)
            except ApiError as error:
                if caches.row is GROUPS and isinstance(error, NotServed):
                    continue  # a cluster without groups
                raise Failed(f"failed to list {caches.row.contents.plural}: {error}", patience=PATIENCE) from error

    # -- writes

    def find(self, name: str, uid: str) -> Any:
        """The content as it is now. Raises Stale where it is no more, or another."""
        found = self._caches.contents.store.get(Key("", name))
        if found is None or found.metadata.uid != uid:
            raise Stale(name)
        return found

    async def _save_or_delete(self, content: Content, after: After, secrets: Mapping[str, str]) -> After:
        """Saves what was made. A snapshot that can't be saved, and would be deleted by the save, is deleted at once.
        Raises Failed.
        """
        try:
            return await self._save(content, after)
        except _Unsaved:
            if not is_given_up(self.find(content.metadata.name, content.metadata.uid)):
                raise
            # Listed each time: nobody knew this handle until now, and somebody may have imported it just before.
            await self._read(FreshCache.list)
            now = self.find(content.metadata.name, content.metadata.uid)
            answered = msgspec.structs.replace(now, status=after.status)
            handle = handle_of(answered)
            if not handle or self._is_kept(answered, handle):
                raise
            deleted = await self._delete(now, Made(handle, members_of(answered)), secrets)
            if deleted.waits_for:
                return deleted
            return await self._save(now, After(unmarks=True, again=True))

    async def _save(self, content: Content, after: After) -> After:
        """Writes the consequences of an answer, the status first. Raises Failed."""
        name, uid = content.metadata.name, content.metadata.uid
        if after.status is not None:
            try:
                await self._save_status(self.find(name, uid), as_json(after.status) or {})
            except Failed as failed:
                cause = failed.__cause__
                if not isinstance(cause, BadRequest | TooLarge | Invalid):
                    raise
                problem = after_unsaved(content, str(cause))
                raise _Unsaved(problem.error, problem=problem) from cause
        if after.kept:
            self.telling.tell(content, f"{self._row.title}Kept", after.kept)
        if after.unmarks:
            await self._unmark(self.find(name, uid))
        if after.failure is not None:
            raise failed_by(after.failure)
        return after

    async def _mark(self, content: Content) -> None:
        """Set the mark of a creation, so that nobody removes the content during the call."""
        await self.patch(content, mark(content), strictly=True)

    async def _unmark(self, content: Content) -> None:
        if not is_marked(content, self._row.being_created):
            return
        try:
            await self.patch(content, unmark(content), strictly=True)
        except Failed:
            self._memory.change(content.metadata.uid, mark_lost=True)
            raise

    async def _save_status(self, content: Content, status: Mapping[str, Any]) -> None:
        """Writes the fields that differ from the content in hand."""
        patch = set_fields(content, "status", as_json(content.status), status)
        if patch is not None:
            await self.patch(content, patch, "status")

    async def patch(self, content: Content, patch: Patch, subresource: str = "", *, strictly: bool = False) -> None:
        """strictly: for what holds only while the content is as it was judged. Raises Stale, Failed."""
        await self._caches.writer.patch(content, patch, subresource, strictly=strictly)


def release(content: Content) -> Patch:
    """Removes our finalizer; under this policy alone, and where no handle was known, only while none is: it may have
    been saved by a write of ours whose answer was lost.
    """
    row, tests = row_of(content), [test("/spec/deletionPolicy", content.spec.deletion_policy)]
    if not handle_of(content):
        shown, handle = as_json(content.status), "snapshotHandle" if row is SINGLES else "volumeGroupSnapshotHandle"
        tests.append(test("/status", None) if shown is None else test(f"/status/{handle}", shown.get(handle)))
    return json_patch([*tests, *remove_finalizer(content, row.content_finalizer).body])


def mark(content: Content) -> Patch:
    """Sets the mark of a creation, with the finalizer, which somebody may have torn off. Where the mark may be there
    already, another version is made of the content, so that a removal of the mark which is still on its way is refused.
    """
    row, held = row_of(content), finalizers_of(content)
    moved = {TOUCHED: content.metadata.resource_version} if is_marked(content, row.being_created) else {}
    finalizers = (
        {} if row.content_finalizer in held or is_deleting(content) else {"finalizers": [*held, row.content_finalizer]}
    )
    return merge_patch({"metadata": {"annotations": {row.being_created: YES, **moved}, **finalizers}}, of=content)


def unmark(content: Content) -> Patch:
    return merge_patch({"metadata": {"annotations": {row_of(content).being_created: None}}}, of=content)


def failed_by(failure: d.Failure) -> Failed:
    return Failed(failure.error, problem=failure)
