"""The first driver in docs/driver.md does what the page says. The second one, and both on a node:
tests/real/test_csi_sanity.py.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.capabilities import Capability
from mooring.kube.client import kubeconfig
from mooring.wire.grpc.codes import Code
from tests.support.pages import blocks
from tests.support.programs import Program
from tests.support.rest import Rest
from tests.support.waiting import eventually
from tests.unit.driver.calls import (
    a_capability,
    a_creation,
    a_deletion,
    a_publication,
    an_unpublication,
    created,
    refused,
)

BIN = Path(sys.executable).parent
ASKED_OF_KUBECTL = "$(kubectl get pvc books -o jsonpath='{.spec.volumeName}')"
NAME = "pvc-6b2f1c7e-3c0c-4d5e-9a53-0d4f5a1f7a11"


def block(language: str) -> str:
    """The page's first block in this language."""
    return blocks("driver.md", language)[0]


@pytest.fixture
def shelf(tmp_path: Path) -> Any:
    """The page's driver, on tmp_path."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block("python"), "driver.md", "exec"), names)
    return names["Shelf"](tmp_path, "node-1,node-2")


async def test_it_knows_its_node(shelf: Any) -> None:
    assert "node-1" == (await shelf.node_get_info(csi.NodeGetInfoRequest())).node_id
    assert 0 == len((await shelf.node_get_capabilities(csi.NodeGetCapabilitiesRequest())).capabilities)
    on_block = csi.NodePublishVolumeRequest(
        volume_id=NAME, target_path="/nowhere/t", volume_capability=a_capability(block=True)
    )
    await refused(shelf.node_publish_volume(on_block), Code.NOT_FOUND)
    await created(shelf, NAME)
    await refused(shelf.node_publish_volume(on_block), Code.INVALID_ARGUMENT, "no block device")


async def test_its_volumes_are_folders(shelf: Any, tmp_path: Path) -> None:
    answer = await shelf.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest())
    advertised = [Capability.CREATE_DELETE_VOLUME, Capability.PUBLISH_UNPUBLISH_VOLUME]
    assert advertised == [one.rpc.type for one in answer.capabilities]
    assert NAME == await created(shelf, NAME) == await created(shelf, NAME)
    assert (tmp_path / NAME).is_dir()
    await refused(shelf.create_volume(a_creation("../pvc1")), Code.INVALID_ARGUMENT, "no name for a folder")
    await shelf.delete_volume(a_deletion(NAME))
    await shelf.delete_volume(a_deletion(NAME))
    assert not (tmp_path / NAME).exists()


async def test_it_confirms_what_a_volume_can_do(shelf: Any) -> None:
    request = csi.ValidateVolumeCapabilitiesRequest(volume_id=NAME, volume_capabilities=[a_capability()])
    await refused(shelf.validate_volume_capabilities(request), Code.NOT_FOUND)
    await created(shelf, NAME)
    assert [a_capability()] == (await shelf.validate_volume_capabilities(request)).confirmed.volume_capabilities


async def test_a_volume_is_published_on_one_node(shelf: Any, tmp_path: Path) -> None:
    note = tmp_path / f"{NAME}.node"
    await refused(shelf.controller_publish_volume(a_publication(NAME)), Code.NOT_FOUND)
    await created(shelf, NAME)
    for _ in range(2):
        answer = await shelf.controller_publish_volume(a_publication(NAME))
        assert {"folder": str(tmp_path / NAME)} == dict(answer.publish_context)
    await refused(shelf.controller_publish_volume(a_publication(NAME, "node-2")), Code.FAILED_PRECONDITION, "'node-1'")
    await refused(shelf.delete_volume(a_deletion(NAME)), Code.FAILED_PRECONDITION, "'node-1'")
    await refused(
        shelf.controller_publish_volume(a_publication(NAME, "elsewhere")), Code.NOT_FOUND, "no node 'elsewhere'"
    )
    await shelf.controller_unpublish_volume(an_unpublication(NAME, "node-2"))
    assert "node-1" == note.read_text()
    for _ in range(2):
        await shelf.controller_unpublish_volume(an_unpublication(NAME))
        assert not note.exists()


@contextmanager
def running(command: list[Path | str], log: Path, ready: str) -> Iterator[Program]:
    """A program that has said that it is ready, and ends well at Ctrl-C."""
    program = Program(command, log)
    try:
        eventually(lambda: ready in program.output_alive(), 20, f"{command} says {ready!r}")
        yield program
        program.send(signal.SIGINT)
        assert 0 == program.wait_exit(), program.log_tail()
        assert "Traceback" not in program.output()
    finally:
        program.kill()


@contextmanager
def the_example(folder: Path) -> Iterator[Path]:
    """Its socket, while it runs as a program of its own."""
    program, socket = folder / "shelf.py", folder / "shelf.sock"
    program.write_text(block("python"))
    command = [
        BIN / "mooring",
        "driver",
        "run",
        f"{program}:Shelf",
        "--endpoint",
        f"unix://{socket}",
        "--option",
        f"shelf={folder / 'shelf'}",
    ]
    with running(command, folder / "shelf.log", "Serving"):
        yield socket


@pytest.mark.slow
async def test_it_runs_as_a_program(tmp_path: Path) -> None:
    with the_example(tmp_path) as socket:
        driver = WireDriver(str(socket), clock=LoopClock())
        await driver.connect(10)
        answer = await driver.create_volume(a_creation(NAME), Call(timeout_s=10))
        assert NAME == answer.volume.volume_id
        assert (tmp_path / "shelf" / NAME).is_dir()
        await driver.close()
    assert not socket.exists()


@pytest.mark.long
@pytest.mark.slow
def test_its_volume_is_made_attached_and_deleted_as_the_page_has_it(tmp_path: Path) -> None:
    config = tmp_path / "dev" / "kubeconfig"
    with (
        running([BIN / "mooring", "dev", "--state", config.parent], tmp_path / "dev.log", "Ctrl-C ends it"),
        the_example(tmp_path) as socket,
        running(
            [BIN / "csi-provisioner", f"--csi-address={socket}", f"--kubeconfig={config}"],
            tmp_path / "provisioner.log",
            "",
        ),
        running(
            [BIN / "csi-attacher", f"--csi-address={socket}", f"--kubeconfig={config}"], tmp_path / "attacher.log", ""
        ),
    ):
        api = a_client(config, tmp_path)
        for one in yaml.safe_load_all(block("yaml")):
            api.post(path_of(one), one).ok(201)
        claim = "/api/v1/namespaces/default/persistentvolumeclaims/books"
        eventually(lambda: api.get(claim).ok()["status"]["phase"] == "Bound", 20, "it is bound")
        volume = api.get(claim).ok()["spec"]["volumeName"]
        folder, note = tmp_path / "shelf" / volume, tmp_path / "shelf" / f"{volume}.node"
        assert folder.is_dir()

        wanted = yaml.safe_load(block("sh").split("EOF")[1].replace(ASKED_OF_KUBECTL, volume))
        api.post(path_of(wanted), wanted).ok(201)
        attachment = f"{path_of(wanted)}/{wanted['metadata']['name']}"
        eventually(lambda: api.get(attachment).ok().get("status", {}).get("attached"), 20, "it is attached")
        assert "desk-1" == note.read_text()
        api.delete(attachment)
        eventually(lambda: api.get(attachment).status == 404, 20, "it is detached")
        assert not note.exists()
        api.delete(claim)
        eventually(lambda: api.get(f"/api/v1/persistentvolumes/{volume}").status == 404, 20, "it is gone")
        assert not folder.exists()
        api.close()


def a_client(config: Path, folder: Path) -> Rest:
    found = kubeconfig.load(str(config), {})
    assert found.tls.authority is not None
    authority = folder / "ca.pem"
    authority.write_bytes(found.tls.authority.read())
    return Rest(found.server, authority, found.user.token)


def path_of(obj: dict[str, Any]) -> str:
    group = "api" if obj["apiVersion"] == "v1" else "apis"
    namespace = "/namespaces/default" if obj["kind"] == "PersistentVolumeClaim" else ""
    return f"/{group}/{obj['apiVersion']}{namespace}/{obj['kind'].lower()}{'es' if obj['kind'].endswith('s') else 's'}"
