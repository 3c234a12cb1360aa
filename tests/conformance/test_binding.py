"""One life after another, on our binder and on kube-controller-manager with kube-scheduler: both must come to the same.

BinderWorld runs in process and in virtual time. The real ones run all lives at once, on one control plane of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mooring.api.core import NODES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.binding import NODE, POD, PV, PVC, BinderWorld, Tenant, annotations, finalizers
from tests.support.builders import (
    Json,
    a_capacity,
    a_claim,
    a_csi_driver,
    a_csi_node,
    a_va,
    a_volume,
    an_ephemeral_volume,
)
from tests.support.control_plane import ControlPlane
from tests.support.rows import each_row
from tests.support.virtual_loop import run_virtual

Life = Callable[[Tenant], Awaitable[None]]
LIVES: dict[str, Life] = {}
COMPLETED, OURS = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
FULL, CONFLICT = "did not have enough free storage", "didn't find available persistent volumes to bind"


def life(body: Life) -> Life:
    LIVES[body.__name__] = body
    return body


async def bound(world: Tenant, policy: str = "Retain", size: str = "1Gi") -> tuple[Json, str, str]:
    """A claim, its name, and its volume's, provisioned and bound."""
    await world.make_class()
    await world.make_claim(size=size)
    claim = await world.asked(world("claim"))
    await world.provision(claim, policy=policy, size=size)
    await world.bound(world("claim"), world("pv"))
    await world.phase(PV, world("pv"), "Bound")
    return claim, world("claim"), world("pv")


# -- matching


@life
async def b05_smallest_that_fits(world: Tenant) -> None:
    for size in ("5Gi", "10Gi", "20Gi"):
        await world.available(f"pv{size.lower()}", size=size)
    await world.make_claim(size="7Gi")
    claim = await world.bound(world("claim"), world("pv10gi"))
    assert {COMPLETED: "yes", OURS: "yes"} == annotations(claim)
    assert ({"storage": "10Gi"}, ["ReadWriteOnce"]) == (claim["status"]["capacity"], claim["status"]["accessModes"])
    volume = await world.phase(PV, world("pv10gi"), "Bound")
    assert {OURS: "yes"} == annotations(volume)
    assert claim["metadata"]["uid"] == volume["spec"]["claimRef"]["uid"]


@life
async def b07_reserved_by_name(world: Tenant) -> None:
    await world.create(a_volume(world("small"), sc=world("sc")))
    await world.available(size="50Gi", claim=world("claim"))
    await world.make_claim()
    assert OURS in annotations(await world.bound(world("claim"), world("pv")))
    assert OURS not in annotations(await world.phase(PV, world("pv"), "Bound"))


@life
async def b11_released_then_reserved_by_name(world: Tenant) -> None:
    await world.make_class()
    gone = a_claim(world("claim"), uid="gone")
    await world.create(a_volume(world("pv"), sc=world("sc"), claim=gone))
    await world.phase(PV, world("pv"), "Released")
    await world.make_claim()
    await world.asked(world("claim"))
    await world.patch(PV, world("pv"), {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}})
    await world.bound(world("claim"), world("pv"))


@life
async def b14_named_volume_comes_later(world: Tenant) -> None:
    await world.make_claim(volume=world("pv"))
    await world.settle()
    assert "Pending" == (await world.get(PVC, world("claim")))["status"]["phase"]
    await world.create(a_volume(world("pv"), sc=world("sc")))
    assert {COMPLETED: "yes"} == annotations(await world.bound(world("claim"), world("pv")))


@life
async def b15_named_volume_does_not_suit(world: Tenant) -> None:
    await world.create(a_volume(world("pv"), sc=world("sc"), size="512Mi"))
    claim = await world.make_claim(volume=world("pv"))
    text = f'Cannot bind to requested volume "{world("pv")}": requested PV is too small'
    await world.told(claim, "Warning", "VolumeMismatch", text)


@life
async def b16_named_volume_of_someone_else(world: Tenant) -> None:
    await world.create(a_volume(world("pv"), sc=world("sc"), claim="somebody-else"))
    claim = await world.make_claim(volume=world("pv"))
    await world.told(claim, "Warning", "FailedBinding", f'volume "{world("pv")}" already bound to a different claim.')


# -- provisioning


@life
async def b18_b19_external_provisioner(world: Tenant) -> None:
    await world.make_class()
    made = await world.make_claim()
    claim = await world.asked(world("claim"))
    text = f"Waiting for a volume to be created either by the external provisioner '{world.driver}' or manually by"
    await world.told(made, "Normal", "ExternalProvisioning", text)
    assert {"phase": "Pending"} == claim["status"]
    await world.provision(claim, size="3Gi")
    assert {"storage": "3Gi"} == (await world.bound(world("claim"), world("pv")))["status"]["capacity"]
    assert OURS not in annotations(await world.phase(PV, world("pv"), "Bound"))


@life
async def b20_b21_waits_for_a_pod_then_for_a_node(world: Tenant) -> None:
    await world.make_class(wffc=True)
    claim = await world.make_claim()
    await world.told(claim, "Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    await world.make_pod(world("claim"), schedulingGates=[{"name": "test/held"}])
    await world.told(claim, "Normal", "WaitForPodScheduled", f"waiting for pod {world('pod')} to be scheduled")
    await world.patch(
        PVC, world("claim"), {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "somewhere"}}}
    )
    await world.asked(world("claim"))


@life
async def b22_b23_static_volume_waits_unless_reserved(world: Tenant) -> None:
    await world.make_class(wffc=True)
    await world.available()
    claim = await world.make_claim()
    await world.told(claim, "Normal", "WaitForFirstConsumer", "waiting for first consumer")
    await world.create(a_volume(world("mine"), sc=world("sc"), claim=world("claim")))
    await world.bound(world("claim"), world("mine"))


@life
async def b32_class_comes_later(world: Tenant) -> None:
    """B32: the claim is tried again."""
    claim = await world.make_claim()
    await world.told(claim, "Warning", "ProvisioningFailed", f'"{world("sc")}" not found')
    await world.make_class()
    await world.asked(world("claim"))


# -- lost, released


@life
async def b24_volume_removed_by_force(world: Tenant) -> None:
    claim, name, pv = await bound(world)
    await world.delete(PV, pv)
    await world.patch(PV, pv, {"metadata": {"finalizers": None}})
    lost = await world.phase(PVC, name, "Lost")
    assert {"phase": "Lost"} == lost["status"]
    await world.told(
        claim, "Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    )


@life
async def b25_b26_lost_and_misbound(world: Tenant) -> None:
    bare = await world.make_claim("bare", annotations={COMPLETED: "yes"})
    await world.told(bare, "Warning", "ClaimLost", "Bound claim has lost reference to PersistentVolume.")
    other = await world.make_claim("other")
    await world.create(a_volume(world("pv"), sc=world("sc"), claim=other))
    await world.bound(world("other"), world("pv"))
    claim = await world.make_claim(volume=world("pv"), annotations={COMPLETED: "yes"})
    await world.phase(PVC, world("claim"), "Lost")
    await world.told(
        claim, "Warning", "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"
    )


@life
async def b27_b28_b29_released_and_used_again(world: Tenant) -> None:
    _, name, pv = await bound(world)
    await world.remove(PVC, name)
    again = await world.create(a_claim(name, sc=world("sc")))
    await world.phase(PV, pv, "Released")
    await world.asked(name)
    await world.provision(again, "pv2")
    await world.bound(name, world("pv2"))
    await world.patch(PV, pv, {"spec": {"claimRef": None}})
    await world.phase(PV, pv, "Available")
    await world.make_claim("next")
    await world.bound(world("next"), pv)


@life
async def b30_b31_spare_volumes(world: Tenant) -> None:
    claim, name, pv = await bound(world, "Delete")
    await world.provision(claim, "spare")
    await world.phase(PV, world("spare"), "Released")
    await world.create(a_volume(world("static"), sc=world("sc"), claim=claim, annotations={OURS: "yes"}))
    free = await world.phase(PV, world("static"), "Available")
    assert (False, {}) == ("claimRef" in free["spec"], annotations(free))
    await world.bound(name, pv)


# -- protection


@life
async def b33_b35_claim_in_use(world: Tenant) -> None:
    _, name, _ = await bound(world)
    await world.make_pod(name, node="somewhere")
    await world.patch(POD, world("pod"), {"status": {"phase": "Succeeded"}}, subresource="status")
    await world.settle()
    await world.delete(PVC, name)
    await world.settle()
    assert "kubernetes.io/pvc-protection" in finalizers(await world.get(PVC, name))
    await world.delete(POD, world("pod"))
    await world.gone(PVC, name)


@life
async def b34_pod_without_a_node_holds_nothing(world: Tenant) -> None:
    _, name, _ = await bound(world)
    await world.make_node()
    await world.make_pod(name, schedulingGates=[{"name": "test/held"}])
    await world.settle()
    await world.remove(PVC, name)
    await world.patch(POD, world("pod"), {"spec": {"schedulingGates": []}})
    await world.rejected(world("pod"), f'persistentvolumeclaim "{name}" not found')


@life
async def b37_bound_volume_deleted(world: Tenant) -> None:
    _, name, pv = await bound(world)
    await world.delete(PV, pv)
    await world.settle()
    assert "kubernetes.io/pv-protection" in finalizers(await world.get(PV, pv))
    await world.delete(PVC, name)
    await world.gone(PV, pv)


# -- ephemeral volumes


@life
async def b38_b40_claim_of_the_pod(world: Tenant) -> None:
    """B40: the claim goes with its pod, and the volume is released."""
    await world.make_class()
    pod = await world.make_pod(volumes=(an_ephemeral_volume(sc=world("sc")),))
    name = f"{world('pod')}-scratch"
    claim = await world.asked(name)
    assert [pod["metadata"]["uid"]] == [one["uid"] for one in claim["metadata"]["ownerReferences"]]
    assert {"l": "1"} == claim["metadata"]["labels"]
    await world.provision(claim, size="2Gi")
    await world.bound(name, world("pv"))
    await world.delete(POD, world("pod"))
    await world.gone(PVC, name)
    await world.phase(PV, world("pv"), "Released")


@life
async def b39_foreign_claim_of_that_name(world: Tenant) -> None:
    await world.make_node()
    name = f"{world('pod')}-scratch"
    await world.create(a_claim(name, sc=world("sc")))
    pod = await world.make_pod(volumes=(an_ephemeral_volume(sc=world("sc")),))
    text = f"PVC default/{name} was not created for pod default/{world('pod')} (pod is not owner)"
    await world.told(pod, "Warning", "FailedBinding", f"ephemeral volume scratch: {text}")
    await world.rejected(world("pod"), text)


# -- scheduling


@life
async def b41_claim_missing_then_unbound_then_bound(world: Tenant) -> None:
    node = await world.make_node()
    pod = await world.make_pod(world("claim"))
    text = f'persistentvolumeclaim "{world("claim")}" not found'
    await world.rejected(world("pod"), text)
    await world.told(pod, "Warning", "FailedScheduling", text)
    await world.make_class()
    await world.make_claim()
    await world.rejected(world("pod"), "pod has unbound immediate PersistentVolumeClaims")
    await world.provision(await world.asked(world("claim")))
    await world.scheduled(world("pod"), node)
    await world.told(pod, "Normal", "Scheduled", f"Successfully assigned default/{world('pod')} to {node}")


@life
async def b42_volume_of_a_zone(world: Tenant) -> None:
    await world.make_class(wffc=True, provisioner=NO_PROVISIONER)
    for zone in "abc":
        await world.make_node(f"n{zone}", zone=zone)
    await world.available(affinity={"zone": "b"})
    await world.make_claim()
    await world.make_pod(world("claim"))
    await world.scheduled(world("pod"), world("nb"))
    await world.bound(world("claim"), world("pv"))


@life
async def b44_an_empty_node_is_none_that_there_is(world: Tenant) -> None:
    node = await world.make_node()
    await world.make_class(wffc=True)
    await world.make_claim(annotations={"volume.kubernetes.io/selected-node": ""})
    await world.make_pod(world("claim"))
    await world.rejected(world("pod"), CONFLICT)
    await world.patch(PVC, world("claim"), {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}})
    await world.selected(world("claim"), node)


@life
async def b43_b44_node_taken_back(world: Tenant) -> None:
    one = await world.make_node("n1")
    pod = await world.make_waiting_pod()
    await world.selected(world("claim"), one)
    claim = await world.asked(world("claim"))
    await world.patch(NODE, one, {"spec": {"unschedulable": True}})
    two = await world.make_node("n2")
    await world.patch(PVC, world("claim"), {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}})
    await world.told(
        pod, "Warning", "FailedScheduling", f'binding volumes: provisioning failed for PVC "{world("claim")}"'
    )
    await world.selected(world("claim"), two)
    await world.provision(claim)
    await world.scheduled(world("pod"), two)


@life
async def b45_volume_lands_elsewhere(world: Tenant) -> None:
    node = await world.make_node("n1", zone="a")
    pod = await world.make_waiting_pod()
    await world.selected(world("claim"), node)
    await world.provision(await world.asked(world("claim")), affinity={"zone": "b"})
    text = (
        f'running PreBind plugin "VolumeBinding": binding volumes: pv "{world("pv")}" node affinity doesn\'t match '
        f'node "{node}"'
    )
    await world.told(pod, "Warning", "FailedScheduling", text)
    await world.rejected(world("pod"), "1 node(s) didn't match PersistentVolume's node affinity")


@life
async def b46_b47_b49_room(world: Tenant) -> None:
    await world.create(a_csi_driver(name=world.driver))
    await world.make_class(wffc=True)
    for base in ("n1", "n2"):
        await world.make_node(base, host=world(base))
    await world.make_claim(size="50Gi")
    await world.make_pod(world("claim"))
    await world.rejected(world("pod"), f"2 node(s) {FULL}")
    await world.create(a_capacity(world("c1"), world("n1"), "100Gi", sc=world("sc"), maximumVolumeSize="10Gi"))
    await world.create(a_capacity(world("c2"), world("n2"), "50Gi", sc=world("sc")))
    await world.selected(world("claim"), world("n2"))


@life
async def b50_b51_nothing_on_any_node(world: Tenant) -> None:
    await world.make_class(wffc=True, allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}])
    await world.make_node("na", zone="a")
    await world.make_claim()
    await world.make_pod(world("claim"))
    await world.rejected(world("pod"), CONFLICT)
    await world.make_node("nb", zone="b")
    await world.selected(world("claim"), world("nb"))


@life
async def b52_b53_b55_limits(world: Tenant) -> None:
    node = await world.make_node()
    await world.create(a_csi_node(node, count=2, drivers={world.driver: node}))
    claims = [world(f"c{number}") for number in range(3)]
    for name in claims:
        body = a_volume(name, sc=world("sc"))
        body["spec"]["csi"]["driver"] = world.driver
        await world.create(body)
        await world.create(a_claim(name, sc=world("sc")))
    pvs = [(await world.phase(PVC, name, "Bound"))["spec"]["volumeName"] for name in claims]
    await world.make_pod(claims[0], base="first")
    await world.scheduled(world("first"), node)
    attachment = a_va(world("va"), pvs[1], node, status={"attached": True})
    attachment["spec"]["attacher"] = world.driver
    await world.create(attachment)
    await world.settle()
    await world.make_pod(claims[2])
    await world.rejected(world("pod"), "exceed max volume count")
    await world.make_pod(claims[0], base="same")
    await world.scheduled(world("same"), node)
    await world.delete(VOLUME_ATTACHMENTS, world("va"))
    await world.scheduled(world("pod"), node)


@life
async def b56_claim_for_one_pod_alone(world: Tenant) -> None:
    await world.make_node()
    modes = ("ReadWriteOncePod",)
    await world.create(a_volume(world("pv"), sc=world("sc"), modes=modes))
    await world.make_claim(modes=modes)
    await world.bound(world("claim"), world("pv"))
    await world.make_pod(world("claim"), base="first")
    await world.scheduled(world("first"), world("n1"))
    await world.make_pod(world("claim"))
    text = "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    await world.rejected(world("pod"), text)
    await world.delete(POD, world("first"))
    await world.scheduled(world("pod"), world("n1"))


# -- run


@each_row("name", LIVES)
def test_ours(name: str) -> None:
    async def main() -> None:
        async with BinderWorld().binding() as world:
            await LIVES[name](world)

    run_virtual(main())


@pytest.mark.long
def test_the_real_ones_agree(new_control_plane: Callable[..., ControlPlane]) -> None:
    """The lives above are what they do, too."""
    plane = new_control_plane()
    plane.start_binding()
    failures = asyncio.run(_all_on(plane))
    assert {} == failures


async def _all_on(plane: ControlPlane) -> dict[str, str]:
    clock = LoopClock()
    config = load(str(plane.kubeconfig()), {})
    async with HttpCluster(config, clock=clock, randomness=Random(), user_agent="binding-lives") as cluster:
        await cluster.list(NODES)
        tasks = {
            name: asyncio.create_task(_one(body, Tenant(cluster, wait_s=60, look_s=0.1)))
            for name, body in LIVES.items()
        }
        ended = {name: await task for name, task in tasks.items()}
    return {name: said for name, said in ended.items() if said}


async def _one(body: Life, world: Tenant) -> str:
    try:
        await body(world)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
