"""`mooring why` (issue 29) on the in-process port, in virtual time: which link blocks, whose move it is, and what to
type.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import CSI_DRIVERS, LOG_PLACE, VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339, rfc3339_micro
from mooring.base.errors import ConfigError
from mooring.base.flags import UsageError
from mooring.cluster.attachdetach import multi_attach
from mooring.cluster.binder.scheduling import reasons as scheduling
from mooring.inspect.objects import UNSTUCK, NotThere
from mooring.inspect.unstick.look import KINDS as KINDS_UNSTUCK
from mooring.inspect.unstick.table import RULES
from mooring.inspect.why import attaching, changing, claims, deleting, diagnosis, logs, place, pod_attach, provisioning
from mooring.inspect.why.chain import Mover
from mooring.inspect.why.codes import MEANINGS, code_in
from mooring.kube.errors import Forbidden
from mooring.wire.grpc.codes import Code, go_name
from tests.support.builders import (
    BOUND_CLAIM,
    DRIVER,
    KINDS,
    Json,
    a_bound_claim,
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_lease,
    a_pod,
    a_pv,
    a_ready_node,
    a_va,
    a_volume,
    a_workload,
    an_attached_va,
)
from tests.support.cluster_world import EPOCH_S
from tests.support.explaining import WhyWorld, a_kubelet_s_node
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

BOUND = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
VA = attachment_name(DRIVER, "pv", "n1")
EXHAUSTED = "rpc error: code = ResourceExhausted desc = no room"


# -- claims


async def test_a_claim_without_its_class_gets_a_command_that_makes_it_anew() -> None:
    world = WhyWorld()
    await world.create(a_class("good", default=True), a_claim(sc="wrong"))
    link = await world.blocking("pvc/claim")
    assert ("failed", "user", 'its StorageClass "wrong" does not exist') == (link["state"], link["mover"], link["text"])
    assert '"storageClassName": "good"' in link["commands"][0]["line"]
    assert 4 == (await world.why("pvc/claim"))[0]


async def test_without_any_class_the_default_one_is_to_be_marked() -> None:
    world = WhyWorld()
    await world.create(a_class("only"), a_claim(sc=None))
    link = await world.blocking("pvc", "claim")
    assert (
        "kubectl annotate storageclass only storageclass.kubernetes.io/is-default-class=true"
        == link["commands"][0]["line"]
    )


FAILURES: Mapping[str, tuple[str, str, str]] = {
    'error getting secret creds in namespace vault: secrets "creds" not found': (
        "user",
        'the secret "vault/creds" does not exist',
        "kubectl -n vault create secret generic creds",
    ),
    f"failed to provision volume with StorageClass: {EXHAUSTED}": (
        "driver",
        "does not make the volume",
        "kubectl -n default get pvc claim -o json | sed",
    ),
    "rpc error: code = InvalidArgument desc = no such parameter": (
        "user",
        "does not make the volume",
        "kubectl get pods",
    ),
    'persistentvolumes is forbidden: User "system:serviceaccount:kube-system:csi" cannot create resource '
    '"persistentvolumes" '
    'in API group "" at the cluster scope': (
        "operator",
        "system:serviceaccount:kube-system:csi has no right to create persistentvolumes",
        "kubectl create clusterrole csi-create-persistentvolumes --verb=create --resource=persistentvolumes",
    ),
}


@each_row("message", FAILURES)
async def test_a_failed_provisioning_names_the_cause_of_its_event(message: str) -> None:
    mover, text, command = FAILURES[message]
    world = WhyWorld()
    claim = await world.create(a_class(), a_csi_driver(), a_claim())
    await world.tell(claim, "ProvisioningFailed", message)
    link = await world.blocking("pvc/claim")
    assert ("failed", mover, message) == (link["state"], link["mover"], link["error"])
    assert text in link["text"]
    assert link["commands"][0]["line"].startswith(command)


async def test_a_code_comes_with_its_meaning() -> None:
    world = WhyWorld()
    claim = await world.create(a_class(), a_csi_driver(), a_claim())
    await world.tell(claim, "ProvisioningFailed", EXHAUSTED)
    link = await world.blocking("pvc/claim")
    assert ("ResourceExhausted", MEANINGS["ResourceExhausted"]) == (link["code"], link["meaning"])
    assert 6 == (await world.why("pvc/claim"))[0]


async def test_a_provisioner_that_does_not_renew_its_lease_does_not_run() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_claim())
    await world.create(a_lease("csi-test", renewTime=rfc3339_micro(EPOCH_S - 120), holderIdentity="pod-a"))
    link = await world.blocking("pvc/claim")
    assert ("failed", "operator") == (link["state"], link["mover"])
    assert "csi-provisioner of csi.test does not run" in link["text"]
    assert "pod-a" in link["text"]


async def test_a_provisioner_that_works_is_waited_for() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_claim())
    await world.create(a_lease("csi-test", renewTime=rfc3339_micro(EPOCH_S)))
    link = await world.blocking("pvc/claim")
    assert ("waiting", "cluster") == (link["state"], link["mover"])
    assert 3 == (await world.why("pvc/claim"))[0]


async def test_who_has_to_ask_the_provisioner_is_waited_for_where_nobody_has() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_claim())
    await world.clock.sleep(provisioning.QUIET_S + 1)
    link = await world.blocking("pvc/claim")
    assert "nobody has been asked for a volume yet: the PV controller does that" == link["text"]
    assert "the binder (kube-controller-manager, or mooring binder)" == link["who"]


async def test_a_provisioner_that_is_alive_and_says_nothing_is_asked_for_its_rights() -> None:
    world, asked = WhyWorld(), {"volume.kubernetes.io/storage-provisioner": "csi.test"}
    await world.create(a_class(), a_csi_driver(), a_claim(annotations=asked))
    await world.create(a_lease("csi-test", renewTime=rfc3339_micro(EPOCH_S + provisioning.QUIET_S)))
    assert "cluster" == (await world.blocking("pvc/claim"))["mover"]
    await world.clock.sleep(provisioning.QUIET_S + 1)
    link = await world.blocking("pvc/claim")
    assert ("waiting", "operator", "mooring doctor") == (link["state"], link["mover"], link["commands"][0]["line"])
    assert "it renews its Lease, and has not said a word about the claim" in link["text"]


async def test_nothing_that_answers_for_a_provisioner_is_told_after_a_while() -> None:
    world = WhyWorld()
    await world.create(a_class(provisioner="gone.example"), a_claim())
    assert "waiting" == (await world.blocking("pvc/claim"))["state"]
    await world.clock.sleep(provisioning.QUIET_S + 1)
    link = await world.blocking("pvc/claim")
    assert ("failed", "operator") == (link["state"], link["mover"])


async def test_a_claim_for_the_first_pod_waits_for_somebody_to_use_it() -> None:
    world = WhyWorld()
    await world.create(a_class(wffc=True), a_csi_driver(), a_claim())
    assert "user" == (await world.blocking("pvc/claim"))["mover"]
    await world.create(a_pod("web", "claim"))
    link = await world.blocking("pvc/claim")
    assert ("cluster", "the scheduler") == (link["mover"], link["who"])


async def test_a_claim_whose_volume_is_gone_is_lost() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_bound_claim(status={"phase": "Lost"}))
    link = await world.blocking("pvc/claim")
    assert "its PersistentVolume" in link["text"]
    assert "operator" == link["mover"]


# -- pods


async def test_a_pod_that_runs_has_nothing_in_its_way() -> None:
    world = WhyWorld()
    pod = await world.bound()
    await world.create(an_attached_va(VA, "pv", "n1"))
    await world.patch(
        _kind(pod),
        "web",
        {"status": {"phase": "Running", "containerStatuses": [_container({"running": {}})]}},
        subresource="status",
    )
    code, text = await world.why("pod/web")
    assert 0 == code
    assert "nothing is in its way" in text
    assert ["place", "claim claim", "attach claim", "mount"] == [
        link["name"] for link in (await world.values("pod/web"))["links"]
    ]


async def test_a_volume_that_no_container_uses_is_not_said_to_be_mounted() -> None:
    world = WhyWorld()
    pod = await world.bound()
    await world.create(an_attached_va(VA, "pv", "n1"))
    ran = {"status": {"phase": "Running", "containerStatuses": [_container({"running": {}})]}}
    await world.patch(_kind(pod), "web", ran, subresource="status")
    text = (await world.values("pod/web"))["links"][-1]["text"]
    assert "its containers have started; volume claim is used by no container: the kubelet does not mount it" == text
    used = {"name": "c", "image": "i", "volumeMounts": [{"name": "claim", "mountPath": "/data"}]}
    await world.create(a_pod("used", "claim", node="n1", containers=[used]))
    await world.patch(_kind(pod), "used", ran, subresource="status")
    assert (
        "its containers have started, so all its volumes are mounted"
        == (await world.values("pod/used"))["links"][-1]["text"]
    )


async def test_a_pod_without_its_claim_hears_of_the_quota_that_forbade_it() -> None:
    world = WhyWorld()
    refused = (
        'create Pod web-0 failed error: pods "web-0" is forbidden: exceeded quota: small, requested: '
        "requests.storage=1Gi"
    )
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}
    await world.create({**a_pod("web-0", "claim"), "metadata": {"name": "web-0", "ownerReferences": [owner]}})
    assert "user" == (await world.blocking("pod/web-0"))["mover"]
    await world.tell({"kind": "StatefulSet", "metadata": {"name": "web", "uid": "uid-web"}}, "FailedCreate", refused)
    link = await world.blocking("pod/web-0")
    assert 'the quota "small" of the namespace is used up' in link["text"]


PLACES: Mapping[str, tuple[str, str]] = {
    "0/2 nodes are available: 2 node(s) had volume node affinity conflict.": (
        "operator",
        "its volume is in another place",
    ),
    "0/2 nodes are available: 2 node(s) exceed max volume count.": (
        "operator",
        "as many volumes as their drivers allow",
    ),
    "0/2 nodes are available: 2 node(s) did not have enough free storage.": ("operator", "no room left"),
    "0/2 nodes are available: 2 Insufficient cpu.": ("operator", "no node has enough processors free"),
    "0/2 nodes are available: 2 Insufficient example.com/gpu.": ("operator", "a resource that it asks for"),
    "0/2 nodes are available: 2 Too many pods.": ("operator", "no node takes one more pod"),
    "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.": ("user", "host port"),
    "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.": ("user", "about other pods"),
    "0/2 nodes are available: 2 node(s) didn't please the house.": ("operator", "no node takes it"),
}
TAINTED = "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
MANY: Mapping[str, str] = {
    "3 node(s) didn't match Pod's node affinity/selector.": "no node has the labels that it asks for (3 of 4 nodes)",
    "3 Insufficient cpu.": "no node has enough processors free (3 of 4 nodes)",
    "2 Insufficient cpu, 3 Insufficient memory.": "no node has enough memory free (3 of 4 nodes)",
    "1 Insufficient cpu.": "no node has enough processors free (1 of 4 nodes)",
    "3 node(s) exceed max volume count.": "the nodes have as many volumes as their drivers allow (3 of 4 nodes)",
    "3 node(s) had volume node affinity conflict. preemption: 0/4 nodes are available: 4 Preemption is not helpful.": (
        "its volume is in another place than the nodes that could take it (3 of 4 nodes)"
    ),
    "3 node(s) did not have enough free storage.": (
        "the storage that the nodes can reach has no room left (3 of 4 nodes)"
    ),
    "2 node(s) had untolerated taint {a: b}, 2 Insufficient cpu.": (
        "the nodes have taints that it does not tolerate (3 of 4 nodes)"
    ),
}


@each_row("reasons", MANY)
async def test_the_reason_of_most_nodes_is_named_and_the_others_behind_it(reasons: str) -> None:
    world = WhyWorld()
    await world.create(unscheduled("web", TAINTED + reasons))
    text = (await the_place(world))["text"]
    assert text.startswith(f"{MANY[reasons]}; besides: ")
    assert "taints that it does not tolerate (1)" in text or "processors free (2)" in text


@each_row("message", PLACES)
async def test_the_scheduler_s_words_lead_to_whose_move_it_is(message: str) -> None:
    mover, text = PLACES[message]
    world = WhyWorld()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    await world.create({**a_pod("web"), "status": {"phase": "Pending", "conditions": [condition]}})
    link = await world.blocking("pod/web")
    assert ("place", mover, message) == (link["name"], link["mover"], link["error"])
    assert text in link["text"]


UNBOUND = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def unscheduled(name: str, message: str, *claims: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {**a_pod(name, *claims), "status": {"phase": "Pending", "conditions": [condition]}}


async def the_place(world: WhyWorld, pod: str = "pod/web") -> dict[str, Any]:
    return next(link for link in (await world.values(pod))["links"] if link["name"] == "place")


CONFLICT = "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."


async def a_misplaced_pod(rack: Mapping[str, str], *, keys: Iterable[str]) -> dict[str, Any]:
    """rack: what the volume's node must have. keys: of topology, as the driver reports them."""
    world = WhyWorld()
    await world.create(
        a_class(), a_pv(affinity=rack, claim="claim"), a_bound_claim("claim", "pv"), a_csi_node("n1", keys=keys)
    )
    await world.create(unscheduled("web", CONFLICT, "claim"))
    return await the_place(world)


async def test_a_topology_key_that_the_driver_reports_on_no_node_is_the_driver_s() -> None:
    link = await a_misplaced_pod({"x/rack": "7"}, keys=["x/node", "x/zone"])
    assert ("driver", CONFLICT) == (link["mover"], link["error"])
    assert (
        "its volume asks for the topology key x/rack, and the driver's nodes report the keys x/node, x/zone"
        == link["text"]
    )
    assert "kubectl describe pv pv" == link["commands"][0]["line"]


async def test_another_value_of_a_key_is_no_fault_of_the_driver() -> None:
    link = await a_misplaced_pod({"x/node": "n7"}, keys=["x/node"])
    assert ("operator", "its volume is in another place than the nodes that could take it") == (
        link["mover"],
        link["text"],
    )


NO_VOLUME = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
FAR = [{"matchLabelExpressions": [{"key": "x/zone", "values": ["z8", "z9"]}, {"key": "x/rack", "values": ["7"]}]}]


@each_row(
    ("more", "text"),
    [
        (
            {"allowedTopologies": FAR},
            (
                'its StorageClass "sc" allows volumes only where x/zone is z8 or z9; x/rack is 7, and no node that '
                "could take the pod is there"
            ),
        ),
        (
            {"allowedTopologies": FAR, "provisioner": "kubernetes.io/no-provisioner"},
            "no free volume fits its claims, and their class makes none",
        ),
        ({}, "no free volume fits its claims, and their class makes none"),
    ],
    ids=["elsewhere", "makes none", "anywhere"],
)
async def test_a_class_that_makes_volumes_elsewhere_is_not_taken_for_one_that_makes_none(
    more: dict[str, Any], text: str
) -> None:
    world = WhyWorld()
    await world.create(
        a_class(volumeBindingMode="WaitForFirstConsumer", **more), a_claim(), unscheduled("web", NO_VOLUME, "claim")
    )
    link = await the_place(world)
    assert ("failed", "operator", text) == (link["state"], link["mover"], link["text"])


async def test_the_scheduler_s_own_check_of_the_claims_is_newer_than_its_condition() -> None:
    world = WhyWorld()
    await world.create(a_class(), unscheduled("web", UNBOUND, "claim"), a_claim())
    link = await the_place(world)
    assert ("waiting", "it is placed once its claims are bound", UNBOUND) == (
        link["state"],
        link["text"],
        link["error"],
    )
    await world.patch(
        PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"annotations": BOUND_CLAIM}, "spec": {"volumeName": "pv"}}
    )
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"status": BOUND}, subresource="status")
    assert (await the_place(world))["text"].startswith("its claims are ready by now, and the scheduler")


async def test_a_claim_that_is_being_deleted_keeps_its_pod_before_any_scheduler_says_so() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_pod("web", "claim"), {**a_claim(finalizers=["kubernetes.io/pvc-protection"])})
    await world.delete(PERSISTENT_VOLUME_CLAIMS, "claim")
    link = await the_place(world)
    assert ("failed", "user", "a claim that it names is being deleted") == (link["state"], link["mover"], link["text"])


async def test_a_claim_for_one_pod_names_the_pod_that_has_it() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_bound_claim(modes=["ReadWriteOncePod"]))
    await world.create(a_pod("web", "claim"), a_pod("first", "claim", node="n1", phase="Running"))
    link = await the_place(world)
    assert ("failed", "user") == (link["state"], link["mover"])
    assert 'its claim "claim" is for one pod alone (ReadWriteOncePod), and the pod "first" uses it' == link["text"]
    assert {"line": "kubectl -n default delete pod first", "safe": False}.items() <= link["commands"][0].items()


async def test_a_pod_whose_node_is_chosen_waits_for_its_claims() -> None:
    world = WhyWorld()
    await world.create(a_class(wffc=True), a_csi_driver(), a_claim(selected="n1"), a_pod("web", "claim"))
    assert 'it goes to node "n1" as soon as its claims are bound: default/claim' == (await the_place(world))["text"]


async def test_a_pod_that_passed_the_scheduler_by_is_told_with_what_chooses_its_volume_s_place() -> None:
    world = WhyWorld()
    await world.create(
        a_class(wffc=True), a_csi_driver(), a_claim(), a_kubelet_s_node("n1"), a_pod("web", "claim", node="n1")
    )
    link = await the_place(world)
    assert ("failed", "user") == (link["state"], link["mover"])
    assert "past the scheduler" in link["text"]
    choose = "kubectl -n default annotate pvc claim volume.kubernetes.io/selected-node=n1"
    assert {"line": choose, "safe": False}.items() <= link["commands"][0].items()
    claim = (await world.values("pvc/claim"))["links"][0]
    assert 'the pod "web" uses it, and was put on its node past the scheduler' == claim["text"]
    assert "mooring why -n default pod/web" == claim["commands"][0]["line"]


async def test_a_pod_on_a_node_whose_claim_is_on_its_way_there_did_not_pass_the_scheduler_by() -> None:
    world = WhyWorld()
    await world.create(
        a_class(wffc=True),
        a_csi_driver(),
        a_kubelet_s_node("n1"),
        a_claim(selected="n1"),
        a_pod("web", "claim", node="n1"),
    )
    assert ("done", "on node n1") == ((link := await the_place(world))["state"], link["text"])


async def test_a_scheduler_of_one_s_own_is_looked_for_by_its_name() -> None:
    world = WhyWorld()
    pod = a_pod("web")
    await world.create({**pod, "spec": {**pod["spec"], "schedulerName": "packer"}})
    link = await the_place(world)
    assert 'the scheduler "packer" has not looked at it yet' == link["text"]
    assert "kubectl get pods,leases -A | grep packer" == link["commands"][0]["line"]


async def test_claims_that_can_t_be_seen_are_not_taken_for_missing() -> None:
    world = WhyWorld(NoRights("persistentvolumeclaims"))
    await world.create(a_class(), unscheduled("web", UNBOUND, "claim"), a_claim())
    assert UNBOUND == (await the_place(world))["error"]
    assert "it is placed once its claims are bound" == (await the_place(world))["text"]


async def test_an_attach_that_failed_shows_the_driver_s_error() -> None:
    world = WhyWorld()
    await world.bound()
    error = {"time": rfc3339(EPOCH_S), "message": EXHAUSTED}
    await world.create(a_va(VA, "pv", "n1", status={"attachError": error}))
    link = await world.blocking("pod/web")
    assert ("attach claim", "driver", EXHAUSTED, "ResourceExhausted") == (
        link["name"],
        link["mover"],
        link["error"],
        link["code"],
    )


async def test_a_node_without_the_driver_is_named_by_the_attacher_s_own_reason() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_ready_node("n1"), a_csi_node("n1", {"other": "id"}))
    claim = await world.create(a_bound_claim())
    await world.create({**a_volume(claim=claim, phase="Bound")})
    await world.patch(PERSISTENT_VOLUMES, "pv", {"metadata": {"finalizers": ["external-attacher/csi-test"]}})
    await world.create(a_pod("web", "claim", node="n1"), a_va(VA, "pv", "n1"))
    link = await world.blocking("pod/web")
    assert ("failed", "operator") == (link["state"], link["mover"])
    assert "CSINode n1 does not contain driver csi.test" in link["text"]


async def test_a_volume_that_a_pod_has_elsewhere_names_that_pod() -> None:
    world = WhyWorld()
    await world.bound(pod_on="n2")
    await world.create(a_pod("holder", "claim", node="n1", phase="Running"), an_attached_va(VA, "pv", "n1"))
    link = await world.blocking("pod/web")
    assert ("attach claim", "user") == (link["name"], link["mover"])
    assert 'the pod "default/holder" has it on node n1' == link["text"]
    assert {"line": "kubectl -n default delete pod holder", "safe": False}.items() <= link["commands"][0].items()


async def test_a_pod_that_has_ended_may_be_deleted_safely() -> None:
    world = WhyWorld()
    await world.bound(pod_on="n2")
    await world.create(a_pod("job", "claim", node="n1", phase="Succeeded"), an_attached_va(VA, "pv", "n1"))
    await world.patch(
        NODES, "n1", {"status": {"volumesInUse": ["kubernetes.io/csi/csi.test^pv"]}}, subresource="status"
    )
    link = await world.blocking("pod/web")
    assert {"line": "kubectl -n default delete pod job", "safe": True}.items() <= link["commands"][0].items()
    assert "pod job on node n1 has finished, and node n1 still has it mounted" in link["text"]


async def test_a_volume_on_a_dead_node_asks_whether_the_machine_is_off() -> None:
    world = WhyWorld()
    await world.create(
        a_class(), a_csi_driver(), a_kubelet_s_node("n1", ready=False), a_kubelet_s_node("n2"), a_csi_node("n2")
    )
    claim = await world.create(a_bound_claim())
    await world.create(a_volume(claim=claim, phase="Bound"), an_attached_va(VA, "pv", "n1"))
    await world.create(a_pod("web", "claim", node="n2"), a_pod("old", "claim", node="n1", phase="Running"))
    link = await world.blocking("pod/web")
    assert "operator" == link["mover"]
    assert "mooring fence n1" == link["commands"][0]["line"]
    assert not link["commands"][0]["safe"]


async def test_a_mount_that_failed_is_the_kubelet_s_or_the_driver_s() -> None:
    world = WhyWorld()
    pod = await world.bound()
    await world.create(an_attached_va(VA, "pv", "n1"))
    assert ("mount", "waiting") == (
        (await world.blocking("pod/web"))["name"],
        (await world.blocking("pod/web"))["state"],
    )
    await world.tell(pod, "FailedMount", "MountVolume.SetUp failed: rpc error: code = Internal desc = mkfs failed")
    link = await world.blocking("pod/web")
    assert ("mount", "driver", "Internal") == (link["name"], link["mover"], link["code"])


async def test_a_driver_that_is_not_registered_on_the_node_keeps_the_mount() -> None:
    world = WhyWorld()
    await world.create(
        a_class(), a_csi_driver(attachRequired=False), a_ready_node("n1"), a_csi_node("n1", {"other": "id"})
    )
    claim = await world.create(a_bound_claim())
    await world.create(a_volume(claim=claim, phase="Bound"), a_pod("web", "claim", node="n1"))
    link = await world.blocking("pod/web")
    assert ("mount", "operator") == (link["name"], link["mover"])
    assert "csi.test is not registered on the node" in link["text"]


async def test_a_pod_that_is_being_deleted_on_a_dead_node_waits_for_the_operator() -> None:
    world = WhyWorld()
    await world.create(a_ready_node("n1", ready=False), a_pod("web", node="n1", phase="Running"))
    await world.delete(_kind(a_pod("web")), "web")
    assert ("end", "operator") == (
        (await world.blocking("pod/web"))["name"],
        (await world.blocking("pod/web"))["mover"],
    )


async def test_a_pod_that_ends_waits_since_its_deletion_was_asked_for() -> None:
    world = WhyWorld()
    await world.create(a_ready_node("n1"), a_pod("web", node="n1", phase="Running"))
    asked = rfc3339(world.clock.wall_s())
    await world.delete(_kind(a_pod("web")), "web")
    link = await world.blocking("pod/web")
    assert ("end", "cluster", asked) == (link["name"], link["mover"], link["since"])


async def test_a_pod_whose_volume_can_t_be_unmounted_waits_for_the_driver() -> None:
    world = WhyWorld()
    pod = await world.bound()
    await world.tell(pod, "FailedAttachVolume", "Multi-Attach error for volume")
    await world.delete(_kind(a_pod("web")), "web")
    assert "cluster" == (await world.blocking("pod/web"))["mover"], "how it began does not matter at its end"
    error = 'MountVolume.TearDown failed for volume "pv" : rpc error: code = Unavailable desc = connection refused'
    await world.tell(pod, "FailedMount", error)
    link = await world.blocking("pod/web")
    assert ("end", "failed", "driver", "Unavailable") == (link["name"], link["state"], link["mover"], link["code"])
    assert "n1 can't unmount a volume" in link["text"]


async def test_a_pod_that_ran_on_a_node_that_is_silent_may_run_no_more() -> None:
    world = WhyWorld()
    started = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    pod = a_pod("web", node="n1", phase="Running")
    await world.create(a_ready_node("n1", ready=False), {**pod, "status": {**pod["status"], **started}})
    link = await world.blocking("pod/web")
    assert ("mount", "operator", "mooring fence n1") == (link["name"], link["mover"], link["commands"][0]["line"])


# -- other kinds


async def test_a_claim_in_deletion_names_the_pod_that_uses_it() -> None:
    world = WhyWorld()
    await world.bound()
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}})
    await world.delete(PERSISTENT_VOLUME_CLAIMS, "claim")
    link = await world.blocking("pvc/claim")
    assert ("finalizer kubernetes.io/pvc-protection", 'the pod "web" uses it') == (link["name"], link["text"])


async def test_a_volume_of_a_removed_driver_is_for_mooring_unstick() -> None:
    world = WhyWorld()
    await world.create(a_volume())
    await world.patch(PERSISTENT_VOLUMES, "pv", {"metadata": {"finalizers": ["external-attacher/csi-test"]}})
    await world.delete(PERSISTENT_VOLUMES, "pv")
    link = await world.blocking("pv/pv")
    assert "mooring unstick --driver=csi.test --dry-run" == link["commands"][0]["line"]


async def test_a_volume_that_its_driver_does_not_delete_shows_the_error() -> None:
    world = WhyWorld()
    pv = await world.create(a_csi_driver(), a_volume(policy="Delete", phase="Released"))
    await world.patch(
        PERSISTENT_VOLUMES, "pv", {"metadata": {"finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"]}}
    )
    await world.delete(PERSISTENT_VOLUMES, "pv")
    await world.tell(pv, "VolumeFailedDelete", "rpc error: code = FailedPrecondition desc = it has snapshots")
    link = await world.blocking("pv/pv")
    assert ("failed", "driver", "FailedPrecondition") == (link["state"], link["mover"], link["code"])
    assert "mooring unstick --dry-run pv/pv" == link["commands"][-1]["line"]


async def test_a_finalizer_that_nobody_knows_is_not_to_be_taken_off_by_hand() -> None:
    world = WhyWorld()
    await world.create(a_volume())
    await world.patch(PERSISTENT_VOLUMES, "pv", {"metadata": {"finalizers": ["example.com/mine"]}})
    await world.delete(PERSISTENT_VOLUMES, "pv")
    link = await world.blocking("pv/pv")
    assert "do not take it off by hand" in link["text"]
    assert "mooring unstick --dry-run pv/pv" == link["commands"][-1]["line"]


async def test_an_attachment_and_a_node_are_explained() -> None:
    world = WhyWorld()
    await world.bound()
    await world.create(an_attached_va(VA, "pv", "n1"))
    assert 0 == (await world.why("va", VA))[0]
    code, text = await world.why("node/n1")
    assert 0 == code
    assert "csi.test registered; 1 volume attached" in text
    await world.delete(VOLUME_ATTACHMENTS, VA)
    assert "detach" == (await world.blocking("va", VA))["name"]


async def test_growth_that_the_class_forbids_is_the_operator_s() -> None:
    world = WhyWorld()
    await world.bound()
    await world.create(a_bound_claim("wants", size="2Gi"))
    link = await world.blocking("pvc/wants")
    assert ("growth wants", "operator") == (link["name"], link["mover"])
    assert "allowVolumeExpansion" in link["commands"][0]["line"]


async def test_all_that_is_stuck_is_listed_and_what_failed_comes_first() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_claim("waits"), a_claim("wrong", sc="nosuch"))
    code, text = await world.why()
    assert Mover.USER.value == code
    assert text.index("pvc default/wrong") < text.index("pvc default/waits")
    assert "not listed: volumesnapshots" in text


async def test_nothing_is_stuck_in_a_namespace_only_if_it_is_there() -> None:
    world = WhyWorld()
    await world.create({"kind": "Namespace", "metadata": {"name": "shop"}})
    code, text = await world.why(n="shop")
    assert (0, "nothing is stuck") == (code, text.splitlines()[0])
    with pytest.raises(NotThere, match='namespace "shpo" does not exist'):
        await world.why(n="shpo")


async def test_a_claim_that_grows_is_listed_beside_its_pod_that_is_stuck() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_bound_claim(size="2Gi"), a_pod("web", "claim", node="n1"))
    _, text = await world.why()
    assert "pod default/web" in text
    assert "pvc default/claim  FAILED at growth claim" in text


async def test_a_silent_node_is_listed_if_it_has_volumes() -> None:
    world = WhyWorld()
    held, dead, alive = (a_ready_node(name, ready=name == "n3") for name in ("n1", "n2", "n3"))
    for one in (held, alive):
        one["status"]["volumesAttached"] = [{"name": "kubernetes.io/csi/csi.test^vol", "devicePath": ""}]
    await world.create(held, dead, alive)
    _, text = await world.why()
    assert "node n1  FAILED" in text
    assert "node n2" not in text
    assert "node n3" not in text


async def test_a_claim_that_a_quota_keeps_from_being_made_is_the_quota_s() -> None:
    world = WhyWorld()
    owner = await world.create(a_workload("StatefulSet"))
    refusal = (
        "create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "
        '"data-web-0" is forbidden: '
        "exceeded quota: tight, requested: requests.storage=1Gi, used: requests.storage=5Gi, limited: "
        "requests.storage=5Gi"
    )
    await world.tell(owner, "FailedCreate", refusal)
    link = await world.blocking("pvc/data-web-0")
    assert ("creation", "user") == (link["name"], link["mover"])
    assert 'the StatefulSet "web" can\'t create it: the quota "tight" of the namespace is used up' == link["text"]
    assert '"requests.storage": "AMOUNT"' in link["commands"][1]["line"]
    assert "pvc default/data-web-0: FAILED at creation" in (await world.why())[1].replace("  FAILED", ": FAILED"), (
        "it is listed, too"
    )
    with pytest.raises(ConfigError, match="does not exist"):
        await world.why("pvc/data-web")


# -- what can't be seen, output, words


class NoRights(ServerFaults):
    def __init__(self, *plurals: str) -> None:
        self.plurals = plurals

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if kind.plural in self.plurals:
            raise Forbidden(f"{kind.plural} is forbidden")


async def test_what_the_rights_do_not_show_is_said_and_the_rest_is_explained() -> None:
    world = WhyWorld(NoRights("persistentvolumes", "volumeattachments", "nodes", "csinodes"))
    await world.bound()
    code, text = await world.why("pod/web")
    assert Mover.UNKNOWN.value == code
    assert 'persistentvolume "pv": persistentvolumes is forbidden' in " ".join(text.split())
    assert "bound to pv" in text


async def test_what_does_not_exist_is_an_error_and_so_is_a_kind_that_nobody_knows() -> None:
    world = WhyWorld()
    with pytest.raises(ConfigError, match='pod "default/none" does not exist'):
        await world.why("pod/none")
    with pytest.raises(UsageError, match="no kind that mooring why knows"):
        await world.why("secret/none")
    with pytest.raises(UsageError, match="KIND/NAME"):
        await world.why("pod")


async def test_no_line_but_a_command_is_longer_than_the_terminal() -> None:
    world = WhyWorld()
    claim = await world.create(a_class(), a_csi_driver(), a_claim("a-claim-of-a-very-long-name-" + "x" * 30))
    await world.tell(claim, "ProvisioningFailed", f"{EXHAUSTED} {'and more ' * 40}\x1b[31m")
    _, text = await world.why("pvc", claim["metadata"]["name"])
    lines = text.splitlines()
    assert [] == [line for line in lines[1:] if len(line) > 80 and not line.startswith(("next ", "or "))]
    assert "\x1b" not in text


async def test_yaml_says_what_json_says() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_claim())
    assert await world.values("pvc/claim") == yaml.safe_load((await world.why("pvc/claim", output="yaml"))[1])


async def test_watching_prints_what_has_changed_and_ends_when_nothing_is_in_the_way() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver(), a_claim())
    looks = asyncio.create_task(world.why("pvc/claim", watch=True), name="looks")
    await world.clock.sleep(5)
    assert "waiting" in world.out.getvalue()
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"spec": {"volumeName": "pv"}})
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"status": BOUND}, subresource="status")
    code, text = await asyncio.wait_for(looks, 60)
    assert 0 == code
    assert "nothing is in its way" in text


# -- the house


def _reasons(module: Any) -> set[type]:
    return {one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == module.__name__}


def test_every_reason_of_the_binder_for_a_claim_has_its_advice() -> None:
    named = _constructed_in("mooring.cluster.binder.volumes.decide", claims.why, until="# -- volumes")
    assert named, "none was found"
    assert set() == {one.__name__ for one in named} - {one.__name__ for one in claims.ADVICE} - {"Gone"}


def test_every_reason_of_the_attacher_for_an_attachment_has_its_advice() -> None:
    named = _constructed_in("mooring.sidecars.attacher.decide", attaching.why, until="# -- PersistentVolumes")
    assert named, "none was found"
    assert set() == {one.__name__ for one in named} - {one.__name__ for one in attaching.ADVICE}


def test_every_text_of_the_scheduler_has_its_advice() -> None:
    texts = {name: text for name, text in vars(scheduling).items() if name.isupper() and isinstance(text, str)}
    assert len(texts) > 10
    said = [str(scheduling.BindingFailed("no", text)) if "plugin" in text else text for text in texts.values()]
    assert [] == [text for text in said if not any(pattern.search(text) for pattern, _ in place.PLACES)]


def test_every_reason_of_attach_detach_for_a_volume_on_a_node_has_its_advice() -> None:
    of_decide = _constructed_in("mooring.cluster.attachdetach.decide", pod_attach.why, until="")
    named = of_decide | _constructed_in("mooring.cluster.attachdetach.multi_attach", pod_attach.why, until="")
    assert len(named) > 20
    assert set() == {one.__name__ for one in named} - {one.__name__ for one in pod_attach.ADVICE} - {"Steps"}


def test_every_holder_that_attach_detach_knows_has_its_advice() -> None:
    tree = ast.parse(inspect.getsource(multi_attach))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Holder"
    ]
    kinds = {one.value for call in calls for one in ast.walk(call.args[0]) if isinstance(one, ast.Constant)}
    kinds |= {"pod_finished", "mounted"}  # one of the two, by a name
    assert "rolling_update" in kinds
    assert kinds == set(pod_attach.HOLDERS)


def test_every_reason_of_the_provisioner_for_a_claim_has_its_advice() -> None:
    assert (named := _reasons(provisioning.why))
    assert set() == named - set(provisioning.ADVICE)


def test_every_reason_of_the_resizer_has_its_advice() -> None:
    for work, reasons, advice in (
        ("expansion", changing.growing, changing.GROWTH),
        ("modification", changing.modifying, changing.MODIFICATION),
    ):
        made = _reasons(reasons) | _reasons(changing.both)
        assert (named := {one for one in made if "__str__" in vars(one)}), work  # beside actions
        assert set() == named - set(advice), work


def _constructed_in(module: str, reasons: Any, until: str) -> set[type]:
    source = inspect.getsource(importlib.import_module(module))
    assert until in source
    tree = ast.parse(source.partition(until)[0] if until else source)
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "why"
    }
    return {one for one in _reasons(reasons) if one.__name__ in used}


def test_every_code_of_grpc_has_a_meaning() -> None:
    assert {go_name(code) for code in Code} - {"OK"} == set(MEANINGS)
    assert "NotFound" == code_in("rpc error: code = Internal desc = rpc error: code = NotFound desc = gone")
    assert "" == code_in("code = Bogus")


def _kind(obj: Json) -> Kind[Any]:
    return KINDS[obj["kind"]]


def _container(state: Mapping[str, Any]) -> Json:
    return {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": dict(state)}


# -- where the log is


async def test_the_next_command_is_the_log_of_the_pod_that_leads() -> None:
    world = WhyWorld()
    claim = await world.create(a_class(), a_csi_driver(), a_claim())
    await world.tell(claim, "ProvisioningFailed", "rpc error: code = Internal desc = broken")
    lease = a_lease(
        "csi-test", renewTime=rfc3339_micro(EPOCH_S), holderIdentity="csi-controller-0_5fe3", namespace="storage"
    )
    await world.create(lease)
    (look,) = (await world.blocking("pvc/claim"))["commands"]
    assert "kubectl -n storage logs csi-controller-0 --all-containers --prefix --tail=100" == look["line"]
    assert look["safe"]


async def test_without_a_lease_the_pods_are_found_by_their_container_and_a_mooring_dev_names_its_own() -> None:
    world = WhyWorld()
    claim = await world.create(a_class(), a_csi_driver(), a_claim())
    await world.tell(claim, "ProvisioningFailed", "rpc error: code = Internal desc = broken")
    (look,) = (await world.blocking("pvc/claim"))["commands"]
    assert look["line"].endswith("CONTAINERS:.spec.containers[*].name | grep csi-provisioner")
    assert "on a mooring dev there are none: its terminal has each call of the driver" in look["effect"]
    await world.create(a_lease("csi-test", renewTime=rfc3339_micro(EPOCH_S), holderIdentity="no; pod"))
    (look,) = (await world.blocking("pvc/claim"))["commands"]
    assert look["line"].endswith("| grep csi-provisioner"), "a holder that is no pod's name is not typed"


async def test_a_plane_without_pods_names_the_place_of_its_log() -> None:
    """mooring dev notes it on the CSIDriver. A pod that leads is there all the same, if its Lease says so."""
    world = WhyWorld()
    driver = a_csi_driver()
    driver["metadata"]["annotations"] = {LOG_PLACE: "the terminal of mooring dev"}
    claim = await world.create(a_class(), driver, a_claim())
    await world.tell(claim, "ProvisioningFailed", "rpc error: code = Internal desc = broken")
    (look,) = (await world.blocking("pvc/claim"))["commands"]
    assert "# look at the terminal of mooring dev" == look["line"]
    assert "no pods run here" in look["effect"]
    await world.create(
        a_lease(
            "csi-test", renewTime=rfc3339_micro(EPOCH_S), holderIdentity="csi-controller-0_5fe3", namespace="storage"
        )
    )
    (look,) = (await world.blocking("pvc/claim"))["commands"]
    assert look["line"].startswith("kubectl -n storage logs csi-controller-0 ")


async def test_a_plane_without_pods_names_none_of_the_node_s_driver() -> None:
    world = WhyWorld()
    pod = await world.bound()
    await world.patch(
        CSI_DRIVERS, "csi.test", {"metadata": {"annotations": {LOG_PLACE: "the terminal\nof mooring dev"}}}
    )
    await world.create(an_attached_va(VA, "pv", "n1"))
    await world.tell(pod, "FailedMount", "driver name csi.test not found in the list of registered CSI drivers")
    commands = [one["line"] for one in (await world.blocking("pod/web"))["commands"]]
    assert ["kubectl get csinodes -o wide", "# look at the terminal of mooring dev"] == commands


async def test_a_failed_mount_looks_for_the_driver_s_pod_on_the_node() -> None:
    world = WhyWorld()
    pod = await world.bound()
    await world.create(an_attached_va(VA, "pv", "n1"))
    await world.tell(pod, "FailedMount", "MountVolume.SetUp failed: rpc error: code = Internal desc = mkfs failed")
    assert (await world.blocking("pod/web"))["commands"][0]["line"].endswith("| grep node-driver-registrar")


def test_no_next_command_guesses_by_three_letters() -> None:
    sources = [
        inspect.getsource(module)
        for module in (attaching, changing, claims, place, pod_attach, provisioning, diagnosis, logs)
    ]
    assert not any("grep -i csi" in source for source in sources)


# -- finalizers that nobody here knows


def test_why_knows_every_finalizer_that_unstick_judges() -> None:
    assert [] == [one.finalizer for one in RULES if not any(mark in one.finalizer for mark in deleting._KNOWN)]


def test_why_names_unstick_for_the_kinds_that_it_judges() -> None:
    assert set(UNSTUCK) == set(KINDS_UNSTUCK)


async def test_an_unknown_finalizer_is_told_with_its_domain_and_whose_move_it_is() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_claim(finalizers=["backup.example.com/hold"]))
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": ["backup.example.com/hold"]}})
    await world.delete(PERSISTENT_VOLUME_CLAIMS, "claim")
    link = await world.blocking("pvc/claim")
    assert ("failed", "operator", "whoever runs the program of backup.example.com") == (
        link["state"],
        link["mover"],
        link["who"],
    )
    assert (
        "nobody known here takes it off; its name says that it is of backup.example.com: do not take it off by hand"
        in link["text"]
    )
    assert [
        "kubectl -n default get pvc claim -o yaml --show-managed-fields",
        "kubectl get customresourcedefinitions -o name | grep backup.example.com",
        "mooring unstick --dry-run -n default pvc/claim",
    ] == [one["line"] for one in link["commands"]]
    assert 5 == (await world.why("pvc/claim"))[0]


async def test_an_unknown_finalizer_of_a_pod_is_not_for_unstick() -> None:
    world = WhyWorld()
    await world.create(a_kubelet_s_node("n1"), a_pod("web", node="n1", phase="Succeeded"))
    await world.patch(_kind(a_pod("web")), "web", {"metadata": {"finalizers": ["example.com/hold"]}})
    await world.delete(_kind(a_pod("web")), "web")
    link = await world.blocking("pod/web")
    assert "whoever runs the program of example.com" == link["who"]
    assert not any("unstick" in one["line"] for one in link["commands"])


async def test_a_finalizer_of_the_garbage_collector_is_its_own() -> None:
    world = WhyWorld()
    await world.create(a_class(), a_claim())
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": ["foregroundDeletion"]}})
    await world.delete(PERSISTENT_VOLUME_CLAIMS, "claim")
    link = await world.blocking("pvc/claim")
    assert ("waiting", "cluster") == (link["state"], link["mover"])
    assert "the garbage collector" in link["who"]
