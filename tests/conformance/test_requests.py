"""Requests and their options, odd ones too, on both servers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.conftest import Server
from tests.support.builders import a_lease, a_va
from tests.support.customkinds import GROUP, a_definition, a_version, installed
from tests.support.paths import LEASES, SECRETS, VAS
from tests.support.rest import MERGE_PATCH, Answer, Rest
from tests.support.rows import each_row

WRONG_UID = "11111111-2222-3333-4444-555555555555"


def test_AO33_generated_names_have_five_letters_of_their_own(api: Rest) -> None:
    body = a_va("")
    body["metadata"] = {"generateName": "vol-"}
    name = api.post(VAS, body).ok(201)["metadata"]["name"]
    assert name.startswith("vol-")
    assert 5 == len(name) - len("vol-")
    assert set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_AO34_a_second_object_of_a_name_is_refused(api: Rest, name: str) -> None:
    api.post(VAS, a_va(name)).ok(201)
    status = api.post(VAS, a_va(name)).refused(
        409, "AlreadyExists", says=f'volumeattachments.storage.k8s.io "{name}" already exists'
    )
    assert {"name": name, "group": "storage.k8s.io", "kind": "volumeattachments"} == status["details"]


@each_row("api_version", ["v1", "meta.k8s.io/v1", "storage.k8s.io/v1"])
def test_AO35_deletion_with_a_wrong_uid_is_a_conflict(api: Rest, name: str, api_version: str) -> None:
    made = api.post(VAS, a_va(name)).ok(201)
    options = {"kind": "DeleteOptions", "apiVersion": api_version}
    wrong = api.delete(f"{VAS}/{name}", {**options, "preconditions": {"uid": WRONG_UID}})
    wrong.refused(409, "Conflict", says=f"the UID in the precondition ({WRONG_UID}) does not match the UID in record")
    api.delete(f"{VAS}/{name}", {**options, "preconditions": {"uid": made["metadata"]["uid"]}}).ok()
    api.get(f"{VAS}/{name}").refused(404, "NotFound")


def test_AO37_strict_validation_refuses_unknown_fields(api: Rest, name: str) -> None:
    body = {**a_va(name), "odd": 1}
    says = 'strict decoding error: unknown field "odd"'
    api.post(VAS, body, fieldValidation="Strict").refused(400, "BadRequest", says=says)
    api.get(f"{VAS}/{name}").refused(404, "NotFound")


@each_row("validation", [None, "Warn"])
def test_AO38_lenient_validation_warns_of_unknown_fields(api: Rest, name: str, validation: str | None) -> None:
    body = a_va(name)
    body["spec"]["odd"] = 1
    answer = api.post(VAS, body, fieldValidation=validation)
    assert "odd" not in answer.ok(201)["spec"]
    assert ['299 - "unknown field \\"spec.odd\\""'] == answer.warnings


@each_row("accept", ["application/vnd.kubernetes.protobuf, */*", "text/html, application/json;q=0.9", "*/*"])
def test_AO40_whoever_can_read_json_gets_it_or_what_they_prefer(server: Server, accept: str) -> None:
    answer = server.api.request("GET", VAS, headers={"Accept": accept})
    assert 200 == answer.status
    packs = server.is_real and "protobuf" in accept
    kinds = ("application/json", "application/vnd.kubernetes.protobuf") if packs else ("application/json",)
    assert (answer.headers["Content-Type"] or "").partition(";")[0] in kinds


def test_nothing_fits_who_can_read_neither(api: Rest) -> None:
    api.request("GET", VAS, headers={"Accept": "text/html"}).refused(406, "NotAcceptable")


def test_AO43_a_dry_run_stores_nothing(api: Rest, name: str) -> None:
    version = api.get(VAS).ok()["metadata"]["resourceVersion"]
    with api.watch(VAS, resourceVersion=version, fieldSelector=f"metadata.name={name}") as watch:
        made = api.post(VAS, a_va(name), dryRun="All").ok(201)
        assert made["metadata"]["uid"]
        assert not made["metadata"].get("resourceVersion")
        api.get(f"{VAS}/{name}").refused(404, "NotFound")
        stored = api.post(VAS, a_va(name)).ok(201)
        assert [stored["metadata"]["uid"]] == [event["object"]["metadata"]["uid"] for event in watch.take(1)]


@each_row("verb", ["put", "patch", "delete"])
def test_dry_runs_of_changes_change_nothing(api: Rest, name: str, verb: str) -> None:
    made = api.post(VAS, a_va(name)).ok(201)
    change = {**made, "metadata": {**made["metadata"], "labels": {"dry": "run"}}}
    path = f"{VAS}/{name}"
    answers = {
        "put": lambda: api.put(path, change, dryRun="All"),
        "patch": lambda: api.patch(path, {"metadata": {"labels": {"dry": "run"}}}, dryRun="All"),
        "delete": lambda: api.delete(path, dryRun="All"),
    }
    answers[verb]().ok()
    assert made["metadata"]["resourceVersion"] == api.get(path).ok()["metadata"]["resourceVersion"]


@each_row(
    ("method", "path"),
    [("PUT", VAS), ("POST", f"{VAS}/x"), ("PATCH", VAS), ("POST", "/api/v1/secrets"), ("DELETE", "/api/v1/secrets")],
)
def test_a_verb_that_does_not_exist_is_405(api: Rest, method: str, path: str) -> None:
    status = api.request(method, path, {}).refused(405, "MethodNotAllowed")
    assert {} == status["details"]


PLACES = (
    "nosuch",
    "nosuch/x",
    "nosuch/x/status",
    "namespaces/default/nosuch",
    "namespaces/default/nosuch/x",
    "namespaces/none/nosuch",
)


def asked_of(api: Rest, path: str) -> Iterator[Answer]:
    """GET or LIST, WATCH, POST, PUT, PATCH, DELETE."""
    yield api.get(path)
    yield api.get(path, watch="true", timeoutSeconds="1")
    for method, body in (("POST", {"metadata": {"name": "x"}}), ("PUT", {"metadata": {"name": "x"}}), ("DELETE", None)):
        yield api.request(method, path, body)
    yield api.patch(path, {"metadata": {"labels": {"a": "b"}}})


@each_row("place", PLACES)
@each_row("root", ["/api/v1", "/api/v9", "/apis/storage.k8s.io/v1", "/apis/storage.k8s.io/v9"])
def test_a_resource_that_a_built_in_group_has_not_is_404(api: Rest, root: str, place: str) -> None:
    """So it is for a version that the group has not."""
    for answer in asked_of(api, f"{root}/{place}"):
        assert {} == answer.refused(404, "NotFound", says="the server could not find the requested resource")["details"]


@each_row("path", [f"{VAS}/x/nosuch", "/apis/storage.k8s.io/v1/namespaces/default/volumeattachments", "/api/v9"])
def test_a_path_that_a_built_in_group_has_not_is_404(api: Rest, path: str) -> None:
    for answer in asked_of(api, path):
        assert {} == answer.refused(404, "NotFound", says="the server could not find the requested resource")["details"]


@each_row("place", PLACES)
@each_row("root", ["/apis/nosuch.test/v1", f"/apis/{GROUP}/v1", f"/apis/{GROUP}/v9"])
def test_a_resource_that_no_built_in_group_would_have_is_404_in_text(api: Rest, root: str, place: str) -> None:
    """An unknown group, and what a group of custom kinds leaves out: clients meet that before a definition comes."""
    installed(api, a_definition("gulls", a_version({"type": "object"})))
    for answer in asked_of(api, f"{root}/{place}"):
        assert is_page(answer), answer


@each_row("path", ["/no/such/path", "/apis/nosuch.test", "/apis/nosuch.test/v1", "/apis//v1/x", "/apis/nosuch.test//x"])
def test_a_path_that_does_not_exist_is_404_in_text(api: Rest, path: str) -> None:
    for answer in asked_of(api, path):
        assert is_page(answer), answer


def is_page(answer: Answer) -> bool:
    told = answer.status, answer.headers["Content-Type"], answer.headers["X-Content-Type-Options"], answer.body
    return told == (404, "text/plain; charset=utf-8", "nosniff", b"404 page not found\n")


def test_a_wrong_token_is_401(api: Rest) -> None:
    api.request("GET", VAS, headers={"Authorization": "Bearer wrong"}).refused(401, "Unauthorized", says="Unauthorized")


@each_row(
    ("body", "says"),
    [
        (
            {"apiVersion": "storage.k8s.io/v1beta1", "kind": "VolumeAttachment"},
            "does not match the expected API version",
        ),
        ({"spec": {"attacher": 5}}, "json: cannot unmarshal number into Go struct field"),
        ({"metadata": {"labels": []}}, "json: cannot unmarshal array into Go struct field"),
        ([], ""),
        (b"{", ""),
        (b"", ""),
        (b"\xff\xfe", ""),
    ],
    ids=["version", "number", "list", "no_object", "cut", "empty", "junk"],
)
def test_a_body_that_can_not_be_read_is_400(api: Rest, body: object, says: str) -> None:
    api.post(VAS, body).refused(400, "BadRequest", says=says)


def test_a_body_of_another_name_is_400(api: Rest, name: str) -> None:
    made = api.post(VAS, a_va(name)).ok(201)
    made["metadata"]["name"] = "other"
    says = f"the name of the object (other) does not match the name on the URL ({name})"
    api.put(f"{VAS}/{name}", made).refused(400, "BadRequest", says=says)
    del made["metadata"]["name"]
    api.put(f"{VAS}/{name}", made).refused(400, "BadRequest", says="name must be provided")


def test_a_body_of_another_namespace_is_400(api: Rest, name: str) -> None:
    lease = a_lease(name)
    lease["metadata"]["namespace"] = "other"
    says = "the namespace of the provided object does not match the namespace sent on the request"
    api.post(LEASES, lease).refused(400, "BadRequest", says=says)


def test_nothing_is_made_in_a_missing_namespace(api: Rest) -> None:
    status = api.post("/api/v1/namespaces/no-such/secrets", {"metadata": {"name": "x"}}).refused(404, "NotFound")
    assert 'namespaces "no-such" not found' == status["message"]
    assert [] == api.get("/api/v1/namespaces/no-such/secrets").ok()["items"]


def test_a_body_of_an_unknown_media_type_is_415(api: Rest, name: str) -> None:
    api.request("POST", VAS, b"x", "text/x-odd").refused(
        415, "UnsupportedMediaType", says="the body of the request was in an unknown format"
    )
    api.post(VAS, a_va(name)).ok(201)
    api.patch(f"{VAS}/{name}", {}, "application/json").refused(415, "UnsupportedMediaType")


def test_a_body_of_more_than_three_mebibytes_is_413(api: Rest, name: str) -> None:
    body = a_va(name, annotations={"a": "x" * (3 * 1024 * 1024 + 1)})
    api.post(VAS, body).refused(413, "RequestEntityTooLarge")
    api.get(f"{VAS}/{name}").refused(404, "NotFound")


@each_row(
    ("query", "cause"),
    [
        ({"dryRun": "Some"}, ("FieldValueNotSupported", "dryRun")),
        ({"fieldValidation": "Maybe"}, ("FieldValueNotSupported", "fieldValidation")),
        ({"fieldManager": "x" * 129}, ("FieldValueTooLong", "fieldManager")),
    ],
    ids=["dry_run", "validation", "manager"],
)
def test_options_that_do_not_exist_are_422(api: Rest, name: str, query: dict[str, str], cause: tuple[str, str]) -> None:
    api.post(VAS, a_va(name), **query).refused(422, "Invalid", cause)


@each_row("path", [VAS, "/version", "/livez", "/api/v1/nope", "/nope"])
@each_row(
    ("timeout", "says"),
    [
        ("abc", 'time: invalid duration "abc"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_a_timeout_that_is_no_duration_is_400(api: Rest, path: str, timeout: str, says: str) -> None:
    api.get(path, timeout=timeout).refused(
        400, "BadRequest", says=f"invalid timeout specified in the request URL - {says}"
    )


@each_row("timeout", ["", "-1s", "0s", "0", "1h", ".5s", "1h1m"])
def test_a_timeout_that_is_a_duration_is_taken(api: Rest, timeout: str) -> None:
    api.get(VAS, timeout=timeout).ok()


def test_a_watch_has_no_timeout_of_its_request(api: Rest) -> None:
    assert 200 == api.get(VAS, watch="true", timeoutSeconds="1", timeout="abc").status


def test_a_patch_that_makes_the_object_unreadable_is_422(api: Rest, name: str) -> None:
    api.post(VAS, a_va(name)).ok(201)
    wrong = api.patch(f"{VAS}/{name}", {"metadata": {"labels": 5}}, MERGE_PATCH)
    wrong.refused(422, "Invalid", ("FieldValueInvalid", "patch"), says="json: cannot unmarshal number")


def test_a_collection_is_deleted_by_labels(api: Rest, name: str) -> None:
    for number, label in enumerate("aab"):
        api.post(SECRETS, {"metadata": {"name": f"{name}-{number}", "labels": {name: label}}}).ok(201)
    api.request("DELETE", SECRETS, labelSelector=f"{name}=a").ok()
    found = api.get(SECRETS, labelSelector=name).ok()["items"]
    assert [f"{name}-2"] == [item["metadata"]["name"] for item in found]
