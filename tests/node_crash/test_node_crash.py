"""A few of the kills of `make node-crash`: at random moments, in calls, and after some of the changes on the disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node_crash.points import Points
from tests.node_crash.rounds import Round
from tests.support.control_plane import ControlPlane
from tests.support.node_cluster import a_node_cluster

CHANGES = (25, 55)


@pytest.mark.long
def test_kills_leave_nothing_behind(new_control_plane: Callable[..., ControlPlane]) -> None:
    with a_node_cluster(new_control_plane(), "n1", "n2", "n3") as cluster:
        Round(cluster, 1, seed=1).run(pods=50, kills=4)
        points = Points(cluster, cluster.nodes[0])
        for number in CHANGES:
            assert points.die_at_change(number), f"nobody died after change {number}"
