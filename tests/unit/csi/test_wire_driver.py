"""What the client without a library does when the peer misbehaves: no call hangs, is sent twice, or leaves anything
behind.
"""

import asyncio
import contextlib
import functools
import os
import random

import hpack
import pytest

from mooring.base import fence
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc import link
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import LOST_TEXT
from tests.support.rows import each_row
from tests.unit.csi import raw_server as raw
from tests.unit.csi.faulty_server import door
from tests.unit.csi.servers import CALL, Plugin, serving

PROBE = csi.ProbeRequest()
RST_STREAM = 0x3


@contextlib.asynccontextmanager
async def connecting(path):
    """A driver, and the task of its connect(), which the test's peer lets succeed."""
    driver = WireDriver(str(path), clock=LoopClock())
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        yield driver, group.create_task(driver.connect(10), name="connect"), group
        await driver.close()


@contextlib.asynccontextmanager
async def a_peer(path):
    """A driver, its peer, the door of that, and a task group."""
    async with door(path) as opened, connecting(path) as (driver, connected, group):
        peer = await opened.settled()
        await connected
        yield driver, peer, opened, group


async def outcome(answer):
    """The answer, or its DriverError: a task of a group must not raise it."""
    try:
        return await answer
    except DriverError as error:
        return error


def probing(group, driver, call=CALL):
    return group.create_task(outcome(driver.probe(PROBE, call)), name="probe")


async def error_of(task):
    found = await task
    assert isinstance(found, DriverError)
    return found


async def goes_well(task):
    found = await task
    assert isinstance(found, csi.ProbeResponse), found
    return found


# -- how bytes come


async def test_answers_may_come_byte_by_byte(socket):
    async with door(socket) as opened, connecting(socket) as (driver, connected, group):
        peer = await opened.take_in()
        for byte in raw.frame(raw.SETTINGS, 0, 0, b"\x00\x03\x00\x00\x00\x64"):
            assert not connected.done()
            await peer.say(bytes((byte,)))
            await asyncio.sleep(0)
        await connected
        call = probing(group, driver)
        for byte in raw.answer(await peer.hear_call(), message=b"\x0a\x02\x08\x01"):
            assert not call.done()
            await peer.say(bytes((byte,)))
            await asyncio.sleep(0)
        assert (await goes_well(call)).ready.value


async def test_calls_of_one_turn_go_out_in_one_write(socket, monkeypatch):
    """One answer's wave of calls costs one system call, not one for each."""
    writes = []
    send = link.Link._sent
    monkeypatch.setattr(link.Link, "_sent", lambda self, data: writes.append(len(data)) or send(self, data))
    async with a_peer(socket) as (driver, peer, _, group):
        writes.clear()
        calls = [probing(group, driver) for _ in range(20)]
        for _ in calls:
            await peer.say(raw.answer(await peer.hear_call()))
        for call in calls:
            await goes_well(call)
    assert writes[0] > 20 * 9
    assert len(writes) <= 3  # the ACK of SETTINGS may go alone, and the last word does


async def test_a_fence_that_closes_while_a_call_waits_for_its_connection_keeps_the_call_back(socket):
    closed = [""]
    async with a_peer(socket) as (driver, peer, opened, group):
        peer.close()
        await driver.lost()
        with fence.behind(lambda: closed[0]):
            waiting = probing(group, driver)
        peer = await opened.take_in()
        closed[0] = "the Lease may have run out"
        await peer.settle()
        error = await error_of(waiting)
        assert (Code.CANCELED, "the call was not sent: the Lease may have run out") == (error.code, error.message)
        call = probing(group, driver)
        await peer.say(raw.answer(await peer.hear_call()))
        await goes_well(call)


async def test_a_fence_that_closes_while_a_call_waits_for_the_drivers_room_keeps_the_call_back(socket):
    """After a stop of the process the answer that makes the room lies ready, before anything could cancel who waits."""
    closed = [""]
    async with door(socket) as opened, connecting(socket) as (driver, connected, group):
        peer = await opened.take_in()
        await peer.settle(b"\x00\x03\x00\x00\x00\x01")  # one stream at a time
        await connected
        first = probing(group, driver)
        stream = await peer.hear_call()
        with fence.behind(lambda: closed[0]):
            waiting = probing(group, driver)
        last = probing(group, driver)
        await asyncio.sleep(0.01)
        closed[0] = "the Lease may have run out"
        await peer.say(raw.answer(stream))
        await goes_well(first)
        error = await error_of(waiting)
        assert (Code.CANCELED, "the call was not sent: the Lease may have run out") == (error.code, error.message)
        assert not error.final
        assert stream + 4 == await peer.hear_call()
        await peer.say(raw.answer(stream + 4))
        await goes_well(last)


async def test_a_call_behind_a_fence_is_sent_in_the_turn_that_asked_the_fence(socket, monkeypatch):
    """Between the two the process could be stopped."""
    writes = []
    send = link.Link._sent
    monkeypatch.setattr(link.Link, "_sent", lambda self, data: writes.append(len(data)) or send(self, data))
    written = []

    def asked():
        writes.clear()
        asyncio.get_running_loop().call_soon(lambda: written.append(len(writes)))
        return ""

    async with a_peer(socket) as (driver, peer, _, group):
        with fence.behind(asked):
            call = probing(group, driver)
        await peer.say(raw.answer(await peer.hear_call()))
        await goes_well(call)
    assert 1 == written[-1]


# -- the connection breaks, or ends


@pytest.mark.parametrize("cut_at", [1, 9, 12, 40, -1])
async def test_an_answer_that_breaks_off_is_Unavailable(socket, cut_at):
    async with a_peer(socket) as (driver, peer, opened, group):
        call = probing(group, driver)
        await peer.say(raw.answer(await peer.hear_call())[:cut_at])
        peer.close()
        error = await error_of(call)
        assert (error.code, error.message, error.answered, error.unsent) == (Code.UNAVAILABLE, LOST_TEXT, False, False)
        assert not driver.is_connected
        again = probing(group, driver)
        peer = await opened.settled()
        await peer.say(raw.answer(await peer.hear_call()))
        await goes_well(again)


async def test_an_answer_that_came_before_the_break_is_heard(socket):
    """The peer answers and closes while the client writes: the broken pipe is noticed first."""
    async with a_peer(socket) as (driver, peer, _, group):
        call = probing(group, driver)
        stream = await peer.hear_call()
        late = probing(group, driver)
        await asyncio.sleep(0)  # it is written in the next turn, before anything is read
        await peer.say(raw.answer(stream))
        peer.close()
        await goes_well(call)
        assert (await error_of(late)).code == Code.UNAVAILABLE


async def test_calls_that_the_driver_has_accepted_go_on_after_GOAWAY_and_later_ones_take_another_connection(socket):
    async with a_peer(socket) as (driver, peer, opened, group):
        accepted, refused = probing(group, driver), probing(group, driver)
        lost = group.create_task(driver.lost(), name="lost")
        stream = await peer.hear_call()
        assert await peer.hear_call() == stream + 2
        await peer.say(raw.frame(raw.GOAWAY, 0, 0, stream.to_bytes(4) + bytes(4)))
        assert (await error_of(refused)).code == Code.UNAVAILABLE
        await lost
        assert not driver.is_connected
        later = probing(group, driver)
        successor = await opened.settled()
        assert await successor.hear_call() == 1
        await successor.say(raw.answer(1))
        await goes_well(later)
        assert not accepted.done()
        await peer.say(raw.answer(stream))
        await goes_well(accepted)
        await peer.hear_the_end()
        assert driver.is_connected


async def test_a_late_call_ends_a_connection_that_is_being_left(socket):
    async with a_peer(socket) as (driver, peer, _, group):
        call = probing(group, driver, Call(0.2))
        stream = await peer.hear_call()
        await peer.say(raw.frame(raw.GOAWAY, 0, 0, stream.to_bytes(4) + bytes(4)))
        assert (await error_of(call)).code == Code.DEADLINE_EXCEEDED
        _, _, of, code = await peer.hear_until(RST_STREAM)
        assert (of, code) == (stream, (8).to_bytes(4))
        await peer.hear_the_end()
        assert not driver.is_connected


async def test_a_connection_whose_calls_are_used_up_is_left_for_another(socket, monkeypatch):
    monkeypatch.setattr(link, "Connection", functools.partial(link.Connection, stream_ids_end=7))
    async with raw.raw_server(socket) as server:
        streams = []
        server.reply = lambda stream: streams.append(stream) or raw.answer(stream)
        driver = WireDriver(str(socket), clock=LoopClock())
        await driver.connect(5)
        for _ in range(7):
            await driver.probe(PROBE, CALL)
        assert streams == [1, 3, 5, 1, 3, 5, 1]
        async with asyncio.timeout(5):
            await asyncio.gather(*(driver.probe(PROBE, CALL) for _ in range(6)))
        await driver.close()
    assert sorted(streams[7:]) == [1, 1, 3, 3, 5, 5]


async def test_a_connection_that_ends_after_its_calls_cancels_none(socket):
    async with a_peer(socket) as (driver, peer, _, group):
        call = probing(group, driver)
        stream = await peer.hear_call()
        await driver.close_after_calls()
        assert driver.is_connected
        await peer.say(raw.answer(stream))
        await goes_well(call)
        await peer.hear_until(raw.GOAWAY)
        assert not driver.is_connected
        assert (await error_of(probing(group, driver))).code == Code.CANCELED


async def test_a_connection_without_calls_ends_at_once(socket):
    async with a_peer(socket) as (driver, peer, _, _):
        await driver.close_after_calls()
        await peer.hear_until(raw.GOAWAY)
        assert not driver.is_connected


async def test_a_peer_that_does_not_speak_http_ends_its_calls_and_not_the_client(socket, log):
    kept = log()
    async with a_peer(socket) as (driver, peer, opened, group):
        call = probing(group, driver)
        stream = await peer.hear_call()
        await peer.say(raw.frame(raw.DATA, 0, 0, b"for no stream"))
        error = await error_of(call)
        assert error.code == Code.UNAVAILABLE
        assert error.message.startswith("error reading from server: ")
        await peer.hear_until(raw.GOAWAY)
        again = probing(group, driver)
        peer = await opened.settled()
        assert await peer.hear_call() == stream
        await peer.say(raw.answer(stream))
        await goes_well(again)
    assert len(kept.records("The server's bytes are no HTTP/2, or too many: ending the connection")) == 1


# -- connecting


async def test_a_peer_that_hangs_up_before_it_has_spoken_is_told_in_Gos_words(socket):
    async with door(socket) as opened, asyncio.timeout(10), asyncio.TaskGroup() as group:
        driver = WireDriver(str(socket), clock=LoopClock())
        connected = group.create_task(outcome(driver.connect(5)), name="connect")
        (await opened.take_in()).close()
        await asyncio.sleep(0.05)
        error = await error_of(outcome(driver.probe(PROBE, CALL)))
        assert error.message == 'connection error: desc = "error reading server preface: EOF"'
        peer = await opened.settled()
        await connected
        peer.close()
        await driver.lost()
        waits = probing(group, driver)  # nothing has failed since
        peer = await opened.settled()
        await peer.say(raw.answer(await peer.hear_call()))
        await goes_well(waits)
        await driver.close()


@pytest.mark.slow
async def test_a_peer_that_says_nothing_is_called_anew_after_a_second(socket):
    async with door(socket) as opened, connecting(socket) as (driver, connected, group):
        silent = await opened.take_in()
        call = probing(group, driver)
        await silent.hear_the_end()
        assert (await error_of(call)).message == 'connection error: desc = "error reading server preface: i/o timeout"'
        await opened.settled()
        await connected


async def test_a_driver_hears_only_of_the_time_that_is_left_once_there_is_a_connection(socket):
    async with door(socket) as opened, connecting(socket) as (driver, connected, group):
        peer = await opened.take_in()
        call = probing(group, driver, Call(10.0))
        await asyncio.sleep(0.3)
        await peer.settle()
        await connected
        headers = dict(hpack.Decoder().decode((await peer.hear_until(raw.HEADERS))[3]))
        value, unit = int(headers["grpc-timeout"][:-1]), headers["grpc-timeout"][-1]
        assert value * {"S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}[unit] <= 9.7
        await peer.say(raw.answer(await peer.hear_call()))
        await goes_well(call)


async def test_a_peer_that_hangs_up_all_the_time_is_called_with_a_growing_pause(socket):
    async with door(socket) as opened, asyncio.TaskGroup() as group:
        loop = asyncio.get_running_loop()
        taken = []

        async def hang_up():
            while True:
                (await opened.take_in()).close()
                taken.append(loop.time())

        hanging_up = group.create_task(hang_up(), name="hang-up")
        with pytest.raises(ConfigError):
            await WireDriver(str(socket), clock=LoopClock()).connect(0.75)
        hanging_up.cancel()
    assert len(taken) <= 4  # at 0, 0.1, 0.3 and 0.7 s


async def test_a_driver_that_hangs_up_once_it_has_spoken_is_called_no_more_than_ten_times_a_second(socket):
    """As `Session` waits for it: reconnected, lost, and reconnected again."""
    async with door(socket) as opened, asyncio.TaskGroup() as group:
        loop = asyncio.get_running_loop()

        async def hang_up():
            while True:
                with contextlib.suppress(ConnectionError):
                    peer = await opened.settled()
                    await peer.hear_until(raw.SETTINGS, raw.ACK)
                    peer.close()

        hanging_up = group.create_task(hang_up(), name="hang-up")
        driver = WireDriver(str(socket), clock=LoopClock())
        await driver.connect(5)
        began = loop.time()
        for _ in range(4):
            await driver.lost()
            await driver.reconnected()
        assert loop.time() - began > 0.3
        await driver.close()
        hanging_up.cancel()


async def test_a_full_backlog_is_waited_for(socket):
    """The system refuses to connect at once; asyncio's own way takes that for a connection."""
    async with door(socket, backlog=0) as opened, connecting(socket) as (driver, connected, group):
        peer = await opened.settled()
        await connected
        peer.close()
        await driver.lost()
        others = [WireDriver(str(socket), clock=LoopClock()) for _ in range(3)]
        waiting = [group.create_task(other.connect(10), name="other") for other in others]
        await asyncio.sleep(0)
        error = await error_of(outcome(driver.probe(PROBE, CALL)))
        assert (error.code, error.unsent) == (Code.UNAVAILABLE, True)
        assert error.message.endswith('connect: resource temporarily unavailable"')
        back = group.create_task(driver.reconnected(), name="back")
        taking = group.create_task(take_all(opened), name="take")
        await asyncio.gather(back, *waiting)
        taking.cancel()
        for other in others:
            await other.close()


async def take_all(opened):
    while True:
        await opened.settled()


@pytest.mark.parametrize("settles", [False, True], ids=["connecting", "connected"])
async def test_who_waits_for_a_connection_hears_that_the_client_is_closed(socket, settles):
    async with door(socket) as opened, asyncio.TaskGroup() as group:
        driver = WireDriver(str(socket), clock=LoopClock())
        connected = group.create_task(outcome(driver.connect(10)), name="connect")
        peer = await opened.take_in()
        if settles:
            await peer.settle()
            await connected
        call = probing(group, driver)
        await asyncio.sleep(0)
        await driver.close()
        error = await error_of(call)
        assert (error.code, error.message) == (Code.CANCELED, "grpc: the client connection is closing")
        if not settles:
            assert (await error_of(connected)).code == Code.CANCELED
        await peer.hear_the_end()
        await asyncio.sleep(0.15)
        assert not opened.has_guest(), "a client that is closed connects no more"


async def test_closing_ends_calls_on_a_connection_that_is_being_left(socket):
    async with a_peer(socket) as (driver, peer, _, group):
        call = probing(group, driver)
        stream = await peer.hear_call()
        await peer.say(raw.frame(raw.GOAWAY, 0, 0, stream.to_bytes(4) + bytes(4)))
        await driver.lost()
        await driver.close()
        assert (await error_of(call)).code == Code.CANCELED
        await peer.hear_the_end()


# -- a driver that does not read


async def test_a_driver_that_does_not_read_costs_a_bounded_amount_of_memory(socket):
    """Calls that would only lie in wait are not begun; they end at their deadlines, and go out once the driver reads
    again.
    """
    async with a_peer(socket) as (driver, peer, _, group):
        request = csi.CreateVolumeRequest(name="n" * 1_000_000)
        calls = [group.create_task(outcome(driver.create_volume(request, Call(0.3))), name="call") for _ in range(100)]
        errors = await asyncio.gather(*calls)
        assert {str(error) for error in errors} == {
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        }
        assert driver.socket._link is not None
        assert driver.socket._link._begun_bytes < link.CROWDED_BYTES + 2_000_000
        begun = []

        async def read_on():
            while True:
                begun.append(await peer.hear_call())
                await peer.say(raw.answer(begun[-1]))

        reading = group.create_task(read_on(), name="read")
        await driver.create_volume(request, CALL)
        reading.cancel()
        assert len(begun) < 15


async def test_who_waits_for_a_driver_that_does_not_read_hears_of_its_end(socket):
    """They connect anew, to its successor for example, and do not wait until their time is over."""
    async with a_peer(socket) as (driver, peer, opened, group):
        request = csi.CreateVolumeRequest(name="n" * 1_000_000)
        calls = [group.create_task(outcome(driver.create_volume(request, CALL)), name="call") for _ in range(20)]
        await asyncio.sleep(0.1)
        waiting = probing(group, driver)
        await asyncio.sleep(0)
        assert driver.socket._link.is_crowded
        peer.close()
        opened.close()
        async with asyncio.timeout(CALL.timeout_s / 2):
            assert Code.UNAVAILABLE == (await error_of(waiting)).code
            assert {Code.UNAVAILABLE} == {error.code for error in await asyncio.gather(*calls)}


async def test_nothing_is_left_at_the_loop_of_a_connection_that_ended_while_it_was_written_to(socket):
    """Its descriptor's number goes to the next file that is opened."""
    async with a_peer(socket) as (driver, _, _, group):
        request = csi.CreateVolumeRequest(name="n" * 1_000_000)
        call = group.create_task(outcome(driver.create_volume(request, CALL)), name="call")
        await asyncio.sleep(0.1)
        assert driver.socket._link._rest
        descriptor = driver.socket._link._socket.fileno()
        await driver.close()
        await error_of(call)
        loop = asyncio.get_running_loop()
        assert (False, False) == (loop.remove_reader(descriptor), loop.remove_writer(descriptor))


async def test_a_driver_that_pings_and_does_not_read_is_left(socket):
    async with a_peer(socket) as (driver, peer, _, group):
        request = csi.CreateVolumeRequest(name="n" * 1_000_000)
        fill = group.create_task(outcome(driver.create_volume(request, CALL)), name="fill")
        flood = raw.frame(raw.PING, 0, 0, bytes(8)) * 1000
        lost = group.create_task(driver.lost(), name="lost")
        with contextlib.suppress(ConnectionError):
            while not lost.done():
                await peer.say(flood)
        await lost
        assert (await error_of(fill)).code == Code.UNAVAILABLE


# -- giving up


async def test_a_call_that_is_given_up_in_the_turn_it_began_is_ended_at_the_driver_too(socket):
    async with a_peer(socket) as (driver, peer, _, group):
        call = probing(group, driver)
        await asyncio.sleep(0)
        call.cancel()
        stream = await peer.hear_call()
        assert (await peer.hear_until(RST_STREAM))[2] == stream
        await peer.say(raw.answer(stream))  # it was on its way
        again = probing(group, driver)
        await peer.say(raw.answer(await peer.hear_call()))
        await goes_well(again)


async def test_a_call_that_is_given_up_before_there_is_a_connection_is_never_sent(socket):
    async with door(socket) as opened, connecting(socket) as (driver, connected, group):
        peer = await opened.take_in()
        call = probing(group, driver)
        await asyncio.sleep(0.05)
        call.cancel()
        await peer.settle()
        await connected
        again = probing(group, driver)
        assert await peer.hear_call() == 1
        await peer.say(raw.answer(1))
        await goes_well(again)


async def test_a_late_answer_and_a_deadline_in_one_turn_end_the_call_once(socket):
    async with a_peer(socket) as (driver, peer, _, group):
        for _ in range(30):
            call = probing(group, driver, Call(0.01))
            stream = await peer.hear_call()
            await asyncio.sleep(0.0095)
            await peer.say(raw.answer(stream))
            await call
        last = probing(group, driver)
        await peer.say(raw.answer(await peer.hear_call()))
        await goes_well(last)


@each_row("text", ["stream terminated by RST_STREAM with error code: CANCEL"])
async def test_a_call_that_the_driver_breaks_off_is_late_only_at_its_deadline(socket, text):
    async with a_peer(socket) as (driver, peer, _, group):
        early = probing(group, driver, Call(5.0))
        await peer.say(raw.frame(RST_STREAM, 0, await peer.hear_call(), (8).to_bytes(4)))
        error = await error_of(early)
        assert (error.code, error.message) == (Code.CANCELED, text)
        late = probing(group, driver, Call(0.2))
        stream = await peer.hear_call()
        await asyncio.sleep(0.18)
        await peer.say(raw.frame(RST_STREAM, 0, stream, (8).to_bytes(4)))
        assert str(await error_of(late)) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


# -- all of it at random


class Relay:
    """Stands between a client and a server: passes bytes on in pieces, now and then with a pause, and cuts
    connections.
    """

    def __init__(self, seed, to):
        self._random, self._to = random.Random(seed), to
        self.cuts = 0

    async def serve(self, reader, writer):
        tasks = []
        try:
            onward_reader, onward_writer = await asyncio.open_unix_connection(self._to)
            budget = [self._random.randrange(200, 200_000)]
            async with asyncio.TaskGroup() as group:
                for source, sink in ((reader, onward_writer), (onward_reader, writer)):
                    tasks.append(group.create_task(self._pass_on(source, sink, budget), name="relay"))
        except* (OSError, EOFError):
            self.cuts += 1
        finally:
            for one in (writer, onward_writer):
                one.transport.abort()

    async def _pass_on(self, source, sink, budget):
        while data := await source.read(self._random.choice((1, 9, 100, 65536))):
            budget[0] -= len(data)
            if budget[0] < 0:
                raise EOFError
            sink.write(data)
            if self._random.random() < 0.05:
                await asyncio.sleep(self._random.random() / 200)
            await sink.drain()
        raise EOFError


@pytest.mark.slow
@each_row("seed", range(6))
async def test_whatever_is_cut_each_call_ends_once_with_its_own_answer_or_as_Unavailable(socket, seed):
    chance, carried_out = random.Random(seed), []

    async def publish(request):
        carried_out.append(request.volume_id)
        await asyncio.sleep(0)
        return csi.ControllerPublishVolumeResponse(
            publish_context={"id": request.volume_id, "size": "x" * chance.randrange(5000)}
        )

    behind = socket.with_name("behind.sock")
    relay = Relay(seed, str(behind))
    descriptors = len(os.listdir("/proc/self/fd"))
    answered, failed = [], []
    async with serving(behind, Plugin(controller_publish_volume=publish)):
        server = await asyncio.start_unix_server(relay.serve, socket)
        driver = WireDriver(str(socket), clock=LoopClock())
        await driver.connect(5)

        async def caller(name):
            for number in range(40):
                volume = f"{name}-{number}"
                request = csi.ControllerPublishVolumeRequest(
                    volume_id=volume, volume_context={"size": "y" * chance.randrange(5000)}
                )
                try:
                    answer = await driver.controller_publish_volume(request, Call(10.0))
                except DriverError as error:
                    failed.append((volume, error.code))
                    await asyncio.sleep(0.01)
                else:
                    assert answer.publish_context["id"] == volume
                    answered.append(volume)

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for name in range(8):
                group.create_task(caller(name), name=f"caller/{name}")
        await driver.close()
        server.close()
        await server.wait_closed()
    assert len(answered) + len(failed) == 320
    assert {code for _, code in failed} <= {Code.UNAVAILABLE}
    assert len(carried_out) == len(set(carried_out)), "a call was sent twice"
    assert set(answered) <= set(carried_out)
    assert relay.cuts > 3
    assert len(answered) > 50
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 8
