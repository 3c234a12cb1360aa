"""The driver's calls: one at a time for each volume, and so many at a time in all.

CSI asks for the first, drivers answer Aborted otherwise; a flag says the second. A key that may not call yet is not
failed, has no back-off and holds no worker: it waits for the topic `call_over`, or it is put aside (`wait`), called up
when a slot ends, and decided anew.

    a key is           because                                       and becomes
    waiting            its volume, or every call, is taken           called up, when a slot ends and it is next
    called up          it is in the work queue again                 in its slot (begin); or waiting, or nothing, and
                                                                     the next is called up
    in its slot        it has its volume and a call                  without call (call_over): its volume only; done,
                                                                     at the end

One is called up for each slot that ends; of those that wait for the volume the first by rank, else the first that waits
for any call. So thousands that wait for a few slots are not all judged anew at each end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from mooring.control.topics import Topic

K = TypeVar("K", bound=Hashable)

Wanted: TypeAlias = str | None
"""A key waits for a volume, by its handle, or (None) for a call for whatever volume."""


def call_over(volume_handle: str) -> Topic:
    """The topic that the driver's call about a volume is over."""
    return f"call/{volume_handle}"


class CallSlots(Generic[K]):
    """tell: called with the topic of a call that ends. calls_max: calls at a time. call_up: puts a key into its queue.

    rank: the least goes first among those who wait for one volume.
    """

    def __init__(
        self,
        tell: Callable[[Topic], None],
        *,
        calls_max: float = math.inf,
        call_up: Callable[[K], None] = lambda key: None,
        rank: Callable[[K], Any] = lambda key: 0,
    ) -> None:
        assert calls_max > 0
        self._tell, self._calls_max, self._call_up, self._rank = tell, calls_max, call_up, rank
        self._in_flight: dict[str, K] = {}
        self._calling: set[str] = set()  # volumes with a call that may still run
        self._waiting: dict[Wanted, dict[K, None]] = {}  # in order of arrival
        self._waits_for: dict[K, Wanted] = {}  # the same by key
        self._called_up: dict[K, Wanted] = {}  # what each key was called up for

    @property
    def in_flight(self) -> Mapping[str, K]:
        """The key that has the slot, by the volume's handle."""
        return self._in_flight

    @property
    def is_full(self) -> bool:
        """True when no further call may begin."""
        return len(self._calling) >= self._calls_max

    def wait(self, wanted: Wanted, key: K) -> None:
        """The key wants a slot, and the volume (or, for None, every call) is taken."""
        assert self.is_full if wanted is None else wanted in self._in_flight, "no slot would end"
        self._leave(key)
        self._waiting.setdefault(wanted, {})[key] = None
        self._waits_for[key] = wanted

    def begin(self, volume_handle: str, key: K) -> CallSlot[K]:
        """Takes the volume and a call, until the end of its `with`."""
        assert volume_handle not in self._in_flight, "two calls for one volume"
        assert not self.is_full
        self._leave(key)
        self._called_up.pop(key, None)
        self._in_flight[volume_handle] = key
        self._calling.add(volume_handle)
        return CallSlot(self, volume_handle)

    def reconciled(self, key: K) -> None:
        """A worker is done with this key: if it was called up and did not begin, the next one is called up."""
        if key in self._called_up:
            self._next(self._called_up.pop(key))

    def _leave(self, key: K) -> None:
        """The key waits no more."""
        if key not in self._waits_for:
            return
        wanted = self._waits_for.pop(key)
        waiting = self._waiting[wanted]
        del waiting[key]
        if not waiting:
            del self._waiting[wanted]

    def _call_over(self, volume_handle: str) -> None:
        if volume_handle in self._calling:
            self._calling.discard(volume_handle)
            self._next(None)

    def _end(self, volume_handle: str) -> None:
        del self._in_flight[volume_handle]
        if volume_handle in self._waiting:
            self._calling.discard(volume_handle)
            self._next(volume_handle)
        else:
            self._call_over(volume_handle)
        self._tell(call_over(volume_handle))

    def _next(self, wanted: Wanted) -> None:
        """Calls up one that waits for this volume, or else one that waits for any call."""
        if wanted in self._in_flight or wanted not in self._waiting:
            wanted = None
        if wanted not in self._waiting or (wanted is None and self.is_full):
            return
        waiting = self._waiting[wanted]
        key = next(iter(waiting)) if wanted is None else min(waiting, key=self._rank)
        self._leave(key)
        self._called_up[key] = wanted
        self._call_up(key)


class CallSlot(Generic[K]):
    """A volume and a call, until the end of the `with`."""

    def __init__(self, slots: CallSlots[K], volume_handle: str) -> None:
        self._slots, self._volume_handle = slots, volume_handle

    def call_over(self) -> None:
        """The call has ended and only writes are left: one for another volume may begin."""
        self._slots._call_over(self._volume_handle)

    def __enter__(self) -> CallSlot[K]:
        return self

    def __exit__(self, *error: object) -> None:
        self._slots._end(self._volume_handle)
