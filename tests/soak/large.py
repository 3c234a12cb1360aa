"""Half an hour in a large cluster: `python -m tests.soak.large --minutes 30 --volumes 10000`, or `make soak-large`.

`mooring controller` with all controllers, on `mooring apiserver`, beside a driver. Pods come and go with their volumes,
claims and snapshots. All the time something breaks: the API server is killed, the driver is killed, the controllers are
stopped for seconds. In the first eighth they are killed, too. From then on they live, and slopes tell whether they, the
API server or the cluster grow. Exit code 1 when something grew, or when something that was asked for was not done
within three minutes. A line each ten seconds says how it goes.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import itertools
import signal
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

from bench.contender import LoadDriver, build_driver
from bench.load import a_load
from bench.scale.churn import ScaleLoad, Setting
from bench.scale.embedded import EmbeddedPlane
from bench.scale.lived import DRIVER, Size, handle_of, spare_name
from bench.scale.peers import ONE, parts
from mooring.api.coordination import LEASES
from mooring.api.meta import Kind
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import unique_name
from mooring.kube.cluster import EVERYTHING, Cluster, Page, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import AlreadyExists, ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from tests.soak import counted
from tests.soak.meter import disk_mib, open_files, rss_mib
from tests.soak.slopes import Bound, Point, growth
from tests.support.programs import Program

SAMPLE_S: Final = 10.0
LOOKS: Final = 10
"""At open files, between two samples: what stays open is open at each of them, what comes and goes with the load is
not.
"""
FAULT_S: Final = 45.0
STOPPED_S: Final = 5.0
SETTLED_S: Final = 760.0
"""From the last start of the controllers on until they are judged: what they remember of events is 700 seconds long."""
EVENTS_S: Final = 300.0
"""How long the API server keeps an Event: within an hour, as shipped, there would be more and more of them."""
PATIENCE_S: Final = 60.0
SPARES: Final = 400
_PASSING: Final = (Unreachable, ServerError, TooManyRequests)

CONTROLLERS: Final = (
    Bound("memory of the controllers, MiB", 0.03, 6.0),
    Bound("blocks of the controllers' Python", 0.02, 10_000.0),
    Bound("tasks of the controllers", 0.05, 3.0),
    Bound("open files of the controllers", 0.05, 3.0),
)
SERVER: Final = (
    Bound("memory of the API server, MiB", 0.05, 10.0),
    Bound("disk of the API server, MiB", 0.10, 20.0),
    Bound("open files of the API server", 0.05, 3.0),
    Bound("Leases", 0.0, 1.0),
)


class Patient(Cluster):
    """A cluster whose requests outlive a restart of the API server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ask(self, request: Request) -> Any:
        """A write that is sent again may meet its own effect."""
        began, is_again = time.monotonic(), False
        while True:
            try:
                return await self._cluster.ask(request)
            except _PASSING:
                if time.monotonic() - began > PATIENCE_S:
                    raise
                is_again = True
                await asyncio.sleep(0.5)
            except AlreadyExists:
                if not is_again:
                    raise
                return None
            except NotFound:
                if not is_again or request.verb is not Verb.DELETE:
                    raise
                return None

    async def watch(
        self, kind: Kind[Any], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """Ends where the connection does; the caller resumes it."""
        watch = self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        try:
            async with contextlib.aclosing(watch) as events:
                async for event in events:
                    yield event
        except _PASSING:
            await asyncio.sleep(0.5)


class LongLoad(ScaleLoad):
    """Works on the same spare volumes again and again."""

    def __init__(self, plane: EmbeddedPlane, cluster: Any) -> None:
        super().__init__(plane, cluster)
        self._cluster: Any = Patient(cluster)
        self.problems: collections.Counter[str] = collections.Counter()

    def begin(self, size: Size, first_spare: int, last_spare: int) -> None:
        super().begin(size, first_spare, last_spare)
        self._spares = self._again(range(first_spare, last_spare))

    def _again(self, numbers: Iterable[int]) -> Any:
        """Numbers without end; what was seen of a volume's last use is forgotten when it is used again."""
        for number in itertools.cycle(numbers):
            volume, snapshot = spare_name(number), f"{self._tag}-snapshot-{number}"
            unique = unique_name(DRIVER, handle_of(volume))
            for what in (("reported", unique), ("detached", volume), ("ready", snapshot), ("content gone", snapshot)):
                self._seen.pop(what, None)
            yield number

    async def listed(self, kind: Kind[Any]) -> Page[Any]:
        """All objects of the kind."""
        page: Page[Any] = await self._cluster.list(kind)
        return page

    async def lives(self, rate: float, end: asyncio.Event) -> None:
        """rate: pods a second; beside every second one a claim, beside every fourth a snapshot. Returns when all have
        ended.
        """
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                if end.is_set():
                    return
                group.create_task(self._told(self.move()))
                if number % 2 == 0:
                    group.create_task(self._told(self.claim()))
                if number % 4 == 3:
                    group.create_task(self._told(self.snapshot()))
                await asyncio.sleep(1 / rate)

    async def _told(self, life: Any) -> None:
        try:
            await life
        except (AssertionError, ApiError) as error:
            self.problems[str(error)] += 1


class Cast:
    """All that can break: the API server, the driver, the controllers."""

    def __init__(self, plane: EmbeddedPlane) -> None:
        self._plane = plane
        self._driver_program = build_driver(plane.folder)
        self._socket = plane.folder / "csi.sock"
        self._driver = LoadDriver(self._driver_program, self._socket, DRIVER, "all")
        self._starts = 0
        self.server_began = time.monotonic()
        self.start_controllers()

    def start_controllers(self) -> None:
        self._starts += 1
        self.counts = self._plane.folder / f"controllers-{self._starts}.counts"
        (part,) = parts(ONE)
        flags = [f"--kubeconfig={self._plane.kubeconfig()}", f"--csi-address={self._socket}"]
        command = [sys.executable, "-m", "tests.soak.counted", str(self.counts), *part.command, *flags]
        self.controllers = Program(command, self._plane.folder / f"controllers-{self._starts}.log")
        self.controllers_began = time.monotonic()

    async def break_one(self, number: int, *, may_kill: bool) -> str:
        """Gives what was broken."""
        match number % 4:
            case 0:
                self._plane.end("apiserver")
                await asyncio.to_thread(self._plane.run)
                self.server_began = time.monotonic()
                return "the API server was killed"
            case 1:
                self._driver.stop()
                self._driver = LoadDriver(self._driver_program, self._socket, DRIVER, "all")
                return "the driver was killed"
            case 2 if may_kill:
                self.controllers.kill()
                self.start_controllers()
                return "the controllers were killed"
        self.controllers.send(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        self.controllers.send(signal.SIGCONT)
        return f"the controllers were stopped for {STOPPED_S:g} s"

    def stop(self) -> None:
        self.controllers.kill()
        self._driver.stop()


class Samples:
    """By measure, points from the moment on from which it is judged. Each has the age of the API server: with it,
    connections come anew.
    """

    def __init__(self, cast: Cast, plane: EmbeddedPlane) -> None:
        self._cast, self._plane = cast, plane
        self.points: dict[str, list[Point]] = {bound.what: [] for bound in (*CONTROLLERS, *SERVER)}
        self._ages: dict[str, list[int]] = {what: [] for what in self.points}
        self._fewest: dict[int, int] = {}

    def look(self) -> None:
        """At what is open just now."""
        for pid in (self._cast.controllers.pid, *self._plane.pids()):
            count = open_files(pid)
            self._fewest[pid] = min(count, self._fewest.get(pid, count))

    def take(self, leases: int) -> None:
        now, cast = time.monotonic(), self._cast
        self.look()
        fewest, self._fewest = self._fewest, {}
        if now - cast.controllers_began > SETTLED_S:
            found = counted.read(cast.counts)
            pid = cast.controllers.pid
            self._add(
                now, CONTROLLERS, (rss_mib(pid), float(found[-1].blocks), float(found[-1].tasks), float(fewest[pid]))
            )
        if FAULT_S / 2 < now - cast.server_began < 2 * FAULT_S:  # young: a server's history fills up for minutes
            (pid,), state = self._plane.pids(), self._plane.folder / "state"
            self._add(now, SERVER, (rss_mib(pid), disk_mib(state), float(fewest[pid]), float(leases)))

    def _add(self, now: float, bounds: Iterable[Bound], values: Iterable[float]) -> None:
        for bound, value in zip(bounds, values, strict=True):
            self.points[bound.what].append((now, value))
            self._ages[bound.what].append(round((now - self._cast.server_began) / SAMPLE_S))

    def forget(self) -> None:
        """The controllers have begun anew, or the cluster is not yet what it will be."""
        for what, points in self.points.items():
            points.clear()
            self._ages[what].clear()

    def grown(self) -> list[str]:
        return list(
            filter(
                None,
                (growth(self.points[bound.what], bound, self._ages[bound.what]) for bound in (*CONTROLLERS, *SERVER)),
            )
        )

    def line(self) -> str:
        return "  ".join(f"{what.split(',')[0]} {points[-1][1]:.0f}" for what, points in self.points.items() if points)


async def _soak(plane: EmbeddedPlane, options: argparse.Namespace) -> list[str]:
    size = Size(options.volumes, SPARES)
    async with a_load(plane, LongLoad) as load:
        load.begin(size, 0, SPARES)
        cast, end = Cast(plane), asyncio.Event()
        samples = Samples(cast, plane)
        try:
            living = asyncio.create_task(load.lives(options.rate, end), name="soak/lives")
            await _watched(cast, samples, load, 60 * options.minutes)
            end.set()
            await living
            left = len((await load.listed(VOLUME_ATTACHMENTS)).items) - size.volumes
        finally:
            cast.stop()
    problems = [*samples.grown(), *(f"{count} times: {text}" for text, count in load.problems.most_common(10))]
    if left:
        problems.append(f"{left} VolumeAttachments are left")
    counts = ", ".join(f"{len(took)} {kind.split(' →')[0]}" for kind, took in load.took_s.items())
    print(
        f"{options.minutes:g} minutes with {options.volumes} volumes ({counts}): "
        f"{'; '.join(problems) or 'nothing grew, nothing is left'}"
    )
    return problems


async def _watched(cast: Cast, samples: Samples, load: LongLoad, length_s: float) -> None:
    began = broke_at = time.monotonic()
    faults = itertools.count()
    while (passed := time.monotonic() - began) < length_s:
        for _ in range(LOOKS):
            await asyncio.sleep(SAMPLE_S / LOOKS)
            cast.controllers.assert_alive()
            samples.look()
        if time.monotonic() - broke_at > FAULT_S:
            life = cast.controllers_began
            print(
                f"{passed:6.0f}/{length_s:.0f} s  {await cast.break_one(next(faults), may_kill=passed < length_s / 8)}",
                flush=True,
            )
            broke_at = time.monotonic()
            if cast.controllers_began != life:
                samples.forget()
        samples.take(len((await load.listed(LEASES)).items))
        print(f"{passed:6.0f}/{length_s:.0f} s  {samples.line()}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.large", description="A large cluster under load and faults: what grows?"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long, 25 at least")
    parser.add_argument("--volumes", type=int, default=10_000, help="that pods use")
    parser.add_argument("--rate", type=float, default=3.0, help="pods a second that come and go")
    options = parser.parse_args()
    plane = EmbeddedPlane(f"--event-ttl={EVENTS_S:g}s")
    try:
        plane.run()
        asyncio.run(_prepared(plane))
        plane.pause()
        plane.fill(Size(options.volumes, SPARES))
        plane.run()
        return 1 if asyncio.run(_soak(plane, options)) else 0
    finally:
        plane.stop()


async def _prepared(plane: EmbeddedPlane) -> None:
    async with a_load(plane, Setting) as setting:
        await setting.prepare()


if __name__ == "__main__":
    sys.exit(main())
