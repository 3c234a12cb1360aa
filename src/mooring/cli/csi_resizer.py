"""`csi-resizer`: external-resizer by its name, its flags and its exit codes. `mooring resizer` is the same program."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import STRING
from mooring.base.flags import Parsed, flag
from mooring.cli.attributes_classes import is_without_classes
from mooring.cli.border import entered
from mooring.cli.limits import check_call_times, check_resync, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_common
from mooring.cli.tables import REMOVED, LogLengthFlags, SidecarFlags
from mooring.sidecars.resizer.options import ResizerOptions

if TYPE_CHECKING:
    from mooring.cli.sidecar import Context, Sidecar, SidecarWork
    from mooring.csi.capabilities import DriverInfo
    from mooring.csi.driver import Driver
    from mooring.kube.cluster import Cluster


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResizerFlags(ResizerOptions, LogLengthFlags, SidecarFlags):
    master: str = flag("master", STRING, "", "URL of the API server, in place of the one that the kubeconfig names.")


def main() -> int:
    return entered(sys.argv[0], lambda: run(sys.argv[1:], sys.argv[0]))


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for
    --version.
    """
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def check(parsed: Parsed[ResizerFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    check_common(parsed)
    flags = parsed.flags
    check_workers({"workers": flags.workers})
    check_call_times(flags)
    check_resync("resync-period", flags.resync_s)


COMMAND: Final[Command[ResizerFlags]] = Command(
    ResizerFlags,
    removed=REMOVED,
    check=check,
    about="Grows the volumes of one CSI driver and changes their class, in the place of external-resizer: in a pod, "
    "beside the driver.",
    example="csi-resizer --csi-address=/run/csi/socket --leader-election \\\n  --http-endpoint=:8080",
    drop_in=True,
)


def _serve(setup: Setup[ResizerFlags], machine: Machine) -> int:
    from mooring.cli.sidecar import run_sidecar  # here, so that --version and --help need not load it

    return run_sidecar(sidecar(setup), setup, machine)


def sidecar(setup: Setup[ResizerFlags]) -> Sidecar[ResizerFlags]:
    """The resizer's part of the sidecar."""
    from mooring.cli.sidecar import Sidecar

    options, found = setup.options(ResizerOptions), {"classes": True, "on_node": False}

    async def ask(cluster: Cluster) -> None:
        found["classes"] = not await is_without_classes(setup.flags.feature_gates, cluster)

    async def check_driver(driver: Driver, info: DriverInfo) -> None:
        found["on_node"] = await expands_on_node(driver, info, options.timeout_s)

    return Sidecar(
        name="csi-resizer",
        starting="Starting external resizer",
        lock_prefix="external-resizer-",
        probe_timeout_s=setup.flags.timeout_s,
        log_length_max=setup.flags.max_grpc_log_length,
        server=setup.flags.master,
        make_work=lambda context: _resizer(context, options, has_classes=found["classes"], on_node=found["on_node"]),
        ask=ask,
        check_driver=check_driver,
    )


async def expands_on_node(driver: Driver, info: DriverInfo, timeout_s: float) -> bool:
    """True for a driver that grows volumes on their nodes alone. Raises ConfigError for one that gives a resizer no
    work, DriverError.
    """
    from mooring.csi.driver_capabilities import capabilities_of
    from mooring.sidecars.resizer.controller import grows_on_nodes

    capabilities = capabilities_of(info)
    if not capabilities.has_controller:
        raise ConfigError("CSI driver neither supports controller resize nor node resize: it has no controller service")
    if capabilities.expands:
        return False
    on_node = await grows_on_nodes(driver, timeout_s)
    if not on_node and not capabilities.modifies:
        raise ConfigError("CSI driver does not support resize nor modify")
    return on_node


def _resizer(
    context: Context[ResizerFlags], options: ResizerOptions, *, has_classes: bool, on_node: bool
) -> SidecarWork:
    from mooring.control.events import EventRecorder
    from mooring.sidecars.resizer.controller import Resizer

    runtime, driver_name = context.runtime, context.info.name
    component = f"external-resizer {driver_name}"
    events = EventRecorder(runtime.cluster, component, clock=runtime.clock, randomness=runtime.randomness)
    options = dataclasses.replace(options, modify=options.modify and has_classes)
    return Resizer(runtime, context.driver, context.info, options, events, on_node=on_node, caches=context.caches)


if __name__ == "__main__":
    sys.exit(main())
