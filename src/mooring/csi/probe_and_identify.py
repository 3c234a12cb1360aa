"""The first calls to a driver: readiness, name, capabilities.

Differs from external-attacher, which ends at the first call that is late or Unavailable and lets a restart back-off of
minutes begin: a driver that is slow at boot is asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.csi.capabilities import DRIVER_NAME, NAME_MAX, DriverInfo, rpcs, services, volume_expansions
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.metrics import CallMetrics
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

AGAIN_S: Final = 1.0
"""Seconds from the start of one attempt to that of the next, if the first has ended by then."""

SILENT_S: Final = 2.0
"""A Probe that takes longer is told while it lasts: it may take much longer, and nothing else is seen meanwhile."""

_NOT_READY_YET: Final = frozenset({Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.FAILED_PRECONDITION})

_Q = TypeVar("_Q")
_A = TypeVar("_A")


@dataclasses.dataclass(frozen=True, slots=True)
class ProbeLimits:
    """How long a driver may take to introduce itself, and as whom. Probing goes on as long as it says that it is not
    ready.

    probe_timeout_s: of one Probe. call_timeout_s: of one of the other calls. budget_s: of those together, retries
    included.
    """

    probe_timeout_s: float = 15.0
    call_timeout_s: float = 1.0
    budget_s: float = 30.0


async def probe_and_identify(
    driver: Driver, *, clock: Clock, limits: ProbeLimits = ProbeLimits(), metrics: CallMetrics | None = None
) -> DriverInfo:
    """The driver's name, version and capabilities, once it is ready.

    metrics: told the driver's name as soon as it is known. Raises DriverError, the driver's own, when it answers with a
    code that does not pass by itself, or the budget is spent; ConfigError when its name is empty.
    """
    await _until_ready(driver, clock, limits.probe_timeout_s)
    asking = _Asker(clock, limits)
    plugin = await asking.ask(driver.get_plugin_info, csi.GetPluginInfoRequest())
    if not plugin.name:
        raise ConfigError("driver name is empty")
    _warn_of_name(plugin.name)
    if metrics is not None:
        metrics.driver_name = plugin.name
    able = await asking.ask(driver.get_plugin_capabilities, csi.GetPluginCapabilitiesRequest())
    controller: frozenset[int] = frozenset()
    if csi.PluginCapability.Service.CONTROLLER_SERVICE in services(able):
        controller = rpcs(await asking.ask(driver.controller_get_capabilities, csi.ControllerGetCapabilitiesRequest()))
    return DriverInfo(plugin.name, plugin.vendor_version, services(able), volume_expansions(able), controller)


def _warn_of_name(name: str) -> None:
    """The Go sidecars work for any name, with Leases and finalizers that others may have, too."""
    if not DRIVER_NAME.fullmatch(name):
        count = f" (this one has {len(name)})" if len(name) > NAME_MAX else ""
        _log.warning(
            f"driver name {name[: 2 * NAME_MAX]!r} is not allowed by CSI: it must have 1 to {NAME_MAX} "
            f"characters{count}: letters and "
            "digits, with dashes and dots between them, as in csi.example.com; it comes from the driver's GetPluginInfo"
        )


async def _until_ready(driver: Driver, clock: Clock, timeout_s: float) -> None:
    last_reason = ""
    while True:
        started = clock.now()
        reason = await _unready(driver, timeout_s)
        if reason is None:
            return
        _log.info(4 if reason == last_reason else 0, "CSI driver is not ready", reason=reason)
        last_reason = reason
        await clock.sleep(started + AGAIN_S - clock.now())


async def _unready(driver: Driver, timeout_s: float) -> str | None:
    """The reason that the driver is not ready yet; None when it is ready. Raises DriverError for a code that does not
    pass by itself.
    """
    try:
        with _silence_told(timeout_s):
            answer = await driver.probe(csi.ProbeRequest(), Call(timeout_s))
    except DriverError as error:
        if error.code == Code.UNIMPLEMENTED:
            _log.warning("CSI driver has no Probe, it is taken as ready", err=str(error))
            return None
        if error.code in _NOT_READY_YET:
            return str(error)
        _log.error("CSI driver probe failed", error)
        raise
    return "it says so" if answer.HasField("ready") and not answer.ready.value else None


@contextlib.contextmanager
def _silence_told(timeout_s: float) -> Iterator[None]:
    text = "Waiting for the CSI driver's answer to Probe"
    timer = asyncio.get_running_loop().call_later(SILENT_S, functools.partial(_log.info, 0, text, timeout_s=timeout_s))
    try:
        yield
    finally:
        timer.cancel()


class _Asker:
    """Short calls that share one budget."""

    def __init__(self, clock: Clock, limits: ProbeLimits) -> None:
        self._clock = clock
        self._call = Call(limits.call_timeout_s)
        self._deadline = clock.now() + limits.budget_s

    async def ask(self, rpc: Callable[[_Q, Call], Awaitable[_A]], request: _Q) -> _A:
        """The answer, asked for again while the error may pass and the budget lasts. Told once. Raises DriverError."""
        verbosity = 0
        while True:
            started = self._clock.now()
            try:
                return await rpc(request, self._call)
            except DriverError as error:
                if error.final and error.code not in _NOT_READY_YET:
                    raise
                if self._clock.now() >= self._deadline:
                    raise
                what = type(request).__name__.removesuffix("Request")
                left_s = round(self._deadline - self._clock.now())
                text = f"CSI driver does not answer {what} as it should, asking again for {left_s} s"
                _log.info(verbosity, text, err=str(error), timeout_s=self._call.timeout_s)
                verbosity = 4
            await self._clock.sleep(started + AGAIN_S - self._clock.now())
