"""When a volume is deleted, and when its finalizer comes and goes: rows of (view, decision)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mooring.api.classes import CLASS_BETA
from mooring.api.core import PersistentVolume, SecretReference
from mooring.api.storage import VolumeAttachment
from mooring.control.decision import Decision
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.deletion import reasons as why
from mooring.sidecars.provisioner.deletion.decide import (
    Action,
    DeleteObject,
    DeleteVolume,
    Hold,
    LeaveVolume,
    LoadSecret,
    Obstacle,
    Progress,
    Release,
    TellObstacle,
    View,
    class_changed,
    decide_deletion,
    detached,
    object_changed,
)
from mooring.sidecars.provisioner.model.cached import (
    ATTACHMENT,
    ATTACHMENT_INDEXES,
    VOLUME_INDEXES,
    is_provisioned_by,
    keeps_attachment,
)
from tests.support.builders import a_class, a_node, a_pv, a_va, typed
from tests.support.rows import each_row
from tests.support.stores import store_of

DRIVER = "d"
OURS = {names.PROVISIONED_BY: DRIVER}
NO_SECRET = {names.DELETION_SECRET_NAME: "", names.DELETION_SECRET_NAMESPACE: ""}
DELETE = (DeleteVolume("handle1"), DeleteObject(), Release())
WITHOUT_CLASS = DeleteVolume("handle1", lacks_class="sc")
SECRET_PARAMETERS = {
    "csi.storage.k8s.io/provisioner-secret-name": "s-${pvc.name}",
    "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
}


def pv_with(
    *,
    phase: str = "Released",
    policy: str = "Delete",
    finalizers: Iterable[str] = (names.VOLUME_FINALIZER,),
    annotations: Mapping[str, str] | None = None,
    csi: Mapping[str, Any] | None = None,
    **more: Any,
) -> PersistentVolume:
    noted = {**OURS, **NO_SECRET} if annotations is None else dict(annotations)
    metadata = {"uid": "uid1", "resourceVersion": "1", "finalizers": list(finalizers), "annotations": noted}
    source = {"csi": ({"driver": DRIVER, "volumeHandle": "handle1"} if csi is None else csi) or None}
    spec = {"persistentVolumeReclaimPolicy": policy, "storageClassName": "sc", **more}
    return typed(a_pv("pv1", source=source, phase=phase, **metadata, **spec))


def a_view(
    pv: PersistentVolume | None,
    *,
    parameters: Mapping[str, str] | None = None,
    provisioner: str = DRIVER,
    allowed_topologies: Iterable[Mapping[str, Any]] = (),
    attached: Iterable[str] = (),
    others: Iterable[PersistentVolume] = (),
    **more: Any,
) -> View:
    """parameters, provisioner, allowed_topologies: of the class. others: further PersistentVolumes."""
    of_class = {"provisioner": provisioner, "parameters": parameters, "allowedTopologies": list(allowed_topologies)}
    classes = [] if parameters is None else [typed(a_class(resourceVersion="1", **of_class))]
    found = [
        ATTACHMENT.of(typed(a_va(node, node=node, attacher=DRIVER, resourceVersion=str(number))))
        for number, node in enumerate(attached, start=1)
    ]
    volumes = store_of(*([] if pv is None else [pv]), *others, indexes=VOLUME_INDEXES)
    attachments = store_of(*found, indexes=ATTACHMENT_INDEXES)
    return View(
        **{
            "driver": DriverCapabilities(DRIVER),
            "claims": store_of(),
            "volumes": volumes,
            "classes": store_of(*classes),
            "nodes": store_of(),
            "attachments": attachments,
            **more,
        }
    )


def on_node(labels: Mapping[str, str]) -> dict[str, Any]:
    """Where the node n1 alone is served."""
    return {"node_name": "n1", "nodes": store_of(typed(a_node("n1", labels=labels, resourceVersion="1")))}


def decided(pv: PersistentVolume | None, **view: Any) -> Decision[Action]:
    return decide_deletion(a_view(pv, **view), "pv1")


def test_P74_a_released_volume_is_deleted_then_its_object():
    decision = decided(pv_with())
    assert (DELETE, why.Deleting("handle1"), None) == (decision.actions, decision.because, decision.problem)


def test_P74_nothing_to_do_for_what_is_gone():
    assert Decision(why.Gone("pv1")) == decided(None)


@each_row(
    ("annotations", "csi", "is_ours"),
    [
        (OURS, None, True),
        ({names.PROVISIONED_BY: "in/tree"}, None, True),
        ({names.PROVISIONED_BY: "other"}, None, False),
        ({names.PROVISIONED_BY: ""}, None, False),
        ({names.PROVISIONED_BY: "kubernetes.io/x", names.MIGRATED_TO: DRIVER}, None, True),
        ({}, None, True),
        ({}, {"driver": "other", "volumeHandle": "handle1"}, False),
        ({}, {}, False),
        ({names.MIGRATED_TO: DRIVER}, {}, True),
        ({names.MIGRATED_TO: "other"}, {}, False),
    ],
)
def test_P74_whose_volume_it_is(annotations: dict[str, str], csi: dict[str, str] | None, is_ours: bool):
    driver = DriverCapabilities(DRIVER, in_tree_name="in/tree")
    assert is_ours == is_provisioned_by(driver, pv_with(annotations=annotations, csi=csi))


@each_row("phase", ["", "Available", "Pending", "Bound", "Failed"])
def test_P74_only_released_is_enough(phase: str):
    assert Decision(why.InUse(phase)) == decided(pv_with(phase=phase))


def test_P75_a_volume_to_be_kept_loses_the_finalizer_and_nothing_else():
    assert Decision(why.Kept("Retain"), (Release(),)) == decided(pv_with(policy="Retain"))
    assert Decision(why.Kept("Retain"), (Release(),)) == decided(pv_with(policy="Retain", phase="Bound", deleting=True))
    assert Decision(why.Kept("Retain")) == decided(pv_with(policy="Retain", finalizers=()))


def test_P76_any_attachment_holds_it_back():
    decision = decided(pv_with(), attached=("n2", "n1"))
    assert decision.problem == decision.because == why.StillAttached("pv1", ("n1", "n2"))
    assert (TellObstacle(Obstacle.ATTACHED),) == decision.actions
    assert "persistentvolume pv1 is still attached to node n1" == decision.problem.error
    assert {object_changed("pv1"), detached("pv1")} == decision.waits_for


def test_P76_attachments_do_not_matter_to_a_driver_that_does_not_publish():
    assert DELETE == decided(pv_with(), attached=("n1",), attachments=None).actions


def another(*, policy: str = "Retain", phase: str = "Available", **csi: Any) -> PersistentVolume:
    """A PersistentVolume of the same volume."""
    source = {"csi": {"driver": DRIVER, "volumeHandle": "handle1", **csi}}
    spec = {"persistentVolumeReclaimPolicy": policy, "storageClassName": "sc"}
    return typed(a_pv("imported", source=source, phase=phase, resourceVersion="2", **spec))


@each_row(("policy", "phase"), [("Retain", "Available"), ("Retain", "Released"), ("Delete", "Bound"), ("Delete", "")])
def test_a_volume_that_another_object_keeps_or_uses_is_not_deleted(policy: str, phase: str):
    decision = decided(pv_with(), others=[another(policy=policy, phase=phase)])
    assert why.LeftToAnother("imported") == decision.because
    assert (LeaveVolume("imported"), DeleteObject(), Release()) == decision.actions


@each_row("handle", ["HANDLE1", "Handle1"])
def test_a_volume_that_another_object_names_in_other_letters_is_not_deleted(handle: str):
    """Azure's ids are the same in any letters."""
    assert why.LeftToAnother("imported") == decided(pv_with(), others=[another(volumeHandle=handle)]).because


def test_a_volume_that_is_attached_for_another_object_is_not_deleted():
    """That one, which is to be deleted with it, too, waits for the detach."""
    attachment = ATTACHMENT.of(typed(a_va("va", pv="imported", node="n1", attacher=DRIVER)))
    attached = store_of(attachment, indexes=ATTACHMENT_INDEXES)
    view = a_view(pv_with(), others=[another(policy="Delete", phase="Released")], attachments=attached)
    assert why.LeftToAnother("imported") == decide_deletion(view, "pv1").because


@each_row(
    "other", [another(policy="Delete", phase="Released"), another(driver="other"), another(volumeHandle="handle2")]
)
def test_objects_that_do_not_keep_this_volume_do_not_hold_it_back(other: PersistentVolume):
    assert DELETE == decided(pv_with(), others=[other]).actions


def test_P77_the_noted_secret_is_used():
    notes = {**OURS, names.DELETION_SECRET_NAME: "s", names.DELETION_SECRET_NAMESPACE: "ns"}
    assert (LoadSecret(SecretReference("s", "ns")), *DELETE) == decided(pv_with(annotations=notes)).actions


@each_row("noted", [("", ""), ("s", ""), ("", "ns")])
def test_P78_an_empty_note_means_no_secret_whatever_the_class_says(noted: tuple[str, str]):
    notes = {**OURS, names.DELETION_SECRET_NAME: noted[0], names.DELETION_SECRET_NAMESPACE: noted[1]}
    assert DELETE == decided(pv_with(annotations=notes), parameters=SECRET_PARAMETERS).actions


def test_P78_without_notes_the_class_says_which_secret():
    claim = {"name": "c", "namespace": "ns"}
    decision = decided(pv_with(annotations=OURS, claimRef=claim), parameters=SECRET_PARAMETERS)
    assert (LoadSecret(SecretReference("s-c", "ns")), *DELETE) == decision.actions
    assert DELETE == decided(pv_with(annotations=OURS), parameters=SECRET_PARAMETERS).actions, (
        "no claim to fill the template from"
    )
    assert (WITHOUT_CLASS, *DELETE[1:]) == decided(pv_with(annotations=OURS, claimRef=claim)).actions


def test_P78_the_beta_annotation_names_the_class():
    claim = {"name": "c", "namespace": "ns"}
    older = pv_with(annotations={**OURS, CLASS_BETA: "sc"}, claimRef=claim, storageClassName="")
    assert (LoadSecret(SecretReference("s-c", "ns")), *DELETE) == decided(older, parameters=SECRET_PARAMETERS).actions
    none = pv_with(annotations={**OURS, CLASS_BETA: ""}, claimRef=claim)
    assert DELETE == decided(none, parameters=SECRET_PARAMETERS).actions


PORTWORX = "kubernetes.io/portworx-volume"
PORTWORX_SECRET = {"openstorage.io/auth-secret-name": "px", "openstorage.io/auth-secret-namespace": "ns"}


def test_P78_the_class_of_an_in_tree_volume_is_read_as_its_driver_reads_it():
    driver = DriverCapabilities("pxd.portworx.com", in_tree_name=PORTWORX)
    claim = {"name": "c", "namespace": "ns"}
    pv = pv_with(annotations={names.PROVISIONED_BY: PORTWORX}, csi={}, claimRef=claim, portworxVolume={"volumeID": "1"})
    decision = decided(pv, driver=driver, parameters=PORTWORX_SECRET, provisioner=PORTWORX)
    assert (LoadSecret(SecretReference("px", "ns")), DeleteVolume("1", migrated=True)) == decision.actions[:2]
    own = decided(pv, driver=driver, parameters=PORTWORX_SECRET, provisioner="pxd.portworx.com")
    assert DeleteVolume("1", migrated=True) == own.actions[0], "a class that names the driver says what it says"


def test_P78_an_in_tree_class_that_nobody_can_read_is_told_of():
    driver = DriverCapabilities("ebs.csi.aws.com", in_tree_name="kubernetes.io/aws-ebs")
    claim = {"name": "c", "namespace": "ns"}
    volume = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    pv = pv_with(annotations={names.PROVISIONED_BY: "kubernetes.io/aws-ebs"}, csi={}, claimRef=claim, **volume)
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    decision = decided(
        pv, driver=driver, parameters={"zone": "a"}, provisioner="kubernetes.io/aws-ebs", allowed_topologies=topologies
    )
    assert decision.problem is not None
    assert "cannot simultaneously set allowed topologies and zone/zones parameters" == decision.problem.error
    assert {object_changed("pv1"), class_changed("sc")} == decision.waits_for
    assert (TellObstacle(Obstacle.CLASS),) == decision.actions


def test_P78_a_template_that_needs_the_claims_annotations_can_not_be_resolved():
    parameters = {**SECRET_PARAMETERS, "csi.storage.k8s.io/provisioner-secret-name": "${pvc.annotations['team']}"}
    decision = decided(pv_with(annotations=OURS, claimRef={"name": "c", "namespace": "ns"}), parameters=parameters)
    assert decision.problem is not None
    assert decision.problem.error.startswith("failed to get secretreference for volume pv1: error resolving value")
    assert (TellObstacle(Obstacle.SECRET),) == decision.actions
    assert {object_changed("pv1"), class_changed("sc")} == decision.waits_for


def test_P79_a_static_volume_gets_the_finalizer_once_it_is_bound():
    assert (Hold(),) == decided(pv_with(annotations={}, phase="Bound", finalizers=())).actions
    assert () == decided(pv_with(annotations={}, phase="Available", finalizers=())).actions
    assert () == decided(pv_with(annotations={}, phase="Bound", finalizers=(), deleting=True)).actions


def test_P79_a_static_volume_is_deleted_too():
    assert DELETE[:2] == decided(pv_with(annotations={}, finalizers=())).actions


def test_P80_a_bound_volume_that_a_user_deletes_waits_for_its_release():
    assert Decision(why.InUse("Bound")) == decided(pv_with(phase="Bound", deleting=True))
    assert (DeleteVolume("handle1"), Release()) == decided(pv_with(deleting=True)).actions, (
        "its deletion has been asked for already"
    )
    assert Decision(why.WithoutFinalizer()) == decided(pv_with(deleting=True, finalizers=()))


@each_row(
    ("facts", "what"),
    [({"has_controller": False}, "plugin CONTROLLER_SERVICE"), ({"creates": False}, "controller CREATE_DELETE_VOLUME")],
)
def test_P81_a_driver_that_can_not_delete_is_not_asked(facts: dict[str, bool], what: str):
    decision = decided(pv_with(), driver=dataclasses.replace(DriverCapabilities(DRIVER), **facts))
    assert decision.problem is not None
    assert (
        f"CSI driver does not support dynamic provisioning: {what} capability is not reported" == decision.problem.error
    )
    assert (TellObstacle(Obstacle.DRIVER),) == decision.actions


def test_P81_what_has_no_csi_source_can_not_be_deleted():
    decision = decided(pv_with(csi={}))
    assert decision.problem is not None
    assert "invalid CSI PV" == decision.problem.error
    assert (TellObstacle(Obstacle.SOURCE),) == decision.actions


def test_P81_an_in_tree_volume_is_deleted_under_its_drivers_handle():
    driver = DriverCapabilities("ebs.csi.aws.com", in_tree_name="kubernetes.io/aws-ebs")
    pv = pv_with(
        annotations={names.PROVISIONED_BY: "kubernetes.io/aws-ebs"}, csi={}, awsElasticBlockStore={"volumeID": "vol-1"}
    )
    assert DeleteVolume("vol-1", migrated=True, lacks_class="sc") == decided(pv, driver=driver).actions[0]
    odd = pv_with(
        annotations={names.PROVISIONED_BY: "kubernetes.io/aws-ebs"},
        csi={},
        awsElasticBlockStore={"volumeID": "aws://nothing"},
    )
    problem = decided(odd, driver=driver).problem
    assert problem is None or problem.error.startswith("failed to translate")


@each_row(
    ("affinity", "is_here"),
    [
        (None, True),
        ([{"key": "host", "operator": "In", "values": ["n1"]}], True),
        ([{"key": "host", "operator": "In", "values": ["n2"]}], False),
        ([{"key": "zone", "operator": "Exists"}], False),
    ],
)
def test_P90_a_node_deletes_what_it_can_reach(affinity: list[dict[str, Any]] | None, is_here: bool):
    terms = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": affinity}]}}} if affinity else {}
    decision = decided(pv_with(**terms), **on_node({"host": "n1"}))
    assert (DELETE if is_here else ()) == decision.actions
    assert is_here == (decision.because != why.Elsewhere("n1"))


def test_P74_what_was_done_is_not_done_again():
    """The cache shows neither the call nor, at first, the deletion of the object."""
    assert (DeleteObject(), Release()) == decided(pv_with(), progress={"pv1": Progress("uid1")}).actions
    assert (Release(),) == decided(pv_with(), progress={"pv1": Progress("uid1", object_deleted=True)}).actions
    assert () == decided(pv_with(finalizers=()), progress={"pv1": Progress("uid1", object_deleted=True)}).actions
    assert DELETE == decided(pv_with(), progress={"pv1": Progress("another")}).actions
    assert (DeleteObject(), Release()) == decided(pv_with(policy="Retain"), progress={"pv1": Progress("uid1")}).actions


def test_P76_reasons_are_told_in_words():
    everything = [
        decided(None),
        decided(pv_with()),
        decided(pv_with(phase="Bound")),
        decided(pv_with(policy="Retain")),
        decided(pv_with(csi={})),
    ]
    everything += [
        decided(pv_with(), attached=("n1",)),
        decided(pv_with(), **on_node({})),
        decided(pv_with(deleting=True, finalizers=())),
    ]
    assert all(" " in str(decision.because) for decision in everything)


def test_P76_inline_volumes_are_nobodys_attachment():
    inline = msgspec.convert({"metadata": {"name": "va"}, "spec": {"nodeName": "n", "source": {}}}, VolumeAttachment)
    assert keeps_attachment(inline) is None
