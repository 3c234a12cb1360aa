"""`cluster-driver-registrar` as a process, on the real API server: each sentence of its contract, and its rights.

The object's two minutes are those of tests/unit/cluster_registrar, in virtual time; here an object is changed before
the program starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.cli import cluster_registrar
from mooring.csi.errors import DriverError
from mooring.driver.server import serving
from mooring.wire.grpc.codes import Code
from tests.support.builders import Json
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy, Refuse, Reset, fault_proxy
from tests.support.in_process import in_process
from tests.support.programs import Program
from tests.support.rights import Manifest, acting_as, just, refused
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, ScriptedDriver

SCRIPT = Path(sys.executable).with_name("cluster-driver-registrar")
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
CREATED, DELETED = "CSIDriver object created", "CSIDriver object deleted"
FAILED, DIFFERS = "Failed to create CSIDriver object", "CSIDriver object differs"
UNREADABLE = "whether it is as this driver needs it can't be read"
RIGHTS = (("storage.k8s.io", "csidrivers", "create delete"),)
"""Of the old program's manifest."""
WAIT_S = 30.0


@dataclasses.dataclass
class World:
    """One driver, the API server behind a proxy, and the program's words. env: of `program`, none of a cluster's."""

    plane: ControlPlane
    proxy: FaultProxy
    folder: Path
    driver: ScriptedDriver

    @property
    def socket(self) -> Path:
        return self.folder / "csi.sock"

    @property
    def path(self) -> str:
        return f"{DRIVERS}/{self.driver.name}"

    async def found(self) -> Json | None:
        """The driver's object."""
        status, body = await asyncio.to_thread(self.plane.request, "GET", self.path)
        assert status in (200, 404)
        found: Json = json.loads(body)
        return found if status == 200 else None

    async def make(self, **spec: Any) -> Json:
        body = {"metadata": {"name": self.driver.name, "labels": {"made": "by-hand"}}, "spec": spec}
        status, answer = await asyncio.to_thread(self.plane.request, "POST", DRIVERS, body)
        assert 201 == status, answer
        made: Json = json.loads(answer)
        return made

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with serving(self.driver, str(self.socket), grace_s=0.0):
            yield

    @contextlib.asynccontextmanager
    async def running(self, *flags: str) -> AsyncIterator[Program]:
        """The program; no driver serves yet."""
        command = [SCRIPT, f"--csi-address={self.socket}", f"--kubeconfig={self.proxy.kubeconfig}", *flags]
        program = Program(command, self.folder / f"log-{uuid.uuid4().hex}")
        try:
            yield program
        except BaseException as error:
            error.add_note(program.log_tail())
            raise
        finally:
            await asyncio.to_thread(program.kill)

    @contextlib.asynccontextmanager
    async def told(self, text: str, *flags: str) -> AsyncIterator[Program]:
        """The program and its driver, once the program's log has the text."""
        async with self.serving(), self.running(*flags) as program:
            await said(program, text)
            yield program


async def said(program: Program, text: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while text not in program.output_alive():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


async def ended(program: Program, number: int | None = None) -> int:
    """The exit code after this signal."""
    if number is not None:
        program.send(number)
    return await asyncio.to_thread(program.wait_exit, WAIT_S)


@contextlib.asynccontextmanager
async def a_world(plane: ControlPlane, *controller: int, rights: Manifest | None = None) -> AsyncIterator[World]:
    """rights: of the program; None for all. controller: what the driver's controller is able to do."""
    with tempfile.TemporaryDirectory(prefix="cdr-") as name:
        folder, driver = Path(name), ScriptedDriver(f"{uuid.uuid4().hex[:8]}.csi.test", controller)
        through = (
            fault_proxy(plane.token_kubeconfig(), folder / "proxy.kubeconfig")
            if rights is None
            else acting_as(rights, plane, folder)
        )
        async with through as proxy:
            world = World(plane, proxy, folder, driver)
            try:
                yield world
            finally:
                await asyncio.to_thread(plane.request, "DELETE", world.path)


# -- the object


@pytest.mark.parametrize(
    ("able", "flags", "attaches", "pod_info"),
    [
        ([RPC.PUBLISH_UNPUBLISH_VOLUME], ["--pod-info-mount"], True, True),
        ([RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES], [], True, False),
        ([RPC.CREATE_DELETE_VOLUME], ["--pod-info-mount=true"], False, True),
        ([], ["-pod-info-mount=false"], False, False),
    ],
)
async def test_CDR1_the_object_is_made_as_v1(
    control_plane: ControlPlane, able: list[int], flags: list[str], attaches: bool, pod_info: bool
) -> None:
    async with a_world(control_plane, *able) as world, world.told(CREATED, *flags) as program:
        made = await world.found()
        assert made is not None
        assert (attaches, pod_info) == (made["spec"]["attachRequired"], made["spec"]["podInfoOnMount"])
        assert [("create", DRIVERS, 201)] == [
            (one.verb, one.path.partition("?")[0], one.status) for one in world.proxy.requests
        ]
        assert 0 == await ended(program, signal.SIGTERM)


async def test_CDR1_one_that_is_there_is_left_alone(control_plane: ControlPlane) -> None:
    async with a_world(control_plane, RPC.PUBLISH_UNPUBLISH_VOLUME) as world:
        before = await world.make(attachRequired=True, podInfoOnMount=False)
        async with world.serving(), world.running("--v=2") as program:
            await _asked(world, "get")
            assert 0 == await ended(program, signal.SIGTERM)
            assert DIFFERS not in program.output()
        assert before == await world.found()
        assert {"create", "get"} == {one.verb for one in world.proxy.requests}


async def test_CDR1_one_that_differs_is_named_and_never_overwritten(control_plane: ControlPlane) -> None:
    async with a_world(control_plane, RPC.PUBLISH_UNPUBLISH_VOLUME) as world:
        before = await world.make(attachRequired=False, podInfoOnMount=True, fsGroupPolicy="File")
        async with world.told(DIFFERS) as program:
            assert "attachRequired is false, not true, podInfoOnMount is true, not false" in program.output()
            assert 0 == await ended(program, signal.SIGTERM)
        assert before == await world.found()
        assert {"create", "get"} == {one.verb for one in world.proxy.requests}


# -- a server that does not take it


async def test_CDR1_a_conflict_is_sent_again(control_plane: ControlPlane) -> None:
    async with a_world(control_plane) as world:
        rule = world.proxy.fail("create", "csidrivers", Refuse(409, "Conflict"), times=3)
        async with world.told(CREATED) as program:
            assert FAILED not in program.output()
        assert (3, 4) == (rule.hits, len(world.proxy.writes()))


async def test_CDR1_an_answer_that_is_lost_is_logged(control_plane: ControlPlane) -> None:
    """The object is made all the same; the look in two minutes finds it."""
    async with a_world(control_plane) as world:
        world.proxy.fail("create", "csidrivers", Reset(after=True), times=1)
        async with world.told(FAILED) as program:
            assert 0 == await ended(program, signal.SIGTERM)
        assert await world.found() is not None


async def test_CDR1_a_refusal_is_logged_and_does_not_end_it(control_plane: ControlPlane) -> None:
    """The account has no rights."""
    async with a_world(control_plane, rights=just("cdr-nothing", ())) as world, world.told(FAILED) as program:
        assert "forbidden" in program.output()
        assert await world.found() is None
        assert ["create csidrivers.storage.k8s.io"] == refused(world.proxy)
        assert 0 == await ended(program, signal.SIGTERM)


async def test_CDR1_an_object_that_the_server_finds_invalid_is_logged(control_plane: ControlPlane) -> None:
    async with a_world(control_plane) as world:
        world.driver.name = "Not_A_Name"
        async with world.told(FAILED) as program:
            assert "Not_A_Name" in program.output()
            assert 0 == await ended(program, signal.SIGTERM)


# -- the driver


async def test_CDR1_a_driver_that_is_late_is_waited_for(control_plane: ControlPlane) -> None:
    async with a_world(control_plane, RPC.PUBLISH_UNPUBLISH_VOLUME) as world, world.running() as program:
        await said(program, "Still connecting")
        assert [] == world.proxy.requests
        async with world.serving():
            await said(program, CREATED)
            assert 0 == await ended(program, signal.SIGTERM)


class Hanging(ScriptedDriver):
    """Answers no question."""

    async def get_plugin_info(self, request: Any) -> Any:
        await asyncio.get_running_loop().create_future()


class Slow(ScriptedDriver):
    """Each of its two answers would be in time, both together are not."""

    async def get_plugin_info(self, request: Any) -> Any:
        await asyncio.sleep(0.7)
        return await super().get_plugin_info(request)

    async def controller_get_capabilities(self, request: Any) -> Any:
        await asyncio.sleep(0.7)
        return await super().controller_get_capabilities(request)


class WithoutController(ScriptedDriver):
    async def controller_get_capabilities(self, request: Any) -> Any:
        raise DriverError(Code.UNIMPLEMENTED, "unknown service csi.v1.Controller")


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        (ScriptedDriver(""), "driver name is empty"),
        (WithoutController(), "unknown service csi.v1.Controller"),
        (Hanging(), "context deadline exceeded"),
        (Slow(), "context deadline exceeded"),
    ],
    ids=["no-name", "no-controller", "hangs", "slow"],
)
async def test_CDR1_a_driver_that_does_not_introduce_itself_ends_it(
    control_plane: ControlPlane, driver: ScriptedDriver, text: str
) -> None:
    """Both questions share a second."""
    async with a_world(control_plane) as world:
        world.driver = driver
        async with world.serving(), world.running() as program:
            assert 1 == await ended(program)
            assert text in program.output()
        assert [] == world.proxy.requests


# -- its end


async def test_CDR1_sigint_deletes_the_object_and_ends_with_1(control_plane: ControlPlane) -> None:
    async with a_world(control_plane) as world, world.told(CREATED) as program:
        assert 1 == await ended(program, signal.SIGINT)
        assert DELETED in program.output()
        assert await world.found() is None


async def test_CDR1_sigint_deletes_one_that_was_there_before(control_plane: ControlPlane) -> None:
    """As the old program: it does not remember whose the object is."""
    async with a_world(control_plane) as world:
        await world.make(attachRequired=False, podInfoOnMount=False)
        async with world.serving(), world.running() as program:
            await _asked(world, "get")
            assert 1 == await ended(program, signal.SIGINT)
        assert await world.found() is None


async def test_CDR1_sigint_finds_nothing_to_delete(control_plane: ControlPlane) -> None:
    async with a_world(control_plane) as world, world.told(CREATED) as program:
        await asyncio.to_thread(world.plane.request, "DELETE", world.path)
        assert 1 == await ended(program, signal.SIGINT)
        assert "Failed to delete" not in program.output()
        assert ("delete", 404) in [(one.verb, one.status) for one in world.proxy.requests]


async def test_CDR1_sigint_without_the_right_to_delete_says_so(control_plane: ControlPlane) -> None:
    rights = just("cdr-create", (("storage.k8s.io", "csidrivers", "create"),))
    async with a_world(control_plane, rights=rights) as world, world.told(CREATED) as program:
        assert 1 == await ended(program, signal.SIGINT)
        assert "delete it by hand" in program.output()
        assert await world.found() is not None


async def test_CDR1_sigterm_leaves_the_object_and_ends_with_0(control_plane: ControlPlane) -> None:
    async with a_world(control_plane) as world, world.told(CREATED) as program:
        assert 0 == await ended(program, signal.SIGTERM)
        assert await world.found() is not None
        assert {"create"} == {one.verb for one in world.proxy.requests}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 1)])
async def test_CDR1_a_signal_before_the_driver_is_there_ends_it(
    control_plane: ControlPlane, number: int, code: int
) -> None:
    async with a_world(control_plane) as world, world.running() as program:
        await said(program, "Still connecting")
        assert code == await ended(program, number)
        assert [] == world.proxy.requests


# -- its rights and flags


async def test_CDR1_the_rights_of_the_old_manifest_are_enough_and_both_are_needed(control_plane: ControlPlane) -> None:
    rights = just("cdr-old", RIGHTS)
    async with a_world(control_plane, rights=rights) as world:
        async with world.told(CREATED) as program:
            assert 1 == await ended(program, signal.SIGINT)
        assert await world.found() is None
        assert [] == refused(world.proxy)
        assert [] == rights.unused(world.proxy)


async def test_CDR1_without_the_right_to_read_a_present_object_that_is_said(control_plane: ControlPlane) -> None:
    async with a_world(control_plane, rights=just("cdr-old", RIGHTS)) as world:
        before = await world.make(attachRequired=True)
        async with world.told(UNREADABLE) as program:
            assert ["get csidrivers.storage.k8s.io"] == refused(world.proxy)
            assert 0 == await ended(program, signal.SIGTERM)
        assert before == await world.found()


@each_row(
    ("flags", "code", "text"),
    [
        (["--version"], 0, "v"),
        (["--no-such"], 2, "flag provided but not defined"),
        (["--connection-timeout=1m", "--kubeconfig=/nowhere/config"], 1, "connection-timeout is deprecated"),
        (["--csi-address=tcp://h:1"], 1, "is not the path of a unix socket"),
        (["--csi-address=/nowhere/csi.sock", "--kubeconfig=/nowhere/config"], 1, "/nowhere/config"),
    ],
    ids=["version", "unknown", "deprecated", "no-socket", "no-cluster"],
)
def test_CDR1_the_exit_codes_of_flags(flags: list[str], code: int, text: str) -> None:
    done = in_process(lambda words: cluster_registrar.run(words, "cluster-driver-registrar"), *flags)
    assert code == done.returncode
    assert text in done.stdout + done.stderr


def test_CDR1_the_exit_code_is_that_of_the_process() -> None:
    done = subprocess.run([SCRIPT, "--no-such"], capture_output=True, text=True, timeout=60, check=False)
    assert 2 == done.returncode


async def _asked(world: World, verb: str) -> None:
    """Returns once such a request has been answered."""
    async with asyncio.timeout(WAIT_S):
        while not any(one.verb == verb and one.status for one in world.proxy.requests):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
