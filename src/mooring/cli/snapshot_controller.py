"""`snapshot-controller`: upstream's program by its name, its flags and its exit codes. `mooring snapshot-controller` is
the same.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.flagkinds import DURATION
from mooring.base.flags import Parsed, Section, flag
from mooring.cli.border import entered
from mooring.cli.limits import check_positive, check_resync, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_manager
from mooring.cli.tables import REMOVED_OF_SNAPSHOTS, DropInFlags, LeaseGateFlags, ManagerFlags
from mooring.cluster.snapshots.options import SnapshotControllerOptions

if TYPE_CHECKING:
    from mooring.control.caches import Caches
    from mooring.control.manager import Work
    from mooring.control.runtime import Runtime

LOCK_NAME: Final = "snapshot-controller-leader"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnapshotControllerFlags(SnapshotControllerOptions, ManagerFlags, DropInFlags, LeaseGateFlags):
    retry_crd_interval_max_s: float = flag(
        "retry-crd-interval-max",
        DURATION,
        30.0,
        "Missing kinds are waited for as long as it takes.",
        Section.COMPATIBLE,
    )


def main() -> int:
    return entered(sys.argv[0], lambda: run(sys.argv[1:], sys.argv[0]))


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for
    --version.
    """
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
    removed=REMOVED_OF_SNAPSHOTS,
    check=check,
    about="Makes and binds the contents of snapshots, for all drivers of a cluster, in the place of upstream's "
    "snapshot-controller.",
    example="snapshot-controller --leader-election --http-endpoint=:8080",
    drop_in=True,
)


def _serve(setup: Setup[SnapshotControllerFlags], machine: Machine) -> int:
    from mooring.cli.clusters import load_config  # here, so that --version and --help need not load it
    from mooring.cli.manager import run_manager

    return run_manager(
        "snapshot-controller",
        setup,
        machine,
        lambda runtime: make_work(setup, runtime),
        lock_name=LOCK_NAME,
        load=load_config,
    )


def make_work(setup: Setup[SnapshotControllerFlags], runtime: Runtime, caches: Caches | None = None) -> Work:
    """The controller for one term. caches: a share of the process', None for its own."""
    from mooring.cluster.snapshots.controller import SnapshotController

    return SnapshotController(runtime, setup.options(SnapshotControllerOptions), caches)


if __name__ == "__main__":
    sys.exit(main())
