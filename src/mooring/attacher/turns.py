"""One call at a time for each volume: CSI asks for it, and drivers answer Aborted otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping


class VolumeTurns:
    """Who has which volume for its calls, and who waits. A wait is no failure: it has no back-off, and ends with the other's turn.

    wake: called with the names that waited once a turn ends, in the order in which they are to try.
    """

    def __init__(self, wake: Callable[[Iterable[str]], None]) -> None:
        self._wake = wake
        self._in_flight: dict[str, str] = {}
        self._waiting: dict[str, set[str]] = {}

    @property
    def in_flight(self) -> Mapping[str, str]:
        """Volume handle → name of the attachment whose turn it is."""
        return self._in_flight

    def wait(self, volume_handle: str, name: str) -> None:
        """This attachment wants the volume next."""
        assert volume_handle in self._in_flight, "nobody's turn would end"
        self._waiting.setdefault(volume_handle, set()).add(name)

    @contextlib.contextmanager
    def turn(self, volume_handle: str, name: str) -> Iterator[None]:
        """Keeps the volume for this attachment; "" is no volume and nobody's."""
        if not volume_handle:
            yield
            return
        assert volume_handle not in self._in_flight, "two calls for one volume"
        self._in_flight[volume_handle] = name
        try:
            yield
        finally:
            del self._in_flight[volume_handle]
            self._wake(self._waiting.pop(volume_handle, ()))
