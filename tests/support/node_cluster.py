"""Nodes on a real API server: an agent and a driver that mounts on each, all in one mount namespace, and what pods
need.

Controllers attach: the real attach/detach controller, and Mooring's csi-attacher beside a driver of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mooring.mounts import loops
from mooring.node.layout import KubeletLayout
from tests.support.builders import a_bound_claim, a_csi_driver, a_held_pv, a_pod, a_reference
from tests.support.control_plane import ControlPlane
from tests.support.mount_namespace import MountNamespace
from tests.support.mounting_driver import Backend
from tests.support.programs import Program
from tests.support.rest import STRATEGIC_PATCH
from tests.support.waiting import eventually

Json = dict[str, Any]
ATTACH_DETACH = "persistentvolume-attach-detach-controller"
_BIN = Path(sys.executable).parent
_PODS = "/api/v1/namespaces/default/pods"
_STORAGE = "/apis/storage.k8s.io/v1"


class NodePlace:
    """One node. agent, driver: None while they do not run."""

    def __init__(self, cluster: NodeCluster, name: str) -> None:
        self._cluster, self.name = cluster, name
        self.folder = cluster.folder / name
        self.root = self.folder / "root"
        self.root.mkdir(parents=True)
        cluster.namespace.run("mount", "--bind", self.root, self.root)
        cluster.namespace.run(
            "mount", "--make-shared", self.root
        )  # else a kubelet mounts it on itself, over all that is mounted below
        self.layout = KubeletLayout(self.root)
        self.agent: Program | None = None
        self.driver: Program | None = None

    def start_agent(self, command: Sequence[str | Path] = (), *, names_node: bool = True) -> Program:
        """command: in place of `mooring node-agent` and its root folder. names_node: it has the flag --node-name."""
        assert self.agent is None
        alone = ["--enable-controller-attach-detach=false"] if self._cluster.alone else []
        own = command or [_BIN / "mooring", "node-agent", f"--root-dir={self.root}", "--v=2", *alone]
        flags = [
            f"--kubeconfig={self._cluster.plane.kubeconfig()}",
            *([f"--node-name={self.name}"] if names_node else []),
        ]
        self.agent = self._cluster.program(f"agent-{self.name}", *own, *flags)
        return self.agent

    def start_driver(self) -> None:
        assert self.driver is None
        driver = self._cluster.driver_name
        sockets = (self.root / "plugins" / driver / "csi.sock", self.layout.registry / f"{driver}-reg.sock")
        self.driver = self._cluster.driver_program(self.name, *sockets[: 2 if self._cluster.registers else 1])

    def kill_agent(self) -> None:
        """As kill -9 does; it may be dead."""
        if self.agent is not None:
            self.agent.kill()
        self.agent = None

    def end_agent(self) -> None:
        """As a user does, by SIGTERM."""
        assert self.agent is not None
        self.agent.send(signal.SIGTERM)
        assert 0 == self.agent.wait_exit(30)
        self.agent = None

    def kill_driver(self) -> None:
        if self.driver is not None:
            self.driver.kill()
        self.driver = None

    def folders(self) -> list[str]:
        """What is left of volumes and pods below the root folder, files and folders."""
        layout = self.layout
        kept = {
            layout.csi / self._cluster.driver_name,
            layout.block,
            layout.block / "staging",
            layout.block / "publish",
        }
        walked = [found for top in (self.layout.pods, self.layout.csi) for found in os.walk(top)]
        found = [Path(where) / name for where, folders, files in walked for name in (*folders, *files)]
        return sorted(str(path.relative_to(self.root)) for path in found if path not in kept)


class NodeCluster:
    """attaches: volumes are attached before they are mounted. registers: drivers register themselves, without a
    registrar.

    alone: no controller attaches, nodes ask the attacher themselves. suffix: makes the names of nodes and driver this
    cluster's own. driver_name: another one.
    """

    def __init__(
        self,
        plane: ControlPlane,
        node_names: Sequence[str] = ("n1",),
        *,
        attaches: bool = True,
        registers: bool = True,
        alone: bool = False,
        driver_name: str = "",
    ) -> None:
        self.registers, self.alone = registers, alone
        self.plane, self._attaches, self.suffix = plane, attaches, uuid.uuid4().hex[:6]
        self.driver_name = driver_name or f"m{self.suffix}.csi.test"
        self.namespace = MountNamespace()
        self.folder = Path(tempfile.mkdtemp(prefix="nodes-"))  # short: there are sockets in it
        self.backend = Backend(self.folder / "backend")
        self._programs: list[Program] = []
        self._numbers = itertools.count(1)
        self.nodes = [NodePlace(self, f"{name}-{self.suffix}") for name in node_names]

    # -- programs

    def start(self) -> None:
        """Everything; returns once each driver that registers itself is registered."""
        spec = {
            "attachRequired": self._attaches,
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            "fsGroupPolicy": "File",
        }
        self._post(f"{_STORAGE}/csidrivers", a_csi_driver(self.driver_name, **spec))
        if self._attaches:
            if not self.alone:
                self.plane.start_controllers(ATTACH_DETACH, flags=["--kube-api-qps=1000", "--kube-api-burst=2000"])
            socket = self.folder / "controller.sock"
            self.driver_program("", socket)
            flags = [
                f"--csi-address={socket}",
                f"--kubeconfig={self.plane.kubeconfig()}",
                "--worker-threads=20",
                "--kube-api-qps=-1",
            ]
            self.program("attacher", _BIN / "csi-attacher", *flags)
        for node in self.nodes:
            node.start_agent()
            node.start_driver()
        for node in self.nodes if self.registers else ():
            self.until(lambda node=node: self.is_registered(node.name), "the driver is registered")  # type: ignore[misc]

    def program(self, name: str, *command: str | Path) -> Program:
        """A program in the mount namespace."""
        number = next(self._numbers)
        made = Program(self.namespace.command(*command), self.folder / f"{name}-{number}.log")
        self._programs.append(made)
        return made

    def driver_program(self, node: str, *sockets: Path) -> Program:
        command = [
            sys.executable,
            "-m",
            "tests.support.mounting_driver",
            self.backend.folder,
            self.driver_name,
            node,
            *sockets,
        ]
        return self.program(f"driver-{node}", *command)

    def close(self) -> None:
        """Ends all programs, and takes away what they have left. Mounts that hang first: a program that waits for one
        can't be killed.
        """
        for served in self.backend.folder.glob("fuse-*"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(served.read_text()), signal.SIGKILL)
        for program in reversed(self._programs):
            program.kill()
        for loop in self.loops():
            device, _, _ = loop.partition(" ")
            self.namespace.run("losetup", "--detach", device)
        self.namespace.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def logs(self) -> str:
        """The end of each program's output and of the driver's calls, and what threads of programs on our folder wait
        for in the kernel.
        """
        logs = sorted(self.folder.glob("*.log"), key=lambda path: path.stat().st_mtime)[-8:]
        shown = [f"-- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-25:]) for log in logs]
        shown += [f"-- calls on {node.name}\n" + "\n".join(self.backend.calls(node.name)[-25:]) for node in self.nodes]
        return "\n".join([*shown, "-- threads in the kernel", *waiting_in_kernel(str(self.folder))])

    def until_up(self, node: NodePlace) -> None:
        """The agent works: it has read what is there, and its driver is registered with it."""
        assert node.agent is not None
        agent = node.agent
        self.until(lambda: "Plugin registered" in agent.output(), f"the agent of {node.name} is up")

    def kill_in(self, node: NodePlace, who: str, method: str, when: str, timeout_s: float) -> bool:
        """Lets the agent or the driver die in a call of this method, before or after its effect. False when there was
        none in time.
        """
        assert node.agent is not None
        self.backend.set_fate(node.name, method, when, node.agent.pid if who == "agent" else 0)
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self.backend.has_fate(node.name), timeout_s, "the call")
            return True
        self.backend.forget_fate(node.name)
        return False

    # -- objects

    def add_volume(self, name: str, *, block: bool = False, modes: Sequence[str] = ("ReadWriteMany",)) -> None:
        """A claim with its volume, both of this name. The handle is the same."""
        mode = {"volumeMode": "Block"} if block else {}
        status = {"phase": "Bound", "accessModes": list(modes), "capacity": {"storage": "1Gi"}}
        claim = a_bound_claim(name, name, sc="", uid=None, modes=modes, status=status, **mode)
        made = self._post("/api/v1/namespaces/default/persistentvolumeclaims", claim)
        held = {"claimRef": a_reference(made), "storageClassName": "", **mode}
        self._post(
            "/api/v1/persistentvolumes",
            a_held_pv(name, name, modes=modes, finalizers=None, driver=self.driver_name, spec=held),
        )
        self._patch(f"/api/v1/namespaces/default/persistentvolumeclaims/{name}/status", {"status": status})

    def add_pod(
        self,
        name: str,
        node: str,
        *claims: str,
        devices: bool = False,
        inline: Sequence[str] = (),
        own: Sequence[Json] = (),
        **spec: Any,
    ) -> str:
        """A pod of this node whose container uses all of its volumes. devices: the claims' are raw devices. own: whole
        volumes.

        Gives its uid.
        """
        where, above = ("devicePath", "/dev") if devices else ("mountPath", "")
        used = [{"name": claim, where: f"{above}/{claim}"} for claim in claims]
        container: Json = {"name": "c", "image": "none", "volumeDevices" if devices else "volumeMounts": used}
        container.setdefault("volumeMounts", []).extend(
            {"name": volume, "mountPath": f"/{volume}"} for volume in inline
        )
        volumes = [*({"name": volume, "csi": {"driver": self.driver_name}} for volume in inline), *own]
        container["volumeMounts"] += [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in own]
        full = {"volumes": volumes, "containers": [container], "terminationGracePeriodSeconds": 1, **spec}
        made = self._post(_PODS, a_pod(name, *claims, node=node, **full))
        return str(made["metadata"]["uid"])

    def delete_pod(self, name: str) -> None:
        self.plane.request("DELETE", f"{_PODS}/{name}")

    # -- what there is

    def pods(self) -> dict[str, str]:
        """The phase of each pod of our nodes."""
        ours = {node.name for node in self.nodes}
        return {
            pod["metadata"]["name"]: pod["status"].get("phase", "")
            for pod in self._list(_PODS)
            if pod["spec"].get("nodeName") in ours
        }

    def node_status(self, node: str) -> Json:
        found: Json = self._get(f"/api/v1/nodes/{node}")["status"]
        return found

    def is_registered(self, node: str) -> bool:
        try:
            found = self._get(f"{_STORAGE}/csinodes/{node}")["spec"]
        except AssertionError:
            return False
        return any(entry["name"] == self.driver_name for entry in found.get("drivers") or ())

    def left_over(self) -> list[str]:
        """All that must be gone once no pod is left: mounts, folders, names in the Nodes' status, attachments, the
        driver's own.
        """
        left = [f"pod {name}" for name in self.pods()]
        roots = {str(node.root) for node in self.nodes}
        left += [f"mount {point}" for point in self.namespace.points(self.folder) if point not in roots]
        for node in self.nodes:
            left += [f"{node.name}: {path}" for path in node.folders()]
            status = self.node_status(node.name)
            left += [f"{node.name}: in use {name}" for name in status.get("volumesInUse") or ()]
            left += [f"{node.name}: attached {one['name']}" for one in status.get("volumesAttached") or ()]
        attachments = (one["spec"] for one in self._list(f"{_STORAGE}/volumeattachments"))
        left += [f"attachment of {spec['source']}" for spec in attachments if spec["attacher"] == self.driver_name]
        left += [f"driver: {text}" for text in self.backend.left_over()]
        left += [f"loop device {line}" for line in self.loops()]
        return left

    def loops(self) -> list[str]:
        """The loop devices over files of ours, with their files.

        No device is opened for that, as losetup would: what is given back meanwhile would stay until it is closed.
        """
        shown = ((device, loops.backing_of(device.name)) for device in sorted(loops.all_devices()))
        return [f"{device} {file}" for device, file in shown if str(self.folder) in str(file)]

    # -- waiting

    def until(self, holds: Any, what: str, timeout_s: float = 60.0) -> Any:
        """The first truthy answer."""
        try:
            return eventually(holds, timeout_s, what)
        except AssertionError as error:
            error.add_note(self.logs())
            raise

    def until_running(self, *names: str, timeout_s: float = 60.0) -> None:
        def all_run() -> bool:
            pods = self.pods()
            waiting = [f"{name} {pods.get(name)}" for name in names if pods.get(name) != "Running"]
            assert not waiting, waiting
            return True

        self.until(all_run, "the pods run", timeout_s)

    def until_clean(self, timeout_s: float = 90.0) -> None:
        """Nothing is left, and no call was made that no orchestrator may make."""

        def is_clean() -> bool:
            left = self.left_over()
            assert not left, "\n".join(left)
            return True

        self.until(is_clean, "nothing is left", timeout_s)
        assert [] == self.backend.violations()

    # -- requests

    def _post(self, path: str, body: Json) -> Json:
        status, answer = self.plane.request("POST", path, body)
        assert 201 == status, answer
        made: Json = json.loads(answer)
        return made

    def _patch(self, path: str, body: Json) -> None:
        status, answer = self.plane.request("PATCH", path, body, STRATEGIC_PATCH)
        assert 200 == status, answer

    def _get(self, path: str) -> Json:
        status, answer = self.plane.request("GET", quote(path))
        assert 200 == status, answer
        found: Json = json.loads(answer)
        return found

    def _list(self, path: str) -> list[Json]:
        found: list[Json] = self._get(path)["items"]
        return found


@contextlib.contextmanager
def a_node_cluster(
    plane: ControlPlane,
    *node_names: str,
    attaches: bool = True,
    registers: bool = True,
    alone: bool = False,
    driver_name: str = "",
) -> Iterator[NodeCluster]:
    """Started; what its programs said last is shown when a test fails."""
    cluster = NodeCluster(
        plane, node_names or ("n1",), attaches=attaches, registers=registers, alone=alone, driver_name=driver_name
    )
    try:
        cluster.start()
        yield cluster
    except BaseException as error:
        error.add_note(cluster.logs())
        raise
    finally:
        cluster.close()


def waiting_in_kernel(folder: str) -> Iterator[str]:
    """What each thread of the programs that name the folder in their command is in, of the kernel's calls."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            command = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            if folder not in command:
                continue
            for thread in process.glob("task/*"):
                state, call = (
                    (thread / "stat").read_text().rpartition(") ")[2][:1],
                    (thread / "syscall").read_text().strip(),
                )
                yield f"{process.name} {thread.name} {state} {(thread / 'wchan').read_text()} {call} {command[-90:]}"
