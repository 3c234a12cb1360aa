"""What the server counts about its requests, under the real server's names, and the page that shows it.

Kept as plain numbers by label values: a request costs two look-ups, and the page is written when somebody asks for it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.messages import Request
from mooring.apiserver.web.queries import is_watch
from mooring.apiserver.web.routes import route_of

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
_PATCH_TYPE_APPLY: Final = "application/apply-patch"


class Asked(NamedTuple):
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
    def is_watch(self) -> bool:
        return self.verb == "WATCH"


_VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def asked(request: Request, store: ObjectStore) -> Asked:
    """What a request asks for. Names and namespaces are no part of it, so their number bounds nothing here."""
    verb = request.method if request.method in _VERBS else "other"
    route = route_of(request.path, store)
    if route is None:
        known = "/" + request.path[0] if request.path[0] in _ALONE else ""
        return Asked(verb=verb, subresource=known)
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
    return Asked("apiserver", dry_run, resource.group, resource.plural, scope, route.subresource, verb, resource.version)


_ALONE: Final = ("healthz", "livez", "readyz", "metrics", "version", "api", "apis", "openapi")


class Measured:
    """Counts of one server."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._answers: dict[tuple[Asked, int], int] = {}
        self._durations: dict[Asked, _Histogram] = {}
        self._watches: dict[Asked, int] = {}
        self._events: dict[tuple[str, str, str], int] = {}

    def answered(self, what: Asked, status: int, seconds: float) -> None:
        key = (what, status)
        self._answers[key] = self._answers.get(key, 0) + 1
        histogram = self._durations.get(what)
        if histogram is None:
            histogram = self._durations[what] = _Histogram()
        histogram.observe(seconds)

    def watching(self, what: Asked, change: int) -> None:
        """change: 1 when a watch begins, -1 when it ends."""
        self._watches[what] = self._watches.get(what, 0) + change

    def told(self, path: tuple[str, str, str], events: int) -> None:
        """A watch has been told so many events. path: of its kind."""
        self._events[path] = self._events.get(path, 0) + events

    def page(self, process: Mapping[str, float]) -> bytes:
        """All of it in Prometheus' text format. process: further metrics without labels, gauges and (..._total) counters."""
        lines = [*_family("apiserver_request_total", "counter", self._totals())]
        lines += _family("apiserver_request_duration_seconds", "histogram", self._histograms())
        lines += _family("apiserver_longrunning_requests", "gauge", self._longrunning())
        events = ((_labels(group=group, resource=plural, version=version), n) for (group, version, plural), n in self._events.items())
        lines += _family("apiserver_watch_events_total", "counter", (("", labels, float(n)) for labels, n in events))
        sizes = [(resource, len(self._store.table(resource))) for resource in self._store.resources if resource.answer is None]
        objects = (("", _labels(group=resource.group, resource=resource.plural), float(count)) for resource, count in sizes)
        lines += _family("apiserver_resource_objects", "gauge", objects)
        named = (("", _labels(resource=resource.name), float(count)) for resource, count in sizes)
        lines += _family("apiserver_storage_objects", "gauge", named)
        for name, value in process.items():
            lines += _family(name, "counter" if name.endswith("_total") else "gauge", [("", "", value)])
        return "\n".join([*lines, ""]).encode()

    def _totals(self) -> Iterable[tuple[str, str, float]]:
        for (what, status), count in self._answers.items():
            yield "", _labels(code=str(status), **what._asdict()), count

    def _histograms(self) -> Iterable[tuple[str, str, float]]:
        for what, histogram in self._durations.items():
            total = 0
            for bound, count in zip([*map(_number, _BOUNDS), "+Inf"], histogram.counts, strict=True):
                total += count
                yield "_bucket", _labels(**what._asdict(), le=bound), total
            yield "_sum", _labels(**what._asdict()), histogram.sum
            yield "_count", _labels(**what._asdict()), total

    def _longrunning(self) -> Iterable[tuple[str, str, float]]:
        for what, count in self._watches.items():
            yield "", _labels(**{name: value for name, value in what._asdict().items() if name != "dry_run"}), count


class _Histogram:
    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts, self.sum = [0] * (len(_BOUNDS) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect.bisect_left(_BOUNDS, value)] += 1
        self.sum += value


def _family(name: str, kind: str, samples: Iterable[tuple[str, str, float]]) -> list[str]:
    """samples: end of the name, labels, value."""
    return [f"# TYPE {name} {kind}", *(f"{name}{end}{labels} {_number(value)}" for end, labels, value in samples)]


def _labels(**values: str) -> str:
    """`{a="b"}`. Values are the server's own words or checked names: nothing to escape."""
    return "{" + ",".join(f'{name}="{value}"' for name, value in values.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
