"""`mooring binder` as a program: on the embedded server over HTTPS, and two replicas with one Lease. Rights:
`test_rights_binder.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.binding import Tenant
from tests.support.builders import a_volume, an_ephemeral_volume
from tests.support.embedded import EmbeddedServer
from tests.support.programs import Program, free_ports
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

ELECTION = (
    "--leader-election",
    "--leader-election-retry-period=300ms",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@contextlib.contextmanager
def binder(kubeconfig: Path, log: Path, *flags: str) -> Iterator[Program]:
    program = Program(
        [sys.executable, "-m", "mooring.cli.mooring", "binder", f"--kubeconfig={kubeconfig}", "--v=2", *flags], log
    )
    try:
        yield program
    finally:
        program.stop()


@contextlib.asynccontextmanager
async def a_world(kubeconfig: Path) -> AsyncIterator[Tenant]:
    async with HttpCluster(
        load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
    ) as cluster:
        yield Tenant(cluster, look_s=0.02)


def ready(port: int, path: str = "/readyz") -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


async def _a_pod_gets_its_volume(world: Tenant) -> None:
    node = await world.make_node()
    await world.make_class(wffc=True)
    await world.make_claim()
    await world.make_pod(world("claim"), volumes=(an_ephemeral_volume(sc=world("sc")),))
    await world.provision(await world.asked(world("claim")))
    own = await world.asked(f"{world('pod')}-scratch")
    await world.provision(own, "own", size="2Gi")
    await world.scheduled(world("pod"), node)


def test_the_whole_way_on_the_embedded_server(server: EmbeddedServer, tmp_path: Path) -> None:
    (port,) = free_ports(1)

    async def main() -> None:
        async with a_world(server.kubeconfig) as world:
            await _a_pod_gets_its_volume(world)

    with binder(server.kubeconfig, tmp_path / "log", f"--http-endpoint=127.0.0.1:{port}") as program:
        asyncio.run(main())
        assert 200 == ready(port)
        assert 200 == ready(port, "/metrics")
        program.send(signal.SIGTERM)
        eventually(lambda: program.exit_code is not None, 20, "the binder ends")
        assert 0 == program.exit_code


def test_a_standby_takes_over(server: EmbeddedServer, tmp_path: Path) -> None:
    async def bound(base: str) -> None:
        async with a_world(server.kubeconfig) as world:
            await world.create(a_volume(world(base), sc=world("sc")))
            await world.make_claim(base)
            await world.bound(world(base), world(base))

    with binder(server.kubeconfig, tmp_path / "one", *ELECTION) as first:
        asyncio.run(bound("first"))
        with binder(server.kubeconfig, tmp_path / "two", *ELECTION) as second:
            first.send(signal.SIGTERM)
            asyncio.run(bound("second"))
            eventually(lambda: first.exit_code is not None, 20, "the first has ended")
            second.send(signal.SIGTERM)
            eventually(lambda: second.exit_code is not None, 20, "the second has ended")
            assert (0, 0) == (first.exit_code, second.exit_code)
