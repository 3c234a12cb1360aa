"""A driver that is a command, or one behind a socket: processes of their own, and a clock that leaps only while nobody
is called.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import shlex
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.sdk import Plugin
from mooring.testing.opening import ClusterOfTest, a_cluster
from mooring.testing.shelf import SHELF, CantHappen
from tests.support.programs import PYTHON, Program
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

HOSTPATH = (
    f"{PYTHON} -m mooring.cli.mooring driver hostpath --endpoint unix://{{socket}} --node-id {{node}} "
    "--state STATE --mounts link"
)


class Twin(Plugin):
    """Leaves the number of its process in a file of its node's name."""

    name = "twin.csi.test"
    vendor_version = "1"

    def __init__(self, folder: str, node_id: str) -> None:
        self.node_id = node_id
        Path(folder, node_id).write_text(str(os.getpid()))

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        raise NotImplementedError

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        raise NotImplementedError


def command(folder: Path) -> str:
    return HOSTPATH.replace("STATE", str(folder))


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    """Of a driver that somebody else runs."""
    path = tmp_path / "csi.sock"
    words = shlex.split(command(tmp_path / "state").format(socket=path, node="n1"))
    program = Program(words, tmp_path / "log")
    eventually(path.exists, 20, "the driver serves")
    yield path
    program.assert_alive()
    program.kill()


@pytest.fixture(params=["command", "socket"])
def mooring_driver(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "command":
        return command(tmp_path)
    return f"unix://{request.getfixturevalue('socket')}"


def life(cluster: ClusterOfTest) -> None:
    claim = cluster.claim("data").bound()
    web = cluster.pod("web", claim).running()
    (web.folder(claim) / "page").write_text("hello")
    web.delete().gone()
    claim.delete().gone()
    cluster.until(lambda: not cluster.objects("persistentvolumes"), "the volume is deleted")


@pytest.mark.mooring_cluster(nodes=1)
def test_a_process_is_a_driver(mooring_cluster: ClusterOfTest) -> None:
    mooring_cluster.faults.lose_answer("DeleteVolume")
    mooring_cluster.passes(minutes=10)
    life(mooring_cluster)
    assert 2 == len(mooring_cluster.calls("DeleteVolume"))
    assert {"", "n1"} == {call.where for call in mooring_cluster.calls()}


def test_a_quarter_of_an_hour_waits_for_calls_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of timers fall due; the outside world is waited for only while the driver is called."""
    with a_cluster(command(tmp_path), nodes=1) as cluster:
        cluster.claim("data").bound()
        waits, select, made = 0, selectors.DefaultSelector.select, len(cluster.calls())

        def watched(selector: Any, timeout: float | None = None) -> Any:
            nonlocal waits
            waits += threading.current_thread().name == "mooring" and timeout is not None and timeout > 0
            return select(selector, timeout)

        monkeypatch.setattr(selectors.DefaultSelector, "select", watched)
        cluster.passes(minutes=15)
        calls = len(cluster.calls()) - made
        assert calls >= 10, "the driver is probed"
        assert waits <= 20 * calls, "each call is asked after each 20 ms"


@pytest.mark.long
@pytest.mark.mooring_cluster(nodes=1)
def test_a_volume_of_a_process_lives_on_with_each_fault(mooring_each_fault: ClusterOfTest) -> None:
    began = time.monotonic()
    life(mooring_each_fault)
    assert time.monotonic() - began < 60, "nobody waits for deadlines of minutes"


def test_a_driver_of_somebody_else_s_is_not_restarted(socket: Path) -> None:
    with a_cluster(f"unix://{socket}", nodes=1) as cluster:
        with pytest.raises(CantHappen, match="somebody else's"):
            cluster.run(SHELF["driver_restarts"](cluster.aio))
        with pytest.raises(ConfigError, match="somebody else's"):
            cluster.restart_driver()


@pytest.mark.long
def test_a_node_returns_whose_driver_takes_its_time_to_serve(tmp_path: Path) -> None:
    with a_cluster(f"sh -c 'sleep 1.5; exec {command(tmp_path)}'", nodes=1) as cluster:
        claim = cluster.claim("data").bound()
        web = cluster.pod("web", claim).running()
        node = cluster.node_of(web).dies()
        node.returns()
        node.ready()
        web.delete().gone()
        cluster.restart_driver()
        claim.delete().gone()
        cluster.until(lambda: not cluster.objects("persistentvolumes"), "the volume is deleted")


def test_a_command_is_restarted_and_each_of_its_nodes_has_its_own(tmp_path: Path) -> None:
    words = (
        f"{PYTHON} -m mooring.cli.mooring driver run tests.unit.testing.test_command:Twin --option folder={tmp_path}"
    )
    with a_cluster(f"{words} --option node_id={{node}} --endpoint unix://{{socket}}", nodes=2) as cluster:
        assert ["n1", "n2"] == sorted(path.name for path in tmp_path.iterdir())
        first = {path.name: path.read_text() for path in tmp_path.iterdir()}
        cluster.restart_driver()
        cluster.until(
            lambda: all(path.read_text() != first[path.name] for path in tmp_path.iterdir()), "both are other processes"
        )


@pytest.mark.long
def test_restarts_at_the_same_time_come_one_after_the_other(tmp_path: Path) -> None:
    """As where two calls are the first of their kind. A node without power gets no driver by them."""
    words = (
        f"{PYTHON} -m mooring.cli.mooring driver run tests.unit.testing.test_command:Twin --option folder={tmp_path}"
    )
    with a_cluster(f"{words} --option node_id={{node}} --endpoint unix://{{socket}}", nodes=2) as cluster:

        async def twice() -> None:
            await asyncio.gather(cluster.aio.restart_driver(), cluster.aio.restart_driver())

        cluster.node("n2").dies()
        dead = (tmp_path / "n2").read_text()
        cluster.run(twice())
        assert (tmp_path / "n2").read_text() == dead
