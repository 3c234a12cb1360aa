"""Eight hours of the whole plane in minutes: `python -m tests.soak.virtual --hours 8 --volumes 10000`, or
`make soak-virtual`.

All controllers, the agents of two nodes and the reference driver live in this process, in virtual time, beside many
volumes that are at rest. Each minute a volume is made, used by two pods one after the other, grown, snapshotted and
deleted, while something breaks. Slopes tell whether this process or the cluster grows: Python's blocks, tasks, open
files, objects. Exit code 1 when something does.
"""

from __future__ import annotations

import argparse
import collections
import gc
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from mooring.testing.opening import ClusterOfTest, a_cluster
from tests.soak.counted import tasks_count
from tests.soak.meter import open_files
from tests.soak.slopes import Bound, Point, growth

AT_ONCE: Final = 50
SMALL: Final = "4Mi"
LIFE_S: Final = 60.0
SAMPLE_S: Final = 300.0
WARM_UP_SHARE: Final = 0.25
"""Of the time: histories and rings come to their full length."""
OF_PROCESS: Final = (
    Bound("blocks of Python", 0.002, 2000.0),
    Bound("tasks", 0.0, 0.5),
    Bound("open files", 0.0, 0.5),
)
COUNTED: Final = ("leases", "volumeattachments", "pods", "volumesnapshots", "volumesnapshotcontents")
AT_REST: Final = ("persistentvolumes", "persistentvolumeclaims")


def life(cluster: ClusterOfTest, number: int) -> None:
    """One volume from its claim to its end."""
    name = f"life-{number}"
    claim = cluster.claim(name).bound()
    pod = cluster.pod(name, claim).running()
    (pod.folder(claim) / "page").write_text(name)
    claim.grows_to("2Gi")
    snapshot = cluster.snapshot(name, claim).ready()
    pod.delete().gone()
    again = cluster.pod(f"{name}-again", claim).running()
    assert (again.folder(claim) / "page").read_text() == name
    again.delete().gone()
    snapshot.delete().gone()
    handle = claim.handle
    claim.delete().gone()
    cluster.until(
        lambda: any(call.request.volume_id == handle for call in cluster.calls("DeleteVolume")), f"{handle} is deleted"
    )


def faults(cluster: ClusterOfTest) -> Iterator[str]:
    """Breaks one thing after the other, without end; gives what it was."""
    for number in itertools.count():
        match number % 6:
            case 0:
                cluster.faults.lose_answer("CreateVolume")
                yield "an answer was lost"
            case 1:
                controller = cluster.controllers[number // 6 % len(cluster.controllers)]
                cluster.restart(controller)
                yield f"{controller} was killed"
            case 2:
                cluster.faults.api_server_goes()
                cluster.passes(seconds=20)
                cluster.faults.api_server_returns()
                yield "the API server was away"
            case 3:
                node = cluster.nodes[number // 6 % len(cluster.nodes)]
                node.dies().not_ready()
                node.returns().ready()
                yield f"{node.name} was off"
            case 4:
                cluster.nodes[number // 6 % len(cluster.nodes)].agent_restarts()
                yield "an agent was killed"
            case _:
                cluster.faults.fail("NodeStageVolume", "INTERNAL", "not today")
                yield "a call failed"


def fill(cluster: ClusterOfTest, volumes: int) -> None:
    """Volumes with their claims, which nobody uses."""
    began = time.monotonic()
    for first in range(0, volumes, AT_ONCE):
        claims = [cluster.claim(f"rests-{number}", SMALL) for number in range(first, min(volumes, first + AT_ONCE))]
        for claim in claims:
            claim.bound()
        if first % 1000 == 0:
            print(f"{first} of {volumes} volumes after {time.monotonic() - began:.0f} s", flush=True)


class Samples:
    """What grows is told from these."""

    def __init__(self, cluster: ClusterOfTest) -> None:
        self._cluster = cluster
        self.points: dict[str, list[Point]] = collections.defaultdict(list)

    def take(self) -> str:
        """What the harness itself keeps, calls and its story, is dropped before. Gives a line."""
        self._cluster.aio.plane.calls.made.clear()
        self._cluster._story.seek(0)
        self._cluster._story.truncate(0)
        gc.collect()
        values = {
            "blocks of Python": float(sys.getallocatedblocks()),
            "tasks": float(tasks_count()),
            "open files": float(open_files("self")),
            **{kind: float(len(self._cluster.objects(kind))) for kind in COUNTED},
        }
        for what, value in values.items():
            self.points[what].append((now_s(self._cluster), value))
        return "  ".join(f"{what} {value:g}" for what, value in values.items())

    def grown(self) -> list[str]:
        """What has grown since the histories are full."""
        bounds = (*OF_PROCESS, *(Bound(kind, 0.0, 0.5) for kind in COUNTED))
        return list(filter(None, (growth(_full(self.points[bound.what]), bound) for bound in bounds)))


def now_s(cluster: ClusterOfTest) -> float:
    """The cluster's time."""
    return cluster._during(cluster._now())


def _full(points: Sequence[Point]) -> Sequence[Point]:
    return points[int(len(points) * WARM_UP_SHARE) :]


def soak(cluster: ClusterOfTest, hours: float, volumes: int) -> list[str]:
    """What went wrong, in words."""
    fill(cluster, volumes)
    before = {kind: len(cluster.objects(kind)) for kind in AT_REST}
    samples, began, real = Samples(cluster), now_s(cluster), time.monotonic()
    breaking, sampled = faults(cluster), -1
    for number in itertools.count():
        passed_s = now_s(cluster) - began
        if passed_s >= 3600 * hours:
            break
        broken = next(breaking)
        life(cluster, number)
        cluster.passes(seconds=max(0.0, LIFE_S - (now_s(cluster) - began - passed_s)))
        if int(passed_s / SAMPLE_S) > sampled:
            sampled = int(passed_s / SAMPLE_S)
            print(
                f"{passed_s / 3600:.2f}/{hours:g} h after {time.monotonic() - real:.0f} s  {broken}  {samples.take()}",
                flush=True,
            )
    problems = samples.grown()
    problems += [
        f"{count - before[kind]} {kind} are left"
        for kind in AT_REST
        if (count := len(cluster.objects(kind))) != before[kind]
    ]
    print(f"{number} lives in {hours:g} hours: {'; '.join(problems) or 'nothing grew, nothing is left'}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.virtual", description="Hours of the whole plane: what grows?"
    )
    parser.add_argument("--hours", type=float, default=8.0, help="of the cluster's time, 3 at least")
    parser.add_argument("--volumes", type=int, default=10_000, help="that are at rest")
    options = parser.parse_args()
    with a_cluster() as cluster:
        return 1 if soak(cluster, options.hours, options.volumes) else 0


if __name__ == "__main__":
    sys.exit(main())
