"""One call at a time for each volume: growing and modifying are two controllers, and two claims may have one volume."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from mooring.control.topics import Topic
from mooring.controllers.resizer.decision import call_over


class Calls:
    """tell: hears of each end of a call."""

    def __init__(self, tell: Callable[[Topic], None]) -> None:
        self._tell = tell
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
            self._tell(call_over(handle))
