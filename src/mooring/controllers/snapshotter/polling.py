"""How often the driver is asked for a snapshot that is made and not ready."""

from __future__ import annotations

from typing import Final

from mooring.controllers.snapshotter.options import SnapshotterOptions

POLL_S_MAX: Final = 15.0
SHARE: Final = 0.25
"""The share of the time that a snapshot has taken so far: it may be seen ready this much later."""


def poll_s(options: SnapshotterOptions, waited_s: float) -> float:
    """A share of the time waited, from --retry-interval-start up to POLL_S_MAX, and never above --retry-interval-max."""
    return min(max(waited_s * SHARE, options.retry_interval_start_s), POLL_S_MAX, options.retry_interval_max_s)
