"""Writes each Node's list of attached volumes: one PATCH at a time for a node, with everything that has changed since the last.

Only the entries of volumes that something has happened to are made anew; all of them at the start, after a failure, and when the Node
itself becomes another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from mooring.api.core import NODES, Node
from mooring.base.backoff import BackOff
from mooring.base.log import logger
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.assemble import volume_of
from mooring.cluster.attachdetach.decide_report import Report, is_current, report_of, report_patch
from mooring.cluster.attachdetach.facts import Volume
from mooring.cluster.attachdetach.release import Rules
from mooring.cluster.attachdetach.view import BY_NODE, View
from mooring.cluster.attachdetach.waited import note_of, written_on
from mooring.control.decision import Failed
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Result, Stale, Vanished
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer

GATHER_S: Final = 0.05
"""The shortest time between two writes of one node's report: what attaches in a burst is told in a few writes; a single one at once."""

GATHER_SHARE: Final = 2
"""Nor does a write begin before this many times as long as the last one took: the slower the server, the more each write tells."""

BACK_OFF: Final = BackOff(0.1, 30.0, 0.02)

log = logger(__name__)


class Reports:
    """written: called with a node after each write of its report, however it ended. A failed one has a back-off of its own: whatever
    the node's volumes come to meanwhile does not shorten it."""

    def __init__(
        self, runtime: Runtime, view: View, nodes: Informer[Node], rules: Rules, written: Callable[[str], None]
    ) -> None:
        self._clock, self._randomness = runtime.clock, runtime.randomness
        self._view, self._rules, self._written = view, rules, written
        self._nodes = ObjectWriter(runtime.cluster, NODES, nodes)

    async def reconcile(self, name: str) -> Result:
        await self._clock.sleep(
            0
        )  # a report may look at hundreds of volumes: others get their turn before the next one
        node = self._view.node(name)
        if node is None:
            self._forget(name)
            return Result(why.NodeGone(name))
        record, now = self._view.memory.node(name), self._clock.now()
        due = max(record.gathers_until, record.not_before)
        if now < due:  # before the report is made: that looks at volumes
            return Result(why.ReportDue(name), after_s=due - now)
        stale = record.take_stale()
        volumes = self._volumes_of(name, stale)
        report, waited = (
            report_of(node, volumes, self._rules, now, stale),
            note_of(node, volumes, self._rules, now, stale),
        )
        if is_current(node, report) and waited == written_on(node) and not record.unsure:
            return Result(why.Reported(name))
        because = why.Reporting(name, _names(report))
        try:
            await self._write(node, report, waited)
        except Failed as failure:
            record.mark_all()
            delay_s = record.failed(BACK_OFF, self._clock.now(), self._randomness)
            log.error(
                "could not write the attached volumes, trying again", error=failure, node=name, retry_in_s=delay_s
            )
            return Result(because, after_s=delay_s)
        return Result(because, done="wrote the attached volumes", again=True)

    def _volumes_of(self, node: str, stale: Collection[str] | None) -> list[Volume]:
        """The stale ones; for None those that are attached to the node."""
        if stale is None:
            stale = {key for _, key in self._view.keys_on(node) if key is not None}
        return [volume_of(self._view, unique) for unique in sorted(stale)]

    async def _write(self, node: Node, report: Report, waited: str) -> None:
        """The answer shows what the node has in use, later than what this write took off the list: no further look is needed."""
        name, began = node.metadata.name, self._clock.now()
        record = self._view.memory.node(name)
        record.writing = True
        try:
            await self._nodes.patch(node, report_patch(node, report, waited), "status")
            record.checked_at = began
        except (
            Vanished
        ) as error:  # another Node may have its name; while the cache shows this very one, nothing has ended
            record.mark_all()
            shown = self._view.node(name)
            if shown is not None and shown.metadata.uid == node.metadata.uid:
                raise Failed(str(error)) from error
        except Stale:
            record.mark_all()
            raise
        except Failed as failure:
            record.unsure = record.unsure or failure.is_unanswered
            raise
        finally:
            record.writing = False
            record.gathers_until = began + max(GATHER_S, GATHER_SHARE * (self._clock.now() - began))
            self._written(name)
        record.unsure = False
        record.succeeded()

    def _forget(self, name: str) -> None:
        memory = self._view.memory
        if memory.node(name).unsure:
            memory.node(name).unsure = False
            self._written(name)
        if not self._view.attachments.by(BY_NODE, name):
            memory.forget_node(name)


def _names(report: Report) -> str:
    return ", ".join(one.name for one in report) or "none"
