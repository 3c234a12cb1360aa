"""Calling a driver, the same over a socket and in process: answers, errors, deadlines, logs."""

import asyncio

import pytest

from mooring.base import fence
from mooring.base.metrics import Metrics
from mooring.csi.driver import RPCS, Call
from mooring.csi.errors import DriverError
from mooring.csi.metrics import CallMetrics
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.csi.servers import CALL, Plugin, failing, hanging

PUBLISH = "/csi.v1.Controller/ControllerPublishVolume"


def a_publish(**fields):
    return csi.ControllerPublishVolumeRequest(**{"volume_id": "v", "node_id": "n", **fields})


async def test_every_rpc_of_the_port_reaches_its_method_and_back(road):
    seen = []

    def method(rpc):
        async def answer(request):
            seen.append((rpc.attribute, type(request)))
            return rpc.response_type()

        return answer

    plugin = Plugin(**{attribute: method(rpc) for attribute, rpc in RPCS.items()})
    async with road(plugin) as driver:
        for attribute, rpc in RPCS.items():
            assert await getattr(driver, attribute)(rpc.request_type(), CALL) == rpc.response_type()
    assert seen == [(attribute, rpc.request_type) for attribute, rpc in RPCS.items()]


async def test_a_request_arrives_as_it_was_made(road):
    """With numbers and fields that only a newer version knows."""
    request = a_publish(
        volume_context={"ä": "\U0001f600", "": ""},
        secrets={"k": "v"},
        volume_capability={"access_mode": {"mode": 99}, "block": {}},
    )
    request.MergeFromString(b"\xfa\x07\x06future")
    arrived = []

    async def publish(request):
        arrived.append(request.SerializeToString(deterministic=True))
        return csi.ControllerPublishVolumeResponse.FromString(b"\xfa\x07\x06future")

    async with road(Plugin(controller_publish_volume=publish)) as driver:
        response = await driver.controller_publish_volume(request, CALL)
    assert arrived == [request.SerializeToString(deterministic=True)]
    assert response.SerializeToString() == b"\xfa\x07\x06future"


async def test_a_call_behind_a_closed_fence_does_not_reach_the_driver(road):
    """The outcome of the one before it stays open."""
    plugin = Plugin()
    async with road(plugin) as driver:
        plugin.calls.clear()
        with fence.behind(lambda: "the Lease may have run out"), pytest.raises(DriverError) as failed:
            await driver.probe(csi.ProbeRequest(), CALL)
        assert (Code.CANCELED, False, []) == (failed.value.code, failed.value.final, plugin.calls)
        assert "the call was not sent: the Lease may have run out" in failed.value.message
        with fence.behind(lambda: ""):
            await driver.probe(csi.ProbeRequest(), CALL)
        assert ["Probe"] == plugin.calls


@each_row("code", list(Code)[1:], ids=lambda code: code.name)
async def test_an_error_keeps_its_code_and_its_text(road, code):
    async with road(Plugin(probe=failing(DriverError(code, f"no {code}")))) as driver:
        with pytest.raises(DriverError) as failed:
            await driver.probe(csi.ProbeRequest(), CALL)
    assert (failed.value.code, failed.value.message) == (code, f"no {code}")


@each_row("text", ["", "ä \U0001f600", "100%25 full", "line\nline\t", "x" * 3000, "Deadline Exceeded"])
async def test_a_drivers_text_comes_as_it_is(road, text):
    async with road(Plugin(probe=failing(DriverError(Code.INTERNAL, text)))) as driver:
        with pytest.raises(DriverError) as failed:
            await driver.probe(csi.ProbeRequest(), CALL)
    assert failed.value.message == text


async def test_an_rpc_that_the_driver_has_not_is_Unimplemented(road):
    async with road(Plugin()) as driver:
        with pytest.raises(DriverError) as failed:
            await driver.list_volumes(csi.ListVolumesRequest(), CALL)
    assert str(failed.value) == "rpc error: code = Unimplemented desc = method ListVolumes not implemented"
    assert failed.value.final


async def test_a_late_call_ends_with_the_words_of_Go_and_is_cancelled_at_the_driver(road):
    """Users search for this text in attachError; that the call may have happened is told by its class."""
    started, cancelled = asyncio.Event(), asyncio.Event()
    async with road(Plugin(controller_publish_volume=hanging(started, cancelled))) as driver:
        with pytest.raises(DriverError) as failed:
            await driver.controller_publish_volume(a_publish(), Call(0.1))
        async with asyncio.timeout(5):
            await cancelled.wait()
    assert str(failed.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert not failed.value.final


@each_row("text", ["backend too slow", "Deadline Exceeded", "context deadline exceeded"])
async def test_a_deadline_of_the_drivers_own_keeps_its_text(road, text):
    async with road(Plugin(probe=failing(DriverError(Code.DEADLINE_EXCEEDED, text)))) as driver:
        with pytest.raises(DriverError) as failed:
            await driver.probe(csi.ProbeRequest(), CALL)
    assert (failed.value.code, failed.value.message) == (Code.DEADLINE_EXCEEDED, text)


async def test_who_is_cancelled_cancels_the_call(road):
    started, cancelled = asyncio.Event(), asyncio.Event()
    async with road(Plugin(probe=hanging(started, cancelled))) as driver, asyncio.timeout(5):
        async with asyncio.TaskGroup() as group:
            caller = group.create_task(driver.probe(csi.ProbeRequest(), CALL), name="caller")
            await started.wait()
            caller.cancel()
        assert caller.cancelled()
        await cancelled.wait()


async def test_neither_side_sees_what_the_other_does_to_its_message(road):
    kept = csi.ControllerPublishVolumeResponse(publish_context={"a": "1"})

    async def publish(request):
        request.volume_context["driver"] = "was here"
        request.volume_id = "other"
        return kept

    request = a_publish(volume_context={"a": "1"})
    async with road(Plugin(controller_publish_volume=publish)) as driver:
        response = await driver.controller_publish_volume(request, CALL)
        response.publish_context["a"] = "2"
        again = await driver.controller_publish_volume(request, CALL)
    assert request == a_publish(volume_context={"a": "1"})
    assert dict(again.publish_context) == dict(kept.publish_context) == {"a": "1"}


async def test_calls_run_side_by_side(road):
    met = asyncio.Barrier(20)

    async def publish(request):
        await met.wait()
        return csi.ControllerPublishVolumeResponse(publish_context={"id": request.volume_id})

    async with road(Plugin(controller_publish_volume=publish)) as driver:
        calls = [driver.controller_publish_volume(a_publish(volume_id=str(number)), CALL) for number in range(20)]
        answers = await asyncio.gather(*calls)
    assert [answer.publish_context["id"] for answer in answers] == [str(number) for number in range(20)]


# -- logs


async def test_LG01_each_call_is_logged_at_level_5_without_secrets(road, log):
    kept = log(verbosity=5)
    async with road(Plugin()) as driver:
        request = a_publish(secrets={"password": "hunter2"}, volume_context={"b": "2", "a": "1"})
        await driver.controller_publish_volume(request, CALL)
    call, response = kept.records("GRPC call"), kept.records("GRPC response")
    shown = '{"node_id":"n","secrets":"***stripped***","volume_context":{"a":"1","b":"2"},"volume_id":"v"}'
    assert [(r["v"], r["method"], r["request"]) for r in call] == [(5, PUBLISH, shown)]
    assert [(r["v"], r["response"], r["err"]) for r in response] == [
        (5, '{"publish_context":{"device":"/dev/x"}}', None)
    ]


async def test_LG01_a_failed_call_is_logged_with_its_error(road, log):
    kept = log(verbosity=5)
    async with road(Plugin(probe=failing(DriverError(Code.ABORTED, "busy")))) as driver:
        with pytest.raises(DriverError):
            await driver.probe(csi.ProbeRequest(), CALL)
    (response,) = kept.records("GRPC response")
    assert (response["response"], response["err"]) == ("{}", "rpc error: code = Aborted desc = busy")


async def test_LG02_below_level_5_there_are_no_lines_and_nothing_is_rendered(road, log, monkeypatch):
    def never(message):
        raise AssertionError("rendered for nobody")

    monkeypatch.setattr("mooring.csi.client.redacted", never)
    kept = log(verbosity=4)
    async with road(Plugin()) as driver:
        await driver.controller_publish_volume(a_publish(), CALL)
    assert "GRPC" not in kept.text


async def test_LG03_long_responses_are_cut_and_requests_are_not(road, log):
    kept = log(verbosity=5)
    async with road(Plugin(), log_length_max=10) as driver:
        await driver.controller_publish_volume(a_publish(volume_id="x" * 100), CALL)
        await driver.probe(csi.ProbeRequest(), CALL)
    publish, probe = kept.records("GRPC response")
    assert publish["response"] == '{"publish_ [response body too large, log capped to 10 chars]'
    assert probe["response"] == '{"ready":{ [response body too large, log capped to 10 chars]'
    assert "x" * 100 in kept.records("GRPC call")[0]["request"]


@each_row("length_max", [-1, 0, 39, 40])
async def test_LG03_short_responses_and_no_limit_leave_them_whole(road, log, length_max):
    kept = log(verbosity=5)
    async with road(Plugin(), log_length_max=length_max) as driver:
        await driver.controller_publish_volume(a_publish(), CALL)
    whole = '{"publish_context":{"device":"/dev/x"}}'
    assert len(whole) == 39
    assert kept.records("GRPC response")[0]["response"] == whole


async def test_calls_are_counted_on_both_roads(road):
    page = Metrics()
    async with road(Plugin(), metrics=CallMetrics(page.registry)) as driver:
        await driver.probe(csi.ProbeRequest(), CALL)
    text = page.render().decode()
    labels = 'driver_name="unknown-driver",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"'
    assert f"csi_sidecar_operations_seconds_count{{{labels}}} 1.0" in text
