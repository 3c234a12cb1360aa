"""A driver over time: identified at the start, watched while it runs, identified again when it comes back.

Differs from external-attacher: it exits on every loss, noticed at the next call. Here the loss is seen when it happens,
calls are held back, and a driver that comes back with the same name, version and capabilities is carried on with.
`exit_on_loss` gives external-attacher's behaviour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mooring.base import effects
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError, MooringError
from mooring.base.log import logger
from mooring.csi.capabilities import DriverInfo
from mooring.csi.client import Client
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.metrics import CallMetrics
from mooring.csi.probe_and_identify import AGAIN_S, ProbeLimits, probe_and_identify
from mooring.wire.grpc.codes import Code

__all__ = [
    "DriverChanged",
    "DriverInfo",
    "DriverLost",
    "ProbeLimits",
    "Session",
    "carry_on",
    "exit_on_loss",
    "probe_and_identify",
    "stay_away",
]

_log = logger(__name__)

LOST_TEXT: Final = "Lost connection to CSI driver, exiting"


class DriverLost(MooringError):
    """This process has to be started anew; the text goes to /dev/termination-log."""

    def __init__(self) -> None:
        super().__init__(LOST_TEXT)


class DriverChanged(DriverLost):
    """Another driver, another version of it, or other capabilities answer at the socket now. after: None if it has no
    name.
    """

    def __init__(self, before: DriverInfo, after: DriverInfo | None) -> None:
        super().__init__()
        self.before = before
        self.after = after


def carry_on() -> bool:
    """On a loss: wait for the driver, and go on if it is unchanged."""
    return True


def stay_away() -> bool:
    """On a loss: refuse every later call, also when the driver is back."""
    return False


def exit_on_loss() -> bool:
    """On a loss: end, as the peers do."""
    raise DriverLost


class GatedDriver(Driver):
    """Passes calls on while it is open: while the driver behind the socket is known to be the one that was identified.

    It begins open. Calls that are under way when it closes are let run.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._reason: str | None = None

    @property
    def is_open(self) -> bool:
        return self._reason is None

    def close(self, reason: str) -> None:
        """New calls end at once with Unavailable and this text: nothing was sent."""
        self._reason = reason

    def open(self) -> None:
        self._reason = None

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if self._reason is not None:
            effects.note(effects.UNSENT)
            raise DriverError(Code.UNAVAILABLE, self._reason, unsent=True)
        return await self._driver.invoke(rpc, request, call)


class Session:
    """One driver, from its identification on.

    `start()` first, then `run()` for as long as the driver is used. on_loss: called once for each loss; True goes on,
    False refuses all later calls, and its exception ends run(). driver, limits, metrics: as in probe_and_identify().
    """

    def __init__(
        self,
        driver: Client,
        *,
        clock: Clock,
        limits: ProbeLimits = ProbeLimits(),  # noqa: B008
        metrics: CallMetrics | None = None,
        on_loss: Callable[[], bool] = carry_on,
    ) -> None:
        self._raw = driver
        self._gate = GatedDriver(driver)
        self._clock, self._limits, self._metrics, self._on_loss = clock, limits, metrics, on_loss
        self._on_return: list[Callable[[], None]] = []
        self._info: DriverInfo | None = None

    @property
    def driver(self) -> Driver:
        """The driver for everybody's use. While it is lost, or not identified again yet, calls end at once with
        Unavailable.
        """
        return self._gate

    @property
    def info(self) -> DriverInfo:
        """The driver's identification at the start. It is the same for the life of the session."""
        assert self._info is not None, "start() comes first"
        return self._info

    @property
    def is_up(self) -> bool:
        """True when the driver was identified and has not been lost since."""
        return self._info is not None and self._gate.is_open

    def on_return(self, handler: Callable[[], None]) -> None:
        """Calls the handler each time the driver is back, unchanged: calls that failed in its absence can be tried
        again.
        """
        self._on_return.append(handler)

    async def start(self) -> DriverInfo:
        """Identifies the driver. Raises as probe_and_identify() does."""
        assert self._info is None, "started twice"
        self._info = await self._identify()
        return self._info

    async def run(self) -> None:
        """Watches the connection until cancelled. Raises DriverChanged, and what on_loss raises; returns if on_loss
        gave up.
        """
        assert self._info is not None, "start() comes first"
        while True:
            await self._raw.lost()
            _log.warning("Lost connection to CSI driver", driver=self.info.name)
            self._gate.close("connection to the CSI driver lost, waiting for its return")
            if not self._on_loss():
                return self._gate.close("connection lost, reconnecting disabled")
            await self._until_back()
            _log.info(0, "CSI driver is back, unchanged", driver=self.info.name)
            self._gate.open()
            for handler in self._on_return:
                handler()

    async def _until_back(self) -> None:
        """Returns when the driver answers as it did at the start. Raises DriverChanged."""
        while True:
            await self._raw.reconnected()
            after = await self._identify_over_one_connection()
            if after == self._info:
                return
            if isinstance(after, DriverInfo | ConfigError):
                raise self._changed(after)
            if isinstance(after, DriverError):
                _log.error("CSI driver is back, but does not introduce itself", after)
                await self._clock.sleep(AGAIN_S)

    async def _identify_over_one_connection(self) -> DriverInfo | DriverError | ConfigError | None:
        """How the driver introduces itself, or fails to; None when the connection broke meanwhile.

        So that a driver which is replaced between two answers, or right after the last, can't pass for the one that
        gave them.
        """
        async with asyncio.TaskGroup() as group:
            loss = group.create_task(self._raw.lost(), name="csi/session/loss")
            identity = group.create_task(self._try_to_identify(), name="csi/session/identity")
            await asyncio.wait((loss, identity), return_when=asyncio.FIRST_COMPLETED)
            is_lost = loss.done()
            loss.cancel()
            identity.cancel()
        return None if is_lost else identity.result()

    async def _try_to_identify(self) -> DriverInfo | DriverError | ConfigError:
        try:
            return await self._identify()
        except (DriverError, ConfigError) as error:
            return error

    async def _identify(self) -> DriverInfo:
        return await probe_and_identify(self._raw, clock=self._clock, limits=self._limits, metrics=self._metrics)

    def _changed(self, after: DriverInfo | ConfigError) -> DriverChanged:
        new = after if isinstance(after, DriverInfo) else None
        _log.error("CSI driver changed while it was away", before=str(self._info), after=str(new))
        return DriverChanged(self.info, new)
