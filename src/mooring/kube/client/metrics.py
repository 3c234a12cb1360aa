"""Metrics of the API client, under client-go's names."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_WAIT_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class ClientMetrics:
    """Counts requests by their answer, and the time that requests waited for the client's own limit. One per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "host", "method"),
            registry=registry,
        )
        self._waits = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            ("verb", "host"),
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._request_counters: dict[tuple[int, str, str], Counter] = {}

    def answered(self, status: int, host: str, method: str) -> None:
        """status: 0 when there was no answer."""
        key = (status, host, method)
        counter = self._request_counters.get(key)
        if counter is None:
            counter = self._request_counters[key] = self._requests.labels(str(status) if status else "<error>", host, method)
        counter.inc()

    def waited(self, seconds: float, host: str, method: str) -> None:
        self._waits.labels(method, host).observe(seconds)
