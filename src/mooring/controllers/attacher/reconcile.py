"""ReconcileVA: asking the backend what is published, round after round, and waking the attachments that differ.

Only for drivers with LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES. CSI has no events, so this one loop asks periodically. A round changes
nothing itself: it leaves a mark that `decide` reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from mooring.api.meta import is_deleting
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.controllers.attacher.drift import Report, find_drift
from mooring.controllers.attacher.view import Drift, View
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi

log = logger(__name__)

PAGES_MAX: Final = 10_000
"""Of one round; a driver that goes on for longer is taken not to come to an end."""


class ReconcileOptions(Protocol):
    """Durations in seconds. max_entries: a page's size, 0 leaves it to the driver."""

    @property
    def timeout_s(self) -> float: ...
    @property
    def reconcile_sync_s(self) -> float: ...
    @property
    def max_entries(self) -> int: ...


class Reconciler:
    """Keeps the marks in `drift`, which the view shows.

    wake: called with an attachment's name when the backend's state has come to differ from its own.
    """

    def __init__(
        self,
        driver: Driver,
        view: View,
        drift: dict[str, Drift],
        attachments: Callable[[], Iterable[VolumeAttachment]],
        wake: Callable[[str], None],
        options: ReconcileOptions,
        clock: Clock,
    ) -> None:
        self._driver = driver
        self._view = view
        self._attachments = attachments
        self._wake = wake
        self._options = options
        self._clock = clock
        self._drift = drift
        self._moving: set[str] = set()
        self._asking = False
        self._moved: set[str] = set()  # while the backend was asked

    @contextlib.contextmanager
    def moving(self, name: str) -> Iterator[None]:
        """Work on this attachment: a report that was asked for before its end says nothing about it."""
        self._moving.add(name)
        try:
            yield
        finally:
            self._moving.discard(name)
            if self._asking:
                self._moved.add(name)

    def settled(self, name: str) -> None:
        """What was decided for this attachment has been done: the mark is used up."""
        self._drift.pop(name, None)

    def forget(self, name: str) -> None:
        self._drift.pop(name, None)

    async def run(self) -> None:
        """A round at once, then one each period, counted from the end of the one before."""
        while True:
            self._asking, self._moved = True, set(self._moving)
            report = await self._report()
            self._asking = False
            if report is not None:
                self._compare(report)
            await self._clock.sleep(self._options.reconcile_sync_s)

    async def _report(self) -> Report | None:
        """All pages, or None when one could not be had: then nothing is concluded."""
        report, token, seen = Report(), "", {""}
        for _ in range(PAGES_MAX):
            request = csi.ListVolumesRequest(max_entries=self._options.max_entries, starting_token=token)
            try:
                page = await self._driver.list_volumes(request, Call(self._options.timeout_s))
            except DriverError as error:
                log.error("failed to list volumes, this round is left out", error=error, starting_token=token)
                return None
            report.add(page.entries)
            token = page.next_token
            if not token:
                return report
            if token in seen:
                log.error("the driver repeats a page token, this round is left out", starting_token=token)
                return None
            seen.add(token)
        log.error("the driver comes to no end, this round is left out", pages=PAGES_MAX)
        return None

    def _compare(self, report: Report) -> None:
        """Marks what differs; attachments that moved while the backend was looking keep the mark that they had."""
        moved = self._moving | self._moved
        found = find_drift(self._view, (va for va in self._attachments() if va.metadata.name not in moved), report)
        before = dict(self._drift)
        for name in before.keys() - moved:
            del self._drift[name]
        self._drift.update(found)
        for name, drift in found.items():
            is_news = before.get(name) is not drift
            if is_news:
                log.error("the backend differs from the attachment", VolumeAttachment=name, drift=drift.value)
            if is_news or self._only_needs_confirming(name, drift):
                self._wake(name)

    def _only_needs_confirming(self, name: str, drift: Drift) -> bool:
        """True for what is published already and is to be: no back-off for that."""
        attachment = self._view.attachment(name)
        return drift is Drift.EXTRA and attachment is not None and not is_deleting(attachment)
