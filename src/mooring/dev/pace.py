"""An event loop whose time can be sped up, so that six minutes pass in seconds. Everything that waits on it waits that
much less.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any, Final

SPEEDS: Final = (1, 10, 60)


class PacedLoop(asyncio.SelectorEventLoop):
    """speed: seconds of its time in a second; 1 at first."""

    def __init__(self) -> None:
        self._speed = 1.0
        selector = _PacedSelector(self)
        super().__init__(selector)
        self._since = self._from = super().time()

    @property
    def speed(self) -> float:
        return self._speed

    def set_speed(self, speed: float) -> None:
        assert speed > 0
        self._from, self._since = self.time(), super().time()
        self._speed = speed

    def real_s(self) -> float:
        """Seconds as programs outside have them."""
        return super().time()

    def time(self) -> float:
        return self._from + (super().time() - self._since) * self._speed


class _PacedSelector(selectors.DefaultSelector):
    """Waits in real seconds for what the loop counts in its own."""

    def __init__(self, loop: PacedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        return super().select(timeout if timeout is None else timeout / self._loop.speed)
