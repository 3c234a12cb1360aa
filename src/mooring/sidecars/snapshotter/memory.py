"""The memory about contents beside the caches: one record for each, which a restart may lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.base.clock import Instant

RECORDS_MAX: Final = 50_000

SECRET_GRACE_S: Final = 120.0
"""How long a deletion waits for a Secret that is gone; then it is tried without."""

FOREIGN_S: Final = 60.0
"""How long a content with another driver's class is passed over in silence, as csi-snapshotter does for ever."""

SETTLE_S: Final = 300.0
"""How long a driver has to refuse a creation until its list is believed: it need not list at once what an earlier request has made."""


class Record(msgspec.Struct, frozen=True):
    """unready_at: since when the driver has said nothing new of a snapshot that is not ready. unlisted: no question
    tells of it, so that CreateSnapshot has to. secret_gone_at: since when its Secret is missing. mark_lost: the mark of a creation may be
    off, whatever the cache shows: nobody has answered the write that removes it. deleted_at: since when its snapshot
    is deleted in the driver, which has not been asked to make it since. foreign_at: since when its class is another driver's.

    Of a creation whose handle nobody knows: nothing_made: no request under the mark can have made anything, for none was sent, or each was
    refused for sure. parameters: of the last request. refused_at: since when the driver refuses for sure what may have been carried out
    before. to_list: it has done so for long enough, and its list is to be asked.
    """

    unready_at: Instant | None = None
    unlisted: bool = False
    secret_gone_at: Instant | None = None
    mark_lost: bool = False
    deleted_at: Instant | None = None
    foreign_at: Instant | None = None
    nothing_made: bool = False
    parameters: Mapping[str, str] | None = None
    refused_at: Instant | None = None
    to_list: bool = False


_NOTHING: Final = Record()


class Memory:
    """Records by the uid of a content; of too many the oldest is given up."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def of(self, uid: str) -> Record:
        return self._records.get(uid, _NOTHING)

    def change(self, uid: str, **changes: Any) -> None:
        """Changes fields of the record; one that says nothing takes no room."""
        record = msgspec.structs.replace(self.of(uid), **changes)
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

    def note_class(self, uid: str, now: Instant, *, is_foreign: bool) -> None:
        """is_foreign: it is another driver's."""
        since = self.of(uid).foreign_at
        if is_foreign != (since is not None):
            self.change(uid, foreign_at=now if is_foreign else None)

    def foreign_left_s(self, uid: str, now: Instant) -> float:
        """How long its class being another driver's is not worth a word yet."""
        since = self.of(uid).foreign_at
        return FOREIGN_S if since is None else max(0.0, since + FOREIGN_S - now)

    def secret_is_gone(self, uid: str, now: Instant) -> bool:
        """True when its Secret has been missing for so long that a deletion goes on without."""
        since = self.of(uid).secret_gone_at
        return since is not None and now - since >= SECRET_GRACE_S

    def creation_begins(self, uid: str, parameters: Mapping[str, str]) -> bool:
        """Notes a request. Gives True where its refusal is proof that nothing was made."""
        is_first = self.of(uid).nothing_made
        self.change(uid, nothing_made=False, parameters=parameters, deleted_at=None)
        return is_first

    def creation_ended(self, uid: str, *, nothing_made: bool) -> None:
        """The outcome is known. nothing_made: the driver has nothing of this name."""
        self.change(uid, nothing_made=nothing_made, parameters=None, refused_at=None, to_list=False)

    def creation_is_open(self, uid: str, now: Instant, *, refused: bool) -> None:
        """The outcome of a request, or of one before it, is not known. refused: this one was, for sure."""
        since = self.of(uid).refused_at if refused else None
        since = now if refused and since is None else since
        self.change(uid, refused_at=since, to_list=since is not None and now - since >= SETTLE_S)

    def forget(self, uid: str) -> None:
        self._records.pop(uid, None)
