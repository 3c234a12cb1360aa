"""How cost grows with the size of a cluster: all of Mooring's controllers beside the Go programs. `make
bench-scale`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.contender import Contender, build_driver
from bench.load import a_load
from bench.scale import etcd
from bench.scale.churn import Setting
from bench.scale.embedded import EmbeddedPlane
from bench.scale.lived import Size
from bench.scale.peers import EACH, GO, ONE
from bench.scale.reading import lists_alone
from bench.scale.report import table
from bench.scale.rounds import Load, Rounds, Run
from bench.tables import heading, print_parts
from bench.turns import TRIES_MAX, Turns
from tests.support.control_plane import ControlPlane

REAL, EMBEDDED = "kube-apiserver", "mooring apiserver"
BESIDE = (
    "kube-controller-manager v1.36, csi-attacher v4.12, csi-provisioner v6.3, csi-resizer v2.2 and csi-snapshotter v8.6"
)


async def at(volumes: int, options: argparse.Namespace) -> tuple[dict[str, list[Run]], str]:
    """The rounds on a cluster of this size, by contender; and what its lists take without any."""
    contenders = [Contender(name, ()) for name in options.contenders]
    load = Load(options.rate, options.seconds, options.heartbeats)
    size = Size(volumes, load.spares * len(contenders) * options.rounds * TRIES_MAX)
    plane = await (_embedded(size) if options.server == EMBEDDED else _real(size))
    try:
        rounds = Rounds(plane, size, build_driver(plane.folder), load)
        turns = Turns(contenders, options.rounds, options.quiet)
        alone = await asyncio.to_thread(lists_alone, plane)
        return await turns.take(f"{volumes} volumes", lambda one: rounds.round(one.name)), alone
    finally:
        plane.stop()


async def _real(size: Size) -> ControlPlane:
    plane = ControlPlane.start(etcd_flags=[*etcd.FLAGS], fill=functools.partial(etcd.fill, size=size))
    async with a_load(plane, Setting) as setting:
        await setting.prepare()
    return plane


async def _embedded(size: Size) -> ControlPlane:
    """The kinds are there before their objects are."""
    plane = EmbeddedPlane("--unsafe-no-fsync")  # as the etcd beside it
    plane.run()
    async with a_load(plane, Setting) as setting:
        await setting.prepare()
    plane.pause()
    plane.fill(size)
    plane.run()
    return plane


async def measure(options: argparse.Namespace) -> AsyncIterator[str]:
    """Gives each part of the results when it is known."""
    yield f"{heading(BESIDE)} On {options.server}. Medians over rounds."
    for volumes in options.volumes:
        runs, alone = await at(volumes, options)
        if options.raw is not None:
            with options.raw.open("a") as raw:
                for name, many in runs.items():
                    for run in many:
                        about = {"volumes": volumes, "server": options.server, "contender": name}
                        print(json.dumps(about | _rounded(dataclasses.asdict(run))), file=raw)
        yield f"{table(volumes, runs)}\n\n{alone}"


def _rounded(value: Any) -> Any:
    """All figures to the tenth of a thousandth: more digits than that were not measured."""
    match value:
        case float():
            return round(value, 4)
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
        case list():
            return [_rounded(each) for each in value]
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volumes", type=int, nargs="+", default=[1000, 10_000], help="sizes, one cluster for each")
    parser.add_argument("--server", default=REAL, choices=[REAL, EMBEDDED], help="the API server that they work on")
    parser.add_argument("--contenders", nargs="+", default=[GO, EACH, ONE], choices=[GO, EACH, ONE])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5.0, help="pods a second that come and go")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long")
    parser.add_argument(
        "--heartbeats", type=float, default=50.0, help="lease renewals a second at the most; a node has one in 10 s"
    )
    parser.add_argument("--quiet", type=float, default=0.3, help="processors that others may keep busy")
    parser.add_argument("--raw", type=Path, help="a file to which each round is added, as a line of JSON")
    print_parts(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
