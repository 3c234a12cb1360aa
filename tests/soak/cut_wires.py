"""Volumes live and die while connections break: `python -m tests.soak.cut_wires --minutes 30`, or `make soak-wires`.

csi-provisioner and csi-attacher stand before a real kube-apiserver and a driver's socket, each behind a relay that
tears a connection at random, in mid-message, and now and then all of them. Exit code 1 when memory or open files of one
of them grew in the second half of the run, when a life got stuck, when something was left, made twice or attached
twice, or when a program ended badly. A line each ten seconds says how it goes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUMES
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.driver.server import serving
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import Cluster
from mooring.sidecars.provisioner.intents import lease_codec
from tests.soak.lives import Array, Lives
from tests.soak.meter import LIMITS, Sample, grown, take
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.relay import Relay, relay_to, relay_to_socket

DRIVER: Final = "soak.csi.test"
PROGRAMS: Final = ("csi_provisioner", "csi_attacher")
BINDING: Final = (
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)
_WATCHED: Final = tuple(
    limit for limit in LIMITS if "latency" not in limit.what
)  # how long a life takes is up to the cuts


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.cut_wires", description="Volumes live and die while connections break."
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long")
    parser.add_argument("--writers", type=int, default=16, help="lives at a time")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds from cut to cut, at the most")
    parser.add_argument("--seed", type=int, default=1, help="of the cuts")
    options = parser.parse_args()
    plane = ControlPlane.start()
    try:
        plane.start_controllers(
            *BINDING, flags=["--pvclaimbinder-sync-period=1s", "--kube-api-qps=1000", "--kube-api-burst=2000"]
        )
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            return asyncio.run(_soak(plane, Path(folder), options))
    finally:
        plane.stop()


async def _soak(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> int:
    clock, randomness = LoopClock(), Random(options.seed)
    array = Array(DRIVER, randomness)
    straight, torn = folder / "csi.sock", folder / "torn.sock"
    place = urlsplit(plane.server)
    assert place.hostname is not None
    assert place.port is not None
    async with (
        HttpCluster(
            kubeconfig.load(str(plane.kubeconfig()), {}), clock=clock, randomness=randomness, user_agent="soak"
        ) as cluster,
        serving(array, str(straight), grace_s=0),
        relay_to_socket(str(straight), str(torn)) as to_driver,
        relay_to(place.hostname, place.port) as to_server,
    ):
        lives = Lives(cluster, clock, randomness, DRIVER, writers=options.writers)
        await lives.prepare()
        config = plane.kubeconfig(server=f"https://127.0.0.1:{to_server.port}")
        async with _programs(folder, config, torn) as programs:
            tearing = asyncio.create_task(_tear((to_server, to_driver), randomness, options.pause), name="soak/cuts")
            samples = await _measured(lives, programs, folder, options.minutes * 60.0)
            tearing.cancel()
            problems = [f"{name}: {text}" for name, taken in samples.items() for text in grown(taken, _WATCHED)]
            problems += [*array.problems, *lives.problems, *await _left(array, cluster)]
            for name, program in programs.items():
                code = await asyncio.to_thread(program.stop)
                if code != 0:
                    problems.append(f"{name} ended with {code}:\n{program.log_tail()}")
                if "unexpected" in program.output():
                    problems.append(f"{name} met something that is not foreseen:\n{program.log_tail()}")
    print(f"{lives.count} lives in {options.minutes:g} minutes, driver's answers {dict(array.codes)}: ", end="")
    print("; ".join(problems) or "nothing grew, nothing was lost, nothing is left")
    return 1 if problems else 0


@contextlib.asynccontextmanager
async def _programs(folder: Path, config: Path, socket: Path) -> AsyncIterator[dict[str, Program]]:
    flags = [
        f"--kubeconfig={config}",
        f"--csi-address={socket}",
        "--timeout=10s",
        "--retry-interval-start=200ms",
        "--retry-interval-max=2s",
    ]
    running = {
        name: Program(
            [sys.executable, "-m", f"mooring.cli.{name}", *flags],
            folder / f"{name}.log",
            {**os.environ, "POD_NAMESPACE": ""},
        )
        for name in PROGRAMS
    }
    try:
        yield running
    finally:
        for program in running.values():
            program.kill()


async def _tear(relays: tuple[Relay, ...], randomness: Random, pause_s_max: float) -> None:
    while True:
        await asyncio.sleep(randomness.uniform(0.0, pause_s_max))
        relay = relays[randomness.below(len(relays))]
        if randomness.happens(0.2):
            relay.cut()
        else:
            relay.tear_one(randomness)


async def _measured(
    lives: Lives, programs: Mapping[str, Program], folder: Path, length_s: float
) -> dict[str, list[Sample]]:
    """Samples of each program. Returns after the last life has ended."""
    nothing = folder / "nothing"
    nothing.mkdir()
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    step_s = min(10.0, length_s / 20)
    running = asyncio.create_task(lives.run(), name="soak/lives")
    began = shown_at = time.monotonic()
    while time.monotonic() - began < length_s and not running.done():
        await asyncio.sleep(step_s)
        now = time.monotonic()
        seconds, lives.seconds = lives.seconds, []
        for name, program in programs.items():
            program.assert_alive()
            samples[name].append(take(program.pid, nothing, now - began, seconds, now - shown_at))
        shown_at = now
        _show({name: taken[-1] for name, taken in samples.items()}, length_s)
    lives.end()
    await running
    return samples


def _show(samples: Mapping[str, Sample], length_s: float) -> None:
    one = next(iter(samples.values()))
    parts = [
        f"{one.at_s:6.0f}/{length_s:.0f} s",
        f"{one.requests_per_s:5.1f} lives/s",
        f"p50 {one.p50_ms:6.0f} ms",
        f"p99 {one.p99_ms:6.0f} ms",
    ]
    parts += [f"{name} {sample.rss_mib:5.1f} MiB, {sample.files} files" for name, sample in samples.items()]
    print("  ".join(parts), flush=True)


async def _left(array: Array, cluster: Cluster) -> list[str]:
    """What is there after the last life, or thought to be."""
    volumes = [f"PersistentVolume {pv.metadata.name} is there" for pv in (await cluster.list(PERSISTENT_VOLUMES)).items]
    leases = (await cluster.list(LEASES.whole())).items
    return [
        *array.left(),
        *volumes,
        *(f"the intent for {intent.uid} is open" for lease in leases for intent in lease_codec.entries_of(lease)),
    ]


if __name__ == "__main__":
    sys.exit(main())
