"""Tells users about failures of snapshots, by Events and in the status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.api.meta import Key, key_of
from mooring.api.snapshot_kinds import Row, Snapshot
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.cluster.snapshots.decision import Failure
from mooring.cluster.snapshots.objects import as_json, reference_of
from mooring.cluster.snapshots.reconcile import Reconciler
from mooring.cluster.snapshots.view import View
from mooring.control.decision import Failed
from mooring.control.events import EventOnce, EventRecorder
from mooring.control.result import Retry, Stale

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024
"""The longest message of a status: the API server takes more, and an Event shows no more."""


class Telling:
    """Tells users about failures of the snapshots of one kind."""

    def __init__(self, row: Row, view: View, reconciler: Reconciler, events: EventRecorder, clock: Clock) -> None:
        self._row, self._view, self._reconciler, self._clock = row, view, reconciler, clock
        self._once = EventOnce(events, clock)

    def forget(self, uid: str) -> None:
        """The snapshot is gone."""
        self._once.forget(uid)

    async def show(self, key: Key, failure: Failure) -> bool:
        """Tell the failure by an Event and, if it is to be saved, in the status. Each process tells one failure once,
        since the process that wrote the status may have died before its Event was sent. Return False for a failure that
        the status showed before. Raises Retry, after telling, where the status could not be written.
        """
        snapshot: Snapshot | None = self._view.of(self._row).get(key)
        if snapshot is None:
            return False
        uid, text, is_new, refused = snapshot.metadata.uid, shortened(failure.error, ERROR_BYTES_MAX), True, None
        if failure.saved:
            status = as_json(snapshot.status) or {}
            is_new = not _is_told(status, text, unready=failure.unready)
            if is_new:
                refused = await self._save_error(snapshot, status, text, unready=failure.unready)
            elif self._once.left_s(uid, text, failure.event) > 0:
                return False
        for reason, message in ((failure.event, text), *((failure.also,) if failure.also else ())):
            self._once.tell(reference_of(snapshot), reason, message, about=reason, anew=True)
        if refused is not None:
            raise Retry(str(refused)) from refused
        return is_new

    async def _save_error(
        self, snapshot: Snapshot, status: Mapping[str, Any], text: str, *, unready: bool
    ) -> Failed | None:
        """Write the error to the status. Return the API server's refusal, after which the write has to be tried again;
        None where it is done, or the snapshot has changed, which wakes its key.
        """
        error = {"time": rfc3339(self._clock.wall_s()), "message": text}
        shown = {**status, "error": error, **({"readyToUse": False} if unready else {})}
        try:
            await self._reconciler.save_status(snapshot, shown)
        except (Failed, Stale) as problem:
            log.error(
                "could not save the error in the status",
                error=problem,
                **{self._row.snapshots.name: str(key_of(snapshot))},
            )
            return problem if isinstance(problem, Failed) else None
        return None


def _is_told(status: Mapping[str, Any], text: str, *, unready: bool) -> bool:
    """True when the status says this already."""
    same = (status.get("error") or {}).get("message") == text
    return same and (not unready or status.get("readyToUse") is False)
