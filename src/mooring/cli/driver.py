"""`mooring driver`: the reference driver as a process of its own, for a sidecar of anybody's; and where drivers of one's own begin."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from mooring.base.flags import UsageError
from mooring.cli import driver_new, driver_run, hostpath

USAGE: Final = """\
usage: mooring driver hostpath [flags]          the reference driver
       mooring driver run MODULE:CLASS [flags]  a driver of your own, registered with the kubelet and probed
       mooring driver new NAME [flags]          begin one: a folder with a driver and its tests
mooring driver hostpath --help lists the flags of the first, and so on
"""


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver`. Gives the exit code."""
    if argv[:1] == ["run"]:
        return driver_run.run(argv[1:], f"{prog} run")
    if argv[:1] == ["new"]:
        return driver_new.run(argv[1:], f"{prog} new")
    if argv[:1] == ["hostpath"]:
        return hostpath.run(argv[1:], f"{prog} hostpath")
    if argv[:1] in (["--help"], ["-h"], ["-help"]):
        sys.stdout.write(USAGE)
        return 0
    sys.stderr.write(f"{prog}: {argv[0]!r} is not known: there are hostpath, run and new\n{USAGE}" if argv else USAGE)
    return UsageError("").exit_code
