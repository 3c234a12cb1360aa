"""A sidecar's life, whole, on ports in process and in virtual time: start, readiness, end, loss of the driver."""

from __future__ import annotations

import asyncio

import pytest

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError, InvariantError
from mooring.base.randomness import Random
from mooring.control.manager import DRAIN_S_MAX
from mooring.control.program.health import DRIVER_S_MAX
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import DriverLost
from mooring.kube.errors import Forbidden
from mooring.wire.grpc.codes import Code
from tests.support.recording import RecordingCluster
from tests.support.rows import each_row
from tests.support.scripted_driver import ScriptedDriver
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import SidecarInProcess, SlowWork

pytestmark = in_virtual_time


async def test_the_work_gets_the_driver_as_it_introduced_itself():
    world = SidecarInProcess()
    async with world.living():
        (context,) = world.contexts
        assert "csi.example.com" == context.info.name
        assert await context.driver.probe(csi.ProbeRequest(), Call(1.0)) == csi.ProbeResponse()
        assert ["run"] == world.works[0].story


async def test_without_verbosity_the_log_tells_the_driver_and_that_work_begins(capsys):
    """Else a process that waits for its driver looks like one that works."""
    world = SidecarInProcess(connect_s=5)
    async with world.living():
        assert "" == capsys.readouterr().err
        await world.clock.sleep(6)
        known, begins = capsys.readouterr().err.splitlines()
        assert known.endswith('"CSI driver name" driver="csi.example.com" version="1"')
        assert begins.endswith('"Starting" component="csi.example.com"')


async def test_ready_when_driver_and_caches_are():
    work = None

    def make():
        nonlocal work
        work = SlowWork(world.clock, synced=False)
        return work

    world = SidecarInProcess(make=make, connect_s=5)
    async with world.living():
        assert "not ready: no connection to the CSI driver yet\n" == (await world.asked("/readyz")).body
        assert 200 == (await world.asked("/healthz")).status
        await world.clock.sleep(6)
        assert (503, "not ready: the caches are not filled yet\n") == _answer(await world.asked("/readyz"))
        work.obstacle = "can't follow pods: pods is forbidden"
        assert (503, f"not ready: the caches are not filled yet: {work.obstacle}\n") == _answer(
            await world.asked("/readyz")
        )
        work.has_synced = True
        assert (503, f"not ready: the caches are not up to date: {work.obstacle}\n") == _answer(
            await world.asked("/readyz")
        )
        work.obstacle = ""
        assert (200, "ok") == _answer(await world.asked("/readyz"))
        world.ports.connection.lose()
        await world.clock.sleep(1)
        assert (503, "not ready: the connection to the CSI driver is lost\n") == _answer(await world.asked("/readyz"))
        assert 200 == (await world.asked("/healthz")).status


def _answer(reply):
    return reply.status, reply.body


async def test_a_driver_that_never_gets_ready_shows():
    class Unready(ScriptedDriver):
        async def probe(self, request):
            return csi.ProbeResponse(ready={"value": False})

    world = SidecarInProcess(plugin=Unready())
    async with world.living():
        await world.clock.sleep(600)
        assert (503, "not ready: the CSI driver is not ready yet\n") == _answer(await world.asked("/readyz"))
        assert 200 == (await world.asked("/metrics")).status
        assert [] == world.works


async def test_the_metrics_page_waits_a_moment_for_the_driver():
    """Whoever took an answer of the Go sidecars' page for a sign of readiness goes on working."""
    world = SidecarInProcess(connect_s=5)
    async with world.living():
        assert 200 == (await world.asked("/metrics")).status
        assert world.clock.now() == pytest.approx(DRIVER_S_MAX, abs=0.1)
        page = (await world.asked("/metrics")).body
        assert world.clock.now() == pytest.approx(5, abs=0.1)
        assert b'driver_name="csi.example.com"' in page


async def test_SG_the_end_waits_for_a_running_call():
    """What a call changed at the driver is stored before the process ends."""
    world = SidecarInProcess(make=lambda: SlowWork(world.clock, call_s=12))
    async with world.living():
        world.life.end()
        assert (503, "not ready: ending\n") == _answer(await world.asked("/readyz"))
        await world.task
        assert ["run", "drain", "stored"] == world.works[0].story
        assert world.clock.now() == pytest.approx(12, abs=0.1)
        assert set() == world.ports.open


async def test_SG_the_end_waits_no_longer_than_the_limit():
    world = SidecarInProcess(make=lambda: SlowWork(world.clock, call_s=500))
    async with world.living():
        world.life.end()
        await world.task
        assert ["run", "drain", "cancelled"] == world.works[0].story
        assert world.clock.now() == pytest.approx(DRAIN_S_MAX, abs=0.1)


async def test_SG_work_that_has_not_begun_is_not_waited_for():
    world = SidecarInProcess(make=lambda: SlowWork(world.clock, synced=False))
    async with world.living():
        world.life.end()
        await world.task
        assert ["run", "cancelled"] == world.works[0].story
        assert world.clock.now() < 0.1


async def test_SG_a_process_that_waits_for_its_driver_ends_at_once():
    world = SidecarInProcess(connect_s=25)
    async with world.living():
        world.life.end()
        await world.task
        assert world.clock.now() < 0.1
        assert [] == world.works
        assert set() == world.ports.open


async def test_SG_a_life_that_is_over_before_it_begins_touches_nothing():
    world = SidecarInProcess()
    world.life.end()
    await ended(world)
    assert world.ports.connection is None
    assert [] == world.works


async def test_ST05_an_unchanged_driver_that_comes_back_is_carried_on_with():
    """The peer exits at its next call; going on with the same driver is what we do instead."""
    world = SidecarInProcess()
    async with world.living():
        world.ports.connection.lose()
        await world.clock.sleep(60)
        world.ports.connection.come_back()
        await world.clock.sleep(5)
        assert ["run", "driver returned"] == world.works[0].story
        assert 200 == (await world.asked("/readyz")).status


async def test_the_connection_to_the_driver_is_a_metric():
    world = SidecarInProcess(connect_s=5)

    async def shown():
        lines = (await world.asked("/metrics")).body.decode().splitlines()
        return [line for line in lines if line.startswith("mooring_driver_connected")]

    async with world.living():
        assert ['mooring_driver_connected{driver_name="unknown-driver"} 0.0'] == await shown()
        await world.clock.sleep(10)
        assert ['mooring_driver_connected{driver_name="csi.example.com"} 1.0'] == await shown()
        world.ports.connection.lose()
        await world.clock.sleep(5)
        assert ['mooring_driver_connected{driver_name="csi.example.com"} 0.0'] == await shown()
        world.ports.connection.come_back()
        await world.clock.sleep(5)
        assert ['mooring_driver_connected{driver_name="csi.example.com"} 1.0'] == await shown()


async def test_CO06_a_driver_that_was_replaced_ends_the_life():
    world = SidecarInProcess()

    async def replace():
        await world.clock.sleep(0.01)
        world.ports.connection.lose()
        world.plugin.name = "other.example.com"
        world.ports.connection.come_back()

    async with asyncio.TaskGroup() as group:
        group.create_task(replace())
        with pytest.raises(DriverLost, match="Lost connection to CSI driver, exiting"):
            await ended(world)
    assert ["run", "cancelled"] == world.works[0].story
    assert set() == world.ports.open


async def test_CO06_on_request_every_loss_ends_the_life():
    world = SidecarInProcess("--exit-on-lost-connection")

    async def lose():
        await world.clock.sleep(0.01)
        world.ports.connection.lose()

    async with asyncio.TaskGroup() as group:
        group.create_task(lose())
        with pytest.raises(DriverLost):
            await ended(world)
    assert world.clock.now() < 0.1


async def ended(world):
    async with asyncio.timeout(3600):
        await world.life.run()


async def test_ST02_a_driver_that_gets_ready_late_is_waited_for():
    probes = []

    class Late(ScriptedDriver):
        async def probe(self, request):
            probes.append(world.clock.now())
            return csi.ProbeResponse(ready={"value": len(probes) > 2})

        async def get_plugin_info(self, request):
            assert 3 == len(probes), "asked for its name before it was ready"
            return await super().get_plugin_info(request)

    world = SidecarInProcess(plugin=Late())
    async with world.living():
        await world.clock.sleep(5)
        assert [0.0, 1.0, 2.0] == probes
        assert ["run"] == world.works[0].story


async def test_CP02_ST03_a_driver_without_a_name_is_refused():
    world = SidecarInProcess(plugin=ScriptedDriver(""))
    with pytest.raises(ConfigError, match="driver name is empty") as caught:
        await ended(world)
    assert 1 == caught.value.exit_code
    assert [] == world.works


async def test_ST03_a_name_that_takes_longer_than_a_second_is_asked_for_again_and_in_the_end_given_up():
    """The peer gives up at the first time-out; a driver that is slow at boot would loop for minutes."""

    class Slow(ScriptedDriver):
        async def get_plugin_info(self, request):
            self.asked = [*getattr(self, "asked", []), world.clock.now()]
            await world.clock.sleep(3)
            return await super().get_plugin_info(request)

    world = SidecarInProcess(plugin=Slow())
    with pytest.raises(DriverError, match="DeadlineExceeded"):
        await ended(world)
    assert 2 <= len(world.plugin.asked)
    assert 25 <= world.clock.now() <= 40
    assert [] == world.works


async def test_a_driver_that_refuses_its_capabilities_is_said_so():
    class Refusing(ScriptedDriver):
        async def controller_get_capabilities(self, request):
            raise DriverError(Code.PERMISSION_DENIED, "no")

    world = SidecarInProcess(plugin=Refusing())
    with pytest.raises(DriverError, match="PermissionDenied desc = no"):
        await ended(world)


async def test_an_error_of_the_work_is_the_lifes_error():
    world = SidecarInProcess(make=lambda: SlowWork(world.clock, fail=ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await ended(world)
    assert set() == world.ports.open


async def test_work_that_ends_by_itself_is_a_bug():
    class Lazy(SlowWork):
        async def run(self):
            return

    world = SidecarInProcess(make=lambda: Lazy(world.clock))
    with pytest.raises(InvariantError, match="the work ended"):
        await ended(world)


async def test_a_life_that_may_not_stand_for_election_is_not_ready():
    """A rollout without the right to the Lease must not look good; who stands by for another is ready."""
    clock = LoopClock()
    cluster = RecordingCluster(LocalCluster(new_store(Random(1), 0.0), clock=clock, randomness=Random(2)), [])
    world = SidecarInProcess("--leader-election", "--leader-election-namespace=default", cluster=cluster)
    refusal = cluster.refuse("get leases", times=None, error=Forbidden("leases is forbidden"))
    async with world.living():
        await world.clock.sleep(1)
        assert (503, "not ready: may not stand for leader election: leases is forbidden\n") == _answer(
            await world.asked("/readyz")
        )
        refusal.times = 0
        await world.clock.sleep(30)
        assert 200 == (await world.asked("/readyz")).status
        assert ["run"] == world.works[0].story


class SilentServer:
    """An API server that takes connections and never answers."""

    async def serves(self, _kind):
        await asyncio.Event().wait()


@each_row(("flags", "status"), [(["--http-endpoint=127.0.0.1:0"], 503), ([], 200)])
async def test_27c4_readyz_tells_of_a_silent_API_server_and_liveness_does_not(flags, status):
    world = SidecarInProcess(*flags, cluster=SilentServer())
    async with world.living():
        await world.clock.sleep(1)
        ready = await world.asked("/readyz")
        assert (status, status == 503) == (ready.status, "the API server does not answer" in str(ready.body))
        assert [200, 200] == [(await world.asked(path)).status for path in ("/healthz", "/healthz/leader-election")]
    assert set() == world.ports.open
