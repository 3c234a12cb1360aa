"""The scheduler's metrics, as far as volumes go, under kube-scheduler's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class SchedulerMetrics:
    """Families in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stage = Counter(
            "scheduler_volume_scheduling_stage_error_total", "Volume scheduling stage error count", ["operation"], registry=registry
        )
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result.",
            ["result", "profile"],
            registry=registry,
        )

    def attempted(self, result: str, profile: str) -> None:
        """result: scheduled, unschedulable, or error when the node was chosen and something failed. profile: the scheduler's name."""
        self._attempts.labels(result, profile).inc()

    def failed(self, operation: str) -> None:
        """operation: predicate, assume, bind."""
        self._stage.labels(operation).inc()
