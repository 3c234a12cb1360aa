"""Claims that failed, and what could heal them: who is tried again at once when something changes.

Everything here comes again after its back-off anyway; a change that could heal it only ends the wait.
"""

from __future__ import annotations

from mooring.controllers.provisioner.claims.outcomes import Failure, Heals


class Waits:
    """Failures by claim uid, indexed by what could heal them."""

    def __init__(self) -> None:
        self._failures: dict[str, Failure] = {}
        self._by_change: dict[Heals, dict[str, None]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._failures

    def put(self, uid: str, failure: Failure) -> None:
        """This claim has failed; what it failed of before counts no more."""
        self.drop(uid)
        self._failures[uid] = failure
        for heals in failure.heals:
            self._by_change.setdefault(heals, {})[uid] = None

    def drop(self, uid: str) -> None:
        """This claim waits no more."""
        failure = self._failures.pop(uid, None)
        for heals in failure.heals if failure is not None else ():
            waiting = self._by_change[heals]
            waiting.pop(uid, None)
            if not waiting:
                del self._by_change[heals]

    def healed_by(self, heals: Heals) -> tuple[str, ...]:
        """The claims that this change could heal."""
        return tuple(self._by_change.get(heals, ()))

    def failed_of_driver(self) -> tuple[str, ...]:
        """The claims that the driver's return could heal."""
        return tuple(uid for uid, failure in self._failures.items() if failure.from_driver)
