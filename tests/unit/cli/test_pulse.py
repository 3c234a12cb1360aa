"""Item 27 c4: /readyz tells of an API server that does not answer, /healthz does not; in virtual time."""

from __future__ import annotations

import asyncio

from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.control.program.health import FRESH_S, PATIENCE_S, Health, Pulse
from mooring.kube.errors import Forbidden, ServerError, TooManyRequests, Unauthorized, Unreachable
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
WELL, SILENT = (200, "ok"), (503, "not ready: the API server does not answer (within 0.8 s)\n")


class Server:
    """An API server that answers after so many seconds, or fails."""

    def __init__(self) -> None:
        self.delay_s, self.error, self.asked, self.open = 0.0, None, 0, 0

    async def ask(self) -> bool:
        self.asked += 1
        self.open += 1
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.open -= 1
        if self.error is not None:
            raise self.error
        return True


class Probed:
    def __init__(self, obstacle: str = "") -> None:
        self.server, self.clock = Server(), LoopClock()
        known = asyncio.Event()
        known.set()
        health = Health(Metrics(), known, lambda: obstacle, lambda: "")
        health.pulse = Pulse(self.server.ask, self.clock)
        self.routes = health.routes("/metrics", with_probes=True, with_election=True)

    async def get(self, path: str = "/readyz") -> tuple[int, object]:
        reply = await self.routes[path]()
        return reply.status, reply.body


async def test_a_server_that_hangs_is_told_within_ten_seconds_of_a_kubelets_probes_and_its_return_too() -> None:
    probed = Probed()
    assert WELL == await probed.get()
    probed.server.delay_s = 3600.0
    hung_at = probed.clock.now()
    await asyncio.sleep(9.0)  # a kubelet's next probe, ten seconds after the last at the latest
    assert SILENT == await probed.get()
    assert probed.clock.now() - hung_at < 10.0
    assert 0 == probed.server.open, "no request is left behind"
    probed.server.delay_s = 0.0
    await asyncio.sleep(FRESH_S)
    assert WELL == await probed.get()


@each_row("path", ["/healthz", "/healthz/leader-election"])
async def test_liveness_does_not_ask(path: str) -> None:
    probed = Probed()
    probed.server.delay_s = 3600.0
    assert SILENT == await probed.get()
    assert WELL == await probed.get(path)
    assert 1 == probed.server.asked


@each_row("error", [Unreachable("connection refused"), ServerError("etcd is down")])
async def test_a_server_that_is_gone_or_fails_is_told_with_its_error(error: Exception) -> None:
    probed = Probed()
    probed.server.error = error
    assert (503, f"not ready: the API server does not answer: {error}\n") == await probed.get()


@each_row("error", [Forbidden("no"), Unauthorized("who?"), TooManyRequests("later")])
async def test_a_refusal_is_an_answer(error: Exception) -> None:
    probed = Probed()
    probed.server.error = error
    assert WELL == await probed.get()


async def test_many_probes_share_one_request_and_one_that_was_cut_off_is_made_again() -> None:
    probed = Probed()
    probed.server.delay_s = PATIENCE_S / 2
    assert [WELL] * 50 == await asyncio.gather(*(probed.get() for _ in range(50)))
    assert 1 == probed.server.asked
    await asyncio.sleep(FRESH_S)
    probed.server.delay_s = 3600.0
    cut = asyncio.ensure_future(probed.get())
    await asyncio.sleep(0.1)
    cut.cancel()
    await asyncio.wait([cut])
    assert SILENT == await probed.get()
    assert 3 == probed.server.asked


async def test_an_obstacle_of_the_works_own_is_told_without_asking() -> None:
    probed = Probed(obstacle="the caches are not filled yet")
    assert (503, "not ready: the caches are not filled yet\n") == await probed.get()
    assert 0 == probed.server.asked
