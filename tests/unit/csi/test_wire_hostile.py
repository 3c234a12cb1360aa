"""A driver that means harm, on a real socket: calls end by their deadlines, the client lives on, nothing is left
behind.
"""

import asyncio
import contextlib
import random

import pytest

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from tests.support.rows import each_row
from tests.unit.csi import raw_server as raw
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.test_fuzz import a_frame

PROBE = csi.ProbeRequest()


class HostileServer(asyncio.Protocol):
    """Answers whatever comes with frames of any kind, well formed and not, and hangs up when it likes."""

    def __init__(self, chance: random.Random, connections: set) -> None:
        self.chance, self.connections, self.ended = chance, connections, False

    def connection_made(self, transport):
        self.transport = transport
        self.connections.add(transport)
        if self.chance.random() < 0.9:
            transport.write(talk.settings({talk.MAX_CONCURRENT_STREAMS: self.chance.choice((1, 100))}))

    def connection_lost(self, error):
        self.connections.remove(self.transport)

    def data_received(self, data):
        if self.ended:
            return
        for _ in range(self.chance.randint(0, 4)):
            stream = 2 * self.chance.randint(0, 4) + 1
            sent = self.chance.choice(
                (a_frame(self.chance), talk.answer(stream), talk.goaway(stream), self.chance.randbytes(40)[:9])
            )
            self.transport.write(sent[: self.chance.choice((len(sent), len(sent), len(sent), 5))])
        if self.chance.random() < 0.1:
            self.ended = True
            self.chance.choice((self.transport.abort, self.transport.close, self.transport.write_eof))()


async def one_call(driver, chance):
    """A caller: some give up before the deadline, the others never have to."""
    gives_up = chance.random() < 0.5
    request = csi.ControllerModifyVolumeRequest(volume_id="v" * chance.choice((0, 100, 300_000)))
    try:
        async with asyncio.timeout(0.01 if gives_up else 5.0):
            await driver.controller_modify_volume(request, Call(0.1))
    except DriverError:
        pass
    except TimeoutError:
        assert gives_up, "the deadline did not end the call"


@pytest.mark.slow
@each_row("seed", range(8))
async def test_a_hostile_driver(socket, seed, log):
    log()
    chance, complaints, connections = random.Random(seed), [], set()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    driver = WireDriver(str(socket), clock=LoopClock())
    async with raw.raw_server(socket):
        await driver.connect(5)
    socket.unlink(missing_ok=True)
    hostile = await loop.create_unix_server(lambda: HostileServer(chance, connections), socket)
    async with asyncio.timeout(30):
        for _ in range(10):
            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(one_call(driver, chance), name=f"caller/{number}")
    hostile.close()
    socket.unlink(missing_ok=True)
    async with raw.raw_server(socket), asyncio.timeout(10):
        while True:  # connections to the hostile one may take a while to end
            with contextlib.suppress(DriverError):
                await driver.probe(PROBE, Call(0.5))
                break
            await asyncio.sleep(0.05)
        await driver.close()
        while connections:  # the driver hears of the end of each  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert complaints == []
    assert [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
