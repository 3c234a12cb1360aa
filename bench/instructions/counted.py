"""The programs that are counted, and the operations that each of them is put through."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.instructions.stub import Answerer, Stub
from mooring.csi.proto import csi_pb2 as csi
from tests.support.programs import Program

DRIVER: Final = "meter.mooring.dev"
WARM_UP: Final = 20
"""Operations of each kind that come before, for what the first ones make for all."""
COUNTED: Final = 100
_REST_S: Final = 3.0
_VALGRIND: Final = ("valgrind", "--tool=callgrind", "--instr-atstart=no")

_VAS: Final = "/apis/storage.k8s.io/v1/volumeattachments"
_CSI_NODES: Final = "/apis/storage.k8s.io/v1/csinodes"
_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_PVS: Final = "/api/v1/persistentvolumes"
_EVENTS: Final = "/api/v1/namespaces/default/events"
_CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"

_PROTECTION: Final = "kubernetes.io/pv-protection"
_SERVICE: Final = csi.PluginCapability.Service
_RPC: Final = csi.ControllerServiceCapability.RPC
Operation = Callable[[Stub, int], None]
"""Has the program do the operation of this number, from the change that asks for it until nothing is left to do."""


@dataclasses.dataclass(frozen=True)
class Sidecar:
    """A program. prepare: makes what it finds, and returns once it stands by."""

    prepare: Callable[[Stub], None]
    operations: Mapping[str, Operation]


def figures(source: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each operation with its instructions. source: the checkout whose programs are counted. folder: an empty
    one, for files.
    """
    for name, sidecar in PROGRAMS.items():
        own = folder / name
        own.mkdir()
        stub = Stub(own, driver_answers())
        program = _Counted(source, name, stub)
        try:
            sidecar.prepare(stub)
            for operation in sidecar.operations.values():
                for number in range(WARM_UP):
                    operation(stub, number)
            program.control("-i", "on")
            for word, operation in sidecar.operations.items():
                program.control("-z")
                for number in range(WARM_UP, WARM_UP + COUNTED):
                    operation(stub, number)
                yield word, round(program.counted() / COUNTED)
        except BaseException:
            print(program.log_tail(), file=sys.stderr)
            raise
        finally:
            program.kill()
            stub.close()


def words(name: str, stub: Stub) -> list[str]:
    """Return the module of a program, and its flags."""
    return [f"mooring.cli.{name}", f"--kubeconfig={stub.kubeconfig}", f"--csi-address={stub.socket}"]


class _Counted(Program):
    """A sidecar under callgrind, which counts from `control("-i", "on")` on."""

    def __init__(self, source: Path, name: str, stub: Stub) -> None:
        self._folder = stub.kubeconfig.parent
        self._talk = f"--vgdb-prefix={self._folder}/vgdb"
        counting = [*_VALGRIND, self._talk, f"--callgrind-out-file={self._folder}/counts"]
        command = [*counting, sys.executable, "-m", *words(name, stub)]
        env = {**os.environ, "PYTHONPATH": str(source / "src"), "PYTHONHASHSEED": "0"}
        super().__init__(command, self._folder / "log", env)
        stub.pid = self.pid

    def control(self, *flags: str) -> None:
        subprocess.run(["callgrind_control", self._talk, *flags, str(self.pid)], capture_output=True, check=True)

    def counted(self) -> int:
        """Return the instructions since the counter was set to zero."""
        before = set(self._folder.glob("counts*"))
        self.control("-d")
        (dump,) = set(self._folder.glob("counts*")) - before
        (total,) = [int(line.split()[1]) for line in dump.read_text().splitlines() if line.startswith("totals:")]
        return total


def _started(stub: Stub, watched: Sequence[str]) -> None:
    """Serve the program until it watches all of these, and has done what it does once they are read."""
    stub.settle(lambda: set(watched) <= stub.watched)
    rested = time.monotonic() + _REST_S
    stub.settle(lambda: time.monotonic() > rested)


# -- the driver


def driver_answers() -> Mapping[str, Answerer]:
    """Every call succeeds at once."""
    info = csi.GetPluginInfoResponse(name=DRIVER, vendor_version="1")
    services = [_SERVICE.CONTROLLER_SERVICE]
    abilities = [_RPC.CREATE_DELETE_VOLUME, _RPC.PUBLISH_UNPUBLISH_VOLUME]
    plugin = csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": one}} for one in services])
    controller = csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": one}} for one in abilities])
    published = csi.ControllerPublishVolumeResponse(publish_context={"device": "/dev/xvdba"})
    fixed = {
        "Probe": b"",
        "GetPluginInfo": info.SerializeToString(),
        "GetPluginCapabilities": plugin.SerializeToString(),
        "ControllerGetCapabilities": controller.SerializeToString(),
        "ControllerPublishVolume": published.SerializeToString(),
        "ControllerUnpublishVolume": b"",
        "DeleteVolume": b"",
    }
    return {"CreateVolume": _volume_made, **{method: _always(answer) for method, answer in fixed.items()}}


def _always(answer: bytes) -> Answerer:
    return lambda _: answer


def _volume_made(request: bytes) -> bytes:
    asked = csi.CreateVolumeRequest.FromString(request)
    volume = {"volume_id": f"vol-{asked.name}", "capacity_bytes": asked.capacity_range.required_bytes}
    return csi.CreateVolumeResponse(volume=volume).SerializeToString()


# -- the attacher


def _ready_to_attach(stub: Stub) -> None:
    drivers = [{"name": DRIVER, "nodeID": "i-0", "topologyKeys": None}]
    stub.write(_CSI_NODES, "POST", {"metadata": {"name": "node"}, "spec": {"drivers": drivers}})
    for number in range(WARM_UP + COUNTED):
        stub.write(_PVS, "POST", _volume(number))
    _started(stub, ("volumeattachments", "persistentvolumes", "csinodes"))


def _volume(number: int) -> dict[str, Any]:
    attributes = {"pool": "gold", "backend": f"array-{number}"}
    source = {"driver": DRIVER, "volumeHandle": f"vol-{number}", "fsType": "ext4", "volumeAttributes": attributes}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast",
        "csi": source,
    }
    return {"metadata": {"name": f"pv-{number}", "labels": {"app": "meter"}}, "spec": spec}


def _attach(stub: Stub, number: int) -> None:
    spec = {"attacher": DRIVER, "nodeName": "node", "source": {"persistentVolumeName": f"pv-{number}"}}
    stub.write(_VAS, "POST", {"metadata": {"name": f"csi-{number}"}, "spec": spec})
    stub.settle(lambda: stub.read(f"{_VAS}/csi-{number}")["status"]["attached"])


def _detach(stub: Stub, number: int) -> None:
    stub.write(f"{_VAS}/csi-{number}", "DELETE")
    stub.settle(lambda: f"csi-{number}" not in stub.names(_VAS))


def _event(stub: Stub, number: int) -> None:
    """A change of a volume that another program made, and that means nothing here."""
    stub.write(f"{_PVS}/pv-{number}", "PATCH", {"metadata": {"annotations": {"example.com/seen": str(number)}}})
    stub.settle()


# -- the provisioner


def _ready_to_provision(stub: Stub) -> None:
    parameters = {"provisioner": DRIVER, "parameters": {"pool": "gold"}, "volumeBindingMode": "Immediate"}
    stub.write(_CLASSES, "POST", {"metadata": {"name": "fast"}, **parameters})
    _started(stub, ("storageclasses", "persistentvolumes", "persistentvolumeclaims"))


def _provision(stub: Stub, number: int) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    notes = {f"volume.{word}kubernetes.io/storage-provisioner": DRIVER for word in ("", "beta.")}
    stub.write(_CLAIMS, "POST", {"metadata": {"name": f"claim-{number}", "annotations": notes}, "spec": spec})
    stub.settle(lambda: len(stub.names(_EVENTS)) == 2 * (number + 1))  # of which the last follows the volume
    assert _volume_of(stub, number) in stub.names(_PVS)


def _volume_of(stub: Stub, number: int) -> str:
    return f"pvc-{stub.read(f'{_CLAIMS}/claim-{number}')['metadata']['uid']}"


def _delete(stub: Stub, number: int) -> None:
    """A claim that nothing uses is deleted, and the controller of volumes says so."""
    volume, claim = _volume_of(stub, number), f"{_CLAIMS}/claim-{number}"
    stub.write(claim, "PATCH", {"metadata": {"finalizers": None}})
    stub.write(claim, "DELETE")
    stub.write(f"{_PVS}/{volume}/status", "PATCH", {"status": {"phase": "Released"}})
    stub.settle(lambda: stub.read(f"{_PVS}/{volume}")["metadata"].get("finalizers") == [_PROTECTION])
    stub.write(f"{_PVS}/{volume}", "PATCH", {"metadata": {"finalizers": None}})
    stub.settle()
    assert volume not in stub.names(_PVS)


PROGRAMS: Final[Mapping[str, Sidecar]] = {
    "csi_attacher": Sidecar(_ready_to_attach, {"attach": _attach, "detach": _detach, "watch event": _event}),
    "csi_provisioner": Sidecar(_ready_to_provision, {"provision": _provision, "deletion": _delete}),
}
"""By module."""
