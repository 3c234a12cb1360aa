"""Mounts that hang or are dead: the volumes of other pods go on, an agent that begins takes them up, and they can be
taken away.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.node_cluster import NodeCluster, a_node_cluster


def _stat(cluster: NodeCluster, point: Path) -> str:
    """The answer of a program that asks for the folder's status; "hangs" when there is none."""
    command = cluster.namespace.command("timeout", "--signal=KILL", "1", "stat", point)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return "hangs" if done.returncode < 0 or done.returncode == 137 else done.stderr or done.stdout


@pytest.mark.long
@pytest.mark.parametrize(("sig", "answer"), [(signal.SIGSTOP, "hangs"), (signal.SIGKILL, "endpoint is not connected")])
def test_a_pod_on_a_mount_that_does_not_answer_holds_up_no_other(
    control_plane: ControlPlane, sig: int, answer: str
) -> None:
    with a_node_cluster(control_plane, attaches=False) as cluster:
        node = cluster.nodes[0]
        stuck, others = f"fuse-{cluster.suffix}", [f"v{number}-{cluster.suffix}" for number in range(8)]
        for name in (stuck, *others):
            cluster.add_volume(name)
        uid = cluster.add_pod(stuck, node.name, stuck)
        cluster.until_running(stuck)
        os.kill(cluster.backend.fuse_pid(stuck), sig)
        for point in (node.layout.staging(cluster.driver_name, stuck), node.layout.target(uid, stuck)):
            assert answer in _stat(cluster, point)

        node.kill_agent()
        node.start_agent()
        for name in others:
            cluster.add_pod(name, node.name, name)
        cluster.until_running(*others)
        for name in others:
            cluster.delete_pod(name)
        cluster.until(lambda: set(cluster.pods()) == {stuck}, "the other pods are gone")

        node.end_agent()
        node.start_agent()
        cluster.delete_pod(stuck)
        cluster.until_clean()


def test_a_change_of_owner_that_hangs_holds_up_no_other_pod_and_no_end(control_plane: ControlPlane) -> None:
    """More pods than the driver has threads: the files of the driver's other volumes are worked on by the rest of
    them.
    """
    with a_node_cluster(control_plane, attaches=False) as cluster:
        node = cluster.nodes[0]
        stuck, others = f"fuse-stops-{cluster.suffix}", [f"v{number}-{cluster.suffix}" for number in range(8)]
        for name in (stuck, *others):
            cluster.add_volume(name)
        cluster.add_pod(stuck, node.name, stuck, securityContext={"fsGroup": 1234})
        cluster.until(
            lambda: f"NodePublishVolume {stuck}" in cluster.backend.calls(node.name), "the volume is published"
        )
        for name in others:
            cluster.add_pod(name, node.name, name)
        cluster.until_running(*others)
        assert "Pending" == cluster.pods()[stuck]
        node.end_agent()
        node.start_agent()
        for name in others:
            cluster.delete_pod(name)
        cluster.until(lambda: set(cluster.pods()) == {stuck}, "the other pods are gone")
        os.kill(cluster.backend.fuse_pid(stuck), signal.SIGCONT)
        cluster.delete_pod(stuck)
        cluster.until_clean()
