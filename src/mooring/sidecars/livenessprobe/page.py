"""The metrics of the probe as Go's livenessprobe serves them: durations of calls to the driver, and the start of the process.

By hand, in the text format 0.0.4: prometheus_client, which all other programs here use, brings an HTTP server, a mail parser and TLS
along, a fifth of this program's memory for two families of metrics.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mooring.csi.call_counts import HELP, NAME, CallCounts

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

START: Final = "process_start_time_seconds"
START_HELP: Final = "[ALPHA] Start time of the process since unix epoch in seconds."

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_DIGITS_MAX: Final = 6
"""Before the point: Go writes larger numbers with an exponent."""


def metrics_page(calls: CallCounts, started_s: float | None) -> bytes:
    """The page. started_s: the start of the process, since the epoch; None where it can't be known."""
    return "".join(f"{line}\n" for line in _lines(calls, started_s)).encode()


def _lines(calls: CallCounts, started_s: float | None) -> Iterator[str]:
    samples = list(calls.samples())
    if samples:
        yield from (f"# HELP {NAME} {HELP}", f"# TYPE {NAME} histogram")
    for suffix, labels, value in samples:
        yield f"{NAME}{suffix}{{{_labels(labels)}}} {go_number(value)}"
    if started_s is not None:
        yield from (f"# HELP {START} {START_HELP}", f"# TYPE {START} gauge", f"{START} {go_number(started_s)}")


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def go_number(value: float) -> str:
    """The number as Go writes it: 3, 0.25, 5e-05, 1.79525001628e+09. Not negative."""
    text = repr(float(value)).removesuffix(".0")
    whole, _, fraction = text.partition(".")
    if len(whole) <= _DIGITS_MAX or "e" in text:
        return text
    return f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".") + f"e+{len(whole) - 1:02d}"


def process_started_s() -> float | None:
    """The start of this process, since the epoch, as the kernel has it; None where there is no /proc."""
    if not Path("/proc/self/stat").exists():
        return None
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
