"""Randomness as a port: one seedable source per process, handed in, never the global one."""

import random
from typing import Final

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # what the API server draws generated names from: no vowels, no words
_UUID_MASK: Final = ~(0xF000 << 64 | 0xC000 << 48)
_UUID_4: Final = 0x4000 << 64 | 0x8000 << 48
"""RFC 9562: the bits of version and variant."""


class Random:
    """A source of random values. seed: None draws from the system; a number repeats exactly."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high]."""
        return self._random.uniform(low, high)

    def below(self, bound: int) -> int:
        """An integer in [0, bound). bound: > 0."""
        return self._random.randrange(bound)

    def happens(self, probability: float) -> bool:
        """True with this probability (0 to 1)."""
        return self._random.random() < probability

    def shuffle(self, items: list[object]) -> None:
        self._random.shuffle(items)

    def jittered(self, seconds: float, share: float) -> float:
        """seconds, moved by up to ± share of itself. share: 0 to 1."""
        assert 0 <= share <= 1
        return seconds * self._random.uniform(1 - share, 1 + share)

    def suffix(self, length: int = 5) -> str:
        """A name's random end, in the API server's alphabet."""
        return "".join(self._random.choice(_NAME_LETTERS) for _ in range(length))

    def uid(self) -> str:
        """A random UUID, version 4."""
        digits = f"{self._random.getrandbits(128) & _UUID_MASK | _UUID_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
