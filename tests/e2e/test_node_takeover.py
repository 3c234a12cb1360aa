"""The real kubelet and Mooring's agent on one root folder: after a kill -9 each goes on with the other's mounts, none
is made twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.node_cluster import NodeCluster, a_node_cluster
from tests.support.real_kubelet import RealKubelet


@pytest.mark.long
def test_each_takes_over_what_the_other_has_mounted(new_control_plane: Callable[..., ControlPlane]) -> None:
    """From the agent to the kubelet and back; with volumes that are mounted, gone or new under each of the two."""
    with a_node_cluster(new_control_plane()) as cluster:
        node = cluster.nodes[0]
        kubelet = RealKubelet(cluster, node)
        try:
            by_agent, held = _pods(cluster, "a"), _pods(cluster, "b")
            before = _mounts(cluster)
            assert 2 * 5 == len(before.keys()), before

            calls = _publishes(cluster)
            node.kill_agent()
            kubelet.start()
            _until_published_again(cluster, calls, *by_agent, *held)
            assert before == _mounts(cluster)
            by_kubelet = _pods(cluster, "c")
            _delete(cluster, by_agent)
            # The kubelet deletes a pod of which it holds a mount for uncertain, and unmounts that afterwards.
            cluster.until(
                lambda: 2 * 5 == len(_mounts(cluster)), "the kubelet has unmounted the volumes of the deleted pods"
            )
            kept = _mounts(cluster)
            assert [] == [point for point, found in kept.items() if found != before.get(point, found)]

            calls = _publishes(cluster)
            node.kill_agent()
            cluster.delete_pod(by_kubelet[0])
            node.start_agent()
            _until_published_again(cluster, calls, *held, by_kubelet[1])
            cluster.until(lambda: by_kubelet[0] not in cluster.pods(), "the pod that was deleted in between is gone")
            after = _mounts(cluster)
            assert 5 + 2 == len(after)
            assert [] == [point for point, found in after.items() if found != kept[point]]
            _delete(cluster, [*held, by_kubelet[1]])
            cluster.until(lambda: {} == _mounts(cluster) and [] == cluster.backend.left_over(), "nothing is mounted")

            node.kill_agent()
            kubelet.start()  # the folders of its containers are its own to remove, and with them those of the pods
            cluster.until_clean()
        finally:
            kubelet.close()


@pytest.mark.long
def test_a_disk_that_a_pod_names_itself_is_taken_over_too(new_control_plane: Callable[..., ControlPlane]) -> None:
    """27 A1: both mount it under the same names, and each takes away what the other has mounted."""
    with a_node_cluster(new_control_plane(), driver_name="cinder.csi.openstack.org") as cluster:
        node = cluster.nodes[0]
        kubelet = RealKubelet(cluster, node)
        try:
            first, second = _user(cluster, "first"), _user(cluster, "second")
            before = _mounts(cluster)
            assert 2 * 2 == len(before), before

            calls = _publishes(cluster)
            node.kill_agent()
            kubelet.start()
            _until_published_again(cluster, calls, f"disk-{first}", f"disk-{second}")
            assert before == _mounts(cluster)
            third = _user(cluster, "third")
            _delete(cluster, [first])
            cluster.until(
                lambda: 2 * 2 == len(_mounts(cluster)), "the kubelet has unmounted the disk of the agent's pod"
            )
            kept = _mounts(cluster)

            calls = _publishes(cluster)
            node.kill_agent()
            cluster.delete_pod(third)
            node.start_agent()
            _until_published_again(cluster, calls, f"disk-{second}")
            cluster.until(lambda: 2 == len(_mounts(cluster)), "the agent has unmounted the disk of the kubelet's pod")
            assert [] == [point for point, found in _mounts(cluster).items() if found != kept[point]]
            _delete(cluster, [second])
            cluster.until(
                lambda: {} == _mounts(cluster) and [] == cluster.backend.left_over(),
                "nothing is mounted, nothing attached",
            )

            node.kill_agent()
            kubelet.start()
            cluster.until_clean()
        finally:
            kubelet.close()


def _user(cluster: NodeCluster, life: str) -> str:
    """A pod with a disk of its own; it runs."""
    name = f"{life}-{cluster.suffix}"
    cluster.add_pod(name, cluster.nodes[0].name, own=[{"name": "own", "cinder": {"volumeID": f"disk-{name}"}}])
    cluster.until_running(name)
    return name


def _pods(cluster: NodeCluster, life: str) -> list[str]:
    """A pod with a file system and an inline volume, and one with a raw device; they run."""
    mounted, raw = f"{life}-fs-{cluster.suffix}", f"{life}-raw-{cluster.suffix}"
    cluster.add_volume(mounted)
    cluster.add_volume(raw, block=True)
    cluster.add_pod(mounted, cluster.nodes[0].name, mounted, inline=["scratch"])
    cluster.add_pod(raw, cluster.nodes[0].name, raw, devices=True)
    cluster.until_running(mounted, raw)
    return [mounted, raw]


def _delete(cluster: NodeCluster, pods: list[str]) -> None:
    for pod in pods:
        cluster.delete_pod(pod)
    cluster.until(lambda: not set(pods) & set(cluster.pods()), "the pods are gone")


def _mounts(cluster: NodeCluster) -> dict[str, list[int]]:
    """The mounts of volumes, by their points, as the kernel numbers them: one that is made anew has another number."""
    layout, found = cluster.nodes[0].layout, dict[str, list[int]]()
    for top in (layout.pods, layout.csi):
        for mount in cluster.namespace.mounts().below(str(top)):
            found.setdefault(mount.point, []).append(mount.id)
    return found


def _publishes(cluster: NodeCluster) -> Counter[str]:
    """The calls of NodePublishVolume so far, by volume."""
    return Counter(
        call.split()[1]
        for call in cluster.backend.calls(cluster.nodes[0].name)
        if call.startswith("NodePublishVolume ")
    )


def _until_published_again(cluster: NodeCluster, before: Counter[str], *volumes: str) -> None:
    """What a start finds is published once more, for the driver to say that it is there; that is the sign of the
    takeover.
    """

    def published() -> bool:
        waiting = [volume for volume in volumes if not (_publishes(cluster) - before)[volume]]
        assert not waiting, waiting
        return True

    cluster.until(published, "the volumes are taken over")
