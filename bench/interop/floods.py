"""Floods by Go's client: what our gRPC server stands of them as a registrar has it and as a driver of the SDK, and
grpcio's beside it.

    python -m bench.interop.floods GO_FLOODER

GO_FLOODER: what `go build ./floods` makes in bench/interop/go. Each server runs in the loop of this process, with a
meter. For each flood it prints the seconds, the longest wait of a Probe on another connection, the dearest turn of the
loop in processor time, the growth of the process's peak of memory, and how often each code came. Exit code 1 if a turn
was dearer than 0.1 s (and a beat of the meter), if memory grew beyond 20 times what the largest requests in flight are
together and a base, or if a call that the server had to answer was not.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.sdk import Plugin
from mooring.driver.server import LIMITS, serving
from mooring.wire.grpc.server import listening
from tests.support.stalls import StallMeter
from tests.unit.csi import servers

TURN_S_MAX: Final = 0.12
"""The rule is 0.1 s; the meter is up to a beat of 0.02 s too large."""
MEMORY_BASE_MIB: Final = 64
IN_FLIGHT_MIB: Final = {"fields": 4 * 3, "messages-of-1-MiB": 8, "messages-of-16-MiB": 8 * 16}
"""What the requests of a flood are together, at any time; of the others next to nothing."""
MUST: Final[Mapping[str, str]] = {
    "500-at-once": "OK=20000",
    "1000-at-once": "OK=20000",
    "connections": "OK=",
    "unknown-methods": "Unimplemented=5000",
    "messages-of-1-MiB": "OK=40",
}
"""What has to be among the counts."""
OTHERWISE: Final = {
    (
        "grpcio",
        "1000-at-once",
    ): "at its bound, gRPC's core refuses a call that begins while the last one is cleared away",
}
"""What a server may leave unanswered, and why."""


class Quiet(Plugin):
    """A driver that only says that it is there."""

    name = "quiet.csi.mooring"

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse()


async def _probe(request: bytes) -> bytes:
    return b""


@asynccontextmanager
async def own(path: Path) -> AsyncIterator[None]:
    """The server that the kubelet's client finds at our registrar's socket."""
    async with listening({"/csi.v1.Identity/Probe": _probe}, path):
        yield


@asynccontextmanager
async def sdk(path: Path) -> AsyncIterator[None]:
    """The one that a driver of the SDK has."""
    async with serving(Quiet(), str(path)):
        yield


@asynccontextmanager
async def grpcio(path: Path) -> AsyncIterator[None]:
    """The same driver, as somebody would serve it who chooses grpcio."""
    async with servers.serving(path, Quiet(), (("grpc.max_concurrent_streams", LIMITS.streams),)):
        yield


SERVERS: Final[Mapping[str, Callable[[Path], AbstractAsyncContextManager[None]]]] = {
    "own": own,
    "sdk": sdk,
    "grpcio": grpcio,
}


class Flood(NamedTuple):
    """A line of the flooder, and what the server took for it."""

    server: str
    name: str
    seconds: float
    longest_wait_s: float
    counts: str
    turn_s: float
    grown_mib: float

    def wrong(self) -> str:
        """What is beyond the rule; "" for nothing."""
        if self.turn_s > TURN_S_MAX:
            return f"a turn of {self.turn_s:.2f} s"
        if self.grown_mib > MEMORY_BASE_MIB + 20 * IN_FLIGHT_MIB.get(self.name, 0):
            return f"{self.grown_mib:.0f} MiB"
        if MUST.get(self.name, "") not in self.counts and (self.server, self.name) not in OTHERWISE:
            return f"not {MUST[self.name]}"
        return ""


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def floods(flooder: str, name: str, path: Path) -> AsyncIterator[Flood]:
    meter = StallMeter()
    async with SERVERS[name](path):
        process = await asyncio.create_subprocess_exec(flooder, str(path), stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        meter.start()
        before = _peak_mib()
        while line := await process.stdout.readline():
            flood, seconds, wait, counts = line.decode().rstrip("\n").split("\t")
            yield Flood(name, flood, float(seconds), float(wait), counts, meter.worst_s, _peak_mib() - before)
            meter.worst_s, before = 0.0, _peak_mib()
        meter.stop()
        if await process.wait():
            raise SystemExit(f"{flooder} ended with {process.returncode}")


async def main(flooder: str) -> bool:
    is_well = True
    with tempfile.TemporaryDirectory() as folder:
        for name in SERVERS:
            async for flood in floods(flooder, name, Path(folder) / f"{name}.sock"):
                wrong = flood.wrong()
                is_well = is_well and not wrong
                figures = (
                    f"{flood.seconds:7.2f} s {flood.longest_wait_s:7.3f} s {flood.turn_s:6.3f} s "
                    f"{flood.grown_mib:6.0f} MiB"
                )
                print(
                    f"{name:4} {flood.name:20} {figures}  {flood.counts}{'  WRONG: ' + wrong if wrong else ''}",
                    flush=True,
                )
    return is_well


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main(sys.argv[1])) else 1)
