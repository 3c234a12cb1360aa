"""The provisioner with the rights of its manifest, all of which it needs; and with none to Leases, as the Go one may be deployed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from mooring.base.chance import Chance
from mooring.base.clock import LoopClock
from mooring.csi.codes import Code
from mooring.driver.server import serving
from mooring.kube.errors import ApiError
from mooring.kube.http import HttpCluster
from mooring.kube.kubeconfig import load
from mooring.provisioner import names
from mooring.provisioner.journal import VERBS
from tests.support.bindables import NS, a_claim, a_class, a_csi_node
from tests.support.binding import PV, PVC, World, annotations, finalizers
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import Program, free_ports
from tests.support.rights import ELECTION, NAMESPACE, OWNERS_ARE_CHECKED, Json, acting_as, deployed, has_asked, just, refused
from tests.support.scripted_driver import RPC, Fail
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.volume_driver import CREATE, DELETE, GiB, VolumeDriver
from tests.support.waiting import eventually

PROVISIONER = deployed("provisioner")
SNAPSHOT_GROUP = "snapshot.storage.k8s.io"
SNAPSHOTS = f"/apis/{SNAPSHOT_GROUP}/v1"
CAPACITIES = f"/apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/csistoragecapacities"
FLAGS = ("--retry-interval-start=100ms", "--v=2")
CAPACITY = ("--enable-capacity", "--capacity-ownerref-level=2", "--capacity-poll-interval=200ms")
POD = {"NAMESPACE": NAMESPACE, "POD_NAME": "plugin-1"}

# As external-provisioner's sample has them, without those for an election and for capacity.
WITHOUT_LEASES = (
    ("", "persistentvolumes", "get list watch create patch delete"),
    ("", "persistentvolumeclaims", "get list watch update"),
    ("storage.k8s.io", "storageclasses csinodes", "get list watch"),
    ("", "nodes", "get list watch"),
    ("", "events", "list watch create update patch"),
    ("snapshot.storage.k8s.io", "volumesnapshots", "get list watch update"),
    ("snapshot.storage.k8s.io", "volumesnapshotcontents", "get list"),
    ("storage.k8s.io", "volumeattachments", "get list watch"),
    ("", "secrets", "get"),
    ("storage.k8s.io", "volumeattributesclasses", "get"),
)


class Provisioning(World):
    """A driver with zones, its classes and claims, and whatever the PV controller would do. folder: for socket and logs."""

    def __init__(self, cluster: HttpCluster, plane: ControlPlane, folder: Path) -> None:
        super().__init__(cluster, look_s=0.02)
        self.plane, self.folder, self.socket = plane, folder, folder / "s"
        can = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.CREATE_DELETE_SNAPSHOT, RPC.CLONE_VOLUME, RPC.GET_CAPACITY, RPC.MODIFY_VOLUME)
        self.backend = VolumeDriver(self.driver, can, topology={"zone": "a"})
        self._made: list[tuple[str, str]] = []

    async def create(self, body: Json) -> Json:
        made = await super().create(body)
        self._made.append((body["kind"], body["metadata"]["name"]))
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
            status, answer = self.plane.request("PATCH", own, {"status": body["status"]}, "application/merge-patch+json")
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
        entry = {"name": self.driver, "nodeID": node, "topologyKeys": ["zone"]}
        await self.create({**a_csi_node(node), "spec": {"drivers": [entry]}})
        return node

    def make_secret(self) -> str:
        name = self("secret")
        self.post(f"/api/v1/namespaces/{NS}/secrets", {"metadata": {"name": name}, "stringData": {"user": "me"}})
        return name

    async def make_secret_class(self, secret: str) -> None:
        """For the first pod's node; its volumes need the secret."""
        given = {f"csi.storage.k8s.io/provisioner-secret-{key}": value for key, value in (("name", secret), ("namespace", NS))}
        await self.create(a_class(self("sc"), provisioner=self.driver, wffc=True, reclaimPolicy="Delete", parameters=given))

    async def make_claim(self, base: str, node: str, **more: Any) -> Json:
        """As the PV controller and the scheduler leave it."""
        asked = {names.STORAGE_PROVISIONER: self.driver}
        return await self.create(a_claim(self(base), sc=self("sc"), annotations=asked, selected=node, **more))

    async def provisioned(self, claim: Json) -> str:
        """The name of the claim's volume, once both are bound."""
        name, pv = claim["metadata"]["name"], f"pvc-{claim['metadata']['uid']}"
        await self.shown(PV, pv, bool, "is there")
        await self.patch(PVC, name, {"spec": {"volumeName": pv}})
        await self.patch(PVC, name, {"status": {"phase": "Bound"}}, "status")
        await self.patch(PV, pv, {"status": {"phase": "Bound"}}, "status")
        return pv

    async def released(self, pv: str) -> None:
        """Gone, with nobody left who protects it."""
        await self.patch(PV, pv, {"status": {"phase": "Released"}}, "status")
        await self.shown(PV, pv, lambda body: body["metadata"].get("deletionTimestamp"), "is being deleted")
        await self.shown(PV, pv, lambda body: finalizers(body) == ["kubernetes.io/pv-protection"], "is let go")
        await self.patch(PV, pv, {"metadata": {"finalizers": None}})
        await self.gone(PV, pv)

    @contextlib.asynccontextmanager
    async def provisioner(self, proxy: FaultProxy, name: str, *flags: str, **environ: str) -> AsyncIterator[Program]:
        """One that runs for the block, and ends in good order. name: of its log."""
        command = [sys.executable, "-m", "mooring.cli.csi_provisioner", f"--csi-address={self.socket}", f"--kubeconfig={proxy.kubeconfig}"]
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
    users = HttpCluster(load(str(plane.kubeconfig()), {}), clock=LoopClock(), chance=Chance(), user_agent="tests")
    async with asyncio.timeout(90), users:
        world = Provisioning(users, plane, folder)
        async with serving(world.backend, str(world.socket), grace_s=0):
            try:
                yield world
            finally:
                await world.clean_up()


async def test_the_manifests_rights_are_enough_and_all_are_needed(new_control_plane: Callable[..., ControlPlane], tmp_path: Path) -> None:
    """A driver that can do everything, and everything happens once."""
    plane = new_control_plane(apiserver_flags=[OWNERS_ARE_CHECKED])
    async with acting_as(PROVISIONER, plane, tmp_path) as proxy, a_world(plane, tmp_path) as world:
        _serve_snapshots(world)
        _make_pod(world)
        node, secret = await world.make_place(), world.make_secret()
        PROVISIONER.grant_secret(plane, "provisioner-secret", secret)
        await world.make_secret_class(secret)
        gold = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"}}
        await world.create({**gold, "driverName": world.driver, "parameters": {"speed": "high"}})
        flags = (*ELECTION, *CAPACITY)
        async with world.provisioner(proxy, "one", *flags, **POD), world.provisioner(proxy, "two", *flags, **POD):
            origin = await _after_failures(world, node)
            await _clone_and_restore(world, origin, node)
            await _capacity_follows(world)
            await world.released(origin)
            assert {"user": "me"} == dict(world.backend.made(DELETE)[0].request.secrets)
            await world.until(lambda: has_asked(proxy, "watch", "leases"), "the one that does not lead watches the Lease")
        async with world.provisioner(proxy, "node", "--node-deployment", NODE_NAME=node, POD_NAMESPACE=NAMESPACE):
            await world.until(lambda: has_asked(proxy, "get", "nodes"), "the node's journal is given to the node")
        assert [] == refused(proxy)
        assert [] == PROVISIONER.unused(proxy)


def _serve_snapshots(world: Provisioning) -> None:
    for definition in SNAPSHOT_CRDS:
        world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for plural in ("volumesnapshots", "volumesnapshotcontents"):
        eventually(lambda plural=plural: world.plane.request("GET", f"{SNAPSHOTS}/{plural}")[0] == 200, 30, f"{plural} are served")


def _make_pod(world: Provisioning) -> None:
    """The pod that the provisioner runs in, its ReplicaSet, and the Deployment that is to own the capacity."""
    apps, labels = f"/apis/apps/v1/namespaces/{NAMESPACE}", {"app": "plugin"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    deployment = world.post(f"{apps}/deployments", {"metadata": {"name": "plugin"}, "spec": spec})
    replicas = world.post(f"{apps}/replicasets", {"metadata": {"name": "plugin-0", **_owned_by(deployment, "Deployment")}, "spec": spec})
    meta = {"name": POD["POD_NAME"], "labels": labels, **_owned_by(replicas, "ReplicaSet")}
    world.post(f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": meta, "spec": pod["spec"]})


def _owned_by(owner: Json, kind: str) -> Json:
    meta = owner["metadata"]
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}]}


async def _after_failures(world: Provisioning, node: str) -> str:
    """A volume, at last: it fails twice alike, then on this node, which is given back."""
    broken = Fail(Code.INTERNAL, "not at once")
    world.backend.script(CREATE, broken, broken, Fail(Code.RESOURCE_EXHAUSTED, "no room there"))
    claim = await world.make_claim("origin", node, volumeAttributesClassName="gold")
    name = claim["metadata"]["name"]
    await world.shown(PVC, name, lambda body: names.SELECTED_NODE not in annotations(body), "has no node")
    await world.patch(PVC, name, {"metadata": {"annotations": {names.SELECTED_NODE: node}}})
    pv = await world.provisioned(claim)
    assert {"speed": "high"} == dict(world.backend.made(CREATE)[-1].request.mutable_parameters)
    await world.told(claim, "Normal", "ProvisioningSucceeded", pv)
    return pv


async def _clone_and_restore(world: Provisioning, origin: str, node: str) -> None:
    """Their sources are protected meanwhile; that of the clone until it is deleted."""
    clone = {"kind": PVC, "name": world("origin")}
    await world.provisioned(await world.make_claim("clone", node, dataSource=clone))
    await world.shown(PVC, world("origin"), lambda body: names.CLONE_FINALIZER in finalizers(body), "is protected")
    snapshot = _make_snapshot(world, origin)
    restored = {"apiGroup": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": snapshot}
    await world.provisioned(await world.make_claim("restored", node, dataSource=restored))
    sources = [call.request.volume_content_source.WhichOneof("type") for call in world.backend.made(CREATE)[-2:]]
    assert ["volume", "snapshot"] == sources
    await world.delete(PVC, world("origin"))
    await world.shown(PVC, world("origin"), lambda body: names.CLONE_FINALIZER not in finalizers(body), "is let go")


def _make_snapshot(world: Provisioning, origin: str) -> str:
    """Of the origin's volume, as the snapshotter leaves it."""
    name, content = world("snapshot"), world("content")
    spec: Json = {"source": {"persistentVolumeClaimName": world("origin")}}
    ready = {"boundVolumeSnapshotContentName": content, "readyToUse": True, "restoreSize": "1Gi"}
    made = world.post(f"{SNAPSHOTS}/namespaces/{NS}/volumesnapshots", _a_snapshot("VolumeSnapshot", name, spec, ready))
    ref = {"name": name, "namespace": NS, "uid": made["metadata"]["uid"]}
    spec = {"deletionPolicy": "Retain", "driver": world.driver, "source": {"volumeHandle": f"vol-{origin}"}, "volumeSnapshotRef": ref}
    world.post(f"{SNAPSHOTS}/volumesnapshotcontents", _a_snapshot("VolumeSnapshotContent", content, spec, {"snapshotHandle": "snap"}))
    return name


def _a_snapshot(kind: str, name: str, spec: Json, status: Json) -> Json:
    return {"apiVersion": f"{SNAPSHOT_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec, "status": status}


async def _capacity_follows(world: Provisioning) -> None:
    """It is published, changes, and goes with its class."""

    async def published(capacity: str) -> bool:
        found = [one for one in world.listed(CAPACITIES) if one["storageClassName"] == world("sc")]
        assert all(["plugin"] == [owner["name"] for owner in one["metadata"]["ownerReferences"]] for one in found)
        return [capacity] == [one["capacity"] for one in found]

    await world.until(lambda: published("100Gi"), "capacity is published")
    world.backend.capacity_bytes = 50 * GiB
    await world.until(lambda: published("50Gi"), "capacity has changed")
    await world.delete("StorageClass", world("sc"))

    async def is_gone() -> bool:
        return not world.listed(CAPACITIES)

    await world.until(is_gone, "capacity is gone")


async def test_without_rights_to_leases_it_works_and_says_what_is_missing(control_plane: ControlPlane, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with a_world(control_plane, tmp_path) as world:
        rights = just(world("no-leases"), *WITHOUT_LEASES)
        async with acting_as(rights, control_plane, tmp_path) as proxy:
            node = await world.make_place()
            await world.make_secret_class(world.make_secret())
            flags = (f"--http-endpoint=127.0.0.1:{port}", f"--leader-election-namespace={NAMESPACE}")
            async with world.provisioner(proxy, "log", *flags) as program:
                claim = await world.make_claim("claim", node)
                pv = await world.provisioned(claim)
                await world.told(claim, "Normal", "ProvisioningSucceeded", pv)
                await world.released(pv)
                assert {} == world.backend.volumes
                metrics = await asyncio.to_thread(_read, f"http://127.0.0.1:{port}/metrics")
                assert "mooring_provisioner_intents_in_memory 1.0" in metrics.splitlines()
            assert {"leases.coordination.k8s.io"} == {right.split()[1] for right in refused(proxy)}
            (told,) = [line for line in program.output().splitlines() if "there is no right to write down" in line]
            assert told.startswith("E")
            assert f'missing="{", ".join(VERBS)} leases.coordination.k8s.io"' in told
            assert f'namespace="{NAMESPACE}"' in told


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text
