"""Which paths there are, and what they answer."""

from __future__ import annotations

import asyncio

from mooring.base.diagnostics import Diagnostics
from mooring.base.metrics import CONTENT_TYPE, Metrics
from mooring.control.program.health import Health
from tests.support.rows import each_row


def a_health(obstacle="", overdue=""):
    known = asyncio.Event()
    known.set()
    return Health(Metrics(), known, lambda: obstacle, lambda: overdue)


def paths(*, with_probes=True, with_election=False):
    return set(a_health().routes("/metrics", with_probes=with_probes, with_election=with_election))


def test_the_paths_follow_the_flags():
    assert {"/metrics", "/healthz", "/readyz"} == paths()
    assert {"/metrics", "/healthz", "/readyz", "/healthz/leader-election"} == paths(with_election=True)
    assert {"/metrics"} == paths(with_probes=False, with_election=True), "metrics-address serves metrics alone"


async def test_HT03_the_page_is_where_the_flag_says():
    server = Diagnostics(a_health().routes("/m", with_probes=True, with_election=False))
    host, port = await server.start("127.0.0.1:0")
    try:
        status, page = await _get(host, port, "/m")
        assert 200 == status
        assert "process_start_time_seconds" in page
        assert 404 == (await _get(host, port, "/metrics"))[0]
    finally:
        await server.close()


async def _get(host, port, path):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await asyncio.wait_for(reader.read(), 5)).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


async def test_the_page_has_the_type_of_its_format():
    page = await a_health().routes("/metrics", with_probes=True, with_election=False)["/metrics"]()
    assert CONTENT_TYPE == page.content_type


@each_row("path", ["/healthz", "/healthz/leader-election"])
async def test_LE07_a_lease_held_and_long_not_renewed_is_unhealthy(path):
    sick = a_health(overdue="internal server error: failed election").routes(
        "/metrics", with_probes=True, with_election=True
    )
    answer = await sick[path]()
    assert (500, "internal server error: failed election") == (answer.status, answer.body)


async def test_an_obstacle_is_not_ready_but_alive():
    routes = a_health(obstacle="the driver").routes("/metrics", with_probes=True, with_election=True)
    assert (503, "not ready: the driver\n") == ((await routes["/readyz"]()).status, (await routes["/readyz"]()).body)
    assert 200 == (await routes["/healthz"]()).status
