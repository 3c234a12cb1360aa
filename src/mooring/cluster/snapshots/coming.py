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
from mooring.base.clock import Clock, Instant
from mooring.control.decision import Failed
from mooring.kube.errors import LATE_S, ServerError, Unreachable

LOOK_S: Final = 1.0
"""How often a claim is looked at while a content of it is on its way: one that arrives wakes it anyway."""

CLAIMS_MAX: Final = 20_000
"""Claims of which a creation that was not answered is remembered."""


class ComingContents:
    """Those that this process is making, and those of which it does not know whether it has made them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: Counter[Key] = Counter()
        self._until: dict[Key, Instant] = {}

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
        if not is_unanswered(error):
            return
        for claim in claims:
            if claim not in self._until and len(self._until) >= CLAIMS_MAX:
                del self._until[next(iter(self._until))]
            self._until[claim] = self._clock.now() + LATE_S

    def wait_s(self, claim: Key) -> float | None:
        """Until the next look at the claim, as long as a content of it may come; None where none does."""
        if claim in self._begun:
            return LOOK_S
        until = self._until.get(claim)
        if until is not None and until <= self._clock.now():
            del self._until[claim]
            return None
        return None if until is None else until - self._clock.now()


def is_unanswered(error: Exception) -> bool:
    """True for a write that may still be carried out. An answer that is a refusal says that nothing was written."""
    return isinstance(error, Unreachable | ServerError) or (isinstance(error, Failed) and error.is_unanswered)
