"""Carries out decisions about volumes: attachments are made and deleted, nodes are asked, pods are told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.core import NODES, Node
from mooring.api.meta import Key, is_deleting
from mooring.api.names import attacher_finalizer
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.backoff import BackOff
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.cluster.attachdetach import decision as d
from mooring.cluster.attachdetach.assemble import observe, volume_of
from mooring.cluster.attachdetach.decide import decide_volume, detach_notes, failed_notes
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.identity import Identity, attachment_body, force_after_of, source_body
from mooring.cluster.attachdetach.memory import NOTHING_TOLD, REMIND_S, Deletion, Record
from mooring.cluster.attachdetach.metrics import AttachDetachMetrics
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.attachdetach.release import Rules
from mooring.cluster.attachdetach.view import View
from mooring.control.decision import Decision
from mooring.control.events import SLACK_S, EventRecorder
from mooring.control.order import resumed
from mooring.control.result import Because, Result
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import (
    LATE_S,
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)

log = logger(__name__)

BACK_OFF: Final = BackOff(0.5, 122.0, 0.02)
"""For one volume on one node, as upstream's operations."""

_DONE: Final[Mapping[type, str]] = {d.Create: "asked for an attachment", d.Delete: "asked for a detach"}


class Reconciler:
    """Performs the steps of decisions. recorder: of events."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        attachments: Informer[VolumeAttachment],
        nodes: Informer[Node],
        options: AttachDetachOptions,
        recorder: EventRecorder,
        metrics: AttachDetachMetrics,
    ) -> None:
        self._runtime, self._cluster, self._view, self._memory = runtime, runtime.cluster, view, view.memory
        self._attachments, self._nodes, self._options = attachments, nodes, options
        self._recorder, self._metrics = recorder, metrics
        self.rules = Rules(options, view.memory.class_waits)

    def decide(self, unique: str) -> Decision[d.VolumeAction]:
        """What is so, and what follows from it."""
        now = self._runtime.clock.now()
        volume = volume_of(self._view, unique)
        observe(self._view, volume, now)
        return decide_volume(volume, self.rules, now)

    async def take(self, because: Because, action: d.TakeSteps) -> Result:
        volume, steps = action.volume, action.steps
        for step in steps:
            self._announce(volume.places[step.node].record, step)
            self._note_block(volume.places[step.node], step)
        if any(step.actions for step in steps):
            async with asyncio.TaskGroup() as group:
                for step in steps:
                    group.create_task(self._step(volume, step), name=f"attachdetach/{volume.unique}/{step.node}")
            await resumed("steps", volume.unique)
        wakes = [step.wake_s for step in steps if step.wake_s is not None]
        wakes += [REMIND_S + SLACK_S for step in steps if _waits(volume.places[step.node], step)]
        wakes += [
            self._left_s(volume.places[step.node]) for step in steps if self._left_s(volume.places[step.node]) > 0
        ]
        topics = frozenset(topic for step in steps for topic in step.waits_for)
        again = any(step.again and self._left_s(volume.places[step.node]) <= 0 for step in steps)
        done = "; ".join(_DONE[type(action)] for step in steps for action in step.actions if type(action) in _DONE)
        return Result(because, done=done, again=again, waits_for=topics, after_s=min(wakes, default=None))

    def _left_s(self, place: Place) -> float:
        return place.record.not_before - self._runtime.clock.now()

    def _announce(self, record: Record, step: d.Step) -> None:
        """Before anybody else decides: what is about to be made or deleted counts as if it were under way."""
        for action in step.actions:
            if isinstance(action, d.Create):
                record.creating = True
            elif isinstance(action, d.Delete):
                self._memory.deletions.setdefault(
                    action.uid, Deletion(action.forced, self._runtime.clock.now())
                ).on_its_way = True

    async def _step(self, volume: Volume, step: d.Step) -> None:
        await resumed("step", (volume.unique, step.node))
        place = volume.places[step.node]
        try:
            for action in step.actions:
                await self._perform(volume, place, action)
        except ApiError as error:
            delay_s = place.record.failed(BACK_OFF, self._runtime.clock.now(), self._runtime.randomness)
            log.error(
                "failed, trying again",
                error=error,
                volume=volume.unique,
                node=step.node,
                because=str(step.because),
                retry_in_s=delay_s,
            )

    def _note_block(self, place: Place, step: d.Step) -> None:
        record = place.record
        if not step.blocked_by:
            record.blocked_since, record.blocked_by = None, ""
            record.untold("multi-attach", "blocked")
        else:
            record.blocked_by = step.blocked_by
            if record.blocked_since is None:
                record.blocked_since = self._runtime.clock.now()

    async def _perform(self, volume: Volume, place: Place, action: d.Action) -> None:
        match action:
            case d.Create():
                await self._create(volume, place, action)
            case d.Delete():
                await self._delete(volume, place, action)
            case d.LookUpAttachment(node):
                await self._look_up(volume, place, node)
            case d.CheckNode(node):
                await self._check_node(place, node)
            case d.LookUpClass(_, name):
                await self._look_up_class(volume, place, name)
            case d.Tell():
                self._tell(volume, place, action)

    # -- attachments

    async def _create(self, volume: Volume, place: Place, action: d.Create) -> None:
        """One that is there already is waited for as if it had been made here."""
        name = Identity(volume.driver, volume.handle).attachment_to(action.node)
        source = source_body(action.pv_name, action.inline)
        body = attachment_body(name, volume.driver, action.node, source, self._held_as(volume.driver, action.node))
        record = place.record
        try:
            made = await self._attachments.write(Key("", name), self._cluster.create(VOLUME_ATTACHMENTS, body))
            record.made_uid = made.metadata.uid
        except AlreadyExists:
            await self._look_up(volume, place, action.node)
        except ApiError as error:
            record.creating = False
            if isinstance(error, Unreachable | ServerError):
                record.post_lost(self._runtime.clock.now())
            self._record(failed_notes(place.wishes, str(error)))
            raise
        record.creating = False
        place.record.succeeded()

    def _held_as(self, driver: str, node: str) -> tuple[str, str] | None:
        """The attacher's finalizer and the node's id, for a driver whose attacher runs in this process: that saves it a write."""
        if driver not in self._options.own_attachers:
            return None
        node_id = self._view.node_id(driver, node)
        return (attacher_finalizer(driver), node_id) if node_id else None

    async def _look_up(self, volume: Volume, place: Place, node: str) -> None:
        """One GET that finds nothing does not prove that a POST is not yet to be carried out."""
        asked_at = self._runtime.clock.now()
        name = (
            place.attachment.metadata.name
            if place.attachment
            else Identity(volume.driver, volume.handle).attachment_to(node)
        )
        try:
            found = await self._cluster.get(VOLUME_ATTACHMENTS, name)
        except NotFound:
            place.record.looked_up("", asked_at)
            if place.deletion is not None:
                place.deletion.looked_up(is_ending=True, asked_at=asked_at)
        else:
            place.record.looked_up(found.metadata.uid, asked_at)
            deletion = self._memory.deletions.get(found.metadata.uid)
            if deletion is not None and not deletion.looked_up(is_ending=is_deleting(found), asked_at=asked_at):
                del self._memory.deletions[found.metadata.uid]
            self._attachments.wrote(found)

    async def _delete(self, volume: Volume, place: Place, action: d.Delete) -> None:
        """The attachment counts as ending from before the request on (`_announce`), so that nothing is reported of it meanwhile."""
        if action.uid not in self._memory.deletions:
            return  # (it has gone between the decision and this moment)
        try:
            await self._send_delete(action)
        except ApiError as error:
            if not isinstance(error, Conflict):  # that one is about our own uid
                self._record(detach_notes(volume, place, str(error)))
            raise
        place.record.succeeded()
        if action.forced:
            self._metrics.forced(action.forced)
            log.warning("detached by force", VolumeAttachment=action.name, node=action.node, why=action.forced)

    async def _send_delete(self, action: d.Delete) -> None:
        """A refusal ends it, unless the answer to an earlier one was lost: it tells nothing about that.

        An attachment that is gone counts as ending until the cache shows that.
        """
        deletion = self._memory.deletions[action.uid]
        try:
            with contextlib.suppress(NotFound):
                await self._cluster.delete(VOLUME_ATTACHMENTS, action.name, uid=action.uid)
            deletion.unanswered = False
        except (Unreachable, ServerError):
            deletion.unanswered, deletion.open_until = True, self._runtime.clock.now() + LATE_S
            raise
        except ApiError:
            if not deletion.unanswered:
                self._memory.deletions.pop(action.uid, None)
            raise
        finally:
            deletion.on_its_way = False

    # -- nodes and classes

    async def _check_node(self, place: Place, name: str) -> None:
        asked_at = self._runtime.clock.now()
        try:
            self._nodes.wrote(await self._cluster.get(NODES, name))
        except NotFound:
            pass
        place.node_record.checked_at = asked_at

    async def _look_up_class(self, volume: Volume, place: Place, name: str) -> None:
        """Only one that is not there says nothing. One that can't be read keeps what it said; before it was read nothing is forced."""
        waits = self._memory.class_waits
        try:
            wait_s = force_after_of(await self._cluster.get(STORAGE_CLASSES, name))
        except NotFound:
            wait_s = None
        except ApiError as error:
            text = f'can not read StorageClass "{name}", which may say when a detach is forced'
            self._record(detach_notes(volume, place, f"{text}: {error}"))
            if name not in waits:
                raise
            wait_s = waits[name][0]
            log.warning(
                "can't read the StorageClass, what it said last says when a detach is forced",
                StorageClass=name,
                why=str(error),
            )
        waits[name] = wait_s, self._runtime.clock.now()

    # -- pods

    def _record(self, notes: Iterable[d.Note]) -> bool:
        """False when one of them found no room among the events that wait to be sent."""
        told = [self._recorder.event(note.ref, note.type, note.reason, note.message) for note in notes]
        return all(told)

    def _tell(self, volume: Volume, place: Place, action: d.Tell) -> None:
        """Raises TooManyRequests for what finds no room among the waiting events: it is told later."""
        if not self._record(action.notes):
            raise TooManyRequests("too many events are waiting to be sent")
        now, record = self._runtime.clock.now(), place.record
        if action.ends_wait:
            self._metrics.attached(volume.driver, now - (now if record.waiting_since is None else record.waiting_since))
            record.waiting_since = None
            record.told = NOTHING_TOLD
        else:
            record.tells(action.subject, action.mark, (note.ref.uid for note in action.notes), now)
            if action.subject in ("error", "timeout", "deleting"):
                self._metrics.failed(volume.driver, "volume_attach", _since(record.waiting_since, now))
            elif action.subject == "detach":
                since = None if place.deletion is None else place.deletion.since
                self._metrics.failed(volume.driver, "volume_detach", _since(since, now))


def _since(moment: Instant | None, now: Instant) -> float:
    return 0.0 if moment is None else now - moment


def _waits(place: Place, step: d.Step) -> bool:
    """True while somebody waits for the attach or the detach, who is reminded of the reason."""
    return bool(step.blocked_by) or place.record.waiting_since is not None or place.is_ending
