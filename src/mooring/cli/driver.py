"""`mooring driver`: the reference driver as a process of its own, for any sidecar; and the commands for a driver of one's own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from mooring.base.flags import UsageError
from mooring.cli import driver_new, driver_run, hostpath

USAGE: Final = """\
usage: mooring driver hostpath [flags]          the reference driver
       mooring driver run MODULE:CLASS [flags]  a driver of your own
       mooring driver new NAME [flags]          begin one: a folder with tests
mooring driver hostpath --help lists the flags of the first, and so on
"""

_COMMANDS: Final = {"hostpath": hostpath.run, "run": driver_run.run, "new": driver_new.run}


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver`. Gives the exit code."""
    name = argv[0] if argv else ""
    if (command := _COMMANDS.get(name)) is not None:
        return command(argv[1:], f"{prog} {name}")
    if name in ("--help", "-h", "-help"):
        sys.stdout.write(USAGE)
        return 0
    sys.stderr.write(f"{prog}: {name!r} is not known: there are hostpath, run and new\n{USAGE}" if argv else USAGE)
    return UsageError("").exit_code
