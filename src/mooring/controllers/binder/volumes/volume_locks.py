"""The locks of volumes: held by a claim that is being bound to them, or by their own reconcile. One at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from mooring.api.meta import Key
from mooring.control.topics import Topic


def unlocked(pv_name: str) -> Topic:
    """Told when a volume is unlocked."""
    return f"unlocked/{pv_name}"


class VolumeLocks:
    """Volumes by name. tell: called with the topic of each volume that is unlocked."""

    def __init__(self, tell: Callable[[Topic], None]) -> None:
        self.taken: dict[str, Key] = {}
        """Volume → the claim that it is being bound to."""
        self._locked: set[str] = set()
        self._tell = tell

    def is_locked(self, pv_name: str) -> bool:
        return pv_name in self._locked

    @contextlib.contextmanager
    def lock(self, pv_name: str, claim: Key | None = None) -> Iterator[None]:
        """Holds the lock for the block. claim: to which the volume is being bound."""
        assert pv_name not in self._locked, "who finds it locked waits for its topic"
        self._locked.add(pv_name)
        if claim is not None:
            self.taken[pv_name] = claim
        try:
            yield
        finally:
            self._locked.discard(pv_name)
            self.taken.pop(pv_name, None)
            self._tell(unlocked(pv_name))
