"""A driver program with a backend that cannot be trusted to answer, and a journal that can.

    python -m tests.support.unreliable_driver --socket PATH --journal FILE --name DRIVER --seed 1 --trouble 0.4

Calls are slow, fail with every code, take effect though they fail, outlast their caller's deadline, or go on after the
caller is gone, as a storage array does. After a final code nothing has happened. A second operation on a volume at work
is Aborted. Each pair of volume and node sees trouble a few times at the most, so that every wish comes true at last.

The journal has one JSON object a line, in the order of events: `begin` and `end` of calls as their caller sees them,
`effect` when the backend changes. t: seconds on the machine's monotonic clock, the same for all processes.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.csi.errors import NON_FINAL, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.wire.grpc.codes import Code
from tests.support.programs import Program

RPC = csi.ControllerServiceCapability.RPC
PUBLISH, UNPUBLISH = "publish", "unpublish"
TROUBLES_MAX: Final = 3  # for each method, volume and node
FINAL: Final = sorted(set(Code) - NON_FINAL - {Code.OK})


class Fates:
    """How calls go. final: the codes after which nothing has happened. trouble: how often a call goes wrong, 0 to 1.

    slow_s: how long one takes at the most. hang_s: how long, when it hangs.
    """

    def __init__(
        self, randomness: Random, final: Sequence[Code], *, trouble: float, slow_s: float, hang_s: float
    ) -> None:
        self._randomness, self._trouble, self._slow_s, self._hang_s = randomness, trouble, slow_s, hang_s
        self._final, self._unsure = final, sorted(NON_FINAL - set(final))
        self._troubles: dict[tuple[str, ...], int] = defaultdict(int)

    def draw(self, *key: str) -> tuple[Code, bool, float]:
        """The code that the caller gets, whether it happens, and how long it takes. key: what sees trouble a few times
        at the most.
        """
        seconds = self._randomness.uniform(0.0, self._slow_s)
        if self._troubles[key] >= TROUBLES_MAX or not self._randomness.happens(self._trouble):
            return Code.OK, True, seconds
        self._troubles[key] += 1
        if self._randomness.happens(0.4):
            return self._final[self._randomness.below(len(self._final))], False, seconds
        if self._randomness.happens(0.2):
            return Code.OK, True, self._hang_s
        return self._unsure[self._randomness.below(len(self._unsure))], self._randomness.happens(0.6), seconds


class UnreliableDriver:
    """trouble: how often a call goes wrong, 0 to 1. slow_s: how long one takes at the most. hang_s: how long, when it
    hangs.
    """

    def __init__(
        self, name: str, journal: Path, randomness: Random, *, trouble: float, slow_s: float, hang_s: float
    ) -> None:
        self.name = name
        self._journal = journal.open("a", buffering=1)
        self._fates = Fates(randomness, FINAL, trouble=trouble, slow_s=slow_s, hang_s=hang_s)
        self._published: dict[str, set[str]] = defaultdict(set)
        self._at_work: set[str] = set()
        self._numbers = itertools.count(1)
        self._operations: set[asyncio.Task[None]] = set()

    async def get_plugin_info(self, request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="1")

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        service = csi.PluginCapability.Service.CONTROLLER_SERVICE
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": service}}])

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": RPC.PUBLISH_UNPUBLISH_VOLUME}}])

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        await self._call(PUBLISH, request.volume_id, request.node_id)
        return csi.ControllerPublishVolumeResponse()

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        await self._call(UNPUBLISH, request.volume_id, request.node_id)
        return csi.ControllerUnpublishVolumeResponse()

    async def _call(self, method: str, volume: str, node: str) -> None:
        facts = {"call": next(self._numbers), "method": method, "volume": volume, "node": node}
        self._note("begin", **facts)
        code = Code.CANCELED
        try:
            await self._answer(method, volume, node, facts)
            code = Code.OK
        except DriverError as error:
            code = Code(error.code)
            raise
        finally:
            self._note("end", **facts, code=code.name)

    async def _answer(self, method: str, volume: str, node: str, facts: Mapping[str, Any]) -> None:
        if volume in self._at_work:
            raise DriverError(Code.ABORTED, f"an operation on {volume} is pending")
        code, takes_effect, seconds = self._fates.draw(method, volume, node)
        self._at_work.add(volume)
        operation = asyncio.create_task(
            self._operate(volume, seconds, facts if takes_effect else None), name=f"{method}/{volume}"
        )
        self._operations.add(operation)
        operation.add_done_callback(self._operations.discard)
        await asyncio.shield(operation)
        if code is not Code.OK:
            raise DriverError(code, f"the array says {code.name.lower()}")

    async def _operate(self, volume: str, seconds: float, effect: Mapping[str, Any] | None) -> None:
        """The backend's part, which nobody can call back. effect: what is to be noted when it happens, None if nothing
        will.
        """
        await asyncio.sleep(seconds)
        self._at_work.discard(volume)
        if effect is None:
            return
        nodes, node = self._published[volume], str(effect["node"])
        before = set(nodes)
        if effect["method"] == PUBLISH:
            nodes.add(node)
        else:
            nodes.intersection_update(set() if not node else nodes - {node})
        if nodes != before:
            self._note("effect", **effect, nodes=sorted(nodes))

    def _note(self, event: str, **facts: Any) -> None:
        self._journal.write(json.dumps({"t": time.monotonic(), "event": event, **facts}) + "\n")


# -- the journal


@dataclasses.dataclass(frozen=True)
class Call:
    """One call as its caller saw it. ended_s: infinite while it runs."""

    method: str
    volume: str
    node: str
    began_s: float
    ended_s: float
    code: str


class Journal:
    """What a driver noted so far."""

    def __init__(self, path: Path) -> None:
        text = path.read_text() if path.exists() else ""
        self.events: list[dict[str, Any]] = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def calls(self) -> list[Call]:
        ends = {event["call"]: event for event in self.events if event["event"] == "end"}
        nothing: dict[str, Any] = {"t": float("inf"), "code": ""}
        begins = ((event, ends.get(event["call"], nothing)) for event in self.events if event["event"] == "begin")
        return [Call(one["method"], one["volume"], one["node"], one["t"], end["t"], end["code"]) for one, end in begins]

    def published(self) -> dict[str, set[str]]:
        """The backend's state at the end: volume to nodes."""
        state = {event["volume"]: set(event["nodes"]) for event in self.events if event["event"] == "effect"}
        return {volume: nodes for volume, nodes in state.items() if nodes}

    def effects(self, method: str) -> dict[tuple[str, str], int]:
        """How often the backend was changed, by volume and node."""
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for event in self.events:
            if event["event"] == "effect" and event["method"] == method:
                counts[event["volume"], event["node"]] += 1
        return counts

    def on_two_nodes(self, single_node: set[str]) -> list[str]:
        """Volumes for one node that were on more at any moment."""
        return [
            f"{event['volume']} on {event['nodes']} at {event['t']:.3f}"
            for event in self.events
            if event["event"] == "effect" and event["volume"] in single_node and len(event["nodes"]) > 1
        ]

    def overlaps(self, slack_s: float = 0.05) -> list[str]:
        """Calls for one volume that ran side by side: the caller may have one at a time."""
        by_volume: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls():
            by_volume[call.volume].append(call)
        return [
            (
                f"{call.volume}: {before.method} {before.node} {before.began_s:.3f}-{before.ended_s:.3f}, "
                f"{call.method} at {call.began_s:.3f}"
            )
            for calls in by_volume.values()
            for before, call in itertools.pairwise(calls)
            if call.began_s < before.ended_s - slack_s
        ]

    def seen_codes(self) -> set[str]:
        return {call.code for call in self.calls()} - {""}


def start(folder: Path, socket: Path, name: str, *, seed: int, trouble: float) -> tuple[Program, Path]:
    """The driver as a program, and its journal's path."""
    journal = folder / "journal"
    words = [f"--socket={socket}", f"--journal={journal}", f"--name={name}", f"--seed={seed}", f"--trouble={trouble}"]
    return Program([sys.executable, "-m", "tests.support.unreliable_driver", *words], folder / "driver.log"), journal


# -- the program


async def _serve(options: argparse.Namespace) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    driver = UnreliableDriver(
        options.name,
        options.journal,
        Random(options.seed),
        trouble=options.trouble,
        slow_s=options.slow,
        hang_s=options.hang,
    )
    async with serving(driver, str(options.socket), grace_s=0):
        await told.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trouble", type=float, default=0.4)
    parser.add_argument("--slow", type=float, default=0.5)
    parser.add_argument("--hang", type=float, default=3.0)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
