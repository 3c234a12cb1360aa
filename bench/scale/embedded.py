"""The embedded API server as the cluster of a bench: its state folder is filled before it starts, as `etcd.fill` fills
etcd.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.scale.lived import Size, pages_told
from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.file import ObjectFile
from mooring.apiserver.disk.rows import DiskRow
from mooring.apiserver.disk.state import NAME
from tests.support.control_plane import ADMIN, READY_S_MAX, ControlPlane
from tests.support.programs import Program, free_ports
from tests.support.waiting import eventually

_MOORING = Path(sys.executable).parent / "mooring"
_PAGE_BYTES = 2 << 20
_KINDS = {
    "namespaces": "/namespaces",
    "minions": "/nodes",
    "csinodes": "storage.k8s.io/csinodes",
    "leases": "coordination.k8s.io/leases",
    "persistentvolumes": "/persistentvolumes",
    "persistentvolumeclaims": "/persistentvolumeclaims",
    "volumeattachments": "storage.k8s.io/volumeattachments",
    "pods": "/pods",
    "volumesnapshots": "snapshot.storage.k8s.io/volumesnapshots",
    "volumesnapshotcontents": "snapshot.storage.k8s.io/volumesnapshotcontents",
}
"""By the folder in etcd: the kind's name in the file."""
_NAMESPACED = frozenset({"leases", "persistentvolumeclaims", "pods", "volumesnapshots"})


class EmbeddedPlane(ControlPlane):
    """`mooring apiserver` in a folder of its own, with these flags. It is started and ended as the programs of a
    control plane are.
    """

    def __init__(self, *flags: str) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="mooring-plane-")), "")
        self._log_in = self.folder / "admin.kubeconfig"
        self._port = free_ports(1)[0]
        self._flags = flags

    def run(self) -> None:
        """Returns once it is ready."""
        self._log_in.unlink(missing_ok=True)
        command: list[str | Path] = [
            _MOORING,
            "apiserver",
            "--state",
            self.folder / "state",
            "--kubeconfig",
            self._log_in,
            f"--port={self._port}",
        ]
        program = self._run("apiserver", [*command, *self._flags])
        eventually(
            lambda: _written(self._log_in, program),
            10 * READY_S_MAX,
            "the API server's kubeconfig is there",
            every_s=0.1,
        )
        config = json.loads(self._log_in.read_text())
        self.server = config["clusters"][0]["cluster"]["server"]
        self.ca_file.write_bytes(base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]))
        self.token = config["users"][0]["user"]["token"]
        eventually(self.is_ready, READY_S_MAX, "the API server is ready", every_s=0.1)

    def pause(self) -> None:
        """Ends the program in good order; its folder stays."""
        program = self._programs.pop("apiserver")
        program.send(15)
        program.wait_exit()

    def fill(self, size: Size) -> None:
        """Adds every object of the cluster to the folder, while the server is not running. Tells how far it is."""
        path = self.folder / "state" / NAME
        file = ObjectFile(path, durable.read(path), careful=False)
        for page in pages_told(size, _PAGE_BYTES, "the file"):
            file.append(
                [_row(key.decode(), body, file.version + number) for number, (key, body) in enumerate(page, start=1)]
            )
            while file.is_long:
                file.fold()
        file.jump()
        file.close()

    # -- access

    def kubeconfig(self, user: str = ADMIN, group: str = "system:masters", *, server: str = "") -> Path:
        """One file for all users: the administrator's."""
        assert not server
        return self._log_in

    def stop(self) -> None:
        for name in list(self._programs):
            self._programs.pop(name).kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _written(file: Path, program: Program) -> bool:
    if program.exit_code is not None:
        raise SystemExit(program.log_tail())
    return file.exists()


def _row(key: str, body: bytes, version: int) -> DiskRow:
    """key: as etcd has it."""
    _, _, *place = key.split("/")
    folder = place[1] if "." in place[0] else place[0]
    name, namespace = place[-1], place[-2] if folder in _NAMESPACED else ""
    found = msgspec.json.decode(body)
    found["metadata"]["resourceVersion"] = str(version)
    return DiskRow(_KINDS[folder], namespace, name, version, time.time(), msgspec.json.encode(found))
