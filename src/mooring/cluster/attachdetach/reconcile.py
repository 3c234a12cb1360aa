"""Carries out decisions about a volume on a node: makes and deletes its attachment, asks the Node, tells pods."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence

from mooring.api.core import NODES, Node
from mooring.api.meta import Key
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.cluster.attachdetach import decision as d
from mooring.cluster.attachdetach.assemble import observe, volume_of
from mooring.cluster.attachdetach.decide import decide, detach_notes, failed_notes
from mooring.cluster.attachdetach.facts import Volume, Wish
from mooring.cluster.attachdetach.identity import Identity, OnNode, attachment_body, force_after_of, source_body
from mooring.cluster.attachdetach.memory import Deletion, Record
from mooring.cluster.attachdetach.metrics import AttachDetachMetrics
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.attachdetach.release import TIMEOUT, Rules
from mooring.cluster.attachdetach.silence import mark_of, mark_patch, moment_of
from mooring.cluster.attachdetach.view import View
from mooring.control.decision import Deciding, Decision, Failed, Read
from mooring.control.events import EventOnce, EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import AlreadyExists, ApiError, NotFound, ServerError, Unreachable

log = logger(__name__)


class Reconciler:
    """report: called with a node whose report has to be looked at. let_go: called with a volume whose holder may have
    changed without a change of an object.
    """

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        attachments: Informer[VolumeAttachment],
        nodes: Informer[Node],
        options: AttachDetachOptions,
        recorder: EventRecorder,
        once: EventOnce,
        metrics: AttachDetachMetrics,
        report: Callable[[str], None],
        let_go: Callable[[OnNode], None],
    ) -> None:
        self._clock, self._cluster, self._view, self._memory = runtime.clock, runtime.cluster, view, view.memory
        self._attachments, self._nodes = attachments, nodes
        self._writer = ObjectWriter(runtime.cluster, VOLUME_ATTACHMENTS, attachments)
        self._recorder, self._once = recorder, once
        self._metrics, self._report, self._let_go = metrics, report, let_go
        self.rules = Rules(options, view.memory.class_waits)

    def deciding(self) -> Deciding[OnNode, d.Action]:
        volumes: dict[OnNode, Volume] = {}  # the volumes that are worked on

        def decide_on(key: OnNode) -> Decision[d.Action]:
            """Put the volume on the node together, and decide about it."""
            moment = moment_of(self._clock)
            volume = volumes[key] = volume_of(self._view, *key, moment)
            observe(self._view, volume, moment.now)
            return decide(volume, self.rules, moment.now)

        async def perform(key: OnNode, decision: Decision[d.Action]) -> None:
            for action in decision.actions:
                try:
                    await self._perform(volumes[key], action)
                except ApiError as error:
                    raise Failed(str(error)) from error

        def work(key: OnNode, decision: Decision[d.Action]) -> str:
            deletes = any(isinstance(action, d.Delete) for action in decision.actions)
            return "detach the volume" if deletes else "attach or detach the volume"

        def reads(key: OnNode, decision: Decision[d.Action]) -> Sequence[Read]:
            return self._reads(volumes[key], decision)

        def ended(key: OnNode) -> None:
            volumes.pop(key, None)

        return Deciding(decide_on, perform, work=work, ended=ended, reads=reads)

    def _reads(self, volume: Volume, decision: Decision[d.Action]) -> Sequence[Read]:
        """What the kit reads before a detach by force, after which it is decided anew: the node may be back by now,
        with the volume mounted, or its class forbid it.
        """
        forced = {action.forced for action in decision.actions if isinstance(action, d.Delete)} - {""}
        classes = volume.class_names if TIMEOUT in forced else ()
        of_node = functools.partial(self._read_node, volume.place.node.name)
        of_classes = (functools.partial(self._look_up_class, volume, name) for name in classes)
        return (of_node, *of_classes) if forced else ()

    async def _read_node(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._nodes.read(Key("", name), self._cluster.get(NODES, name))

    async def _perform(self, volume: Volume, action: d.Action) -> None:
        place = volume.place
        node, record = place.node.name, place.record
        match action:
            case d.Create():
                await self._create(volume, action)
            case d.Delete():
                await self._delete(volume, action)
            case d.Fence(attachment, wishes):
                await self._fence(record, attachment, self._writer.fence(attachment), wishes)
            case d.MarkWait(attachment, begins):
                mark = mark_of(self._view.node(node), place.node_record, self._clock.wall_s()) if begins else ""
                write = self._writer.patch(attachment, mark_patch(attachment, mark), strictly=True)
                await self._fence(record, attachment, write)
            case d.LookUpAttachment():
                await self._look_up(volume)
            case d.CheckNode():
                await self._read_node(node)
                self._memory.keep_node(node).is_read = True
            case d.LookUpClass(name):
                await self._look_up_class(volume, name)
            case d.Tell():
                self._tell(volume, action)
            case d.EndWait(notes):
                self._record(notes)
                self._metrics.ended(volume.driver, "volume_attach", self._since(record.waiting_since))
                record.waiting_since = None
                self._untell(volume)
            case d.NoteBlock(kind):
                record.blocked_by = kind
                if not kind:
                    record.blocked_since = None
                    self._untell(volume, "multi-attach", "blocked")
                elif record.blocked_since is None:
                    record.blocked_since = self._clock.now()
            case d.MarkReport():
                self._memory.keep_node(node).mark((volume.unique,))
                self._report(node)

    # -- attachments

    async def _create(self, volume: Volume, action: d.Create) -> None:
        """POST the attachment. One that exists already is waited for as if it had been made here."""
        record, first = volume.place.record, action.wishes[0]
        name = self._name_of(volume)
        body = attachment_body(name, volume.driver, volume.place.node.name, source_body(first.pv_name, first.inline))
        record.creating = True  # before anything is awaited: other nodes' keys see that this one has the volume
        try:
            made = await self._attachments.write(Key("", name), self._cluster.create(VOLUME_ATTACHMENTS, body))
            record.fenced_uid = made.metadata.uid
            record.creating = False
        except AlreadyExists:
            await self._look_up(volume)
        except ApiError as error:
            # Where it was not answered, it may have been carried out: that is asked before anything else.
            record.creating = isinstance(error, Unreachable | ServerError)
            self._record(failed_notes(action.wishes, str(error)))
            self._let_go(OnNode(volume.unique, volume.place.node.name))
            raise

    async def _look_up(self, volume: Volume) -> None:
        try:
            self._attachments.observed(await self._cluster.get(VOLUME_ATTACHMENTS, self._name_of(volume)))
        except NotFound:
            pass
        volume.place.record.creating = False
        self._let_go(OnNode(volume.unique, volume.place.node.name))

    def _name_of(self, volume: Volume) -> str:
        return Identity(volume.driver, volume.handle).attachment_to(volume.place.node.name)

    async def _fence(
        self, record: Record, attachment: VolumeAttachment, write: Awaitable[object], wishes: Iterable[Wish] = ()
    ) -> None:
        """write: any strict write to this version of the attachment. Where a DELETE was carried out before, it raises
        Stale, and the cache shows the deletion.
        """
        try:
            await write
        except Failed as failure:
            self._record(failed_notes(wishes, str(failure)))
            raise
        record.fenced_uid = attachment.metadata.uid
        self._memory.deletions.pop(record.fenced_uid, None)

    async def _delete(self, volume: Volume, action: d.Delete) -> None:
        attachment, place = action.attachment, volume.place
        uid, name, node = attachment.metadata.uid, attachment.metadata.name, place.node.name
        # From now on it is not reported, whatever comes of the DELETE.
        if uid not in self._memory.deletions:
            self._memory.deletions[uid] = Deletion(self._clock.now())
            if action.forced:
                self._metrics.forced(action.forced)
        place.record.fenced_uid = ""
        try:
            await self._writer.delete(attachment, strictly=True, failing=f"{name} was not deleted")
        except Stale:
            # Another version is there: neither this DELETE nor an earlier one of ours can be carried out any more.
            self._memory.deletions.pop(uid, None)
            raise
        except Failed as failure:
            # It may have been carried out, or be carried out later; or an earlier one, whose answer was lost.
            self._record(detach_notes(volume.claims, volume.pv_name, node, str(failure.__cause__ or failure)))
            raise
        if (deletion := self._memory.deletions.get(uid)) is not None:
            deletion.answered = True
        if action.forced:
            log.warning("detached by force", VolumeAttachment=name, node=node, why=action.forced)

    # -- classes

    async def _look_up_class(self, volume: Volume, name: str) -> None:
        """Read the StorageClass. Only one that does not exist says nothing; of one that can't be read the last answer
        counts, and before the first nothing is forced.
        """
        waits = self._memory.class_waits
        try:
            wait_s = force_after_of(await self._cluster.get(STORAGE_CLASSES, name))
        except NotFound:
            wait_s = None
        except ApiError as error:
            text = f'can not read StorageClass "{name}", which may say when a detach is forced: {error}'
            self._record(detach_notes(volume.claims, volume.pv_name, volume.place.node.name, text))
            if name not in waits:
                raise
            wait_s = waits[name][0]
            log.warning(
                "can't read the StorageClass, what it said last says when a detach is forced",
                StorageClass=name,
                why=str(error),
            )
        waits[name] = wait_s, self._clock.now()

    # -- pods and claims

    def _record(self, notes: Iterable[d.Note]) -> None:
        for note in notes:
            self._recorder.event(note.ref, note.type, note.reason, note.message)

    def _tell(self, volume: Volume, action: d.Tell) -> None:
        place = volume.place
        news = [
            self._once.tell(
                note.ref,
                note.reason,
                note.message,
                type=note.type,
                about=_about(volume, action.subject),
                mark=action.mark,
                apart_s=action.apart_s,
            )
            for note in action.notes
        ]
        if not any(news):
            return
        if action.subject in ("error", "timeout", "deleting"):
            since_s = self._since(place.record.waiting_since)
            self._metrics.ended(volume.driver, "volume_attach", since_s, failed=True)
        elif action.subject == "detach":
            since_s = self._since(None if place.deletion is None else place.deletion.since)
            self._metrics.ended(volume.driver, "volume_detach", since_s, failed=True)

    def _untell(self, volume: Volume, *subjects: str) -> None:
        """Forget what was told about these subjects, so that it is told again when it comes up; () for all."""
        for wish in volume.place.wishes:
            for subject in subjects or ("error", "timeout", "deleting", "mismatch", "multi-attach", "blocked"):
                self._once.forget(wish.ref.uid, _about(volume, subject))

    def _since(self, moment: Instant | None) -> float:
        return 0.0 if moment is None else self._clock.now() - moment


def _about(volume: Volume, subject: str) -> str:
    return f"{subject} {volume.unique} {volume.place.node.name}"
