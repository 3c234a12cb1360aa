"""What is remembered of contents beside the caches: one record for each, which a restart may lose."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from mooring.base.clock import Instant

RECORDS_MAX: Final = 50_000

SECRET_GRACE_S: Final = 120.0
"""How long a deletion waits for a Secret that is gone; then it is tried without."""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """unready_at: since when the driver has said nothing new of a snapshot that is not ready. unlisted: no question
    tells of it, so that CreateSnapshot has to. secret_gone_at: since when its Secret is missing. mark_lost: the mark of a creation may be
    off, whatever the cache shows: nobody has answered the write that removes it. deleted_at: since when its snapshot
    is deleted in the driver.
    """

    unready_at: Instant | None = None
    unlisted: bool = False
    secret_gone_at: Instant | None = None
    mark_lost: bool = False
    deleted_at: Instant | None = None


_NOTHING: Final = Record()


class Memory:
    """Records by the uid of a content; of too many the oldest is given up."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def of(self, uid: str) -> Record:
        return self._records.get(uid, _NOTHING)

    def change(self, uid: str, **changes: Any) -> None:
        """Changes fields of the record; one that says nothing takes no room."""
        record = dataclasses.replace(self.of(uid), **changes)
        if record == _NOTHING:
            self.forget(uid)
            return
        if uid not in self._records and len(self._records) >= RECORDS_MAX:
            del self._records[next(iter(self._records))]
        self._records[uid] = record

    def waited_s(self, uid: str, now: Instant, *, news: bool) -> float:
        """For how long the driver has said nothing new of a snapshot that is not ready. news: it has, just now."""
        since = self.of(uid).unready_at
        if since is None or news:
            self.change(uid, unready_at=now)
            return 0.0
        return now - since

    def secret_is_gone(self, uid: str, now: Instant) -> bool:
        """True when its Secret has been missing for so long that a deletion goes on without."""
        since = self.of(uid).secret_gone_at
        return since is not None and now - since >= SECRET_GRACE_S

    def forget(self, uid: str) -> None:
        self._records.pop(uid, None)
