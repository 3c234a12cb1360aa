"""The real kubelet and Mooring's agent on one root folder: each goes on with the other's mounts after a kill -9, and mounts nothing twice."""

from __future__ import annotations

from tests.support.control_plane import ControlPlane
from tests.support.node_cluster import NodeCluster, a_node_cluster
from tests.support.real_kubelet import RealKubelet


def _mounts(cluster: NodeCluster) -> list[tuple[int, str]]:
    """The mounts of volumes, by the kernel's numbers: what was mounted anew has another one."""
    node = cluster.nodes[0]
    below = (*cluster.namespace.mounts().below(str(node.layout.pods)), *cluster.namespace.mounts().below(str(node.layout.csi)))
    return sorted((mount.id, mount.point) for mount in below)


def test_each_takes_over_what_the_other_has_mounted(new_control_plane_for_volumes: ControlPlane) -> None:
    with a_node_cluster(new_control_plane_for_volumes) as cluster:
        node = cluster.nodes[0]
        kubelet = RealKubelet(cluster, node)
        try:
            _there_and_back(cluster, kubelet)
        finally:
            kubelet.close()


def _pods(cluster: NodeCluster, life: str) -> list[str]:
    """A pod with a file system and an inline volume, and one with a raw device; they run."""
    mounted, raw = f"{life}-fs-{cluster.suffix}", f"{life}-raw-{cluster.suffix}"
    cluster.add_volume(mounted)
    cluster.add_volume(raw, block=True)
    cluster.add_pod(mounted, cluster.nodes[0].name, mounted, inline=["scratch"])
    cluster.add_pod(raw, cluster.nodes[0].name, raw, devices=True)
    cluster.until_running(mounted, raw)
    return [mounted, raw]


def _there_and_back(cluster: NodeCluster, kubelet: RealKubelet) -> None:
    node, held = cluster.nodes[0], [*_pods(cluster, "first"), *_pods(cluster, "last")]
    before, loops = _mounts(cluster), cluster.loops()
    assert 2 * 5 == len(before), before
