"""`livenessprobe`, and `mooring livenessprobe`: the door of `cli/livenessprobe_program.py`, which is loaded with less
memory here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.base import without_tls
from mooring.cli.border import entered

if TYPE_CHECKING:
    from mooring.cli.process import Machine


def main() -> int:
    """The entry point."""
    return entered(sys.argv[0], lambda: run(sys.argv[1:], sys.argv[0]))


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. A driver that fails does not end it."""
    without_tls.import_asyncio()
    from mooring.cli import livenessprobe_program

    return livenessprobe_program.run(argv, prog)


if __name__ == "__main__":
    sys.exit(main())
