"""What the API server alone costs a volume, a pod and a snapshot, without any controller: `make bench-bounds`.

A raw client (bench/bounds/load.py) makes the requests of Go's programs and of Mooring's, as the other files here have
them, on a real etcd (with fsync, as in production) and kube-apiserver, over HTTP/1.1 with a connection per request in
flight. It reads the watches that the programs and their bench have. So the rates and times are those of a controller
that takes next to no processor time and decides at once: bounds for every controller on this machine that makes these
requests.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from bench.bounds import attach, provision, snapshot
from bench.bounds.requests import JSON, Chain
from bench.contender import ROOT, Strangers
from bench.load import a_load
from bench.provision import BUSY, NO_PROTECTION
from bench.snapshot import Kinds
from bench.tables import Table, heading, print_parts
from bench.turns import Turns
from tests.support.control_plane import ControlPlane
from tests.support.protobuf import PROTOBUF

Json = dict[str, Any]

CORES = os.cpu_count() or 1
SIDES = ("Go", "Mooring")
ALONE = "one by one"


@dataclasses.dataclass(frozen=True)
class Side:
    name: str


@dataclasses.dataclass(frozen=True)
class Flow:
    """watches: the kinds that a side's programs watch, as often as they do. load_watches: those of the bench itself,
    which reads JSON. workers: objects in work at once.
    """

    title: str
    noun: str
    chain: Callable[..., Chain]
    watches: tuple[str, ...]
    load_watches: tuple[str, ...]
    workers: int
    count: int
    flags: tuple[str, ...] = (NO_PROTECTION,)


SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots"
CONTENTS = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"
CLAIMS, VOLUMES, PODS, NODES = (
    f"/api/v1/{plural}" for plural in ("persistentvolumeclaims", "persistentvolumes", "pods", "nodes")
)
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"

FLOWS = {
    "provision": Flow(
        "Provisioning", "volume", provision.provision, (CLAIMS, VOLUMES, ATTACHMENTS), (VOLUMES,), 100, 500
    ),
    "attach": Flow(
        "Pods with a volume",
        "pod",
        attach.attach,
        (PODS, NODES, CLAIMS, VOLUMES, VOLUMES, ATTACHMENTS, ATTACHMENTS),
        (NODES, ATTACHMENTS),
        20,
        500,
        (),
    ),
    "snapshot": Flow(
        "Snapshots",
        "snapshot",
        snapshot.snapshot,
        (CLAIMS, VOLUMES, SNAPSHOTS, CONTENTS, CONTENTS),
        (SNAPSHOTS, CONTENTS),
        20,
        300,
    ),
}


@dataclasses.dataclass
class Steps:
    """Each kind of request, with as many at once as the flow has; no watch is open. cpu_ms: of kube-apiserver and etcd
    for one.
    """

    cpu_ms: dict[str, float]
    counts: dict[str, float]
    p50_ms: dict[str, float]
    strangers: float

    @property
    def total_ms(self) -> float:
        return sum(self.cpu_ms[name] * self.counts[name] for name in self.counts)


@dataclasses.dataclass
class Many:
    """All objects at once. cpu_ms: of the server for one, until the last is done; cpu_all_ms: with what comes later,
    such as events.
    """

    rate: float
    p50_ms: float
    cpu_ms: float
    cpu_all_ms: float
    own_ms: float
    strangers: float


@dataclasses.dataclass
class Alone:
    """One by one. p50_ms: until the answer; shown_ms: until a watch shows it."""

    p50_ms: dict[str, float]
    shown_ms: dict[str, float]
    cpu_ms: float
    strangers: float


class Bench:
    """One flow on one control plane."""

    def __init__(self, plane: ControlPlane, flow: Flow) -> None:
        self._plane, self._flow = plane, flow
        self._number = 0
        user = json.loads(plane.kubeconfig("bench").read_text())["users"][0]["user"]
        self._certificate = plane.folder / "bench.pem"
        parts = (base64.b64decode(user[f"client-{part}-data"]).decode() for part in ("key", "certificate"))
        self._certificate.write_text("".join(parts))

    async def steps(self, side: Side, count: int) -> Steps:
        return Steps(**await asyncio.to_thread(self._run, side, "steps", count))

    async def many(self, side: Side, count: int, *, waiting: bool = False) -> Many:
        return Many(**await asyncio.to_thread(self._run, side, "backlog" if waiting else "flow", count))

    async def alone(self, side: Side, count: int) -> Alone:
        return Alone(**await asyncio.to_thread(self._run, side, "alone", count))

    def _run(self, side: Side, way: str, count: int) -> Json:
        """What the client says, with the strangers meanwhile."""
        self._number += 1
        chains = [
            self._flow.chain(side.name, f"b{self._number:02}", number, alone=way == "alone") for number in range(count)
        ]
        place, form = urlsplit(self._plane.server), PROTOBUF if side.name == "Go" else JSON
        custom = "/apis/snapshot."
        watches = [(path, JSON if path.startswith(custom) else form) for path in self._flow.watches]
        job = {
            "host": place.hostname,
            "port": place.port,
            "ca": self._plane.ca_file.read_text(),
            "certificate": str(self._certificate),
            "pids": self._plane.pids(),
            "chains": [[request.in_job() for request in chain] for chain in chains],
            "watches": [] if way == "steps" else [*watches, *((path, JSON) for path in self._flow.load_watches)],
            "workers": 1 if way == "alone" else self._flow.workers,
            "way": way,
        }
        with client() as process:
            strangers = Strangers([*self._plane.pids(), process.pid])
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, "the raw client failed"
            return {**json.loads(line), "strangers": strangers.busy()}


@contextlib.contextmanager
def client() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.bounds.load"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process  # the end of its stdin ends it


def steps_table(flow: Flow, runs: dict[str, list[Steps]]) -> str:
    """The cost of each request to the server, in each side's order."""
    made = Table(f"{flow.title}: the server's processor time for one request (ms), {flow.workers} at once", runs)
    names = dict.fromkeys(name for many in runs.values() for run in many for name in run.counts)
    for name in names:
        counts = " and ".join(f"{many[0].counts.get(name, 0.0):.3g}" for many in runs.values())
        made.row(f"{name}, {counts} per {flow.noun}", "{:.2f}", lambda run, name=name: run.cpu_ms.get(name, 0.0))  # type: ignore[misc]
    made.row(f"all of them, per {flow.noun}", "{:.2f}", lambda run: run.total_ms, each_round=True)
    made.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return str(made)


def many_table(flow: Flow, title: str, runs: dict[str, list[Many]]) -> str:
    """What a controller can reach that takes no processor time."""
    made = Table(f"{flow.title}: {title}", runs)
    made.row(f"{flow.noun}s done (1/s)", "{:.0f}", lambda run: run.rate, each_round=True)
    made.row(f"{flow.noun} there → done, p50 (ms)", "{:.0f}", lambda run: run.p50_ms, each_round=True)
    made.row(
        f"server's processor time per {flow.noun}, until all are done (ms)",
        "{:.2f}",
        lambda run: run.cpu_ms,
        each_round=True,
    )
    made.row("… with what nobody waits for, such as events (ms)", "{:.2f}", lambda run: run.cpu_all_ms)
    made.row(
        f"{flow.noun}s a second with which that takes {CORES} cores", "{:.0f}", lambda run: CORES * 1000 / run.cpu_ms
    )
    made.row("… with what nobody waits for", "{:.0f}", lambda run: CORES * 1000 / run.cpu_all_ms)
    made.row(f"processor time of the raw client per {flow.noun} (ms)", "{:.2f}", lambda run: run.own_ms)
    made.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return str(made)


def alone_table(flow: Flow, runs: dict[str, list[Alone]]) -> str:
    made = Table(f"{flow.title}: {ALONE}, p50", runs)
    names = dict.fromkeys(name for many in runs.values() for run in many for name in run.p50_ms)
    for name in names:
        made.row(f"{name} (ms)", "{:.2f}", lambda run, name=name: run.p50_ms.get(name, 0.0))  # type: ignore[misc]
        if any(name in run.shown_ms for many in runs.values() for run in many):
            made.row("… until a watch shows it (ms)", "{:.2f}", lambda run, name=name: run.shown_ms.get(name, 0.0))  # type: ignore[misc]
    made.row(f"server's processor time per {flow.noun} (ms)", "{:.2f}", lambda run: run.cpu_ms)
    made.row(BUSY, "{:.2f}", lambda run: run.strangers)
    return str(made)


async def measure(options: argparse.Namespace) -> AsyncIterator[str]:
    """Gives each part of the results when it is known."""
    turns = Turns([Side(name) for name in SIDES], options.rounds, options.quiet)
    yield f"{heading('kube-apiserver v1.36 and etcd 3.6, without a controller')} Medians over rounds."
    for key in options.what:
        flow = FLOWS[key]
        plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"], apiserver_flags=flow.flags)
        try:
            if key == "snapshot":
                async with a_load(plane, Kinds) as load:
                    await load.install()
            async for part in _flow(Bench(plane, flow), flow, turns, options):
                yield part
        finally:
            plane.stop()


async def _flow(bench: Bench, flow: Flow, turns: Turns[Side], options: argparse.Namespace) -> AsyncIterator[str]:
    count = options.count or flow.count
    yield steps_table(flow, await turns.take(f"{flow.title}, steps", lambda side: bench.steps(side, count)))
    at_once = await turns.take(f"{flow.title}, at once", lambda side: bench.many(side, count))
    yield many_table(flow, f"{count} at once, by a controller without processor time", at_once)
    if flow.chain is provision.provision:
        waiting = await turns.take(f"{flow.title}, waiting", lambda side: bench.many(side, count, waiting=True))
        yield many_table(flow, f"{count} wait at the start, the same controller", waiting)
    yield alone_table(flow, await turns.take(f"{flow.title}, {ALONE}", lambda side: bench.alone(side, options.singles)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=tuple(FLOWS), default=tuple(FLOWS), help="flows")
    parser.add_argument(
        "--count", type=int, default=0, help="objects at once, 0 for as many as the flow's own bench has"
    )
    parser.add_argument("--singles", type=int, default=100, help="objects one after the other")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quiet", type=float, default=0.3, help="measure a round again in which others kept more processors busy"
    )
    print_parts(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
