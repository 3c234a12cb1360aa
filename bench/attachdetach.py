"""`mooring attachdetach` with Mooring's attacher beside kube-controller-manager's with the Go one:
`make bench-attachdetach`.

Both pairs run on one real etcd (with fsync, as in production) and kube-apiserver, one after the other in each round,
each with a driver of its own that answers at once (bench/driver). Pods are created with a node's name; the nodes are
objects alone. Measured are the time from the pod to its volume in `node.status.volumesAttached`, as a watch shows it,
and from the pod's end to that of the attachment; processor time of each program, writes, memory. At rest: many pods
whose volumes are attached already, for a minute. `--scale` leaves the real parts out: bench/attachdetach_scale.py.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from bench.contender import (
    NO_LIMIT,
    ROOT,
    Contender,
    LoadDriver,
    Pair,
    Running,
    Shares,
    build_driver,
    quantile,
    running,
)
from bench.load import a_load
from bench.podload import PodLoad
from bench.tables import Table, heading, print_parts
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

NODE_COUNT = 10
REST_NODE_COUNT = 100
REST_S = 60.0
SETTLED_CPU_S = 0.05
SETTLING_MAX_S = 120.0


@dataclasses.dataclass
class Run:
    """One pair in one round. Times in seconds, memory in MiB; processor time in ms and writes for each pod. shares:
    processor time of the rest of the bench until the last pod's volume is attached, in ms for each pod.
    """

    attach_s: float
    attach_waits: list[float]
    detach_waits: list[float]
    controller_ms: float
    attacher_ms: float
    detach_controller_ms: float
    writes: dict[str, float]
    shares: dict[str, float]
    rss: float


@dataclasses.dataclass
class Rest:
    """A controller beside many pods at rest, from its start on. start_s: until it is idle; ms: in a minute
    afterwards.
    """

    start_s: float
    start_cpu_s: float
    idle_ms: float
    rss: float
    requests: dict[str, float]


class Bench:
    """The rounds on one control plane."""

    def __init__(self, plane: ControlPlane, driver: Path) -> None:
        self._plane, self._driver_program = plane, driver
        self._number = 0

    @contextlib.contextmanager
    def _running(self, pair: Pair) -> Iterator[tuple[Running, Running]]:
        """Controller and attacher at work, without a client limit."""
        self._number += 1
        driver = LoadDriver(
            self._driver_program, self._plane.folder / f"driver-{self._number}.sock", pair.sidecar.driver_name
        )
        logs = [self._plane.folder / f"{part}-{self._number}.log" for part in ("attacher", "controller")]
        config = self._plane.kubeconfig(pair.sidecar.driver_name)
        with (
            running(pair.sidecar, config, driver, logs[0], NO_LIMIT) as attacher,
            running(pair.controller, config, None, logs[1], (*NO_LIMIT, "--leader-elect=false")) as controller,
        ):
            yield controller, attacher

    async def round(self, pair: Pair, count: int, per_s: float, timeout_s: float) -> Run:
        """count pods, so many a second, infinite for at once; then all are deleted in the same way."""
        async with a_load(self._plane, PodLoad) as load:
            with self._running(pair) as (controller, attacher):
                tag, driver = f"p{self._number}", pair.sidecar.driver_name
                names, nodes = (
                    [f"{tag}-{number}" for number in range(count)],
                    [f"{tag}-node{number}" for number in range(NODE_COUNT)],
                )
                first = f"{tag}-first"
                await load.make_nodes(nodes, driver)
                await load.make_volumes([*names, first], driver)
                await load.make_pod(first, nodes[0])  # the sign that both are up
                await load.until(load.reported_at, [first], 60)
                await asyncio.sleep(2)
                writes = await load.settled()
                cpu = controller.cpu_s, attacher.cpu_s
                shares = Shares({"kube-apiserver and etcd": self._plane.pids(), "the load": (os.getpid(),)})
                await self._paced(
                    load, [load.make_pod(name, nodes[number % NODE_COUNT]) for number, name in enumerate(names)], per_s
                )
                await load.until(load.reported_at, names, timeout_s)
                spent = shares.ms_per(count)
                written = await load.settled() - writes
                cpu_attached = controller.cpu_s, attacher.cpu_s
                await self._paced(load, [load.drop_pod(name) for name in names], per_s)
                await load.until(load.gone_at, names, timeout_s)
                await asyncio.sleep(1)
                cpu_detached, rss = controller.cpu_s, controller.rss_mib
                await load.drop_pod(first)
                await load.until(load.gone_at, [first], 60)
                await load.remove_volumes([*names, first])
        waits = [load.reported_at[name] - load.created_at[name] for name in names]
        return Run(
            attach_s=max(load.reported_at[name] for name in names) - min(load.created_at[name] for name in names),
            attach_waits=waits,
            detach_waits=[load.gone_at[name] - load.dropped_at[name] for name in names],
            controller_ms=(cpu_attached[0] - cpu[0]) / count * 1000,
            attacher_ms=(cpu_attached[1] - cpu[1]) / count * 1000,
            detach_controller_ms=(cpu_detached - cpu_attached[0]) / count * 1000,
            writes={key: value / count for key, value in sorted(written.items()) if not key.startswith("POST pods")},
            shares=spent,
            rss=rss,
        )

    async def _paced(self, load: PodLoad, jobs: list[object], per_s: float) -> None:
        if per_s == float("inf"):
            await load.each(jobs)  # type: ignore[arg-type]
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number, job in enumerate(jobs):
            await asyncio.sleep(began + number / per_s - loop.time())
            await job  # type: ignore[misc]

    # -- at rest

    async def fill(self, count: int, driver: str) -> None:
        """So many pods whose volumes are attached, reported and in use."""
        async with a_load(self._plane, PodLoad) as load:
            nodes = [f"rest{number}" for number in range(REST_NODE_COUNT)]
            names = {node: [f"{node}-{number}" for number in range(count // REST_NODE_COUNT)] for node in nodes}
            pairs = [(name, node) for node, many in names.items() for name in many]
            await load.make_nodes(nodes, driver)
            await load.make_volumes((name for name, _ in pairs), driver)
            await load.each(load.attached_already(name, driver, node) for name, node in pairs)
            await load.each(load.report(node, many, driver) for node, many in names.items())
            await load.each(load.make_pod(name, node) for name, node in pairs)

    async def rest(self, pair: Pair) -> Rest:
        """The controller alone: it starts beside them, and then there is nothing to do."""
        self._number += 1
        log = self._plane.folder / f"rest-{self._number}.log"
        async with a_load(self._plane, PodLoad) as load:
            config = self._plane.kubeconfig(pair.sidecar.driver_name)
            before = await load.requests()
            with running(pair.controller, config, None, log, (*NO_LIMIT, "--leader-elect=false")) as controller:
                start_s = await _idle_after_s(controller)
                cpu, started = controller.cpu_s, await load.requests()
                await asyncio.sleep(REST_S)
                after = await load.requests()
                return Rest(
                    start_s,
                    cpu,
                    (controller.cpu_s - cpu) * 1000 / REST_S * 60,
                    controller.rss_mib,
                    _rates(before, started, after),
                )


def _rates(before: Counter[str], started: Counter[str], after: Counter[str]) -> dict[str, float]:
    """Requests at the start and in the minute after it; lists and watches of the bench itself are the same for both."""
    return {
        "requests at the start": float((started - before).total()),
        "requests in a minute": float((after - started).total()),
    }


async def _idle_after_s(controller: Running) -> float:
    """Seconds until the program has used next to no processor time for three seconds; those are not counted.

    SETTLING_MAX_S where it doesn't come to rest until then.
    """
    loop = asyncio.get_running_loop()
    began = busy = loop.time()
    used = controller.cpu_s
    while loop.time() - busy < 3 or used < SETTLED_CPU_S:
        if loop.time() - began > SETTLING_MAX_S:
            return SETTLING_MAX_S
        await asyncio.sleep(0.25)
        now = controller.cpu_s
        if now - used > SETTLED_CPU_S:
            busy = loop.time()
        used = now
    return busy - began


def table(title: str, runs: dict[str, list[Run]]) -> str:
    """Medians over the rounds, one column a pair."""
    made = Table(title, runs)
    for share in (50, 99):
        made.row(
            f"pod → volumesAttached, p{share} (ms)",
            "{:.0f}",
            lambda run, at=share: quantile(run.attach_waits, at / 100) * 1000,
        )  # type: ignore[misc]
    made.row("all pods → volumesAttached (s)", "{:.1f}", lambda run: run.attach_s, each_round=True)
    for share in (50, 99):
        made.row(
            f"pod gone → attachment gone, p{share} (ms)",
            "{:.0f}",
            lambda run, at=share: quantile(run.detach_waits, at / 100) * 1000,
        )  # type: ignore[misc]
    made.row("controller, processor time per attach (ms)", "{:.2f}", lambda run: run.controller_ms)
    made.row("controller, processor time per detach (ms)", "{:.2f}", lambda run: run.detach_controller_ms)
    made.row("attacher, processor time per attach (ms)", "{:.2f}", lambda run: run.attacher_ms)
    made.rows("{}, processor time per attach (ms)", "{:.2f}", lambda run: run.shares)
    made.rows("{} per pod", "{:.2f}", lambda run: run.writes)
    made.row("controller, memory after (MiB)", "{:.0f}", lambda run: run.rss)
    return str(made)


def rest_table(title: str, runs: dict[str, list[Rest]]) -> str:
    made = Table(title, runs)
    made.row(
        f"from the start of the program until idle, {SETTLING_MAX_S:.0f}: not until then (s)",
        "{:.1f}",
        lambda run: run.start_s,
    )
    made.row("processor time of that (s)", "{:.1f}", lambda run: run.start_cpu_s)
    made.row("processor time at rest (ms in a minute)", "{:.0f}", lambda run: run.idle_ms)
    made.row("memory (MiB)", "{:.0f}", lambda run: run.rss)
    made.rows("{}", "{:.0f}", lambda run: run.requests)
    return str(made)


async def measure(options: argparse.Namespace) -> AsyncIterator[str]:
    """Gives each part of the results when it is known."""
    mooring = str(Path(sys.executable).parent / "mooring")
    manager = (
        str(binary("kube-controller-manager")),
        "--controllers=persistentvolume-attach-detach-controller",
        "--secure-port=0",
    )
    pairs = [
        Pair(Contender("kube-controller-manager", manager), Contender("Go", (str(binary("csi-attacher")),))),
        Pair(Contender("mooring attachdetach", (mooring, "attachdetach")), Contender("Mooring", (mooring, "attacher"))),
    ]
    yield f"{heading('kube-controller-manager v1.36.3 and csi-attacher v4.12')} Medians over rounds."
    for title, count, per_s, rounds in (
        (f"{options.paced} pods, 5 a second", options.paced, 5.0, 1),
        (f"{options.count} pods at once", options.count, float("inf"), options.rounds),
    ):
        if count:
            yield table(title, await _rounds(pairs, title, count, per_s, rounds))
    if options.rest:
        yield rest_table(f"{options.rest} pods at rest on {REST_NODE_COUNT} nodes", await _rests(pairs, options.rest))
    if options.scale:
        yield await asyncio.to_thread(_scale)


def _scale() -> str:
    command = [sys.executable, "-m", "bench.attachdetach_scale"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


async def _rounds(pairs: list[Pair], title: str, count: int, per_s: float, rounds: int) -> dict[str, list[Run]]:
    plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"])
    runs: dict[str, list[Run]] = {pair.name: [] for pair in pairs}
    try:
        bench = Bench(plane, build_driver(plane.folder))
        for number in range(rounds):
            for pair in pairs if number % 2 == 0 else reversed(pairs):
                run = await bench.round(pair, count, per_s, 600)
                runs[pair.name].append(run)
                print(
                    f"{title}, round {number + 1}, {pair.name}: {statistics.median(run.attach_waits) * 1000:.0f} ms",
                    file=sys.stderr,
                )
    finally:
        plane.stop()
    return runs


async def _rests(pairs: list[Pair], count: int) -> dict[str, list[Rest]]:
    """On a control plane whose etcd does not sync, since that is only filled."""
    plane = ControlPlane.start()
    try:
        bench = Bench(plane, Path())
        print(f"making {count} pods", file=sys.stderr)
        await bench.fill(count, "rest.bench.mooring.dev")
        return {pair.name: [await bench.rest(pair)] for pair in pairs}
    finally:
        plane.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="pods at once, 0 leaves it out")
    parser.add_argument("--paced", type=int, default=100, help="pods at 5 a second, 0 leaves it out")
    parser.add_argument("--rounds", type=int, default=3, help="of pods at once")
    parser.add_argument("--rest", type=int, default=10000, help="pods at rest, 0 leaves it out")
    parser.add_argument(
        "--scale", action=argparse.BooleanOptionalAction, default=True, help="5,000 nodes and 20,000 volumes in process"
    )
    print_parts(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
