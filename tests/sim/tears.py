"""Attachments that were torn away, finalizer and all: what an attacher can know of it, and what it has to put right.

One that said it was attached is detached by hand, by whoever tore it away. Else whoever published it has to take that
back, as long as it lives: what may have been published is known to nobody else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from tests.sim.backend import Backend
from tests.sim.knowledge import Pair
from tests.sim.truth import Attachment, Truth

PLURAL: Final = "volumeattachments"
KNOWN_S: Final = 3.0
"""How long after it was shown as attached a publish counts as settled: the key has been looked at by then."""
GRACE_S: Final = 10.0
"""How long what was decided on an earlier state may be on its way: a secret, a claim and a call, each of them slow."""


@dataclasses.dataclass(slots=True)
class Tear:
    """The last one of a volume. version: of its end in the API server. shown_at: when the attacher's watch told of
    it.
    """

    version: int
    shown_at: float | None = None


class Tears:
    """now: the virtual time. living: the number of the newest incarnation."""

    def __init__(self, truth: Truth, backend: Backend, now: Callable[[], float]) -> None:
        self._truth, self._backend, self._now = truth, backend, now
        self.living = 0
        self._tears: dict[str, Tear] = {}
        self._publishers: dict[Pair, int] = {}  # who called last
        self._by_hand: set[Pair] = set()
        self._was_set_back = False
        self._attached: dict[
            str, tuple[int, float]
        ] = {}  # uid → the incarnation that was shown it as attached, and when
        self._settled: dict[Pair, int] = {}  # torn away, and known to have been attached to this incarnation

    def __contains__(self, handle: object) -> bool:
        """True for a volume that an attachment was ever torn away from."""
        return handle in self._tears

    def __bool__(self) -> bool:
        return bool(self._tears)

    def torn(self, found: Attachment) -> None:
        """Somebody has torn it away. What a restored server shows of it may be of before it was attached."""
        if found.attached or self.may_precede_set_back(found.handle):
            self._by_hand.add(found.pair)
        self._tears[found.handle] = Tear(self._truth.newest(PLURAL))

    def settled(self, found: Attachment) -> None:
        """Somebody tears one away that was long known to be attached: its finalizers first, so that its end is no
        detach.
        """
        self._settled[found.pair] = self.living

    def was_set_back(self, version: int) -> None:
        """Everything may have been torn away, or be back again."""
        self._was_set_back = True
        self._attached.clear()
        self._settled.clear()
        self._tears = {handle: Tear(version) for handle in self._backend.published}

    def may_precede_set_back(self, handle: str) -> bool:
        """True while what an attacher does about the volume may have been decided before the server was set back."""
        return self._was_set_back and self.excuse(handle)

    def left_behind(self, pair: Pair) -> None:
        """By an attachment that is not in the backup: whoever sets the server back looks after it."""
        self._by_hand.add(pair)

    def publishes(self, process: int, pair: Pair) -> None:
        self._publishers[pair] = process
        self._settled.pop(pair, None)
        for found in self._truth.attachments():
            if found.pair == pair:
                self._attached.pop(found.uid, None)  # what comes of this call is another question

    def begins(self, number: int, version: int) -> None:
        """An incarnation begins that has been shown the kind up to this version."""
        self.living = number
        self.shown(PLURAL, version)

    def shown(self, plural: str, version: int) -> None:
        """The attacher has been shown the kind up to this version."""
        if plural == PLURAL:
            self._has_seen(version)
        for tear in self._tears.values():
            if plural == PLURAL and tear.shown_at is None and tear.version <= version:
                tear.shown_at = self._now()

    def _has_seen(self, version: int) -> None:
        for found in self._truth.attachments():
            is_shown = found.attached and int(found.whole.metadata.resource_version) <= version
            if is_shown and self._attached.get(found.uid, (0, 0.0))[0] != self.living:
                self._attached[found.uid] = self.living, self._now()

    def was_shown(self, found: Attachment) -> bool:
        """True for one that has long been shown to this incarnation as attached, after its last call."""
        living, shown_at = self._attached.get(found.uid, (0, 0.0))
        return found.attached and living == self.living and self._now() > shown_at + KNOWN_S

    def is_settled(self, process: int, pair: Pair) -> bool:
        """True for what was torn away when this incarnation had known for long that it was attached."""
        return self._settled.get(pair) == process

    def excuse(self, handle: str) -> bool:
        """True while the attacher may not know of it, or may still be at something that it began before."""
        tear = self._tears.get(handle)
        return tear is not None and (tear.shown_at is None or self._now() < tear.shown_at + GRACE_S)

    def left_to_hands(self) -> set[Pair]:
        """Published, and no attacher has to detach it: it was attached, or who published it is dead, and with it what
        it knew.
        """
        pairs = {(handle, node_id) for handle in self._tears for node_id in self._backend.published[handle]}
        return {pair for pair in pairs if pair in self._by_hand or self._publishers.get(pair) != self.living}
