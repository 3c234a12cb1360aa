"""`snapshot-controller`: upstream's program by its name, its flags and its exit codes. `mooring snapshot-controller` is the same."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.flagkinds import BOOL, DURATION, GATES, INT, Gate, Stage, gates_help
from mooring.base.flags import Parsed, Section, flag
from mooring.cli.limits import check_positive, check_resync, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_manager
from mooring.cli.tables import REMOVED, DropInFlags, GateFlags, ManagerFlags

if TYPE_CHECKING:
    from mooring.control.caches import Caches
    from mooring.control.manager import Work
    from mooring.control.runtime import Runtime
    from mooring.controllers.snapshot_controller.options import SnapshotControllerOptions

GROUPS: Final = "CSIVolumeGroupSnapshot"
KNOWN_GATES: Final[Mapping[str, Gate]] = {
    GROUPS: Gate(Stage.BETA, False),
    "ReleaseLeaderElectionOnExit": Gate(Stage.ALPHA, False),
}

LOCK_NAME: Final = "snapshot-controller-leader"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnapshotControllerFlags(ManagerFlags, DropInFlags, GateFlags):
    feature_gates: Mapping[str, bool] = flag("feature-gates", GATES, {}, gates_help(KNOWN_GATES))
    resync_s: float = flag("resync-period", DURATION, 900.0, "How often everything known is looked at again.")
    worker_threads: int = flag("worker-threads", INT, 10, "How many snapshots, contents and claims each are worked on at once.")
    retry_interval_start_s: float = flag(
        "retry-interval-start", DURATION, 1.0, "Initial retry interval of a write that failed. It doubles with each failure."
    )
    retry_interval_max_s: float = flag("retry-interval-max", DURATION, 300.0, "Maximum retry interval of a write that failed.")
    distributed: bool = flag(
        "enable-distributed-snapshotting",
        BOOL,
        False,
        "Label each content with a node that reaches its volume.",
    )
    prevent_volume_mode_conversion: bool = flag(
        "prevent-volume-mode-conversion", BOOL, True, "Write the volume's mode on its contents, so that it is not restored in another one."
    )
    retry_crd_interval_max_s: float = flag(
        "retry-crd-interval-max", DURATION, 30.0, "Missing kinds are waited for as long as it takes.", Section.COMPATIBLE
    )


def main() -> int:
    return run(sys.argv[1:], sys.argv[0])


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for --version."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def check(parsed: Parsed[SnapshotControllerFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    check_manager(parsed)
    flags = parsed.flags
    check_workers({"worker-threads": flags.worker_threads})
    times_s = {"retry-interval-start": flags.retry_interval_start_s, "retry-interval-max": flags.retry_interval_max_s}
    check_positive(times_s, "15s")
    check_resync("resync-period", flags.resync_s)


COMMAND: Final[Command[SnapshotControllerFlags]] = Command(
    SnapshotControllerFlags,
    KNOWN_GATES,
    REMOVED,
    check,
    about="Makes and binds the contents of snapshots, for all drivers of a cluster, in the place of upstream's snapshot-controller.",
    example="snapshot-controller --leader-election --http-endpoint=:8080",
    drop_in=True,
)


def _serve(setup: Setup[SnapshotControllerFlags], machine: Machine) -> int:
    from mooring.cli.clusters import load_config  # here, so that --version and --help need not load it
    from mooring.cli.manager import run_manager

    return run_manager(
        "snapshot-controller", setup, machine, lambda runtime: make_work(setup, runtime), lock_name=LOCK_NAME, load=load_config
    )


def options_of(setup: Setup[SnapshotControllerFlags]) -> SnapshotControllerOptions:
    """The controller's options, as the flags and gates have them."""
    from mooring.controllers.snapshot_controller.options import SnapshotControllerOptions

    flags = setup.flags
    return SnapshotControllerOptions(
        worker_threads=flags.worker_threads,
        retry_interval_start_s=min(flags.retry_interval_start_s, flags.retry_interval_max_s),
        retry_interval_max_s=flags.retry_interval_max_s,
        resync_s=flags.resync_s,
        distributed=flags.distributed,
        prevent_volume_mode_conversion=flags.prevent_volume_mode_conversion,
        groups=setup.gates[GROUPS],
    )


def make_work(setup: Setup[SnapshotControllerFlags], runtime: Runtime, caches: Caches | None = None) -> Work:
    """The controller for one term. caches: a share of the process', None for its own."""
    from mooring.controllers.snapshot_controller.controller import SnapshotController

    return SnapshotController(runtime, options_of(setup), caches)


if __name__ == "__main__":
    sys.exit(main())
