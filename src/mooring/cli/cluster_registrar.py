"""`cluster-driver-registrar`: the archived program of this name, on today's API. `mooring cluster-registrar` is the
same program.

SIGINT removes the CSIDriver object and ends with 1, SIGTERM leaves it and ends with 0: a pod that is replaced does not
take it along.
"""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from mooring.base import loops
from mooring.base.clock import Clock, LoopClock
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, FILE
from mooring.base.flags import Parsed, Section, flag
from mooring.base.log import logger
from mooring.cli.border import entered
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.tables import REMOVED, AddressFlags, DropInFlags, ProcessFlags
from mooring.csi.address import socket_path

if TYPE_CHECKING:
    from mooring.sidecars.cluster_registrar.registration import ClusterRegistration

_log = logger(__name__)

CONNECT_S_MAX: Final = 30.0
ANSWER_S_MAX: Final = 1.0
"""For the driver's name and its controller's capabilities together, once it is connected; upstream's budget."""

REMOVE_S_MAX: Final = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterRegistrarFlags(ProcessFlags, DropInFlags, AddressFlags):
    """cluster-driver-registrar's flags."""

    pod_info_mount: bool = flag(
        "pod-info-mount", BOOL, False, "Pass the pod's data to the driver at NodePublishVolume: podInfoOnMount."
    )
    kubeconfig: str = flag(
        "kubeconfig", FILE, "", "Absolute path to the kubeconfig file. Empty: the service account of the pod."
    )
    connection_timeout_s: float = flag("connection-timeout", DURATION, 0.0, "(deprecated)", Section.COMPATIBLE)


def main() -> int:
    """The entry point."""
    return entered(sys.argv[0], lambda: run(sys.argv[1:], sys.argv[0]))


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def check(parsed: Parsed[ClusterRegistrarFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    socket_path(parsed.flags.csi_address)
    if "connection-timeout" in parsed.given:
        _log.warning("--connection-timeout is deprecated and has no effect; remove it")


COMMAND: Final[Command[ClusterRegistrarFlags]] = Command(
    ClusterRegistrarFlags,
    removed=REMOVED,
    check=check,
    about="Makes the CSIDriver object of one CSI driver, in the place of cluster-driver-registrar. A manifest does "
    "the same.",
    example="cluster-driver-registrar --csi-address=/csi/csi.sock --pod-info-mount",
    drop_in=True,
)


def _serve(setup: Setup[ClusterRegistrarFlags], machine: Machine) -> int:
    from mooring.csi.errors import DriverError  # here, so that --version and --help need not load gRPC

    try:
        return loops.run(_live(setup.flags, machine))
    except DriverError as error:
        _log.error("CSI driver does not introduce itself", error=error)
        return 1


async def _live(flags: ClusterRegistrarFlags, machine: Machine) -> int:
    """The exit code. Raises ConfigError, and DriverError for a driver that does not introduce itself."""
    from mooring.base.metrics import Metrics
    from mooring.base.randomness import Random
    from mooring.cli.clusters import client, load_config
    from mooring.cli.settings import RequestLimit
    from mooring.sidecars.cluster_registrar.registration import ClusterRegistration

    clock = LoopClock()
    config = load_config(flags.kubeconfig, machine)
    stopped_by: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped_by, number)
    if not await _ended(
        introduced := asyncio.create_task(_introduced(flags, clock), name="cluster-registrar/driver"), stopped_by
    ):
        return int(stopped_by.result() == signal.SIGINT)
    name, attaches = introduced.result()
    _log.info(0, "CSI driver name", driver=name)
    async with client(
        "cluster-driver-registrar", config, RequestLimit(), clock=clock, randomness=Random(), metrics=Metrics()
    ) as cluster:
        registration = ClusterRegistration(
            cluster, name, attach_required=attaches, pod_info_on_mount=flags.pod_info_mount, clock=clock
        )
        running = asyncio.create_task(registration.run(), name="cluster-registrar/run")
        if await _ended(running, stopped_by):
            running.result()
        return await _removed(registration) if stopped_by.result() == signal.SIGINT else 0


async def _ended(work: asyncio.Task[Any], stopped_by: asyncio.Future[signal.Signals]) -> bool:
    """Waits for the work or for a signal, which cancels it. True when the work came first."""
    await asyncio.wait((work, stopped_by), return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        return True
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return False


def _stop(stopped_by: asyncio.Future[signal.Signals], number: signal.Signals) -> None:
    if not stopped_by.done():
        stopped_by.set_result(number)


async def _removed(registration: ClusterRegistration) -> int:
    from mooring.kube.errors import ApiError

    try:
        async with asyncio.timeout(REMOVE_S_MAX):
            await registration.remove()
    except (ApiError, TimeoutError) as error:
        _log.error("Failed to delete CSIDriver object; delete it by hand", error=error)
    return 1


async def _introduced(flags: ClusterRegistrarFlags, clock: Clock) -> tuple[str, bool]:
    """The driver's name, and whether it attaches. Raises ConfigError and DriverError."""
    from mooring.csi.driver import Call
    from mooring.csi.proto import csi_pb2 as csi
    from mooring.csi.wire_driver import WireDriver

    driver = WireDriver(flags.csi_address, clock=clock)
    await driver.connect(CONNECT_S_MAX)
    try:
        began = clock.now()
        name = (await driver.get_plugin_info(csi.GetPluginInfoRequest(), Call(ANSWER_S_MAX))).name
        if not name:
            raise ConfigError("driver name is empty")
        left_s = max(0.001, ANSWER_S_MAX - (clock.now() - began))
        able = await driver.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest(), Call(left_s))
    finally:
        await driver.close()
    publish = csi.ControllerServiceCapability.RPC.PUBLISH_UNPUBLISH_VOLUME
    return name, any(capability.rpc.type == publish for capability in able.capabilities)


if __name__ == "__main__":
    sys.exit(main())
