"""Metrics of requests and objects under the real server's names. Series are found once per set of labels and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.messages import HttpRequest
from mooring.apiserver.web.queries import Route, is_watch
from mooring.base.metrics import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "RequestLabels", "ServerMetrics", "asked"]

_BOUNDS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
_PATCH_TYPE_APPLY: Final = "application/apply-patch"
_VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_ALONE: Final = ("healthz", "livez", "readyz", "metrics", "version", "api", "apis", "openapi")

_Kind = tuple[str, str, str]
"""Group, version and plural."""
_NONE: Final[_Kind] = ("", "", "")
"""For a request about no kind."""


class RequestLabels(NamedTuple):
    """A request as metrics label it. Nothing of it comes from the client but words that the server knows."""

    component: str = ""
    dry_run: str = ""
    group: str = ""
    resource: str = ""
    scope: str = ""
    subresource: str = ""
    verb: str = ""
    version: str = ""

    @property
    def kind(self) -> _Kind:
        return self.group, self.version, self.resource

    @property
    def is_watch(self) -> bool:
        return self.verb == "WATCH"


def asked(request: HttpRequest, route: Route | None) -> RequestLabels:
    """A request's labels. Names and namespaces are none of them, so the number of series stays bounded."""
    verb = request.method if request.method in _VERBS else "other"
    if route is None:
        known = "/" + request.path[0] if request.path[0] in _ALONE else ""
        return RequestLabels(verb=verb, subresource=known)
    if route.is_collection:
        scope = "resource" if verb == "POST" else "cluster" if route.namespace is None else "namespace"
        if verb == "GET":
            verb = "WATCH" if is_watch(request.query) else "LIST"
        elif verb == "DELETE":
            verb = "DELETECOLLECTION"
    else:
        scope = "resource"
        if verb == "PATCH" and request.headers.get("content-type", "").startswith(_PATCH_TYPE_APPLY):
            verb = "APPLY"
    dry_run = "All" if request.query.get("dryRun") == "All" else ""
    resource = route.resource
    return RequestLabels(
        "apiserver", dry_run, resource.group, resource.plural, scope, route.subresource, verb, resource.version
    )


def _lasting(what: RequestLabels) -> list[str]:
    """The labels of requests that last."""
    return [value for name, value in what._asdict().items() if name != "dry_run"]


class ServerMetrics:
    """The series of one server, with those of its process."""

    def __init__(self, store: ObjectStore) -> None:
        self._metrics = Metrics()
        registry = self._metrics.registry
        self._requests = Counter(
            "apiserver_request_total", "Requests answered.", ["code", *RequestLabels._fields], registry=registry
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "From request to answer.",
            RequestLabels._fields,
            buckets=_BOUNDS,
            registry=registry,
        )
        self._longrunning = Gauge(
            "apiserver_longrunning_requests",
            "Watches under way.",
            _lasting(RequestLabels(*RequestLabels._fields)),
            registry=registry,
        )
        kind_labels = ["group", "version", "resource"]
        self._event_counter = Counter(
            "apiserver_watch_events_total", "Events told to watches.", kind_labels, registry=registry
        )
        registry.register(_Objects(store))
        self._answers: dict[tuple[RequestLabels, int], tuple[Counter, Histogram]] = {}
        self._events: dict[_Kind, Counter] = {}
        self._watches: dict[RequestLabels, int] = {}
        self._kinds = store.kinds
        store.kinds.on_change(self._forget)

    def _is_served(self, kind: _Kind) -> bool:
        return kind == _NONE or self._kinds.get(kind) is not None

    def _forget(self) -> None:
        """The series of kinds that have gone go, too: definitions come and go without end."""
        gone = [answer for answer in self._answers if not self._is_served(answer[0].kind)]
        for what, status in gone:
            del self._answers[what, status]
            self._requests.remove(str(status), *what)
        for what in {what for what, _ in gone}:
            self._seconds.remove(*what)
        for kind in [kind for kind in self._events if not self._is_served(kind)]:
            del self._events[kind]
            self._event_counter.remove(*kind)
        self._forget_watches()

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """One more gauge without labels, read whenever the page is asked for."""
        Gauge(name, text, registry=self._metrics.registry).set_function(value)

    def answered(self, what: RequestLabels, status: int, seconds: float) -> None:
        series = self._answers.get((what, status))
        if series is None:
            if not self._is_served(what.kind):
                return
            series = self._answers[what, status] = (
                self._requests.labels(str(status), *what),
                self._seconds.labels(*what),
            )
        total, duration = series
        total.inc()
        duration.observe(seconds)

    def watching(self, what: RequestLabels, change: int) -> None:
        """change: 1 when a watch begins, -1 when it ends."""
        what = what._replace(dry_run="")
        self._watches[what] = self._watches.get(what, 0) + change
        self._longrunning.labels(*_lasting(what)).inc(change)
        if not self._is_served(what.kind):
            self._forget_watches()

    def _forget_watches(self) -> None:
        for what in [what for what, count in self._watches.items() if not count and not self._is_served(what.kind)]:
            del self._watches[what]
            self._longrunning.remove(*_lasting(what))

    def count_events(self, path: _Kind, events: int) -> None:
        """A watch has been told so many events. path: of its kind."""
        if not self._is_served(path):
            return
        series = self._events.get(path)
        if series is None:
            series = self._events[path] = self._event_counter.labels(*path)
        series.inc(events)

    def page(self) -> bytes:
        """All of it in Prometheus' text format (CONTENT_TYPE)."""
        return self._metrics.render()


class _Objects(Collector):
    """How many objects of each kind are stored, under today's and yesterday's name."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        objects = GaugeMetricFamily("apiserver_resource_objects", "Stored objects.", labels=["group", "resource"])
        named = GaugeMetricFamily(
            "apiserver_storage_objects", "Stored objects, by the kind's whole name.", labels=["resource"]
        )
        counted = {
            (resource.group, resource.plural): resource for resource in self._store.resources if resource.answer is None
        }
        for (group, plural), resource in counted.items():
            count = len(self._store.table(resource))
            objects.add_metric([group, plural], count)
            named.add_metric([resource.name], count)
        return objects, named
