"""Contents that are on their way to the API server, by the claims that they need.

No cache shows such a content yet. Its snapshot shows that the claim is needed, as long as it is there: but it may be torn away meanwhile,
and a group that is deleted speaks for its claims no more.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api.meta import Key
from mooring.base.clock import Clock
from mooring.cluster.snapshots.unanswered import UnansweredWrites, is_unanswered

LOOK_S: Final = 1.0
"""How often a claim is looked at while a content of it is on its way: one that arrives wakes it anyway."""


class ComingContents:
    """Those that this process is making, and those of which it does not know whether it has made them."""

    def __init__(self, clock: Clock) -> None:
        self._begun: Counter[Key] = Counter()
        self._unanswered: UnansweredWrites[Key] = UnansweredWrites(clock)

    @contextlib.contextmanager
    def of(self, claims: Sequence[Key]) -> Iterator[None]:
        """While a content of these claims is being made."""
        self._begun.update(claims)
        try:
            yield
        finally:
            self._begun -= Counter(claims)

    def refused(self, claims: Sequence[Key], error: Exception) -> None:
        """The creation of a content of these claims has failed: where that was no answer, it may still be carried out."""
        if is_unanswered(error):
            for claim in claims:
                self._unanswered.note(claim)

    def wait_s(self, claim: Key) -> float | None:
        """Until the next look at the claim, as long as a content of it may come; None where none does."""
        if claim in self._begun:
            return LOOK_S
        left_s = self._unanswered.wait_s(claim)
        if not left_s:
            self._unanswered.forget(claim)
            return None
        return left_s
