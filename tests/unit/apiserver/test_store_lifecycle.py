"""The pure store: what a client sees of create, update, patch and delete."""

from __future__ import annotations

import pytest

from mooring.api.meta import Key
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.rules import EVENTS, LEASES, NAMESPACES, SECRETS, VOLUME_ATTACHMENTS
from mooring.apiserver.rules.node import NODES
from mooring.apiserver.store import ObjectStore
from mooring.kube.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound
from tests.support.builders import a_va
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, a_store, create, decoded, patch

KEY = Key("", "va")


def test_the_server_writes_its_fields_and_ignores_the_users() -> None:
    sent = a_va("va", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", deletionTimestamp="2001-01-01T00:00:00Z")
    metadata = create(a_store(), VOLUME_ATTACHMENTS, sent)["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert "deletionTimestamp" not in metadata


def test_versions_grow_over_all_kinds_and_every_change_is_told_in_order(store: ObjectStore) -> None:
    told: list[tuple[str, int]] = []
    store.on_change(lambda resource, change: told.append((resource.kind, change.rv)))
    create(store, VOLUME_ATTACHMENTS, a_va("va"))
    create(store, SECRETS, {"metadata": {"name": "s"}}, "default")
    patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"labels": {"a": "b"}}})
    assert told == [("VolumeAttachment", 6), ("Secret", 7), ("VolumeAttachment", 8)]
    assert store.version == 8


def test_a_write_that_changes_nothing_is_none(store: ObjectStore) -> None:
    made = create(store, VOLUME_ATTACHMENTS, a_va("va", labels={"a": "b"}))
    version = store.version
    for body in (
        {},
        {"metadata": {"labels": {"a": "b"}}},
        {"status": {"attached": True}},
        {"metadata": {"annotations": {}}},
    ):
        assert patch(store, VOLUME_ATTACHMENTS, KEY, body).stored.whole() == made
    assert store.version == version


def test_a_node_that_is_stored_without_its_info_can_be_tainted(store: ObjectStore) -> None:
    key, taint = Key("", "n"), {"key": "a", "effect": "NoSchedule"}
    create(store, NODES, {"metadata": {"name": "n"}})
    store.amend(NODES, key, lambda node: node["status"].pop("nodeInfo"), NOW)
    written = store.patch(NODES, key, lambda node: {**node, "spec": {"taints": [taint]}}, NOW).stored.whole()
    assert written["spec"]["taints"] == [taint]


def test_a_put_for_an_object_that_is_gone_makes_no_other_one(store: ObjectStore) -> None:
    """A Lease may be made by a PUT: not by one that means another Lease, by its uid."""
    lease = create(store, LEASES, {"metadata": {"name": "l"}}, "default")
    store.delete(LEASES, Key("default", "l"), NOW)
    with pytest.raises(Conflict, match=r"UID in object meta: $"):
        store.update(LEASES, Key("default", "l"), decoded(LEASES, lease), NOW)
    del lease["metadata"]["uid"]
    store.update(LEASES, Key("default", "l"), decoded(LEASES, lease), NOW)


def test_a_taken_name_is_refused_with_the_plural_in_details(store: ObjectStore) -> None:
    create(store, VOLUME_ATTACHMENTS, a_va("va"))
    with pytest.raises(AlreadyExists, match=r'volumeattachments.storage.k8s.io "va" already exists') as refused:
        create(store, VOLUME_ATTACHMENTS, a_va("va"))
    assert refused.value.details == {"name": "va", "group": "storage.k8s.io", "kind": "volumeattachments"}


def test_generated_names_avoid_what_is_there(store: ObjectStore) -> None:
    names = {
        create(store, SECRETS, {"metadata": {"generateName": "x" * 70}}, "default")["metadata"]["name"]
        for _ in range(20)
    }
    assert len(names) == 20
    assert {name[:58] for name in names} == {"x" * 58}


def test_the_largest_generation_stays_and_the_object_can_go(store: ObjectStore) -> None:
    create(
        store, SECRETS, {"metadata": {"name": "s", "generation": 2**63 - 1, "finalizers": ["example.com/a"]}}, "default"
    )
    store.delete(SECRETS, Key("default", "s"), NOW)
    patch(store, SECRETS, Key("default", "s"), {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        store.get(SECRETS, Key("default", "s"))


def test_finalizers_hold_until_the_last_goes_and_the_answer_keeps_the_old_version(store: ObjectStore) -> None:
    create(store, VOLUME_ATTACHMENTS, a_va("va", finalizers=["example.com/a", "example.com/b"]))
    marked = store.delete(VOLUME_ATTACHMENTS, KEY, NOW + 3)
    assert not marked.gone
    assert marked.stored.whole()["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:23Z"
    again = store.delete(VOLUME_ATTACHMENTS, KEY, NOW + 9)
    assert again.stored is marked.stored
    assert not patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"finalizers": ["example.com/b"]}}).gone
    assert patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"finalizers": None}}).gone
    with pytest.raises(NotFound):
        store.get(VOLUME_ATTACHMENTS, KEY)


def test_what_is_being_deleted_gets_no_new_finalizers(store: ObjectStore) -> None:
    """By no way of writing; those that are there may stay or go."""
    create(store, VOLUME_ATTACHMENTS, a_va("va", finalizers=["example.com/a", "example.com/b"]))
    store.delete(VOLUME_ATTACHMENTS, KEY, NOW + 3)
    text = (
        r"no new finalizers can be added if the object is being deleted, found new finalizers "
        r'\[\]string{"example.com/c"}'
    )
    with pytest.raises(Invalid, match=text):
        patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"finalizers": ["example.com/a", "example.com/c"]}})
    put = store.get(VOLUME_ATTACHMENTS, KEY).whole()
    put["metadata"]["finalizers"] = ["example.com/a", "example.com/b", "example.com/c"]
    with pytest.raises(Invalid, match=text):
        store.update(VOLUME_ATTACHMENTS, KEY, decoded(VOLUME_ATTACHMENTS, put), NOW)
    assert not patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"finalizers": ["example.com/a"]}}).gone
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}})
    assert ["example.com/a"] == store.get(VOLUME_ATTACHMENTS, KEY).whole()["metadata"]["finalizers"]


@pytest.mark.parametrize("options", [DeleteOptions(uid="other"), DeleteOptions(resource_version="1")])
def test_a_precondition_that_fails_deletes_nothing(store: ObjectStore, options: DeleteOptions) -> None:
    create(store, VOLUME_ATTACHMENTS, a_va("va"))
    with pytest.raises(Conflict, match="does not match"):
        store.delete(VOLUME_ATTACHMENTS, KEY, NOW, options)
    assert store.get(VOLUME_ATTACHMENTS, KEY)


def test_put_needs_the_newest_version_where_the_kind_says_so(store: ObjectStore) -> None:
    made = create(store, VOLUME_ATTACHMENTS, a_va("va"))
    patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict, match="the object has been modified"):
        store.update(VOLUME_ATTACHMENTS, KEY, decoded(VOLUME_ATTACHMENTS, made), NOW)
    with pytest.raises(Invalid, match="must be specified for an update"):
        store.update(VOLUME_ATTACHMENTS, KEY, decoded(VOLUME_ATTACHMENTS, a_va("va")), NOW)


def test_put_of_a_missing_lease_creates_it(store: ObjectStore) -> None:
    written = store.update(LEASES, Key("default", "l"), decoded(LEASES, {"metadata": {"name": "l"}, "spec": {}}), NOW)
    assert written.created
    with pytest.raises(NotFound):
        store.update(VOLUME_ATTACHMENTS, KEY, decoded(VOLUME_ATTACHMENTS, a_va("va")), NOW)


def test_a_version_on_create_is_refused() -> None:
    with pytest.raises(BadRequest, match="resourceVersion should not be set on objects to be created"):
        create(a_store(), VOLUME_ATTACHMENTS, a_va("va", resourceVersion="5"))


def test_dry_run_shows_and_stores_nothing(store: ObjectStore) -> None:
    shown = store.create(
        VOLUME_ATTACHMENTS, decoded(VOLUME_ATTACHMENTS, a_va("va")), "", NOW, dry_run=True
    ).stored.whole()
    assert shown["metadata"]["uid"]
    assert "resourceVersion" not in shown["metadata"]
    with pytest.raises(NotFound):
        store.get(VOLUME_ATTACHMENTS, KEY)


def test_AO26_an_event_is_gone_an_hour_after_its_last_write(store: ObjectStore) -> None:
    removed: list[str] = []
    store.on_change(lambda resource, change: removed.append(change.key.name) if change.new is None else None)
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    for name in ("old", "renewed"):
        create(store, EVENTS, {"metadata": {"name": name}, "involvedObject": about}, "default")
    patch(store, EVENTS, Key("default", "renewed"), {"count": 2}, now=NOW + 1800)
    store.sweep(NOW + 3599)
    assert [] == removed
    store.sweep(NOW + 3600)
    assert ["old"] == removed
    store.sweep(NOW + 5400)
    assert ["old", "renewed"] == removed
    with pytest.raises(NotFound):
        store.get(EVENTS, Key("default", "renewed"))


@each_row("place", range(4))
def test_an_event_of_a_clock_that_was_ahead_delays_no_other_and_goes_itself(place: int) -> None:
    """A machine that wakes up before its clock is set."""
    store, about = a_store(), {"kind": "Pod", "namespace": "default", "name": "p"}
    for number in range(4):
        ahead = 30 * 86_400.0 if number == place else 0.0
        create(
            store,
            EVENTS,
            {"metadata": {"name": f"e{number}"}, "involvedObject": about},
            "default",
            now=NOW + number + ahead,
        )
    left = []
    for seconds in (10, 3599, 3609, 3619, 7220):
        store.sweep(NOW + seconds)
        left.append(len(store.table(EVENTS)))
    assert (4, 4, 0) == (left[0], left[1], left[4])
    assert left[3] <= 1, "those of the right time go in theirs"


def test_what_expires_at_once_goes_in_several_turns(store: ObjectStore) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    for number in range(1200):
        create(store, EVENTS, {"metadata": {"name": f"e{number}"}, "involvedObject": about}, "default")
    assert [False, False, True] == [store.sweep(NOW + 3600) for _ in range(3)]
    assert 0 == len(store.table(EVENTS))


def test_nothing_is_made_in_a_terminating_namespace(store: ObjectStore) -> None:
    create(store, NAMESPACES, {"metadata": {"name": "ns"}})
    marked = store.delete(NAMESPACES, Key("", "ns"), NOW)
    assert (False, "Terminating") == (marked.gone, marked.stored.whole()["status"]["phase"])
    with pytest.raises(Forbidden, match="because it is being terminated") as refused:
        create(store, SECRETS, {"metadata": {"name": "s"}}, "ns")
    assert [("NamespaceTerminating", "metadata.namespace")] == [
        (c["reason"], c["field"]) for c in refused.value.details["causes"]
    ]


@each_row("name", ["default", "kube-system", "kube-public"])
def test_the_systems_namespaces_stay(name: str) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        a_store().delete(NAMESPACES, Key("", name), NOW)


def test_a_body_that_was_handed_in_is_not_shared_with_the_store(store: ObjectStore) -> None:
    body = decoded(VOLUME_ATTACHMENTS, a_va("va", labels={"a": "b"}))
    store.create(VOLUME_ATTACHMENTS, body, "", NOW)
    body["metadata"]["labels"]["a"] = "changed"
    first = store.get(VOLUME_ATTACHMENTS, KEY).whole()
    first["metadata"]["labels"]["a"] = "changed too"
    assert {"a": "b"} == store.get(VOLUME_ATTACHMENTS, KEY).whole()["metadata"]["labels"]
    assert {"a": "b"} == store.get(VOLUME_ATTACHMENTS, KEY).labels
