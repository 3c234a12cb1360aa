"""The rules of the snapshot kinds, on both servers. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import Json, a_new_content, a_new_snapshot
from tests.support.customkinds import DEFINITIONS
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.waiting import eventually

ROOT = "/apis/snapshot.storage.k8s.io/v1"
SNAPSHOTS, CONTENTS = f"{ROOT}/namespaces/default/volumesnapshots", f"{ROOT}/volumesnapshotcontents"


@pytest.fixture
def kinds(api: Rest) -> Rest:
    """A server that has the snapshot kinds."""
    for definition in SNAPSHOT_CRDS:
        assert api.post(DEFINITIONS, definition).status in (201, 409)
    for path in (SNAPSHOTS, CONTENTS):
        eventually(lambda path=path: api.get(path).status == 200, 30, f"{path} is served")
    return api


def a_snapshot_with(**spec: Any) -> Json:
    body = a_new_snapshot()
    return {**body, "spec": {**body["spec"], **spec}}


def a_content_with(**spec: Any) -> Json:
    body = a_new_content()
    return {**body, "spec": {**body["spec"], **spec}}


CREATED: dict[str, tuple[str, Json, str]] = {
    "two sources": (
        SNAPSHOTS,
        a_snapshot_with(source={"persistentVolumeClaimName": "a", "volumeSnapshotContentName": "b"}),
        "exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set",
    ),
    "no source": (
        SNAPSHOTS,
        a_snapshot_with(source={}),
        "exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set",
    ),
    "empty class": (
        SNAPSHOTS,
        a_snapshot_with(volumeSnapshotClassName=""),
        "volumeSnapshotClassName must not be the empty string when set",
    ),
    "two handles": (
        CONTENTS,
        a_content_with(source={"volumeHandle": "a", "snapshotHandle": "b"}),
        "exactly one of volumeHandle and snapshotHandle must be set",
    ),
    "reference without namespace": (
        CONTENTS,
        a_content_with(volumeSnapshotRef={"name": "a"}),
        "both spec.volumeSnapshotRef.name and spec.volumeSnapshotRef.namespace must be set",
    ),
    "other policy": (CONTENTS, a_content_with(deletionPolicy="X"), 'Unsupported value: "X"'),
}


@each_row("row", CREATED)
def test_S61_a_wrong_object_is_refused(kinds: Rest, name: str, row: str) -> None:
    path, body, says = CREATED[row]
    answer = kinds.post(path, {**body, "metadata": {**body["metadata"], "name": name}})
    answer.refused(422, "Invalid", says=says)


CHANGED: dict[str, tuple[Json, str]] = {
    "other handle": ({"source": {"volumeHandle": "w"}}, "volumeHandle is immutable"),
    "no handle": ({"source": {"volumeHandle": None, "snapshotHandle": "s"}}, "volumeHandle is required once set"),
    "other mode": ({"sourceVolumeMode": "Block"}, "sourceVolumeMode is immutable"),
    "no mode": ({"sourceVolumeMode": None}, "sourceVolumeMode is required once set"),
}


@each_row("row", CHANGED)
def test_S61_what_a_content_is_of_does_not_change(kinds: Rest, name: str, row: str) -> None:
    change, says = CHANGED[row]
    body = a_content_with(sourceVolumeMode="Filesystem")
    kinds.post(CONTENTS, {**body, "metadata": {**body["metadata"], "name": name}}).ok(201)
    answer = kinds.patch(f"{CONTENTS}/{name}", {"spec": change})
    answer.refused(422, "Invalid", says=says)
    assert (
        "Retain"
        == kinds.patch(f"{CONTENTS}/{name}", {"spec": {"deletionPolicy": "Retain"}}).ok()["spec"]["deletionPolicy"]
    )
