"""csi-provisioner as a program with rights of its own, beside a driver, its classes and claims, and a user who sees to
all the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mooring.api.meta import Kind
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.driver.server import serving
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner import names
from tests.support.binding import PV, PVC, Tenant, finalizers
from tests.support.builders import KINDS, NS, a_claim, a_class, a_csi_node
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import Program
from tests.support.rights import Json
from tests.support.scripted_driver import RPC
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.volume_driver import VolumeDriver
from tests.support.waiting import eventually

SNAPSHOT_GROUP = "snapshot.storage.k8s.io"
SNAPSHOTS = f"/apis/{SNAPSHOT_GROUP}/v1"
FLAGS = ("--retry-interval-start=100ms", "--v=2")


class Provisioning(Tenant):
    """A driver with zones, its classes and claims, and whatever the PV controller would do. folder: for socket and
    logs.
    """

    def __init__(self, cluster: HttpCluster, plane: ControlPlane, folder: Path) -> None:
        super().__init__(cluster, look_s=0.02)
        self.plane, self.folder, self.socket = plane, folder, folder / "s"
        can = (
            RPC.PUBLISH_UNPUBLISH_VOLUME,
            RPC.CREATE_DELETE_SNAPSHOT,
            RPC.CLONE_VOLUME,
            RPC.GET_CAPACITY,
            RPC.MODIFY_VOLUME,
        )
        self.backend = VolumeDriver(self.driver, can, topology={"zone": "a"})
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

    def post(self, path: str, body: Json) -> Json:
        """For kinds that the world does not know. Also its status."""
        status, answer = self.plane.request("POST", path, body)
        assert 201 == status, answer
        made: Json = json.loads(answer)
        if "status" in body:
            own = f"{path}/{made['metadata']['name']}/status"
            status, answer = self.plane.request(
                "PATCH", own, {"status": body["status"]}, "application/merge-patch+json"
            )
            assert 200 == status, answer
        return made

    def listed(self, path: str) -> list[Json]:
        status, answer = self.plane.request("GET", path)
        assert 200 == status, answer
        found: list[Json] = json.loads(answer)["items"]
        return found

    async def make_place(self) -> str:
        """A node with the driver in the driver's one zone."""
        node = await self.make_node(zone="a")
        await self.create(a_csi_node(node, {self.driver: node}, keys=["zone"]))
        return node

    def make_secret(self) -> str:
        name = self("secret")
        self.post(f"/api/v1/namespaces/{NS}/secrets", {"metadata": {"name": name}, "stringData": {"user": "me"}})
        return name

    async def make_secret_class(self, secret: str) -> None:
        """For the first pod's node; its volumes need the secret."""
        given = {
            f"csi.storage.k8s.io/provisioner-secret-{key}": value
            for key, value in (("name", secret), ("namespace", NS))
        }
        await self.create(
            a_class(self("sc"), provisioner=self.driver, wffc=True, reclaimPolicy="Delete", parameters=given)
        )

    async def make_claim(self, base: str, node: str, **more: Any) -> Json:
        """As the PV controller and the scheduler leave it."""
        asked = {names.STORAGE_PROVISIONER: self.driver}
        return await self.create(a_claim(self(base), sc=self("sc"), annotations=asked, selected=node, **more))

    async def provisioned(self, claim: Json) -> str:
        """The name of the claim's volume, once both are bound."""
        name, pv = claim["metadata"]["name"], f"pvc-{claim['metadata']['uid']}"
        await self.shown(PV, pv, bool, "is there")
        await self.patch(PVC, name, {"spec": {"volumeName": pv}})
        await self.patch(PVC, name, {"status": {"phase": "Bound"}}, subresource="status")
        await self.patch(PV, pv, {"status": {"phase": "Bound"}}, subresource="status")
        return pv

    async def released(self, pv: str) -> None:
        """Gone, with nobody left who protects it."""
        await self.patch(PV, pv, {"status": {"phase": "Released"}}, subresource="status")
        await self.shown(PV, pv, lambda body: body["metadata"].get("deletionTimestamp"), "is being deleted")
        await self.shown(PV, pv, lambda body: finalizers(body) == ["kubernetes.io/pv-protection"], "is let go")
        await self.patch(PV, pv, {"metadata": {"finalizers": None}})
        await self.gone(PV, pv)

    @contextlib.asynccontextmanager
    async def provisioner(self, proxy: FaultProxy, name: str, *flags: str, **environ: str) -> AsyncIterator[Program]:
        """One that runs for the block, and ends in good order. name: of its log."""
        command = [
            sys.executable,
            "-m",
            "mooring.cli.csi_provisioner",
            f"--csi-address={self.socket}",
            f"--kubeconfig={proxy.kubeconfig}",
        ]
        program = Program([*command, *FLAGS, *flags], self.folder / name, {**os.environ, **environ})
        try:
            yield program
            program.assert_alive()
            assert 0 == await asyncio.to_thread(program.stop)
            assert "unexpected" not in program.output()
        except BaseException as error:
            error.add_note(f"-- csi-provisioner {name}\n{program.log_tail(60)}")
            raise
        finally:
            program.kill()


@contextlib.asynccontextmanager
async def a_world(plane: ControlPlane, folder: Path) -> AsyncIterator[Provisioning]:
    users = HttpCluster(load(str(plane.kubeconfig()), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(90), users:
        world = Provisioning(users, plane, folder)
        async with serving(world.backend, str(world.socket), grace_s=0):
            try:
                yield world
            finally:
                await world.clean_up()


def serve_snapshots(world: Provisioning) -> None:
    for definition in SNAPSHOT_CRDS:
        world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for plural in ("volumesnapshots", "volumesnapshotcontents"):
        eventually(
            lambda plural=plural: world.plane.request("GET", f"{SNAPSHOTS}/{plural}")[0] == 200,
            30,
            f"{plural} are served",
        )


def make_snapshot(world: Provisioning, origin: str) -> str:
    """Of the origin's volume, as the snapshotter leaves it."""
    name, content = world("snapshot"), world("content")
    spec: Json = {"source": {"persistentVolumeClaimName": world("origin")}}
    ready = {"boundVolumeSnapshotContentName": content, "readyToUse": True, "restoreSize": "1Gi"}
    made = world.post(f"{SNAPSHOTS}/namespaces/{NS}/volumesnapshots", _a_snapshot("VolumeSnapshot", name, spec, ready))
    ref = {"name": name, "namespace": NS, "uid": made["metadata"]["uid"]}
    spec = {
        "deletionPolicy": "Retain",
        "driver": world.driver,
        "source": {"volumeHandle": f"vol-{origin}"},
        "volumeSnapshotRef": ref,
    }
    world.post(
        f"{SNAPSHOTS}/volumesnapshotcontents",
        _a_snapshot("VolumeSnapshotContent", content, spec, {"snapshotHandle": "snap"}),
    )
    return name


def _a_snapshot(kind: str, name: str, spec: Json, status: Json) -> Json:
    return {
        "apiVersion": f"{SNAPSHOT_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        "status": status,
    }
