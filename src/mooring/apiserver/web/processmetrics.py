"""Metrics of this process, as the kernel tells them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc/self")


def process_metrics() -> dict[str, float]:
    """Processor time, memory and open files under Prometheus' names; {} where there is no /proc."""
    try:
        fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return {
            "process_cpu_seconds_total": (int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
            "process_open_fds": len(os.listdir(_PROC / "fd")),
            "process_resident_memory_bytes": int(fields[21]) * _PAGE_BYTES,
            "process_start_time_seconds": int(booted.split()[1]) + int(fields[19]) / _TICKS_PER_S,
            "process_virtual_memory_bytes": int(fields[20]),
        }
    except (OSError, StopIteration):
        return {}
