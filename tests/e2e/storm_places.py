"""Where storms blow: in process and in virtual time, on the embedded server, and on the real control plane.

| place | API server | binding, scheduling | provisioners | driver |
|---|---|---|---|---|
| in process | the embedded server's store | `Binder` | lives of `csi-provisioner` | in process |
| embedded | `mooring apiserver`, a process | `mooring binder`, a process | processes | on a unix socket |
| real | kube-apiserver | kube-controller-manager, kube-scheduler | processes | on a unix socket |
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import Clock, LoopClock
from mooring.base.flags import parse
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli import csi_provisioner
from mooring.cli.process import Command, Machine, Setup
from mooring.cli.sidecar import Context, Sidecar, SidecarLife, SidecarWork
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.control.runtime import Runtime
from mooring.csi.client import Client
from mooring.csi.in_process import InProcessDriver
from mooring.csi.metrics import CallMetrics
from mooring.driver.server import serving
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import Cluster
from tests.e2e.storms import FLAGS, Replica, Storm
from tests.support import killing
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program, free_ports
from tests.support.unreliable_volumes import UnreliableVolumes
from tests.support.waiting import eventually

EPOCH_S = 1_780_000_000.0
TROUBLE = 0.4
MOORING = (sys.executable, "-m", "mooring.cli.mooring")


# -- in process


class _Ports:
    """What one process reaches the world through, as long as it lives."""

    def __init__(self, cluster: Cluster, driver: UnreliableVolumes, life: killing.Life, clock: Clock) -> None:
        self._cluster, self._driver, self._life, self._clock = cluster, driver, life, clock

    @contextlib.asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        mortal: Cluster = killing.MortalCluster(self._cluster, self._life)  # type: ignore[assignment]
        yield mortal

    @contextlib.asynccontextmanager
    async def driver(self, metrics: CallMetrics) -> AsyncIterator[Client]:
        plugin: Any = killing.MortalDriver(self._driver, self._life)
        yield InProcessDriver(plugin, clock=self._clock, metrics=metrics)


class _Term:
    """The work of one term, which is made long before, and stands by. begins: told when it leads."""

    def __init__(self, work: SidecarWork, begins: Callable[[], None]) -> None:
        self._work, self._begins = work, begins

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    async def run(self) -> None:
        self._begins()
        await self._work.run()


class SidecarReplica(Replica):
    """make: the sidecar's part, from command line and surroundings."""

    def __init__(
        self,
        command: Command[Any],
        make: Callable[[Setup[Any], Machine], Sidecar[Any]],
        cluster: Cluster,
        driver: UnreliableVolumes,
        clock: Clock,
        seed: int,
        flags: Sequence[str],
    ) -> None:
        self._life, self._works = killing.Life(), False
        parsed = parse(command.table, flags)
        gates = {**{name: gate.default for name, gate in command.gates.items()}, **parsed.flags.feature_gates}
        setup, machine = Setup("sidecar", parsed.flags, parsed.given, gates), Machine(environ={})
        known = make(setup, machine)

        def work(context: Context[Any]) -> SidecarWork:
            return cast("SidecarWork", _Term(known.make_work(context), self._begins))

        ports = _Ports(cluster, driver, self._life, clock)
        parts = dataclasses.replace(known, make_work=work)
        self._life.start(
            SidecarLife(parts, setup, machine, ports, clock=clock, randomness=Random(seed), metrics=Metrics()).run()
        )

    def _begins(self) -> None:
        self._works = True

    @property
    def leads(self) -> bool:
        return self._works

    async def kill(self) -> None:
        self._life.kill()

    def assert_alive(self) -> None:
        self._life.check()


class StoreInProcess:
    """The embedded server's store, in virtual time."""

    def __init__(self) -> None:
        self.clock, self._randomness = LoopClock(EPOCH_S), Random(7)
        self.store = new_store(self._randomness, EPOCH_S)

    def a_client(self) -> Cluster:
        return LocalCluster(self.store, clock=self.clock, randomness=self._randomness)

    @contextlib.asynccontextmanager
    async def binding(self) -> AsyncIterator[None]:
        """It keeps house, and a binder runs."""
        housekeeping = Housekeeping(self.store, clock=self.clock)
        housekeeping.start()
        runtime = Runtime(self.a_client(), self.clock, self._randomness, Metrics())
        binder = asyncio.create_task(make_binder(runtime, BinderOptions()).run(), name="binder")
        try:
            yield
        finally:
            binder.cancel()
            await asyncio.gather(binder, return_exceptions=True)
            housekeeping.close()


class _InProcessStorm(Storm):
    def __init__(self, place: StoreInProcess, count: int, flags: Sequence[str]) -> None:
        self._place, self._flags = place, flags
        driver = UnreliableVolumes("csi.test", Random(11), trouble=TROUBLE)
        super().__init__(place.a_client(), driver, count, wait_s=2000.0, look_s=0.25)

    def a_replica(self, number: int) -> Replica:
        client, clock = self._place.a_client(), self._place.clock
        return SidecarReplica(
            csi_provisioner.COMMAND, csi_provisioner.sidecar, client, self.driver, clock, number, self._flags
        )


@contextlib.asynccontextmanager
async def in_process(count: int, flags: Sequence[str] = FLAGS) -> AsyncIterator[Storm]:
    place = StoreInProcess()
    storm = _InProcessStorm(place, count, flags)
    async with place.binding():
        try:
            yield storm
        finally:
            await storm.kill_all()


# -- with processes


class ProgramReplica(Replica):
    """One of the executables, as a process."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._program = Program(command, log, {**os.environ, "POD_NAMESPACE": ""})

    @property
    def leads(self) -> bool:
        log = self._program.output()
        return log.rfind("Became leader") > log.rfind("Stopped leading")

    async def kill(self) -> None:
        await asyncio.to_thread(self._program.kill)

    def assert_alive(self) -> None:
        self._program.assert_alive()


class Folder:
    """Of the programs: their logs, and the driver's socket."""

    def __init__(self, path: Path) -> None:
        self.path, self.socket = path, path / "csi.sock"

    def assert_no_bug(self) -> None:
        """Nobody has met anything that is not foreseen."""
        for log in self.path.glob("*.log"):
            assert "unexpected" not in log.read_text(errors="replace"), log.name

    def logs(self) -> str:
        ends = (
            (path.name, path.read_text(errors="replace").splitlines()[-15:]) for path in sorted(self.path.glob("*.log"))
        )
        return "\n".join(f"-- {name}\n" + "\n".join(lines) for name, lines in ends)


class ProcessStorm(Storm):
    def __init__(self, cluster: Cluster, config: Path, folder: Folder, count: int) -> None:
        self._config, self._folder = config, folder
        driver = UnreliableVolumes("csi.test", Random(11), trouble=TROUBLE)
        super().__init__(cluster, driver, count, wait_s=60.0 + count / 4, look_s=0.1)

    def a_replica(self, number: int) -> Replica:
        """`csi-provisioner`."""
        flags = (f"--csi-address={self._folder.socket}", f"--kubeconfig={self._config}", *FLAGS)
        return ProgramReplica(
            [sys.executable, "-m", "mooring.cli.csi_provisioner", *flags],
            self._folder.path / f"provisioner-{number}.log",
        )


class Blowing(Protocol):
    """A storm among processes."""

    @property
    def driver(self) -> UnreliableVolumes: ...

    async def kill_all(self) -> None: ...


S = TypeVar("S", bound=Blowing)


@contextlib.asynccontextmanager
async def with_processes(config: Path, make: Callable[[Cluster, Folder], S]) -> AsyncIterator[S]:
    path = Path(tempfile.mkdtemp(prefix="storm-"))
    client = HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    try:
        async with client:
            folder = Folder(path)
            storm = make(client, folder)
            async with serving(storm.driver, str(folder.socket), grace_s=0):
                try:
                    yield storm
                    folder.assert_no_bug()
                except BaseException as error:
                    error.add_note(folder.logs())
                    raise
                finally:
                    await storm.kill_all()
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Server:
    """`mooring apiserver` on a state in this folder, which outlives it, and always on one port."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig, self._written = folder / "kubeconfig", folder / "written"
        (port,) = free_ports(1)
        flags = (f"--state={folder / 'state'}", f"--kubeconfig={self._written}", f"--port={port}")
        self._command = [*MOORING, "apiserver", *flags]
        self._log = folder / "apiserver.log"
        self._program: Program | None = None

    def start(self) -> None:
        """Returns when it answers."""
        self._written.unlink(missing_ok=True)
        program = self._program = Program(self._command, self._log)
        eventually(lambda: program.output_alive() and self._written.exists(), 30, "the API server is there")
        shutil.copy(self._written, self.kubeconfig)

    def kill(self) -> None:
        if self._program is not None:
            self._program.kill()

    async def restart(self) -> None:
        """kill -9, and a new one."""
        self.kill()
        await asyncio.to_thread(self.start)


@contextlib.asynccontextmanager
async def embedded_server(folder: Path) -> AsyncIterator[Server]:
    """With a binder."""
    server = Server(folder)
    server.start()
    try:
        binder = Program([*MOORING, "binder", f"--kubeconfig={server.kubeconfig}"], folder / "binder.log")
        try:
            yield server
            binder.assert_alive()
        finally:
            binder.kill()
    finally:
        server.kill()


def _of_claims(config: Path, count: int) -> Callable[[Cluster, Folder], ProcessStorm]:
    return lambda cluster, folder: ProcessStorm(cluster, config, folder, count)


@contextlib.asynccontextmanager
async def embedded(folder: Path, count: int) -> AsyncIterator[tuple[ProcessStorm, Server]]:
    async with (
        embedded_server(folder) as server,
        with_processes(server.kubeconfig, _of_claims(server.kubeconfig, count)) as storm,
    ):
        yield storm, server


@contextlib.asynccontextmanager
async def real(plane: ControlPlane, count: int) -> AsyncIterator[ProcessStorm]:
    """plane: one of its own; what binds acts on the whole cluster."""
    plane.start_binding()
    config = plane.kubeconfig()
    async with with_processes(config, _of_claims(config, count)) as storm:
        yield storm
