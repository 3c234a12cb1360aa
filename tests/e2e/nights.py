"""Planes on which nights go wrong: a real control plane with the Go programs, and the embedded one with Mooring's.

    with go_plane(folder) as night: ...        # or our_plane(folder)
    night.kubectl("apply", "-f", "-", stdin=...)
    link = night.names("pvc/data", ...)        # the link that `mooring why` names, as its JSON has it
    night.type(command)                        # what `mooring why` says to type, in a shell

The driver keeps volumes in folders. Nodes are objects: nobody runs pods on them.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mooring.cluster.attachdetach.identity import MANAGED
from tests.support import folder_driver
from tests.support.builders import a_class, a_csi_driver, a_csi_node, a_lease, a_ready_node
from tests.support.control_plane import ControlPlane
from tests.support.folder_driver import FolderDriver
from tests.support.programs import Program
from tests.support.real import binary, kubectl
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.storage_parts import SIDECARS, START_S_MAX
from tests.support.waiting import eventually

Json = dict[str, Any]

DRIVER: Final = FolderDriver.name
NODES: Final = ("n1", "n2")
CONTROLLERS: Final = (
    "persistentvolume-binder-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
)
QUICK: Final = ("--retry-interval-start=200ms", "--retry-interval-max=1s")


class Night:
    """kubeconfig: with all rights. plane: the real one, None on the embedded server."""

    def __init__(self, folder: Path, kubeconfig: Path, plane: ControlPlane | None = None) -> None:
        self.folder, self.kubeconfig, self.plane = folder, kubeconfig, plane
        self.parts: dict[str, Program] = {}

    def kubectl(self, *words: str, stdin: str = "") -> str:
        return kubectl(self.kubeconfig, *words, stdin=stdin)

    def create(self, *bodies: Json) -> None:
        for body in bodies:
            self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def status(self, kind: str, name: str, status: Mapping[str, Any], namespace: str = "default") -> None:
        self.kubectl(
            "-n",
            namespace,
            "patch",
            kind,
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps({"status": status}),
        )

    def why(self, *words: str) -> tuple[int, Json]:
        """The exit code and the answer; where there is none, what was said in place of it."""
        command = [
            sys.executable,
            "-m",
            "mooring.cli.mooring",
            "why",
            f"--kubeconfig={self.kubeconfig}",
            "-o=json",
            *words,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else {"said": done.stderr}

    def names(self, object_: str, matches: Callable[[Json], bool], *flags: str) -> Json:
        """Waits until `mooring why` names a link that matches, and gives it."""

        def told() -> Json:
            found = self.why(*flags, object_)[1]
            link = _blocking(found)
            assert matches(link), json.dumps(found, indent=1)
            return link

        return eventually(told, START_S_MAX, f"why {object_} names its cause", every_s=0.3)

    def type(self, line: str) -> str:
        """Runs a command as a user would who copies it. Gives what it printed."""
        done = self._typed(line)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def code_of(self, line: str) -> int:
        """The exit code of a command that is typed."""
        return self._typed(line).returncode

    def _typed(self, line: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(binary("kubectl").parent), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False, env=environment
        )

    def is_healed(self, object_: str, *flags: str, within_s: float = START_S_MAX) -> None:
        """Nothing is in the way of the object any more, or only what no plane without a kubelet can do: the mount."""

        def healed() -> bool:
            code, found = self.why(*flags, object_)
            assert code == 0 or found.get("blockedAt") == "mount", json.dumps(found, indent=1)
            return True

        eventually(healed, within_s, f"{object_} is well", every_s=0.3)

    def logs(self) -> str:
        return "\n".join(f"-- {name}\n{part.log_tail(15)}" for name, part in self.parts.items())

    def run(self, name: str, *command: str | Path) -> None:
        self.parts[name] = Program(command, self.folder / f"{name}.log")

    def end(self) -> None:
        while self.parts:
            self.parts.popitem()[1].kill()


@contextlib.contextmanager
def a_last_lease(night: Night, node: str) -> Iterator[None]:
    """The Lease of a kubelet that has ended, and held it for two seconds."""
    body = a_lease(
        node,
        holderIdentity=node,
        leaseDurationSeconds=2,
        renewTime="2026-01-01T00:00:00.000000Z",
        namespace="kube-node-lease",
    )
    night.create(body)
    try:
        yield
    finally:
        night.kubectl("-n", "kube-node-lease", "delete", "lease", node)


def _blocking(found: Json) -> Json:
    """The link that is named; one that says nothing where there is none."""
    links = (one for one in found.get("links", ()) if one["name"] == found["blockedAt"] and one["state"] != "done")
    return {"text": "", "error": "", "code": "", **next(links, {})}


@contextlib.contextmanager
def go_plane(folder: Path) -> Iterator[Night]:
    """kube-apiserver, kube-controller-manager, kube-scheduler and the Go sidecars."""
    programs = {name: binary(name) for name in (*SIDECARS, "snapshot-controller")}
    plane = ControlPlane.start()
    try:
        with _night(Night(folder, plane.kubeconfig(), plane)) as night:
            plane.start_controllers(
                *CONTROLLERS, flags=["--pvclaimbinder-sync-period=1s", "--kube-api-qps=1000", "--kube-api-burst=2000"]
            )
            plane.start_scheduler()
            election = ("--leader-election", "--leader-election-namespace=default")
            night.run(
                "snapshot-controller", programs["snapshot-controller"], f"--kubeconfig={night.kubeconfig}", *election
            )
            for name in SIDECARS:
                address = f"--csi-address={folder / 'csi.sock'}"
                kubeconfig = _without_secrets(night, plane) if name == "csi-provisioner" else night.kubeconfig
                night.run(name, programs[name], f"--kubeconfig={kubeconfig}", address, *election, *QUICK)
            yield night
    finally:
        plane.stop()


def _without_secrets(night: Night, plane: ControlPlane) -> Path:
    """A kubeconfig of an account that may do all that a provisioner does, but for reading secrets, as upstream's
    manifest has it.
    """
    resources = ["persistentvolumes", "persistentvolumeclaims", "persistentvolumeclaims/status", "events", "nodes"]
    storage = [
        "storageclasses",
        "csinodes",
        "volumeattachments",
        "csidrivers",
        "csistoragecapacities",
        "volumeattributesclasses",
    ]
    rules = [
        {"apiGroups": [""], "resources": resources, "verbs": ["*"]},
        {"apiGroups": ["storage.k8s.io"], "resources": storage, "verbs": ["*"]},
        {
            "apiGroups": ["snapshot.storage.k8s.io"],
            "resources": ["volumesnapshots", "volumesnapshotcontents"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    ]
    group, name = "rbac.authorization.k8s.io", "provisioner"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    night.create(role)
    night.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount=default:{name}")
    return plane.kubeconfig(f"system:serviceaccount:default:{name}", "system:authenticated")


@contextlib.contextmanager
def our_plane(folder: Path, *flags: str) -> Iterator[Night]:
    """The embedded API server, and all of Mooring's controllers in one process. flags: of that process."""
    mooring = (sys.executable, "-m", "mooring.cli.mooring")
    kubeconfig = folder / "kubeconfig"
    server = Program(
        [*mooring, "apiserver", f"--state={folder / 'state'}", f"--kubeconfig={kubeconfig}", "--port=0"],
        folder / "server.log",
    )
    try:
        eventually(lambda: kubeconfig.exists() or server.assert_alive(), START_S_MAX, "the API server answers")
        with _night(Night(folder, kubeconfig)) as night:
            parts = "attacher,provisioner,resizer,snapshotter,snapshot-controller,binder,attachdetach,nodehealth"
            address = f"--csi-address={folder / 'csi.sock'}"
            night.run(
                "controller", *mooring, "controller", f"--enable={parts}", address, f"--kubeconfig={kubeconfig}", *flags
            )
            yield night
    finally:
        server.kill()


@contextlib.contextmanager
def _night(night: Night) -> Iterator[Night]:
    """With the kinds of snapshots, two nodes that have the driver, its class, and the driver itself."""
    try:
        for definition in SNAPSHOT_CRDS:
            night.create(definition)
        for name in NODES:
            node = a_ready_node(name)
            node["metadata"]["annotations"] = {MANAGED: "true"}
            night.create(node)
            night.create(a_csi_node(name, {DRIVER: f"id-of-{name}"}))
            night.status("node", name, a_ready_node(name)["status"])
            if night.plane is not None:
                night.kubectl(
                    "taint", "nodes", name, "node.kubernetes.io/not-ready-"
                )  # the server sets it on each new Node
        night.create(
            a_csi_driver(DRIVER, storageCapacity=False),
            a_class("folders", provisioner=DRIVER, allowVolumeExpansion=True),
        )
        night.parts["driver"] = folder_driver.start(
            night.folder / "driver", night.folder / "csi.sock", night.folder / "driver.log"
        )
        yield night
    except BaseException as error:
        error.add_note(night.logs())
        raise
    finally:
        night.end()
