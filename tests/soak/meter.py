"""What a process takes over time, and whether it takes more and more."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

GROWTH_MAX: Final = 1.15
"""How much larger the last fifth of a run may be than the fifth in its middle: noise, not a leak."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """at_s: since the load began. latency: of requests since the last sample, in milliseconds."""

    at_s: float
    rss_mib: float
    disk_mib: float
    files: int
    p50_ms: float
    p99_ms: float
    requests_per_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """slack: what may be added beside GROWTH_MAX, in the measure's unit."""

    what: str
    of: Callable[[Sample], float]
    slack: float


LIMITS: Final = (
    Limit("memory, MiB", lambda sample: sample.rss_mib, 8.0),
    Limit("disk, MiB", lambda sample: sample.disk_mib, 8.0),
    Limit("open files", lambda sample: float(sample.files), 20.0),
    Limit("latency p50, ms", lambda sample: sample.p50_ms, 1.0),
    Limit("latency p99, ms", lambda sample: sample.p99_ms, 20.0),
)


def take(pid: int, folder: Path, at_s: float, latencies_s: Sequence[float], over_s: float) -> Sample:
    """A sample of a process and the folder that it writes to."""
    ordered = sorted(latencies_s) or [0.0]
    p50, p99 = (1000 * ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99))
    return Sample(at_s, rss_mib(pid), disk_mib(folder), open_files(pid), p50, p99, len(latencies_s) / over_s)


def rss_mib(pid: int) -> float:
    """Of memory, resident."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 2**20


def disk_mib(folder: Path) -> float:
    """Of all files below it, as the file system counts them."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()) / 2**20


def open_files(pid: int | str) -> int:
    """Sockets and pipes are among them. pid: or "self"."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def grown(samples: Sequence[Sample], limits: Sequence[Limit] = LIMITS) -> list[str]:
    """What grew from the middle of the run to its end, in words. samples: ten at least."""
    assert len(samples) >= 10, "too few to tell growth from noise"
    fifth = len(samples) // 5
    middle, end = samples[2 * fifth : 3 * fifth], samples[-fifth:]
    found = []
    for limit in limits:
        before, after = (statistics.median(map(limit.of, part)) for part in (middle, end))
        if after > before * GROWTH_MAX + limit.slack:
            found.append(f"{limit.what} grew from {before:.1f} to {after:.1f}")
    return found
