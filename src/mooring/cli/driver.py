"""`mooring driver`: drivers as processes of their own, for a sidecar of anybody's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from mooring.base.flags import UsageError
from mooring.cli import hostpath

USAGE: Final = "usage: mooring driver hostpath [flags]; mooring driver hostpath --help lists them\n"


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver`. Gives the exit code."""
    if argv[:1] != ["hostpath"]:
        if argv[:1] in (["--help"], ["-h"], ["-help"]):
            sys.stdout.write(USAGE)
            return 0
        sys.stderr.write(f"{prog}: {argv[0]!r} is not known: there is hostpath\n{USAGE}" if argv else USAGE)
        return UsageError("").exit_code
    return hostpath.run(argv[1:], f"{prog} hostpath")
