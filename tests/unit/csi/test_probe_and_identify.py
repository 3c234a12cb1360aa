"""The first calls to a driver, in virtual time."""

import asyncio

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import DriverInfo, ProbeLimits, probe_and_identify
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.csi.servers import Plugin

pytestmark = in_virtual_time
READY = csi.ProbeResponse(ready={"value": True})
NOT_READY = csi.ProbeResponse(ready={"value": False})
ABSENT = csi.ProbeResponse()
NAMED = csi.GetPluginInfoResponse(name="csi.test", vendor_version="1.0")


def now():
    return asyncio.get_running_loop().time()


def error(code, message="no"):
    return DriverError(code, message)


class Takes:
    """A step: the answer comes after so many seconds."""

    def __init__(self, seconds, answer):
        self.seconds = seconds
        self.answer = answer


def scripted(*steps):
    """A method that takes these steps, the last one again and again. Its `times` are when it was called."""
    times = []

    async def method(request):
        step = steps[min(len(times), len(steps) - 1)]
        times.append(now())
        if isinstance(step, Takes):
            await asyncio.sleep(step.seconds)
            step = step.answer
        if isinstance(step, Exception):
            raise step
        return step

    method.times = times
    return method


async def identified(plugin, **limits):
    clock = LoopClock()
    return await probe_and_identify(InProcessDriver(plugin, clock=clock), clock=clock, limits=ProbeLimits(**limits))


@each_row("answer", [READY, ABSENT], ids=["true", "absent"])
async def test_PR01_ready_or_absent_is_ready_after_exactly_one_probe(answer):
    probe = scripted(answer)
    await identified(Plugin(probe=probe))
    assert probe.times == [0]


async def test_PR02_not_ready_twice_then_ready_takes_three_probes_a_second_apart():
    probe = scripted(NOT_READY, NOT_READY, READY)
    plugin = Plugin(probe=probe)
    await identified(plugin)
    assert probe.times == [0, 1, 2]
    assert plugin.calls[0] == "GetPluginInfo"


@pytest.mark.parametrize(
    "late", [error(Code.DEADLINE_EXCEEDED), Takes(60, READY)], ids=["the-drivers-code", "our-deadline"]
)
async def test_PR03_DeadlineExceeded_then_ok_is_ready(late):
    probe = scripted(late, READY)
    await identified(Plugin(probe=probe), probe_timeout_s=15)
    assert probe.times == [0, 15 if isinstance(late, Takes) else 1]


async def test_a_Probe_without_an_answer_is_told_while_it_lasts(log):
    """Issue 27, B: nothing was seen of a driver that hangs for 15 s."""
    kept, words = log(), "Waiting for the CSI driver's answer to Probe"
    asking = asyncio.create_task(identified(Plugin(probe=scripted(Takes(60, READY), READY)), probe_timeout_s=15))
    await asyncio.sleep(1.9)
    assert words not in kept.stream.getvalue()
    await asyncio.sleep(0.2)
    assert words in kept.stream.getvalue()
    await asking
    assert 1 == kept.stream.getvalue().count(words), "an answer ends it"


@pytest.mark.parametrize("code", [Code.FAILED_PRECONDITION, Code.UNAVAILABLE])
async def test_PR04_a_driver_that_is_not_there_yet_is_asked_again(code):
    """C5. The peer exits."""
    probe = scripted(error(Code.DEADLINE_EXCEEDED), error(code), READY)
    await identified(Plugin(probe=probe))
    assert probe.times == [0, 1, 2]


async def test_probing_goes_on_for_as_long_as_the_driver_says_that_it_is_not_ready():
    probe = scripted(*[NOT_READY] * 1000, READY)
    await identified(Plugin(probe=probe))
    assert len(probe.times) == 1001


async def test_waiting_is_said_once_per_reason(log):
    kept = log()
    await identified(
        Plugin(probe=scripted(NOT_READY, NOT_READY, NOT_READY, error(Code.UNAVAILABLE, "backend"), NOT_READY, READY))
    )
    reasons = [record["reason"] for record in kept.records("CSI driver is not ready")]
    assert reasons == ["it says so", "rpc error: code = Unavailable desc = backend", "it says so"]


@each_row("code", sorted(set(Code) - {0, 4, 9, 12, 14}), ids=lambda code: code.name)
async def test_any_other_code_of_Probe_ends_it(code, log):
    kept = log()
    with pytest.raises(DriverError) as failed:
        await identified(Plugin(probe=scripted(error(code))))
    assert failed.value.code == code
    assert [record["err"] for record in kept.records("CSI driver probe failed")] == [str(failed.value)]


async def test_a_driver_without_Probe_is_ready_with_a_warning(log):
    kept = log()
    probe = scripted(error(Code.UNIMPLEMENTED))
    assert (await identified(Plugin(probe=probe))).name == "csi.test"
    assert len(probe.times) == 1
    assert len(kept.records("CSI driver has no Probe, it is taken as ready")) == 1


async def test_CP01_odd_capability_entries_are_skipped_and_unknown_ones_kept():
    plugin = csi.GetPluginCapabilitiesResponse(
        capabilities=[{}, {"service": {"type": 77}}, {"volume_expansion": {"type": 1}}, {"service": {"type": 1}}]
    )
    rpcs = csi.ControllerGetCapabilitiesResponse(
        capabilities=[{}, {"rpc": {"type": 99}}, {"rpc": {"type": 2}}, {"rpc": {"type": 2}}]
    )
    info = await identified(
        Plugin(get_plugin_capabilities=scripted(plugin), controller_get_capabilities=scripted(rpcs))
    )
    assert info == DriverInfo("csi.test", "1.0", frozenset({1, 77}), frozenset({1}), frozenset({2, 99}))


async def test_CP02_a_driver_without_a_name_is_refused():
    plugin = Plugin(name="")
    with pytest.raises(ConfigError, match=r"^driver name is empty$") as failed:
        await identified(plugin)
    assert failed.value.exit_code == 1
    assert plugin.calls == ["Probe", "GetPluginInfo"]


FORBIDDEN = [
    "Ugly_Name!",
    "a" * 74,
    "a" * 64,
    "-a",
    "a.",
    ".",
    "a b",
    "ä.example.com",
    "test!driver/foo",
    "driver\\",
    "a\n",
]


@each_row("name", FORBIDDEN)
async def test_27a5_a_driver_whose_name_CSI_forbids_is_taken_with_a_warning_as_in_Go(name, capsys):
    assert name == (await identified(Plugin(name=name))).name
    warned = capsys.readouterr().err
    assert "must have 1 to 63 characters" in warned
    assert "letters and digits, with dashes and dots between them" in warned
    assert (len(name) > 63) == (f"(this one has {len(name)})" in warned)


@each_row("name", ["a", "a" * 63, "A.B-c.0", "0", "csi.example.com", "a--b..c"])
async def test_27a5_what_CSI_allows_is_taken_without_a_word(name, capsys):
    assert name == (await identified(Plugin(name=name))).name
    assert "not allowed by CSI" not in capsys.readouterr().err


async def test_the_controller_is_not_asked_where_there_is_none():
    plugin = Plugin(plugin=())
    assert (await identified(plugin)).controller == frozenset()
    assert plugin.calls == ["Probe", "GetPluginInfo", "GetPluginCapabilities"]


@pytest.mark.parametrize("method", ["get_plugin_info", "get_plugin_capabilities", "controller_get_capabilities"])
async def test_C6_a_short_call_that_is_late_is_made_again_a_second_later(method):
    """The peer exits after one second; a driver that is slow at boot then loops."""
    good = await getattr(Plugin(), method)(None)
    asked = scripted(Takes(100, good), error(Code.UNAVAILABLE), Takes(0.9, good))
    info = await identified(Plugin(**{method: asked}))
    assert asked.times == [0, 1, 2]
    assert info == await identified(Plugin())


async def test_C6_the_budget_ends_the_asking():
    asked = scripted(Takes(100, NAMED))
    with pytest.raises(DriverError, match="context deadline exceeded"):
        await identified(Plugin(get_plugin_info=asked), budget_s=30)
    assert len(asked.times) == 30
    assert now() == 30


async def test_C6_the_budget_is_one_for_all_short_calls_and_begins_when_the_driver_is_ready():
    probe = scripted(*[NOT_READY] * 100, READY)
    first = scripted(*[error(Code.UNAVAILABLE)] * 20, NAMED)
    second = scripted(error(Code.UNAVAILABLE))
    with pytest.raises(DriverError):
        await identified(Plugin(probe=probe, get_plugin_info=first, get_plugin_capabilities=second), budget_s=30)
    assert now() == 130


@each_row("code", [Code.INTERNAL, Code.UNIMPLEMENTED, Code.PERMISSION_DENIED])
async def test_an_error_that_does_not_pass_ends_the_asking(code):
    asked = scripted(error(code))
    with pytest.raises(DriverError):
        await identified(Plugin(controller_get_capabilities=asked))
    assert len(asked.times) == 1
