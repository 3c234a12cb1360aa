"""What happened in a life, step by step, and what broke it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """at_s: virtual time. who: the part of the world that did it."""

    at_s: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:10.4f}  {self.who:<10} {self.what}"


@dataclasses.dataclass(frozen=True, slots=True)
class Broken:
    """invariant: its short name, as planted bugs name what must find them."""

    invariant: str
    what: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what} (at {self.at_s:.4f} s)"


class Story:
    """now: the virtual time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.steps: list[Step] = []
        self._ended = False

    def tell(self, who: str, what: str) -> None:
        if not self._ended:
            self.steps.append(Step(self._now(), who, what))

    def end(self) -> None:
        """What is told from now on, while the world is taken down, is no part of it."""
        self._ended = True

    def tail(self, count: int) -> str:
        """The last steps, a line each."""
        left_out = len(self.steps) - count
        lines = [f"... {left_out} earlier steps"] if left_out > 0 else []
        return "\n".join([*lines, *map(str, self.steps[-count:])])

    def digest(self) -> str:
        """The same for the same story."""
        return hashlib.sha256("\n".join(map(str, self.steps)).encode()).hexdigest()[:16]
