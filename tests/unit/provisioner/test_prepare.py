"""From claim and class to a request and a volume, or to what is wrong: rows of (view, order). Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.core import PERSISTENT_VOLUMES, SECRETS, Node, PersistentVolumeClaim
from mooring.api.gateway import ReferenceGrant
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.storage import CSINode, StorageClass
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.store import Store
from mooring.kube.errors import NotFound
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.prepare import LeftToPopulator, prepared, prepared_again
from mooring.sidecars.provisioner.claims.view import Looked, NotLookedUp, View, Wanted
from mooring.sidecars.provisioner.intents.lease_codec import decoded, encoded
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import CLAIM_INDEXES, Source
from mooring.sidecars.provisioner.model.orders import Order, request_text
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed, State
from mooring.sidecars.provisioner.model.topology import ClusterTopology
from mooring.sidecars.provisioner.options import Rules
from tests.support.builders import Json, a_claim, a_class, a_content, a_pv, a_snapshot, typed
from tests.support.intents import an_entry
from tests.support.rows import each_row
from tests.support.stores import store_of

GiB = 1 << 30
PREFIX = "csi.storage.k8s.io/"
GROUP = "snapshot.storage.k8s.io"
RWO, RWOP, ROX, RWX = "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"
ABLE = DriverCapabilities("csi.test", snapshots=True, clones=True)


def asking(
    name: str = "c", namespace: str = "ns", *, annotations: Json | None = None, **spec: Any
) -> PersistentVolumeClaim:
    metadata = {
        "namespace": namespace,
        "uid": f"uid-of-{name}",
        "resourceVersion": "1",
        "annotations": annotations or {},
    }
    return typed(a_claim(name, **metadata, **spec))


def class_with(parameters: Json | None = None, **more: Any) -> StorageClass:
    return typed(a_class(**{"parameters": parameters or {}, "reclaimPolicy": "Delete", **more}))


def a_view(
    driver: DriverCapabilities = ABLE,
    rules: Rules | None = None,
    claims: tuple[Any, ...] = (),
    grants: tuple[ReferenceGrant, ...] = (),
) -> View:
    csi_nodes: Store[CSINode] = store_of()
    nodes: Store[Node] = store_of()
    return View(
        driver=driver,
        rules=rules or Rules(),
        claims=store_of(*claims, indexes=CLAIM_INDEXES),
        volumes=store_of(),
        classes=store_of(),
        csi_nodes=csi_nodes,
        nodes=nodes,
        grants=store_of(*grants),
        places=ClusterTopology(csi_nodes, nodes),
        intents={},
        records=ClaimRecords(),
    )


def an_order(
    claim: PersistentVolumeClaim, parameters: Json | None = None, looked: Looked | None = None, **view: Any
) -> Order:
    return prepared(a_view(**view), claim, class_with(parameters), looked or Looked())


def refused(
    claim: PersistentVolumeClaim, parameters: Json | None = None, looked: Looked | None = None, **view: Any
) -> AttemptFailed:
    with pytest.raises(AttemptFailed) as caught:
        an_order(claim, parameters, looked, **view)
    return caught.value


def volume_of(order: Order) -> Json:
    body: Json = msgspec.json.decode(order.intent.volume)
    return body


def looked_up(*objects: tuple[Any, Any]) -> Looked:
    return Looked({Wanted(kind, obj.metadata.name, obj.metadata.namespace): obj for kind, obj in objects})


# -- file systems, modes


@each_row(
    ("parameters", "default", "fs_type", "passed"),
    [
        pytest.param({"fstype": "xfs"}, "", "xfs", {"fstype": "xfs"}, id="P13"),
        pytest.param({PREFIX + "fstype": "xfs", "a": "b"}, "ext4", "xfs", {"a": "b"}, id="P14"),
        pytest.param({}, "ext4", "ext4", {}, id="P16-default"),
        pytest.param({}, "", "", {}, id="P16-none"),
    ],
)
def test_the_file_system(parameters, default, fs_type, passed):
    order = an_order(asking(), parameters, rules=Rules(default_fstype=default))
    assert fs_type == order.request.volume_capabilities[0].mount.fs_type
    assert passed == dict(order.request.parameters)
    assert fs_type == volume_of(order)["spec"]["csi"].get("fsType", "")


@each_row(
    ("parameters", "state"),
    [
        pytest.param({"fstype": "a", PREFIX + "fstype": "b"}, State.FINISHED, id="P15"),
        pytest.param({PREFIX + "foo": "b"}, State.FINISHED, id="P17"),
        pytest.param({PREFIX + "node-stage-secret-name": "s"}, State.NO_CHANGE, id="P26"),
    ],
)
def test_classes_that_can_not_be_used(parameters, state):
    assert state is refused(asking(), parameters).failure.state


def test_P18_a_block_volume_has_no_file_system():
    order = an_order(asking(volumeMode="Block"), {PREFIX + "fstype": "ext4"})
    [capability] = order.request.volume_capabilities
    assert "block" == capability.WhichOneof("access_type")
    assert "Block" == volume_of(order)["spec"]["volumeMode"]
    assert "fsType" not in volume_of(order)["spec"]["csi"]


@each_row(
    ("modes", "multi_writer", "numbers"),
    [
        ([RWO], False, [1]),
        pytest.param([RWO], True, [7], id="P19"),
        pytest.param([RWOP], False, [1], id="P20-without"),
        pytest.param([RWOP], True, [6], id="P20-with"),
        ([ROX], True, [3]),
        ([RWX], False, [5]),
        pytest.param([ROX, RWO], False, [3, 1], id="P21"),
        ([], False, []),
    ],
)
def test_one_capability_for_each_access_mode(modes, multi_writer, numbers):
    order = an_order(
        asking(accessModes=modes), driver=DriverCapabilities("csi.test", single_node_multi_writer=multi_writer)
    )
    assert numbers == [one.access_mode.mode for one in order.request.volume_capabilities]
    assert modes == volume_of(order)["spec"]["accessModes"]


def test_an_access_mode_that_nobody_knows():
    assert "unsupported AccessMode combination: [Odd]" == str(refused(asking(accessModes=["Odd"])))


@each_row(
    ("modes", "flag", "read_only"),
    [
        pytest.param([ROX], True, True, id="P22-on"),
        pytest.param([ROX], False, False, id="P22-off"),
        ([ROX, RWO], True, False),
    ],
)
def test_volumes_for_readers(modes, flag, read_only):
    order = an_order(asking(accessModes=modes), rules=Rules(controller_publish_readonly=flag))
    assert read_only is volume_of(order)["spec"]["csi"].get("readOnly", False)


def test_P23_mount_options():
    order = prepared(a_view(), asking(), class_with(mountOptions=["noatime"]), Looked())
    assert (
        ["noatime"]
        == order.request.volume_capabilities[0].mount.mount_flags
        == volume_of(order)["spec"]["mountOptions"]
    )


def test_P24_the_names_of_claim_and_volume_for_drivers_that_want_them():
    order = an_order(asking(), {"a": "b"}, rules=Rules(extra_create_metadata=True))
    extra = {PREFIX + "pvc/name": "c", PREFIX + "pvc/namespace": "ns", PREFIX + "pv/name": "pvc-uid-of-c"}
    assert {"a": "b", **extra} == dict(order.request.parameters)


# -- sizes


@each_row(("text", "size"), [("1500m", 2), ("1Gi", GiB), ("0", 0), ("8Ei", 2**63 - 1)])
def test_sizes_are_rounded_up(text, size):
    assert size == an_order(asking(size=text)).required_bytes


@each_row("text", ["9223372036854775808", "9e30", "1e9999"])
def test_a_size_that_64_bits_cannot_hold_is_refused(text):
    assert "a volume of 9223372036854775808 bytes can't be asked for" == str(refused(asking(size=text)))


def test_a_negative_size_is_refused():
    assert "a volume of -1073741824 bytes can't be asked for" == str(refused(asking(size="-1Gi")))


# -- secrets


def test_P25_the_provisioners_secret_is_read_first_and_never_in_the_intent():
    parameters = {PREFIX + "provisioner-secret-name": "s", PREFIX + "provisioner-secret-namespace": "ns"}
    with pytest.raises(NotLookedUp) as missing:
        an_order(asking(), parameters)
    assert Wanted(SECRETS, "s", "ns") == missing.value.wanted
    order = an_order(asking(), parameters, Looked({missing.value.wanted: {"password": "hidden"}}))
    assert "hidden" not in order.intent.request + order.intent.volume + repr(order)
    assert {"password": "hidden"} == dict(order.whole({"password": "hidden"}).secrets)
    notes = volume_of(order)["metadata"]["annotations"]
    assert ("s", "ns") == (notes[names.DELETION_SECRET_NAME], notes[names.DELETION_SECRET_NAMESPACE])


def test_P33_a_secret_that_is_missing():
    parameters = {PREFIX + "provisioner-secret-name": "s", PREFIX + "provisioner-secret-namespace": "ns"}
    looked = Looked({Wanted(SECRETS, "s", "ns"): NotFound('secrets "s" not found')})
    failed = refused(asking(), parameters, looked)
    assert 'error getting secret s in namespace ns: secrets "s" not found' == str(failed)
    assert State.NO_CHANGE is failed.failure.state


def test_every_kind_of_secret_has_its_place():
    kinds = {
        "controller-publish": "controllerPublishSecretRef",
        "node-stage": "nodeStageSecretRef",
        "node-publish": "nodePublishSecretRef",
        "controller-expand": "controllerExpandSecretRef",
        "node-expand": "nodeExpandSecretRef",
    }
    parameters: Json = {}
    for kind in (*kinds, "controller-modify"):
        parameters |= {f"{PREFIX}{kind}-secret-name": kind, f"{PREFIX}{kind}-secret-namespace": "of"}
    volume = volume_of(an_order(asking(), parameters))
    assert {field: {"name": kind, "namespace": "of"} for kind, field in kinds.items()}.items() <= volume["spec"][
        "csi"
    ].items()
    assert ("controller-modify", "of") == (
        volume["metadata"]["annotations"][names.MODIFY_SECRET_NAME],
        volume["metadata"]["annotations"][names.MODIFY_SECRET_NAMESPACE],
    )


def test_P29_the_default_secret_is_in_every_place():
    secret = {"name": "s", "namespace": "of"}
    looked = Looked({Wanted(SECRETS, "s", "of"): {}})
    volume = volume_of(an_order(asking(), {f"{PREFIX}secret-{key}": value for key, value in secret.items()}, looked))
    places = ("controllerPublish", "nodeStage", "nodePublish", "controllerExpand", "nodeExpand")
    assert {f"{place}SecretRef": secret for place in places}.items() <= volume["spec"]["csi"].items()
    notes = volume["metadata"]["annotations"]
    for name, namespace in (
        (names.DELETION_SECRET_NAME, names.DELETION_SECRET_NAMESPACE),
        (names.MODIFY_SECRET_NAME, names.MODIFY_SECRET_NAMESPACE),
    ):
        assert ("s", "of") == (notes[name], notes[namespace])


# -- sources


def test_P49_a_source_that_only_a_populator_knows():
    with pytest.raises(LeftToPopulator) as other:
        an_order(asking(dataSourceRef={"apiGroup": "x.io", "kind": "Foo", "name": "f"}))
    assert "Foo" == other.value.kind


def test_a_snapshot_of_another_group():
    failed = refused(asking(dataSource={"apiGroup": "x.io", "kind": "VolumeSnapshot", "name": "s"}))
    assert f"the PVC source does not belong to the right APIGroup. Expected {GROUP}, Got x.io" == str(failed)


FROM_SNAPSHOT = {"dataSource": {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "s"}}
READY = {"boundVolumeSnapshotContentName": "sc1", "readyToUse": True, "restoreSize": "1Gi"}


def snapshot_with(status: Json | None = None, **metadata: Any) -> VolumeSnapshot:
    body = a_snapshot("s", status={**READY, **(status or {})}, **{"namespace": "ns", "uid": "us", **metadata})
    return typed(body)


def content_with(
    annotations: Json | None = None, handle: str | None = "h", ref: Json | None = None, **spec: Any
) -> VolumeSnapshotContent:
    of = {"name": "s", "namespace": "ns", "uid": "us", **(ref or {})}
    return typed(a_content("sc1", of, handle=handle, annotations=annotations, **spec))


def with_snapshot(snapshot: VolumeSnapshot | None = None, content: VolumeSnapshotContent | None = None) -> Looked:
    return looked_up(
        (VOLUME_SNAPSHOTS, snapshot or snapshot_with()), (VOLUME_SNAPSHOT_CONTENTS, content or content_with())
    )


def test_P50_from_a_snapshot():
    order = an_order(asking(**FROM_SNAPSHOT), looked=with_snapshot())
    assert "h" == order.request.volume_content_source.snapshot.snapshot_id
    assert order.source is not None
    assert ("VolumeSnapshot", "ns", "s") == (order.source.kind, order.source.namespace, order.source.name)


def test_an_intent_says_what_its_volume_is_made_from():
    """Its claim may be gone when the call is repeated, and the source be needed still."""
    order = an_order(asking(**FROM_SNAPSHOT), looked=with_snapshot())
    assert Source("VolumeSnapshot", GROUP, "ns", "s") == order.intent.source
    assert order == prepared_again(a_view(), order.intent)
    entry = an_entry(order.intent)
    assert entry == decoded(encoded(entry))


def test_the_same_request_has_the_same_text_in_every_process():
    """Else the next process would take its own request for another one, and never get beyond the repetition of the
    first.
    """
    keys = [f"k{number}" for number in range(20)]
    one, other = (csi.CreateVolumeRequest(parameters=dict.fromkeys(order, "v")) for order in (keys, reversed(keys)))
    assert request_text(one) == request_text(other)


@each_row(
    ("snapshot", "content", "why"),
    [
        pytest.param(
            {"status": {"restoreSize": "2Gi"}},
            {},
            f"size {GiB} is less than the size {2 * GiB} for the source snapshot s",
            id="P51",
        ),
        pytest.param({"status": {"readyToUse": False}}, {}, "snapshot s is not Ready", id="P52-not-ready"),
        pytest.param(
            {"status": {"boundVolumeSnapshotContentName": None}}, {}, "snapshot s not bound", id="P52-not-bound"
        ),
        pytest.param({}, {"driver": "other"}, "is not handled by CSI driver of StorageClass sc", id="P52-other-driver"),
        pytest.param(
            {},
            {"ref": {"uid": "another"}},
            "snapshotcontent sc1 for snapshot s is bound to a different snapshot",
            id="P52-ref",
        ),
        pytest.param({}, {"handle": None}, "snapshot handle s is not available", id="no-handle"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, "snapshot s is being deleted", id="P53"),
    ],
)
def test_snapshots_that_can_not_be_restored(snapshot, content, why):
    failed = refused(asking(**FROM_SNAPSHOT), looked=with_snapshot(snapshot_with(**snapshot), content_with(**content)))
    assert str(failed).startswith("error getting handle for DataSource Type VolumeSnapshot by Name s: ")
    assert str(failed).endswith(why)
    assert State.NO_CHANGE is failed.failure.state
    assert {topics.snapshot("ns/s")} == failed.failure.heals


def test_P53_a_snapshot_that_is_held_for_us_may_be_going():
    going = snapshot_with(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[names.SNAPSHOT_FINALIZER])
    assert an_order(asking(**FROM_SNAPSHOT), looked=with_snapshot(going)).source is not None


@each_row("missing", [VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS])
def test_P52_what_is_not_there(missing):
    looked = with_snapshot()
    wanted = next(wanted for wanted in looked.found if wanted.kind is missing)
    looked.found[wanted] = NotFound("not found")
    assert str(refused(asking(**FROM_SNAPSHOT), looked=looked)).endswith("not found")


@each_row(
    ("allowed", "why"),
    [
        (None, "is not present on snapshotcontent sc1"),
        ("false", "is set to false on snapshotcontent sc1"),
        ("maybe", "failed to convert"),
        ("true", None),
        ("T", None),
    ],
)
def test_P54_another_volume_mode_than_the_snapshots(allowed, why):
    content = content_with({names.ALLOW_MODE_CHANGE: allowed} if allowed else {}, sourceVolumeMode="Filesystem")
    claim = asking(volumeMode="Block", **FROM_SNAPSHOT)
    if why is None:
        an_order(claim, looked=with_snapshot(content=content))
        return
    failed = refused(claim, looked=with_snapshot(content=content))
    assert (
        "requested volume ns/c modifies the mode of the source volume but does not have permission to do so. "
        in str(failed)
    )
    assert why in str(failed)
    an_order(claim, looked=with_snapshot(content=content), rules=Rules(prevent_volume_mode_conversion=False))


# -- clones

FROM_CLAIM = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "source"}}


def an_origin(
    phase: str = "Bound", *, deleting: bool = False, namespace: str = "ns", **kwargs: Any
) -> PersistentVolumeClaim:
    claim = asking("source", namespace, **{"volumeName": "pv", **kwargs})
    meta = msgspec.structs.replace(claim.metadata, deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None)
    return msgspec.structs.replace(claim, metadata=meta, status=msgspec.structs.replace(claim.status, phase=phase))


def origin_volume(
    phase: str = "Bound", driver: str = "csi.test", uid: str = "uid-of-source", namespace: str = "ns"
) -> Looked:
    ref = {"namespace": namespace, "name": "source", "uid": uid}
    source = {"csi": {"driver": driver, "volumeHandle": "h"}}
    return looked_up((PERSISTENT_VOLUMES, typed(a_pv(source=source, claimRef=ref, phase=phase))))


def test_P56_a_clone():
    order = an_order(asking(**FROM_CLAIM), looked=origin_volume(), claims=(an_origin(),))
    assert "h" == order.request.volume_content_source.volume.volume_id


def test_P59_a_clone_of_a_claim_of_another_class():
    an_order(asking(**FROM_CLAIM), looked=origin_volume(), claims=(an_origin(storageClassName="sc2"),))


NOT_THIS = "claim in dataSource not bound or invalid"


@each_row(
    ("origin", "volume", "why"),
    [
        pytest.param(
            {"phase": "Pending"},
            {},
            "the PVC DataSource source must have a status of Bound.  Got Pending",
            id="P57-pending",
        ),
        pytest.param(
            {"phase": "Lost"}, {}, "the PVC DataSource source must have a status of Bound.  Got Lost", id="P57-lost"
        ),
        pytest.param({"deleting": True}, {}, "the PVC DataSource source is currently being deleted", id="P57-deleting"),
        pytest.param({"size": "2Gi"}, {}, f"requested {GiB} but source is {2 * GiB}", id="P57-smaller"),
        pytest.param(
            {"storageClassName": None}, {}, "the source PVC (source) storageclass cannot be empty", id="no-class"
        ),
        pytest.param({"volumeName": ""}, {}, "volume name is empty in source PVC source", id="no-volume"),
        pytest.param({}, {"driver": "other"}, NOT_THIS, id="P58-other-driver"),
        pytest.param({}, {"phase": "Released"}, NOT_THIS, id="P58-released"),
        pytest.param({}, {"uid": "another"}, NOT_THIS, id="P58-of-another"),
        pytest.param({"volumeMode": "Block"}, {}, "Source is Block, but new PVC requested Filesystem", id="P60"),
    ],
)
def test_claims_that_can_not_be_cloned(origin, volume, why):
    failed = refused(asking(**FROM_CLAIM), looked=origin_volume(**volume), claims=(an_origin(**origin),))
    assert str(failed).startswith("error getting handle for DataSource Type PersistentVolumeClaim by Name source: ")
    assert str(failed).endswith(why)
    assert State.NO_CHANGE is failed.failure.state


def test_P58_the_source_or_its_volume_is_not_there():
    assert "not found" in str(refused(asking(**FROM_CLAIM), looked=origin_volume()))
    looked = Looked({Wanted(PERSISTENT_VOLUMES, "pv"): NotFound("not found")})
    assert str(refused(asking(**FROM_CLAIM), looked=looked, claims=(an_origin(),))).endswith(NOT_THIS)


@each_row(
    ("source", "ability", "why"),
    [
        (FROM_SNAPSHOT, "snapshots", "snapshot restore: controller CREATE_DELETE_SNAPSHOT"),
        (FROM_CLAIM, "clones", "CLONE_VOLUME"),
    ],
)
def test_drivers_that_can_not_copy(source, ability, why):
    failed = refused(
        asking(**source), driver=DriverCapabilities("csi.test", **{"snapshots": True, "clones": True, ability: False})
    )
    assert why in str(failed)
    assert str(failed).endswith("capability is not reported")


# -- other namespaces

AFAR = {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "source", "namespace": "far"}}
GATE = Rules(cross_namespace_data_source=True)


def a_grant(namespace: str = "far", sender: Json | None = None, called: str = "grant", **to: Any) -> ReferenceGrant:
    spec = {
        "from": [{"group": "", "kind": "PersistentVolumeClaim", "namespace": "ns", **(sender or {})}],
        "to": [{"group": "", "kind": "PersistentVolumeClaim", "name": "source", **to}],
    }
    return msgspec.convert({"metadata": {"name": called, "namespace": namespace}, "spec": spec}, ReferenceGrant)


def test_P62_with_the_gate_off_other_namespaces_are_out_of_reach():
    failed = refused(asking(**AFAR))
    assert "dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled" == str(failed)
    assert State.FINISHED is failed.failure.state


@each_row("to", [{}, {"name": None}, {"name": ""}])
def test_P63_a_grant_lets_the_claim_refer_to_it(to):
    order = an_order(
        asking(**AFAR),
        looked=origin_volume(namespace="far"),
        rules=GATE,
        claims=(an_origin(namespace="far"),),
        grants=(a_grant(**to),),
    )
    assert "far" == (order.source.namespace if order.source else "")


@each_row(
    "grants",
    [
        (),
        (a_grant(name="another"),),
        (a_grant(kind="VolumeSnapshot"),),
        (a_grant(group="x.io"),),
        (a_grant(namespace="ns"),),
        (a_grant(sender={"namespace": "elsewhere"}),),
        (a_grant(sender={"kind": "Pod"}),),
        (a_grant(sender={"kind": "Pod"}), a_grant(called="second", name="another")),
    ],
)
def test_P63_without_a_grant_that_says_both(grants):
    failed = refused(asking(**AFAR), rules=GATE, grants=grants)
    assert "accessing far/source of PersistentVolumeClaim dataSource from ns/c isn't allowed" == str(failed)
    assert {topics.grants("far")} == failed.failure.heals
