"""The memory of a controller beside the caches: one record for each claim that a call was made for, gone with it.

A restart loses it all: the last error is on the claim, too (`view.py`); a request that was refused is tried once more, before another one
can take its place.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.base.clock import Instant


class Record(msgspec.Struct, frozen=True):
    """error: the code of the driver's last answer by its Go name, "" for success, None as long as it has not answered this process.

    slow_target: the size or class that the driver holds for infeasible, not tried again before slow_until.
    secret_version: of the Secret that the driver had last; it was looked_at last. told: users heard of a problem.
    marked_from: the version of the claim that this process has written its last mark to, "" for no mark.
    """

    uid: str
    error: str | None = None
    slow_target: str = ""
    slow_until: Instant = 0.0
    secret_version: str = ""
    looked_at: Instant = 0.0
    refused_at: Instant = 0.0
    told: bool = False
    marked_from: str = ""


_NOTHING: Final = Record("")


class Memory:
    """Records by claim; a claim made anew under an old name has none."""

    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def of(self, claim: PersistentVolumeClaim) -> Record:
        """The claim's record, an empty one where there is none."""
        record = self._records.get(key_of(claim), _NOTHING)
        return record if record.uid == claim.metadata.uid else Record(claim.metadata.uid)

    def change(self, claim: PersistentVolumeClaim, **changes: Any) -> None:
        self._records[key_of(claim)] = msgspec.structs.replace(self.of(claim), **changes)

    def forget(self, key: Key) -> None:
        """The claim is gone, or has all that it asks for."""
        self._records.pop(key, None)

    def hurry(self, key: Key) -> None:
        """An infeasible request of the claim may be feasible now."""
        if key in self._records:
            self._records[key] = msgspec.structs.replace(self._records[key], slow_target="")
