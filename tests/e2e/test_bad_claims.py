"""What API servers let through, and what drivers answer: each claim tells what is wrong with it, and the backend has
what the cluster has.

All at once, under one provisioner: nobody keeps others from their volumes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.api.core import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import STORAGE_CLASSES
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.errors import ApiError, BadRequest, Invalid
from mooring.sidecars.provisioner import names
from mooring.wire.grpc.codes import Code
from tests.e2e.processes import embedded_server
from tests.support.builders import a_claim, a_class
from tests.support.cluster_world import ClusterUser
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.volume_driver import VolumeDriver

pytestmark = pytest.mark.slow

MIB: Final = 1 << 20
PREFIX: Final = "csi.storage.k8s.io/"
WAIT_S: Final = 40.0


@dataclasses.dataclass(frozen=True)
class Bad:
    """answer: what the driver gives back in place of a volume. text: of the event. name: the claim's, as far as it says
    anything.
    """

    text: str
    answer: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    size: str = "1Gi"
    name: str = ""


TAKEN: Final = ("large-context", "huge-context")
"""The embedded server stores what fits into a request."""

REFUSED: Final = "the API server refused the PersistentVolume: "
BAD: Final[dict[str, Bad]] = {
    "long-name": Bad("found unknown parameter key", parameters=((f"{PREFIX}x", "y"),), name="c" * 253),
    "template": Bad(
        'invalid tokens: ["pvc.uid"]',
        parameters=((f"{PREFIX}secret-name", "${pvc.uid}"), (f"{PREFIX}secret-namespace", "default")),
    ),
    "secret": Bad(
        'secrets "nowhere" not found',
        parameters=(
            (f"{PREFIX}provisioner-secret-name", "nowhere"),
            (f"{PREFIX}provisioner-secret-namespace", "default"),
        ),
    ),
    "exbibytes": Bad("", size="16Ei"),
    "too-large-for-a-number": Bad("", size="1e400"),
    "no-id": Bad("has no volume_id", "no-id"),
    "nil": Bad("has no volume", "nil"),
    "smaller": Bad("less than requested capacity", "smaller"),
    "negative": Bad(REFUSED, "negative"),
    "huge-context": Bad(REFUSED, "huge-context"),
    "large-context": Bad(REFUSED, "large-context"),
    "larger-than-any-request": Bad(REFUSED, "larger-context"),
    "huge-id": Bad(REFUSED, "huge-id"),
    "long-error": Bad("", "long-error"),
}


class MisleadingDriver(VolumeDriver):
    """Answers as the class says."""

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        how = request.parameters.get("answer", "")
        if request.capacity_range.required_bytes > 1 << 60:
            raise _error("the array is not that large")
        if how == "long-error":
            raise _error("sorry, " * 100_000)
        answer = await super().create_volume(request)
        volume = answer.volume
        match how:
            case "no-id" | "nil":
                await self.delete_volume(csi.DeleteVolumeRequest(volume_id=volume.volume_id))
                return csi.CreateVolumeResponse(
                    volume=None if how == "nil" else csi.Volume(capacity_bytes=volume.capacity_bytes)
                )
            case "smaller":
                volume.capacity_bytes -= 1
            case "negative":
                volume.capacity_bytes = -1
            case "large-context" | "huge-context" | "larger-context":
                halves = {"large-context": 3.5, "huge-context": 4, "larger-context": 10}
                volume.volume_context["huge"] = "x" * int(halves[how] * MIB / 2)
            case "huge-id":
                del self.volumes[volume.volume_id]
                self.names[request.name] = volume.volume_id = f"vol-{request.name}-".ljust(7 * MIB // 2, "x")
                self.volumes[volume.volume_id] = volume.capacity_bytes
        return answer


def _error(text: str) -> DriverError:
    return DriverError(Code.OUT_OF_RANGE, text)


class BadClaims(ClusterUser):
    """Claims that get no volume, each of a class of its own."""

    def __init__(self, users: HttpCluster) -> None:
        super().__init__(users)
        self.suffix = uuid.uuid4().hex[:8]
        self.driver = MisleadingDriver(f"{self.suffix}.csi.test")
        self.claims: dict[str, dict[str, Any]] = {}

    async def wish(self, name: str, bad: Bad) -> None:
        """Unless the API server refuses it."""
        parameters = {**dict(bad.parameters), **({"answer": bad.answer} if bad.answer else {})}
        sc = f"{name}-{self.suffix}"
        await self.create(a_class(sc, provisioner=self.driver.name, parameters=parameters))
        called = f"{bad.name or name}-{self.suffix}"[-253:].strip("-")
        claim = a_claim(called, size=bad.size, sc=sc, annotations={names.STORAGE_PROVISIONER: self.driver.name})
        with contextlib.suppress(Invalid, BadRequest):
            self.claims[name] = await self.create(claim)

    async def failures(self) -> dict[str, str]:
        """What the claims say, by their names here."""
        uids = {claim["metadata"]["uid"]: name for name, claim in self.claims.items()}
        found = [one for one in (await self.users.list(EVENTS)).items if one.involved_object.uid in uids]
        assert all(len(one.message.encode()) <= 1024 for one in found)
        return {uids[one.involved_object.uid]: one.message for one in found if one.reason == "ProvisioningFailed"}

    async def handles(self) -> list[str]:
        found = (await self.users.list(PERSISTENT_VOLUMES)).items
        return sorted(
            pv.spec.csi.volume_handle for pv in found if pv.spec.csi and pv.spec.csi.driver == self.driver.name
        )

    async def clean_up(self) -> None:
        for claim in self.claims.values():
            await self._remove(PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["name"])
        for name in self.claims:
            await self._remove(STORAGE_CLASSES, f"{name}-{self.suffix}")
        for pv in (await self.users.list(PERSISTENT_VOLUMES)).items:
            if pv.spec.csi and pv.spec.csi.driver == self.driver.name:
                await self._remove(PERSISTENT_VOLUMES, pv.metadata.name)

    async def _remove(self, kind: Any, name: str) -> None:
        with contextlib.suppress(ApiError):
            await self.delete(kind, name)
            await self.patch(kind, name, {"metadata": {"finalizers": None}})


@contextlib.contextmanager
def provisioner(config: Path, socket: Path, log: Path) -> Iterator[Program]:
    flags = (f"--csi-address={socket}", f"--kubeconfig={config}", "--retry-interval-start=300ms", "--v=2")
    program = Program(
        [sys.executable, "-m", "mooring.cli.csi_provisioner", *flags], log, {**os.environ, "POD_NAMESPACE": ""}
    )
    try:
        yield program
    finally:
        program.stop()


@contextlib.asynccontextmanager
async def a_world(config: Path, folder: Path) -> AsyncIterator[tuple[BadClaims, Program]]:
    client = HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with client:
        world = BadClaims(client)
        async with serving(world.driver, str(folder / "s"), grace_s=0):
            with provisioner(config, folder / "s", folder / "provisioner.log") as program:
                try:
                    yield world, program
                except BaseException as error:
                    error.add_note(program.log_tail(30)[:20_000])
                    raise
                finally:
                    await world.clean_up()


async def _all_are_told(config: Path, folder: Path, bad_ones: Mapping[str, Bad]) -> None:
    async with asyncio.timeout(WAIT_S + 20), a_world(config, folder) as (world, program):
        for name, bad in bad_ones.items():
            await world.wish(name, bad)
        await world.wish("usual", Bad(""))
        wanted = world.claims.keys() - {"usual"}
        assert len(wanted) >= len(bad_ones) - 2
        failures: dict[str, str] = {}
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while wanted - failures.keys() or len(await world.handles()) < 1:
            program.assert_alive()
            failures = await world.failures()
            assert asyncio.get_running_loop().time() < deadline, (
                f"not told: {wanted - failures.keys()}; told: {failures}"
            )
            await asyncio.sleep(0.1)
        assert {} == {name: text for name, text in failures.items() if BAD[name].text not in text}
        await world.clean_up()
        await asyncio.sleep(1.5)  # what is under way ends
        handles = await world.handles()
        assert (
            sorted(world.driver.volumes.keys() - {f"vol-pvc-{world.claims['usual']['metadata']['uid']}"})
            == handles
            == []
        )
        assert "unexpected" not in program.output()


async def test_on_the_embedded_server(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as config:
        await _all_are_told(config, tmp_path, {name: bad for name, bad in BAD.items() if name not in TAKEN})


async def test_on_the_real_one(control_plane: ControlPlane, tmp_path: Path) -> None:
    await _all_are_told(control_plane.kubeconfig(), tmp_path, BAD)
