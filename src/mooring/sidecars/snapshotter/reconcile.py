"""Carries out the decisions of the snapshotter: calls to the driver, and writes to contents, of one kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import SecretReference
from mooring.api.meta import Key, finalizers_of, is_deleting
from mooring.api.snapshot_names import DELETE_POLICY, TOUCHED, YES, is_marked
from mooring.control.call_slots import CallSlots, call_over
from mooring.control.decision import Decision, Failed
from mooring.control.events import EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache, SecretError
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError, BadRequest, Invalid, NotFound, TooLarge
from mooring.kube.patch import json_patch, merge_patch, remove_finalizer, set_fields, test
from mooring.sidecars.snapshotter import decision as d
from mooring.sidecars.snapshotter.decide_after import (
    After,
    after_created,
    after_refused,
    after_unsaved,
    as_json,
    is_refusal,
    stranger,
)
from mooring.sidecars.snapshotter.decide_after_group import after_group
from mooring.sidecars.snapshotter.kinds import SINGLES, Content, Row
from mooring.sidecars.snapshotter.questions import Questions, Unasked
from mooring.sidecars.snapshotter.requests import Made
from mooring.sidecars.snapshotter.telling import Telling
from mooring.sidecars.snapshotter.view import View, handle_of, is_given_up, is_going, members_of, row_of

_RPC: Final = csi.ControllerServiceCapability.RPC


class OfKind(msgspec.Struct, frozen=True):
    """The caches of one kind."""

    contents: Informer[Any]
    classes: Informer[Any]


class _Unsaved(Failed):
    """The API server does not take what the driver has answered."""


class Reconciler:
    """Performs the actions of decisions, for one driver and one kind of content. calls: those that delete."""

    def __init__(
        self,
        runtime: Runtime,
        row: Row,
        view: View,
        caches: OfKind,
        driver: Driver,
        calls: CallSlots[str],
        events: EventRecorder,
    ) -> None:
        self._cluster, self._clock, self._row = runtime.cluster, runtime.clock, row
        self._view, self._memory, self._caches, self._driver = view, view.memory, caches, driver
        self._call = Call(view.options.timeout_s)
        self._secrets = SecretCache(runtime.cluster, runtime.clock)
        self._questions = Questions(driver, self._call, view)
        self._calls = calls
        self._writer: ObjectWriter[Any] = ObjectWriter(runtime.cluster, row.kind, caches.contents)
        self.telling = Telling(row, events, runtime.clock, self)

    async def carry_out(self, name: str, decision: Decision[d.Action]) -> After:
        """Performs the actions in order; what follows from the last answer of the driver. Raises Failed, Stale, ApiError."""
        secrets, loaded, after = dict[str, str](), set[SecretReference](), After()
        try:
            for action in decision.actions:
                content = self.find(name, decision.uid)
                if isinstance(action, d.LoadSecret):
                    loaded.add(action.ref)
                    secrets.update(await self._load_secret(action, decision.uid))
                else:
                    after = await self._perform(action, secrets, content)
        except Unasked:
            self._memory.change(decision.uid, unlisted=True)
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
                self._memory.change(content.metadata.uid, nothing_made=True)
                await self._mark(content)
                self._memory.change(content.metadata.uid, mark_lost=False)
            case d.Unmark():
                await self._unmark(content)
                return After(again=True)
            case d.Create():
                return await self._keep(content, await self._create(action, secrets, content), secrets)
            case d.LookFor():
                return await self._save(content, await self._look_for(action, content))
            case d.Ask():
                return await self._save(content, await self._questions.ask(action, secrets, content, self._now_ns))
            case d.Delete(made):
                return await self._delete(content, made, secrets)
            case d.Tell(reason, message):
                self.telling.tell(content, reason, message)
            case d.ClearStatus():  # an error stays
                left = as_json(content.status) or {}
                await self._save_status(
                    content, {name: value for name, value in left.items() if name not in self._row.made_of}
                )
            case d.Release():
                if self._row.finalizer in finalizers_of(content):
                    await self.patch(content, release(content))
        return After()

    async def _look_up(self, class_name: str) -> None:
        """One GET before an error is shown, since the watches of different kinds are not in step. Raises Stale."""
        try:
            self._caches.classes.wrote(await self._cluster.get(self._row.classes, class_name))
        except ApiError:
            return
        if self._caches.classes.store.get(Key("", class_name)) is not None:
            raise Stale(class_name)

    async def _load_secret(self, load: d.LoadSecret, uid: str) -> Mapping[str, str]:
        """For a call about the content with this uid; a missing Secret of a question says nothing. Raises Failed, Unasked."""
        reason, text = load.failed
        try:
            values = await self._secrets.get(load.ref)
        except (ApiError, SecretError) as error:
            if (
                isinstance(error, NotFound)
                and self._memory.of(uid).secret_gone_at is None
                and reason != self._row.check_failed
            ):
                self._memory.change(uid, secret_gone_at=self._clock.now())
            where = f"failed to get credentials of secret {load.ref.namespace}/{load.ref.name}"
            refused = failed_by(d.Failure(reason, f"{text}{where}: {error}", saved=load.saved))
            raise (refused if load.needed else Unasked(str(refused))) from error
        self._memory.change(uid, secret_gone_at=None)
        return values

    # -- the driver

    async def _create(self, create: d.Create, secrets: Mapping[str, str], content: Content) -> After:
        order, name, uid = create.order, content.metadata.name, content.metadata.uid
        is_first = self._memory.creation_begins(uid, order.parameters)
        is_refused = False
        try:
            if self._row is SINGLES:
                made = (await self._driver.create_snapshot(order.request(secrets), self._call)).snapshot
                after = self._after_created(self.find(name, uid), made)
            else:
                group = await self._driver.create_volume_group_snapshot(order.group_request(secrets), self._call)
                after = after_group(self._view, self.find(name, uid), group.group_snapshot, self._now_ns)
        except DriverError as error:
            self._memory.change(uid, nothing_made=is_first and error.unsent)
            after, is_refused = after_refused(self.find(name, uid), order, error, is_first=is_first), is_refusal(error)
        self._note(uid, after, refused=is_refused)
        return after

    def _after_created(self, content: Any, made: csi.Snapshot) -> After:
        return after_created(content, made, self._now_ns, stranger(self._view, content, made))

    def _note(self, uid: str, after: After, *, refused: bool = False) -> None:
        """Notes what is known of a creation by now. refused: the driver refused its last request for sure."""
        if after.unmarks:
            self._memory.creation_ended(uid, nothing_made=after.nothing_made)
        else:
            self._memory.creation_is_open(uid, self._clock.now(), refused=refused)

    async def _look_for(self, look: d.LookFor, content: Content) -> After:
        """Raises Failed for a Secret that can't be had."""
        uid = content.metadata.uid
        self._memory.change(uid, to_list=False)  # whatever comes of it, a request is next
        secrets = {} if look.secret is None else await self._load_secret(look.secret, uid)
        after = await self._questions.look_for(content, look.order, secrets)
        if after.unmarks:
            self._note(uid, after)
        return after

    async def _delete(self, content: Content, made: Made, secrets: Mapping[str, str]) -> After:
        """One call at once, of several contents that go. Raises Stale where the snapshot is to stay by now: the Secret took a while."""
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
            raise failed_by(d.Failure(self._row.deletion_failed, text, saved=False)) from error
        self._memory.change(content.metadata.uid, deleted_at=self._clock.now())
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

    # -- writes

    def find(self, name: str, uid: str) -> Any:
        """The content as it is now. Raises Stale where it is no more, or another."""
        found = self._caches.contents.store.get(Key("", name))
        if found is None or found.metadata.uid != uid:
            raise Stale(name)
        return found

    async def _keep(self, content: Content, after: After, secrets: Mapping[str, str]) -> After:
        """Saves what was made. A snapshot that can't be saved, and would be deleted by the save, is deleted at once. Raises Failed."""
        try:
            return await self._save(content, after)
        except _Unsaved:
            now = self.find(content.metadata.name, content.metadata.uid)
            answered = msgspec.structs.replace(now, status=after.status)
            handle = handle_of(answered)
            if not handle or not is_given_up(now) or self._is_kept(answered, handle):
                raise
            deleted = await self._delete(now, Made(handle, members_of(answered)), secrets)
            if deleted.waits_for:
                return deleted
            return await self._save(now, After(unmarks=True, nothing_made=True, again=True))

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
        if after.unmarks:
            await self._unmark(self.find(name, uid))
        if after.tells is not None:
            self.telling.warn(content, after.tells)
        if after.failure is not None:
            raise failed_by(after.failure)
        return after

    async def _mark(self, content: Content) -> None:
        """The mark of a creation. Nobody removes the content from under the call."""
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
        await self._writer.patch(content, patch, subresource, strictly=strictly)


def release(content: Content) -> Patch:
    """Removes our finalizer; under this policy alone, and where no handle was known, only while none is: it may have been saved by a write
    of ours whose answer was lost.
    """
    row, tests = row_of(content), [test("/spec/deletionPolicy", content.spec.deletion_policy)]
    if not handle_of(content):
        shown = as_json(content.status)
        tests.append(
            test("/status", None) if shown is None else test(f"/status/{row.made_of[0]}", shown.get(row.made_of[0]))
        )
    return json_patch([*tests, *remove_finalizer(content, row.finalizer).body])


def mark(content: Content) -> Patch:
    """Sets the mark of a creation, with the finalizer, which somebody may have torn off. Where the mark may be there already, another
    version is made of the content, so that a removal of the mark which is still on its way is refused.
    """
    row, held = row_of(content), finalizers_of(content)
    moved = {TOUCHED: content.metadata.resource_version} if is_marked(content, row.being_created) else {}
    finalizers = {} if row.finalizer in held or is_deleting(content) else {"finalizers": [*held, row.finalizer]}
    return merge_patch({"metadata": {"annotations": {row.being_created: YES, **moved}, **finalizers}}, of=content)


def unmark(content: Content) -> Patch:
    return merge_patch({"metadata": {"annotations": {row_of(content).being_created: None}}}, of=content)


def failed_by(failure: d.Failure) -> Failed:
    return Failed(failure.error, problem=failure)
