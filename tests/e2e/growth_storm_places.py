"""Where storms of growths and snapshots blow, as `storm_places.py` has it for claims.

| place | API server | binding | programs | array |
| --- | --- | --- | --- | --- |
| in process | the embedded server's store | `Binder` | the three sidecars, the snapshot controller | in process |
| embedded, real | as in `storm_places.py` | the same | two `mooring controller`, `snapshot-controller` | on a socket |
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli import csi_provisioner, csi_resizer, csi_snapshotter
from mooring.cli.process import Command, Machine, Setup
from mooring.cli.sidecar import Sidecar
from mooring.cluster.snapshots.controller import SnapshotController
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Cluster
from tests.e2e.growth_storms import GrowthStorm
from tests.e2e.storm_places import (
    MOORING,
    TROUBLE,
    Folder,
    ProgramReplica,
    SidecarReplica,
    StoreInProcess,
    embedded_server,
    with_processes,
)
from tests.e2e.storms import CALLS, ELECTING, FLAGS, Replica
from tests.support import killing
from tests.support.control_plane import ControlPlane
from tests.support.unreliable_array import UnreliableArray

CONTROLLER: Final = "snapshot-controller"
TOGETHER: Final = "mooring-controller"
PARTS: Final = ("provisioner", "resizer", "snapshotter")
SIDECARS: Final[dict[str, tuple[Command[Any], Callable[[Setup[Any], Machine], Sidecar[Any]]]]] = {
    "csi-provisioner": (csi_provisioner.COMMAND, csi_provisioner.sidecar),
    "csi-resizer": (csi_resizer.COMMAND, lambda setup, _: csi_resizer.sidecar(setup)),
    "csi-snapshotter": (csi_snapshotter.COMMAND, csi_snapshotter.sidecar),
}


def _array() -> UnreliableArray:
    return UnreliableArray("csi.test", Random(11), trouble=TROUBLE)


class _Controller(Replica):
    """The snapshot controller without an election: there is one at a time."""

    def __init__(self, cluster: Cluster, clock: Clock, seed: int) -> None:
        self._life = killing.Life()
        mortal: Cluster = killing.MortalCluster(cluster, self._life)  # type: ignore[assignment]
        options = SnapshotControllerOptions(retry_interval_start_s=0.2, retry_interval_max_s=2.0)
        self._life.start(SnapshotController(Runtime(mortal, clock, Random(seed), Metrics()), options).run())

    @property
    def leads(self) -> bool:
        return True

    async def kill(self) -> None:
        self._life.kill()

    def assert_alive(self) -> None:
        self._life.check()


class _InProcessStorm(GrowthStorm):
    def __init__(self, place: StoreInProcess, count: int) -> None:
        self._place = place
        super().__init__(
            place.a_client(), _array(), count, {**dict.fromkeys(SIDECARS, 2), CONTROLLER: 1}, wait_s=2000.0, look_s=0.25
        )

    def a_replica(self, program: str, number: int) -> Replica:
        client, clock = self._place.a_client(), self._place.clock
        if program == CONTROLLER:
            return _Controller(client, clock, number)
        return SidecarReplica(*SIDECARS[program], client, self.driver, clock, number, FLAGS)


@contextlib.asynccontextmanager
async def in_process(count: int) -> AsyncIterator[GrowthStorm]:
    place = StoreInProcess()
    storm = _InProcessStorm(place, count)
    async with place.binding():
        try:
            yield storm
        finally:
            await storm.kill_all()


class _ProcessStorm(GrowthStorm):
    SETTLES_BY_HAND = True

    def __init__(self, cluster: Cluster, config: Path, folder: Folder, count: int) -> None:
        self._config, self._folder = config, folder
        super().__init__(cluster, _array(), count, {TOGETHER: 2, CONTROLLER: 2}, wait_s=60.0 + count / 2, look_s=0.2)

    def a_replica(self, program: str, number: int) -> Replica:
        log = self._folder.path / f"{program}-{number}.log"
        common = (f"--kubeconfig={self._config}", *ELECTING)
        if program == CONTROLLER:
            retries = [one for one in CALLS if "retry" in one]
            return ProgramReplica([sys.executable, "-m", "mooring.cli.snapshot_controller", *common, *retries], log)
        calls = [f"--{part}-{one.removeprefix('--')}" for part in PARTS for one in CALLS]
        enabled = (f"--enable={','.join(PARTS)}", f"--csi-address={self._folder.socket}")
        return ProgramReplica([*MOORING, "controller", *enabled, *common, *calls], log)


def _of(config: Path, count: int) -> Callable[[Cluster, Folder], _ProcessStorm]:
    return lambda cluster, folder: _ProcessStorm(cluster, config, folder, count)


@contextlib.asynccontextmanager
async def embedded(folder: Path, count: int) -> AsyncIterator[GrowthStorm]:
    async with (
        embedded_server(folder) as server,
        with_processes(server.kubeconfig, _of(server.kubeconfig, count)) as storm,
    ):
        yield storm


@contextlib.asynccontextmanager
async def real(plane: ControlPlane, count: int) -> AsyncIterator[GrowthStorm]:
    """plane: one of its own; what binds acts on the whole cluster."""
    plane.start_binding()
    config = plane.kubeconfig()
    async with with_processes(config, _of(config, count)) as storm:
        yield storm
