"""A client on grpcio of the driver on SOCKET. Usage: python -m bench.interop.python_client SOCKET. What it checks
stands in `served.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable

import grpc
import grpc.aio

from bench.interop.check import TEXT
from mooring.csi.proto import csi_pb2 as csi

OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Client:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def ask(self, method: str, request: bytes = b"", timeout_s: float = 60.0) -> bytes:
        answer: bytes = await self._channel.unary_unary(f"/csi.v1.{method}")(request, timeout=timeout_s)
        return answer

    async def echo(self, size: int) -> None:
        request = message(size)
        assert request == await self.ask("Controller/ControllerModifyVolume", request), size

    async def given_up(self) -> int:
        return csi.GetCapacityResponse.FromString(await self.ask("Controller/GetCapacity")).available_capacity

    async def until_given_up(self, count: int) -> None:
        async with asyncio.timeout(10):
            while await self.given_up() != count:  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.02)

    async def small(self) -> None:
        for _ in range(300):
            await self.ask("Identity/Probe")

    async def thousand(self) -> None:
        await asyncio.gather(*(self.ask("Controller/CreateSnapshot") for _ in range(1000)))

    async def large(self) -> None:
        for size in (0, 1, 16_370, 16_384, 16_390, 65_535, 65_536, 5_000_000, 64 << 20):
            await self.echo(size)
        await asyncio.gather(*(self.echo(3_000_000) for _ in range(8)))

    async def errors(self) -> None:
        await ended(self.ask("Controller/DeleteVolume"), grpc.StatusCode.NOT_FOUND, TEXT)
        await ended(self.ask("Controller/DeleteSnapshot"), grpc.StatusCode.INTERNAL, "x" * 5_000)
        await ended(self.ask("Node/NodeGetInfo"), grpc.StatusCode.UNIMPLEMENTED)

    async def deadlines(self) -> None:
        answer = await self.ask("Controller/ControllerExpandVolume", timeout_s=15.0)
        told = csi.ControllerExpandVolumeResponse.FromString(answer).capacity_bytes
        assert 13_000 < told <= 15_100, told  # grpcio rounds up
        before = await self.given_up()
        for _ in range(5):
            await ended(
                self.ask("Controller/ControllerUnpublishVolume", timeout_s=0.5), grpc.StatusCode.DEADLINE_EXCEEDED
            )
        await self.until_given_up(before + 5)

    async def cancellations(self) -> None:
        before = await self.given_up()
        calls = asyncio.gather(*(self.ask("Controller/ControllerUnpublishVolume") for _ in range(3)))
        await asyncio.sleep(0.5)
        calls.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calls
        await self.until_given_up(before + 3)

    async def end(self) -> None:
        call = asyncio.ensure_future(self.ask("Controller/CreateSnapshot"))
        await asyncio.sleep(0.1)
        print("end", flush=True)
        await call
        async with asyncio.timeout(10):
            while True:
                try:
                    await self.ask("Identity/Probe")
                except grpc.aio.AioRpcError as error:
                    last = error
                    break
        assert last.code() == grpc.StatusCode.UNAVAILABLE, last


async def ended(answer: Awaitable[bytes], code: grpc.StatusCode, text: str = "") -> None:
    try:
        await answer
    except grpc.aio.AioRpcError as error:
        found = error
    else:
        raise AssertionError("it went well")
    assert (found.code(), text in ("", found.details())) == (code, True), found


def message(size: int) -> bytes:
    """So many bytes, none where there is no such message."""
    for head in range(2, 6):
        request = csi.ControllerModifyVolumeRequest(volume_id="v" * max(0, size - head))
        if request.ByteSize() == size:
            return request.SerializeToString()
    return b""


async def main(path: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS) as channel:
        client = Client(channel)
        for check in (
            client.small,
            client.thousand,
            client.large,
            client.errors,
            client.deadlines,
            client.cancellations,
            client.end,
        ):
            result = "ok"
            try:
                await check()
            except (AssertionError, TimeoutError, grpc.aio.AioRpcError) as error:
                result = f"FAILED: {error!s:.300}".replace("\n", " ")
            print(f"{check.__name__}\t{result}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
