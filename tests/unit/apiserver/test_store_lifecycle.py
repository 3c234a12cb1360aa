"""The pure store: what a client sees of create, update, patch and delete."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.codec import FieldValidation, decode_object
from mooring.apiserver.patches import change_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules import LEASES, SECRETS, VOLUME_ATTACHMENTS
from mooring.apiserver.steps import DeleteOptions
from mooring.apiserver.store import ObjectStore, Written
from mooring.base.chance import Chance
from mooring.kube.cluster import PatchType
from mooring.kube.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound

NOW = 1_700_000_000.0
KEY = Key("", "va")


def a_store() -> ObjectStore:
    return new_store(Chance(1), NOW)


def a_va(name: str = "va", **metadata: Any) -> dict[str, Any]:
    spec = {"attacher": "d.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "pv-1"}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def decoded(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    return decode_object(resource, body, FieldValidation.STRICT, [])[0]


def create(store: ObjectStore, resource: Resource, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    return store.create(resource, decoded(resource, body), namespace, NOW).stored.whole()


def patch(store: ObjectStore, resource: Resource, key: Key, body: Any, kind: PatchType = PatchType.MERGE, subresource: str = "") -> Written:
    return store.patch(resource, key, change_of(resource, kind, body, FieldValidation.STRICT), NOW + 5, subresource=subresource)


def test_the_server_writes_its_fields_and_ignores_the_users():
    sent = a_va(uid="mine", creationTimestamp="2001-01-01T00:00:00Z", deletionTimestamp="2001-01-01T00:00:00Z")
    metadata = create(a_store(), VOLUME_ATTACHMENTS, sent)["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert "deletionTimestamp" not in metadata


def test_versions_grow_over_all_kinds_and_every_change_is_told_in_order():
    store = a_store()
    told: list[tuple[str, int]] = []
    store.on_change(lambda resource, change: told.append((resource.kind, change.rv)))
    create(store, VOLUME_ATTACHMENTS, a_va())
    create(store, SECRETS, {"metadata": {"name": "s"}}, "default")
    patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"labels": {"a": "b"}}})
    assert told == [("VolumeAttachment", 6), ("Secret", 7), ("VolumeAttachment", 8)]
    assert store.version == 8


def test_a_write_that_changes_nothing_is_none():
    store = a_store()
    made = create(store, VOLUME_ATTACHMENTS, a_va(labels={"a": "b"}))
    version = store.version
    for body in ({}, {"metadata": {"labels": {"a": "b"}}}, {"status": {"attached": True}}, {"metadata": {"annotations": {}}}):
        assert patch(store, VOLUME_ATTACHMENTS, KEY, body).stored.whole() == made
    assert store.version == version


def test_a_taken_name_is_refused_with_the_plural_in_details():
    store = a_store()
    create(store, VOLUME_ATTACHMENTS, a_va())
    with pytest.raises(AlreadyExists, match=r'volumeattachments.storage.k8s.io "va" already exists') as refused:
        create(store, VOLUME_ATTACHMENTS, a_va())
    assert refused.value.details == {"name": "va", "group": "storage.k8s.io", "kind": "volumeattachments"}


def test_generated_names_avoid_what_is_there():
    store = a_store()
    names = {create(store, SECRETS, {"metadata": {"generateName": "x" * 70}}, "default")["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert {name[:58] for name in names} == {"x" * 58}


def test_finalizers_hold_until_the_last_goes_and_the_answer_keeps_the_old_version():
    store = a_store()
    create(store, VOLUME_ATTACHMENTS, a_va(finalizers=["example.com/a", "example.com/b"]))
    marked = store.delete(VOLUME_ATTACHMENTS, KEY, NOW + 3)
    assert not marked.gone
    assert marked.stored.whole()["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:23Z"
    again = store.delete(VOLUME_ATTACHMENTS, KEY, NOW + 9)
    assert again.stored is marked.stored
    assert not patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"finalizers": ["example.com/b"]}}).gone
    assert patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"finalizers": None}}).gone
    with pytest.raises(NotFound):
        store.get(VOLUME_ATTACHMENTS, KEY)


@pytest.mark.parametrize("options", [DeleteOptions(uid="other"), DeleteOptions(resource_version="1")])
def test_a_precondition_that_fails_deletes_nothing(options: DeleteOptions):
    store = a_store()
    create(store, VOLUME_ATTACHMENTS, a_va())
    with pytest.raises(Conflict, match="does not match"):
        store.delete(VOLUME_ATTACHMENTS, KEY, NOW, options)
    assert store.get(VOLUME_ATTACHMENTS, KEY)


def test_put_needs_the_newest_version_where_the_kind_says_so():
    store = a_store()
    made = create(store, VOLUME_ATTACHMENTS, a_va())
    patch(store, VOLUME_ATTACHMENTS, KEY, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict, match="the object has been modified"):
        store.update(VOLUME_ATTACHMENTS, KEY, decoded(VOLUME_ATTACHMENTS, made), NOW)
    with pytest.raises(Invalid, match="must be specified for an update"):
        store.update(VOLUME_ATTACHMENTS, KEY, decoded(VOLUME_ATTACHMENTS, a_va()), NOW)


def test_put_of_a_missing_lease_creates_it():
    store = a_store()
    written = store.update(LEASES, Key("default", "l"), decoded(LEASES, {"metadata": {"name": "l"}, "spec": {}}), NOW)
    assert written.created
    with pytest.raises(NotFound):
        store.update(VOLUME_ATTACHMENTS, KEY, decoded(VOLUME_ATTACHMENTS, a_va()), NOW)


def test_a_version_on_create_is_refused():
    with pytest.raises(BadRequest, match="resourceVersion should not be set on objects to be created"):
        create(a_store(), VOLUME_ATTACHMENTS, a_va(resourceVersion="5"))


def test_dry_run_shows_and_stores_nothing():
    store = a_store()
    shown = store.create(VOLUME_ATTACHMENTS, decoded(VOLUME_ATTACHMENTS, a_va()), "", NOW, dry_run=True).stored.whole()
    assert shown["metadata"]["uid"]
    assert "resourceVersion" not in shown["metadata"]
    with pytest.raises(NotFound):
        store.get(VOLUME_ATTACHMENTS, KEY)
