"""Takes drivers off the node that nobody registers any more: entries from before the agent's start, or that could not be taken off in time.

The scheduler and the provisioner believe what CSINode says: a driver that will not come back would have pods and volumes placed where
nobody can mount them. Differs from a kubelet, which leaves such an entry for good.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.reasons import reason
from mooring.control.result import Because, Result, Retry
from mooring.control.runtime import Runtime
from mooring.node.csinode.decision import Refused
from mooring.node.csinode.reconcile import NodeObjects
from mooring.node.plugins.drivers import Drivers

_log = logger(__name__)

GRACE_S: Final = 120.0
"""For drivers that start with the node, some of them after their image was fetched."""
LOOK_S: Final = 300.0
"""Between two looks at a CSINode that is as it should be: others write to it, too."""


@reason("each of its drivers is registered")
class AllRegistered:
    pass


@reason("waits for the registration of {drivers}")
class SomeAwaited:
    drivers: str


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """stale: drivers to take off. missing: since when each that is entered has not been registered. after_s: when to look again."""

    because: Because
    stale: tuple[str, ...]
    missing: Mapping[str, Instant]
    after_s: float


def decide_stale(
    entered: Iterable[str], is_there: Callable[[str], bool], missing: Mapping[str, Instant], now: Instant, grace_s: float
) -> Decision:
    """entered: the drivers that CSINode names. is_there: registered, or about to be. missing: as the last decision had it."""
    since = {name: missing.get(name, now) for name in entered if not is_there(name)}
    stale = tuple(sorted(name for name, instant in since.items() if now - instant >= grace_s))
    awaited = {name: instant for name, instant in since.items() if name not in stale}
    if not awaited:
        return Decision(AllRegistered(), stale, since, LOOK_S)
    return Decision(SomeAwaited(", ".join(sorted(awaited))), stale, since, min(awaited.values()) + grace_s - now)


class StaleEntries:
    """One key, the node's name, from `start` on. is_there: whether a driver is registered, or about to be."""

    def __init__(
        self, runtime: Runtime, node_name: str, drivers: Drivers, objects: NodeObjects, is_there: Callable[[str], bool], grace_s: float
    ) -> None:
        assert grace_s > 0
        self._clock, self._objects, self._name = runtime.clock, objects, node_name
        self._is_there, self._grace_s = is_there, grace_s
        self._missing: dict[str, Instant] = {}
        self.controller: Controller[str] = Controller(runtime, "node-stale-drivers", self.reconcile, workers=1, label="node", log=_log)
        drivers.on_change(self._changed)

    def start(self) -> None:
        """Sockets are looked for from now on: whatever is not registered has its time to come."""
        self.controller.add(self._name)

    async def reconcile(self, _: str) -> Result:
        """Raises ApiError, Retry."""
        entered = await self._objects.entered()
        decision = decide_stale(entered, self._is_there, self._missing, self._clock.now(), self._grace_s)
        self._missing = dict(decision.missing)
        for name in decision.stale:
            await self._take_off(name)
        return Result(decision.because, after_s=decision.after_s)

    async def _take_off(self, name: str) -> None:
        if self._is_there(name):
            return
        _log.warning("Nobody registers this driver any more: its entry in CSINode is removed", driver=name, node=self._name)
        try:
            await self._objects.take_off(name)  # the lock serves in order: a registration that begins now enters the driver again
        except Refused as error:
            raise Retry(f"the driver {name} could not be taken off Node and CSINode: {error}") from None

    def _changed(self, driver: str) -> None:
        self._missing.pop(driver, None)
        self.controller.add(self._name)
