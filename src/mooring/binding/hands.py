"""Which volumes are in somebody's hands: a claim's that is being bound, or in their own turn. One at a time; who comes later waits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator

from mooring.api.meta import Key


class Hands:
    """Volumes by name."""

    def __init__(self) -> None:
        self.taken: dict[str, Key] = {}
        """Volume → the claim that it is being bound to."""
        self._held: set[str] = set()
        self._waiting: dict[str, dict[Hashable, Callable[[], None]]] = {}

    def is_held(self, pv_name: str) -> bool:
        return pv_name in self._held

    def wait(self, pv_name: str, who: Hashable, wake: Callable[[], None]) -> None:
        """wake: called when the volume is free again; once, however often the same one waits."""
        assert pv_name in self._held, "who waits for nothing waits for ever"
        self._waiting.setdefault(pv_name, {})[who] = wake

    def has_waiting(self, who: Hashable) -> bool:
        """True for one that will be woken."""
        return any(who in waiting for waiting in self._waiting.values())

    @contextlib.contextmanager
    def hold(self, pv_name: str, claim: Key | None = None) -> Iterator[None]:
        """The volume is ours for the block. claim: to which it is being bound."""
        assert pv_name not in self._held
        self._held.add(pv_name)
        if claim is not None:
            self.taken[pv_name] = claim
        try:
            yield
        finally:
            self._held.discard(pv_name)
            self.taken.pop(pv_name, None)
            for wake in self._waiting.pop(pv_name, {}).values():
                wake()
