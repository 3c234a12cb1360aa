"""A driver that goes and comes back."""

import asyncio
import contextlib

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.metrics import CallMetrics
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import DriverChanged, DriverLost, Session, carry_on, exit_on_loss, stay_away
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time, run_virtual
from tests.unit.csi.servers import CALL, Plugin, failing, serving

LOST = "Lost connection to CSI driver, exiting"
RPC = csi.ControllerServiceCapability.RPC
PUBLISH = csi.ControllerPublishVolumeRequest(volume_id="v", node_id="n")


class Line(InProcessDriver):
    """A connection that the test cuts and mends; each time, another plugin may be at its end."""

    def __init__(self, plugin):
        super().__init__(plugin, clock=LoopClock())
        self._cut = asyncio.Event()
        self._whole = asyncio.Event()
        self._whole.set()

    def cut(self):
        self._cut.set()
        self._whole.clear()

    def mend(self, plugin=None):
        self._plugin = plugin or self._plugin
        self._cut = asyncio.Event()
        self._whole.set()

    async def lost(self):
        await self._cut.wait()

    async def reconnected(self):
        await self._whole.wait()

    async def _send(self, rpc, request, call):
        if self._cut.is_set():
            raise DriverError(Code.UNAVAILABLE, "error reading from server: EOF")
        return await super()._send(rpc, request, call)


@contextlib.asynccontextmanager
async def running(plugin, **options):
    """A session that runs until the block ends, or raises what run() raises."""
    line = Line(plugin)
    session = Session(line, clock=LoopClock(), **options)
    await session.start()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(session.run(), name="session")
        try:
            yield session, line
        finally:
            task.cancel()


@contextlib.contextmanager
def raises_in_group(kind):
    """Like pytest.raises, for an error that comes out of a task group."""
    with pytest.raises(ExceptionGroup) as caught:
        yield
    (error,) = caught.value.exceptions
    assert type(error) is kind
    assert str(error) == LOST


async def settled():
    """Lets everything happen that can, in virtual time."""
    await asyncio.sleep(0.001)


async def refusal(session):
    with pytest.raises(DriverError) as failed:
        await session.driver.controller_publish_volume(PUBLISH, CALL)
    assert (Code.UNAVAILABLE, True) == (failed.value.code, failed.value.unsent)
    return failed.value.message


@in_virtual_time
async def test_a_session_begins_with_probe_and_identify():
    async with running(Plugin()) as (session, _):
        assert session.info.name == "csi.test"
        assert session.is_up
        assert (await session.driver.controller_publish_volume(PUBLISH, CALL)).publish_context


@in_virtual_time
async def test_an_error_of_probe_and_identify_comes_out_of_start():
    with pytest.raises(ConfigError, match="driver name is empty"):
        await Session(Line(Plugin(name="")), clock=LoopClock()).start()


@in_virtual_time
async def test_while_the_driver_is_away_calls_end_at_once_and_nothing_is_sent():
    plugin = Plugin()
    async with running(plugin) as (session, line):
        line.cut()
        await settled()
        assert not session.is_up
        assert await refusal(session) == "connection to the CSI driver lost, waiting for its return"
        assert "ControllerPublishVolume" not in plugin.calls


@in_virtual_time
async def test_W19_a_driver_that_comes_back_unchanged_is_carried_on_with():
    plugin, returns = Plugin(), []
    async with running(plugin) as (session, line):
        session.on_return(lambda: returns.append(session.is_up))
        for number in (1, 2, 3):
            line.cut()
            await settled()
            assert not session.is_up
            line.mend(Plugin(calls=plugin.calls))
            await settled()
            assert session.is_up
            assert returns == [True] * number
            await session.driver.controller_publish_volume(PUBLISH, CALL)
    assert plugin.calls[-5:] == [
        "Probe",
        "GetPluginInfo",
        "GetPluginCapabilities",
        "ControllerGetCapabilities",
        "ControllerPublishVolume",
    ]


@each_row(
    "after",
    [
        {"name": "other.csi.test"},
        {"name": ""},
        {"vendor_version": "1.1"},
        {"plugin": ()},
        {"plugin": (1, 2)},
        {"controller": (2, RPC.PUBLISH_READONLY)},
        {"controller": (2, 99)},
    ],
    ids=["name", "no-name", "version", "no-controller", "topology", "capability", "unknown-capability"],
)
@in_virtual_time
async def test_C4_a_driver_that_comes_back_changed_ends_the_session(after, log):
    kept = log()
    with raises_in_group(DriverChanged):
        async with running(Plugin()) as (session, line):
            line.cut()
            await settled()
            line.mend(Plugin(**after))
            await asyncio.sleep(10)
            pytest.fail(f"the session goes on, up: {session.is_up}")
    assert len(kept.records("CSI driver changed while it was away")) == 1


@in_virtual_time
async def test_a_driver_that_is_back_but_not_ready_gets_no_calls_until_it_is():
    async with running(Plugin()) as (session, line):
        line.cut()
        await settled()
        line.mend(Plugin(probe=failing(DriverError(Code.FAILED_PRECONDITION, "starting"))))
        await asyncio.sleep(100)
        assert not session.is_up
        assert await refusal(session)
        line.cut()
        line.mend(Plugin())
        await settled()
        assert session.is_up


@in_virtual_time
async def test_a_driver_that_is_back_and_fails_to_introduce_itself_is_asked_every_second(log):
    kept = log()
    async with running(Plugin()) as (session, line):
        line.cut()
        await settled()
        line.mend(Plugin(get_plugin_info=failing(DriverError(Code.INTERNAL, "no"))))
        await asyncio.sleep(9.5)
        assert not session.is_up
        assert len(kept.records("CSI driver is back, but does not introduce itself")) == 10
        line.mend(Plugin())
        await asyncio.sleep(1)
        assert session.is_up


@in_virtual_time
async def test_a_driver_that_is_replaced_while_it_introduces_itself_is_asked_again_from_the_start():
    """Else the name of one and the capabilities of the other would pass for the driver that was there."""
    clock = LoopClock()

    async def slow(request):
        await clock.sleep(0.5)
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": RPC.PUBLISH_UNPUBLISH_VOLUME}}])

    with raises_in_group(DriverChanged):
        async with running(Plugin()) as (session, line):
            line.cut()
            await settled()
            line.mend(Plugin(controller_get_capabilities=slow))
            await asyncio.sleep(0.1)
            line.cut()
            line.mend(Plugin(name="other.csi.test"))
            await asyncio.sleep(10)
            pytest.fail(f"the session goes on, up: {session.is_up}")


@in_virtual_time
async def test_CO05_when_the_callback_says_no_it_is_called_once_and_later_calls_are_refused():
    asked = []

    def no():
        asked.append(asyncio.get_running_loop().time())
        return stay_away()

    async with running(Plugin(), on_loss=no) as (session, line):
        await asyncio.sleep(5)
        line.cut()
        await asyncio.sleep(5)
        line.mend()
        await asyncio.sleep(5)
        assert await refusal(session) == "connection lost, reconnecting disabled"
        assert not session.is_up
    assert asked == [5]


@in_virtual_time
async def test_CO06_in_exit_mode_the_loss_ends_the_session_with_the_text_for_the_termination_log():
    with raises_in_group(DriverLost):
        async with running(Plugin(), on_loss=exit_on_loss) as (_, line):
            line.cut()
            await asyncio.sleep(10)
            pytest.fail("the session goes on")


@in_virtual_time
async def test_the_callback_is_asked_once_per_loss():
    asked = []

    def yes():
        asked.append("loss")
        return carry_on()

    async with running(Plugin(), on_loss=yes) as (_, line):
        for _ in range(3):
            line.cut()
            await settled()
            line.mend()
            await settled()
    assert asked == ["loss"] * 3


@in_virtual_time
async def test_a_call_under_way_when_the_driver_is_lost_is_let_run():
    """Its answer may still come (over gRPC: its error), and it is what tells whether the call happened."""
    clock = LoopClock()

    async def slow(request):
        await clock.sleep(3)
        return csi.ControllerPublishVolumeResponse(publish_context={"a": "b"})

    async with running(Plugin(controller_publish_volume=slow)) as (session, line), asyncio.TaskGroup() as group:
        call = group.create_task(session.driver.controller_publish_volume(PUBLISH, CALL), name="call")
        await asyncio.sleep(1)
        line.cut()
    assert dict(call.result().publish_context) == {"a": "b"}


@in_virtual_time
async def test_the_metrics_get_the_name_at_the_start():
    metrics = CallMetrics(Metrics().registry)
    await Session(Line(Plugin()), clock=LoopClock(), metrics=metrics).start()
    assert metrics.driver_name == "csi.test"


@each_row("seed", range(30))
def test_whatever_the_order_of_losses_only_the_identified_driver_gets_calls(seed):
    """Random cuts and mends, at random moments of probing; at the end the driver that was there from the start."""

    async def story():
        randomness, clock = Random(seed), LoopClock()

        async def slowly(request):
            await clock.sleep(randomness.uniform(0, 0.3))
            return csi.ProbeResponse()

        async with running(Plugin()) as (session, line):
            for _ in range(30):
                line.cut()
                await clock.sleep(randomness.uniform(0, 0.3) if randomness.happens(0.5) else 0)
                line.mend(Plugin(probe=slowly))
                await clock.sleep(randomness.uniform(0, 0.6) if randomness.happens(0.7) else 0)
            await clock.sleep(10)
            assert session.is_up
            line.cut()
            await settled()
            line.mend(Plugin(probe=slowly, name="other"))
            await clock.sleep(10)
            pytest.fail("the session goes on")

    with raises_in_group(DriverChanged):
        run_virtual(story(), seed)


# -- over a real socket


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["same-driver", "other-driver"])
async def test_CO04_W19_a_driver_restart_is_seen_without_a_call(socket, same):
    clock, back = LoopClock(), asyncio.Event()
    driver = WireDriver(str(socket), clock=clock)
    session = Session(driver, clock=clock)
    session.on_return(back.set)
    async with serving(socket, Plugin()):
        await driver.connect(5)
        await session.start()
    expected = contextlib.nullcontext() if same else raises_in_group(DriverChanged)
    with expected:
        async with (
            asyncio.timeout(10),
            serving(socket, Plugin(vendor_version="1.0" if same else "2.0")),
            asyncio.TaskGroup() as group,
        ):
            running_session = group.create_task(session.run(), name="session")
            await back.wait()
            assert (await session.driver.controller_publish_volume(PUBLISH, Call(5))).publish_context
            running_session.cancel()
    await driver.close()
