"""The metrics of the attach/detach controller, under kube-controller-manager's names; `multi_attach_blocked` is our
own.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.api.binding import claims_of
from mooring.api.core import PersistentVolume
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.cluster.attachdetach.identity import identity_of, pod_wants_volumes
from mooring.cluster.attachdetach.release import OUT_OF_SERVICE, TIMEOUT
from mooring.cluster.attachdetach.view import BY_CLAIM, View

_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
FORCED: Final = "attach_detach_controller_attachdetach_controller_forced_detaches"


class AttachDetachMetrics:
    """Counters, and gauges that are counted when the page is rendered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["volume_plugin", "operation_name", "status", "migrated"]
        self._seconds = Histogram(
            "storage_operation_duration_seconds",
            "Storage operation duration",
            labels,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._counted = _Counted()
        registry.register(self._counted)

    def forced(self, why: str) -> None:
        """Counts a detach that was forced. why: `timeout` or `out-of-service`."""
        self._counted.forced[why] += 1

    def ended(self, driver: str, operation: str, seconds: float, *, failed: bool = False) -> None:
        """operation: volume_attach or volume_detach."""
        status = "fail-unknown" if failed else "success"
        self._seconds.labels(_plugin(driver), operation, status, "false").observe(seconds)

    def watch(self, view: View | None) -> None:
        """The view whose objects are counted, None for none."""
        self._counted.view = view


class _AsItIs(str):
    """A type that prometheus_client writes down without giving the name its ending."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return False


class _Counted(Collector):
    """forced: detaches by reason; beside them numbers of volumes, counted anew for each page."""

    def __init__(self) -> None:
        self.forced: Tally[str] = Tally({TIMEOUT: 0, OUT_OF_SERVICE: 0})
        self.view: View | None = None

    def collect(self) -> Iterable[Metric]:
        forced = Metric(FORCED, "Number of times the attach/detach controller forced a detach", "untyped")
        forced.type = _AsItIs("counter")
        for why, count in sorted(self.forced.items()):
            forced.add_sample(FORCED, {"reason": why}, count)
        yield forced
        if self.view is not None:
            yield from _gauges(self.view)


def _gauges(view: View) -> Iterable[Metric]:
    in_use: Tally[tuple[str, ...]] = Tally()
    desired: set[tuple[str, str]] = set()
    for pod in view.pods.values():
        for found in filter(None, map(identity_of, _volumes_of(view, pod))):
            in_use[pod.spec.node_name, _plugin(found.driver)] += 1
            described = view.drivers.get(Key("", found.driver))
            needs = described is None or described.spec.attach_required is not False
            if needs and view.is_managed(pod.spec.node_name) and pod_wants_volumes(pod):
                desired.add((found.unique, pod.spec.node_name))
    yield _family("storage_count_attachable_volumes_in_use", "Volumes that pods use", ["node", "volume_plugin"], in_use)
    worlds: Tally[tuple[str, ...]] = Tally((_plugin_of(unique), "desired_state_of_world") for unique, _ in desired)
    worlds.update((_plugin(one.spec.attacher), "actual_state_of_world") for one in view.attachments.values())
    yield _family("attachdetach_controller_total_volumes", "Volumes on nodes", ["plugin_name", "state"], worlds)
    blocked: Tally[tuple[str, ...]] = Tally(
        (record.blocked_by,) for record in view.memory.records() if record.blocked_by
    )
    yield _family(
        "multi_attach_blocked",
        "Volumes that wait for another node to let go, by the kind of holder",
        ["class"],
        blocked,
    )


def _volumes_of(view: View, pod: Pod) -> Iterator[PersistentVolume]:
    """The volumes of a pod on a node: those that are reserved for its claims, and those that it defines itself."""
    if pod.spec.node_name:
        yield from inline_volumes_of(pod)
        for claim in claims_of(pod):
            yield from view.volumes.by(BY_CLAIM, str(claim))


def _family(name: str, text: str, labels: list[str], tally: Tally[tuple[str, ...]]) -> Metric:
    family = GaugeMetricFamily(name, f"{text}, counted now.", labels=labels)
    for values, count in sorted(tally.items()):
        family.add_metric(list(values), count)
    return family


def _plugin(driver: str) -> str:
    return f"kubernetes.io/csi:{driver}"


def _plugin_of(unique: str) -> str:
    return _plugin(unique.removeprefix("kubernetes.io/csi/").partition("^")[0])
