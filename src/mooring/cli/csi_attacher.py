"""`csi-attacher`: upstream's external-attacher by its name, its flags and its exit codes. `mooring attacher` is the same program."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flags import Parsed
from mooring.cli.limits import check_call_times, check_resync
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_common
from mooring.cli.tables import REMOVED as KLOG_REMOVED
from mooring.cli.tables import LogLengthFlags, SidecarFlags
from mooring.sidecars.attacher.options import AttacherOptions

if TYPE_CHECKING:
    from mooring.cli.sidecar import Context, Sidecar, SidecarWork

REMOVED: Final[Mapping[str, bool]] = {
    "dummy": False,
    "leader_election_type": True,
    "leader_election_identity": True,
}
"""Former flags of external-attacher, and whether each needs a value."""

_INT32_MAX: Final = 2**31 - 1
_WORKERS_MAX: Final = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttacherFlags(AttacherOptions, LogLengthFlags, SidecarFlags):
    """The options of the controller, and the rest of the program's."""


def main() -> int:
    return run(sys.argv[1:], sys.argv[0])


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for --version."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def check(parsed: Parsed[AttacherFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    check_common(parsed)
    flags = parsed.flags
    if flags.worker_threads <= 0:
        raise ConfigError("Option -worker-threads must be greater than zero")
    if flags.worker_threads > _WORKERS_MAX:
        raise ConfigError(
            f"worker-threads: {flags.worker_threads} is more than {_WORKERS_MAX}; a few hundred are plenty"
        )
    check_call_times(flags, reconcile_sync=flags.reconcile_sync_s)
    check_resync("resync", flags.resync_s)
    if not 0 <= flags.max_entries <= _INT32_MAX:
        raise ConfigError(f"max-entries: must be between 0 and {_INT32_MAX}, got {flags.max_entries}")


COMMAND: Final[Command[AttacherFlags]] = Command(
    AttacherFlags,
    removed={**KLOG_REMOVED, **REMOVED},
    check=check,
    about="Attaches and detaches the volumes of one CSI driver, in the place of external-attacher: in a pod, beside the driver.",
    example="csi-attacher --csi-address=/run/csi/socket --leader-election \\\n  --http-endpoint=:8080",
    drop_in=True,
)


def _serve(setup: Setup[AttacherFlags], machine: Machine) -> int:
    from mooring.cli.sidecar import run_sidecar  # here, so that --version and --help need not load it

    return run_sidecar(sidecar(setup), setup, machine)


def sidecar(setup: Setup[AttacherFlags]) -> Sidecar[AttacherFlags]:
    """The attacher's part of the sidecar."""
    from mooring.cli.sidecar import Sidecar

    return Sidecar(
        name="csi-attacher",
        starting="Starting CSI attacher",
        lock_prefix="external-attacher-leader-",
        probe_timeout_s=setup.flags.timeout_s,
        log_length_max=setup.flags.max_grpc_log_length,
        make_work=_attacher,
    )


def _attacher(context: Context[AttacherFlags]) -> SidecarWork:
    """Upstream's manifest gives no right to events: one is refused then, as all of the Go attacher's are, and the others are logged."""
    from mooring.control.events import EventRecorder
    from mooring.sidecars.attacher.controller import Attacher

    runtime, component = context.runtime, f"external-attacher {context.info.name}"
    events = EventRecorder(runtime.cluster, component, clock=runtime.clock, randomness=runtime.randomness, rests=True)
    return Attacher(
        runtime,
        context.driver,
        context.info,
        context.setup.options(AttacherOptions),
        events=events,
        caches=context.caches,
    )


if __name__ == "__main__":
    sys.exit(main())
