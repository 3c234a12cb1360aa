"""Keeps the count of volumes that a node can hold up to date: the driver is asked anew at the pace that its CSIDriver
sets.

Source: kubelet 1.36, nodeAllocatableUpdatePeriodSeconds. Differs: a count that has not changed is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.api.meta import Key
from mooring.api.storage import CSI_DRIVERS
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.queue import BackOff
from mooring.control.reasons import reason
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.node.csinode.reconcile import NodeObjects, WriteRefused
from mooring.node.drivers import CALL_S, DriverOnNode, Drivers

PERIOD_S_MIN: Final = 10
BACK_OFF: Final = BackOff(10.0, 120.0)
WORKERS: Final = 64
"""Drivers that are asked at once: one that hangs holds up no other."""


@reason("asked every {period_s} s")
class AskedEvery:
    period_s: int


@reason("its CSIDriver sets no period, or the driver is not registered")
class NotAsked:
    pass


class Allocatable:
    """One key for each driver name. told_by: what a driver says about itself on this node."""

    def __init__(
        self,
        runtime: Runtime,
        caches: Caches,
        drivers: Drivers,
        objects: NodeObjects,
        told_by: Callable[[str, csi.NodeGetInfoResponse], DriverOnNode],
    ) -> None:
        self._drivers, self._objects, self._told_by, self._clock = drivers, objects, told_by, runtime.clock
        self._asked_at: dict[str, float] = {}
        self._csi_drivers = caches.of(CSI_DRIVERS)
        self.controller: Controller[str] = Controller(
            runtime, "node-allocatable", self.reconcile, workers=WORKERS, backoff=BACK_OFF, label="driver"
        )
        self.controller.watch(self._csi_drivers, lambda change: [change.key.name])
        drivers.on_change(self._changed)

    def refresh_now(self, driver: str) -> None:
        """The count has just shown itself to be wrong."""
        self._asked_at.pop(driver, None)
        self.controller.add(driver)

    async def reconcile(self, driver: str) -> Result:
        """Raises Retry."""
        period_s = self._period_s(driver)
        registered = self._drivers.find(driver)
        if not period_s or registered is None:
            return Result(NotAsked())
        due_s = self._asked_at.get(driver, float("-inf")) + period_s - self._clock.now()
        if due_s > 0:
            return Result(AskedEvery(period_s), after_s=due_s)
        self._asked_at[driver] = self._clock.now()
        try:
            answer = await registered.rpc.node_get_info(csi.NodeGetInfoRequest(), Call(CALL_S))
            await self._objects.refresh(self._told_by(driver, answer))
        except (DriverError, WriteRefused) as error:
            raise Retry(f"the count of volumes that the node can hold is not up to date: {error}") from None
        return Result(AskedEvery(period_s), after_s=period_s)

    def _changed(self, driver: str) -> None:
        if self._drivers.find(driver) is not None:
            self._asked_at[driver] = self._clock.now()  # it was asked at its registration
        else:
            self._asked_at.pop(driver, None)
        self.controller.add(driver)

    def _period_s(self, driver: str) -> int:
        found = self._csi_drivers.store.get(Key("", driver))
        period_s = found.spec.node_allocatable_update_period_seconds if found is not None else None
        return period_s if period_s is not None and period_s >= PERIOD_S_MIN else 0
