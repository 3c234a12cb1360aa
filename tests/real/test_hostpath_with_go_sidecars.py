"""The reference driver behind kube-controller-manager and the Go sidecars: a volume from its claim to a path on the node, and back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.hostpath.statefile import read_state
from mooring.wire.grpc.codes import Code
from tests.support import folder_driver
from tests.support.builders import a_claim
from tests.support.paths import PVCS, PVS, VAS
from tests.support.programs import Program
from tests.support.storage_parts import CLASS, NODE, NODE_ID, StorageParts
from tests.support.waiting import eventually
from tests.unit.driver.node_calls import a_staging, a_target, a_withdrawal, an_unstaging

pytestmark = [pytest.mark.real, pytest.mark.slow]

PODS = "/api/v1/namespaces/default/pods"
WAIT_S = 60.0
NAME = folder_driver.FolderDriver.name


class HostPathParts(StorageParts):
    """The parts with the reference driver in the test driver's place, under its name."""

    def _start_driver(self, socket: Path) -> Program:
        flags = [
            f"--endpoint=unix://{socket}",
            f"--state={self.state}",
            f"--node-id={NODE_ID}",
            f"--driver-name={NAME}",
        ]
        command = [
            sys.executable,
            "-m",
            "mooring.cli.mooring",
            "driver",
            "hostpath",
            "--mounts=link",
            "--check-volume-lifecycle",
        ]
        return Program([*command, *flags], self.folder / "driver.log")

    @property
    def state(self) -> Path:
        return self.folder / "hostpath"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostPathParts]:
    with HostPathParts(tmp_path_factory.mktemp("hostpath")) as parts:
        yield parts
        parts.assert_alive()
        assert {} == read_state(parts.state).volumes


class Node:
    """The kubelet's part: calls of the driver's node service, each on a connection of its own."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return lambda request: asyncio.run(self._called(name, request))

    async def _called(self, name: str, request: Any) -> Any:
        client = WireDriver(str(self._socket), clock=LoopClock())
        await client.connect()
        try:
            return await getattr(client, name)(request, Call(timeout_s=20.0))
        finally:
            await client.close()


@pytest.fixture
def node(parts: HostPathParts) -> Node:
    return Node(parts.folder / "csi.sock")


class Story:
    """A claim and a pod with it."""

    def __init__(self, parts: HostPathParts, name: str, mode: str = "ReadWriteOnce") -> None:
        self.api, self.parts, self.name = parts.api, parts, name
        self.claim, self.pod = f"{PVCS}/{name}", f"{PODS}/{name}"
        self.api.post(PVCS, a_claim(name, storageClassName=CLASS, accessModes=[mode])).ok(201)

    def bound(self) -> str:
        """The handle of the claim's volume."""
        eventually(
            lambda: self.api.get(self.claim).ok().get("status", {}).get("phase") == "Bound",
            WAIT_S,
            "the claim is bound",
        )
        self.pv = self.api.get(self.claim).ok()["spec"]["volumeName"]
        self.csi = self.api.get(f"{PVS}/{self.pv}").ok()["spec"]["csi"]
        return str(self.csi["volumeHandle"])

    def attached(self) -> Any:
        """The volume's attachment, once it is attached for the pod."""
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": self.name}}]
        spec = {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        self.api.post(PODS, {"metadata": {"name": self.name}, "spec": spec}).ok(201)
        eventually(
            lambda: [one["status"]["attached"] for one in self.attachments()] == [True],
            WAIT_S,
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

        eventually(found, WAIT_S, "the detach fails")
        return errors[0]

    def gone(self) -> None:
        eventually(lambda: not self.attachments(), WAIT_S, "the volume is detached")
        self.api.delete(self.claim).ok()
        eventually(lambda: self.api.get(f"{PVS}/{self.pv}").status == 404, WAIT_S, "the volume is gone")


def test_a_volume_goes_from_its_claim_to_a_path_on_the_node_and_back(
    parts: HostPathParts, node: Node, tmp_path: Path
) -> None:
    story = Story(parts, "life")
    handle, attachment = story.bound(), story.attached()
    contexts = {
        "publish_context": attachment["status"]["attachmentMetadata"],
        "volume_context": story.csi.get("volumeAttributes", {}),
    }
    staging, target = tmp_path / "staging", tmp_path / "target"
    staging.mkdir()
    assert NODE_ID == node.node_get_info(csi.NodeGetInfoRequest()).node_id
    node.node_stage_volume(a_staging(handle, staging, **contexts))
    node.node_publish_volume(a_target(handle, staging, target, **contexts))
    (target / "file").write_text("data")

    story.delete_pod()
    refusal = f"volume '{handle}' is still used: staged or published on '{NODE_ID}'"
    assert refusal in story.refused_detach(), "the Go attacher tells the driver's words"
    assert "data" == (target / "file").read_text()
    node.node_unpublish_volume(a_withdrawal(handle, target))
    node.node_unstage_volume(an_unstaging(handle, staging))
    story.gone()
    assert not target.is_symlink()


def test_what_the_go_attacher_has_not_attached_is_not_staged(parts: HostPathParts, node: Node, tmp_path: Path) -> None:
    story = Story(parts, "early")
    handle = story.bound()
    with pytest.raises(DriverError, match="is not attached") as caught:
        node.node_stage_volume(a_staging(handle, tmp_path / "staging"))
    assert Code.INTERNAL == caught.value.code
    story.attached()
    node.node_stage_volume(a_staging(handle, tmp_path / "staging"))
    node.node_unstage_volume(an_unstaging(handle, tmp_path / "staging"))
    story.delete_pod()
    story.gone()
