"""Compares the backend, as ListVolumes reports it, with the status of the attachments, round after round.

external-attacher calls it ReconcileVA. Only for drivers with LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES. CSI has no
events, so this one loop asks periodically. A round changes nothing itself: it leaves a mark that `decide` reads, and
wakes the attachments that differ.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from mooring.api.meta import annotation, is_deleting
from mooring.api.migration import TranslationError, repaired_handle
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.store import Store
from mooring.sidecars.attacher.memory import Drift
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION, ResolvedVolume, View, resolve_volume

log = logger(__name__)

PAGES_MAX: Final = 10_000
"""The most pages of ListVolumes in one round; a driver with more is taken never to end."""

SLICE: Final = 200
"""Attachments, or a report's volumes, that are looked at before others get their turn."""


Report: TypeAlias = dict[str, frozenset[str] | None]
"""One complete answer of the backend: the node ids by volume handle. None for an entry without status, from which
nothing is concluded: external-attacher takes such a volume for not published, and publishes it each minute.
"""


def find_drift(view: View, attachment: VolumeAttachment, report: Report) -> Drift | None:
    """Return how the report contradicts the attachment's status. One whose volume can't be resolved is left alone."""
    node_id = view.node_id(attachment.spec.node_name) or annotation(attachment, NODE_ID_ANNOTATION)
    volume = resolve_volume(view, attachment)
    if attachment.spec.attacher != view.driver.name or not node_id or not isinstance(volume, ResolvedVolume):
        return None
    handle = volume.source.volume_handle
    if volume.migrated or volume.inline:  # translation does not know all that is in the backend's handle
        try:
            handle = repaired_handle(view.driver.name, handle, node_id)
        except TranslationError:
            return None
    published = report.get(handle, frozenset())
    if published is None or (node_id in published) == attachment.status.attached:
        return None
    if node_id in published:
        return Drift.EXTRA
    if is_deleting(attachment) and not view.holds(attachment):
        return None
    return Drift.MISSING if published.isdisjoint(view.former_ids(attachment)) else Drift.MOVED


class Rounds:
    """Keeps the drift marks in memory, and wakes the attachments that differ."""

    def __init__(
        self,
        driver: Driver,
        view: View,
        attachments: Store[VolumeAttachment],
        controller: Controller[str],
        options: AttacherOptions,
        clock: Clock,
    ) -> None:
        self._driver, self._view, self._memory = driver, view, view.memory
        #: The queue of the attachments that are woken.
        self._controller = controller
        self._attachments, self._options, self._clock = attachments, options, clock

    async def run(self) -> None:
        """Compare at once, then once each period, counted from the end of the round before."""
        while True:
            self._memory.worked_on = set()
            report = await self._report()
            if report is not None:
                await self._compare(report)
            self._memory.worked_on = None
            await self._clock.sleep(self._options.reconcile_sync_s)

    async def _report(self) -> Report | None:
        """Return all pages, or None when one could not be had: then nothing is concluded."""
        report: Report = {}
        token, tokens = "", {""}
        for _ in range(PAGES_MAX):
            request = csi.ListVolumesRequest(max_entries=self._options.max_entries, starting_token=token)
            try:
                page = await self._driver.list_volumes(request, Call(self._options.timeout_s))
            except DriverError as error:
                log.error("failed to list volumes, this round is left out", error=error, starting_token=token)
                return None
            for begin in range(0, len(page.entries), SLICE):
                for entry in page.entries[begin : begin + SLICE]:
                    if entry.HasField("status"):  # a handle that comes again overwrites
                        report[entry.volume.volume_id] = frozenset(entry.status.published_node_ids)
                    else:
                        report.setdefault(entry.volume.volume_id, None)
                await self._clock.sleep(0)
            token = page.next_token
            if not token:
                return report
            if token in tokens:
                log.error("the driver repeats a page token, this round is left out", starting_token=token)
                return None
            tokens.add(token)
        log.error("ListVolumes returned too many pages, this round is left out", pages=PAGES_MAX)
        return None

    async def _compare(self, report: Report) -> None:
        """Mark what differs. An attachment that was worked on since the backend was asked keeps its mark."""
        names = [attachment.metadata.name for attachment in self._attachments.values()]
        for begin in range(0, len(names), SLICE):
            for name in names[begin : begin + SLICE]:
                attachment = self._view.attachment(name)
                is_in_work = name in (self._memory.worked_on or ()) or self._controller.in_hand(name)
                if attachment is not None and not is_in_work:
                    self._mark(attachment, find_drift(self._view, attachment, report))
            await self._clock.sleep(0)

    def _mark(self, attachment: VolumeAttachment, drift: Drift | None) -> None:
        name = attachment.metadata.name
        before = self._memory.drift.pop(name, None)
        if drift is None:
            return
        self._memory.drift[name] = drift
        if drift is not before:
            log.error("the backend differs from the attachment", VolumeAttachment=name, drift=drift.value)
        # What is published already, and is to be, only needs to be confirmed: no back-off for that.
        if drift is not before or (drift is Drift.EXTRA and not is_deleting(attachment)):
            self._controller.add(name)
