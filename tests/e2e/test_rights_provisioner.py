"""The provisioner with the rights of its manifest, all of which it needs; with those of upstream's; and with none to
Leases.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.storage import STORAGE_CLASSES
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.intents.journal import VERBS
from mooring.wire.grpc.codes import Code
from tests.e2e.provisioner_world import SNAPSHOT_GROUP, Provisioning, a_world, make_snapshot, serve_snapshots
from tests.support.binding import PVC, annotations, finalizers
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import free_ports
from tests.support.rights import (
    ELECTION,
    NAMESPACE,
    OWNERS_ARE_CHECKED,
    UPSTREAM,
    UPSTREAM_CAPACITY,
    UPSTREAM_ELECTION,
    Json,
    Manifest,
    acting_as,
    deployed,
    has_asked,
    just,
    refused,
)
from tests.support.scripted_driver import Fail
from tests.support.volume_driver import CREATE, DELETE, GiB

PROVISIONER = deployed("provisioner")
CAPACITIES = f"/apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/csistoragecapacities"
CAPACITY = ("--enable-capacity", "--capacity-ownerref-level=2", "--capacity-poll-interval=200ms")
POD = {"NAMESPACE": NAMESPACE, "POD_NAMESPACE": NAMESPACE, "POD_NAME": "plugin-1"}


@pytest.mark.long
async def test_the_manifests_rights_are_enough_and_all_are_needed(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """A driver that can do everything, and everything happens once."""
    plane = new_control_plane(apiserver_flags=[OWNERS_ARE_CHECKED])
    async with acting_as(PROVISIONER, plane, tmp_path) as proxy, a_world(plane, tmp_path) as world:
        gold = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"}}
        await world.create({**gold, "driverName": world.driver, "parameters": {"speed": "high"}})
        await _everything_happens(world, proxy, PROVISIONER, volumeAttributesClassName="gold")
        assert {"speed": "high"} == dict(world.backend.made(CREATE)[0].request.mutable_parameters)
        assert [] == refused(proxy)
        assert [] == PROVISIONER.unused(proxy)


@pytest.mark.long
async def test_nothing_is_refused_under_the_rights_of_upstreams_manifest(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """The image alone is exchanged. Only a claim's VolumeAttributesClass is out of reach there, for the Go provisioner
    as well.
    """
    plane = new_control_plane(apiserver_flags=[OWNERS_ARE_CHECKED])
    rights = just("upstream", UPSTREAM["provisioner"], (*UPSTREAM_ELECTION, *UPSTREAM_CAPACITY))
    async with acting_as(rights, plane, tmp_path) as proxy, a_world(plane, tmp_path) as world:
        await _everything_happens(world, proxy, rights)
        assert [] == refused(proxy)


async def _everything_happens(world: Provisioning, proxy: FaultProxy, rights: Manifest, **claim: Any) -> None:
    """claim: more of the first one's spec."""
    serve_snapshots(world)
    _make_pod(world)
    node, secret = await world.make_place(), world.make_secret()
    rights.grant_secret(world.plane, "provisioner-secret", secret)
    await world.make_secret_class(secret)
    flags = (*ELECTION, *CAPACITY)
    async with world.provisioner(proxy, "one", *flags, **POD), world.provisioner(proxy, "two", *flags, **POD):
        origin = await _after_failures(world, node, **claim)
        await _clone_and_restore(world, origin, node)
        await _capacity_follows(world)
        await world.released(origin)
        assert {"user": "me"} == dict(world.backend.made(DELETE)[0].request.secrets)
        await world.until(
            lambda: has_asked(proxy, "watch", "leases"), what="the one that does not lead watches the Lease"
        )
    async with world.provisioner(proxy, "node", "--node-deployment", NODE_NAME=node, POD_NAMESPACE=NAMESPACE):
        await world.until(lambda: has_asked(proxy, "get", "nodes"), what="the node's journal is given to the node")


def _make_pod(world: Provisioning) -> None:
    """The pod that the provisioner runs in, its ReplicaSet, and the Deployment that is to own the capacity."""
    apps, labels = f"/apis/apps/v1/namespaces/{NAMESPACE}", {"app": "plugin"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    deployment = world.post(f"{apps}/deployments", {"metadata": {"name": "plugin"}, "spec": spec})
    replicas = world.post(
        f"{apps}/replicasets", {"metadata": {"name": "plugin-0", **_owned_by(deployment, "Deployment")}, "spec": spec}
    )
    meta = {"name": POD["POD_NAME"], "labels": labels, **_owned_by(replicas, "ReplicaSet")}
    world.post(f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": meta, "spec": pod["spec"]})


def _owned_by(owner: Json, kind: str) -> Json:
    meta = owner["metadata"]
    return {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}
        ]
    }


async def _after_failures(world: Provisioning, node: str, **more: Any) -> str:
    """A volume, at last: it fails twice alike, then on this node, which is given back."""
    broken = Fail(Code.INTERNAL, "not at once")
    world.backend.script(CREATE, broken, broken, Fail(Code.RESOURCE_EXHAUSTED, "no room there"))
    claim = await world.make_claim("origin", node, **more)
    name = claim["metadata"]["name"]
    await world.shown(PVC, name, lambda body: names.SELECTED_NODE not in annotations(body), "has no node")
    await world.patch(PVC, name, {"metadata": {"annotations": {names.SELECTED_NODE: node}}})
    pv = await world.provisioned(claim)
    await world.told(claim, "Normal", "ProvisioningSucceeded", pv)
    return pv


async def _clone_and_restore(world: Provisioning, origin: str, node: str) -> None:
    """Their sources are protected meanwhile; that of the clone until it is deleted."""
    clone = {"kind": PVC.name, "name": world("origin")}
    await world.provisioned(await world.make_claim("clone", node, dataSource=clone))
    await world.shown(PVC, world("origin"), lambda body: names.CLONE_FINALIZER in finalizers(body), "is protected")
    snapshot = make_snapshot(world, origin)
    restored = {"apiGroup": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": snapshot}
    await world.provisioned(await world.make_claim("restored", node, dataSource=restored))
    sources = [call.request.volume_content_source.WhichOneof("type") for call in world.backend.made(CREATE)[-2:]]
    assert ["volume", "snapshot"] == sources
    await world.delete(PVC, world("origin"))
    await world.shown(PVC, world("origin"), lambda body: names.CLONE_FINALIZER not in finalizers(body), "is let go")


async def _capacity_follows(world: Provisioning) -> None:
    """It is published, changes, and goes with its class."""

    async def published(capacity: str) -> bool:
        found = [one for one in world.listed(CAPACITIES) if one["storageClassName"] == world("sc")]
        assert all(["plugin"] == [owner["name"] for owner in one["metadata"]["ownerReferences"]] for one in found)
        return [capacity] == [one["capacity"] for one in found]

    await world.until(lambda: published("100Gi"), what="capacity is published")
    world.backend.capacity_bytes = 50 * GiB
    await world.until(lambda: published("50Gi"), what="capacity has changed")
    await world.delete(STORAGE_CLASSES, world("sc"))

    async def is_gone() -> bool:
        return not world.listed(CAPACITIES)

    await world.until(is_gone, what="capacity is gone")


async def test_without_rights_to_leases_it_works_and_says_what_is_missing(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    async with a_world(control_plane, tmp_path) as world:
        rights = just(world("no-leases"), UPSTREAM["provisioner"])
        async with acting_as(rights, control_plane, tmp_path) as proxy:
            node = await world.make_place()
            secret = world.make_secret()
            rights.grant_secret(control_plane, world("secret"), secret)
            await world.make_secret_class(secret)
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
