"""`csi-node-driver-registrar`, and `mooring registrar`: the door of `cli/registrar_program.py`, which is loaded with
less memory here.
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
    """Runs until it is told to end, or the kubelet refuses; gives the exit code."""
    without_tls.import_asyncio()
    from mooring.cli import registrar_program

    return registrar_program.run(argv, prog, machine)


if __name__ == "__main__":
    sys.exit(main())
