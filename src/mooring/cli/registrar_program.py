"""Upstream's node-driver-registrar by its flags and exit codes. Its door: `cli/registrar.py`.

Adds /readyz to the health server: 200 once the kubelet has registered the driver, else 503 and what it waits for.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mooring.base.clock import LoopClock
from mooring.base.diagnostics import HEALTHZ, READYZ, Diagnostics, Reply, Route
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, FOLDER, INT, STRING
from mooring.base.flags import Parsed, Section, flag
from mooring.base.log import logger
from mooring.base.stopping import unless_stopped
from mooring.base.watchdog import watched
from mooring.cli.limits import check_positive
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.tables import REMOVED, AddressFlags, DropInFlags, ProcessFlags

_log = logger(__name__)

OLD_PROBE: Final = "kubelet-registration-probe"
CONNECT_S_MAX: Final = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegistrarFlags(ProcessFlags, DropInFlags, AddressFlags):
    """node-driver-registrar's flags."""

    kubelet_registration_path: str = flag(
        "kubelet-registration-path",
        STRING,
        "",
        "The driver's socket as the host sees it: where the kubelet calls the driver. Required.",
    )
    plugin_registration_path: str = flag(
        "plugin-registration-path",
        FOLDER,
        "/registration",
        "The kubelet's folder plugins_registry, as it is mounted here.",
    )
    timeout_s: float = flag(
        "timeout", DURATION, 1.0, "How long the driver may take to give its name, and /healthz to ask itself."
    )
    mode: str = flag("mode", STRING, "", f"(deprecated) {OLD_PROBE} ends at once with 0; anything else has no effect.")
    http_endpoint: str = flag(
        "http-endpoint",
        STRING,
        "",
        "Where the health server listens (example: :9809). Empty: no server.",
        Section.DIAGNOSTICS,
    )
    health_port: int = flag(
        "health-port", INT, 0, "(deprecated) As http-endpoint, on all addresses.", Section.DIAGNOSTICS
    )
    enable_pprof: bool = flag(
        "enable-pprof",
        BOOL,
        False,
        "Serve /debug/pprof/ on the health server: the stacks of all tasks.",
        Section.DIAGNOSTICS,
    )
    connection_timeout_s: float = flag("connection-timeout", DURATION, 0.0, "(deprecated)", Section.COMPATIBLE)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end, or the kubelet refuses; gives the exit code."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def check(parsed: Parsed[RegistrarFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    flags = parsed.flags
    if not flags.kubelet_registration_path:
        raise ConfigError(
            "kubelet-registration-path: required, the driver's socket as the host sees it, as in "
            "/var/lib/kubelet/plugins/NAME/csi.sock"
        )
    if flags.mode == OLD_PROBE:
        return
    if flags.health_port and flags.http_endpoint:
        raise ConfigError(
            "only one of `--health-port` and `--http-endpoint` can be set; health-port is deprecated, drop it"
        )
    if not 0 <= flags.health_port <= 65535:
        raise ConfigError(f"health-port: {flags.health_port} is no port")
    check_positive({"timeout": flags.timeout_s}, "1s")
    if "connection-timeout" in parsed.given:
        _log.warning("--connection-timeout is deprecated and has no effect; remove it")


COMMAND: Final[Command[RegistrarFlags]] = Command(
    RegistrarFlags,
    removed=REMOVED,
    check=check,
    about="Registers one CSI driver with the kubelet of its node, in the place of node-driver-registrar: in a pod, "
    "beside the driver.",
    example="csi-node-driver-registrar --csi-address=/csi/csi.sock \\\n"
    "  --kubelet-registration-path=/var/lib/kubelet/plugins/my-driver/csi.sock",
    drop_in=True,
)


def _serve(setup: Setup[RegistrarFlags], machine: Machine) -> int:
    if setup.flags.mode == OLD_PROBE:
        _log.info(
            0, "The mode is deprecated and probes nothing: use /healthz or /readyz of --http-endpoint", mode=OLD_PROBE
        )
        return 0

    from mooring.csi.errors import DriverError  # here, so that --version and --help need not load gRPC

    try:
        asyncio.run(unless_stopped(_live(setup.flags, machine)))
    except DriverError as error:
        _log.error("CSI driver does not introduce itself", error=error)
        return 1
    return 0


async def _live(flags: RegistrarFlags, machine: Machine) -> None:
    """Raises ConfigError, and DriverError for a driver that does not tell its name."""
    from mooring.sidecars.registrar.registrar import Registrar

    name = await _driver_name(flags)
    _log.info(0, "CSI driver name", driver=name)
    registrar = Registrar(
        name,
        flags.kubelet_registration_path,
        Path(flags.plugin_registration_path),
        clock=LoopClock(),
        on_refusal=lambda: machine.exit_now(1),
    )
    address = flags.http_endpoint or (f":{flags.health_port}" if flags.health_port else "")

    async def live() -> Reply:
        return Reply(*await registrar.health(flags.timeout_s))

    async def ready() -> Reply:
        return Reply(503, f"not ready: {registrar.obstacle}\n") if registrar.obstacle else Reply(200, "ok")

    routes: Mapping[str, Route] = {HEALTHZ: live, READYZ: ready}
    server = Diagnostics({**routes, **(_stack_routes() if flags.enable_pprof else {})}, any_method=True)
    if address:
        await server.start(address)
    try:
        async with watched(LoopClock(), registrar.lost, machine.exit_now, "registrar/watchdog"):
            await registrar.run()
    finally:
        await server.close()


async def _driver_name(flags: RegistrarFlags) -> str:
    """The driver's name; the connection is of no use afterwards. Raises ConfigError and DriverError."""
    from mooring.csi.driver_socket import DriverSocket
    from mooring.csi.identity import Identity

    socket = DriverSocket(flags.csi_address)
    await socket.connect(CONNECT_S_MAX)
    try:
        name = await Identity(socket, clock=LoopClock()).name(flags.timeout_s)
    finally:
        await socket.close()
    if not name:
        raise ConfigError("driver name is empty")
    return name


def _stack_routes() -> Mapping[str, Route]:
    """`/debug/pprof/` and Go's paths for stacks and command line. Profiles of CPU and heap are not there: py-spy and
    memray make those.
    """
    return {"/debug/pprof/": _stacks, "/debug/pprof/goroutine": _stacks, "/debug/pprof/cmdline": _command_line}


async def _stacks() -> Reply:
    page = io.StringIO()
    for task in asyncio.all_tasks():
        frames = (
            (frame, frame.f_lineno or 0) for frame in task.get_stack()
        )  # compiled coroutines, as gRPC's, are on no line
        page.write(f"task {task.get_name()}\n{''.join(traceback.StackSummary.extract(frames).format())}")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        page.write(f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}")
    return Reply(200, page.getvalue())


async def _command_line() -> Reply:
    return Reply(200, "\0".join(sys.argv))
