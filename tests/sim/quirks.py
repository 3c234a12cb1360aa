"""Quirks of a driver: calls of one kind that always fail, or once for each name, with one code, or never end."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.wire.grpc.codes import Code
from tests.sim.backend import FOR_EVER_S, Backend, Fate

SLOW_S: Final = 4.0
"""Of the longest back-off: where it is shorter, an hour has too many tries."""
CODES: Final = tuple(code for code in Code if code is not Code.OK)


@dataclasses.dataclass(frozen=True, slots=True)
class Quirk:
    """verb: of the calls that fail. code: with which they do; None for never an answer. after: the effect comes first.

    once: for each name.
    """

    verb: str
    code: Code | None
    after: bool
    once: bool

    def fate(self, fate: Fate) -> Fate:
        """The fate of a call that would have another one."""
        if self.code is not None:
            return Fate(fate.before_s, fate.after_s, takes_effect=self.after, error=self.code)
        return Fate(fate.before_s, FOR_EVER_S) if self.after else Fate(FOR_EVER_S, takes_effect=False)


def quirks_of(randomness: Random, share: float, verbs: Sequence[str]) -> tuple[Quirk, ...]:
    """One or two, in this share of lives."""
    if not randomness.happens(share):
        return ()
    return tuple(_quirk(randomness, verbs[randomness.below(len(verbs))]) for _ in range(1 + randomness.below(2)))


def _quirk(randomness: Random, verb: str) -> Quirk:
    code = None if randomness.happens(0.1) else CODES[randomness.below(len(CODES))]
    return Quirk(verb, code, after=randomness.happens(0.5), once=randomness.happens(0.6))


class QuirkyBackend(Backend):
    """A backend whose plan has quirks. stubborn: they last.

    _asked: verb and name of the call whose fate is drawn next; it is drawn before anything is awaited.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.stubborn = True
        self._asked = "", ""
        self._struck: set[tuple[Quirk, str]] = set()

    def _fate(self) -> Fate:
        fate, (verb, name) = super()._fate(), self._asked
        for quirk in self._plan.habits.quirks if self.stubborn else ():  # type: ignore[attr-defined]
            if quirk.verb == verb and not (quirk.once and ((quirk, name) in self._struck or not self.faulty)):
                self._struck.add((quirk, name))
                return quirk.fate(fate)
        return fate

    def relent(self) -> None:
        self.stubborn = False
        super().relent()
