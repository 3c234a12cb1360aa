"""Real clients on the embedded API server: kube-controller-manager and the Go sidecars, unchanged, carry a volume
through its life.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import a_claim
from tests.support.paths import LEASES, PVCS, PVS, VAS
from tests.support.storage_parts import (
    CLASS,
    NODE,
    NODE_ID,
    SIDECARS,
    SNAPSHOT_CLASS,
    SNAPSHOT_CONTENTS,
    SNAPSHOTS,
    StorageParts,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
WAIT_S = 60.0


@pytest.fixture(scope="module")
def all_parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageParts]:
    """Shared by the tests, each with names of its own; at the end nothing of any is left."""
    with StorageParts(tmp_path_factory.mktemp("storage")) as parts:
        yield parts
        found = {
            path: [one["metadata"]["name"] for one in parts.api.get(path).ok()["items"]]
            for path in (PVCS, PVS, VAS, SNAPSHOTS)
        }
        assert {path: [] for path in found} == found
        assert [] == [*parts.driver.volumes.iterdir(), *parts.driver.snapshots.iterdir()]


@pytest.fixture
def parts(all_parts: StorageParts, request: pytest.FixtureRequest) -> Iterator[StorageParts]:
    """The parts, all alive after the test as before; their words where it failed."""
    failed_before = request.session.testsfailed
    yield all_parts
    if request.session.testsfailed > failed_before:
        print(all_parts.logs())
    all_parts.assert_alive()


class Story:
    """One claim, and what follows from it."""

    def __init__(self, parts: StorageParts, name: str, **spec: Any) -> None:
        self.parts, self.api, self.driver, self.name = parts, parts.api, parts.driver, name
        self.claim, self.pod, self.snapshot = f"{PVCS}/{name}", f"{PODS}/{name}", f"{SNAPSHOTS}/{name}"
        self.api.post(PVCS, a_claim(name, storageClassName=CLASS, **spec)).ok(201)

    def bound(self) -> str:
        """Waits for the claim's volume; gives its handle."""
        eventually(lambda: self.status(self.claim).get("phase") == "Bound", WAIT_S, f"claim {self.name} is bound")
        self.volume = f"{PVS}/{self.api.get(self.claim).ok()['spec']['volumeName']}"
        volume = self.api.get(self.volume).ok()
        assert (self.name, "Bound") == (volume["spec"]["claimRef"]["name"], volume["status"]["phase"])
        self.handle: str = volume["spec"]["csi"]["volumeHandle"]
        return self.handle

    def status(self, path: str) -> Json:
        found: Json = self.api.get(path).ok().get("status") or {}
        return found

    def use(self) -> None:
        """A pod on the node uses the volume, and it is attached."""
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": self.name}}]
        spec = {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        self.api.post(PODS, {"metadata": {"name": self.name}, "spec": spec}).ok(201)
        eventually(
            lambda: [one["status"]["attached"] for one in self.attachments()] == [True],
            WAIT_S,
            "the volume is attached",
        )
        assert [NODE_ID] == self.driver.nodes(self.handle)

    def attachments(self) -> list[Json]:
        volume = self.volume.rpartition("/")[2]
        return [
            one for one in self.api.get(VAS).ok()["items"] if one["spec"]["source"]["persistentVolumeName"] == volume
        ]

    def _is_gone(self, path: str) -> bool:
        return self.api.get(path).status == 404

    def end(self) -> None:
        """The pod, if any, then the claim; waits until nothing is left of it."""
        self.api.delete(self.pod, {"gracePeriodSeconds": 0})
        self.api.delete(self.claim).ok()
        for path in (self.claim, self.volume):
            eventually(functools.partial(self._is_gone, path), WAIT_S, f"{path} is gone")
        assert [] == self.attachments()
        assert not (self.driver.volumes / self.handle).exists()


def test_a_claim_gets_a_volume_that_is_attached_where_its_pod_is(parts: StorageParts) -> None:
    story = Story(parts, "attached")
    story.bound()
    story.use()
    claim = parts.api.get(story.claim).ok()
    assert {"storage": "1Gi"} == claim["status"]["capacity"]
    parts.api.delete(story.claim).ok()
    assert parts.api.get(story.claim).ok()["metadata"]["deletionTimestamp"], "a pod uses it"
    parts.api.delete(story.pod, {"gracePeriodSeconds": 0}).ok()
    eventually(lambda: story.attachments() == [], WAIT_S, "the volume is detached")
    eventually(lambda: parts.api.get(story.volume).status == 404, WAIT_S, "the volume is gone")
    assert not (parts.driver.volumes / story.handle).exists()
    reasons = {event["reason"] for event in parts.api.get("/api/v1/namespaces/default/events").ok()["items"]}
    assert {"ProvisioningSucceeded", "SuccessfulAttachVolume"} <= reasons


def test_a_claim_grows_in_use(parts: StorageParts) -> None:
    story = Story(parts, "growing")
    story.bound()
    story.use()
    parts.api.patch(story.claim, {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}).ok()
    eventually(lambda: story.status(story.claim)["capacity"] == {"storage": "3Gi"}, WAIT_S, "the claim has grown")
    assert {"storage": "3Gi"} == parts.api.get(story.volume).ok()["spec"]["capacity"]
    story.end()


def test_a_snapshot_is_taken_and_restored(parts: StorageParts) -> None:
    story = Story(parts, "saved")
    (parts.driver.data(story.bound()) / "text").write_text("what was written")
    source = {"persistentVolumeClaimName": story.name}
    head = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": story.name}}
    parts.api.post(SNAPSHOTS, {**head, "spec": {"volumeSnapshotClassName": SNAPSHOT_CLASS, "source": source}}).ok(201)
    eventually(lambda: story.status(story.snapshot).get("readyToUse"), WAIT_S, "the snapshot is ready")
    assert "1Gi" == story.status(story.snapshot)["restoreSize"]

    origin = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": story.name}
    restored = Story(parts, "restored", dataSource=origin)
    assert "what was written" == (parts.driver.data(restored.bound()) / "text").read_text()

    parts.api.delete(story.snapshot).ok()
    for path in (
        story.snapshot,
        f"{SNAPSHOT_CONTENTS}/{story.status(story.snapshot)['boundVolumeSnapshotContentName']}",
    ):
        eventually(lambda path=path: parts.api.get(path).status == 404, WAIT_S, f"{path} is gone")  # type: ignore[misc]
    assert [] == list(parts.driver.snapshots.iterdir())
    story.end()
    restored.end()


def test_the_sidecars_lead(parts: StorageParts) -> None:
    def leading() -> set[str]:
        leases = parts.api.get(LEASES).ok()["items"]
        return {lease["metadata"]["name"] for lease in leases if lease["spec"]["holderIdentity"]}

    eventually(lambda: len(leading()) > len(SIDECARS), WAIT_S, "everybody leads")
    assert {
        f"external-attacher-leader-{parts.driver.name.replace('.', '-')}",
        "snapshot-controller-leader",
    } <= leading()


@pytest.mark.long
def test_clients_go_on_when_the_server_was_killed(parts: StorageParts) -> None:
    before = Story(parts, "before")
    before.bound()
    during = Story(parts, "during")
    parts.kill_server()
    parts.start_server()
    during.api = before.api = parts.api
    during.bound()
    after = Story(parts, "after")
    after.bound()
    after.use()
    for story in (before, during, after):
        story.end()
