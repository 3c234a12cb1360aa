"""Whether this machine has loop devices: a container's root may have none."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from mooring.mounts import loops
from mooring.mounts.system import ToolFailed
from tests.support.layers import REAL_MOUNTS, not_tested

_TRIAL_BYTES = 1 << 20


def needs_loop_devices() -> None:
    """Ends a test that needs some where there are none."""
    try:
        _try_one()
    except (OSError, ToolFailed):
        not_tested(REAL_MOUNTS, "no loop devices here")


@functools.cache
def _try_one() -> None:
    """Raises OSError, ToolFailed: each time anew, as what failed once says nothing about the next time."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trial")
        file.write_bytes(bytes(_TRIAL_BYTES))
        loops.device(file)
        loops.release(file)
