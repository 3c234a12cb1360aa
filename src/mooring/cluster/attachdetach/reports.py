"""Writes each Node's list of attached volumes: one PATCH at a time for a node, with everything that has changed since
the last.

Only the entries of volumes that something has happened to are made anew; all of them at the start, after a failure, and
when the Node itself becomes another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from mooring.api.core import NODES, Node
from mooring.api.volume_names import is_node_attached
from mooring.base.backoff import BackOff
from mooring.base.log import logger
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.assemble import volume_of
from mooring.cluster.attachdetach.decide import attached_notes
from mooring.cluster.attachdetach.decide_report import Report, is_current, report_of, report_patch
from mooring.cluster.attachdetach.decision import report_written
from mooring.cluster.attachdetach.facts import Volume
from mooring.cluster.attachdetach.memory import take_off
from mooring.cluster.attachdetach.node_attached import Entry, entry_of
from mooring.cluster.attachdetach.options import NEVER
from mooring.cluster.attachdetach.release import Rules
from mooring.cluster.attachdetach.silence import moment_of
from mooring.cluster.attachdetach.view import BY_NODE, View
from mooring.control.decision import Failed
from mooring.control.events import EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Result, Stale, Vanished
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer

GATHER_S: Final = 0.05
"""The shortest time between two writes of one node's report: what attaches in a burst is told in a few writes; a
single one at once.
"""

GATHER_SHARE: Final = 2
"""The shortest time from the beginning of one write to the next, in multiples of the first one's duration: the slower
the server, the more each write tells.
"""

BACK_OFF: Final = BackOff(0.1, 30.0, 0.02)

log = logger(__name__)


class Reports:
    """written: called with a node after each write of its report, however it ended. A failed one has a back-off of
    its own: whatever the node's volumes come to meanwhile does not shorten it.
    """

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        nodes: Informer[Node],
        rules: Rules,
        recorder: EventRecorder,
        written: Callable[[str], None],
    ) -> None:
        self._clock, self._randomness = runtime.clock, runtime.randomness
        self._view, self._rules, self._recorder, self._written = view, rules, recorder, written
        self._nodes = ObjectWriter(runtime.cluster, NODES, nodes)

    async def reconcile(self, name: str) -> Result:
        await self._clock.sleep(
            0
        )  # a report may look at hundreds of volumes: others get their turn before the next one
        node = self._view.node(name)
        if node is None:
            return self._gone(name)
        record, now = self._view.memory.keep_node(name), self._clock.now()
        due = max(record.gathers_until, record.not_before)
        if now < due:  # before the report is made: that looks at volumes
            return Result(why.ReportDue(name), after_s=due - now)
        stale = record.take_stale()
        names = self._view.node_attached_on(node) if stale is None else set(filter(is_node_attached, stale))
        volumes, entries = self._volumes_of(name, stale), self._entries_of(name, names)
        report = report_of(node, volumes, entries, self._rules, stale)
        waiting = {entry.name: entry.forced_in_s for entry in entries if entry.forced_in_s < NEVER}
        held = {entry.name: entry.holders for entry in entries if entry.holders}
        record.mark((*waiting, *held))  # they are looked at again, whether or not something is written now
        if is_current(node, report) and not record.unsure:
            # Not before: what a pod there still wants is listed again first, and other nodes wait for that.
            if take_off(self._view.memory.left, name):
                self._written(name)
            return Result(
                why.Reported(name),
                waits_for=frozenset(report_written(node) for nodes in held.values() for node in nodes),
                after_s=min(waiting.values(), default=None),
            )
        because = why.Reporting(name, _names(report))
        try:
            await self._write(node, report, entries)
        except Failed as failure:
            record.mark_all()
            delay_s = record.failed(BACK_OFF, self._clock.now(), self._randomness)
            log.error(
                "could not write the attached volumes, trying again", error=failure, node=name, retry_in_s=delay_s
            )
            return Result(because, after_s=delay_s)
        return Result(because, done="wrote the attached volumes", again=True)

    def _volumes_of(self, node: str, stale: Collection[str] | None) -> list[Volume]:
        """The stale volumes; for None all that are attached to the node."""
        if stale is None:
            stale = {key for _, key in self._view.keys_on(node) if key is not None}
        moment = moment_of(self._clock)
        return [volume_of(self._view, one, node, moment) for one in sorted(stale) if not is_node_attached(one)]

    def _entries_of(self, node: str, names: Iterable[str]) -> list[Entry]:
        """The entries of these node-attached volumes. The time of an unwanted one counts from the first look that finds
        it so.
        """
        moment, unwanted = moment_of(self._clock), self._view.memory.node(node).unwanted
        entries = [entry_of(self._view, name, node, self._rules.options, moment) for name in sorted(names)]
        for entry in entries:
            if entry.is_unwanted:
                unwanted.setdefault(entry.name, moment.now)
            else:
                unwanted.pop(entry.name, None)
        return entries

    async def _write(self, node: Node, report: Report, entries: Collection[Entry]) -> None:
        """The answer shows what the node has in use, later than what this write took off the list: no further look is
        needed.
        """
        name, began = node.metadata.name, self._clock.now()
        record, listing = self._view.memory.keep_node(name), self._view.memory.listing
        record.writing = True
        for entry in entries:
            if entry.is_new:
                listing.setdefault(entry.name, set()).add(name)
        try:
            await self._nodes.patch(node, report_patch(node, report), "status")
            record.is_read, record.unsure = True, False
        except Vanished as error:
            # Another Node may have its name; while the cache shows this very one, nothing has ended.
            record.mark_all()
            shown = self._view.node(name)
            if shown is not None and shown.metadata.uid == node.metadata.uid:
                raise Failed(str(error)) from error
            record.unsure, entries = False, ()
        except Stale:
            record.mark_all()
            raise
        except Failed as failure:
            record.unsure = record.unsure or failure.is_unanswered
            raise
        finally:
            record.writing = False
            if not record.unsure:
                take_off(listing, name)  # from now on the Node itself says what it lists
            record.gathers_until = began + max(GATHER_S, GATHER_SHARE * (self._clock.now() - began))
            self._written(name)
        record.succeeded()
        for note in attached_notes(wish for entry in entries if entry.is_new for wish in entry.wishes):
            self._recorder.event(note.ref, note.type, note.reason, note.message)

    def _gone(self, name: str) -> Result:
        """The Node was deleted. What it had in use stays with it until no pod is there, and the time for force is over,
        as in kube-controller-manager; for volumes with attachments their decisions see to that.
        """
        memory, record = self._view.memory, self._view.memory.node(name)
        entries = self._entries_of(name, [one for one, nodes in memory.left.items() if name in nodes])
        kept = {entry.name: entry.forced_in_s for entry in entries if entry.is_to_be_listed}
        if take_off(memory.left, name, but=kept) or record.unsure:
            record.unsure = False
            take_off(memory.listing, name)
            self._written(name)
        if not kept and not self._view.attachments.by(BY_NODE, name):
            memory.forget_node(name)
        after_s = min(kept.values(), default=NEVER)
        return Result(why.NodeGone(name), after_s=after_s if after_s < NEVER else None)


def _names(report: Report) -> str:
    return ", ".join(one.name for one in report) or "none"
