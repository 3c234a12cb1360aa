"""Metrics of work queues, under upstream's names, labels and buckets, and some of our own."""

from __future__ import annotations

import itertools
from collections.abc import Sized
from typing import Final, Protocol
from weakref import WeakSet

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS_S: Final = tuple(
    itertools.accumulate(range(9), lambda bound, _: bound * 10, initial=1e-8)
)  # 10 ns to 10 s; multiplied as Go does


class MeasuredQueue(Sized, Protocol):
    """A queue, as it is read when the page is rendered."""

    @property
    def name(self) -> str: ...

    def work_s(self) -> list[float]: ...

    def oldest_s(self) -> float: ...

    @property
    def failing_count(self) -> int: ...


class QueueMetrics:
    """The families in one registry, for any number of queues. Queues of one name count as one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queues: dict[str, WeakSet[MeasuredQueue]] = {}
        labels = ["name"]
        self.depth = Gauge("workqueue_depth", "Keys ready for a worker.", labels, registry=registry)
        self.adds = Counter("workqueue_adds_total", "Keys added.", labels, registry=registry)
        self.queue_duration = Histogram(
            "workqueue_queue_duration_seconds",
            "Time from add to worker.",
            labels,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.work_duration = Histogram(
            "workqueue_work_duration_seconds",
            "Time in the hands of a worker.",
            labels,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Sum over the keys in hand of their time there.",
            labels,
            registry=registry,
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Time that the key longest in hand has been there.",
            labels,
            registry=registry,
        )
        self.retries = Counter("workqueue_retries_total", "Delayed adds.", labels, registry=registry)
        self.oldest = Gauge(
            "mooring_oldest_key_seconds",
            "Age of the key that longest waits for a worker, is in hand, or has failed without a success since.",
            labels,
            registry=registry,
        )
        self.failing = Gauge(
            "mooring_failing_keys", "Keys that have failed without a success since.", labels, registry=registry
        )
        self.stale = Counter(
            "mooring_workqueue_stale_total",
            "Back-offs of keys whose objects kept changing under the work.",
            labels,
            registry=registry,
        )

        self.held = Counter(
            "mooring_workqueue_held_total",
            "Keys held back, since they did at once, again and again, what they had done already.",
            labels,
            registry=registry,
        )

    def of(self, queue: MeasuredQueue) -> SeriesOfQueue:
        """The series of one queue."""
        queues = self._queues.setdefault(queue.name, WeakSet())
        queues.add(queue)
        self.depth.labels(queue.name).set_function(lambda: sum(len(one) for one in queues))
        self.unfinished.labels(queue.name).set_function(lambda: sum(sum(one.work_s()) for one in queues))
        self.longest.labels(queue.name).set_function(
            lambda: max((seconds for one in queues for seconds in one.work_s()), default=0.0)
        )
        self.oldest.labels(queue.name).set_function(lambda: max((one.oldest_s() for one in queues), default=0.0))
        self.failing.labels(queue.name).set_function(lambda: sum(one.failing_count for one in queues))
        return SeriesOfQueue(self, queue.name)


class SeriesOfQueue:
    """The counters and histograms of one queue."""

    __slots__ = ("adds", "queue_duration", "retries", "work_duration")

    def __init__(self, metrics: QueueMetrics, name: str) -> None:
        self.adds = metrics.adds.labels(name)
        self.queue_duration = metrics.queue_duration.labels(name)
        self.work_duration = metrics.work_duration.labels(name)
        self.retries = metrics.retries.labels(name)
