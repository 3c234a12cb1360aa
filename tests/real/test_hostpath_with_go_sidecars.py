"""The reference driver behind kube-controller-manager and the Go sidecars: a volume from its claim to a path on the
node, and back.
"""

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
from tests.support.programs import Program
from tests.support.storage_parts import NODE_ID, StorageParts, Story
from tests.unit.driver.node_calls import a_staging, a_target, a_withdrawal, an_unstaging

pytestmark = [pytest.mark.real, pytest.mark.slow]

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
