"""Metrics: what the page says about requests, under which labels, and what it never says. And health."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.apiserver.identity.tls import identity_in
from mooring.apiserver.rules import SECRETS
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.about import health, is_health
from mooring.apiserver.web.messages import HttpRequest
from mooring.apiserver.web.metrics import RequestLabels, ServerMetrics, asked
from mooring.apiserver.web.queries import route_of
from tests.support.builders import a_secret
from tests.support.rows import each_row
from tests.unit.apiserver.objects import a_store
from tests.unit.apiserver.serving import PATH, answered, connected, head, serving


def values(page: bytes) -> dict[str, float]:
    """What the page says, by name and labels; the bound of a bucket last."""
    lines = (line.rpartition(" ") for line in page.decode().splitlines() if not line.startswith("#"))
    return {re.sub(r"{(.*),(le=[^,]*)(,.*)}$", r"{\1\3,\2}", name): float(value) for name, _, value in lines}


def asked_for(request: HttpRequest) -> RequestLabels:
    return asked(request, route_of(request.path, a_store()))


def a_request(method: str, path: str, content_type: str = "", **query: str) -> HttpRequest:
    return HttpRequest(method, tuple(path.split("/")[1:]), query, {"content-type": content_type})


@each_row(
    ("method", "path", "query", "labels"),
    [
        ("GET", "/api/v1/secrets", {}, ("LIST", "cluster", "", "secrets", "")),
        ("GET", PATH, {"watch": "1"}, ("WATCH", "namespace", "", "secrets", "")),
        ("POST", PATH, {"dryRun": "All"}, ("POST", "resource", "", "secrets", "")),
        ("DELETE", PATH, {}, ("DELETECOLLECTION", "namespace", "", "secrets", "")),
        ("GET", f"{PATH}/a", {}, ("GET", "resource", "", "secrets", "")),
        (
            "PUT",
            "/apis/storage.k8s.io/v1/volumeattachments/a/status",
            {},
            ("PUT", "resource", "storage.k8s.io", "volumeattachments", "status"),
        ),
        ("GET", "/healthz", {}, ("GET", "", "", "", "/healthz")),
        ("GET", "/whatever/that/is", {}, ("GET", "", "", "", "")),
        ("BREW", "/coffee", {}, ("other", "", "", "", "")),
    ],
)
def test_requests_have_the_real_servers_labels(
    method: str, path: str, query: Mapping[str, str], labels: tuple[str, ...]
) -> None:
    found = asked_for(a_request(method, path, **query))
    assert labels == (found.verb, found.scope, found.group, found.resource, found.subresource)
    assert query.get("dryRun", "") == found.dry_run


def test_a_patch_that_applies_is_an_apply() -> None:
    assert "PATCH" == asked_for(a_request("PATCH", f"{PATH}/a", "application/merge-patch+json")).verb
    assert "APPLY" == asked_for(a_request("PATCH", f"{PATH}/a", "application/apply-patch+yaml")).verb


def test_counts_and_durations(store: ObjectStore) -> None:
    measured = ServerMetrics(store)
    what = asked_for(a_request("GET", f"{PATH}/a"))
    for seconds in (0.001, 0.005, 0.3, 100.0):
        measured.answered(what, 200, seconds)
    page = values(measured.page())
    labels = (
        'component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="GET",'
        'version="v1"'
    )
    assert page[f'apiserver_request_total{{code="200",{labels}}}'] == 4
    for bound, count in (("0.005", 2), ("0.2", 2), ("0.4", 3), ("60", 3), ("+Inf", 4)):
        assert count == page[f'apiserver_request_duration_seconds_bucket{{{labels},le="{bound}"}}']
    assert page[f"apiserver_request_duration_seconds_count{{{labels}}}"] == 4
    assert page['apiserver_storage_objects{resource="namespaces"}'] == len(
        store.table(store.resource("", "v1", "namespaces"))
    )


def test_a_kind_of_many_versions_is_counted_once(store: ObjectStore) -> None:
    thing = dataclasses.replace(SECRETS, group="example.com", kind="Thing", plural="things")
    store.serve([dataclasses.replace(thing, version=version) for version in ("v1", "v2", "v3")])
    lines = ServerMetrics(store).page().decode().splitlines()
    assert 1 == lines.count('apiserver_storage_objects{resource="things.example.com"} 0.0')


def test_the_series_of_a_kind_go_with_it(store: ObjectStore) -> None:
    """Also where a watch of it ends later."""
    measured, thing = (
        ServerMetrics(store),
        dataclasses.replace(SECRETS, group="example.com", kind="Thing", plural="things"),
    )
    store.serve([thing])
    request = a_request("GET", "/apis/example.com/v1/namespaces/default/things", watch="1")
    watch = asked(request, route_of(request.path, store))
    measured.answered(watch._replace(verb="LIST"), 200, 0.1)
    measured.count_events(thing.path, 3)
    measured.watching(watch, 1)
    assert {"apiserver_request_total", "apiserver_watch_events_total", "apiserver_longrunning_requests"} <= series_of(
        measured, "things"
    )
    store.withdraw([thing])
    measured.watching(watch, -1)
    measured.answered(watch, 200, 0.1)
    measured.count_events(thing.path, 1)
    assert set() == {name for name in series_of(measured, "things") if "objects" not in name}


def series_of(measured: ServerMetrics, plural: str) -> set[str]:
    return {name.partition("{")[0] for name in values(measured.page()) if f'"{plural}' in name}


async def test_the_page_tells_of_requests_and_watches_but_no_secret(tmp_path: Path) -> None:
    identity = identity_in(tmp_path, time.time())
    async with (
        serving(identity) as server,
        connected(server, identity) as (reader, writer),
        connected(server, identity) as (watch, asks),
    ):
        asks.write(head(identity, "GET", f"{PATH}?watch=1&resourceVersion=1"))
        await watch.readuntil(b"\r\n\r\n")
        body = _json({**a_secret("a-name-of-mine"), "data": {"password": "aHVudGVyMg=="}})
        writer.write(head(identity, "POST", PATH, Content_Length=len(body)) + body)
        assert 201 == (await answered(reader))[0]
        await watch.readuntil(b"\n\r\n")
        writer.write(head(identity, "GET", "/metrics", Authorization=""))
        assert 401 == (await answered(reader))[0]
        writer.write(head(identity, "GET", "/metrics"))
        status, page = await answered(reader)
    assert 200 == status
    lines = page.decode().splitlines()
    assert [] == [
        line for line in lines if not re.fullmatch(r"# HELP .+|# TYPE \w+ \w+|\w+(\{[^{}]*\})? [0-9.e+-]+", line)
    ]
    found = values(page)
    assert found['apiserver_watch_events_total{group="",resource="secrets",version="v1"}'] == 1
    assert [1] == [
        value
        for name, value in found.items()
        if name.startswith("apiserver_longrunning_requests{") and 'verb="WATCH"' in name
    ]
    assert found["process_resident_memory_bytes"] > 0
    assert found["mooring_apiserver_connections"] == 2
    for secret in (identity.token, "aHVudGVyMg", "hunter2", "a-name-of-mine"):
        assert secret not in page.decode()


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


@each_row(
    ("path", "query", "failure", "status", "text"),
    [
        ("/livez", {}, "the disk", 200, "ok"),
        ("/readyz", {}, "", 200, "ok"),
        ("/readyz", {"verbose": ""}, "", 200, "[+]ping ok\n[+]log ok\n[+]storage ok\nreadyz check passed\n"),
        ("/readyz", {}, "the disk", 500, "[+]ping ok\n[+]log ok\n[-]storage failed: the disk\nreadyz check failed\n"),
        ("/healthz", {"exclude": "storage"}, "the disk", 200, "ok"),
        ("/readyz/ping", {}, "the disk", 200, "ok"),
        ("/readyz/storage", {}, "the disk", 500, "[-]storage failed: the disk\nreadyz/storage check failed\n"),
    ],
)
def test_health(path: str, query: Mapping[str, str], failure: str, status: int, text: str) -> None:
    reply = health(tuple(path.split("/")[1:]), query, failure)
    assert reply is not None
    assert (status, text) == (reply.status, reply.body.decode())


def test_a_check_that_is_not_there_is_no_health() -> None:
    assert health(("readyz", "nosuch"), {}, "") is None


def test_health_is_for_everybody_as_are_single_checks_and_nothing_else() -> None:
    open_ = [("readyz",), ("readyz", "ping")]
    assert open_ == [path for path in (*open_, ("api",), ("metrics",), ("livez", "..", "metrics")) if is_health(path)]
