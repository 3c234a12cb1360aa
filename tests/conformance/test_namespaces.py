"""Namespaces that are deleted: what may be deleted, what is refused meanwhile, how they get empty. On both servers, the
real one with its namespace controller.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import a_lease, a_secret
from tests.support.paths import NAMESPACES
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

Json = dict[str, Any]
HOLD, OTHER = "example.com/hold", "example.com/other"
NO_UID = "11111111-2222-3333-4444-555555555555"
WAIT_S = 60.0


class Space:
    """A namespace of the test's own."""

    def __init__(self, api: Rest, name: str, **body: Any) -> None:
        self.api, self.name, self.path = api, name, f"{NAMESPACES}/{name}"
        self.secrets, self.leases = f"{self.path}/secrets", f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases"
        self.made: Json = api.post(NAMESPACES, {**body, "metadata": {"name": name, **body.get("metadata", {})}}).ok(201)

    def secret(self, name: str, *finalizers: str) -> None:
        self.api.post(self.secrets, a_secret(name, finalizers=list(finalizers))).ok(201)

    def lease(self, name: str, *finalizers: str) -> None:
        self.api.post(self.leases, {**a_lease(name), "metadata": {"name": name, "finalizers": list(finalizers)}}).ok(
            201
        )

    def release(self, path: str) -> None:
        self.api.patch(path, {"metadata": {"finalizers": None}}).ok()

    def delete(self, **options: Any) -> Any:
        return self.api.delete(self.path, options or None)

    def finalize(self, *finalizers: str, **more: Any) -> Any:
        return self.api.put(
            f"{self.path}/finalize", {"metadata": {"name": self.name}, "spec": {"finalizers": list(finalizers)}, **more}
        )

    def now(self) -> Json:
        return self.api.get(self.path).ok()

    def is_gone(self) -> bool:
        return self.api.get(self.path).status == 404

    def condition(self, kind: str) -> tuple[str, str, str]:
        """status, reason, message; empty before there are any."""
        found = {one["type"]: one for one in self.now()["status"].get("conditions") or []}
        one = found.get(kind, {})
        return one.get("status", ""), one.get("reason", ""), one.get("message", "")


def test_deleted_namespaces_are_emptied_and_go(api: Rest, name: str) -> None:
    """All at once, since the real controller lets some seconds pass first."""
    full, held = Space(api, f"{name}-full"), Space(api, f"{name}-held")
    marked, foreign = Space(api, f"{name}-marked", metadata={"finalizers": [HOLD]}), Space(api, f"{name}-foreign")
    full.secret("a")
    full.lease("b")
    api.post(f"{full.path}/events", {"metadata": {"name": "c"}, "involvedObject": {"namespace": full.name}}).ok(201)
    for secret, finalizers in (("one", [HOLD]), ("two", [HOLD, OTHER]), ("free", []), ("orphans", ["orphan"])):
        held.secret(secret, *finalizers)
    held.lease("three", OTHER)
    foreign.finalize("kubernetes", OTHER).ok()
    for space in (full, held, marked, foreign):
        assert "Terminating" == space.delete().ok()["status"]["phase"]

    eventually(full.is_gone, WAIT_S, "the full namespace is gone")
    assert [404, 404] == [api.get(path).status for path in (f"{full.secrets}/a", f"{full.leases}/b")]

    text = (
        "Some resources are remaining: leases.coordination.k8s.io has 1 resource instances, secrets. has 2 "
        "resource instances"
    )
    remaining = ("True", "SomeResourcesRemain", text)
    eventually(
        lambda: held.condition("NamespaceContentRemaining") == remaining,
        WAIT_S,
        "the held namespace tells what it holds",
    )
    text = (
        f"Some content in the namespace has finalizers remaining: {HOLD} in 2 resource instances, {OTHER} in 2 "
        "resource instances"
    )
    assert ("True", "SomeFinalizersRemain", text) == held.condition("NamespaceFinalizersRemaining")
    assert all("deletionTimestamp" in item["metadata"] for item in api.get(held.secrets).ok()["items"])

    fine = {
        "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
        "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    }
    eventually(lambda: marked.now()["spec"] == {}, WAIT_S, "the marked namespace is empty")
    told = [(one["type"], one["status"], one["reason"], one["message"]) for one in marked.now()["status"]["conditions"]]
    assert [(kind, "False", *words) for kind, words in fine.items()] == told
    marked.release(marked.path)
    assert marked.is_gone()

    eventually(lambda: foreign.now()["spec"] == {"finalizers": [OTHER]}, WAIT_S, "the other finalizer is left")
    foreign.finalize().ok()
    assert foreign.is_gone()

    for path in (f"{held.secrets}/one", f"{held.secrets}/two", f"{held.leases}/three"):
        held.release(path)
    eventually(held.is_gone, WAIT_S, "the held namespace is gone")
    again = Space(api, held.name)
    assert held.made["metadata"]["uid"] != again.made["metadata"]["uid"]
    again.secret("one")


@pytest.fixture
def space(api: Rest, name: str) -> Space:
    return Space(api, name)


def test_a_namespace_is_marked_without_a_grace_period(space: Space) -> None:
    marked = space.delete().ok()
    assert ("Namespace", "Terminating", ["kubernetes"]) == (
        marked["kind"],
        marked["status"]["phase"],
        marked["spec"]["finalizers"],
    )
    assert "deletionTimestamp" in marked["metadata"]
    assert "deletionGracePeriodSeconds" not in marked["metadata"]


REFUSED_WRITES = ["post", "generated", "dry_run", "put", "event"]


@each_row("row", REFUSED_WRITES)
def test_nothing_new_comes_into_a_namespace_that_goes(api: Rest, name: str, row: str) -> None:
    space = Space(api, name)
    space.secret("held", HOLD)
    space.delete().ok()
    answer = {
        "post": lambda: api.post(space.secrets, a_secret("new")),
        "generated": lambda: api.post(space.secrets, {"metadata": {"generateName": "new"}}),
        "dry_run": lambda: api.post(space.secrets, a_secret("new"), dryRun="All"),
        "put": lambda: api.put(f"{space.leases}/new", a_lease("new")),
        "event": lambda: api.post(
            f"{space.path}/events", {"metadata": {"name": "new"}, "involvedObject": {"namespace": space.name}}
        ),
    }[row]()
    says = f"unable to create new content in namespace {space.name} because it is being terminated"
    status = answer.refused(403, "Forbidden", ("NamespaceTerminating", "metadata.namespace"), says=says)
    assert f"namespace {space.name} is being terminated" == status["details"]["causes"][0]["message"]
    api.patch(f"{space.secrets}/held", {"metadata": {"annotations": {"a": "b"}}}).ok()  # what is there may change
    space.release(f"{space.secrets}/held")


@each_row("name_", ["default", "kube-system", "kube-public"])
def test_a_namespace_that_everybody_needs_stays(api: Rest, name_: str) -> None:
    says = f'namespaces "{name_}" is forbidden: this namespace may not be deleted'
    api.delete(f"{NAMESPACES}/{name_}").refused(403, "Forbidden", says=says)


def test_the_namespace_of_the_nodes_leases_may_be_deleted(api: Rest) -> None:
    assert "Terminating" == api.delete(f"{NAMESPACES}/kube-node-lease", dryRun="All").ok()["status"]["phase"]
    assert "Active" == api.get(f"{NAMESPACES}/kube-node-lease").ok()["status"]["phase"]


@each_row(
    ("field", "value", "says"),
    [
        ("uid", NO_UID, f"Precondition failed: UID in precondition: {NO_UID}, UID in object meta: "),
        (
            "resourceVersion",
            "1",
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: ",
        ),
    ],
)
def test_preconditions_are_told_in_words_of_their_own(api: Rest, name: str, field: str, value: str, says: str) -> None:
    space = Space(api, name)
    space.delete(preconditions={field: value}).refused(409, "Conflict", says=says)
    assert "Active" == space.now()["status"]["phase"]


@each_row(
    ("options", "status", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, 200, {HOLD, "foregroundDeletion"}),
        ({"propagationPolicy": "Orphan"}, 200, {HOLD, "orphan"}),
        ({"orphanDependents": False}, 202, {HOLD, "foregroundDeletion"}),
        ({"gracePeriodSeconds": 5}, 200, {HOLD}),
    ],
    ids=["foreground", "orphan", "old_background", "grace"],
)
def test_a_namespace_takes_policies_too(api: Rest, name: str, options: Json, status: int, finalizers: set[str]) -> None:
    space = Space(api, name, metadata={"finalizers": [HOLD]})
    answer = space.delete(**options).ok(status)
    assert finalizers == set(answer["metadata"]["finalizers"])
    assert "deletionGracePeriodSeconds" not in answer["metadata"]
    space.release(space.path)


def test_namespaces_go_one_by_one(api: Rest) -> None:
    api.delete(NAMESPACES).refused(405, "MethodNotAllowed")


# /finalize


def test_finalize_writes_the_finalizers_and_no_status(space: Space) -> None:
    answer = space.finalize(OTHER, "kubernetes", status={"phase": "Terminating"}).ok()
    assert ({"finalizers": [OTHER, "kubernetes"]}, {"phase": "Active"}) == (answer["spec"], answer["status"])
    assert [OTHER, "kubernetes"] == space.now()["spec"]["finalizers"]


def test_other_endpoints_leave_the_finalizers(space: Space) -> None:
    space.api.patch(space.path, {"spec": {"finalizers": [OTHER]}}).ok()
    space.api.patch(f"{space.path}/status", {"spec": {"finalizers": [OTHER]}}).ok()
    assert ["kubernetes"] == space.now()["spec"]["finalizers"]


@each_row("method", ["GET", "PATCH", "POST", "DELETE"])
def test_finalize_is_written_by_put_alone(api: Rest, name: str, method: str) -> None:
    space = Space(api, name)
    body = {"spec": {"finalizers": []}} if method in ("PATCH", "POST") else None
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    space.api.request(method, f"{space.path}/finalize", body, content_type).refused(405, "MethodNotAllowed")


def test_finalizers_have_qualified_names(space: Space) -> None:
    wrong = space.finalize("bad name")
    wrong.refused(
        422,
        "Invalid",
        ("FieldValueInvalid", "spec.finalizers[0]"),
        says="name is neither a standard finalizer name nor is it",
    )


def test_finalize_looks_at_versions_and_names(space: Space) -> None:
    api, path = space.api, f"{space.path}/finalize"
    api.put(path, {"metadata": {"name": space.name, "resourceVersion": "1"}, "spec": {}}).refused(409, "Conflict")
    api.put(path, {"metadata": {"name": "other"}, "spec": {}}).refused(400, "BadRequest")
    api.put(f"{space.path}-not/finalize", {"metadata": {"name": f"{space.name}-not"}, "spec": {}}).refused(
        404, "NotFound"
    )


def test_who_finalizes_by_hand_leaves_the_content_behind(space: Space) -> None:
    api = space.api
    space.secret("held", HOLD)
    space.delete().ok()
    space.finalize().ok()
    assert space.is_gone()
    assert 200 == api.get(f"{space.secrets}/held").status
    says = f'namespaces "{space.name}" not found'
    api.post(space.secrets, a_secret("new")).refused(404, "NotFound", says=says)
    api.patch(f"{space.secrets}/held", {"metadata": {"labels": {"a": "b"}}}).refused(404, "NotFound", says=says)
    again = Space(api, space.name)
    again.release(f"{space.secrets}/held")


def test_a_namespace_without_finalizers_is_marked_first_too(space: Space) -> None:
    space.finalize().ok()
    assert "Terminating" == space.delete().ok()["status"]["phase"]
    assert not space.is_gone()
    space.delete().ok()
    assert space.is_gone()
