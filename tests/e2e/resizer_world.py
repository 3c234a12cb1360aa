"""csi-resizer as a program, ours or the Go one, beside a driver, its classes and claims; the nodes' part is done by
hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.driver.server import serving
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.errors import ApiError
from mooring.sidecars.resizer import names
from tests.support.binding import Tenant
from tests.support.builders import KINDS, Json, a_claim, a_class, a_pv, a_reference, an_attributes_class
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.resizing import EXPAND, ResizingDriver, claim_status
from tests.support.volume_driver import GiB

PVC: Kind[Any] = PERSISTENT_VOLUME_CLAIMS
PV: Kind[Any] = PERSISTENT_VOLUMES
FLAGS = ("--retry-interval-start=200ms", "--v=2")


def command_of(is_go: bool) -> Sequence[str]:
    return [str(binary("csi-resizer"))] if is_go else [sys.executable, "-m", "mooring.cli.csi_resizer"]


class Resizing(Tenant):
    """A driver, and claims with their volumes. folder: for socket and logs. make_driver: by its name."""

    def __init__(self, cluster: HttpCluster, folder: Path, make_driver: Callable[[str], ResizingDriver]) -> None:
        super().__init__(cluster, look_s=0.02)
        self.folder, self.socket = folder, folder / "s"
        self.backend = make_driver(self.driver)
        self._made: list[tuple[Kind[Any], str]] = []

    async def create(self, body: Json) -> Json:
        made = await super().create(body)
        self._made.append((KINDS[body["kind"]], body["metadata"]["name"]))
        return made

    async def clean_up(self) -> None:
        """Finalizers or not: others use the same server."""
        for kind, name in reversed(self._made):
            with contextlib.suppress(ApiError):
                await self.patch(kind, name, {"metadata": {"finalizers": None}})
                await self.delete(kind, name)

    async def make_growing_class(self) -> None:
        await self.create(a_class(self("sc"), provisioner=self.driver, allowVolumeExpansion=True))

    async def make_attributes_class(self, base: str) -> str:
        await self.create(an_attributes_class(self(base), parameters={"class": base}, driverName=self.driver))
        return self(base)

    async def make_bound(self, base: str = "claim", size: int = 1, **csi: Any) -> Json:
        """A claim of so many GiB with its volume, as the PV controller leaves them. csi: more of the volume's
        source.
        """
        made = await self.create(a_claim(self(base), sc=self("sc"), size=f"{size}Gi", volume=self(base)))
        source = {"csi": {"driver": self.driver, "volumeHandle": self(base), **csi}}
        volume = a_pv(
            self(base), size=f"{size}Gi", source=source, storageClassName=self("sc"), claimRef=a_reference(made)
        )
        await self.create(volume)
        return await self.patch(PVC, self(base), {"status": claim_status(size)}, subresource="status")

    async def ask(self, size: int, base: str = "claim") -> None:
        """Again while the API server has not noticed that the class allows it."""

        async def is_accepted() -> bool:
            with contextlib.suppress(ApiError):
                await self.patch(PVC, self(base), {"spec": {"resources": {"requests": {"storage": f"{size}Gi"}}}})
                return True
            return False

        await self.until(is_accepted, what="the claim may grow")

    async def ask_class(self, name: str, base: str = "claim") -> None:
        await self.patch(PVC, self(base), {"spec": {"volumeAttributesClassName": name}})

    async def handed_over(self, size: int, base: str = "claim") -> Json:
        """The claim, once its volume has this size and the node is to do the rest."""
        await self.shown(PV, self(base), lambda pv: pv["spec"]["capacity"]["storage"] == f"{size}Gi", f"has {size} GiB")
        return await self.shown(PVC, self(base), lambda claim: _step(claim) == names.NODE_PENDING, "is the node's turn")

    async def node_done(self, size: int, base: str = "claim") -> None:
        claim = await self.get(PVC, self(base))
        kept = [one for one in claim["status"].get("conditions", []) if one["type"] not in names.RESIZE_CONDITIONS]
        status = {"capacity": {"storage": f"{size}Gi"}, "allocatedResourceStatuses": None, "conditions": kept or None}
        await self.patch(PVC, self(base), {"status": status}, subresource="status")

    async def modified(self, name: str, base: str = "claim") -> None:
        def is_so(claim: Json) -> bool:
            status = claim["status"]
            return status.get("currentVolumeAttributesClassName") == name and "modifyVolumeStatus" not in status

        await self.shown(PVC, self(base), is_so, f"has class {name}")
        assert name == (await self.get(PV, self(base)))["spec"]["volumeAttributesClassName"]

    @property
    def asked(self) -> list[int]:
        """GiB of each ControllerExpandVolume."""
        return [call.request.capacity_range.required_bytes // GiB for call in self.backend.made(EXPAND)]

    @contextlib.asynccontextmanager
    async def resizer(
        self, kubeconfig: Path, name: str, *flags: str, is_go: bool = False, is_killed: bool = False
    ) -> AsyncIterator[Program]:
        """One that runs for the block, and ends in good order, or by kill -9. name: of its log."""
        command = [*command_of(is_go), f"--csi-address={self.socket}", f"--kubeconfig={kubeconfig}", *FLAGS, *flags]
        program = Program(command, self.folder / name, dict(os.environ))
        try:
            yield program
            program.assert_alive()
            if not (is_go or is_killed):
                assert 0 == await asyncio.to_thread(program.stop)
                assert "unexpected" not in program.output()
        except BaseException as error:
            error.add_note(f"-- csi-resizer {name}\n{program.log_tail(60)}")
            raise
        finally:
            program.kill()


def _step(claim: Json) -> str:
    return str(claim["status"].get("allocatedResourceStatuses", {}).get("storage", ""))


@contextlib.asynccontextmanager
async def a_world(
    kubeconfig: Path,
    folder: Path,
    make_driver: Callable[[str], ResizingDriver] = lambda name: ResizingDriver(name=name),
) -> AsyncIterator[Resizing]:
    """kubeconfig: of somebody who may do everything."""
    users = HttpCluster(load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(90), users:
        world = Resizing(users, folder, make_driver)
        async with serving(world.backend, str(world.socket), grace_s=0):
            try:
                await world.make_growing_class()
                yield world
            finally:
                await world.clean_up()
