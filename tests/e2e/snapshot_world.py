"""Both snapshot programs, ours or the Go ones, with rights of their own on a real cluster, beside a driver; and a
user.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.dev.extras import install
from mooring.driver.server import serving
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.builders import Json, a_bound_claim, a_new_snapshot, a_pv, a_reference, a_snapshot_class
from tests.support.cluster_world import ClusterUser
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.snapshot_driver import SnapshotDriver

VS, VSC, PVC, PV = VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
FLAGS: Final = (
    "--retry-interval-start=200ms",
    "--retry-interval-max=1s",
    "--v=2",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
)
MODULES: Final = {"snapshot-controller": "snapshot_controller", "csi-snapshotter": "csi_snapshotter"}


class Snapshots(ClusterUser):
    """A driver, a class, and bound claims. folder: for socket and logs."""

    def __init__(self, cluster: HttpCluster, folder: Path, driver: SnapshotDriver) -> None:
        super().__init__(cluster, wait_s=40.0, look_s=0.05)
        self.folder, self.socket = folder, folder / "s"
        self.driver = driver

    async def serve_kinds(self) -> None:
        await install(self.users)

        async def served() -> bool:
            return all([await self.users.serves(kind) for kind in (VS, VSC, VOLUME_SNAPSHOT_CLASSES)])

        await self.until(served, what="the kinds are served")

    async def make_claim(self, name: str = "claim", *, with_volume: bool = True) -> None:
        """Bound: no PV controller runs."""
        claim = a_bound_claim(name, f"pv-{name}", uid=None)
        made = await self.create({key: value for key, value in claim.items() if key != "status"})
        if with_volume:
            await self.create(a_pv(f"pv-{name}", f"vol-{name}", claimRef=a_reference(made)))
        await self.patch(PVC, name, {"status": claim["status"]}, subresource="status")

    async def base(self, **fields: object) -> None:
        await self.serve_kinds()
        await self.create(a_snapshot_class(**fields))
        await self.make_claim()

    async def snap(self, name: str = "snap", **more: object) -> Json:
        return await self.create(a_new_snapshot(name, **more))

    async def ready(self, name: str = "snap") -> Json:
        return await self.shown(VS, name, lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")

    @contextlib.asynccontextmanager
    async def program(
        self, name: str, kubeconfig: Path, *flags: str, go: bool = False, which: str = ""
    ) -> AsyncIterator[Program]:
        """snapshot-controller or csi-snapshotter for the block; ours ends in good order. go: Go's. which: of
        several.
        """
        start = [binary(name)] if go else [sys.executable, "-m", f"mooring.cli.{MODULES[name]}"]
        address = [f"--csi-address={self.socket}"] if name == "csi-snapshotter" else []
        log = self.folder / f"{name}-{'go' if go else 'ours'}{which}"
        program = Program([*start, *address, f"--kubeconfig={kubeconfig}", *FLAGS, *flags], log, dict(os.environ))
        try:
            yield program
            program.assert_alive()
            if not go:
                assert 0 == await asyncio.to_thread(program.stop)
                assert "unexpected" not in program.output()
        except BaseException as error:
            error.add_note(f"-- {name}\n{program.log_tail(60)}")
            raise
        finally:
            program.kill()


@contextlib.asynccontextmanager
async def a_world(kubeconfig: Path, folder: Path, driver: SnapshotDriver | None = None) -> AsyncIterator[Snapshots]:
    """kubeconfig: of somebody who may do everything."""
    users = HttpCluster(load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(120), users:
        world = Snapshots(users, folder, driver or SnapshotDriver())
        async with serving(world.driver, str(world.socket), grace_s=0):
            yield world
