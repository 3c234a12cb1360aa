"""Upstream's livenessprobe by its flags and exit codes. Its door: `cli/livenessprobe.py`.

The health server opens once the driver has told its name, as upstream's does. Where there is no connection to the
driver it opens all the same after `PATIENCE_S`, and answers 500 with the reason in place of a refused connection; to
the kubelet both are a failed probe.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.clock import LoopClock
from mooring.base.diagnostics import HEALTHZ, Diagnostics, Reply, Route, split_address
from mooring.base.errors import ConfigError, first_of
from mooring.base.flagkinds import DURATION, STRING
from mooring.base.flags import Former, Parsed, Section, flag
from mooring.base.log import logger
from mooring.base.stopping import unless_stopped
from mooring.cli.limits import check_positive
from mooring.cli.process import Command, Setup, run_command
from mooring.cli.tables import REMOVED, AddressFlags, DropInFlags, ProcessFlags
from mooring.csi.address import socket_path

if TYPE_CHECKING:
    from mooring.sidecars.livenessprobe.probe import Prober

_log = logger(__name__)

PORT: Final = "9808"
PATIENCE_S: Final = 2.0
"""A driver that starts with its probe is there by then."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeFlags(ProcessFlags, DropInFlags, AddressFlags):
    """livenessprobe's flags."""

    probe_timeout_s: float = flag(
        "probe-timeout", DURATION, 3.0, "How long the driver may take to be connected and to answer."
    )
    health_port: str = flag(
        "health-port", STRING, PORT, "(deprecated) The port of /healthz on all addresses.", Section.DIAGNOSTICS
    )
    http_endpoint: str = flag(
        "http-endpoint",
        STRING,
        "",
        "Where /healthz and metrics are served, in place of the port (example: :9808).",
        Section.DIAGNOSTICS,
    )
    metrics_address: str = flag(
        "metrics-address", STRING, "", "(deprecated) A server of its own for metrics.", Section.DIAGNOSTICS
    )
    metrics_path: str = flag("metrics-path", STRING, "/metrics", "The HTTP path of the metrics.", Section.DIAGNOSTICS)


def run(argv: Sequence[str], prog: str) -> int:
    """Runs until it is told to end; gives the exit code. A driver that fails does not end it."""
    return run_command(COMMAND, argv, prog, _serve)


def check(parsed: Parsed[ProbeFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    flags = parsed.flags
    if flags.http_endpoint and flags.health_port != PORT:
        raise ConfigError(
            "only one of `--health-port` and `--http-endpoint` can be set; health-port is deprecated, drop it"
        )
    if flags.http_endpoint and flags.metrics_address:
        raise ConfigError(
            "only one of `--metrics-address` and `--http-endpoint` can be set; metrics-address is deprecated, drop it"
        )
    for name, address in (("http-endpoint", flags.http_endpoint), ("metrics-address", flags.metrics_address)):
        if address:
            _check_address(name, address)
    _check_address("health-port", f"0.0.0.0:{flags.health_port}")
    if not flags.metrics_path.startswith("/"):
        raise ConfigError(f'metrics-path: "{flags.metrics_path}" must begin with /, as in /metrics')
    check_positive({"probe-timeout": flags.probe_timeout_s}, "3s")
    socket_path(flags.csi_address)


def _check_address(name: str, address: str) -> None:
    try:
        split_address(address)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


COMMAND: Final[Command[ProbeFlags]] = Command(
    ProbeFlags,
    removed={**REMOVED, "connection_timeout": Former(True, now="--probe-timeout={}")},
    check=check,
    about="Answers the kubelet's liveness probes for one CSI driver, in the place of livenessprobe: in a pod, beside "
    "the driver.",
    example="livenessprobe --csi-address=/csi/csi.sock --http-endpoint=:9808",
    drop_in=True,
)


def _serve(setup: Setup[ProbeFlags]) -> int:
    from mooring.csi.errors import DriverError  # here, so that --version and --help need not load gRPC

    try:
        asyncio.run(unless_stopped(_live(setup.flags)))
    except DriverError as error:
        _log.error("CSI driver does not introduce itself", error=error)
        return 1
    return 0


async def _live(flags: ProbeFlags) -> None:
    """Raises ConfigError, and DriverError for a driver that does not tell its name."""
    from mooring.csi.call_counts import CallCounts
    from mooring.sidecars.livenessprobe.probe import CONTENT_TYPE, Prober, metrics_page, process_started_s

    clock, calls, started_s = LoopClock(), CallCounts(), process_started_s()
    prober = Prober(flags.csi_address, clock=clock, timeout_s=flags.probe_timeout_s, metrics=calls)

    async def live() -> Reply:
        return Reply(*await prober.health())

    async def page() -> Reply:
        return Reply(200, metrics_page(calls, started_s), CONTENT_TYPE)

    servers = _Servers(flags, live, page)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_open_unconnected(clock, prober, servers), name="livenessprobe/open")
            calls.driver_name = await prober.introduce()
            _log.info(0, "CSI driver name", driver=calls.driver_name)
            await servers.open()
            await asyncio.get_running_loop().create_future()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from None
    finally:
        await servers.close()
        await prober.close()


async def _open_unconnected(clock: LoopClock, prober: Prober, servers: _Servers) -> None:
    """Opens where the driver lets us wait for its socket; while it is connected and only its name is missing, nothing
    is open.
    """
    await clock.sleep(PATIENCE_S)
    if not prober.is_connected:
        await servers.open()


class _Servers:
    """The health server, and a second one where metrics have an address of their own."""

    def __init__(self, flags: ProbeFlags, live: Route, page: Route) -> None:
        self._servers: list[tuple[str, Diagnostics]] = []
        self._opening = asyncio.Lock()
        self._is_open = False
        routes: dict[str, Route] = {HEALTHZ: live}
        if flags.http_endpoint:
            routes[flags.metrics_path] = page
        self._servers.append(
            (flags.http_endpoint or f"0.0.0.0:{flags.health_port}", Diagnostics(routes, any_method=True))
        )
        if flags.metrics_address:
            self._servers.append((flags.metrics_address, Diagnostics({flags.metrics_path: page})))

    async def open(self) -> None:
        """Listens; harmless twice. Raises ConfigError."""
        async with self._opening:
            if self._is_open:
                return
            for address, server in self._servers:
                await server.start(address)
            self._is_open = True

    async def close(self) -> None:
        for _, server in self._servers:
            await server.close()
