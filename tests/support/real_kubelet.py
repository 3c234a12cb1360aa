"""The real kubelet, over a runtime that runs nothing: what it does to volumes is all its own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.container_runtime import start
from tests.support.node_cluster import NodeCluster, NodePlace
from tests.support.programs import free_ports
from tests.support.real import binary
from tests.support.waiting import eventually


class RealKubelet:
    """On a node of the cluster, in place of its agent, with the same root folder."""

    def __init__(self, cluster: NodeCluster, node: NodePlace) -> None:
        self._cluster, self._node = cluster, node
        self._program = binary("kubelet")
        self._folder = node.folder / "kubelet"
        self._folder.mkdir()
        self._socket = self._folder / "cri.sock"
        self._runtime = start(self._socket, self._folder)
        eventually(self._socket.exists, 30, "the runtime serves")

    def start(self) -> None:
        """In place of the agent; node.kill_agent() kills it."""
        config = self._folder / "config.json"
        quick = {"nodeStatusUpdateFrequency": "1s", "syncFrequency": "2s"}
        config.write_text(json.dumps({**configuration(self._folder, self._socket), **quick}))
        flags = [f"--config={config}", f"--hostname-override={self._node.name}", f"--cert-dir={self._folder / 'pki'}"]
        self._node.start_agent([self._program, f"--root-dir={self._node.root}", *flags], names_node=False)

    def close(self) -> None:
        self._runtime.kill()


def configuration(folder: Path, socket: Path) -> dict[str, object]:
    """No cgroups, no evictions. folder: for what is its own. socket: of its runtime."""
    for name in ("pki", "logs", "volumeplugins"):
        (folder / name).mkdir(exist_ok=True)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": free_ports(1)[0],
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "volumePluginDir": str(folder / "volumeplugins"),
        "podLogsDir": str(folder / "logs"),
        "resolvConf": "",
        "oomScoreAdj": 0,
        "registerWithTaints": [],
    }
