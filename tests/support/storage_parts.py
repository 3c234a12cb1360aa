"""The embedded API server as a program, with the real controllers and sidecars of CSI on it: everything that a volume's
life needs.

    with StorageParts(folder) as parts:
        parts.api.post(...)

kube-controller-manager binds claims and says which volume belongs on which node; the Go sidecars provision, attach,
resize and snapshot, each as the leader of its lease; the driver's volumes are folders. The one node is an object:
nobody runs pods on it.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import Any, Final, Self

from tests.support import folder_driver
from tests.support.builders import a_claim, a_class, a_csi_node
from tests.support.folder_driver import FolderDriver
from tests.support.paths import CSI_DRIVERS, CSI_NODES, NODES, PVCS, PVS, STORAGE_CLASSES, VAS
from tests.support.programs import Program, free_ports
from tests.support.real import binary
from tests.support.rest import Rest
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.waiting import eventually

Json = dict[str, Any]

NODE, NODE_ID, CLASS, SNAPSHOT_CLASS = "node-1", "id-of-node-1", "folders", "folder-snapshots"
SNAPSHOTS: Final = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots"
SNAPSHOT_CONTENTS: Final = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"
_SNAPSHOT_CLASSES: Final = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

SIDECARS: Final = ("csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter")
_CONTROLLERS: Final = (
    "persistentvolume-binder-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
)
ELECTION: Final = ("--leader-election", "--leader-election-namespace=default")
_PODS: Final = "/api/v1/namespaces/default/pods"
START_S_MAX: Final = 60.0
LIFE_S_MAX: Final = 60.0
"""For each step of a volume's life."""


class StorageParts:
    """Use it as a context manager. folder: for the state, the driver's volumes and everybody's logs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.driver = folder, FolderDriver(folder / "driver")
        self.kubeconfig = folder / "kubeconfig"
        self._programs: dict[str, Program] = {}
        self._port = free_ports(1)[0]
        self._rest: Rest | None = None
        self._binaries = {name: binary(name) for name in ("kube-controller-manager", "snapshot-controller", *SIDECARS)}

    @property
    def api(self) -> Rest:
        assert self._rest is not None, "the server has been started"
        return self._rest

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.callback(self._stop)
            self.start_server()
            self._make_cluster()
            self._programs["driver"] = self._start_driver(self.socket)
            flags = ["--leader-elect=false", "--secure-port=0", f"--controllers={','.join(_CONTROLLERS)}"]
            self._run("kube-controller-manager", *flags)
            self._run("snapshot-controller", "-v=4", *ELECTION)
            for sidecar in SIDECARS:
                self.run_sidecar(sidecar)
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def socket(self) -> Path:
        """The driver's."""
        return self.folder / "csi.sock"

    def run_sidecar(self, name: str) -> None:
        """The Go one."""
        self._run(name, f"--csi-address={self.socket}", "-v=4", *ELECTION)

    def _start_driver(self, socket: Path) -> Program:
        return folder_driver.start(self.folder / "driver", socket, self.folder / "driver.log")

    def start_server(self) -> None:
        """With what is in the state folder; on the same port each time."""
        self.kubeconfig.unlink(missing_ok=True)
        flags = [f"--state={self.folder / 'state'}", f"--kubeconfig={self.kubeconfig}", f"--port={self._port}"]
        log = self.folder / "apiserver.log"
        server = Program([sys.executable, "-m", "mooring.cli.mooring", "apiserver", *flags], log)
        self._programs["apiserver"] = server
        eventually(lambda: self.kubeconfig.exists() or server.assert_alive(), START_S_MAX, "the API server answers")
        tls = self.folder / "state" / "tls"
        self._rest = Rest(f"https://127.0.0.1:{self._port}", tls / "ca.crt", (tls / "token").read_text())

    def kill_server(self) -> None:
        server = self._programs.pop("apiserver")
        server.assert_alive()
        server.send(signal.SIGKILL)
        server.wait_exit()
        self.api.close()

    def assert_alive(self) -> None:
        for program in self._programs.values():
            program.assert_alive()

    def logs(self) -> str:
        """The end of what each program has said."""
        return "\n".join(f"-- {name}\n{program.log_tail(15)}" for name, program in self._programs.items())

    def _make_cluster(self) -> None:
        """The kinds of snapshots, a node with the driver, and the classes that lead to it."""
        api, name = self.api, self.driver.name
        for definition in SNAPSHOT_CRDS:
            api.post(_DEFINITIONS, definition).ok(201)
        eventually(
            lambda: api.get(SNAPSHOTS).status == api.get(_SNAPSHOT_CLASSES).status == 200,
            START_S_MAX,
            "snapshots are served",
        )
        attached = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        api.post(NODES, {"metadata": {"name": NODE, "annotations": attached}}).ok(201)
        api.post(CSI_NODES, a_csi_node(NODE, [{"name": name, "nodeID": NODE_ID, "topologyKeys": None}])).ok(201)
        api.post(CSI_DRIVERS, {"metadata": {"name": name}, "spec": {"attachRequired": True}}).ok(201)
        api.post(STORAGE_CLASSES, a_class(CLASS, provisioner=name, allowVolumeExpansion=True)).ok(201)
        kind = {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": SNAPSHOT_CLASS},
        }
        api.post(_SNAPSHOT_CLASSES, {**kind, "driver": name, "deletionPolicy": "Delete"}).ok(201)

    def _run(self, name: str, *flags: str) -> None:
        log = self.folder / f"{name}.log"
        self._programs[name] = Program([self._binaries[name], f"--kubeconfig={self.kubeconfig}", *flags], log)

    def _stop(self) -> None:
        while self._programs:
            self._programs.popitem()[1].kill()
        if self._rest is not None:
            self._rest.close()


class Story:
    """A claim and a pod with it."""

    def __init__(self, parts: StorageParts, name: str, mode: str = "ReadWriteOnce") -> None:
        self.api, self.parts, self.name = parts.api, parts, name
        self.claim, self.pod = f"{PVCS}/{name}", f"{_PODS}/{name}"
        self.api.post(PVCS, a_claim(name, storageClassName=CLASS, accessModes=[mode])).ok(201)

    def bound(self) -> str:
        """The handle of the claim's volume."""
        eventually(
            lambda: self.api.get(self.claim).ok().get("status", {}).get("phase") == "Bound",
            LIFE_S_MAX,
            "the claim is bound",
        )
        self.pv = self.api.get(self.claim).ok()["spec"]["volumeName"]
        self.csi = self.api.get(f"{PVS}/{self.pv}").ok()["spec"]["csi"]
        return str(self.csi["volumeHandle"])

    def attached(self) -> Any:
        """The volume's attachment, once it is attached for the pod."""
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": self.name}}]
        spec = {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        self.api.post(_PODS, {"metadata": {"name": self.name}, "spec": spec}).ok(201)
        eventually(
            lambda: [one["status"]["attached"] for one in self.attachments()] == [True],
            LIFE_S_MAX,
            "the volume is attached",
        )
        return self.attachments()[0]

    def attachments(self) -> list[Any]:
        return [
            one for one in self.api.get(VAS).ok()["items"] if one["spec"]["source"]["persistentVolumeName"] == self.pv
        ]

    def delete_pod(self) -> None:
        self.api.delete(self.pod, {"gracePeriodSeconds": 0})

    def refused_detach(self) -> str:
        """The error of an attachment that could not be undone."""
        errors: list[str] = []

        def found() -> bool:
            errors[:] = [
                one["status"]["detachError"]["message"]
                for one in self.attachments()
                if "detachError" in one.get("status", {})
            ]
            return bool(errors)

        eventually(found, LIFE_S_MAX, "the detach fails")
        return errors[0]

    def gone(self) -> None:
        eventually(lambda: not self.attachments(), LIFE_S_MAX, "the volume is detached")
        self.api.delete(self.claim).ok()
        eventually(lambda: self.api.get(f"{PVS}/{self.pv}").status == 404, LIFE_S_MAX, "the volume is gone")
