"""What deploy/node offers works on a node as it stands: the real server and controllers roll it out, and the driver is
registered.

The kubelet's containers are those of tests/support/kubelet.py, its registration of plugins is that of Mooring's agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.csi.wire_driver import WireDriver
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.node.csinode.reconcile import NodeObjects
from mooring.node.drivers import Drivers
from mooring.node.plugins.controller import Plugins
from mooring.node.plugins.watcher import SocketWatcher
from tests.support.builders import Json
from tests.support.control_plane import ControlPlane
from tests.support.kubelet import Kubelet, a_kubelet
from tests.support.real import binary
from tests.unit.test_images import image, targets, workload

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "node"
PLUGIN = Path(__file__).resolve().parents[1] / "support" / "node_plugin.py"
SCRIPTS = Path(sys.executable).parent
CONTROLLERS = (
    "daemonset-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "garbage-collector-controller",
)
NAMESPACE, DRIVER, KUBELET = "storage", "csi.example.com", "var/lib/kubelet"
ROLLOUT_S_MAX = 120


def entry_points(name: str, kubeconfig: Path) -> Sequence[str | Path]:
    """What each image starts, as the Containerfile says."""
    base = name.partition(":")[0]
    if base == "driver":
        return [sys.executable, PLUGIN, DRIVER]
    (script,) = {image(target): entry for target, entry in targets().items()}[base]
    return [SCRIPTS / script]


def in_place(folder: Path) -> Path:
    """A copy of the folder, with the one edit that a test needs: the driver's image."""
    copy = folder / "node"
    shutil.copytree(DEPLOY, copy)
    file = copy / "kustomization.yaml"
    file.write_text(file.read_text().replace("newName: DRIVER", "newName: driver"))
    return copy


@contextlib.contextmanager
def registering(plane: ControlPlane, node: str, registry: Path) -> Iterator[None]:
    """Registers the plugins of a node for the block, in a thread of its own."""
    loop, done = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        clock, randomness, drivers = LoopClock(), Random(), Drivers()
        async with HttpCluster(
            load(str(plane.kubeconfig()), {}), clock=clock, randomness=randomness, user_agent="tests"
        ) as cluster:
            plugins = Plugins(
                Runtime(cluster, clock, randomness, Metrics()),
                drivers,
                NodeObjects(cluster, node, clock=clock),
                lambda socket: watcher.generation(socket),
                lambda _, endpoint: WireDriver(endpoint, clock=clock),
            )
            watcher = SocketWatcher(registry, plugins.changed, clock=clock)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part, name="part") for part in (plugins.controller.run(), watcher.run())]
                await done.wait()
                for task in tasks:
                    task.cancel()
            await drivers.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
        loop.close()


def get(plane: ControlPlane, path: str) -> Json:
    status, body = plane.request("GET", path)
    assert 200 == status, body
    found: Json = json.loads(body)
    return found


def roll_out(plane: ControlPlane, kubelet: Kubelet, seconds: int) -> str:
    """What `kubectl rollout status` says in the end; the kubelet works meanwhile."""
    command = [
        binary("kubectl"),
        f"--kubeconfig={plane.kubeconfig()}",
        "-n",
        NAMESPACE,
        "rollout",
        "status",
        "daemonset/csi-node",
    ]
    with subprocess.Popen(
        [*command, f"--timeout={seconds}s"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as rollout:
        kubelet.until(lambda: rollout.poll() is not None, seconds + 10, "the end of the rollout")
        assert rollout.stdout is not None
        return rollout.stdout.read()


@pytest.mark.long
@pytest.mark.slow
def test_the_daemon_set_is_ready_once_the_kubelet_has_registered_the_driver(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane(accounts=True)
    plane.start_controllers(*CONTROLLERS, flags=[f"--root-ca-file={plane.ca_file}"])
    plane.start_scheduler()
    with a_kubelet(plane, entry_points) as kubelet:
        registry = kubelet.host / KUBELET / "plugins_registry"
        registry.mkdir(parents=True)
        (kubelet.host / "dev").mkdir()
        folder = in_place(tmp_path)
        plane.kubectl("apply", "-k", str(folder))
        kubelet.until((registry / f"{DRIVER}-reg.sock").exists, ROLLOUT_S_MAX, "the registration socket")
        assert "timed out" in roll_out(plane, kubelet, 3), "ready, though no kubelet has registered it"
        with registering(plane, kubelet.node, registry):
            assert 'daemon set "csi-node" successfully rolled out\n' in roll_out(plane, kubelet, ROLLOUT_S_MAX)
            assert [(DRIVER, kubelet.node)] == registered(plane, kubelet.node)
            is_as_declared(plane, folder)
            plane.kubectl("delete", "-k", str(folder), "-l", "!mooring.dev/stays")
            kubelet.until(lambda: not registered(plane, kubelet.node), 60, "the driver leaves CSINode with its pod")


def registered(plane: ControlPlane, node: str) -> list[tuple[str, str]]:
    """The drivers that CSINode names, with their node ids."""
    drivers = get(plane, f"/apis/storage.k8s.io/v1/csinodes/{node}")["spec"]["drivers"] or []
    return [(one["name"], one["nodeID"]) for one in drivers]


def is_as_declared(plane: ControlPlane, folder: Path) -> None:
    """One pod, admitted with the containers that the manifest has, and without a token."""
    (pod,) = get(plane, f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    manifest = workload(folder)["spec"]["template"]["spec"]
    assert [one["name"] for one in manifest["containers"]] == [one["name"] for one in pod["spec"]["containers"]]
    assert [one["name"] for one in manifest["volumes"]] == [one["name"] for one in pod["spec"]["volumes"]]
    assert "system-node-critical" == pod["spec"]["priorityClassName"]
