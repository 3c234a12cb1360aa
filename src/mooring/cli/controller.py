"""`mooring controller`: several controllers in one process, with one connection to the driver, one cache for each kind,
one log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.cli.controller_flags import ControllerFlags, ProcessWideFlags, check, enabled
from mooring.cli.csi_provisioner import SPELLINGS
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.tables import REMOVED

NAME: Final = "mooring-controller"

COMMAND: Final[Command[ProcessWideFlags]] = Command(
    ControllerFlags,
    removed=REMOVED,
    check=check,
    spellings=SPELLINGS,
    about="Runs several controllers in one process: with one connection to the CSI driver, one cache for each kind "
    "of object, and one "
    "place for metrics and health. A flag that several of them have begins with the controller's name.",
    example="mooring controller --enable=attacher,provisioner,resizer,snapshotter \\\n  --csi-address=/run/csi/socket "
    "--leader-election",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring controller`. Gives the exit code."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def _serve(setup: Setup[ProcessWideFlags], machine: Machine) -> int:
    from mooring.cli.controller_parts import Together  # here, so that --version and --help need not load it

    together = Together(NAME, setup, machine)
    if any(component.calls_driver for component in enabled(setup.flags)):
        from mooring.cli.sidecar import run_sidecar

        return run_sidecar(together.sidecar(), setup, machine)
    from mooring.cli.manager import run_works

    return run_works(NAME, setup, machine, together.works)
