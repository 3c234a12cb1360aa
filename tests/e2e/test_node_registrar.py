"""The Go registrar with Mooring's agent: it registers a driver whose volume a pod gets, and takes it off when it
ends.
"""

from __future__ import annotations

import signal

from tests.support.control_plane import ControlPlane
from tests.support.node_cluster import a_node_cluster
from tests.support.real import binary


def test_the_go_registrar_registers_a_driver_with_our_agent(control_plane: ControlPlane) -> None:
    registrar = binary("csi-node-driver-registrar")
    with a_node_cluster(control_plane, attaches=False, registers=False) as cluster:
        node = cluster.nodes[0]
        socket = node.root / "plugins" / cluster.driver_name / "csi.sock"
        flags = [
            f"--csi-address={socket}",
            f"--kubelet-registration-path={socket}",
            f"--plugin-registration-path={node.layout.registry}",
        ]
        cluster.until(lambda: socket.exists() and node.layout.registry.is_dir(), "driver and agent are there")
        program = cluster.program("registrar", registrar, *flags)
        cluster.until(lambda: cluster.is_registered(node.name), "the driver is registered")
        volume = f"v-{cluster.suffix}"
        cluster.add_volume(volume)
        cluster.add_pod(volume, node.name, volume)
        cluster.until_running(volume)
        cluster.delete_pod(volume)
        cluster.until_clean()
        program.send(signal.SIGTERM)
        assert 0 == program.wait_exit()
        cluster.until(lambda: not cluster.is_registered(node.name), "the driver is taken off")
