"""What a ControllerPublishVolume costs the client, against a server in another process that does next to nothing.

    .venv/bin/python -m tests.unit.csi.measure_calls [calls]

Prints calls per second and CPU (user and system, of the client's process) per call, at 32 calls in flight and at one:
through `WireDriver` with metrics, and through grpcio alone. Not a test: numbers are worth something only on a quiet
machine.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call, Driver
from mooring.csi.metrics import CallMetrics
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver

CALL = Call(15.0)


def a_request(number: int) -> csi.ControllerPublishVolumeRequest:
    """About the size of a real one: 190 bytes."""
    return csi.ControllerPublishVolumeRequest(
        volume_id=f"pvc-{number:036d}",
        node_id="node-1",
        volume_capability={"mount": {"fs_type": "ext4"}, "access_mode": {"mode": 1}},
        secrets={"user": "admin", "password": "0123456789"},
        volume_context={"storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-8081-hostpath.csi.k8s.io"},
    )


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(what: str, publish: Callable[[int], Awaitable[Any]], in_flight: int, count: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await publish(number)

    wall, cpu = time.monotonic(), cpu_s()
    async with asyncio.TaskGroup() as group:
        for number in range(in_flight):
            group.create_task(worker(), name=f"worker/{number}")
    wall, cpu = time.monotonic() - wall, cpu_s() - cpu
    print(f"{what:12} {in_flight:3} in flight: {count / wall:7.0f} calls/s, {cpu / count * 1e6:6.1f} us CPU per call")


async def main(path: Path, count: int) -> None:
    wire = WireDriver(str(path), clock=LoopClock(), metrics=CallMetrics())
    await wire.connect(10)
    async with grpc.aio.insecure_channel(f"unix://{path}") as channel:
        rpc = Driver.controller_publish_volume
        bare = channel.unary_unary(rpc.path, rpc.request_type.SerializeToString, rpc.response_type.FromString)
        roads: dict[str, Callable[[int], Awaitable[Any]]] = {
            "WireDriver": lambda number: wire.controller_publish_volume(a_request(number), CALL),
            "grpcio": lambda number: bare(a_request(number), timeout=CALL.timeout_s),
        }
        for what, publish in roads.items():
            await measure(f"({what})", publish, 32, count // 10)  # warm
        for in_flight, calls in ((32, count), (1, count // 5)):
            for what, publish in roads.items():
                await measure(what, publish, in_flight, calls)
    await wire.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "csi.sock"
        server = subprocess.Popen([sys.executable, "-m", "tests.unit.csi.raw_server", str(path)])
        try:
            print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, request {a_request(1).ByteSize()} bytes")
            asyncio.run(main(path, int(sys.argv[1]) if len(sys.argv) > 1 else 30_000))
        finally:
            server.kill()
            server.wait()
