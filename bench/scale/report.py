"""What was measured at one size, as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from bench.contender import quantile
from bench.scale.churn import KINDS
from bench.scale.rounds import Run
from bench.tables import Table


def table(volumes: int, runs: Mapping[str, Sequence[Run]]) -> str:
    made = Table(f"{volumes} volumes", runs)
    made.row("start → all at rest (s)", "{:.1f}", lambda run: run.settled_s, each_round=True)
    made.rows("start → {} (s)", "{:.1f}", lambda run: run.first_s)
    made.row(
        "processor time of the start (s)", "{:.1f}", lambda run: math.fsum(run.start_cpu_s.values()), each_round=True
    )
    made.row("requests at the start", "{:.0f}", lambda run: sum(run.start_requests.values()))
    made.row("bytes of their answers (MiB)", "{:.1f}", lambda run: run.start_bytes / 2**20)
    made.row("memory, all processes (MiB)", "{:.0f}", lambda run: math.fsum(run.rss_mib.values()), each_round=True)
    made.rows("… {}", "{:.0f}", lambda run: run.rss_mib)
    made.row("peak memory, all processes (MiB)", "{:.0f}", lambda run: math.fsum(run.peak_mib.values()))
    made.row("processor time of a second at rest (ms)", "{:.1f}", lambda run: run.rest_cpu_s * 1000)
    made.row("requests of a second at rest", "{:.2f}", lambda run: math.fsum(run.rest_requests.values()))
    made.row("longest turn of a loop until then (ms)", "{:.0f}", lambda run: run.start_turn_s * 1000)
    made.row("longest turn of a loop from then on (ms)", "{:.0f}", lambda run: run.turn_s * 1000)
    for kind in KINDS:
        made.row(f"{kind}, p50 (ms)", "{:.0f}", _of(kind, 0.5))
        made.row(f"{kind}, p99 (ms)", "{:.0f}", _of(kind, 0.99))
    made.row(
        "processor time under churn (s)", "{:.1f}", lambda run: math.fsum(run.churn_cpu_s.values()), each_round=True
    )
    made.row("requests under churn", "{:.0f}", lambda run: sum(run.churn_requests.values()))
    made.row("memory after churn (MiB)", "{:.0f}", lambda run: math.fsum(run.after_mib.values()))
    made.row(
        "an attacher that leads ends → the other one has attached (s)",
        "{:.2f}",
        lambda run: _or_nothing(run.handover_s),
    )
    made.row(
        "an attacher that leads is killed → the other one has attached (s)",
        "{:.2f}",
        lambda run: _or_nothing(run.takeover_s),
    )
    made.row(
        "attach/detach that leads ends → the other one has made an attachment (s)",
        "{:.2f}",
        lambda run: _or_nothing(run.wanting_s),
    )
    made.row("a standby has filled its caches (s)", "{:.1f}", lambda run: _or_nothing(run.standby_s))
    made.row("processor time of that (s)", "{:.1f}", lambda run: _or_nothing(run.standby_cpu_s))
    made.row("processors that others kept busy", "{:.2f}", lambda run: run.strangers)
    return str(made).replace(" nan |", " - |")


def _of(kind: str, share: float) -> Callable[[Run], float]:
    return lambda run: quantile(run.latencies[kind], share) * 1000


def _or_nothing(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds
