"""What a driver of the SDK costs its process for a ControllerPublishVolume: served by our own gRPC, and by grpcio.

    .venv/bin/python -m tests.unit.csi.measure_served [calls [rounds]]

Each round starts the same driver once with each server, in a process of its own, and calls it by our own client. Prints
medians: processor time (user and system, of the driver's process) and calls a second with 32 calls in flight, with 500
and with one, and the resident memory before the first call and after the last. Not a test: rates are worth something
only on a quiet machine, processor time a little more.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mooring.base.clock import LoopClock
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.sdk import Plugin

TICKS = os.sysconf("SC_CLK_TCK")
SHAPES = {"32 in flight": (32, 1.0), "500 in flight": (500, 1.0), "one alone": (1, 0.2)}
"""Calls at once, and the share of all calls that are made so."""


class Publishing(Plugin):
    """Says yes to everything, with all that the SDK does around it."""

    name = "measured.csi.mooring"

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        return csi.ControllerPublishVolumeResponse(publish_context={"device": "/dev/x"})

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        return csi.ControllerUnpublishVolumeResponse()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        return csi.ValidateVolumeCapabilitiesResponse()


async def serve(kind: str, path: Path) -> None:
    """Each imports what it needs alone: memory is measured, too."""
    if kind == "grpcio":
        from tests.unit.csi.servers import serving as on_grpcio

        served = on_grpcio(path, Publishing())
    else:
        from mooring.driver.server import serving

        served = serving(Publishing(), str(path))
    async with served:
        print("ready", flush=True)
        await asyncio.get_running_loop().create_future()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


async def calls(driver: WireDriver, in_flight: int, count: int) -> None:
    from tests.unit.csi.measure_calls import (
        CALL,
        a_request,
    )  # with grpcio, which is not to be in a driver's memory here

    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await driver.controller_publish_volume(a_request(number), CALL)

    async with asyncio.TaskGroup() as group:
        for number in range(in_flight):
            group.create_task(worker(), name=f"worker/{number}")


async def measured(pid: int, path: Path, count: int) -> dict[str, float]:
    """Each figure by its name."""
    driver = WireDriver(str(path), clock=LoopClock())
    figures = {"MiB at first": resident_mib(pid)}
    await driver.connect(10)
    await calls(driver, 32, count // 10)  # warm
    for shape, (in_flight, share) in SHAPES.items():
        made = int(count * share)
        wall, cpu = time.monotonic(), cpu_s(pid)
        await calls(driver, in_flight, made)
        figures[f"us a call, {shape}"] = (cpu_s(pid) - cpu) / made * 1e6
        figures[f"calls/s, {shape}"] = made / (time.monotonic() - wall)
    figures["MiB at last"] = resident_mib(pid)
    await driver.close()
    return figures


def a_round(kind: str, count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "csi.sock"
        words = [sys.executable, "-m", "tests.unit.csi.measure_served", "serve", kind, str(path)]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == "ready\n"
            return asyncio.run(measured(server.pid, path, count))
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


def main(count: int, rounds: int) -> None:
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, {count} calls, {rounds} rounds")
    found: dict[str, list[dict[str, float]]] = {"own": [], "grpcio": []}
    for number in range(rounds):
        for kind in ("own", "grpcio") if number % 2 else ("grpcio", "own"):
            found[kind].append(a_round(kind, count))
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    for name in found["own"][0]:
        own, grpcio = (statistics.median(figures[name] for figures in found[kind]) for kind in ("own", "grpcio"))
        print(f"{name:28} own {own:9.1f}  grpcio {grpcio:9.1f}  ratio {own / grpcio:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(sys.argv[2], Path(sys.argv[3])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
