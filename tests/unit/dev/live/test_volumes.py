"""The row of a volume at each stage of its life."""

from __future__ import annotations

import json

import pytest

from mooring.api.binding import PROVISIONER
from mooring.api.meta import Key, key_of
from mooring.api.volume_names import unique_name
from mooring.cluster.attachdetach import reasons as attachdetach
from mooring.control.reasons import reason
from mooring.control.result import TriesAgain
from mooring.csi.errors import DriverError
from mooring.dev.live.board import ObjectBoard, VolumeRow
from mooring.dev.live.model import Model
from mooring.driver.guard import CallRecord
from mooring.wire.grpc.codes import Code
from tests.support.builders import (
    DRIVER,
    Json,
    a_bound_claim,
    a_claim,
    a_csi_driver,
    a_new_snapshot,
    a_pod,
    a_pv,
    a_ready_node,
    a_snapshot,
    a_va,
    a_volume,
    an_attached_va,
    an_ephemeral_volume,
    typed,
)
from tests.support.rows import each_row

FIELDS = {
    "Node": "nodes",
    "CSINode": "csi_nodes",
    "Pod": "pods",
    "PersistentVolumeClaim": "claims",
    "PersistentVolume": "volumes",
    "VolumeAttachment": "attachments",
    "CSIDriver": "drivers",
    "VolumeSnapshot": "snapshots",
}
NODES = (a_ready_node("n1"), a_ready_node("n2"))
CLAIM, PV = a_bound_claim("data", "pv", uid="uid-data"), a_volume("pv", claim="data", phase="Bound")
ATTACHED, ATTACHING = an_attached_va("va", "pv", "n1"), a_va("va", "pv", "n1")
POD = a_pod("web", "data", node="n1")
ENDED = a_pod("web", "data", node="n1", phase="Succeeded")
RUNNING = a_pod("web", "data", node="n1", phase="Running")
GROWING = {"allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}
GROWS: Json = {**CLAIM, "status": {**CLAIM["status"], **GROWING}}
CHANGES: Json = {
    **CLAIM,
    "status": {
        **CLAIM["status"],
        "modifyVolumeStatus": {"status": "Pending", "targetVolumeAttributesClassName": "gold"},
    },
}
UNIQUE = unique_name(DRIVER, "pv")


@reason("{text}")
class Says:
    text: str


def objects(*bodies: Json) -> ObjectBoard:
    found: dict[str, list[object]] = {field: [] for field in FIELDS.values()}
    for body in bodies:
        found[FIELDS[body["kind"]]].append(typed(body))
    return ObjectBoard(**found)  # type: ignore[arg-type]


def a_call(rpc: str, error: DriverError | None = None, **request: str) -> CallRecord:
    return CallRecord(rpc, json.dumps({"volume_id": "pv", **request}), "" if error else "{}", error, 0.001)


STAGED = a_call("NodeStageVolume", staging_target_path="/s")
PUBLISHED = a_call("NodePublishVolume", target_path="/t")


def rows(
    *bodies: Json, calls: tuple[CallRecord, ...] = (), model: Model | None = None
) -> list[tuple[str, str, str, str, bool]]:
    """Claim, volume, node, stage, and whether it waits."""
    model = model or Model()
    for call in calls:
        model.called(call, "n1")
    return [
        (row.claim, row.volume, row.node, row.stage, row.waits)
        for row in model.board(objects(*NODES, *bodies), 0.0).volumes
    ]


@each_row(
    ("bodies", "calls", "expected"),
    [
        pytest.param([a_claim("data")], (), ("data", "", "", "Pending", True), id="no-volume"),
        pytest.param(
            [a_claim("data", namespace="prod")], (), ("prod/data", "", "", "Pending", True), id="of-a-namespace"
        ),
        pytest.param(
            [a_claim("data", annotations={PROVISIONER: DRIVER})], (), ("data", "", "", "Provisioning", True), id="asked"
        ),
        pytest.param(
            [a_claim("data", annotations={PROVISIONER: DRIVER}, uid="uid-data"), a_pv("pv", claim=CLAIM)],
            (),
            ("data", "pv", "", "Provisioning", True),
            id="made-not-bound",
        ),
        pytest.param([CLAIM, PV], (), ("data", "pv", "", "Bound", False), id="bound"),
        pytest.param([GROWS, PV], (), ("data", "pv", "", "Growing", True), id="growing"),
        pytest.param(
            [GROWS, PV, POD, ATTACHED], (STAGED, PUBLISHED), ("data", "pv", "n1", "Growing", True), id="growing-in-use"
        ),
        pytest.param(
            [GROWS, PV, POD, ATTACHING], (), ("data", "pv", "n1", "Attaching", True), id="growing-and-attaching"
        ),
        pytest.param([CHANGES, PV], (), ("data", "pv", "", "Modifying", True), id="modifying"),
        pytest.param([CLAIM, PV, a_pod("web", "data")], (), ("data", "pv", "", "Bound", True), id="pod-without-node"),
        pytest.param([CLAIM, PV, POD], (), ("data", "pv", "n1", "Attaching", True), id="to-be-attached"),
        pytest.param([CLAIM, PV, POD, ATTACHING], (), ("data", "pv", "n1", "Attaching", True), id="attaching"),
        pytest.param([CLAIM, PV, POD, ATTACHED], (), ("data", "pv", "n1", "Attached", True), id="attached"),
        pytest.param([CLAIM, PV, POD, ATTACHED], (STAGED,), ("data", "pv", "n1", "Staged", True), id="staged"),
        pytest.param(
            [CLAIM, PV, POD, ATTACHED], (STAGED, PUBLISHED), ("data", "pv", "n1", "Published", False), id="published"
        ),
        pytest.param(
            [CLAIM, PV, RUNNING, ATTACHED], (), ("data", "pv", "n1", "Published", False), id="mounted-before-our-start"
        ),
        pytest.param(
            [CLAIM, PV, POD, a_pod("web-2", "data", node="n1"), ATTACHED],
            (STAGED, PUBLISHED),
            ("data", "pv", "n1", "Published", True),
            id="for-one-pod-of-two",
        ),
        pytest.param(
            [CLAIM, PV, POD, ATTACHED],
            (STAGED, a_call("NodePublishVolume", DriverError(Code.INTERNAL, "no"), target_path="/t")),
            ("data", "pv", "n1", "Staged", True),
            id="publish-failed",
        ),
        pytest.param(
            [CLAIM, PV, ATTACHED], (STAGED, PUBLISHED), ("data", "pv", "n1", "Published", True), id="pod-gone"
        ),
        pytest.param(
            [CLAIM, PV, ATTACHED],
            (STAGED, PUBLISHED, a_call("NodeUnpublishVolume", target_path="/t")),
            ("data", "pv", "n1", "Staged", True),
            id="unpublished",
        ),
        pytest.param(
            [CLAIM, PV, ATTACHED],
            (STAGED, a_call("NodeUnstageVolume", staging_target_path="/s")),
            ("data", "pv", "n1", "Attached", True),
            id="unstaged",
        ),
        pytest.param(
            [CLAIM, PV, a_va("va", "pv", "n1", deleting=True)],
            (),
            ("data", "pv", "n1", "Detaching", True),
            id="detaching",
        ),
        pytest.param(
            [a_csi_driver(attachRequired=False), CLAIM, PV, POD],
            (),
            ("data", "pv", "n1", "Bound", True),
            id="a-driver-without-attach",
        ),
        pytest.param(
            [a_csi_driver(attachRequired=False), CLAIM, PV, POD],
            (PUBLISHED,),
            ("data", "pv", "n1", "Published", False),
            id="published-without-attach",
        ),
        pytest.param(
            [CLAIM, PV, a_pod("web", "data", node="n1", phase="Succeeded")],
            (),
            ("data", "pv", "", "Bound", False),
            id="finished",
        ),
        pytest.param(
            [a_bound_claim("p-scratch", "pv"), PV, a_pod("p", node="n1", volumes=[an_ephemeral_volume()]), ATTACHED],
            (),
            ("p-scratch", "pv", "n1", "Attached", True),
            id="a-volume-of-the-pods-own",
        ),
        pytest.param([{**CLAIM, "status": {"phase": "Lost"}}], (), ("data", "", "", "Lost", True), id="lost"),
        pytest.param([a_claim("data", deleting=True)], (), ("data", "", "", "Deleting", True), id="claim-goes"),
        pytest.param(
            [a_bound_claim("data", "pv", deleting=True), PV, RUNNING, ATTACHED],
            (),
            ("data", "pv", "n1", "Deleting", True),
            id="kept-in-use",
        ),
        pytest.param([a_volume("pv")], (), ("", "pv", "", "Available", False), id="a-free-volume"),
        pytest.param(
            [a_volume("pv", claim="gone", phase="Released")], (), ("gone", "pv", "", "Released", False), id="kept"
        ),
        pytest.param(
            [a_volume("pv", claim="gone", phase="Released", policy="Delete")],
            (),
            ("gone", "pv", "", "Deleting", True),
            id="deleted",
        ),
        pytest.param(
            [a_volume("pv", claim="gone", phase="Released"), ATTACHED],
            (),
            ("gone", "pv", "n1", "Attached", True),
            id="released-attached",
        ),
        pytest.param([a_volume("pv", phase="Failed")], (), ("", "pv", "", "Failed", True), id="failed"),
        pytest.param(
            [a_va("va", "nowhere", "n1")], (), ("", "nowhere", "n1", "Attaching", True), id="attachment-without-volume"
        ),
    ],
)
def test_stages(bodies: list[Json], calls: tuple[CallRecord, ...], expected: tuple[str, str, str, str, bool]) -> None:
    assert [expected] == rows(*bodies, calls=calls)


DISK = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"
OWN = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": DISK}}
USER = a_pod("user", volumes=[{"name": "own", "gcePersistentDisk": {"pdName": "disk"}}], node="n1")
NAME = "pd.csi.storage.gke.io-disk"


@each_row(
    ("bodies", "expected"),
    [
        pytest.param([USER], ("", NAME, "n1", "Attaching", True), id="asked-for"),
        pytest.param([USER, a_va("va", None, "n1", inline=OWN)], ("", NAME, "n1", "Attaching", True), id="attaching"),
        pytest.param(
            [{**USER, "status": {"phase": "Running"}}, a_va("va", None, "n1", inline=OWN, status={"attached": True})],
            ("", NAME, "n1", "Published", False),
            id="runs",
        ),
        pytest.param(
            [a_va("va", None, "n1", inline=OWN, status={"attached": True})],
            ("", DISK, "n1", "Attached", True),
            id="pod-gone",
        ),
    ],
)
def test_a_disk_that_a_pod_names_itself_has_a_row(
    bodies: list[Json], expected: tuple[str, str, str, str, bool]
) -> None:
    """27 A1."""
    assert [expected] == rows(*bodies)


def test_a_volume_on_two_nodes_has_two_rows() -> None:
    thief = a_pod("thief", "data", node="n2")
    assert [("data", "pv", "n1", "Published", False), ("data", "pv", "n2", "Attaching", True)] == rows(
        CLAIM, PV, RUNNING, ATTACHED, thief
    )


def test_nothing_is_mounted_on_a_node_whose_power_was_cut() -> None:
    model = Model()
    model.called(STAGED, "n1")
    model.lost("n1")
    assert [("data", "pv", "", "Bound", False)] == rows(CLAIM, PV, model=model)


def test_the_calls_of_one_node_say_nothing_of_another() -> None:
    model = Model()
    model.called(STAGED, "n2")
    assert ("data", "pv", "n1", "Attached", True) in rows(CLAIM, PV, POD, ATTACHED, model=model)


# -- reasons


def the_row(*bodies: Json, model: Model, now: float = 0.0) -> VolumeRow:
    (row,) = model.board(objects(*NODES, *bodies), now).volumes
    return row


@each_row(
    ("bodies", "who", "queue", "key"),
    [
        pytest.param([a_claim("data")], "binder", "claims", Key("default", "data"), id="pending"),
        pytest.param(
            [a_claim("data", annotations={PROVISIONER: DRIVER}, uid="uid-data")],
            "provisioner",
            "claims",
            "uid-data",
            id="provisioning",
        ),
        pytest.param([CLAIM, PV, POD], "attach-detach", "attachdetach-volumes", (UNIQUE, "n1"), id="to-be-attached"),
        pytest.param([CLAIM, PV, POD, ATTACHING], "attacher", "csi-attacher-va", "va", id="attaching"),
        pytest.param([CLAIM, PV, POD, ATTACHED], "n1", "node-volumes", UNIQUE, id="attached"),
        pytest.param(
            [CLAIM, PV, ATTACHED], "attach-detach", "attachdetach-volumes", (UNIQUE, "n1"), id="to-be-detached"
        ),
        pytest.param(
            [CLAIM, PV, a_va("va", "pv", "n1", deleting=True)], "attacher", "csi-attacher-va", "va", id="detaching"
        ),
        pytest.param(
            [a_claim("data", deleting=True)], "binder", "pvcprotection", Key("default", "data"), id="claim-goes"
        ),
        pytest.param([a_volume("pv", phase="Failed", deleting=True)], "provisioner", "volumes", "pv", id="volume-goes"),
    ],
)
def test_the_reason_is_that_of_the_controller_whose_turn_it_is(
    bodies: list[Json], who: str, queue: str, key: object
) -> None:
    model = Model()
    for other_who, other_queue in (("binder", "other"), ("n2", "node-volumes"), (who, queue)):
        model.explained(other_who, other_queue, key, Says(f"{other_who} says so"), 0.0)
    assert f"{who} says so" == the_row(*bodies, model=model).text


def test_a_pod_that_finds_no_node_is_the_reason() -> None:
    model = Model()
    model.explained("binder", "scheduler", Key("default", "web"), Says("0/2 nodes are available"), 0.0)
    assert "pod web: 0/2 nodes are available" == the_row(CLAIM, PV, a_pod("web", "data"), model=model).text


def test_of_the_steps_of_a_volume_each_node_has_its_own() -> None:
    model, thief = Model(), a_pod("thief", "data", node="n2")
    for because in (attachdetach.Attached("n1"), attachdetach.Blocked("n2", "held")):
        model.explained("attach-detach", "attachdetach-volumes", (UNIQUE, because.node), because, 0.0)
    board = model.board(objects(*NODES, CLAIM, PV, RUNNING, ATTACHED, thief), 0.0)
    assert ["pod web", 'can not be attached to node "n2": held'] == [row.text for row in board.volumes]


def test_a_countdown_goes_on_and_ends_at_nothing() -> None:
    model = Model()
    model.explained("attacher", "csi-attacher-va", "va", TriesAgain("failed", 8.0), 10.0)
    shown = [the_row(CLAIM, PV, POD, ATTACHING, model=model, now=now).text for now in (10.0, 13.0, 99.0)]
    assert ["failed; next try in 8 s", "failed; next try in 5 s", "failed; next try in 0 s"] == shown


def test_an_error_of_an_earlier_process_is_shown_until_somebody_says_more() -> None:
    failed = a_va("va", "pv", "n1", status={"attachError": {"message": "no room"}})
    assert "no room" == the_row(CLAIM, PV, POD, failed, model=Model()).text


def test_the_wait_is_counted_from_the_beginning_of_its_stage() -> None:
    model = Model()
    assert 0.0 == the_row(CLAIM, PV, POD, model=model, now=5.0).for_s
    model.explained("attach-detach", "attachdetach-volumes", (UNIQUE, "n1"), Says("another reason"), 6.0)
    assert 4.0 == the_row(CLAIM, PV, POD, ATTACHING, model=model, now=9.0).for_s
    assert 0.0 == the_row(CLAIM, PV, POD, ATTACHED, model=model, now=9.0).for_s
    assert the_row(CLAIM, PV, RUNNING, ATTACHED, model=model, now=9.0).for_s is None
    another = a_pod("web-2", "data", node="n1")
    assert 0.0 == the_row(CLAIM, PV, RUNNING, another, ATTACHED, model=model, now=99.0).for_s, (
        "the same stage, at rest until now"
    )


def test_who_uses_a_volume_at_rest() -> None:
    pods = [a_pod(name, "data", node="n1", phase="Running") for name in ("c", "a", "b")]
    assert "pods a, b and 1 more" == the_row(CLAIM, PV, ATTACHED, *pods, model=Model()).text


def test_a_pod_on_a_silent_node_keeps_the_volume_there() -> None:
    silent = {**a_ready_node("n1"), "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    (row,) = Model().board(objects(silent, CLAIM, PV, RUNNING, ATTACHED), 0.0).volumes
    assert ("Published", True, "pod web, on a node that is Unknown") == (row.stage, row.waits, row.text)


def test_each_event_tells_that_the_board_may_be_another() -> None:
    heard: list[bool] = []
    model = Model(lambda: heard.append(True))
    model.called(STAGED, "n1")
    model.explained("binder", "claims", Key("", "a"), Says("so"), 0.0)
    model.lost("n1")
    assert [True] * 3 == heard


@each_row(
    ("claim", "conditions", "text"),
    [
        (GROWS, {}, "to 2Gi"),
        (GROWS, {"FileSystemResizePending": "Waiting for its node"}, "Waiting for its node"),
        (
            GROWS,
            {"FileSystemResizePending": "Waiting for its node", "NodeResizeError": "the disk is on fire"},
            "the disk is on fire",
        ),
        (CHANGES, {}, "to the class gold: Pending"),
        (CHANGES, {"ModifyVolumeError": "gold is sold out"}, "gold is sold out"),
    ],
)
def test_what_a_change_waits_for_is_told_in_the_claims_own_words(
    claim: Json, conditions: dict[str, str], text: str
) -> None:
    told = [{"type": kind, "status": "True", "message": message} for kind, message in conditions.items()]
    (row,) = Model().board(objects({**claim, "status": {**claim["status"], "conditions": told}}, PV), 0.0).volumes
    assert text == row.text


def test_a_snapshot_is_shown_while_it_waits() -> None:
    """For its content, for the driver, and for its end; in the words of who waits, or of its error."""
    model = Model()
    fresh, ready = a_new_snapshot("shelf"), a_snapshot("kept", status={"readyToUse": True})
    model.explained(
        "snapshot-controller",
        "snapshot-controller-snapshot",
        key_of(typed(fresh)),
        Says("its class is missing"),
        0.0,
    )
    (row,) = model.board(objects(fresh, ready), 0.0).volumes
    assert ("snapshot shelf", "Creating", "its class is missing", True) == (row.claim, row.stage, row.text, row.waits)
    failed = {
        **fresh,
        "status": {"boundVolumeSnapshotContentName": "content", "readyToUse": False, "error": {"message": "no room"}},
    }
    (row,) = model.board(objects(failed), 0.0).volumes
    assert ("content", "no room") == (row.volume, row.text)
    leaving = {**ready, "metadata": {**ready["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    (row,) = model.board(objects(leaving), 0.0).volumes
    assert "Deleting" == row.stage
