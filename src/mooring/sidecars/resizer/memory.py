"""The memory of a controller beside the caches: one record for each claim that a call was made for, gone with it; and the calls under way.

A restart loses it all: the last error is on the claim, too (`view.py`); a request that was refused is tried once more, before another one
can take its place.

One call at a time for each volume: growing and modifying are two controllers, and two claims may have one volume.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.base.clock import Instant
from mooring.control.topics import Topic


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """error: the code of the driver's last answer by its Go name, "" for success, None as long as it has not answered this process.

    slow_target: the size or class that the driver holds for infeasible, not tried again before slow_until.
    secret_version: of the Secret that the driver had last; it was looked_at last.
    told: the last problem that users heard of, and told_at.
    """

    uid: str
    error: str | None = None
    slow_target: str = ""
    slow_until: Instant = 0.0
    secret_version: str = ""
    looked_at: Instant = 0.0
    refused_at: Instant = 0.0
    told: str = ""
    told_at: Instant = 0.0


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
        self._records[key_of(claim)] = dataclasses.replace(self.of(claim), **changes)

    def forget(self, key: Key) -> None:
        """The claim is gone, or has all that it asks for."""
        self._records.pop(key, None)

    def hurry(self, key: Key) -> None:
        """An infeasible request of the claim may be feasible now."""
        if key in self._records:
            self._records[key] = dataclasses.replace(self._records[key], slow_target="")


def call_over(handle: str) -> Topic:
    """The driver's call about a volume is over."""
    return f"call/{handle}"


class Calls:
    """tells: who hears of each end of a call."""

    def __init__(self, tells: Sequence[Callable[[Topic], None]]) -> None:
        self._tells = tells
        self._in_flight: dict[str, str] = {}

    @property
    def in_flight(self) -> Mapping[str, str]:
        """By volume handle, the work that calls the driver about it, as text."""
        return self._in_flight

    @contextlib.contextmanager
    def begin(self, handle: str, work: str) -> Iterator[None]:
        """The volume is this work's until the end of the `with`. handle: "" for no call."""
        if not handle:
            yield
            return
        assert handle not in self._in_flight, "two calls for one volume"
        self._in_flight[handle] = work
        try:
            yield
        finally:
            del self._in_flight[handle]
            for tell in self._tells:
                tell(call_over(handle))
