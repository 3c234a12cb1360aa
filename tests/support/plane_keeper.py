"""Keeps a control plane for the processes of a run: `python -m tests.support.plane_keeper OWNER FOLDER`.

OWNER is the process whose end is the plane's end. FOLDER gets `control-plane.json` once the plane answers. The plane
is a child of neither the owner nor a worker: a worker that hangs and is killed takes it away from nobody.
"""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

from tests.support.control_plane import HOUSEKEEPING, ControlPlane, write_whole


def main() -> None:
    owner, folder = os.pidfd_open(int(sys.argv[1])), Path(sys.argv[2])
    plane = ControlPlane.start()
    try:
        plane.start_controllers(*HOUSEKEEPING)
        write_whole(folder / "control-plane.json", plane.state().encode())
        select.select([owner], [], [])
    finally:
        plane.stop()


if __name__ == "__main__":
    main()
