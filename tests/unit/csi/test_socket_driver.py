"""The road over a unix socket: its beginning, its breaks, and answers that no driver should give."""

import asyncio
import contextlib
import inspect
import socket as sockets

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.stream import MESSAGE_BYTES_MAX
from tests.support.rows import each_row
from tests.unit.csi import raw_server as raw
from tests.unit.csi.servers import CALL, Plugin, answering, hanging, serving

PROBE = csi.ProbeRequest()


def now():
    return asyncio.get_running_loop().time()


@pytest.fixture
def a_driver():
    """Makes a driver that is not connected: a_driver(address, **options)."""

    def make(address, **options):
        return WireDriver(str(address), clock=LoopClock(), **options)

    return make


@pytest.fixture
def opened(a_driver):
    """Connects a driver for a block: opened(address, timeout_s=5.0, **options)."""

    @contextlib.asynccontextmanager
    async def open_driver(address, timeout_s=5.0, **options):
        driver = a_driver(address, **options)
        await driver.connect(timeout_s)
        try:
            yield driver
        finally:
            await driver.close()

    return open_driver


# -- connecting


@pytest.mark.parametrize("prefix", ["", "unix://", "unix:///"])
async def test_CO01_connects_by_path_and_by_unix_address(opened, socket, prefix):
    async with serving(socket, Plugin()), opened(f"{prefix}{socket}") as driver:
        assert (await driver.get_plugin_info(csi.GetPluginInfoRequest(), CALL)).name == "csi.test"


async def test_CO01_a_path_with_all_sorts_of_characters(opened, a_driver, socket):
    path = socket.with_name("ä %20#?&.sock")
    listener = sockets.socket(sockets.AF_UNIX)  # grpcio's server takes a URI too, so the socket is made without it
    with listener:
        listener.bind(str(path))
        listener.listen()
        await (driver := a_driver(path)).close()
        assert driver.socket.path == str(path)
    path.unlink()
    async with raw.raw_server(path), opened(path) as driver:
        await driver.probe(PROBE, CALL)


@pytest.mark.slow
async def test_CO02_a_server_that_appears_later_is_found_within_about_a_second(a_driver, socket, log):
    kept = log()
    driver = a_driver(socket, notice_s=0.2)
    async with asyncio.TaskGroup() as group:
        connecting = group.create_task(driver.connect(10), name="connect")
        while "Still connecting" not in kept.text:  # noqa: ASYNC110 (the log is where it is told)
            await asyncio.sleep(0.02)
        assert not connecting.done()
        async with serving(socket, Plugin()):
            began = now()
            await connecting
            assert now() - began < 15
            await driver.probe(PROBE, CALL)
            await driver.close()


@pytest.mark.slow
async def test_CO03_without_a_server_the_limit_ends_it(a_driver, socket, log):
    kept = log()
    began = now()
    with pytest.raises(ConfigError) as failed:
        await a_driver(socket, notice_s=0.2).connect(0.5)
    assert 0.45 < now() - began < 10
    reason = "the socket does not exist yet: is the driver running, and is the folder of its socket mounted here too?"
    what = f"no connection to the CSI driver at {str(socket)!r} within 0.5 s: {reason}"
    assert str(failed.value) == f"{what}; start the driver, or name its socket with --csi-address"
    assert failed.value.exit_code == 1
    notices = kept.records("Still connecting")
    assert [(record["v"], record["reason"]) for record in notices] == [(0, reason)] * 2


@pytest.mark.slow
async def test_the_first_word_about_a_missing_socket_comes_within_two_seconds(a_driver, socket, log):
    kept = log()
    with pytest.raises(ConfigError):
        await a_driver(socket).connect(2.0)
    assert len(kept.records("Still connecting")) == 1


def test_CO03_by_default_it_waits_30_seconds_and_says_so_every_10():
    assert inspect.signature(WireDriver.connect).parameters["timeout_s"].default == 30.0
    assert (WireDriver.__init__.__kwdefaults__ or {})["notice_s"] == 10.0


@pytest.mark.parametrize("address", ["localhost:1234", "dns:///x", "relative/path"])
def test_CO07_only_unix_sockets(a_driver, address):
    with pytest.raises(ConfigError, match="OnConnectionLoss callback only supported for unix:// addresses"):
        a_driver(address)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_text("hello"), "it is a file, not a socket"),
        (lambda path: path.mkdir(), "it is a folder, not a socket"),
        (lambda path: sockets.socket(sockets.AF_UNIX).bind(str(path)), "the socket is there, but nobody listens on it"),
    ],
    ids=["file", "folder", "dead-socket"],
)
@pytest.mark.filterwarnings("ignore:unclosed")
async def test_what_is_in_the_sockets_place_is_named(a_driver, socket, make, reason):
    make(socket)
    with pytest.raises(ConfigError, match=reason):
        await a_driver(socket).connect(0.05)


async def test_somebody_who_does_not_speak_grpc_is_told_from_nobody(a_driver, socket):
    first_messages = []

    def probe_and_identify(reader, writer):
        writer.write(b"220 mail.example.com ESMTP\r\n")
        first_messages.append(writer)

    async with await asyncio.start_unix_server(probe_and_identify, socket):
        with pytest.raises(ConfigError, match="somebody listens there, but does not speak gRPC"):
            await a_driver(socket).connect(0.2)
        for writer in first_messages:
            writer.close()


# -- the connection breaks


@pytest.mark.slow
async def test_CO04_after_a_loss_calls_fail_at_once_and_work_again_when_the_server_is_back(a_driver, socket):
    plugin = Plugin()
    async with serving(socket, plugin):
        driver = a_driver(socket)
        await driver.connect(5)
    async with asyncio.timeout(5):
        await driver.lost()
    began = now()
    with pytest.raises(DriverError) as failed:
        await driver.probe(PROBE, Call(30))
    assert (Code.UNAVAILABLE, True) == (failed.value.code, failed.value.unsent)
    assert not failed.value.final
    assert now() - began < 10  # and not the call's 30
    async with serving(socket, plugin), asyncio.timeout(5):
        await driver.reconnected()
        await driver.probe(PROBE, CALL)
        await driver.close()


async def test_CO04_the_error_says_what_the_peers_says(a_driver, socket):
    async with raw.raw_server(socket):
        driver = a_driver(socket)
        await driver.connect(5)
    await driver.lost()
    with pytest.raises(DriverError) as failed:
        await driver.probe(PROBE, CALL)
    dialing = f"transport: Error while dialing: dial unix {socket}: connect: connection refused"
    assert str(failed.value) == f'rpc error: code = Unavailable desc = connection error: desc = "{dialing}"'
    socket.unlink()
    async with asyncio.timeout(5):
        while "no such file or directory" not in str(failed.value):  # from the next attempt on
            with pytest.raises(DriverError) as failed:
                await driver.probe(PROBE, CALL)
            await asyncio.sleep(0.02)
    await driver.close()


async def test_a_loss_is_noticed_without_a_call(opened, socket):
    async with raw.raw_server(socket) as server, opened(socket) as driver, asyncio.timeout(5):
        async with asyncio.TaskGroup() as group:
            loss = group.create_task(driver.lost(), name="loss")
            await driver.probe(PROBE, CALL)
            assert not loss.done()
            for connection in server.connections:
                connection.abort()
        assert loss.done()
        await driver.reconnected()
        await driver.probe(PROBE, CALL)


async def test_a_driver_that_is_back_at_once_was_lost_all_the_same(opened, socket):
    """The session must probe_and_identify it again, whoever it is now."""
    async with raw.raw_server(socket) as server, opened(socket) as driver, asyncio.timeout(5):
        for _ in range(5):
            async with asyncio.TaskGroup() as group:
                group.create_task(driver.lost(), name="loss")
                await asyncio.sleep(0)
                for connection in server.connections:
                    connection.abort()
                with contextlib.suppress(DriverError):
                    await driver.probe(PROBE, CALL)  # connects again, maybe before the loss was told
            await driver.reconnected()


async def test_a_call_that_is_cut_off_is_Unavailable(opened, socket):
    """It may have happened."""
    async with raw.raw_server(socket) as server, opened(socket) as driver:
        server.reply = lambda stream: b""
        with pytest.raises(DriverError) as failed:
            await driver.probe(PROBE, CALL)
    assert str(failed.value) == "rpc error: code = Unavailable desc = error reading from server: EOF"
    assert not failed.value.final


@pytest.mark.parametrize("refuse", [lambda stream: b"", raw.going_away], ids=["cut", "going-away"])
async def test_a_call_is_sent_once(opened, socket, refuse):
    """gRPC must not repeat what failed: whether to call again is the controller's to decide, and whom the session's."""
    sent = []

    def reply(stream):
        sent.append(stream)
        return refuse(stream)

    async with raw.raw_server(socket) as server, opened(socket) as driver:
        server.reply = reply
        with pytest.raises(DriverError) as failed:
            await driver.controller_publish_volume(csi.ControllerPublishVolumeRequest(), CALL)
    assert (Code.UNAVAILABLE, False) == (failed.value.code, failed.value.unsent)
    assert len(sent) == 1


async def test_closing_ends_the_calls_in_flight_and_those_that_come_later(a_driver, socket):
    started, cancelled = asyncio.Event(), asyncio.Event()
    async with serving(socket, Plugin(probe=hanging(started, cancelled))):
        driver = a_driver(socket)
        await driver.connect(5)
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            caller = group.create_task(ends_with(driver, Code.CANCELED), name="caller")
            await started.wait()
            await driver.close()
            await caller
            await ends_with(driver, Code.CANCELED)
            await cancelled.wait()
        await driver.close()


async def ends_with(driver, code):
    with pytest.raises(DriverError, match="the client connection is closing") as failed:
        await driver.probe(PROBE, CALL)
    assert failed.value.code == code


# -- answers


async def test_an_answer_beyond_grpcs_4_MiB_comes_through(opened, socket):
    """ListVolumes without paging, some 40,000 volumes."""
    entries = [
        {"volume": {"volume_id": f"{number:0100}"}, "status": {"published_node_ids": ["n" * 50]}}
        for number in range(40_000)
    ]
    answer = csi.ListVolumesResponse(entries=entries)
    assert 4 * 2**20 < answer.ByteSize() < MESSAGE_BYTES_MAX
    async with serving(socket, Plugin(list_volumes=answering(answer))), opened(socket) as driver:
        assert len((await driver.list_volumes(csi.ListVolumesRequest(), CALL)).entries) == 40_000


@pytest.mark.slow
async def test_an_answer_beyond_our_limit_is_ResourceExhausted(opened, socket):
    answer = csi.ListVolumesResponse(next_token="x" * MESSAGE_BYTES_MAX)
    async with serving(socket, Plugin(list_volumes=answering(answer))), opened(socket) as driver:
        with pytest.raises(DriverError) as failed:
            await driver.list_volumes(csi.ListVolumesRequest(), CALL)
        assert failed.value.code == Code.RESOURCE_EXHAUSTED
        assert "received message larger than max" in failed.value.message.lower()
        await driver.probe(PROBE, CALL)


NOT_PROBE = "the driver's answer is no csi.v1.ProbeResponse"
NOT_INFO = "the driver's answer is no csi.v1.GetPluginInfoResponse"
STRANGE = {
    "bytes that are no message": ({"message": b"\xff\xff\xff\xff"}, Code.INTERNAL, NOT_PROBE),
    "another message": ({"message": b"\x0a\x04\xff\xff\xff\xff"}, Code.INTERNAL, NOT_PROBE),
    "OK without a message": ({"message": None}, Code.INTERNAL, "the driver answered OK without a message"),
    "no status": ({"status": None}, Code.UNKNOWN, ""),
    "a status that is no number": ({"message": None, "status": b"abc"}, Code.UNKNOWN, "malformed grpc-status: 'abc'"),
    "a code of no list": ({"message": None, "status": b"77", "text": b"odd"}, 77, "odd"),
    "a text that is not UTF-8": ({"message": None, "status": b"13", "text": b"caf\xe9 \xff"}, Code.INTERNAL, "café ÿ"),
    "a text with escapes of no UTF-8": (
        {"message": None, "status": b"13", "text": b"%FF%FE %zz"},
        Code.INTERNAL,
        "ÿþ %zz",
    ),
    "Canceled by the driver": ({"message": None, "status": b"1", "text": b"enough"}, Code.CANCELED, "enough"),
}


@each_row("case", STRANGE)
async def test_a_strange_answer_is_an_error_and_the_next_call_goes_well(opened, socket, case):
    shape, code, text = STRANGE[case]
    async with raw.raw_server(socket) as server, opened(socket) as driver:
        server.reply = lambda stream: raw.answer(stream, **shape)
        with pytest.raises(DriverError) as failed:
            await driver.probe(PROBE, CALL)
        server.reply = raw.answer
        await driver.probe(PROBE, CALL)
    assert failed.value.code == code
    assert text in failed.value.message


async def test_a_string_that_is_not_utf8_makes_the_answer_unreadable(opened, socket):
    """As Go's client has it; a name cut in the middle of a character comes to mind."""
    async with raw.raw_server(socket) as server, opened(socket) as driver:
        server.reply = lambda stream: raw.answer(stream, message=b"\x0a\x03\xff\xfe\xfd")
        with pytest.raises(DriverError, match=NOT_INFO) as failed:
            await driver.get_plugin_info(csi.GetPluginInfoRequest(), CALL)
    assert failed.value.code == Code.INTERNAL


async def test_a_driver_that_never_answers_is_left_at_the_deadline(opened, socket):
    async with raw.raw_server(socket) as server, opened(socket) as driver:
        server.reply = lambda stream: None
        with pytest.raises(DriverError) as failed:
            await driver.probe(PROBE, Call(0.1))
    assert str(failed.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


@each_row("timeout_s", [0.7, 1.0, 10.0, 15.0, 60.0, 600.0])
async def test_the_driver_is_told_the_deadline_and_never_a_later_one(opened, socket, timeout_s):
    """gRPC's core would round it up by one in a hundred."""
    async with serving(socket, Plugin()) as time_left_s, opened(socket) as driver:
        for _ in range(10):
            await driver.probe(PROBE, Call(timeout_s))
    assert 0.9 * timeout_s - 3 < min(time_left_s) <= max(time_left_s) <= timeout_s


@pytest.mark.slow
async def test_a_deadline_while_there_is_no_connection_has_the_same_words(a_driver, socket):
    """A socket whose owner does not accept: the call waits for the connection."""
    with sockets.socket(sockets.AF_UNIX) as listener:
        async with raw.raw_server(socket):
            driver = a_driver(socket)
            await driver.connect(5)
        await driver.lost()
        socket.unlink(missing_ok=True)
        listener.bind(str(socket))
        listener.listen(1)
        with pytest.raises(DriverError) as failed:
            await driver.probe(PROBE, Call(0.3))
        assert str(failed.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        await driver.close()
