"""`csi-attacher`: upstream's external-attacher by its name, its flags and its exit codes. `mooring attacher` is the
same program.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flags import Former, Parsed
from mooring.cli.border import entered
from mooring.cli.limits import check_call_times, check_resync
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_common
from mooring.cli.tables import REMOVED, LogLengthFlags, SidecarFlags
from mooring.sidecars.attacher.options import AttacherOptions

if TYPE_CHECKING:
    from mooring.cli.sidecar import Context, Sidecar, SidecarWork

_INT32_MAX: Final = 2**31 - 1
_WORKERS_MAX: Final = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttacherFlags(AttacherOptions, LogLengthFlags, SidecarFlags):
    """The options of the controller, and the rest of the program's."""


def main() -> int:
    return entered(sys.argv[0], lambda: run(sys.argv[1:], sys.argv[0]))


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for
    --version.
    """
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
    removed={**REMOVED, "dummy": Former(False)},
    check=check,
    about="Attaches and detaches the volumes of one CSI driver, in the place of external-attacher: in a pod, beside "
    "the driver.",
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
    from mooring.sidecars.attacher.controller import Attacher

    options = context.setup.options(AttacherOptions)
    return Attacher(context.runtime, context.driver, context.info, options, caches=context.caches)


if __name__ == "__main__":
    sys.exit(main())
