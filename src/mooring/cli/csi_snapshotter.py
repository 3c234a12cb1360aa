"""`csi-snapshotter`: upstream's sidecar by its name, its flags and its exit codes. `mooring snapshotter` is the same
program.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL
from mooring.base.flags import Parsed, flag
from mooring.cli.border import entered
from mooring.cli.limits import check_call_times, check_resync, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_common
from mooring.cli.tables import REMOVED_OF_SNAPSHOTS, SidecarFlags
from mooring.sidecars.snapshotter.options import SnapshotterOptions

if TYPE_CHECKING:
    from mooring.cli.sidecar import Context, Sidecar, SidecarWork
    from mooring.csi.capabilities import DriverInfo
    from mooring.csi.driver import Driver

_UUID_LENGTH_MAX: Final = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnapshotterFlags(SnapshotterOptions, SidecarFlags):
    node_deployment: bool = flag(
        "node-deployment", BOOL, False, "Serve the contents that are labelled with the node named by $NODE_NAME."
    )


def main() -> int:
    return entered(sys.argv[0], lambda: run(sys.argv[1:], sys.argv[0]))


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for
    --version.
    """
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def check(parsed: Parsed[SnapshotterFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    check_common(parsed)
    flags = parsed.flags
    check_workers({"worker-threads": flags.worker_threads})
    check_call_times(flags)
    check_resync("resync-period", flags.resync_s)
    if not flags.snapshot_name_prefix:
        raise ConfigError("snapshot-name-prefix: must not be empty")
    for name, length in (
        ("snapshot-name-uuid-length", flags.snapshot_name_uuid_length),
        ("groupsnapshot-name-uuid-length", flags.groupsnapshot_name_uuid_length),
    ):
        if length != -1 and not 1 <= length <= _UUID_LENGTH_MAX:
            raise ConfigError(f"{name}: must be -1, or between 1 and {_UUID_LENGTH_MAX}; got {length}")
    if flags.node_deployment and flags.leader_election:
        raise ConfigError("node-deployment: leader election is not possible; each node has its own contents")


COMMAND: Final[Command[SnapshotterFlags]] = Command(
    SnapshotterFlags,
    removed=REMOVED_OF_SNAPSHOTS,
    check=check,
    about="Makes and deletes the snapshots of one CSI driver, in the place of upstream's csi-snapshotter: in a pod, "
    "beside the driver.",
    example="csi-snapshotter --csi-address=/run/csi/socket --leader-election \\\n  --http-endpoint=:8080",
    drop_in=True,
)


def _serve(setup: Setup[SnapshotterFlags], machine: Machine) -> int:
    from mooring.cli.sidecar import run_sidecar  # here, so that --version and --help need not load it

    return run_sidecar(sidecar(setup, machine), setup, machine)


def sidecar(setup: Setup[SnapshotterFlags], machine: Machine) -> Sidecar[SnapshotterFlags]:
    """The snapshotter's part of the sidecar. Raises ConfigError."""
    from mooring.cli.sidecar import Sidecar

    given = options(setup, machine)
    return Sidecar(
        name="csi-snapshotter",
        starting="Starting CSI snapshotter",
        lock_prefix="external-snapshotter-leader-",
        probe_timeout_s=setup.flags.timeout_s,
        make_work=lambda context: _snapshotter(context, given),
        check_driver=check_driver,
    )


async def check_driver(_: Driver, info: DriverInfo) -> None:
    """Raises ConfigError for a driver that makes no snapshots."""
    from mooring.csi.driver_capabilities import capabilities_of

    if not capabilities_of(info).snapshots:
        raise ConfigError(f"CSI driver {info.name} does not support ControllerCreateSnapshot")


def options(setup: Setup[SnapshotterFlags], machine: Machine) -> SnapshotterOptions:
    """With node_name, which the pod's surroundings say. Raises ConfigError."""
    flags = setup.flags
    node_name = machine.environ.get("NODE_NAME", "") if flags.node_deployment else ""
    if flags.node_deployment and not node_name:
        raise ConfigError("node-deployment: the environment variable NODE_NAME must name the node")
    found = setup.options(SnapshotterOptions, node_name=node_name)
    if found.groups and not found.groupsnapshot_name_prefix:
        raise ConfigError("groupsnapshot-name-prefix: must not be empty")
    return found


def _snapshotter(context: Context[SnapshotterFlags], given: SnapshotterOptions) -> SidecarWork:
    from mooring.sidecars.snapshotter.controller import Snapshotter

    return Snapshotter(context.runtime, context.driver, context.info, given, context.caches)


if __name__ == "__main__":
    sys.exit(main())
