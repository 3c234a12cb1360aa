"""Item A10 of issue 27: nodes without an attach/detach controller, on the real API server, with the attacher and a
driver that mounts.
"""

from __future__ import annotations

from tests.support.control_plane import ControlPlane
from tests.support.node_cluster import a_node_cluster


def test_nodes_attach_by_themselves_also_through_a_kill(control_plane: ControlPlane) -> None:
    """A volume goes from node to node; an agent is killed with a volume mounted, and its pod goes meanwhile."""
    with a_node_cluster(control_plane, "n1", "n2", alone=True) as cluster:
        first, second = cluster.nodes
        volume = f"v-{cluster.suffix}"
        cluster.add_volume(volume, modes=("ReadWriteOnce",))
        for node in (first, second):
            cluster.add_pod(f"{volume}-{node.name}", node.name, volume)
            cluster.until_running(f"{volume}-{node.name}")
            assert [] == cluster.node_status(node.name).get("volumesAttached", []), "that is the controller's to write"
            cluster.delete_pod(f"{volume}-{node.name}")
            cluster.until_clean()
        again = f"again-{cluster.suffix}"
        cluster.add_pod(again, first.name, volume)
        cluster.until_running(again)
        first.kill_agent()
        cluster.plane.kubectl("delete", "pod", again, "--grace-period=0", "--force")
        assert cluster.left_over()
        first.start_agent()
        cluster.until_clean()
