"""Targets with a `csi-attacher` process, a driver on a unix socket, and an API server over HTTP: the embedded one, or
the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.identity.tls import identity_in
from mooring.apiserver.web.server import ApiServer
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.driver.server import serving
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import Cluster
from tests.e2e.targets import Running, Target
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.scripted_driver import ScriptedDriver

CSI_ATTACHER = Path(sys.executable).with_name("csi-attacher")
WAIT_S = 30.0


class Attacher(Running):
    """A `csi-attacher` process."""

    def __init__(self, folder: Path, *flags: str, env: dict[str, str] | None = None) -> None:
        log = next(path for number in itertools.count(1) if not (path := folder / f"attacher-{number}.log").exists())
        self.program = Program([CSI_ATTACHER, *flags], log, env={**os.environ, "POD_NAMESPACE": "", **(env or {})})

    @property
    def log(self) -> str:
        return self.program.output()

    async def kill(self) -> None:
        await asyncio.to_thread(self.program.kill)

    async def end(self) -> None:
        self.program.send(signal.SIGTERM)
        assert 0 == await self.exit_code()

    async def exit_code(self, timeout_s: float = 30.0) -> int:
        """Once it has ended by itself; the driver of this loop goes on meanwhile."""
        return await asyncio.to_thread(self.program.wait_exit, timeout_s)

    def assert_alive(self) -> None:
        self.program.assert_alive()

    async def said(self, *texts: str, timeout_s: float = WAIT_S) -> str:
        """Waits until a line of the log has all these texts; gives the line."""
        async with asyncio.timeout(timeout_s):
            while True:
                for line in self.log.splitlines():
                    if all(text in line for text in texts):
                        return line
                self.assert_alive()
                await asyncio.sleep(0.05)


class ProcessTarget(Target):
    """config: a kubeconfig file for the attacher. folder: for sockets and logs; short, since a socket's path is."""

    def __init__(self, users: Cluster, config: Path, folder: Path) -> None:
        suffix = uuid.uuid4().hex[:8]
        super().__init__(users, ScriptedDriver(f"{suffix}.csi.test"), LoopClock(), suffix, WAIT_S)
        self.config = config
        self.folder = folder
        self.environ: dict[str, str] = {}  # for attachers
        self.socket = folder / "csi.sock"
        self._served = contextlib.AsyncExitStack()

    async def start_driver(self) -> None:
        await self._served.enter_async_context(serving(self.driver, str(self.socket), grace_s=0))

    async def stop_driver(self) -> None:
        await self._served.aclose()

    @contextlib.asynccontextmanager
    async def attaching(self, *flags: str) -> AsyncIterator[Attacher]:
        address = f"--csi-address={self.socket}"
        attacher = self.running = Attacher(
            self.folder, address, f"--kubeconfig={self.config}", *flags, env=self.environ
        )
        try:
            yield attacher
            assert "unexpected" not in attacher.log, "a bug showed itself"
        except BaseException as error:
            error.add_note(f"-- csi-attacher\n{attacher.program.log_tail(60)}")
            raise
        finally:
            self.running = None
            await attacher.kill()


@contextlib.asynccontextmanager
async def on_server(config: Path) -> AsyncIterator[ProcessTarget]:
    """A target on the API server that a kubeconfig leads to, with the driver on its socket."""
    folder = Path(tempfile.mkdtemp(prefix="e2e-"))
    client = HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    try:
        async with client:
            target = ProcessTarget(client, config, folder)
            await target.start_driver()
            try:
                yield target
            finally:
                await target.clean_up()
                await target.stop_driver()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def on_real(_folder: Path, plane: ControlPlane) -> AsyncIterator[Target]:
    async with on_server(plane.kubeconfig()) as target:
        yield target


@contextlib.asynccontextmanager
async def on_embedded(folder: Path) -> AsyncIterator[ProcessTarget]:
    async with embedded_server(folder) as config, on_server(config) as target:
        yield target


@contextlib.asynccontextmanager
async def embedded_server(folder: Path) -> AsyncIterator[Path]:
    """An embedded API server in this loop; gives a kubeconfig for it."""
    clock, randomness = LoopClock(), Random()
    server = ApiServer(
        new_store(randomness, clock.wall_s()),
        identity_in(folder / "server", clock.wall_s()),
        clock=clock,
        randomness=randomness,
    )
    await server.start()
    try:
        server.write_kubeconfig(folder / "kubeconfig")
        yield folder / "kubeconfig"
    finally:
        await server.close()
