"""The registration socket and its health, on real sockets; and the causes that are named for the words of a kubelet
that refuses.
"""

from __future__ import annotations

import asyncio
import socket
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.registration import Registration
from mooring.sidecars.registrar.registrar import Registrar, likely_cause
from tests.support.rows import each_row
from tests.unit.node.plugin_world import PluginServer, real_time

ENDPOINT = "/var/lib/kubelet/plugins/d1/csi.sock"


class Running:
    def __init__(self, folder: Path) -> None:
        self.refusals = 0
        self.registrar = Registrar("d1", ENDPOINT, folder, clock=LoopClock(), on_refusal=self._refused)
        self.kubelet = Registration(self.registrar.socket)

    def _refused(self) -> None:
        self.refusals += 1


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    with tempfile.TemporaryDirectory(prefix="reg-") as folder:
        world = Running(Path(folder))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.registrar.run(), name="registrar")
            while not world.registrar.socket.exists():  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.005)
            yield world
            await world.kubelet.close()
            task.cancel()
        assert not world.registrar.socket.exists()


@real_time
async def test_NDR1_the_socket_is_its_owners_and_answers_for_the_driver() -> None:
    async with running() as world:
        info = await world.kubelet.get_info(2.0)
        assert ("CSIPlugin", "d1", ENDPOINT, ["1.0.0"]) == (
            info.type,
            info.name,
            info.endpoint,
            list(info.supported_versions),
        )
        assert "d1-reg.sock" == world.registrar.socket.name
        assert 0o700 == stat.S_IMODE(world.registrar.socket.stat().st_mode)


@real_time
async def test_readiness_follows_the_kubelets_word() -> None:
    async with running() as world:
        assert (200, "ok") == await world.registrar.health(2.0)
        assert "has not asked yet" in world.registrar.obstacle, "it was no kubelet that asked"
        await world.kubelet.get_info(2.0)
        assert "has not said yet" in world.registrar.obstacle
        await world.kubelet.notify(registered=True, timeout_s=2.0)
        assert (True, "", 0) == (world.registrar.is_registered, world.registrar.obstacle, world.refusals)


@real_time
async def test_NDR4_a_refusal_ends_it() -> None:
    async with running() as world:
        await world.kubelet.notify(registered=False, error="x", timeout_s=2.0)
        assert (1, False) == (world.refusals, world.registrar.is_registered)


@real_time
async def test_NDR6_health_is_that_of_the_socket() -> None:
    async with running() as world:
        assert (200, "ok") == await world.registrar.health(2.0)
        world.registrar.socket.unlink()
        assert (404, "registration socket does not exist") == await world.registrar.health(2.0)
        async with PluginServer(ENDPOINT, "other").on(world.registrar.socket):
            code, text = await world.registrar.health(2.0)
            assert (500, True) == (code, "invalid driver name: other" in text)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(world.registrar.socket))
            assert 500 == (await world.registrar.health(0.3))[0]
        world.registrar.socket.unlink()


@each_row("kind", ["file", "folder", "link"])
def test_NDR3_what_is_no_socket_stays_and_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "d1-reg.sock"
    match kind:
        case "file":
            path.write_text("x")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("elsewhere")
    registrar = Registrar("d1", ENDPOINT, tmp_path, clock=LoopClock(), on_refusal=lambda: None)
    with pytest.raises(ConfigError, match="is not a socket"):
        asyncio.run(registrar.run())
    assert path.exists() or path.is_symlink()


@real_time
async def test_NDR3_a_left_over_socket_is_replaced() -> None:
    with tempfile.TemporaryDirectory(prefix="reg-") as folder:
        path = Path(folder) / "d1-reg.sock"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        registrar = Registrar("d1", ENDPOINT, Path(folder), clock=LoopClock(), on_refusal=lambda: None)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(registrar.run(), name="registrar")
            while (await registrar.health(1.0))[0] != 200:  # noqa: ASYNC110 - a socket tells nobody
                await asyncio.sleep(0.01)
            task.cancel()


HOST_SOCKET = "/var/lib/kubelet/plugins/csi.test/csi.sock"
PREFIX = "RegisterPlugin error -- plugin registration failed with err: "
NODE = PREFIX + (
    "error updating Node object with CSI driver node info: error updating node: timed out waiting for the "
    "condition; caused by: "
)
CSINODE = PREFIX + (
    "error updating CSINode object with CSI driver node info: error updating CSINode: timed out waiting for "
    "the condition; "
)
CSINODE += 'caused by: CSINode.storage.k8s.io "n" is invalid: '


# As kubelet 1.36.3 said them, but for names; those of our own agent are in test_readiness.py.
@each_row(
    ("error", "cause"),
    [
        pytest.param(
            "RegisterPlugin error -- plugin validation failed with err: validation failed for CSI Driver d at "
            "endpoint /d/csi.sock: "
            'kubernetes.io/csi: ValidatePlugin for CSI driver "d" failed. Another driver with the same name is '
            "already registered with a "
            'higher supported version: "1.0.0"',
            "another registrar has registered a driver of this name",
            id="registered-already",
        ),
        pytest.param(
            NODE + 'detected topology value collision: driver reported "k":"new" but existing label is "k":"old"',
            "remove that label",
            id="collision",
        ),
        pytest.param(
            CSINODE
            + (
                "spec.drivers: Invalid value: "
                '{"Name":"d","NodeID":"another","TopologyKeys":null,"Allocatable":null}: field is immutable'
            ),
            "former node id",
            id="another-node-id",
        ),
        pytest.param(
            NODE + "failed to patch status "
            '"{\\"metadata\\":{\\"annotations\\":{\\"csi.volume.kubernetes.io/nodeid\\":\\"{}\\"},\\"labels\\":'
            '{\\"bad key!\\":\\"x\\"}}}" for node "n": Node "n" is invalid: metadata.labels: Invalid value: "bad key!"',
            "no valid labels",
            id="topology-no-label",
        ),
        pytest.param(
            NODE + 'nodes "n" is forbidden: is not allowed to modify labels: x.kubernetes.io/y',
            "topology keys need a domain",
            id="forbidden",
        ),
        pytest.param(
            PREFIX + "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
            "did not answer NodeGetInfo within 2 minutes",
            id="too-slow",
        ),
        pytest.param(
            PREFIX + 'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
            "dial unix "
            '/nowhere/csi.sock: connect: connection refused"',
            HOST_SOCKET,
            id="unreachable",
        ),
        pytest.param(
            PREFIX + "no connection to the CSI driver at '/nowhere' within 10 s: the socket does not exist yet",
            HOST_SOCKET,
            id="agent",
        ),
        pytest.param(
            NODE
            + 'Patch "https://10.0.0.1:443/api/v1/nodes/n/status": dial tcp 10.0.0.1:443: connect: connection refused',
            "the API server did not answer",
            id="no-api-server",
        ),
        pytest.param(
            NODE
            + (
                'failed to parse node\'s "csi.volume.kubernetes.io/nodeid" annotation value ("{") err=unexpected '
                "end of JSON input"
            ),
            "remove or mend it",
            id="annotation",
        ),
        pytest.param(
            PREFIX + "error adding CSI driver node info: driverNodeID must not be empty",
            "gave no node id",
            id="no-node-id",
        ),
        pytest.param(
            CSINODE + 'spec.drivers[0].nodeID: Invalid value: "xxx": must be 256 characters or less',
            "1 to 256 characters",
            id="long-node-id",
        ),
        pytest.param(
            PREFIX + "rpc error: code = Unimplemented desc = unknown service csi.v1.Node",
            "no node service",
            id="no-node-service",
        ),
        pytest.param(
            PREFIX + "rpc error: code = Internal desc = no metadata", "NodeGetInfo failed", id="driver-failed"
        ),
    ],
)
def test_NDR4_a_refusal_is_explained(error: str, cause: str) -> None:
    assert cause in likely_cause(error, HOST_SOCKET)


def test_an_unknown_refusal_is_not_explained_by_a_guess() -> None:
    assert "" == likely_cause("the moon is full", HOST_SOCKET)


def test_a_socket_path_with_braces_is_shown_as_it_is() -> None:
    assert "/a{0}b" in likely_cause("dial unix /x", "/a{0}b")
