"""Compares the backend, as ListVolumes reports it, with the status of the attachments, round after round.

external-attacher calls it ReconcileVA. Only for drivers with LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES. CSI has no events, so this one
loop asks periodically. A round changes nothing itself: it leaves a mark that `decide` reads, and wakes the attachments that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

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
"""For one round; a driver with more pages is taken not to come to an end."""

SLICE: Final = 200
"""Attachments, or a report's volumes, that are looked at before others get their turn."""


class DriftReport(msgspec.Struct):
    """One complete answer of the backend.

    published: volume handle -> node ids. unknown: handles whose entry carried no status, about which nothing may be concluded
    (external-attacher takes them for not published and publishes them each minute).
    """

    published: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    unknown: set[str] = msgspec.field(default_factory=set)

    def add(self, entries: Iterable[csi.ListVolumesResponse.Entry]) -> None:
        """Takes in one page. A handle that comes again overwrites."""
        for entry in entries:
            if not entry.HasField("volume"):
                continue
            if entry.HasField("status"):
                self.published[entry.volume.volume_id] = frozenset(entry.status.published_node_ids)
            else:
                self.unknown.add(entry.volume.volume_id)


def find_drift(view: View, attachments: Iterable[VolumeAttachment], report: DriftReport) -> Mapping[str, Drift]:
    """The attachments, by name, whose status the report contradicts. Those that can't be resolved now are left alone."""
    found = {}
    for attachment in attachments:
        drift = _drift(view, attachment, report) if attachment.spec.attacher == view.driver.name else None
        if drift is not None:
            found[attachment.metadata.name] = drift
    return found


def _drift(view: View, attachment: VolumeAttachment, report: DriftReport) -> Drift | None:
    node_id = view.node_id(attachment.spec.node_name) or annotation(attachment, NODE_ID_ANNOTATION)
    volume = resolve_volume(view, attachment)
    if not node_id or not isinstance(volume, ResolvedVolume):
        return None
    handle = volume.handle
    if volume.may_be_incomplete:
        try:
            handle = repaired_handle(view.driver.name, handle, node_id)
        except TranslationError:
            return None
    if handle in report.unknown and handle not in report.published:
        return None
    published = report.published.get(handle, frozenset())
    if (node_id in published) == attachment.status.attached:
        return None
    if node_id in published:
        return Drift.EXTRA
    if is_deleting(attachment) and not view.holds(attachment):
        return None
    return Drift.MISSING if published.isdisjoint(view.former_node_ids(attachment, node_id)) else Drift.MOVED


class Rounds:
    """Keeps the drift marks in memory. controller: of the attachments, some of which are woken."""

    def __init__(
        self,
        driver: Driver,
        view: View,
        attachments: Store[VolumeAttachment],
        controller: Controller[str],
        options: AttacherOptions,
        clock: Clock,
    ) -> None:
        self._driver = driver
        self._view, self._memory = view, view.memory
        self._attachments, self._controller, self._options, self._clock = attachments, controller, options, clock

    async def run(self) -> None:
        """A round at once, then one each period, counted from the end of the one before."""
        while True:
            self._memory.round_begins()
            report = await self._report()
            if report is not None:
                await self._compare(report)
            self._memory.round_ends()
            await self._clock.sleep(self._options.reconcile_sync_s)

    async def _report(self) -> DriftReport | None:
        """All pages, or None when one could not be had: then nothing is concluded."""
        report, token, tokens = DriftReport(), "", {""}
        for _ in range(PAGES_MAX):
            request = csi.ListVolumesRequest(max_entries=self._options.max_entries, starting_token=token)
            try:
                page = await self._driver.list_volumes(request, Call(self._options.timeout_s))
            except DriverError as error:
                log.error("failed to list volumes, this round is left out", error=error, starting_token=token)
                return None
            for begin in range(0, len(page.entries), SLICE):
                report.add(page.entries[begin : begin + SLICE])
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

    async def _compare(self, report: DriftReport) -> None:
        """Marks what differs; attachments that moved since the backend was asked keep the mark that they had."""
        names = [attachment.metadata.name for attachment in self._attachments.values()]
        for begin in range(0, len(names), SLICE):
            self._compare_some(names[begin : begin + SLICE], report)
            await self._clock.sleep(0)

    def _compare_some(self, names: Iterable[str], report: DriftReport) -> None:
        rested = [found for name in names if self._rested(name) and (found := self._view.attachment(name)) is not None]
        drifts = find_drift(self._view, rested, report)
        for name in (attachment.metadata.name for attachment in rested):
            drift, before = drifts.get(name), self._memory.drift(name)
            self._memory.mark_drift(name, drift)
            if drift is not None and drift is not before:
                log.error("the backend differs from the attachment", VolumeAttachment=name, drift=drift.value)
            if drift is not None and (drift is not before or self._only_needs_confirming(name, drift)):
                self._controller.add(name)

    def _rested(self, name: str) -> bool:
        """True when nobody has worked on the attachment since the backend was asked."""
        return not self._memory.worked_on_in_round(name) and not self._controller.in_hand(name)

    def _only_needs_confirming(self, name: str, drift: Drift) -> bool:
        """True for what is published already and is to be: no back-off for that."""
        attachment = self._view.attachment(name)
        return drift is Drift.EXTRA and attachment is not None and not is_deleting(attachment)
