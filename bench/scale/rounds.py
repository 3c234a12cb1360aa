"""One contender on one cluster: its start, its rest, and its work under churn."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from bench.contender import Strangers
from bench.load import a_load
from bench.scale.churn import ATTACH, ATTACHMENT, BIND, GROW, KINDS, SNAPSHOT, WANTED, ScaleLoad, spares_for
from bench.scale.lived import Size
from bench.scale.peers import ATTACH_DETACH, ATTACHER, GO, LEASE_OF_ONE, ONE, Peers, Process, at_work, parts, replicas
from bench.scale.rest import SAMPLE_S, Sample, rested_at
from tests.support.control_plane import ControlPlane

REST_S = 20.0


@dataclasses.dataclass(frozen=True)
class Load:
    """rate: pods a second. heartbeats: writes a second for the leases of nodes, at most."""

    rate: float
    seconds: float
    heartbeats: float

    @property
    def spares(self) -> int:
        """What one round takes: churn, three that wait at the start, and two for each change of leaders."""
        return spares_for(self.rate, self.seconds) + 9


@dataclasses.dataclass
class Run:
    """One contender, one round. Times in seconds, memory in MiB by process, bytes before compression.

    first_s: from the start until what waited was done, by kind. settled_s: until that and all processes were at rest.
    rest_*: of a second at rest. latencies: by kind, all of them. *_turn_s: the longest turn of any process' loop, until
    all were at rest and from there on; 0 where none can be seen. handover_s, takeover_s: from SIGTERM and from SIGKILL
    for the attacher that leads, with a second one beside it, until what was made at that moment is attached; wanting_s:
    from SIGTERM for the attach/detach controller that leads, until a pod that came at that moment has its attachment;
    None where they are no programs of their own. standby_s: from the start of a standby of all controllers in one
    process until its caches are filled, with standby_cpu_s of processor time; None for other contenders. All of these
    are None without root. strangers: processors busy elsewhere, under churn.
    """

    first_s: Mapping[str, float]
    settled_s: float
    start_cpu_s: Mapping[str, float]
    start_requests: Mapping[str, int]
    start_bytes: float
    rss_mib: Mapping[str, float]
    peak_mib: Mapping[str, float]
    rest_cpu_s: float
    rest_requests: Mapping[str, float]
    latencies: Mapping[str, list[float]]
    churn_cpu_s: Mapping[str, float]
    churn_requests: Mapping[str, int]
    after_mib: Mapping[str, float]
    start_turn_s: float
    turn_s: float
    strangers: float
    handover_s: float | None = None
    takeover_s: float | None = None
    wanting_s: float | None = None
    standby_s: float | None = None
    standby_cpu_s: float | None = None


class Rounds:
    """All on one control plane, one after the other; each takes spare volumes of its own."""

    def __init__(self, plane: ControlPlane, size: Size, driver: Path, load: Load) -> None:
        self._plane, self._size, self._driver, self._load = plane, size, driver, load
        self._number = 0

    async def round(self, contender: str) -> Run:
        first = self._number * self._load.spares
        self._number += 1
        async with a_load(self._plane, ScaleLoad) as load:
            load.begin(self._size, first, first + self._load.spares)
            run = await self._whole(contender, load)
            if os.geteuid() != 0:
                return run
            if contender == ONE:
                run.standby_s, run.standby_cpu_s = await self._standby(load)
            else:
                attaching, wanting = (ATTACHER, load.attach, ATTACHMENT), (ATTACH_DETACH[contender], load.want, WANTED)
                run.handover_s = await self._leader_change(contender, load, signal.SIGTERM, *attaching)
                run.takeover_s = await self._leader_change(contender, load, signal.SIGKILL, *attaching)
                run.wanting_s = await self._leader_change(contender, load, signal.SIGTERM, *wanting)
            return run

    async def _standby(self, load: ScaleLoad) -> tuple[float, float]:
        """Somebody else holds the Lease all the time."""
        await load.hold_lease(LEASE_OF_ONE)
        (name,) = (part.name for part in parts(ONE))
        with replicas(ONE, name, self._plane, self._driver, f"standby-{self._number}") as programs:
            began, process = time.monotonic(), programs.start()
            await asyncio.sleep(SAMPLE_S)
            ended = await _settled(programs.processes, load.size.patience_s, polls=False)
            return ended - began, process.cpu_s

    async def _leader_change(
        self,
        contender: str,
        load: ScaleLoad,
        how: signal.Signals,
        program: str,
        act: Callable[[], Awaitable[None]],
        kind: str,
    ) -> float:
        tag = f"leaders-{self._number}-{program.replace('/', '-')}-{how.name}".replace(" ", "-")
        with replicas(contender, program, self._plane, self._driver, tag) as programs:
            began, leader = time.monotonic(), programs.start()
            await act()
            filled_s = time.monotonic() - began
            programs.start()
            await asyncio.sleep(
                filled_s
            )  # a list of a large cluster takes as much of a processor all the time, as rest does
            await _settled(programs.processes, load.size.patience_s, polls=contender == GO)
            leader.send(how)
            load.took_s.clear()
            await act()
            return load.took_s[kind][0]

    async def _whole(self, contender: str, load: ScaleLoad) -> Run:
        """All of it but the changes of leaders."""
        waiting = {ATTACH: load.move(), BIND: load.claim(), GROW: load.grow(), SNAPSHOT: load.snapshot()}
        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(job, name=kind) for kind, job in waiting.items()]
            await asyncio.sleep(2)  # they wait
            asked, began = await load.asked(), time.monotonic()
            with at_work(contender, self._plane, self._driver, f"scale-{self._number}") as peers:
                first_s = await _firsts(load, peers, waiting, began)
                await asyncio.wait(jobs)
                settled = await _settled(peers.processes, load.size.patience_s, polls=contender == GO)
                start = await load.asked() - asked
                cpu = _cpu(peers)
                rss, peak = _memory(peers), {one.name: one.peak_mib for one in peers.processes}
                rest = await self._rest(load, peers)
                load.took_s.clear()
                cpu_before, before = _cpu(peers), await load.asked()
                strangers = Strangers([*self._plane.pids(), *peers.pids])
                async with load.heartbeats(self._load.heartbeats):
                    await load.churn(self._load.rate, self._load.seconds)
                churned, busy = await load.asked() - before, strangers.busy()
                return Run(
                    first_s=first_s,
                    settled_s=settled - began,
                    start_cpu_s=cpu,
                    start_requests=start.requests,
                    start_bytes=start.sent,
                    rss_mib=rss,
                    peak_mib=peak,
                    rest_cpu_s=rest[0],
                    rest_requests=rest[1],
                    latencies={kind: load.took_s[kind] for kind in KINDS},
                    churn_cpu_s={name: now - cpu_before[name] for name, now in _cpu(peers).items()},
                    churn_requests=churned.requests,
                    after_mib=_memory(peers),
                    start_turn_s=peers.longest_turn_s(began, settled),
                    turn_s=peers.longest_turn_s(settled, time.monotonic()),
                    strangers=busy,
                )

    async def _rest(self, load: ScaleLoad, peers: Peers) -> tuple[float, dict[str, float]]:
        """Processor seconds and requests of one second in which nothing happens. The server's own requests are among
        them.
        """
        before, cpu_before = await load.asked(), peers.cpu_s
        await asyncio.sleep(REST_S)
        cpu_after, after = peers.cpu_s, await load.asked()
        return (cpu_after - cpu_before) / REST_S, {
            key: count / REST_S for key, count in (after - before).requests.items()
        }


async def _firsts(load: ScaleLoad, peers: Peers, kinds: Mapping[str, object], began: float) -> dict[str, float]:
    """When each kind was done for the first time."""
    found: dict[str, float] = {}
    async with asyncio.timeout(load.size.patience_s):
        while len(found) < len(kinds):
            for kind in kinds:
                if load.took_s[kind]:
                    found.setdefault(kind, time.monotonic() - began)
            peers.assert_alive()
            await asyncio.sleep(0.02)
    return found


async def _settled(processes: Sequence[Process], patience_s: float, *, polls: bool) -> float:
    """The moment, on the monotonic clock, from which all of them together are at rest."""
    samples: list[Sample] = []
    async with asyncio.timeout(patience_s):
        while True:
            samples.append((time.monotonic(), sum(one.cpu_s for one in processes)))
            rested = rested_at(samples, len(processes), polls=polls)
            if rested is not None:
                return rested
            await asyncio.sleep(SAMPLE_S)


def _cpu(peers: Peers) -> dict[str, float]:
    return {one.name: one.cpu_s for one in peers.processes}


def _memory(peers: Peers) -> dict[str, float]:
    return {one.name: one.rss_mib for one in peers.processes}
