"""What an incarnation of the attacher must know from the answers that it got, so that it does not do a thing twice.

Knowledge is lost where the world can have changed: with each new call, with each publication that somebody took away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.sim.truth import Attachment

Pair = tuple[str, str]
"""Volume handle, node id."""
_Known = tuple[int, Pair]
"""Number of the incarnation, and what it knows about."""


class Knowledge:
    """removed: how often a publication was taken away by somebody else, by pair."""

    def __init__(self, removed: Counter[Pair]) -> None:
        self._removed = removed
        self._answered: set[_Known] = set()  # the last call was a publish that worked
        self._attached: dict[_Known, int] = {}  # and the success is written; with the count of removals then
        self._attached_before: set[_Known] = set()  # before the call that is in flight
        self._detached: set[_Known] = set()

    def is_attached(self, process: int, pair: Pair) -> bool:
        return self._attached.get((process, pair)) == self._removed[pair]

    def is_detached(self, process: int, pair: Pair) -> bool:
        return (process, pair) in self._detached

    def publish_begins(self, process: int, pair: Pair) -> None:
        if self._forgets(process, pair):
            self._attached_before.add((process, pair))

    def unpublish_begins(self, process: int, pair: Pair) -> None:
        self._forgets(process, pair)
        self._attached_before.discard((process, pair))

    def published(self, process: int, pair: Pair, attachments: Iterable[Attachment]) -> None:
        """The answer to a publish is here. attachments: of this pair; where one shows success already, nothing is left
        to write.
        """
        self._answered.add((process, pair))
        if any(map(_shows_success, attachments)) and (process, pair) in self._attached_before:
            self._attached[process, pair] = self._removed[pair]

    def written(self, process: int, before: Attachment, after: Attachment | None) -> None:
        """The answer to a write to an attachment is here. after: None when that ended it."""
        if after is None or not after.held:
            if before.held:
                self._detached.add((process, before.pair))
        elif _shows_success(after) and (process, after.pair) in self._answered:
            self._attached[process, after.pair] = self._removed[after.pair]

    def forget(self) -> None:
        """The API server does not know what was written to it."""
        self._answered.clear()
        self._attached.clear()
        self._attached_before.clear()
        self._detached.clear()

    def _forgets(self, process: int, pair: Pair) -> bool:
        """Returns True if it was known to be attached."""
        self._detached.discard((process, pair))
        self._answered.discard((process, pair))
        return self._attached.pop((process, pair), None) is not None


def _shows_success(attachment: Attachment) -> bool:
    return attachment.attached and attachment.whole.status.attach_error is None
