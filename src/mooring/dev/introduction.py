"""Judges a driver's first answers: a fault is reported with its call and the next step."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from mooring.api.names import dns_subdomain
from mooring.base.errors import ConfigError
from mooring.conform.book.identity import NEEDS
from mooring.conform.watched import WatchedDriver
from mooring.csi.capabilities import NAME_MAX, DriverInfo
from mooring.csi.driver import Call, Driver, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.session import ProbeLimits, Session
from mooring.wire.grpc.codes import Code, go_name

_NEXT_STEP: Final = {
    Driver.get_plugin_info.path: "a driver needs the Identity service of CSI",
    Driver.get_plugin_capabilities.path: "it is of the Identity service, which every driver needs whole",
    Driver.controller_get_capabilities.path: (
        "GetPluginCapabilities says CONTROLLER_SERVICE: serve the Controller service, or leave that capability out"
    ),
}

_ASKED_AGAIN: Final[tuple[Rpc[Any, Any], ...]] = (
    Driver.get_plugin_capabilities,
    Driver.controller_get_capabilities,
    Driver.group_controller_get_capabilities,
)
_LOOKED_AT: Final[tuple[Rpc[Any, Any], ...]] = (Driver.get_capacity, Driver.list_volumes, Driver.list_snapshots)
"""Calls that change nothing, and that hardly anybody would make here."""
ASK_S: Final = 10.0
LIMITS: Final = ProbeLimits(call_timeout_s=ASK_S)
"""As long as external-provisioner gives a driver to say who it is; external-attacher's second is short for somebody
who tries one out.
"""


class LastFailure:
    """The call of a client that failed last, and how. Implements `CallObserver`."""

    def __init__(self) -> None:
        self.path, self.code = "", Code.OK

    def observe(self, method: str, code: int | None, seconds: float, migrated: bool = False) -> None:
        if code != Code.OK:
            self.path, self.code = method, Code.UNKNOWN if code is None else Code(code)


async def introduced(session: Session, failure: LastFailure, *, where: str, patience_s: float) -> DriverInfo:
    """The driver's information about itself.

    failure: gets the session's calls. where: its socket. Raises ConfigError for a driver that gives no name, or a name
    that nothing can have.
    """
    try:
        async with asyncio.timeout(patience_s) as limit:
            info = await session.start()
    except TimeoutError:
        assert limit.expired()
        raise ConfigError(
            f"driver: it is there on {where}, and not ready within {patience_s:g} s: {_unready(failure)}"
        ) from None
    except DriverError as error:
        raise ConfigError(f"driver: {_failed(failure.path, error)}") from None
    if fault := name_fault(info.name):
        raise ConfigError(f"driver: GetPluginInfo says the name {info.name!r}, {fault}")
    return info


async def asked_again(client: WatchedDriver, info: DriverInfo, patience_s: float) -> None:
    """Asks for the capabilities once more, for the client's watcher alone: they must not change, nor be there
    unadvertised. Makes the calls, too, that change nothing, as far as they are advertised.
    """
    await client.connect(patience_s)
    try:
        advertised = [rpc for rpc in _LOOKED_AT if NEEDS[rpc.attribute].number in info.controller]
        for rpc in (*_ASKED_AGAIN, *advertised):
            with contextlib.suppress(DriverError):
                await client.invoke(rpc, rpc.request_type(), Call(ASK_S))
    finally:
        await client.close()


def name_fault(name: str) -> str:
    """What keeps a CSIDriver from having this name, "" for nothing. Source: Kubernetes' ValidateCSIDriverName."""
    if len(name) > NAME_MAX:
        return f"which has {len(name)} characters, and Kubernetes and CSI allow {NAME_MAX}"
    if dns_subdomain(name.lower()):
        return (
            "which has not the form of a domain's, as Kubernetes wants it: letters, digits, - and . in between, as "
            "in csi.example.com"
        )
    return ""


def _unready(failure: LastFailure) -> str:
    """Its socket is as it must be; what lacks is an answer."""
    call = failure.path.rpartition("/")[2]
    if not call:
        return "Probe says that it is not ready"
    if failure.code in (Code.DEADLINE_EXCEEDED, Code.CANCELED):
        return f"{call} gets no answer; it has to give one at once, also while the driver is not ready"
    return f"{call} fails with {go_name(failure.code)}; the driver's log may say why"


def _failed(path: str, error: DriverError) -> str:
    call = path.rpartition("/")[2] or "its introduction"
    step = _NEXT_STEP.get(path, "the driver's log may say why")
    return f"{call} fails: {error}; {step}"
