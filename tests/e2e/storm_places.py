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
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import Clock, LoopClock
from mooring.base.flags import parse
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.csi_provisioner import KNOWN_GATES, ProvisionerFlags, sidecar
from mooring.cli.process import Machine, Setup
from mooring.cli.sidecar import Context, SidecarLife, Work
from mooring.control.runtime import Runtime
from mooring.controllers.binder.controller import make_binder
from mooring.controllers.binding.options import BinderOptions
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


class _InProcess(Replica):
    def __init__(self, cluster: Cluster, driver: UnreliableVolumes, clock: Clock, seed: int, flags: Sequence[str]) -> None:
        self._life, self._works = killing.Life(), False
        parsed = parse(ProvisionerFlags, flags)
        gates = {**{name: gate.default for name, gate in KNOWN_GATES.items()}, **parsed.flags.feature_gates}
        setup, machine = Setup("csi-provisioner", parsed.flags, parsed.given, gates), Machine(environ={})
        known = sidecar(setup, machine)

        def work(context: Context[ProvisionerFlags]) -> Work:
            self._works = True
            return known.make_work(context)

        ports = _Ports(cluster, driver, self._life, clock)
        parts = dataclasses.replace(known, make_work=work)
        self._life.start(SidecarLife(parts, setup, machine, ports, clock=clock, randomness=Random(seed), metrics=Metrics()).run())

    @property
    def leads(self) -> bool:
        return self._works

    async def kill(self) -> None:
        self._life.kill()

    def assert_alive(self) -> None:
        self._life.check()


class _InProcessStorm(Storm):
    def __init__(self, count: int, flags: Sequence[str]) -> None:
        self._flags = flags
        self._clock, self._randomness = LoopClock(EPOCH_S), Random(7)
        self.store = new_store(self._randomness, EPOCH_S)
        driver = UnreliableVolumes("csi.test", Random(11), trouble=TROUBLE)
        super().__init__(self.a_client(), driver, count, wait_s=2000.0, look_s=0.25)

    def a_client(self) -> Cluster:
        return LocalCluster(self.store, clock=self._clock, randomness=self._randomness)

    def a_replica(self, number: int) -> Replica:
        return _InProcess(self.a_client(), self.driver, self._clock, number, self._flags)

    @contextlib.asynccontextmanager
    async def binding(self) -> AsyncIterator[None]:
        housekeeping = Housekeeping(self.store, clock=self._clock)
        housekeeping.start()
        runtime = Runtime(self.a_client(), self._clock, self._randomness, Metrics())
        binder = asyncio.create_task(make_binder(runtime, BinderOptions()).run(), name="binder")
        try:
            yield
        finally:
            binder.cancel()
            await asyncio.gather(binder, return_exceptions=True)
            housekeeping.close()


@contextlib.asynccontextmanager
async def in_process(count: int, flags: Sequence[str] = FLAGS) -> AsyncIterator[Storm]:
    storm = _InProcessStorm(count, flags)
    async with storm.binding():
        try:
            yield storm
        finally:
            await storm.kill_all()


# -- with processes


class _Process(Replica):
    """`csi-provisioner`."""

    def __init__(self, storm: ProcessStorm, number: int) -> None:
        flags = (f"--csi-address={storm.socket}", f"--kubeconfig={storm.kubeconfig}", *FLAGS)
        log = storm.folder / f"provisioner-{number}.log"
        environ = {**os.environ, "POD_NAMESPACE": ""}
        self._program = Program([sys.executable, "-m", "mooring.cli.csi_provisioner", *flags], log, environ)

    @property
    def leads(self) -> bool:
        log = self._program.output()
        return log.rfind("Became leader") > log.rfind("Stopped leading")

    async def kill(self) -> None:
        await asyncio.to_thread(self._program.kill)

    def assert_alive(self) -> None:
        self._program.assert_alive()


class ProcessStorm(Storm):
    """folder: for socket and logs."""

    def __init__(self, cluster: Cluster, config: Path, folder: Path, count: int) -> None:
        self.kubeconfig, self.folder, self.socket = config, folder, folder / "csi.sock"
        driver = UnreliableVolumes("csi.test", Random(11), trouble=TROUBLE)
        super().__init__(cluster, driver, count, wait_s=60.0 + count / 4, look_s=0.1)

    def a_replica(self, number: int) -> Replica:
        return _Process(self, number)

    def assert_no_bug(self) -> None:
        """Nobody has met anything that is not foreseen."""
        for log in self.folder.glob("*.log"):
            assert "unexpected" not in log.read_text(errors="replace"), log.name

    def logs(self) -> str:
        ends = ((path.name, path.read_text(errors="replace").splitlines()[-15:]) for path in sorted(self.folder.glob("*.log")))
        return "\n".join(f"-- {name}\n" + "\n".join(lines) for name, lines in ends)


@contextlib.asynccontextmanager
async def _with_processes(config: Path, count: int) -> AsyncIterator[ProcessStorm]:
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    client = HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    try:
        async with client:
            storm = ProcessStorm(client, config, folder, count)
            async with serving(storm.driver, str(storm.socket), grace_s=0):
                try:
                    yield storm
                    storm.assert_no_bug()
                except BaseException as error:
                    error.add_note(storm.logs())
                    raise
                finally:
                    await storm.kill_all()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
async def embedded(folder: Path, count: int) -> AsyncIterator[tuple[ProcessStorm, Server]]:
    server = Server(folder)
    server.start()
    try:
        binder = Program([*MOORING, "binder", f"--kubeconfig={server.kubeconfig}"], folder / "binder.log")
        try:
            async with _with_processes(server.kubeconfig, count) as storm:
                yield storm, server
                binder.assert_alive()
        finally:
            binder.kill()
    finally:
        server.kill()


@contextlib.asynccontextmanager
async def real(plane: ControlPlane, count: int) -> AsyncIterator[ProcessStorm]:
    """plane: one of its own; what binds acts on the whole cluster."""
    plane.start_binding()
    async with _with_processes(plane.kubeconfig(), count) as storm:
        yield storm
