"""Keeps CSINode true to the registered drivers: removes entries that nobody registers any more, and restores lost ones.

An entry to remove is from before the agent's start, or could not be removed in time. A lost entry was removed by
somebody else, or by a write of the agent's that it had given up, and that was carried out after the driver had come
back.

The scheduler and the provisioner trust CSINode: for a driver that will not come back they would place pods and volumes
where nobody can mount them, and for a driver that is not named they place none. Differs from a kubelet, which leaves
both for good.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.decision import Decision
from mooring.control.reasons import reason
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.kube.errors import LATE_S, ApiError
from mooring.node.csinode.reconcile import NodeObjects, WriteRefused
from mooring.node.drivers import Drivers

_log = logger(__name__)

GRACE_S: Final = 120.0
"""How long drivers have to register that start with the node, some of them after their image was fetched."""
LOOK_S: Final = 300.0
"""Seconds between two looks at a CSINode that is as it should be: others write to it, too."""
SETTLED_S: Final = LATE_S + 5.0
"""Seconds after a change, by which a write that was given up is carried out or refused."""


@reason("its drivers are those that are registered")
class AllRegistered:
    pass


@reason("waits for the registration of {drivers}")
class SomeAwaited:
    drivers: str


class TakeOff(msgspec.Struct, frozen=True):
    """Nobody registers the driver any more."""

    driver: str


class EnterAgain(msgspec.Struct, frozen=True):
    """The driver is registered, and has lost its entry."""

    driver: str


def missing_since(
    entered: Collection[str], is_there: Callable[[str], bool], missing: Mapping[str, Instant], now: Instant
) -> Mapping[str, Instant]:
    """Since when each driver that is entered has not been registered. missing: as it was at the last look."""
    return {name: missing.get(name, now) for name in entered if not is_there(name)}


def decide_entries(
    entered: Collection[str], registered: Iterable[str], missing: Mapping[str, Instant], now: Instant, grace_s: float
) -> Decision[TakeOff | EnterAgain]:
    """entered: the drivers that CSINode names. missing: since when those have not been registered that are not."""
    stale = [name for name, since in sorted(missing.items()) if now - since >= grace_s]
    lost = sorted(name for name in registered if name not in entered)
    actions: tuple[TakeOff | EnterAgain, ...] = (*map(TakeOff, stale), *map(EnterAgain, lost))
    awaited = {name: since for name, since in missing.items() if name not in stale}
    if not awaited:
        return Decision(AllRegistered(), actions, after_s=LOOK_S)
    return Decision(SomeAwaited(", ".join(sorted(awaited))), actions, after_s=min(awaited.values()) + grace_s - now)


class Entries:
    """One key, the node's name, from `start` on.

    is_there: whether a driver is registered, or about to be. enter: a registered driver, as it was at first; raises
    ApiError, Refused.
    """

    def __init__(
        self,
        runtime: Runtime,
        node_name: str,
        drivers: Drivers,
        objects: NodeObjects,
        is_there: Callable[[str], bool],
        enter: Callable[[str], Awaitable[None]],
        grace_s: float,
    ) -> None:
        assert grace_s > 0
        self._clock, self._objects, self._name, self._drivers = runtime.clock, objects, node_name, drivers
        self._is_there, self._enter, self._grace_s = is_there, enter, grace_s
        self._settled_at: Instant = 0.0
        self._missing: dict[str, Instant] = {}
        self.controller: Controller[str] = Controller(
            runtime, "node-csinode", self.reconcile, workers=1, label="node", log=_log
        )
        drivers.on_change(self._changed)

    def start(self) -> None:
        """Sockets are looked for from now on: whatever is not registered has its time to come."""
        self.controller.add(self._name)

    async def reconcile(self, _: str) -> Result:
        """Raises ApiError, Retry."""
        entered = await self._objects.entered()
        now = self._clock.now()
        self._missing = dict(missing_since(entered, self._is_there, self._missing, now))
        decision = decide_entries(entered, (driver.name for driver in self._drivers), self._missing, now, self._grace_s)
        for action in decision.actions:
            await (self._take_off(action.driver) if isinstance(action, TakeOff) else self._enter_again(action.driver))
        assert decision.after_s is not None
        settles_s = self._settled_at - self._clock.now()
        return Result(decision.because, after_s=min(decision.after_s, settles_s) if settles_s > 0 else decision.after_s)

    async def _take_off(self, name: str) -> None:
        if self._is_there(name):
            return
        _log.warning(
            "Nobody registers this driver any more: its entry in CSINode is removed", driver=name, node=self._name
        )
        try:
            await self._objects.take_off(
                name
            )  # the lock serves in order: a registration that begins now enters the driver again
        except WriteRefused as error:
            raise Retry(f"the driver {name} could not be taken off Node and CSINode: {error}") from None

    async def _enter_again(self, name: str) -> None:
        _log.warning(
            "This driver is registered, and has lost its entry in CSINode: it is entered again",
            driver=name,
            node=self._name,
        )
        try:
            await self._enter(name)
        except (ApiError, WriteRefused) as error:
            raise Retry(f"the driver {name} could not be entered at Node and CSINode: {error}") from None

    def _changed(self, driver: str) -> None:
        self._settled_at = self._clock.now() + SETTLED_S
        self._missing.pop(driver, None)
        self.controller.add(self._name)
