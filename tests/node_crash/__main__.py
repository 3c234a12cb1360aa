"""Many kills: `python -m tests.node_crash --seeds 10`. Exit code 1 when something was left, or a pod did not come or
go.

Each seed is a round of fifty pods on three agents. Before the first, one of the agents dies after each change that it
makes on its disk, and agent and driver die before and after each of the driver's calls.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback

import pytest

from tests.node_crash.points import CALLS, Points
from tests.node_crash.rounds import Round
from tests.support.control_plane import ControlPlane
from tests.support.node_cluster import NodeCluster, a_node_cluster


def _at_every_step(cluster: NodeCluster) -> int:
    """The number of kills."""
    points, kills = Points(cluster, cluster.nodes[0]), 0
    for number in range(1, len(points.trace()) + 1):
        if change := points.die_at_change(number):
            kills += 1
            print(f"died after change {number}, {change}", flush=True)
    for who, method, when in CALLS:
        points.die_in_call(who, method, when)
        kills += 1
        print(f"{who} died {when} {method}", flush=True)
    return kills


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.node_crash", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument(
        "--seeds", type=int, default=10, help="rounds of fifty pods; 0 for the kills at every step alone"
    )
    parser.add_argument(
        "--first", type=int, default=random.randrange(1 << 31), help="the first seed; the timing is the machine's"
    )
    parser.add_argument("--no-steps", action="store_true", help="without the kills at every step")
    options = parser.parse_args()
    os.environ["MOORING_REQUIRE_REAL"] = "1"  # nothing to skip here
    began, kills, plane = time.monotonic(), 0, ControlPlane.start()
    try:
        with a_node_cluster(plane, "n1", "n2", "n3") as cluster:
            if not options.no_steps:
                kills += _at_every_step(cluster)
            for number in range(options.seeds):
                print(f"round {number + 1}, seed {options.first + number}", flush=True)
                round_ = Round(cluster, number, options.first + number)
                round_.run()
                kills += round_.kills
    except (AssertionError, pytest.fail.Exception) as error:
        traceback.print_exception(error, file=sys.stdout)
        print(f"BROKEN after {kills} kills")
        return 1
    finally:
        plane.stop()
    print(f"held: {kills} kills, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
