"""What each kind keeps, fills in and refuses: lines of docs/behaviours/api-server.md, on both servers."""

from __future__ import annotations

from tests.support.builders import a_csi_node, a_node, a_pv, a_va
from tests.support.paths import CSI_DRIVERS, CSI_NODES, NODES, PVS, VAS
from tests.support.rest import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Rest
from tests.support.rows import each_row

HOLD = "example.com/hold"


def test_AO01_a_new_attachment_is_not_attached(api: Rest, name: str) -> None:
    made = api.post(VAS, {**a_va(name), "status": {"attached": True}}).ok(201)
    assert {"attached": False} == made["status"]


def test_AO02_an_attachments_spec_is_immutable(api: Rest, name: str) -> None:
    made = api.post(VAS, a_va(name)).ok(201)
    made["spec"]["nodeName"] = "node-2"
    api.put(f"{VAS}/{name}", made).refused(422, "Invalid", ("FieldValueInvalid", "spec"), says="field is immutable")


def test_AO03_the_main_endpoint_ignores_status(api: Rest, name: str) -> None:
    made = api.post(VAS, a_va(name)).ok(201)
    before = made["metadata"]["resourceVersion"]
    made["status"]["attached"] = True
    with api.watch(VAS, resourceVersion=before, fieldSelector=f"metadata.name={name}") as watch:
        answer = api.put(f"{VAS}/{name}", made).ok()
        assert {"attached": False} == answer["status"]
        assert before == answer["metadata"]["resourceVersion"]
        api.patch(f"{VAS}/{name}", {"metadata": {"labels": {"a": "b"}}}).ok()
        assert [{"a": "b"}] == [event["object"]["metadata"].get("labels") for event in watch.take(1)]


@each_row("patch", ["merge", "strategic"])
def test_AO04_the_status_endpoint_of_an_attachment_changes_status_alone(api: Rest, name: str, patch: str) -> None:
    made = api.post(VAS, a_va(name, labels={"a": "1"}, finalizers=[HOLD])).ok(201)
    change = {
        "metadata": {"annotations": {"x": "y"}, "labels": {"a": "2"}, "finalizers": []},
        "spec": {"nodeName": "other"},
        "status": {"attached": True, "attachmentMetadata": {"dev": "/dev/x"}},
    }
    answer = api.patch(
        f"{VAS}/{name}/status", change, f"application/{patch}-patch+json".replace("strategic", "strategic-merge")
    ).ok()
    assert change["status"] == answer["status"]
    assert made["spec"] == answer["spec"]
    assert ({"a": "1"}, [HOLD], None) == tuple(
        answer["metadata"].get(field) for field in ("labels", "finalizers", "annotations")
    )


@each_row(("patch", "kept"), [(MERGE_PATCH, []), (STRATEGIC_PATCH, [HOLD])], ids=["merge", "strategic"])
def test_a_merge_patch_replaces_the_finalizers_and_a_strategic_one_adds_to_them(
    api: Rest, name: str, patch: str, kept: list[str]
) -> None:
    """Decision 0008."""
    api.post(VAS, a_va(name, finalizers=[HOLD])).ok(201)
    claim = {"metadata": {"annotations": {"example.com/node-id": "a"}, "finalizers": ["example.com/ours"]}}
    for _ in range(2):
        answer = api.patch(f"{VAS}/{name}", claim, patch).ok()
        assert {"example.com/ours", *kept} == set(answer["metadata"]["finalizers"])
        assert len(kept) + 1 == len(answer["metadata"]["finalizers"])


@each_row("error", ["attachError", "detachError"])
def test_AO05_an_error_text_has_1024_bytes_at_the_most(api: Rest, name: str, error: str) -> None:
    api.post(VAS, a_va(name)).ok(201)
    path, text = f"{VAS}/{name}/status", "ü" * 512
    api.patch(path, {"status": {error: {"message": text}}}).ok()
    wrong = api.patch(path, {"status": {error: {"message": text + "x"}}})
    wrong.refused(422, "Invalid", ("FieldValueTooLong", f"status.{error}.message"))


def test_AO06_AO07_AO08_a_finalizer_holds_a_deleted_object(api: Rest, name: str) -> None:
    path = f"{VAS}/{name}"
    made = api.post(VAS, a_va(name, finalizers=[HOLD])).ok(201)
    with api.watch(
        VAS, resourceVersion=made["metadata"]["resourceVersion"], fieldSelector=f"metadata.name={name}"
    ) as watch:
        held = api.delete(path).ok()
        assert held["metadata"]["deletionTimestamp"]
        assert 0 == held["metadata"]["deletionGracePeriodSeconds"]
        forbidden = ("FieldValueForbidden", "metadata.finalizers")
        added = api.patch(path, {"metadata": {"finalizers": [HOLD, "example.com/new"]}})
        added.refused(422, "Invalid", forbidden, says="no new finalizers can be added if the object is being deleted")
        last = api.patch(path, {"metadata": {"finalizers": None}}).ok()
        assert made["metadata"]["uid"] == last["metadata"]["uid"]
        api.get(path).refused(404, "NotFound")
        marked, gone = watch.take(2)
    assert ["MODIFIED", "DELETED"] == [marked["type"], gone["type"]]
    assert [HOLD] == gone["object"]["metadata"]["finalizers"], "DELETED carries the content of before"
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(held["metadata"]["resourceVersion"])


def test_AO09_a_json_patch_whose_test_fails_is_invalid_without_causes(api: Rest, name: str) -> None:
    made = api.post(VAS, a_va(name, labels={"a": "1"})).ok(201)
    operations = [
        {"op": "test", "path": "/metadata/labels/a", "value": "2"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    says = "the server rejected our request due to an error in our request"
    status = api.patch(f"{VAS}/{name}", operations, JSON_PATCH).refused(422, "Invalid", says=says)
    assert not status.get("details")
    assert made["metadata"]["resourceVersion"] == api.get(f"{VAS}/{name}").ok()["metadata"]["resourceVersion"]


def test_AO13_a_volumes_source_is_immutable(api: Rest, name: str) -> None:
    api.post(PVS, a_pv(name)).ok(201)
    api.patch(f"{PVS}/{name}/status", {"status": {"phase": "Bound"}}).ok()
    wrong = api.patch(f"{PVS}/{name}", {"spec": {"csi": {"volumeHandle": "other"}}})
    says = "spec.persistentvolumesource is immutable after creation"
    wrong.refused(422, "Invalid", ("FieldValueForbidden", "spec.persistentvolumesource"), says=says)


def test_AO14_a_volumes_expand_secret_may_be_set_once(api: Rest, name: str) -> None:
    api.post(PVS, a_pv(name)).ok(201)
    secret = {"name": "a", "namespace": "b"}
    api.patch(f"{PVS}/{name}", {"spec": {"csi": {"controllerExpandSecretRef": secret}}}).ok()
    again = api.patch(f"{PVS}/{name}", {"spec": {"csi": {"controllerExpandSecretRef": {"name": "c"}}}})
    again.refused(422, "Invalid", ("FieldValueForbidden", "spec.persistentvolumesource"))


def test_AO15_a_change_of_phase_is_timed(api: Rest, name: str) -> None:
    api.post(PVS, a_pv(name)).ok(201)
    path, since = f"{PVS}/{name}/status", "lastPhaseTransitionTime"
    given = api.patch(path, {"status": {"phase": "Available", since: "2001-01-01T00:00:00Z"}}).ok()
    assert "2001-01-01T00:00:00Z" == given["status"][since], "the client's time counts"
    bound = api.patch(path, {"status": {"phase": "Bound"}}).ok()
    assert bound["status"][since] > "2024"
    same = api.patch(path, {"status": {"message": "x"}}).ok()
    assert bound["status"][since] == same["status"][since]


def test_volumes_are_protected_from_the_start(api: Rest, name: str) -> None:
    finalizers = ["kubernetes.io/pv-protection"]
    assert finalizers == api.post(PVS, a_pv(name)).ok(201)["metadata"]["finalizers"]


def test_AO21_a_csi_nodes_entry_changes_in_its_allocatable_alone(api: Rest, name: str) -> None:
    driver = {"name": "d", "nodeID": "x", "topologyKeys": ["k"], "allocatable": {"count": 1}}
    api.post(CSI_NODES, a_csi_node(name, [driver])).ok(201)
    wrong = api.patch(f"{CSI_NODES}/{name}", {"spec": {"drivers": [{**driver, "nodeID": "y"}]}})
    wrong.refused(422, "Invalid", ("FieldValueInvalid", "spec.drivers"))
    changed = api.patch(f"{CSI_NODES}/{name}", {"spec": {"drivers": [{**driver, "allocatable": {"count": 2}}]}}).ok()
    assert {"count": 2} == changed["spec"]["drivers"][0]["allocatable"]


def test_AO22_attach_required_is_immutable_and_generation_counts_spec_changes(api: Rest, name: str) -> None:
    path = f"{CSI_DRIVERS}/{name}"
    assert "generation" not in api.post(CSI_DRIVERS, {"metadata": {"name": name}}).ok(201)["metadata"]
    wrong = api.patch(path, {"spec": {"attachRequired": False}})
    wrong.refused(422, "Invalid", ("FieldValueInvalid", "spec.attachedRequired"))
    assert 1 == api.patch(path, {"spec": {"podInfoOnMount": True}}).ok()["metadata"]["generation"]
    assert 1 == api.patch(path, {"metadata": {"labels": {"a": "b"}}}).ok()["metadata"]["generation"]


def test_AO45_volumes_attached_are_replaced_as_a_whole(api: Rest, name: str) -> None:
    attached = [{"name": "a", "devicePath": ""}, {"name": "b", "devicePath": "x"}]
    api.post(NODES, a_node(name, volumesAttached=attached, conditions=[{"type": "Ready", "status": "True"}])).ok(201)
    change = {"status": {"volumesAttached": [{"name": "c", "devicePath": ""}]}}
    answer = api.patch(f"{NODES}/{name}/status", change, STRATEGIC_PATCH).ok()
    assert change["status"]["volumesAttached"] == answer["status"]["volumesAttached"]
    assert ["Ready"] == [condition["type"] for condition in answer["status"]["conditions"]]


def test_AO46_conditions_merge_by_type(api: Rest, name: str) -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]
    api.post(NODES, a_node(name, conditions=conditions)).ok(201)
    change = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    answer = api.patch(f"{NODES}/{name}/status", change, STRATEGIC_PATCH).ok()
    found = {(condition["type"], condition["status"]) for condition in answer["status"]["conditions"]}
    assert {("Ready", "Unknown"), ("DiskPressure", "False")} == found
